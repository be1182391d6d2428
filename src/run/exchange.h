/* exchange.h - the run's collectives on host memory: the one place that calls its communicator.
 *
 * `who` is the public function at work, for messages. False, and an error of the run, when a collective failed. */
#ifndef LOCKSTEP_RUN_EXCHANGE_H
#define LOCKSTEP_RUN_EXCHANGE_H

#include "run/session.h"

/* What ls_gather_object() does, in the name of another call. */
ls_gathered ls_gather_bytes(ls_run *run, const void *data, size_t size, const char *who);
/* all = `bytes` of rank 0, of rank 1, ... */
bool ls_exchange_all(ls_run *run, const void *mine, void *all, size_t bytes, const char *who);
/* The same on rank 0 alone; `all` of the others is not looked at. */
bool ls_exchange_gather(ls_run *run, const void *mine, void *all, size_t bytes, const char *who);
/* data[i] = op over ranks of data[i] */
bool ls_exchange_reduce(ls_run *run, void *data, int64_t count, ls_dtype dtype, ls_comm_op op, const char *who);
bool ls_exchange_broadcast(ls_run *run, void *data, size_t bytes, int from, const char *who);
/* For loaders, which rank 0 may read for all. */
extern const ls_exchange_table ls_exchange_of_main;
bool ls_exchange_barrier(ls_run *run, const char *who);
/* Is it so on any of them? *any becomes the same on all. */
bool ls_exchange_any(ls_run *run, bool mine, bool *any, const char *who);

#endif
