/* share.h - divide items among processes. */
#ifndef LOCKSTEP_RUN_SHARE_H
#define LOCKSTEP_RUN_SHARE_H

#include <lockstep/run.h>

/* Rank's part of `count` items: consecutive; the first count % world ranks get one more. */
static inline ls_range ls_share_of(int64_t count, int rank, int world)
{
    int64_t each = count / world, more = count % world;
    int64_t begin = rank * each + (rank < more ? rank : more);
    return (ls_range){begin, begin + each + (rank < more)};
}

/* The largest part. */
static inline int64_t ls_share_largest(int64_t count, int world)
{
    return (count + world - 1) / world;
}

#endif
