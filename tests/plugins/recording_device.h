/* recording_device.h - what the recording device reports to a test about its programs. */
#ifndef LOCKSTEP_TESTS_RECORDING_DEVICE_H
#define LOCKSTEP_TESTS_RECORDING_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct recording_report {
    int64_t programs; /* executed so far */
    int64_t calls;    /* operators in the last of them */
    bool same;        /* the last equals the one before it, byte for byte */
    size_t bytes;     /* of the last, as it was compared */
    int64_t outputs;  /* memory that the last one wrote and that outlived it */
    size_t output_bytes;
} recording_report;

/* The symbol `recording_report_get` of the plug-in. */
typedef recording_report recording_report_fn(void);

#endif
