/* launched.c - runs of several processes: started by the launcher, by its function, or by hand. */
#include <lockstep.h>

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "mpis.h"
#include "printed.h"

static void expect_exchange_of_two(void)
{
    HAS("rank 0 of 2, local 0 of 2: rows 3 sum 4 total 9 mean 1.5 from 2 padded 2 words rank 1 part 3");
    HAS("rank 1 of 2, local 1 of 2: rows 3 sum 4 total 9 mean 1.5 from 2 padded 2 words rank 1 part 2");
}

static void the_launcher_starts_them(void)
{
    CHECK(shell(LOCKSTEP_COMMAND " launch -n 2 " WORKER " exchange 2>&1") == 0);
    expect_exchange_of_two();
    CHECK(shell(LOCKSTEP_COMMAND " launch -n 4 " WORKER " exchange 2>&1") == 0);
    HAS("rank 3 of 4, local 3 of 4: rows 10 sum 40 total 30 mean 2.5 from 4 padded 4 words rank 3 part 2");
    CHECK(shell(LOCKSTEP_COMMAND " launch -n 3 " WORKER " trigger 2>&1") == 0);
    HAS("rank 0: 1 0");
    HAS("rank 2: 1 0");
}

/* Without the launcher they find each other by a name that all know. */
static void shells_start_them(void)
{
    CHECK(shell("export MASTER_ADDR=127.0.0.1 WORLD_SIZE=2 LOCKSTEP_COMM_TOKEN=test_$$; RANK=1 LOCAL_RANK=1 " WORKER
                " exchange 2>&1 & sleep 0.05; RANK=0 LOCAL_RANK=0 " WORKER " exchange; wait 2>&1") == 0);
    expect_exchange_of_two();
    CHECK(shell("export MASTER_ADDR=127.0.0.1 WORLD_SIZE=2 RANK=1 LOCAL_RANK=1 LOCKSTEP_COMM_TIMEOUT=1 "
                "LOCKSTEP_COMM_TOKEN=alone_$$; " WORKER " exchange 2>&1") == 1);
    HAS("ls_init: rank 1 of 2 waited for rank 0, which did not start");
    CHECK(shell("export MASTER_ADDR=127.0.0.1 WORLD_SIZE=3 RANK=0 LOCAL_RANK=0 LOCKSTEP_COMM_TIMEOUT=1 "
                "LOCKSTEP_COMM_TOKEN=alone_$$; " WORKER " exchange 2>&1") == 1);
    HAS("ls_init: 2 of 3 processes did not join; the first missing is rank 1");
    CHECK(shell("export MASTER_ADDR=127.0.0.1 LOCKSTEP_COMM_TOKEN=sizes_$$ LOCKSTEP_COMM_TIMEOUT=5; (RANK=0 "
                "LOCAL_RANK=0 WORLD_SIZE=2 " WORKER " exchange & RANK=1 LOCAL_RANK=1 WORLD_SIZE=3 " WORKER
                " exchange; wait) 2>&1") == 0);
    HAS("rank 1 expects 3 processes, rank 0 expects 2");
}

/* Real launchers; one of them also with only PMIx's own variables. */
static void they_find_each_other(void)
{
    for (int i = 0; i < 1 + mpi_is(OPEN_MPI); i++) {
        char line[1024];
        snprintf(line, sizeof line, "ASAN_OPTIONS=detect_leaks=0 %s -n 2 %s" WORKER " exchange </dev/null 2>&1",
                 mpi_in_use->mpiexec, i ? "env -u OMPI_COMM_WORLD_RANK -u OMPI_COMM_WORLD_SIZE " : "");
        CHECK(shell(line) == 0);
        expect_exchange_of_two();
    }
}

/* ---- CPUs ---- */

