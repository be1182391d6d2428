/* exchange.h - collectives on host memory between all processes of the run.
 *
 * `who` is the public function, for messages. All processes must make the same call. False, and an error of the run, if
 * a collective failed. */
#ifndef LOCKSTEP_TENSOR_EXCHANGE_H
#define LOCKSTEP_TENSOR_EXCHANGE_H

#include "tensor/context.h"

/* all = `bytes` of rank 0, of rank 1, ... */
bool ls_exchange_all(ls_run *run, const void *mine, void *all, size_t bytes, const char *who);
/* mine = part `rank`, of `bytes`, of rank 0's `all`. On rank 0 `mine` may be its own part of `all`. */
bool ls_exchange_scatter(ls_run *run, const void *all, void *mine, size_t bytes, const char *who);
/* data[i] = op over ranks of data[i] */
bool ls_exchange_reduce(ls_run *run, void *data, int64_t count, ls_dtype dtype, ls_reduction op, const char *who);
bool ls_exchange_broadcast(ls_run *run, void *data, size_t bytes, int from, const char *who);
bool ls_exchange_barrier(ls_run *run, const char *who);
/* *any = is `mine` true on any process? The same on all. */
bool ls_exchange_any(ls_run *run, bool mine, bool *any, const char *who);

/* Report the run's first error, if there is one, to the other processes. */
void ls_report_failure(ls_run *run);

#endif
