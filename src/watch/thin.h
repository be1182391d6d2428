/* thin.h - curves for a screen: at most so many points that one more would not be seen. */
#ifndef LOCKSTEP_WATCH_THIN_H
#define LOCKSTEP_WATCH_THIN_H

#include "base/json.h"
#include "track/history.h"

enum { LS_THIN_POINTS = 1000 };

/* Write the members "x" and "y" of a curve. If it has more points than fit, neighbours are combined: x is the step of
 * the last, y the mean, and "low" and "high" are their extremes. Values that are not finite take no part in these, and
 * are null where there is nothing else. */
void ls_thin_put(ls_json_writer *w, const ls_history_series *series);

#endif
