/* points.h - data for the trainings of these tests, and where they are saved. */
#ifndef LOCKSTEP_TESTS_CHECKPOINT_POINTS_H
#define LOCKSTEP_TESTS_CHECKPOINT_POINTS_H

#include <lockstep.h>

#include <stdio.h>
#include <unistd.h>

/* n points in `dims` dimensions, and on which side of a plane they are; does not advance the run's random numbers. */
static inline ls_dataset *points(ls_run *run, int64_t n, int64_t dims)
{
    ls_rng_state before = ls_rng(run);
    ls_set_rng(run, (ls_rng_state){.seed = 99});
    ls_tensor *x = ls_keep(ls_randn(run, LS_F32, n, dims));
    ls_tensor *y = ls_keep(ls_cast(ls_gt(ls_sum_dim(x, 1, false), ls_zeros(run, LS_F32, 1)), LS_I64));
    ls_set_rng(run, before);
    return ls_tensor_dataset_new(run, ls_set_name(x, "image"), ls_set_name(y, "label"));
}

/* A folder of this process; in memory if possible, since checkpoints wait for the disk. */
static inline const char *home_of(const char *test)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/lockstep-%s-%d", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", test,
             (int)getpid());
    return path;
}

#endif
