/* pjrt_topology.c - a PJRT library that describes chips and compiles for them, but has none.
 *
 * It knows v5e:AxB, whose chips have PRETENDED_MEMORY bytes each (1 MiB), and reads of a program what its arguments and
 * results are: sizes are those of the arrays, and temporaries as large as arguments. As libtpu it takes an empty name
 * for a v2, refuses programs that need more memory than there is, and has no client. PRETENDED_TOPOLOGIES=none: it
 * describes none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../plugins/device-xla/pjrt_abi.h"

enum { INVALID_ARGUMENT = 3, NOT_FOUND = 5 };

struct pjrt_error {
    int code;
    char text[200];
};

struct pjrt_topology {
    size_t chips;
};

struct pjrt_executable {
    pjrt_memory_args needs;
};

static int64_t memory_of_chip(void)
{
    const char *given = getenv("PRETENDED_MEMORY");
    return given ? atoll(given) : 1 << 20;
}

static pjrt_error *fail(int code, const char *text)
{
    pjrt_error *error = calloc(1, sizeof *error);
    error->code = code;
    snprintf(error->text, sizeof error->text, "%s", text);
    return error;
}

static void set_text(pjrt_list_args *args, const char *text)
{
    args->list = text;
    args->length = strlen(text);
}

/* ---- errors ---- */

static pjrt_error *error_destroy(void *arguments)
{
    pjrt_object_args *args = arguments;
    free((void *)(uintptr_t)args->object);
    return NULL;
}

static pjrt_error *error_message(void *arguments)
{
    pjrt_list_args *args = arguments;
    set_text(args, ((const pjrt_error *)args->object)->text);
    return NULL;
}

static pjrt_error *error_code(void *arguments)
{
    pjrt_code_args *args = arguments;
    args->code = args->error->code;
    return NULL;
}

static pjrt_error *initialize(void *arguments)
{
    (void)arguments;
    return NULL;
}

static pjrt_error *client_create(void *arguments)
{
    (void)arguments;
    return fail(NOT_FOUND, "No accelerator found.");
}

/* ---- topologies ---- */

static pjrt_error *topology_create(void *arguments)
{
    static pjrt_topology the;
    pjrt_topology_args *args = arguments;
    const char *none = getenv("PRETENDED_TOPOLOGIES");
    char name[40], rest;
    unsigned across = 0, down = 0;
    snprintf(name, sizeof name, "%.*s", (int)args->name_size, args->name);
    if (none && strcmp(none, "none") == 0) return fail(PJRT_UNIMPLEMENTED, "Topology not supported.");
    bool known = sscanf(name, "v5e:%ux%u%c", &across, &down, &rest) == 2;
    if (!known && *name) return fail(INVALID_ARGUMENT, "Unknown TPU topology");
    the.chips = known ? across * down : 8;
    args->topology = &the;
    return NULL;
}

static pjrt_error *topology_platform(void *arguments)
{
    set_text(arguments, "tpu");
    return NULL;
}

static pjrt_error *topology_chips(void *arguments)
{
    static const void *chips[256];
    pjrt_list_args *args = arguments;
    args->list = chips;
    args->length = ((const pjrt_topology *)args->object)->chips;
    for (size_t i = 0; i < args->length && i < 256; i++) chips[i] = args->object;
    return NULL;
}

static pjrt_error *chip_kind(void *arguments)
{
    set_text(arguments, "Pretended TPU");
    return NULL;
}

static pjrt_error *topology_attributes(void *arguments)
{
    static const char name[] = "device_memory_bytes_limit";
    static pjrt_value value = {
        .size = sizeof value, .name = name, .name_size = sizeof name - 1, .type = PJRT_VALUE_INTEGER, .count = 1};
    pjrt_list_args *args = arguments;
    value.value.integer = memory_of_chip();
    args->list = &value;
    args->length = 1;
    return NULL;
}

/* ---- programs ---- */

/* The bytes of "tensor<4x3xf32>"; *end is set behind it. */
static int64_t bytes_of(const char *type, const char **end)
{
    int64_t bytes = 1;
    type += strlen("tensor<");
    for (char *next; *type >= '0' && *type <= '9'; type = next + 1) bytes *= strtoll(type, &next, 10);
    *end = strchr(type, '>');
    int bits = atoi(type + strcspn(type, "0123456789"));
    return bytes * (bits < 8 ? 1 : bits / 8);
}

