/* modes.h - the modes in which loaders distribute batches, as in Accelerate's own tests. */
#ifndef LOCKSTEP_TESTS_PARALLEL_MODES_H
#define LOCKSTEP_TESTS_PARALLEL_MODES_H

#include "run/team.h"

enum { MODES = 4 }; /* split_batches, dispatch_batches */

static void set_mode(ls_run *run, int mode)
{
    run->step->share.split_batches = mode & 1;
    run->step->share.dispatch = mode & 2;
}

/* The loader's batch size that gives `each` samples per process. */
static int64_t batch_of(const ls_run *run, int64_t each)
{
    return run->step->share.split_batches ? each * ls_world_size(run) : each;
}

#endif
