/* load.c - loads the PJRT library and makes the process's client. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pjrt.h"

/* ---- calls ---- */

static bool has(const pjrt_table *table, pjrt_position function)
{
    return offsetof(pjrt_table, function) + sizeof(pjrt_function *) * ((size_t)function + 1) <= table->size &&
           table->function[function];
}

/* Describe the error and destroy it. */
static ls_status explain(const pjrt_table *table, pjrt_error *error, const char *what, ls_message *why)
{
    pjrt_list_args message = {.object = error};
    pjrt_code_args code = {.error = error};
    pjrt_object_args object = {.object = error};
    pjrt_enter(table, PJRT_Error_Message, &message, sizeof message);
    pjrt_enter(table, PJRT_Error_GetCode, &code, sizeof code);
    bool is_full = code.code == PJRT_RESOURCE_EXHAUSTED;
    xla_refuse(why, LS_OK, "%s: %s%.*s", what, is_full ? "out of device memory: " : "", (int)message.length,
               (const char *)message.list);
    pjrt_enter(table, PJRT_Error_Destroy, &object, sizeof object);
    return is_full ? LS_ERR_MEMORY : code.code == PJRT_UNIMPLEMENTED ? LS_ERR_UNSUPPORTED : LS_ERR_DEVICE;
}

/* XLA's threads stay behind when a process is forked: whoever waited for them would wait for ever. */
static pid_t started_in;
static bool was_forked;

static void note_fork(void)
{
    was_forked = started_in != 0;
}

static ls_status refuse_fork(ls_message *why)
{
    return xla_refuse(why, LS_ERR_DEVICE,
                      "device \"xla\": this process was forked after process %d had started XLA, which XLA does not "
                      "support: fork before a device is opened, or start processes with ls_launch()",
                      (int)started_in);
}

ls_status pjrt_call(const pjrt *p, pjrt_position function, void *args, size_t bytes, const char *what, ls_message *why)
{
    if (was_forked) return refuse_fork(why);
    if (!has(p->table, function))
        return xla_refuse(why, LS_ERR_UNSUPPORTED, "%s: the PJRT library lacks function %d", what, function);
    pjrt_error *error = pjrt_enter(p->table, function, args, bytes);
    return error ? explain(p->table, error, what, why) : LS_OK;
}

/* ---- starting ---- */

/* The chips to compile for in place of executing anything; NULL: those of this host are used. */
static const char *wanted_topology(void)
{
    const char *name = getenv("LOCKSTEP_XLA_TOPOLOGY");
    return name && *name ? name : NULL;
}

/* A TPU's library looks for chips, and for a server that knows about them, even if it only compiles: for minutes. */
static void expect_no_chips(void)
{
    setenv("TPU_SKIP_MDS_QUERY", "1", 0);
    setenv("ALLOW_MULTIPLE_LIBTPU_LOAD", "1", 0);
    setenv("TPU_ACCELERATOR_TYPE", "v5litepod-1", 0);
    setenv("TPU_WORKER_HOSTNAMES", "localhost", 0);
}

static ls_status load(pjrt *p, ls_message *why)
{
    char path[500];
    if (!pjrt_find(path, sizeof path, why)) return LS_ERR_DEVICE;
    if (wanted_topology()) expect_no_chips();
    setenv("TF_CPP_MIN_LOG_LEVEL", "1", 0); /* warnings of XLA, but not what it does */
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) return xla_refuse(why, LS_ERR_DEVICE, "device \"xla\": %.200s", dlerror());
    union {
        void *symbol;
        const pjrt_table *(*get)(void);
    } entry = {.symbol = dlsym(library, "GetPjrtApi")};
    const pjrt_table *table = entry.symbol ? entry.get() : NULL;
    if (!table) return xla_refuse(why, LS_ERR_DEVICE, "device \"xla\": %.160s is not a PJRT library", path);
    if (table->version.major != PJRT_MAJOR || table->version.minor < PJRT_OLDEST_MINOR)
        return xla_refuse(
            why, LS_ERR_UNSUPPORTED,
            "device \"xla\": %.120s has version %d.%d of the PJRT interface; this plug-in needs %d.%d or a "
            "later minor version",
            path, table->version.major, table->version.minor, PJRT_MAJOR, PJRT_OLDEST_MINOR);
    p->table = table;
    const char *slash = strrchr(path, '/');
    p->numbers_itself = strncmp(slash ? slash + 1 : path, "libtpu", 6) == 0;
    return LS_OK;
}

