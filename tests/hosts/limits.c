/* limits.c - hosts that grant little: 64 MiB of /dev/shm, as containers do, and half a CPU. */
#include "beside.h"

/* Gradients of two processes take 68 MiB, all in memory that they share. */
static void shared_memory_does_not_come_from_dev_shm(void)
{
    make_folder();
    CHECK_MSG(run(HOSTS " on a " LAUNCH "-n 2 " TRAINEE " %s 10 0 450000", folder) == 0, "%s", output);
    CHECK(run("ls -l %s/final/model.safetensors", folder) == 0);
}

/* A control group with half a CPU, by either version of the interface; "" where none can be made. */
static const char *make_group(void)
{
    static char group[128];
    strcpy(group, "/sys/fs/cgroup/cpu/lockstep-XXXXXX");
    if (mkdtemp(group) && run("cd %s && echo 100000 >cpu.cfs_period_us && echo 50000 >cpu.cfs_quota_us", group) == 0)
        return group;
    rmdir(group);
    strcpy(group, "/sys/fs/cgroup/lockstep-XXXXXX");
    if (mkdtemp(group) && run("cd %s && echo 50000 100000 >cpu.max", group) == 0) return group;
    rmdir(group);
    return "";
}

static void half_a_cpu_is_enough(void)
{
    make_folder();
    const char *group = make_group();
    if (!*group) CHECK_SKIP("no control group can be made here");
    CHECK(run("echo $$ >%s/cgroup.procs; " LAUNCH "--nproc-per-node auto sh -c 'echo $WORLD_SIZE $OMP_NUM_THREADS'",
              group) == 0);
    CHECK_TEXT(output, "1 1\n");
    /* Two processes that wait for each other, of which one runs: none must use up the time of the other by waiting. */
    CHECK_MSG(run("echo $$ >%s/cgroup.procs; " LAUNCH "-n 2 " TRAINEE " %s 100", group, folder) == 0, "%s", output);
    CHECK(run("rmdir %s", group) == 0);
}

int main(int argc, char **argv)
{
    begin_beside(1, argc, argv);
    CHECK_RUN(shared_memory_does_not_come_from_dev_shm);
    CHECK_RUN(half_a_cpu_is_enough);
    return check_done();
}
