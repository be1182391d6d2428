/* other_device.c - a plug-in that is not as it should be, in the way OTHER_DEVICE says, and must not be used. Without,
 * it was built for another list of operators, as an old one is. */
#include <lockstep/plugin.h>

#include <stdlib.h>
#include <string.h>

static int device_count(void)
{
    return 1;
}

static ls_status device_open(const ls_host *host, const ls_device_open_args *args, void **device, ls_message *why)
{
    const char *how = getenv("OTHER_DEVICE");
    (void)host;
    (void)args;
    (void)why;
    *device = NULL;
    return how && strcmp(how, "odd memory") == 0 ? LS_OK : LS_ERR_DEVICE;
}

static ls_status device_alloc(void *device, size_t bytes, void **address)
{
    static _Alignas(64) char memory[64];
    (void)device;
    (void)bytes;
    *address = memory + 8;
    return LS_OK;
}

static void device_release(void *device, void *address, size_t bytes)
{
    (void)device;
    (void)address;
    (void)bytes;
}

static ls_status device_copy(void *device, ls_stream *stream, void *to, const void *from, size_t bytes,
                             ls_copy_kind kind, ls_message *why)
{
    (void)device;
    (void)stream;
    (void)to;
    (void)from;
    (void)bytes;
    (void)kind;
    (void)why;
    return LS_ERR_UNSUPPORTED;
}

static ls_status device_run(void *device, ls_stream *stream, const ls_call *call, ls_message *why)
{
    (void)device;
    (void)stream;
    (void)call;
    (void)why;
    return LS_ERR_UNSUPPORTED;
}

static ls_status device_stream(void *device, ls_stream **stream)
{
    (void)device;
    *stream = NULL;
    return LS_OK;
}

extern ls_plugin_entry ls_plugin_v2;

const ls_device_table *ls_plugin_v2(const ls_host *host)
{
    static ls_device_table table;
    const char *how = getenv("OTHER_DEVICE");
    (void)host;
    table =
        (ls_device_table){LS_DEVICE_TABLE,       .name = "other",           .count = device_count, .open = device_open,
                          .alloc = device_alloc, .release = device_release, .copy = device_copy,   .run = device_run};
    if (!how) table.operators = "copy fill lerp arange ";
    else if (strcmp(how, "no table") == 0) return NULL;
    else if (strcmp(how, "no list") == 0) table.operators = NULL;
    else if (strcmp(how, "other calls") == 0) table.call_size--;
    else if (strcmp(how, "no count") == 0) table.count = NULL;
    else if (strcmp(how, "no run") == 0) table.run = NULL;
    else if (strcmp(how, "a new trait") == 0) table.traits = LS_TRAIT_HOST | 1u << 30;
    else if (strcmp(how, "half a stream") == 0) table.stream_create = device_stream;
    return &table;
}
