/* device.c - opens built-in and plug-in devices, and submits work to them. */
#include "device/device.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/library.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/spans.h"
#include "device/cpu/cpu.h"
#include "device/gpus.h"

static void host_log(const char *text)
{
    ls_log_line(LS_LOG_INFO, "%s", text);
}

static void host_blame(const char *site, ls_opcode op, ls_message *why)
{
    ls_message said = *why;
    ls_message_set(why, "%s%s%s: %.160s", site ? site : "", site ? ": " : "", ls_op_name(op), said.text);
}

static ls_status host_take(ls_owner *owner, size_t bytes, ls_workspace *workspace)
{
    ls_pool_block *block = ls_pool_take(((ls_device *)owner)->pool, bytes);
    if (!block) return LS_ERR_MEMORY;
    *workspace = (ls_workspace){block->address, block};
    return LS_OK;
}

static void host_give(ls_owner *owner, ls_workspace workspace)
{
    ls_pool_give(((ls_device *)owner)->pool, workspace.block);
}

static const ls_host host = {
    .abi = LS_PLUGIN_ABI,
    .size = sizeof(ls_host),
    .operators = ls_operators,
    .op_name = ls_op_name,
    .dtype_size = ls_dtype_size,
    .effects = ls_op_effects,
    .attrs_size = ls_op_attrs_size,
    .run_on_cpu = ls_cpu_run,
    .log = host_log,
    .blame = host_blame,
    .take = host_take,
    .give = host_give,
};

/* ---- finding the table ---- */

/* "cuda:1" is plug-in "cuda", index 1; "./libx.so" is a path and has no index unless it ends in ":N". */
static const char *find_index(const char *name)
{
    const char *colon = strrchr(name, ':');
    return colon && colon[1] && strspn(colon + 1, "0123456789") == strlen(colon + 1) ? colon : NULL;
}

int ls_device_index(const char *name)
{
    const char *colon = find_index(name);
    long index = colon ? strtol(colon + 1, NULL, 10) : -1;
    return index < INT_MAX ? (int)index : INT_MAX; /* of more digits than a number has: no such device, not another */
}

bool ls_device_answers(const ls_device *device, const char *name)
{
    size_t length = strlen(name);
    if (strncmp(device->name, name, length) != 0) return false;
    return !device->name[length] || device->name + length == find_index(device->name);
}

/* Report the first operator in which two lists differ: its number, and its names. */
static void report_operator_mismatch(const char *theirs, const char *name, ls_message *why)
{
    const char *ours = ls_operators;
    int number = 0;
    for (size_t n; (n = strcspn(ours, " ")) == strcspn(theirs, " ") && memcmp(ours, theirs, n) == 0 && ours[n];
         number++) {
        ours += n + 1;
        theirs += n + 1;
    }
    ls_message_set(
        why,
        "device \"%.64s\": the plug-in was built for another list of operators: its number %d is \"%.*s\", the "
        "library's is \"%.*s\"; build it again with this version's headers",
        name, number, *theirs ? (int)strcspn(theirs, " ") : 7, *theirs ? theirs : "nothing",
        *ours ? (int)strcspn(ours, " ") : 7, *ours ? ours : "nothing");
}

/* The first required entry that a table lacks; NULL if it is complete. */
static const char *missing_entry(const ls_device_table *t)
{
    bool streams = t->stream_create || t->stream_destroy || t->event_create || t->event_destroy || t->event_record ||
                   t->event_wait || t->event_done || t->event_sync;
    const struct {
        const char *name;
        bool there;
    } entries[] = {
        {"count", t->count != NULL},
        {"open", t->open != NULL},
        {"alloc", t->alloc != NULL},
        {"release", t->release != NULL},
        {"copy", t->copy != NULL},
        {"run", t->run != NULL},
        {"stream_create", !streams || t->stream_create},
        {"stream_destroy", !streams || t->stream_destroy},
        {"stream_sync", !streams || t->stream_sync},
        {"event_create", !streams || t->event_create},
        {"event_destroy", !streams || t->event_destroy},
        {"event_record", !streams || t->event_record},
        {"event_wait", !streams || t->event_wait},
        {"event_done", !streams || t->event_done},
        {"event_sync", !streams || t->event_sync},
    };
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        if (!entries[i].there) return entries[i].name;
    return NULL;
}

