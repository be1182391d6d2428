/* share.h - this process's part of the data and of the optimiser's state. */
#ifndef LOCKSTEP_STEP_SHARE_H
#define LOCKSTEP_STEP_SHARE_H

#include <lockstep/run.h>

/* Which of several processes this is, and how loaders divide their batches among them. */
typedef struct ls_share {
    int rank, world;
    bool split_batches; /* .batch is for all ranks together */
    bool uneven;        /* ranks may get different numbers of batches, and no sample twice */
    bool dispatch;      /* rank 0 reads and sends each rank its part */
    bool optimizer;     /* optimisers: each process keeps the state of a slice of the parameters, and updates that */
} ls_share;

/* The slice of a block of n elements that belongs to a process: consecutive, in whole cache lines of f32, as even as
 * possible. */
static inline ls_range ls_slice_of(int64_t n, int rank, int world)
{
    enum { LINE = 16 };
    int64_t lines = (n + LINE - 1) / LINE, each = lines / world, more = lines % world;
    int64_t begin = (rank * each + (rank < more ? rank : more)) * LINE;
    int64_t end = begin + (each + (rank < more)) * LINE;
    return (ls_range){begin < n ? begin : n, end < n ? end : n};
}

#endif
