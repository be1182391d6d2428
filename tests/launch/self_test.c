/* self_test.c - lockstep test: however it is started, it says that all is well, or what fails, by rank and host. */
#include "mpis.h"
#include "shell.h"

#define TEST LOCKSTEP_COMMAND " test "

static void expect_success(const char *processes)
{
    static const char *const names[] = {"start",     "identity",        "collectives",   "sharding of data",
                                        "gradients", "mixed precision", "shared folder", "checkpoint"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char line[64];
        snprintf(line, sizeof line, "  %-18spassed ", names[i]);
        CHECK(says(line));
    }
    CHECK(says(processes));
    CHECK(says("all-reduce: 4 bytes in ") && says(" GB/s)"));
    CHECK(says("\nAll checks passed: these processes can train together.\n"));
    CHECK(run("ls -d %s/lockstep_test_* 2>/dev/null", folder) != 0); /* nothing is left */
}

static void starts_itself(void)
{
    CHECK(run("cd %s && " TEST "-n 2", folder) == 0);
    expect_success(", 2 processes on 1 host: ");
    CHECK(run(TEST "--nproc_per_node=3 %s", folder) == 0);
    expect_success(", 3 processes on 1 host: ");
    CHECK(run("cd %s && taskset -c 0 " TEST, folder) == 0); /* one CPU: two processes all the same */
    expect_success(", 2 processes on 1 host: ");
}

/* What the job is started with must not change what the test expects. */
static void takes_the_options_of_launch(void)
{
    CHECK(run(TEST "-n 2 --mixed_precision fp16 --gradient_accumulation_steps 4 %s", folder) == 0);
    expect_success(", 2 processes on 1 host: ");
    CHECK(run("printf 'distributed_type: MULTI_CPU\nnum_processes: 3\nmixed_precision: bf16\n' > %s", path("c.yaml")) ==
          0);
    CHECK(run(TEST "--config_file %s %s", path("c.yaml"), folder) == 0);
    expect_success(", 3 processes on 1 host: ");
    CHECK(run(TEST "--num_procesess 3") == 2 &&
          says("lockstep test: unknown option \"--num_procesess\"; did you mean"));
    CHECK(run(TEST "--use_fsdp") == 2 && says("lockstep test: --use_fsdp cannot be used: FSDP is not supported"));
    CHECK(run(TEST "a b") == 2 && says("lockstep test: give at most one folder"));
    CHECK(run(TEST "-m") == 2 && says("--module and --no_python are for programs of lockstep launch"));
    CHECK(run(TEST "-n 1 %s", folder) == 0 &&
          says("All checks passed, with one process: communication was not tested."));
}

static void other_launchers_start_it(void)
{
    CHECK(run("cd %s && " LAUNCH "-n 2 " TEST, folder) == 0);
    expect_success(", 2 processes on 1 host: ");
    CHECK(run("cd %s && export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 LOCKSTEP_COMM_TOKEN=%s; RANK=1 LOCAL_RANK=1 " TEST
              "& RANK=0 LOCAL_RANK=0 " TEST "; wait",
              folder, folder) == 0);
    expect_success(", 2 processes on 1 host: ");
}

static void it_finds_itself(void)
{
    CHECK(run("ASAN_OPTIONS=detect_leaks=0 %s -n 3 " TEST "%s </dev/null", mpi_in_use->mpiexec, folder) == 0);
    expect_success(", 3 processes on 1 host: ");
    CHECK(run("ASAN_OPTIONS=detect_leaks=0 %s -n 1 " TEST "%s </dev/null", mpi_in_use->mpiexec, folder) == 0);
    CHECK(says(", 1 process on 1 host: ")); /* it is told who it is, and starts no others */
}

/* By the launcher, with a file of hosts in its own words. */
static void mpirun_is_called_for_it(void)
{
    CHECK(run("mkdir -p %s/bin && echo 'exec %s \"$@\"' >%s/bin/mpirun && chmod +x %s/bin/mpirun && echo '%s' >%s",
              folder, mpi_in_use->mpiexec, folder, folder, mpi_is(OPEN_MPI) ? "localhost slots=4" : "localhost:4",
              path("hosts")) == 0);
    CHECK(run("ASAN_OPTIONS=detect_leaks=0 PATH=%s/bin:$PATH " TEST "--mpirun_hostfile %s -n 2 %s </dev/null", folder,
              path("hosts"), folder) == 0);
    expect_success(", 2 processes on 1 host: ");
}

/* A pod whose variables speak to a launcher. */
static void pods_launch_it(void)
{
    CHECK(run("cd %s && RANK=0 WORLD_SIZE=2 PET_NNODES=1 PET_NPROC_PER_NODE=2 PET_MASTER_ADDR=127.0.0.1 "
              "MASTER_ADDR=127.0.0.1 MASTER_PORT=%d " TEST,
              folder, find_port()) == 0);
    expect_success(", 2 processes on 1 host: ");
}

/* ---- What fails, and where ---- */

static void a_missing_folder_is_named(void)
{
    CHECK(run(TEST "-n 2 %s/none", folder) == 1);
    CHECK(says("  shared folder     FAILED ") && says("      rank 0 on ") && says("cannot create a folder in "));
    CHECK(says("(No such file or directory)") && says("lockstep test: failed at: shared folder"));
    CHECK(says("  mixed precision   passed ") && !strstr(output, "checkpoint") && !strstr(output, "All checks passed"));
}

/* Rank 1 sees another file system in the folder's place, as a host would that does not share it. */
static void a_folder_that_is_not_shared_is_named(void)
{
    if (!may_mount()) return;
    CHECK(run(LAUNCH "-n 2 sh -c 'if [ $RANK = 0 ]; then exec " TEST "%s; fi; exec unshare -m sh -c \"mount -t tmpfs "
                     "none %s && exec " TEST "%s\"'",
              folder, folder, folder) == 1);
    CHECK(says("  shared folder     FAILED ") && says("      rank 1 on ") && !strstr(output, "      rank 0 on "));
    CHECK(says("created by rank 0, is not visible here: pass a folder to lockstep test that all hosts share"));
    CHECK(says("lockstep: first cause: rank 1 "));
}

static void a_process_that_does_not_come_is_named(void)
{
    CHECK(run(LAUNCH "-n 3 sh -c 'if [ $RANK = 2 ]; then exit 3; fi; exec " TEST "%s'", folder) == 3);
    CHECK(says("first cause: rank 2 ") && !strstr(output, "All checks passed"));
}

static void who_is_contradictory_is_told(void)
{
    CHECK(run("RANK=3 LOCAL_RANK=0 WORLD_SIZE=2 " TEST) == 1);
    CHECK(says("ls_init: the environment of torchrun contradicts itself: rank 3, world size 2"));
}

int main(int argc, char **argv)
{
    begin_shell(argc, argv);
    CHECK_RUN(starts_itself);
    CHECK_RUN(takes_the_options_of_launch);
    CHECK_RUN(other_launchers_start_it);
    CHECK_RUN_MPIS(it_finds_itself);
    CHECK_RUN_MPIS(mpirun_is_called_for_it);
    CHECK_RUN(pods_launch_it);
    CHECK_RUN(a_missing_folder_is_named);
    CHECK_RUN(a_folder_that_is_not_shared_is_named);
    CHECK_RUN(a_process_that_does_not_come_is_named);
    CHECK_RUN(who_is_contradictory_is_told);
    return check_done();
}
