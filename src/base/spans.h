/* spans.h - what a process spends its time on, for profiles: spans between two readings of a clock, with names.
 *
 *     int64_t began = ls_spans_clock();
 *     ... wait ...
 *     ls_spans_add(LS_SPAN_DATA_WAIT, "batch", NULL, began);
 *
 * While no profile is taken, both calls cost one load. Operators are not measured here but by a device's table that the
 * profile wraps (run/profile/), so that without a profile they cost nothing. Totals are complete; of the spans
 * themselves the first LS_SPANS_MOST are kept. */
#ifndef LOCKSTEP_BASE_SPANS_H
#define LOCKSTEP_BASE_SPANS_H

#include <lockstep/base.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum ls_span_kind {
    LS_SPAN_OPERATOR,
    LS_SPAN_COLLECTIVE,  /* a collective, in whichever thread makes it */
    LS_SPAN_COMM_WAIT,   /* the program waits for a collective of another thread */
    LS_SPAN_DATA_WAIT,   /* for a batch */
    LS_SPAN_DEVICE_WAIT, /* for an asynchronous device */
    LS_SPAN_KINDS
} ls_span_kind;

enum { LS_SPANS_MOST = 500000, LS_SPAN_CHUNK = 16384 };

/* All spans of one name and place. */
typedef struct ls_span_total {
    ls_span_kind kind;
    const char *name;             /* constant */
    const char *site;             /* path of the module, or NULL */
    int64_t count, time, longest; /* ns */
} ls_span_total;

typedef struct ls_time_span {
    int64_t began, time; /* ns, CLOCK_MONOTONIC */
    int32_t total;       /* which of the totals it is part of */
} ls_time_span;

typedef struct ls_span_chunk {
    struct ls_span_chunk *next;
    int32_t count;
    ls_time_span spans[LS_SPAN_CHUNK];
} ls_span_chunk;

/* What one or more threads have recorded. */
typedef struct ls_span_lane {
    ls_span_total *totals;
    int32_t total_count, total_capacity;
    int32_t *slots; /* a hash table over the totals: index + 1; as many as `slot_count`, a power of two */
    int32_t slot_count;
    ls_span_chunk *first, *last;
    int64_t count, dropped; /* spans that are kept; that are not */
} ls_span_lane;

typedef struct ls_spans {
    int64_t began, ended;
    ls_span_lane program, background; /* of the thread that takes the profile; of all others */
} ls_spans;

/* Start measuring in all threads of this process. LS_ERR_STATE: it is being done already; LS_ERR_MEMORY. */
ls_status ls_spans_begin(void);
/* Stop, and return what was measured; NULL if nothing was. The caller frees it. */
ls_spans *ls_spans_end(void);
void ls_spans_free(ls_spans *spans); /* NULL is accepted */

/* ns; 0 while nothing is measured. */
int64_t ls_spans_clock(void);
/* A span that ends now. Does nothing if `began` is 0. */
void ls_spans_add(ls_span_kind kind, const char *name, const char *site, int64_t began);

#endif
