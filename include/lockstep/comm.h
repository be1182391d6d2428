/* comm.h - collectives on raw memory, between all processes of a run or some of them, as in MPI, oneCCL and
 * torch.distributed. docs/collectives.md shows their calls beside these.
 *
 *     ls_comm *all = ls_comm_of(run);
 *     float *x = ls_comm_share(all, n * sizeof *x);         shared: nothing is copied; any other memory works too
 *     ...
 *     ls_collective(all, LS_COMM_ALL_REDUCE, .in = x, .out = x, .count = n, .dtype = LS_F32);
 *
 *     ls_request *r = ls_collective_start(all, LS_COMM_ALL_GATHER, .in = y, .out = z, .count = m, .dtype = LS_I64);
 *     ... something else ...
 *     ls_request_wait(r);
 *
 * A communicator is a group of processes, its ranks, numbered from 0. All of them make the same calls on it in the same
 * order, started ones and others alike; send and receive concern two ranks only. Calls that differ in kind, type or
 * size are detected, and every process is told who called what, and where. No call waits forever: if a process dies,
 * fails or does not arrive within LOCKSTEP_COMM_TIMEOUT seconds, the call fails on all others.
 *
 * Results depend on ranks and numbers, not on timing: sums are formed in the order of ranks; f16 and bf16 are summed in
 * f32 and rounded once; every rank gets the same bits. All types of numbers are allowed. A NaN wins over every number.
 *
 * Failures are errors of the run, sticky like all others. Communicators belong to the run's thread. Functions that
 * return a communicator or request return NULL after a failure; every function accepts that NULL and does nothing. A
 * run of one process has communicators of one rank, on which everything works. */
#ifndef LOCKSTEP_COMM_H
#define LOCKSTEP_COMM_H

#include <lockstep/collective.h>
#include <lockstep/run.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_comm ls_comm;
typedef struct ls_request ls_request;

/* ---- Calling ---- */

#define LS_COMM_TEXT_(x) LS_COMM_TEXT_OF_(x)
#define LS_COMM_TEXT_OF_(x) #x
/* The named members end with a comma; there may be none. */
#define LS_COMM_CALL_(kind_, ...)                                                                                      \
    LS_OPTS(ls_comm_call, .kind = (kind_), __VA_ARGS__.site = __FILE__ ":" LS_COMM_TEXT_(__LINE__))

/* Make the call, and return when it is done. False (and an error) on failure. */
#define ls_collective(comm, ...) LS_COLLECTIVE_(comm, __VA_ARGS__, )
#define LS_COLLECTIVE_(comm, ...) ls_collective_sized((comm), LS_COMM_CALL_(__VA_ARGS__))
LS_API bool ls_collective_sized(ls_comm *comm, const ls_comm_call *call, size_t size);

/* Start it: it is made in the background, after those started before. Arrays and lists of counts must stay unchanged
 * until it has been waited for, and `out` is undefined until then. NULL (and an error) on failure.
 * With LOCKSTEP_COMM_WORKERS=0 there is no background thread and the call is made at once. */
#define ls_collective_start(comm, ...) LS_COLLECTIVE_START_(comm, __VA_ARGS__, )
#define LS_COLLECTIVE_START_(comm, ...) ls_collective_start_sized((comm), LS_COMM_CALL_(__VA_ARGS__))
LS_API ls_request *ls_collective_start_sized(ls_comm *comm, const ls_comm_call *call, size_t size);

/* Has it finished, successfully or not? Does not wait. */
LS_API bool ls_request_done(const ls_request *request);
/* Wait until it has; this frees the request. False (and an error) if it failed. */
LS_API bool ls_request_wait(ls_request *request);

/* ---- Tensors, with gradients ----
 *
 * Operators whose inputs come from all ranks of a communicator: each rank passes a tensor of the same shape and type,
 * on its device, and gets one there. The gradient is that of the sum of all ranks' losses, so backward must reach the
 * same of these operators on all ranks, and the communicator must live until then.
 * ls_reduce(), ls_gather() and ls_broadcast() (<lockstep/run.h>) are for metrics: of all processes of the run, and
 * without gradients. */

/* op over ranks, element by element. Gradients flow through LS_REDUCE_SUM and LS_REDUCE_MEAN. */
LS_API ls_tensor *ls_all_reduce(ls_comm *comm, ls_tensor *x, ls_reduction op);
/* [n, ...] of each rank, one after the other: [size * n, ...]. */
LS_API ls_tensor *ls_all_gather(ls_comm *comm, ls_tensor *x);
/* op over ranks of [size * n, ...]; each rank gets its part, [n, ...]. Gradients as with ls_all_reduce(). */
LS_API ls_tensor *ls_reduce_scatter(ls_comm *comm, ls_tensor *x, ls_reduction op);
/* x of rank `root`. */
LS_API ls_tensor *ls_broadcast_from(ls_comm *comm, ls_tensor *x, int root);

/* ---- Communicators ----
 *
 * They, and memory shared in them, are freed with the run. */

/* All processes of the run. The first call is made by all of them, as if it were a barrier. */
LS_API ls_comm *ls_comm_of(ls_run *run);
/* The ranks of equal colour, ordered by key, then by rank; NULL for a colour below 0. All ranks of `comm` must call. */
LS_API ls_comm *ls_comm_split(ls_comm *comm, int colour, int key);
/* Free one made by ls_comm_split(), on all its ranks, after those split from it; waits for calls started on it. */
LS_API void ls_comm_free(ls_comm *comm);
LS_API int ls_comm_rank(const ls_comm *comm); /* 0 for NULL */
LS_API int ls_comm_size(const ls_comm *comm); /* 1 for NULL */

/* Memory of this process that the others of its host can work in: zero, aligned to pages, freed with the communicator.
 * All ranks call with the same size. NULL (and an error) on failure. */
LS_API void *ls_comm_share(ls_comm *comm, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
