/* device.h - what the device of a run did since it was opened. */
#ifndef LOCKSTEP_DEVICE_STATS_H
#define LOCKSTEP_DEVICE_STATS_H

#include <lockstep/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers that a device does not have are 0. */
typedef struct ls_device_counts {
    uint64_t executed;        /* programs, of a device that compiles whole steps */
    uint64_t divided;         /* of them, those in which several chips divided a batch among them */
    uint64_t compiled;        /* programs that had to be compiled for that */
    uint64_t loaded;          /* compiled programs that were read from a file instead */
    uint64_t host_calls;      /* operators that ran on the host's CPU, because the device lacks them */
    char host_operators[200]; /* which, separated by spaces */
} ls_device_counts;

typedef struct ls_run ls_run;
LS_API ls_device_counts ls_device_stats(const ls_run *run);

/* A plug-in that counts exports ls_plugin_stats, of this type. */
typedef void ls_device_stats_fn(void *device, ls_device_counts *counts);

#ifdef __cplusplus
}
#endif
#endif
