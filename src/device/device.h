/* device.h - an opened device as the layers above see it: memory from a caching pool, operators in one compute stream,
 * and a second stream for copies that overlap with them.
 *
 * The CPU is built in; others come from shared objects named liblockstep-<name>.so, found through LOCKSTEP_PLUGIN_PATH
 * or the dynamic linker's path. Everything is submitted to the device's compute stream; ls_device_sync() is the only
 * place where the host waits. A device without streams (the CPU) has finished every call when it returns. */
#ifndef LOCKSTEP_DEVICE_H
#define LOCKSTEP_DEVICE_H

#include <lockstep/plugin.h>

#include "device/facts.h"
#include "device/pool.h"

typedef struct ls_device {
    ls_device_table table; /* the plug-in's; entries it does not have are NULL */
    void *handle;          /* the table's own */
    ls_stream *stream;     /* NULL where the device has none */
    ls_stream *copies;     /* for uploads beside the work of that one */
    ls_event *order;       /* how far it had come when the last of them was asked for */
    ls_pool *pool;
    void *library; /* from dlopen; NULL for the CPU */
    char name[64]; /* "cpu", "cuda:0": how the user named it */
    struct ls_device *next;
} ls_device;

extern const ls_device_table ls_cpu_device;

/* Open "cpu", "NAME" or "NAME:INDEX", where NAME is that of a plug-in or the path of its shared object. On failure
 * NULL, and *status and why say what happened. */
ls_device *ls_device_open(const char *name, ls_status *status, ls_message *why);
void ls_device_close(ls_device *device);

static inline bool ls_device_has(const ls_device *device, uint32_t trait)
{
    return (device->table.traits & trait) != 0;
}

static inline bool ls_device_is_host(const ls_device *device)
{
    return ls_device_has(device, LS_TRAIT_HOST);
}

/* False: put the operator together from others. */
static inline bool ls_device_supports(const ls_device *device, ls_opcode op)
{
    return !device->table.supports || device->table.supports(device->handle, op);
}

ls_status ls_device_run(ls_device *device, const ls_call *call, ls_message *why);
/* Copies return when the host memory may be reused. */
ls_status ls_device_upload(ls_device *device, void *to, const void *from, size_t bytes, ls_message *why);
ls_status ls_device_download(ls_device *device, void *to, const void *from, size_t bytes, ls_message *why);
/* The host memory has the bytes after ls_device_sync(). */
ls_status ls_device_download_begin(ls_device *device, void *to, const void *from, size_t bytes, ls_message *why);
/* A few numbers, LS_VALUES_BYTES at most, in stream order: no wait, and the host memory may change at once. */
ls_status ls_device_put(ls_device *device, void *to, const void *from, size_t bytes, ls_message *why);
ls_status ls_device_sync(ls_device *device, ls_message *why);
/* A step of training begins or has ended. */
ls_status ls_device_mark(ls_device *device, ls_mark_kind mark, ls_message *why);

/* Host memory that copies run fast from: pinned where the device offers that. NULL when out. */
void *ls_device_host_alloc(ls_device *device, size_t bytes);
void ls_device_host_release(ls_device *device, void *memory, size_t bytes);

/* ---- Uploads beside other work ----
 *
 * An upload goes on after the call, in the copy stream: after all work submitted so far, since its memory may be in use
 * by that, and beside what is submitted from now on. *event, made at the first use, stands for all uploads up to
 * ls_device_uploads_note(). The device's work goes on after them with ls_device_uploads_join(); the host memory may be
 * reused after ls_device_event_wait(). A device without events has finished when these return. */
ls_status ls_device_upload_begin(ls_device *device, void *to, const void *from, size_t bytes, ls_message *why);
ls_status ls_device_uploads_note(ls_device *device, ls_event **event, ls_message *why);
ls_status ls_device_uploads_join(ls_device *device, ls_event *event, ls_message *why);
ls_status ls_device_event_wait(ls_device *device, ls_event *event, ls_message *why);
void ls_device_event_free(ls_device *device, ls_event *event); /* NULL is accepted */

#endif