/* The first trait that this library does not know; -1: all are known. */
static int unknown_trait(uint32_t traits)
{
    uint32_t unknown = traits & ~(uint32_t)(LS_TRAIT_HOST | LS_TRAIT_STORAGES | LS_TRAIT_LIVE_VALUES |
                                            LS_TRAIT_SCATTERED | LS_TRAIT_HALF_COPY | LS_TRAIT_KRSC |
                                            LS_TRAIT_STEP_FACTOR | LS_TRAIT_BATCHES | LS_TRAIT_MOMENTS);
    return unknown ? __builtin_ctz(unknown) : -1;
}

/* Read a plug-in's table, with NULL for the entries it lacks. False on failure, with the reason in `why`. */
static bool read_table(const ls_device_table *given, const char *name, ls_device_table *table, ls_message *why)
{
    if (!given || given->abi != LS_PLUGIN_ABI) {
        ls_message_set(why,
                       given ? "device \"%.64s\": the plug-in has ABI %u, this library %u; build it again"
                             : "device \"%.64s\": ls_plugin_v2 of the plug-in returned NULL",
                       name, given ? given->abi : 0, LS_PLUGIN_ABI);
        return false;
    }
    if (given->size < offsetof(ls_device_table, supports) || given->call_size != sizeof(ls_call)) {
        ls_message_set(
            why,
            "device \"%.64s\": the plug-in has a table of %u bytes and calls of %u, this library %zu and %zu; "
            "begin the table with LS_DEVICE_TABLE and build it again with this version's headers",
            name, given->size, given->call_size, sizeof *table, sizeof(ls_call));
        return false;
    }
    const char *operators = given->operators ? given->operators : "";
    if (strcmp(operators, ls_operators) != 0) return report_operator_mismatch(operators, name, why), false;
    *table = (ls_device_table){0};
    memcpy(table, given, given->size < sizeof *table ? given->size : sizeof *table);
    int trait = unknown_trait(table->traits);
    if (trait >= 0) {
        snprintf(
            why->text, sizeof why->text,
            "device \"%.64s\": the plug-in asks for trait 1 << %d, which this library does not know; build it with "
            "this version's headers",
            name, trait);
        return false;
    }
    const char *missing = missing_entry(table);
    if (missing) ls_message_set(why, "device \"%.64s\": its table has no %s", name, missing);
    return !missing;
}

static bool table_from(void *library, const char *name, ls_device_table *table, ls_message *why)
{
    ls_plugin_entry *entry = (ls_plugin_entry *)ls_library_function(library, "ls_plugin_v2");
    if (entry) return read_table(entry(&host), name, table, why);
    bool old = ls_library_function(library, "ls_plugin_v1") != NULL;
    ls_message_set(why, "device \"%.64s\": the library does not export ls_plugin_v2: it is %s", name,
                   old ? "a plug-in of an older version; build it again" : "not a device plug-in");
    return false;
}

/* *library is to be closed, also on failure; NULL for the CPU. */
static bool find_table(const char *plugin, void **library, ls_device_table *table, ls_message *why)
{
    *library = NULL;
    *table = ls_cpu_device;
    if (strcmp(plugin, "cpu") == 0) return true;
    *library = ls_library_open("device", plugin, why);
    return *library && table_from(*library, plugin, table, why);
}

int ls_device_count(const char *plugin, ls_message *why)
{
    void *library;
    ls_device_table table;
    int count = find_table(plugin, &library, &table, why) ? table.count() : -1;
    if (library) dlclose(library);
    return count;
}

typedef void describe_fn(int index, char *text, size_t size); /* ls_plugin_describe of a plug-in, if it exports it */

/* False, and nothing is written, if the plug-in cannot describe its devices. */
static bool describe_from(void *library, int index, char *text, size_t size)
{
    describe_fn *describe = library ? (describe_fn *)ls_library_function(library, "ls_plugin_describe") : NULL;
    if (describe) describe(index, text, size);
    return describe != NULL;
}

void ls_device_describe(const char *plugin, int index, char *text, size_t size)
{
    void *library;
    ls_device_table table;
    ls_message why;
    snprintf(text, size, "%s:%d", plugin, index);
    if (find_table(plugin, &library, &table, &why)) describe_from(library, index, text, size);
    if (library) dlclose(library);
}

bool ls_device_identify(const ls_device *device, char *text, size_t size)
{
    return describe_from(device->library, ls_device_index(device->name), text, size);
}

/* ---- opening ---- */

/* There are too few devices: with what may hide GPUs. */
static void report_count(const char *name, const char *plugin, int count, ls_message *why)
{
    const char *visible = strcmp(plugin, LS_GPU_PLUGIN) == 0 ? getenv("CUDA_VISIBLE_DEVICES") : NULL;
    ls_message_set(why, "device \"%.64s\": %d such device%s usable here%s%.60s%s", name, count,
                   count == 1 ? " is" : "s are", visible ? ", with CUDA_VISIBLE_DEVICES=" : "", visible ? visible : "",
                   count ? "" : " (lockstep env says why)");
}

