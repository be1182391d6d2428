/* pjrt_joined.c - a PJRT library whose clients of several processes are one, as those of TPUs and GPUs are. XLA's CPU
 * library, which does the work, connects no processes: here every process executes the programs of all, with arguments
 * that they exchange in shared memory, and keeps the results of its own.
 *
 * It checks what the plug-in passes: the number of this process and of all, and functions that get and put keys, by
 * which processes agree on the memory. PRETENDED_BY_LIBRARY names XLA's library; PRETENDED_CHIP, the only chip that a
 * process by itself can see; PRETENDED_PLATFORM, what it says it is. */
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pjrt_abi.h"

enum {
    MOST_RANKS = 4,
    MOST_CHIPS = 4,
    MOST_BYTES = 8 << 20,
    MOST_PROGRAMS = 256,
    MOST_ARGUMENTS = 512,
    MOST_FUNCTIONS = 200
};

typedef struct meeting {
    atomic_uint arrived; /* ever */
    char part[MOST_RANKS][MOST_BYTES];
} meeting;

static const pjrt_table *real;
static _Alignas(pjrt_table) char own[sizeof(pjrt_table) + MOST_FUNCTIONS * sizeof(pjrt_function *)]; /* its table */
static int rank, ranks = 1, own_chips = 1; /* chips: of each rank */
static meeting *shared;
static unsigned rounds;
static pjrt_client *client;
static pjrt_chip *const *chips;          /* of rank 0, of rank 1, ... */
static const void *joint[MOST_PROGRAMS]; /* programs of all */
static int joints;

/* ---- calls of the real library ---- */

static void must(bool condition, const char *what)
{
    if (condition) return;
    fprintf(stderr, "pjrt_joined: %s\n", what);
    abort();
}

static pjrt_error *call(size_t function, void *args, size_t bytes)
{
    return pjrt_enter(real, function, args, bytes);
}
#define CALL(function, args) must(!call(PJRT_##function, args, sizeof *(args)), #function " failed")

static void finish(pjrt_event *event)
{
    pjrt_object_args args = {.object = event};
    CALL(Event_Await, &args);
    CALL(Event_Destroy, &args);
}

static void drop(pjrt_buffer *buffer)
{
    pjrt_object_args args = {.object = buffer};
    CALL(Buffer_Destroy, &args);
}

/* ---- meeting ---- */

static void meet(void)
{
    unsigned target = ++rounds * (unsigned)ranks;
    atomic_fetch_add(&shared->arrived, 1);
    while (atomic_load(&shared->arrived) < target) sched_yield();
}

static pjrt_error *make_error(int code, const char *text, size_t length)
{
    (void)code;
    return (pjrt_error *)strndup(text, length);
}

static void put(const pjrt_create_args *create, const char *key, const char *value)
{
    pjrt_callback_error *error = make_error;
    pjrt_put_args args = {.size = sizeof args,
                          .key = key,
                          .key_size = strlen(key),
                          .value = value,
                          .value_size = strlen(value),
                          .error = &error,
                          .user = create->put_user};
    must(!create->put(&args), "a key cannot be put");
}

static bool get(const pjrt_create_args *create, const char *key, int milliseconds, char *value, size_t size)
{
    pjrt_callback_error *error = make_error;
    pjrt_get_args args = {.size = sizeof args,
                          .key = key,
                          .key_size = strlen(key),
                          .milliseconds = milliseconds,
                          .error = &error,
                          .user = create->get_user};
    pjrt_error *failed = create->get(&args);
    if (!failed) {
        snprintf(value, size, "%.*s", (int)args.value_size, args.value);
        args.release(args.value);
    }
    free(failed);
    return !failed;
}

static bool is_there(const pjrt_create_args *create, const char *key)
{
    pjrt_callback_error *error = make_error;
    pjrt_try_get_args args = {
        .size = sizeof args, .key = key, .key_size = strlen(key), .error = &error, .user = create->try_get_user};
    pjrt_error *failed = create->try_get(&args);
    if (!failed) args.release(args.value);
    free(failed);
    return !failed;
}

static int option(const pjrt_create_args *create, const char *name)
{
    const pjrt_value *all = create->options;
    for (size_t i = 0; i < create->option_count; i++)
        if (all[i].name_size == strlen(name) && memcmp(all[i].name, name, all[i].name_size) == 0)
            return (int)all[i].value.integer;
    return -1;
}