/* Sum up the arrays from `at` to `stop`. *aliased: those of arguments that results take over. */
static int64_t sum_arrays(const char *at, const char *stop, int64_t *aliased)
{
    int64_t sum = 0;
    while ((at = strstr(at, "tensor<")) && at < stop) {
        int64_t bytes = bytes_of(at, &at);
        sum += bytes;
        const char *attribute = strstr(at, "tf.aliasing_output"), *next = strstr(at, "tensor<");
        if (attribute && attribute < stop && (!next || attribute < next)) *aliased += bytes;
    }
    return sum;
}

static pjrt_error *compile(void *arguments)
{
    pjrt_ahead_args *args = arguments;
    char *text = calloc(1, args->program->code_size + 1);
    memcpy(text, args->program->code, args->program->code_size);
    const char *main_begins = strstr(text, "@main("), *results = strstr(text, ") -> ("), *body = strstr(text, ") {\n");
    pjrt_memory_args needs = {.code = (int64_t)args->program->code_size};
    int64_t ignored = 0;
    bool valid = main_begins && results && body && main_begins < results && results < body;
    if (valid) needs.arguments = sum_arrays(main_begins, results, &needs.aliased);
    if (valid) needs.results = sum_arrays(results, body, &ignored);
    needs.temporaries = needs.arguments;
    needs.peak = needs.arguments + needs.results - needs.aliased + needs.temporaries;
    free(text);
    if (!valid) return fail(INVALID_ARGUMENT, "no function @main");
    if (needs.peak > memory_of_chip())
        return fail(PJRT_RESOURCE_EXHAUSTED, "CompileTimeHbmOom: it exceeds\navailable HBM");
    args->executable = calloc(1, sizeof *args->executable);
    args->executable->needs = needs;
    return NULL;
}

static pjrt_error *executable_memory(void *arguments)
{
    pjrt_memory_args *args = arguments, needs = args->executable->needs;
    needs.executable = args->executable;
    *args = needs;
    return NULL;
}

static pjrt_error *executable_cost(void *arguments)
{
    static const pjrt_value values[] = {
        {.size = sizeof *values, .name = "bytes accessed", .name_size = 14, .type = PJRT_VALUE_FLOAT, .value.real = 1},
        {.size = sizeof *values, .name = "flops", .name_size = 5, .type = PJRT_VALUE_FLOAT, .value.real = 5e9f},
    };
    pjrt_cost_args *args = arguments;
    args->count = 2;
    args->values = values;
    return NULL;
}

static pjrt_error *executable_destroy(void *arguments)
{
    pjrt_object_args *args = arguments;
    free((void *)(uintptr_t)args->object);
    return NULL;
}

/* ---- the table ---- */

enum { FUNCTIONS = 138 };

extern const pjrt_table *GetPjrtApi(void);

const pjrt_table *GetPjrtApi(void)
{
    static union {
        pjrt_table table;
        char room[sizeof(pjrt_table) + FUNCTIONS * sizeof(pjrt_function *)];
    } the;
    pjrt_table *t = &the.table;
    t->size = sizeof the;
    t->version.major = PJRT_MAJOR;
    t->version.minor = PJRT_OLDEST_MINOR;
    t->function[PJRT_Error_Destroy] = error_destroy;
    t->function[PJRT_Error_Message] = error_message;
    t->function[PJRT_Error_GetCode] = error_code;
    t->function[PJRT_Plugin_Initialize] = initialize;
    t->function[PJRT_Client_Create] = client_create;
    t->function[PJRT_TopologyDescription_Create] = topology_create;
    t->function[PJRT_TopologyDescription_PlatformName] = topology_platform;
    t->function[PJRT_TopologyDescription_PlatformVersion] = topology_platform;
    t->function[PJRT_TopologyDescription_GetDeviceDescriptions] = topology_chips;
    t->function[PJRT_TopologyDescription_Attributes] = topology_attributes;
    t->function[PJRT_DeviceDescription_Kind] = chip_kind;
    t->function[PJRT_Compile] = compile;
    t->function[PJRT_Executable_GetCompiledMemoryStats] = executable_memory;
    t->function[PJRT_Executable_GetCostAnalysis] = executable_cost;
    t->function[PJRT_Executable_Destroy] = executable_destroy;
    return t;
}
