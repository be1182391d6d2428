/* device.h - an opened device as the layers above see it: memory from a caching pool, operators in one compute stream,
 * and a second stream for copies that overlap with them.
 *
 * The CPU is built in; others come from shared objects named liblockstep-<name>.so, found through LOCKSTEP_PLUGIN_PATH
 * or the dynamic linker's path. Everything is submitted to the device's compute stream; only ls_device_sync() makes the
 * host wait. A device without streams (the CPU) completes every call before it returns. */
#ifndef LOCKSTEP_DEVICE_H
#define LOCKSTEP_DEVICE_H

#include <lockstep/plugin.h>

#include "device/facts.h"
#include "device/pool.h"

typedef struct ls_device {
    ls_device_table table; /* from the plug-in; entries it lacks are NULL */
    void *handle;          /* passed to the table's functions */
    ls_stream *stream;     /* NULL: the device has none */
    ls_stream *copies;     /* for uploads that overlap with `stream` */
    ls_event *order;       /* position of `stream` when the last upload was requested */
    ls_pool *pool;
    void *library; /* from dlopen; NULL for the CPU */
    char name[64]; /* "cpu", "cuda:0": as named by the user */
    struct ls_device *next;
} ls_device;

extern const ls_device_table ls_cpu_device;

/* Open "cpu", "NAME" or "NAME:INDEX", where NAME is that of a plug-in or the path of its shared object; together with
 * `peers`, if there are any. NULL on failure, with the reason in *status and `why`. */
ls_device *ls_device_open(const char *name, const ls_peers *peers, ls_status *status, ls_message *why);
void ls_device_close(ls_device *device);

static inline bool ls_device_has(const ls_device *device, uint32_t trait)
{
    return (device->table.traits & trait) != 0;
}

static inline bool ls_device_is_host(const ls_device *device)
{
    return ls_device_has(device, LS_TRAIT_HOST);
}

/* It compiles what was submitted: a step with other shapes is another program, and processes that train together submit
 * the same, in the same order. */
static inline bool ls_device_records(const ls_device *device)
{
    return ls_device_has(device, LS_TRAIT_STORAGES);
}

/* False: compose the operator from others. */
static inline bool ls_device_supports(const ls_device *device, ls_opcode op)
{
    return !device->table.supports || device->table.supports(device->handle, op);
}

ls_status ls_device_run(ls_device *device, const ls_call *call, ls_message *why);
/* Copies return when the host memory may be reused. */
ls_status ls_device_upload(ls_device *device, void *to, const void *from, size_t bytes, ls_message *why);
ls_status ls_device_download(ls_device *device, void *to, const void *from, size_t bytes, ls_message *why);
/* The host memory is valid after ls_device_sync(), or after waiting for a later ls_device_note(). */
ls_status ls_device_download_begin(ls_device *device, void *to, const void *from, size_t bytes, ls_message *why);
/* Copy at most LS_VALUES_BYTES in stream order, without waiting; `from` may be reused at once. */
ls_status ls_device_put(ls_device *device, void *to, const void *from, size_t bytes, ls_message *why);
ls_status ls_device_sync(ls_device *device, ls_message *why);
/* *event, created on first use, stands for all work submitted so far: ls_device_event_wait() waits for that, and not
 * for what is submitted later. On a device without events the work is complete already. */
ls_status ls_device_note(ls_device *device, ls_event **event);
/* Mark the beginning or end of a training step. */
ls_status ls_device_mark(ls_device *device, ls_mark_kind mark, ls_message *why);

/* Host memory for fast copies: pinned if the device supports it. NULL: out of memory. */
void *ls_device_host_alloc(ls_device *device, size_t bytes);
void ls_device_host_release(ls_device *device, void *memory, size_t bytes);

/* ---- Uploads of batches, which overlap with other work ----
 *
 * An upload continues after the call, in the copy stream: it waits for all work submitted so far, which may use its
 * memory, and overlaps with what is submitted later. *event, created on first use, stands for all uploads up to
 * ls_device_uploads_note(). ls_device_uploads_join() makes the device's work wait for them; the host memory may be
 * reused after ls_device_event_wait(). On a device without events these calls complete before they return. */
ls_status ls_device_upload_begin(ls_device *device, void *to, const void *from, size_t bytes, ls_message *why);
ls_status ls_device_uploads_note(ls_device *device, ls_event **event, ls_message *why);
ls_status ls_device_uploads_join(ls_device *device, ls_event *event, ls_message *why);
ls_status ls_device_event_wait(ls_device *device, ls_event *event, ls_message *why);
void ls_device_event_free(ls_device *device, ls_event *event); /* NULL is accepted */

#endif
