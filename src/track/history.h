/* history.h - recorded values, read back: one series of points per name. */
#ifndef LOCKSTEP_TRACK_HISTORY_H
#define LOCKSTEP_TRACK_HISTORY_H

#include <lockstep/track.h>

#include "base/message.h"
#include "base/names.h"
#include "tensor/object.h"

typedef struct ls_history_series {
    char *name;
    int64_t count, capacity;
    double *x, *y;
    int before;    /* 1 + the number of the series that got a value before it in the record that is being read; -1: it
                    * was the first, 0: it has none there */
    bool is_timed; /* its last record that has a time is one of ls_history's times */
} ls_history_series;

struct ls_history {
    ls_object object;
    int count, capacity;
    ls_history_series *series; /* in order of first appearance */
    ls_name_table names;       /* from name to index */
    ls_history_series times;   /* when each step was recorded, in seconds since 1970; unnamed */
    int latest;                /* 1 + the number of the series that got a value last in this record; 0: none has */
    bool rewound;              /* this record replaced later ones that are timed: the run was resumed from there */
    int64_t lines;             /* read so far, of JSON */
};

/* Add a point. If a resumed run repeats steps, the new values replace the old ones. False: out of memory. The name has
 * `length` bytes, none of them zero. */
bool ls_history_add(ls_history *history, const char *name, size_t length, double step, double value);
/* Ends a record, after its values: when it was made, NaN if unknown. Values by epoch have smaller steps than those by
 * step: they neither say when a step was, nor do they take times of steps away when a resumed run repeats them. */
bool ls_history_end_record(ls_history *history, double step, double seconds);

/* Add what is in a file, or in the folder of a run; `linked`: also in files that a link leads to. False as for the
 * readers below, whose messages then name the file. */
bool ls_history_load(ls_history *history, const char *path, bool linked, ls_message *why);
/* Free all series and leave it empty. */
void ls_history_clear(ls_history *history);

/* Read one file, JSON lines also piece by piece. False on failure, with the reason in `why`, which stays empty if out
 * of memory. An incomplete last line or record is ignored: it is being written, or was cut off by a crash.
 * `*lost`: how many bytes at the end of events are left out, because a disk with a journal kept the length of the file
 * but lost its last bytes when the machine stopped: they are zeros, which may begin inside a record. */
bool ls_history_read_jsonl(ls_history *history, const char *text, size_t size, ls_message *why);
bool ls_history_read_csv(ls_history *history, const char *text, size_t size, ls_message *why);
bool ls_history_read_events(ls_history *history, const char *bytes, size_t size, size_t *lost, ls_message *why);

#endif