/* Rank 0 chooses the name of the memory, and removes it when all have come. */
static void find_memory(const pjrt_create_args *create)
{
    char name[60], key[20], other[20];
    must(!is_there(create, "nobody sets this"), "a key is there that nobody has put");
    must(!get(create, "nobody sets this", 10, name, sizeof name), "a key came that nobody has put");
    if (rank == 0) {
        snprintf(name, sizeof name, "/pjrt-joined-%d", (int)getpid());
        put(create, "memory", "another key, though it begins alike");
        put(create, "replaced", "old");
        put(create, "replaced", "new");
        put(create, "memory of all", name);
    }
    must(get(create, "memory of all", 60000, name, sizeof name), "the key of rank 0 did not come");
    must(get(create, "replaced", 0, other, sizeof other) && strcmp(other, "new") == 0, "a value was not replaced");
    int file = shm_open(name, O_CREAT | O_RDWR, 0600);
    must(file >= 0 && ftruncate(file, sizeof(meeting)) == 0, "no shared memory");
    shared = mmap(NULL, sizeof(meeting), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    must(shared != MAP_FAILED, "no shared memory");
    close(file);
    snprintf(key, sizeof key, "rank %d", rank);
    put(create, key, key);
    for (int r = 0; r < ranks; r++) {
        snprintf(key, sizeof key, "rank %d", r);
        must(get(create, key, 60000, other, sizeof other) && strcmp(key, other) == 0, "a key has another's value");
    }
    if (rank == 0) shm_unlink(name);
}

static pjrt_error *client_create(void *block)
{
    pjrt_create_args *args = block;
    const char *alone = getenv("PRETENDED_CHIP");
    if (!alone) {
        ranks = option(args, "num_nodes");
        rank = option(args, "node_id");
        must(ranks > 1 && ranks <= MOST_RANKS && rank >= 0 && rank < ranks, "node_id or num_nodes is missing");
        must(args->get && args->put && args->try_get, "functions for keys are missing");
        find_memory(args);
    }
    pjrt_create_args plain = {.client = NULL};
    CALL(Client_Create, &plain);
    client = args->client = plain.client;
    pjrt_list_args all = {.object = client};
    CALL(Client_AddressableDevices, &all);
    const char *asked = getenv("LOCKSTEP_XLA_CHIPS");
    own_chips = asked ? atoi(asked) : 1;
    must(all.length >= (size_t)(ranks * own_chips) && ranks * own_chips <= MOST_CHIPS, "XLA has too few chips");
    chips = (pjrt_chip *const *)all.list + (alone ? atoi(alone) : 0);
    return NULL;
}

static pjrt_error *client_devices(void *block)
{
    pjrt_list_args *args = block;
    args->list = chips;
    args->length = (size_t)(ranks * own_chips);
    return NULL;
}

static pjrt_error *client_addressable(void *block)
{
    pjrt_list_args *args = block;
    args->list = chips + rank * own_chips;
    args->length = (size_t)own_chips;
    return NULL;
}

/* ---- programs ---- */

static bool has(const pjrt_program *program, const char *words)
{
    return memmem(program->code, program->code_size, words, strlen(words)) != NULL;
}

/* A TPU divides memory into lines of 128 elements: tensors of lines of four would take 32 times their size. */
static pjrt_error *client_compile(void *block)
{
    pjrt_compile_args *args = block;
    const char *platform = getenv("PRETENDED_PLATFORM");
    must(!platform || strcmp(platform, "tpu") != 0 || !has(args->program, "x4xui32>"), "words lie in lines of four");
    char wanted[40];
    snprintf(wanted, sizeof wanted, "num_replicas = %d ", ranks);
    bool is_joint = ranks > 1 && has(args->program, wanted);
    pjrt_error *error = real->function[PJRT_Client_Compile](block);
    must(joints < MOST_PROGRAMS, "too many programs");
    if (!error && is_joint) joint[joints++] = args->loaded;
    return error;
}

static bool is_joint(const void *loaded)
{
    for (int i = 0; i < joints; i++)
        if (joint[i] == loaded) return true;
    return false;
}

typedef struct type_args {
    PJRT_HEAD;
    const pjrt_buffer *buffer;
    int32_t type; /* out */
} type_args;

typedef struct dims_args {
    PJRT_HEAD;
    const pjrt_buffer *buffer;
    const int64_t *dims; /* out */
    size_t ndim;         /* out */
} dims_args;

enum { Buffer_ElementType = 59, Buffer_Dimensions = 60 };

static size_t size_of(int32_t type)
{
    switch (type) {
    case PJRT_PRED:
    case PJRT_S8:
    case PJRT_U8: return 1;
    case PJRT_F16:
    case PJRT_BF16: return 2;
    case PJRT_S64:
    case PJRT_U64:
    case PJRT_F64: return 8;
    default: return 4;
    }
}

/* An argument on a chip of this process, written to shared memory; the same of another rank, read from there onto its
 * chip. Returns the place of the next. */
static size_t exchange(pjrt_buffer *mine, int chip, size_t at, int other, pjrt_buffer **theirs)
{
    type_args type = {.buffer = mine};
    dims_args dims = {.buffer = mine};
    must(!call(Buffer_ElementType, &type, sizeof type) && !call(Buffer_Dimensions, &dims, sizeof dims), "no shape");
    size_t bytes = size_of(type.type);
    int64_t order[8];
    for (size_t i = 0; i < dims.ndim; i++) {
        bytes *= (size_t)dims.dims[i];
        order[i] = (int64_t)(dims.ndim - 1 - i);
    }
    must(at + bytes <= MOST_BYTES, "arguments are too large");
    if (other < 0) {
        pjrt_layout layout = {.size = sizeof layout};
        layout.tiled.size = sizeof layout.tiled;
        layout.tiled.minor_to_major = order;
        layout.tiled.ndim = dims.ndim;
        pjrt_download_args down = {.buffer = mine, .layout = &layout, .to = shared->part[rank] + at, .to_size = bytes};
        CALL(Buffer_ToHostBuffer, &down);
        finish(down.event);
    } else {
        pjrt_upload_args up = {.client = client,
                               .data = shared->part[other] + at,
                               .type = type.type,
                               .dims = dims.dims,
                               .ndim = dims.ndim,
                               .semantics = PJRT_READ_DURING_CALL,
                               .chip = chips[other * own_chips + chip]};
        CALL(Client_BufferFromHostBuffer, &up);
        finish(up.done);
        *theirs = up.buffer;
    }
    return (at + bytes + 63) / 64 * 64;
}

static size_t count_outputs(const pjrt_loaded *loaded)
{
    enum { Executable_NumOutputs = 44 };
    pjrt_executable_args inner = {.loaded = loaded};
    CALL(LoadedExecutable_GetExecutable, &inner);
    struct {
        PJRT_HEAD;
        const pjrt_executable *executable;
        size_t count;
    } args = {.executable = inner.executable};
    must(!call(Executable_NumOutputs, &args, sizeof args), "no number of results");
    pjrt_object_args done = {.object = inner.executable};
    CALL(Executable_Destroy, &done);
    return args.count;
}

static pjrt_buffer *arguments[MOST_CHIPS][MOST_ARGUMENTS], *outputs[MOST_CHIPS][MOST_ARGUMENTS];

static void exchange_arguments(const pjrt_execute_args *args)
{
    size_t at = 0;
    for (int c = 0; c < own_chips; c++)
        for (size_t i = 0; i < args->argument_count; i++) at = exchange(args->arguments[c][i], c, at, -1, NULL);
    meet();
    for (int r = 0; r < ranks; r++) {
        at = 0;
        for (int c = 0; c < own_chips; c++) {
            pjrt_buffer **to = arguments[r * own_chips + c];
            for (size_t i = 0; i < args->argument_count; i++)
                if (r == rank) to[i] = args->arguments[c][i];
                else at = exchange(args->arguments[c][i], c, at, r, &to[i]);
        }
    }
    meet(); /* before the memory is written again */
}

static pjrt_error *execute(void *block)
{
    pjrt_execute_args *args = block;
    if (!is_joint(args->loaded)) return real->function[PJRT_LoadedExecutable_Execute](block);
    size_t n_in = args->argument_count, n_out = count_outputs(args->loaded);
    must(args->chip_count == (size_t)own_chips, "not all chips of the process have arguments");
    must(n_in <= MOST_ARGUMENTS && n_out <= MOST_ARGUMENTS, "too many arguments");
    exchange_arguments(args);
    pjrt_buffer *const *in[MOST_CHIPS], **out[MOST_CHIPS];
    pjrt_event *done[MOST_CHIPS] = {0};
    for (int i = 0; i < ranks * own_chips; i++) in[i] = arguments[i], out[i] = outputs[i];
    pjrt_execute_args all = *args;
    all.arguments = in;
    all.outputs = out;
    all.done = done;
    all.chip_count = (size_t)(ranks * own_chips);
    CALL(LoadedExecutable_Execute, &all);
    for (int i = 0; i < ranks * own_chips; i++) {
        int own_place = i - rank * own_chips;
        if (own_place >= 0 && own_place < own_chips) {
            memcpy(args->outputs[own_place], outputs[i], n_out * sizeof *outputs[i]);
            args->done[own_place] = done[i];
            continue;
        }
        finish(done[i]);
        for (size_t k = 0; k < n_in; k++) drop(arguments[i][k]);
        for (size_t k = 0; k < n_out; k++) drop(outputs[i][k]);
    }
    return NULL;
}

static pjrt_error *platform_name(void *block)
{
    const char *pretended = getenv("PRETENDED_PLATFORM");
    if (!pretended) return real->function[PJRT_Client_PlatformName](block);
    pjrt_list_args *args = block;
    args->list = pretended;
    args->length = strlen(pretended);
    return NULL;
}

__attribute__((visibility("default"))) const pjrt_table *GetPjrtApi(void);

const pjrt_table *GetPjrtApi(void)
{
    const char *path = getenv("PRETENDED_BY_LIBRARY");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    union {
        void *symbol;
        const pjrt_table *(*get)(void);
    } entry = {.symbol = library ? dlsym(library, "GetPjrtApi") : NULL};
    if (!entry.symbol) return NULL;
    real = entry.get();
    must(real->size <= sizeof own, "XLA's table is too large");
    memcpy(own, real, real->size);
    pjrt_table *table = (pjrt_table *)own;
    table->function[PJRT_Client_Create] = client_create;
    table->function[PJRT_Client_Devices] = client_devices;
    table->function[PJRT_Client_AddressableDevices] = client_addressable;
    table->function[PJRT_Client_Compile] = client_compile;
    table->function[PJRT_Client_PlatformName] = platform_name;
    table->function[PJRT_LoadedExecutable_Execute] = execute;
    return table;
}