ls_device *ls_device_open(const char *name, const ls_peers *peers, ls_status *status, ls_message *why)
{
    const char *colon = find_index(name);
    int index = colon ? ls_device_index(name) : 0;
    *status = LS_ERR_DEVICE;
    if (!colon && strchr(name, ':') && !strchr(name, '/')) {
        ls_message_set(why, "device \"%.64s\": what follows the colon must be a number, as in \"%.*s:0\"", name,
                       (int)strcspn(name, ":"), name);
        return NULL;
    }
    char plain[500];
    snprintf(plain, sizeof plain, "%.*s", colon ? (int)(colon - name) : (int)strlen(name), name);

    ls_device *device = ls_sys_alloc(sizeof *device);
    if (!device) goto out_of_memory;
    if (strcmp(plain, "cpu") == 0) snprintf(device->name, sizeof device->name, "cpu");
    else snprintf(device->name, sizeof device->name, "%.50s:%d", plain, index); /* paths may be longer */

    ls_device_table table;
    if (!find_table(plain, &device->library, &table, why)) goto close_device;
    int count = table.count();
    if (index >= count) {
        report_count(name, plain, count, why);
        goto close_device;
    }
    ls_device_open_args args = {.size = sizeof args, .index = index, .owner = (ls_owner *)device, .peers = peers};
    *status = table.open(&host, &args, &device->handle, why);
    if (*status && !why->text[0])
        ls_message_set(why, "device \"%.64s\" could not be opened, for an unknown reason", name);
    if (*status) goto close_device;
    device->table = table;
    if (table.stream_create) {
        *status = table.stream_create(device->handle, &device->stream);
        if (!*status) *status = table.stream_create(device->handle, &device->copies);
        if (!*status) *status = table.event_create(device->handle, &device->order);
        if (*status) goto close_device;
    }
    device->pool = ls_pool_new(&device->table, device->handle);
    if (!device->pool) goto out_of_memory;
    *status = LS_OK;
    return device;

out_of_memory:
    *status = LS_ERR_MEMORY;
    ls_message_set(why, "device \"%.64s\": out of memory while opening it", name);
close_device:
    ls_device_close(device);
    return NULL;
}

void ls_device_close(ls_device *device)
{
    if (!device) return;
    ls_message ignored;
    if (device->pool) {
        ls_device_sync(device, &ignored);
        if (device->copies) device->table.stream_sync(device->handle, device->copies, &ignored);
        ls_pool_free(device->pool);
    }
    if (device->order) device->table.event_destroy(device->handle, device->order);
    if (device->copies) device->table.stream_destroy(device->handle, device->copies);
    if (device->stream) device->table.stream_destroy(device->handle, device->stream);
    if (device->table.close) device->table.close(device->handle);
    if (device->library) dlclose(device->library);
    ls_sys_free(device);
}

/* ---- work ---- */

ls_status ls_device_run(ls_device *device, const ls_call *call, ls_message *why)
{
    return device->table.run(device->handle, device->stream, call, why);
}

ls_status ls_device_sync(ls_device *device, ls_message *why)
{
    if (!device->table.stream_sync) return LS_OK;
    int64_t began = ls_spans_clock();
    ls_status status = device->table.stream_sync(device->handle, device->stream, why);
    ls_spans_add(LS_SPAN_DEVICE_WAIT, "device", NULL, began);
    return status;
}

ls_status ls_device_note(ls_device *device, ls_event **event)
{
    const ls_device_table *table = &device->table;
    if (!table->event_record) return LS_OK;
    ls_status status = *event ? LS_OK : table->event_create(device->handle, event);
    return status ? status : table->event_record(device->handle, *event, device->stream);
}

static ls_status copy(ls_device *device, void *to, const void *from, size_t bytes, ls_copy_kind kind, ls_message *why)
{
    if (bytes == 0) return LS_OK;
    return device->table.copy(device->handle, device->stream, to, from, bytes, kind, why);
}

ls_status ls_device_upload(ls_device *device, void *to, const void *from, size_t bytes, ls_message *why)
{
    ls_status status = copy(device, to, from, bytes, LS_COPY_TO_DEVICE, why);
    return status || !device->stream ? status : ls_device_sync(device, why);
}

ls_status ls_device_download_begin(ls_device *device, void *to, const void *from, size_t bytes, ls_message *why)
{
    return copy(device, to, from, bytes, LS_COPY_TO_HOST, why);
}