/* CPUs that a process may use; the tests below need several. */
static int count_cpus(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/* Two processes, with this many threads each, and this many CPUs that they are bound to. */
static void expect_threads(int threads, int cpus)
{
    for (int rank = 0; rank < 2; rank++) {
        char line[80];
        snprintf(line, sizeof line, "rank %d: threads %d, CPUs %d\n", rank, threads, cpus);
        HAS(line);
    }
}

/* Started by hand, with variables for the first and for the second. */
static int start_two(const char *both, const char *first, const char *second)
{
    char line[1024];
    snprintf(line, sizeof line,
             "unset OMP_NUM_THREADS LOCKSTEP_NUM_THREADS; export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 "
             "LOCKSTEP_COMM_TOKEN=cpus_$$ LOCKSTEP_PIN=yes %s; RANK=1 LOCAL_RANK=1 %s " WORKER
             " threads 2>&1 & RANK=0 LOCAL_RANK=0 %s " WORKER " threads; wait",
             both, second, first);
    return shell(line);
}

static void they_share_the_cpus(void)
{
    int cpus = count_cpus();
    if (cpus < 2 || cpus % 2) CHECK_SKIP("%d CPUs cannot be halved", cpus);
    CHECK(start_two("", "", "") == 0);
    expect_threads(cpus / 2, cpus / 2);
    CHECK(start_two("LOCKSTEP_PIN=no", "", "") == 0);
    expect_threads(cpus / 2, cpus);
    CHECK(start_two("OMP_NUM_THREADS=3,2", "", "") == 0);
    expect_threads(3, cpus > 5 ? cpus / 2 : cpus);
    CHECK(start_two("OMP_NUM_THREADS=3 LOCKSTEP_NUM_THREADS=1", "", "") == 0);
    expect_threads(1, cpus / 2);
    CHECK(shell("env -u OMP_NUM_THREADS " LOCKSTEP_COMMAND " launch -n 2 --enable_cpu_affinity " WORKER
                " threads 2>&1") == 0);
    expect_threads(cpus / 2, cpus / 2);
}

/* Started by a launcher that bound each to its own CPUs. */
static void what_is_bound_stays_bound(void)
{
    int cpus = count_cpus();
    if (cpus < 2) CHECK_SKIP("there is one CPU");
    if (shell("taskset -c 0-1 true 2>&1") != 0) CHECK_SKIP("%s", output);
    CHECK(start_two("", "taskset -c 0", "taskset -c 1") == 0);
    expect_threads(1, 1);
    CHECK(start_two("", "taskset -c 0,1", "taskset -c 1") == 0);
    HAS("rank 0: threads 2, CPUs 2\n");
    HAS("rank 1: threads 1, CPUs 1\n");
}

static void they_take_their_share(void)
{
    int cpus = count_cpus();
    if (cpus < 2 || cpus % 2) CHECK_SKIP("%d CPUs cannot be halved", cpus);
    char line[1024];
    snprintf(line, sizeof line,
             "unset OMP_NUM_THREADS; export LOCKSTEP_PIN=yes; %s %s -n 2 " WORKER " threads </dev/null 2>&1",
             mpi_in_use->mpiexec, mpi_is(OPEN_MPI) ? "--bind-to none" : "");
    CHECK(shell(line) == 0);
    expect_threads(cpus / 2, cpus / 2);
}

/* A program that asks for GPUs where there are none, or hidden ones, must not silently run on the CPU. */
static void asking_for_gpus_does_not_give_the_cpu(void)
{
    CHECK(shell("CUDA_VISIBLE_DEVICES= " LOCKSTEP_COMMAND " launch -n 2 --multi_gpu " WORKER " exchange 2>&1") == 1);
    HAS("LOCKSTEP_DEVICE=cuda, set by a launcher if GPUs or TPUs are requested: ");
    HAS("To train on the CPU, unset it, or launch with --cpu, without --multi_gpu");
    CHECK(!strstr(output, "rank 0 of 2"));
    CHECK(shell(LOCKSTEP_COMMAND " launch -n 2 --cpu --gpu_ids 0 " WORKER " exchange 2>&1") == 0);
    expect_exchange_of_two();
}

/* WORLD_SIZE counts what a launcher would start in each pod; without a launcher a pod is one process. */
static void pods_are_processes(void)
{
    CHECK(shell("RANK=0 WORLD_SIZE=4 PET_NNODES=1 PET_NPROC_PER_NODE=4 MASTER_ADDR=pod-0 MASTER_PORT=23456 " WORKER
                " exchange 2>&1") == 0);
    HAS("rank 0 of 1, local 0 of 1: ");
    CHECK(shell("RANK=1 WORLD_SIZE=8 PET_NNODES=2 PET_NPROC_PER_NODE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=9 "
                "LOCKSTEP_COMM_TIMEOUT=1 " WORKER " exchange 2>&1") == 1);
    HAS("ls_init: rank 1 of 2 did not find rank 0 at 127.0.0.1:9 within 1 s: Connection refused");
}

/* One run after another, in the same processes. */
static void a_process_joins_again(void)
{
    CHECK(shell(LOCKSTEP_COMMAND " launch -n 2 " WORKER " twice 2>&1") == 0);
    expect_exchange_of_two();
    CHECK(strstr(strstr(output, "rank 1 of 2") + 1, "rank 1 of 2"));
    CHECK(shell("export MASTER_ADDR=127.0.0.1 WORLD_SIZE=2 LOCKSTEP_COMM_TOKEN=twice_$$; RANK=1 LOCAL_RANK=1 " WORKER
                " twice 2>&1 & RANK=0 LOCAL_RANK=0 " WORKER " twice; wait 2>&1") == 0);
    expect_exchange_of_two();
}

/* ---- failures ---- */

static void one_failure_fails_all(void)
{
    CHECK(shell(LOCKSTEP_COMMAND " launch -n 3 " WORKER " fail 2>&1") == 1);
    HAS("matmul: [2,3] f32 x [2,3] f32: inner sizes 3 and 2 differ");
    HAS("first cause: rank 1 ");
    /* Without a launcher they exit by themselves. */
    shell("export MASTER_ADDR=127.0.0.1 WORLD_SIZE=2 LOCKSTEP_COMM_TOKEN=fail_$$; (RANK=1 LOCAL_RANK=1 " WORKER
          " fail & RANK=0 LOCAL_RANK=0 " WORKER " fail; wait) 2>&1");
    HAS("ls_gather: rank 1 failed: matmul: [2,3] f32 x [2,3] f32: inner sizes 3 and 2 differ");
}

static void a_dead_process_is_named(void)
{
    CHECK(shell(LOCKSTEP_COMMAND " launch -n 2 " WORKER " die 2>&1") == 128 + SIGKILL);
    HAS("first cause: rank 1 ");
    HAS("was killed by SIGKILL");
    HAS("the last collective calls of all workers:");
    HAS("rank 1: barrier (ls_wait_for_everyone, call 3), done");
    CHECK(shell(LOCKSTEP_COMMAND " launch -n 3 " WORKER " leave 2>&1") == 9);
    HAS("first cause: rank 1 ");
    HAS("exited with code 9");
}

/* The launcher tells survivors at once, with the reason. The time is printed, not checked: the machine may be busy. */
static void survivors_learn_the_cause_at_once(void)
{
    CHECK(shell(LOCKSTEP_COMMAND " launch -n 4 " WORKER " survive 2>&1") == 128 + SIGKILL);
    const char *at = strstr(output, "killed ");
    double killed = at ? atof(at + 7) : 0, last = 0;
    int knew = 0;
    for (at = output; (at = strstr(at, "knew ")); at += 5, knew++) last = fmax(last, atof(at + 5));
    CHECK_MSG(knew == 3, "%d of 3 returned:\n%s", knew, output);
    /* Either the launcher or another survivor has told all. */
    CHECK_MSG(strstr(output, ": rank 1 (local rank 1, host ") || strstr(output, ": rank 1 (process "), "%s", output);
    printf("survivors returned %.1f ms after kill -9\n", 1e3 * (last - killed));
}

static void different_calls_end_the_job(void)
{
    CHECK(shell(LOCKSTEP_COMMAND " launch -n 2 " WORKER " differ 2>&1") == 1);
    HAS("processes disagree: rank 0 calls barrier (ls_wait_for_everyone, call 3), rank 1 calls all-reduce max of 1 i32 "
        "(ls_check_trigger, call 3)");
    /* Under the name of the public function, not of one inside it. */
    CHECK(shell(LOCKSTEP_COMMAND " launch -n 2 " WORKER " save_alone 2>&1") == 1);
    HAS("(ls_save_state, call 3)");
    CHECK(!strstr(output, "ls_gather_object"));
}

static int count(const char *words)
{
    int times = 0;
    for (const char *at = output; (at = strstr(at, words)); at++) times++;
    return times;
}

/* Warnings about the job are not repeated by each process. */
static void the_job_warns_once(void)
{
    CHECK(shell("once=$(mktemp -d); LOCKSTEP_NONSENSE=1 LOCKSTEP_ISA=none " LOCKSTEP_COMMAND " launch -n 3 " WORKER
                " train $once/out --resume_from_checkpoint latest --output_dir $once 2>&1; code=$?; rm -r $once; "
                "exit $code") == 0);
    CHECK_MSG(count("no checkpoint in ") == 1 && count("LOCKSTEP_ISA=none is ignored") == 1, "%s", output);
    CHECK_MSG(count("LOCKSTEP_NONSENSE has no effect") <= 2, "%s", output); /* the launcher, and one worker */
    CHECK_MSG(count("LOCKSTEP_NONSENSE has no effect") >= 1, "%s", output);
}

/* ---- signals ---- */

/* A signal to one process, or to the launcher, stops all after the same step. */
static void all_stop_after_the_same_step(void)
{
    static const struct way {
        const char *kill;
        int code;
    } ways[] = {{"kill -TERM $!", 128 + SIGTERM},
                {"kill -USR1 $!", 128 + SIGUSR1}, /* Slurm's notice */
                {"kill -TERM $(cat $f.pid)", 128 + SIGTERM}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char line[1024];
        snprintf(line, sizeof line,
                 "f=$(mktemp -u); " LOCKSTEP_COMMAND " launch -n 3 " WORKER " stop $f 2>&1 & "
                 "while [ ! -f $f ]; do sleep 0.01; done; %s; wait $!; code=$?; rm $f $f.pid; exit $code",
                 ways[i].kill);
        CHECK_MSG(shell(line) == ways[i].code, "%s:\n%s", ways[i].kill, output);
        const char *at = strstr(output, "stopped after ");
        int step = at ? atoi(at + 14) : -1, same = 0;
        for (; at; at = strstr(at + 1, "stopped after ")) same += atoi(at + 14) == step;
        CHECK_MSG(same == 3, "%s:\n%s", ways[i].kill, output);
        bool failed = strstr(output, "first cause") != NULL; /* only if the launcher got no signal */
        CHECK_MSG(failed == (i == 2), "%s:\n%s", ways[i].kill, output);
    }
    CHECK(shell("f=$(mktemp -u); " WORKER " stop $f & while [ ! -f $f ]; do sleep 0.01; done; kill $!; wait $!") ==
          128 + SIGTERM);
    HAS("rank 0 stopped after ");
}

/* ---- the function ---- */

static int sum_ranks(void *argument)
{
    ls_run *run = ls_init(NULL, NULL);
    double sum = ls_item(ls_sum(ls_reduce(run, ls_full(run, LS_F32, ls_rank(run) + 1, 1), LS_REDUCE_SUM)));
    ls_finish(run);
    return sum == *(const double *)argument ? 0 : 3;
}

static void the_function_starts_them(void)
{
    double want = 6;
    CHECK(ls_launch(sum_ranks, &want, .num_processes = 3) == 0);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(the_launcher_starts_them);
    CHECK_RUN(shells_start_them);
    CHECK_RUN_MPIS(they_find_each_other);
    CHECK_RUN(they_share_the_cpus);
    CHECK_RUN(what_is_bound_stays_bound);
    CHECK_RUN_MPIS(they_take_their_share);
    CHECK_RUN(asking_for_gpus_does_not_give_the_cpu);
    CHECK_RUN(pods_are_processes);
    CHECK_RUN(a_process_joins_again);
    CHECK_RUN(one_failure_fails_all);
    CHECK_RUN(a_dead_process_is_named);
    CHECK_RUN(survivors_learn_the_cause_at_once);
    CHECK_RUN(different_calls_end_the_job);
    CHECK_RUN(the_job_warns_once);
    CHECK_RUN(all_stop_after_the_same_step);
    CHECK_RUN_FORK(the_function_starts_them);
    return check_done();
}
