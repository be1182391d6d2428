/* entries.h - the functions in the device table; plugin.h specifies them. */
#ifndef LOCKSTEP_CUDA_ENTRIES_H
#define LOCKSTEP_CUDA_ENTRIES_H

#include "cuda.h"

/* open.c */
ls_status cuda_open(const ls_host *host, const ls_device_open_args *args, void **device, ls_message *why);
void cuda_close(void *device);

/* memory.c */
ls_status cuda_alloc(void *device, size_t bytes, void **address);
void cuda_release(void *device, void *address, size_t bytes);
ls_status cuda_host_alloc(void *device, size_t bytes, void **memory);
void cuda_host_release(void *device, void *memory, size_t bytes);
ls_status cuda_copy_bytes(void *device, ls_stream *stream, void *to, const void *from, size_t bytes, ls_copy_kind kind,
                          ls_message *why);

/* stream.c */
ls_status cuda_stream_create(void *device, ls_stream **stream);
void cuda_stream_destroy(void *device, ls_stream *stream);
ls_status cuda_stream_sync(void *device, ls_stream *stream, ls_message *why);
ls_status cuda_event_create(void *device, ls_event **event);
void cuda_event_destroy(void *device, ls_event *event);
ls_status cuda_event_record(void *device, ls_event *event, ls_stream *stream);
ls_status cuda_event_wait(void *device, ls_event *event, ls_stream *stream);
bool cuda_event_done(void *device, ls_event *event);
ls_status cuda_event_sync(void *device, ls_event *event, ls_message *why);
ls_status cuda_mark(void *device, ls_stream *stream, ls_mark_kind mark, ls_message *why);

#endif