ls_status ls_device_download(ls_device *device, void *to, const void *from, size_t bytes, ls_message *why)
{
    ls_status status = ls_device_download_begin(device, to, from, bytes, why);
    return status || !device->stream ? status : ls_device_sync(device, why);
}

ls_status ls_device_put(ls_device *device, void *to, const void *from, size_t bytes, ls_message *why)
{
    return copy(device, to, from, bytes, LS_COPY_VALUES, why);
}

ls_status ls_device_mark(ls_device *device, ls_mark_kind mark, ls_message *why)
{
    return device->table.mark ? device->table.mark(device->handle, device->stream, mark, why) : LS_OK;
}

/* ---- uploads that overlap with work ---- */

void *ls_device_host_alloc(ls_device *device, size_t bytes)
{
    void *memory = NULL;
    if (!device->table.host_alloc) return ls_sys_map(bytes);
    return device->table.host_alloc(device->handle, bytes, &memory) == LS_OK ? memory : NULL;
}

void ls_device_host_release(ls_device *device, void *memory, size_t bytes)
{
    if (!memory) return;
    if (device->table.host_alloc) device->table.host_release(device->handle, memory, bytes);
    else ls_sys_unmap(memory, bytes);
}

ls_status ls_device_upload_begin(ls_device *device, void *to, const void *from, size_t bytes, ls_message *why)
{
    const ls_device_table *table = &device->table;
    if (bytes == 0) return LS_OK;
    ls_status status = LS_OK;
    ls_copy_kind kind = ls_device_has(device, LS_TRAIT_BATCHES) ? LS_COPY_BATCH : LS_COPY_TO_DEVICE;
    if (device->copies) status = table->event_record(device->handle, device->order, device->stream);
    if (device->copies && !status) status = table->event_wait(device->handle, device->order, device->copies);
    return status ? status : table->copy(device->handle, device->copies, to, from, bytes, kind, why);
}

ls_status ls_device_uploads_note(ls_device *device, ls_event **event, ls_message *why)
{
    const ls_device_table *table = &device->table;
    (void)why;
    if (!device->copies) return LS_OK;
    ls_status status = *event ? LS_OK : table->event_create(device->handle, event);
    return status ? status : table->event_record(device->handle, *event, device->copies);
}

ls_status ls_device_uploads_join(ls_device *device, ls_event *event, ls_message *why)
{
    (void)why;
    return event ? device->table.event_wait(device->handle, event, device->stream) : LS_OK;
}

ls_status ls_device_event_wait(ls_device *device, ls_event *event, ls_message *why)
{
    if (!event) return LS_OK;
    int64_t began = ls_spans_clock();
    ls_status status = device->table.event_sync(device->handle, event, why);
    ls_spans_add(LS_SPAN_DEVICE_WAIT, "device", NULL, began);
    return status;
}

void ls_device_event_free(ls_device *device, ls_event *event)
{
    if (event) device->table.event_destroy(device->handle, event);
}

/* ---- the CPU ---- */

static int cpu_count(void)
{
    return 1;
}

static ls_status cpu_open(const ls_host *unused_host, const ls_device_open_args *args, void **device, ls_message *why)
{
    (void)unused_host, (void)args, (void)why;
    *device = NULL;
    return LS_OK;
}

static void cpu_close(void *device)
{
    (void)device;
}

static ls_status cpu_alloc(void *device, size_t bytes, void **address)
{
    (void)device;
    *address = ls_sys_map(bytes);
    return *address ? LS_OK : LS_ERR_MEMORY;
}

static void cpu_release(void *device, void *address, size_t bytes)
{
    (void)device;
    ls_sys_unmap(address, bytes);
}

static ls_status cpu_copy(void *device, ls_stream *stream, void *to, const void *from, size_t bytes, ls_copy_kind kind,
                          ls_message *why)
{
    (void)device, (void)stream, (void)kind, (void)why;
    memcpy(to, from, bytes);
    return LS_OK;
}

static ls_status cpu_run(void *device, ls_stream *stream, const ls_call *call, ls_message *why)
{
    (void)device, (void)stream;
    return ls_cpu_run(call, why);
}

const ls_device_table ls_cpu_device = {
    LS_DEVICE_TABLE,    .traits = LS_TRAIT_HOST | LS_TRAIT_MOMENTS,
    .name = "cpu",      .count = cpu_count,
    .open = cpu_open,   .close = cpu_close,
    .alloc = cpu_alloc, .release = cpu_release,
    .copy = cpu_copy,   .run = cpu_run,
};