void pjrt_copy_text(const pjrt_list_args *from, char *to, size_t size)
{
    snprintf(to, size, "%.*s", (int)from->length, (const char *)from->list);
}

/* A chip's place in the list of this process says nothing about its number in the job. */
static ls_status find_ids(pjrt *p, ls_message *why)
{
    p->chip_ids = calloc(p->chip_count + 1, sizeof *p->chip_ids);
    if (!p->chip_ids) return xla_refuse(why, LS_ERR_MEMORY, "device \"xla\": no memory for a list of chips");
    for (size_t i = 0; i < p->chip_count; i++) {
        pjrt_description_args chip = {.chip = p->chips[i]};
        XLA_TRY(PJRT_CALL(p, Device_GetDescription, &chip, "device \"xla\"", why));
        pjrt_id_args id = {.description = chip.description};
        XLA_TRY(PJRT_CALL(p, DeviceDescription_Id, &id, "device \"xla\"", why));
        p->chip_ids[i] = id.id;
    }
    return LS_OK;
}

/* What the client says about itself and its chips. */
static ls_status describe(pjrt *p, ls_message *why)
{
    pjrt_list_args name = {.object = p->client}, version = name, chips = name, all = name;
    XLA_TRY(PJRT_CALL(p, Client_PlatformName, &name, "device \"xla\"", why));
    XLA_TRY(PJRT_CALL(p, Client_PlatformVersion, &version, "device \"xla\"", why));
    XLA_TRY(PJRT_CALL(p, Client_AddressableDevices, &chips, "device \"xla\"", why));
    pjrt_copy_text(&name, p->platform, sizeof p->platform);
    pjrt_copy_text(&version, p->version, sizeof p->version);
    XLA_TRY(PJRT_CALL(p, Client_Devices, &all, "device \"xla\"", why));
    p->chips = chips.list;
    p->chip_count = chips.length;
    p->knows_others = all.length > chips.length;
    XLA_TRY(find_ids(p, why));
    return pjrt_identify(p, why);
}

/* Nothing is kept of a client that cannot be used. */
static ls_status make_client(pjrt *p, const ls_peers *peers, ls_message *why)
{
    pjrt_object_args nothing = {.object = NULL};
    pjrt_create_args create = {.client = NULL};
    pjrt_value options[2];
    if (peers) XLA_TRY(pjrt_meet(p, peers, options, &create, why));
    XLA_TRY(PJRT_CALL(p, Plugin_Initialize, &nothing, "device \"xla\"", why));
    XLA_TRY(PJRT_CALL(p, Client_Create, &create, "device \"xla\"", why));
    pjrt made = *p;
    made.client = create.client;
    ls_status status = describe(&made, why);
    if (!status) {
        *p = made;
        return LS_OK;
    }
    ls_message ignored;
    free(made.chip_ids);
    pjrt_object_args client = {.object = create.client};
    PJRT_CALL(p, Client_Destroy, &client, "device \"xla\"", &ignored);
    return status;
}

ls_status pjrt_start(const ls_peers *peers, const pjrt **started, ls_message *why)
{
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    static pjrt the;
    pthread_mutex_lock(&once);
    ls_status status = was_forked ? refuse_fork(why) : LS_OK;
    if (!status && !the.table) status = load(&the, why);
    const char *topology = wanted_topology();
    if (!status && topology && !the.topology) status = pjrt_describe(&the, topology, why);
    if (!status && !topology && !the.client) status = make_client(&the, peers, why);
    if (!status && !started_in) {
        started_in = getpid();
        pthread_atfork(NULL, NULL, note_fork);
    }
    pthread_mutex_unlock(&once);
    *started = &the;
    return status;
}
