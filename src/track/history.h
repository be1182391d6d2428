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
} ls_history_series;

struct ls_history {
    ls_object object;
    int count, capacity;
    ls_history_series *series; /* in the order in which names appeared */
    ls_name_table names;       /* of them, with their places */
};

/* Add a point. Where a resumed run comes to steps that were recorded before, the new values take the place of the old.
 * False when memory is out. The name has `length` bytes, none of them zero. */
bool ls_history_add(ls_history *history, const char *name, size_t length, double step, double value);

/* Read one file. False, with the reason, on failure; why stays empty when memory is out. A last line or record that is
 * not complete is left out: it is being written, or a crash cut it off. */
bool ls_history_read_jsonl(ls_history *history, const char *text, size_t size, ls_message *why);
bool ls_history_read_csv(ls_history *history, const char *text, size_t size, ls_message *why);
bool ls_history_read_events(ls_history *history, const char *bytes, size_t size, ls_message *why);

#endif
