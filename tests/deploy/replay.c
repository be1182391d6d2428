/* replay.c - lockstep launch in pods that are not there: with exactly the variables that operators give them, on
 * 127.0.0.1 in place of the pods' names. */
#include "launch/plan.h"

#include "../launch/shell.h"

/* Says who each worker is, in one line. */
#define WHO                                                                                                            \
    "sh -c 'echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE "                       \
    "$TORCHELASTIC_MAX_RESTARTS $TORCHELASTIC_RUN_ID'"

enum { PODS = 2 };

static pid_t pod[PODS];

/* A pod with these variables and no others but what any container has. GPUs of this machine are hidden: "auto" would
 * count them. */
__attribute__((format(printf, 2, 3))) static void start_pod(int which, const char *variables, ...)
{
    char filled[2048], line[4096];
    va_list args;
    va_start(args, variables);
    vsnprintf(filled, sizeof filled, variables, args);
    va_end(args);
    snprintf(line, sizeof line,
             "exec env -i PATH=\"$PATH\" HOME=%s HOSTNAME=pod TMPDIR=%s CUDA_VISIBLE_DEVICES= %s " LAUNCH
             "--no-pin " WHO " >%s/pod%d 2>&1",
             folder, folder, filled, folder, which);
    if ((pod[which] = fork()) != 0) return;
    execl("/bin/sh", "sh", "-c", line, (char *)NULL);
    _exit(127);
}

/* All of them end well, and together they print exactly these lines, in any order. */
static void expect(int pods, const char *const *lines, int count)
{
    for (int i = 0; i < pods; i++) CHECK(end_of(pod[i]) == 0);
    run("cat %s/pod*", folder);
    int printed = 0;
    for (const char *c = output; *c; c++) printed += *c == '\n';
    CHECK(printed == count);
    for (int i = 0; i < count; i++) CHECK(says(lines[i]));
}

/* ---- PyTorchJob ---- */

/* With a Master; RANK is the pod's number there, and WORLD_SIZE counts "auto" as 1. */
static void start_master_pod(int which, int port, const char *processes, int world)
{
    start_pod(which,
              "PYTHONUNBUFFERED=1 MASTER_PORT=%d PET_MASTER_PORT=%d MASTER_ADDR=127.0.0.1 PET_MASTER_ADDR=127.0.0.1 "
              "WORLD_SIZE=%d RANK=%d PET_NODE_RANK=%d PET_NPROC_PER_NODE=%s PET_NNODES=2",
              port, port, world, which, which, processes);
}

static void numbers_workers_not_pods(void)
{
    make_folder();
    int port = find_port();
    start_master_pod(1, port, "2", 4);
    start_master_pod(0, port, "2", 4);
    static const char *const lines[] = {"0/4 0/2 0/2 0 none\n", "1/4 1/2 0/2 0 none\n", "2/4 0/2 1/2 0 none\n",
                                        "3/4 1/2 1/2 0 none\n"};
    expect(2, lines, 4);
}

static void auto_is_what_the_pod_is_granted(void)
{
    make_folder();
    int port = find_port(), cpus = ls_launch_cpus();
    start_master_pod(0, port, "auto", 2);
    start_master_pod(1, port, "auto", 2);
    char first[64], last[64];
    snprintf(first, sizeof first, "0/%d 0/%d 0/2 0 none\n", 2 * cpus, cpus);
    snprintf(last, sizeof last, "%d/%d %d/%d 1/2 0 none\n", 2 * cpus - 1, 2 * cpus, cpus - 1, cpus);
    for (int i = 0; i < 2; i++) CHECK(end_of(pod[i]) == 0);
    run("cat %s/pod*", folder);
    CHECK(says(first) && says(last));
}

/* The policy of deploy/pytorchjob.yaml: no Master, so no RANK, no WORLD_SIZE, no MASTER_ADDR. */
static void start_elastic_pod(int which, int port, const char *more)
{
    start_pod(which,
              "PYTHONUNBUFFERED=1 PET_NPROC_PER_NODE=2 PET_NNODES=1:4 PET_RDZV_ENDPOINT=127.0.0.1:%d "
              "PET_RDZV_BACKEND=c10d PET_MAX_RESTARTS=10 PET_RDZV_CONF=last_call_timeout=%s",
              port, more);
}

static void one_elastic_pod_is_enough(void)
{
    make_folder();
    start_elastic_pod(0, find_port(), "0.2 PET_RDZV_ID=pets");
    static const char *const lines[] = {"0/2 0/2 0/1 10 pets\n", "1/2 1/2 0/1 10 pets\n"};
    expect(1, lines, 2);
}

static void elastic_pods_join(void)
{
    make_folder();
    int port = find_port();
    start_elastic_pod(0, port, "6");
    start_elastic_pod(1, port, "6");
    static const char *const lines[] = {"0/4 0/2 0/2 10 none\n", "1/4 1/2 0/2 10 none\n", "2/4 0/2 1/2 10 none\n",
                                        "3/4 1/2 1/2 10 none\n"};
    expect(2, lines, 4);
}

/* The operator says standalone with an empty value, and still names an endpoint, which nobody must look for. */
static void an_empty_standalone_stands_alone(void)
{
    make_folder();
    start_pod(0, "PYTHONUNBUFFERED=1 PET_NPROC_PER_NODE=2 PET_NNODES=1:1 PET_STANDALONE= PET_RDZV_BACKEND=c10d "
                 "PET_RDZV_ENDPOINT=nobody.invalid:23456 PET_MAX_RESTARTS=3");
    static const char *const lines[] = {"0/2 0/2 0/1 3 ", "1/2 1/2 0/1 3 "};
    expect(1, lines, 2);
}

/* ---- TrainJob, MPIJob ---- */

static void runs_a_train_job(void)
{
    make_folder();
    int port = find_port();
    for (int i = 0; i < 2; i++)
        start_pod(i, "PET_NNODES=2 PET_NPROC_PER_NODE=1 PET_NODE_RANK=%d PET_MASTER_ADDR=127.0.0.1 PET_MASTER_PORT=%d",
                  i, port);
    static const char *const lines[] = {"0/2 0/1 0/2 0 none\n", "1/2 0/1 1/2 0 none\n"};
    expect(2, lines, 2);
}

/* A launcher that mpirun has started is one host; its workers are not mpirun's ranks. */
static void runs_below_mpirun(void)
{
    make_folder();
    start_pod(0, "K_MPI_JOB_ROLE=worker OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=0 "
                 "OMPI_COMM_WORLD_LOCAL_SIZE=1 OMPI_COMM_WORLD_NODE_RANK=0 PMIX_RANK=3 PMIX_NAMESPACE=1 "
                 "PET_NPROC_PER_NODE=2");
    static const char *const lines[] = {"0/2 0/2 0/1 0 none\n", "1/2 1/2 0/1 0 none\n"};
    expect(1, lines, 2);
}

/* ---- Slurm ---- */

static void write_program(const char *name, const char *text)
{
    FILE *file = fopen(path(name), "w");
    fprintf(file, "#!/bin/sh\n%s\n", text);
    fclose(file);
    chmod(path(name), 0755);
}

/* The batch script, with Slurm's two commands played by others: two nodes that are both this machine. */
static void runs_the_batch_script(void)
{
    make_folder();
    write_program("scontrol", "[ \"$*\" = 'show hostnames n[1-2]' ] && echo 127.0.0.1 && echo n2");
    write_program("srun", "shift; SLURM_NODEID=1 \"$@\" & SLURM_NODEID=0 \"$@\" || exit; wait $!");
    write_program("pets", "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK $MASTER_PORT \"$@\"");
    write_program("lockstep", "exec " LOCKSTEP_COMMAND " \"$@\"");
    int job = find_port() - 20000;
    CHECK(run("PATH=%s:$PATH DATA=photos OUTPUT=out PROCESSES=2 SLURM_JOB_ID=%d SLURM_JOB_NUM_NODES=2 "
              "SLURM_JOB_NODELIST='n[1-2]' SLURM_PROCID=0 " DEPLOY_DIR "/slurm.sh",
              folder, job) == 0);
    char expected[64];
    snprintf(expected, sizeof expected, "3/4 1/2 1 %d --data_dir photos --output_dir out ", 20000 + job);
    CHECK(says(expected) && says("0/4 0/2 0 ") && says("--resume_from_checkpoint latest\n"));
}

/* ---- The whole thing ---- */

/* The manifest's program in an elastic pod of two processes; rank 1 is killed once there is a checkpoint. */
static void trains_on_after_a_kill(void)
{
#ifdef PETS
    make_folder();
    CHECK(run(DRAW_PETS " %s/images 12", folder) == 0);
    write_program("killed_once", "[ $RANK$TORCHELASTIC_RESTART_COUNT = 10 ] || exec " PETS " \"$@\"\n" PETS
                                 " \"$@\" & while [ ! -d $OUT/checkpoints/checkpoint_0 ]; do sleep 0.01; done; "
                                 "kill -9 $! $$");
    CHECK(run("OUT=%s/out PET_NPROC_PER_NODE=2 PET_NNODES=1:4 PET_RDZV_BACKEND=c10d PET_RDZV_ENDPOINT=127.0.0.1:%d "
              "PET_MAX_RESTARTS=10 PET_RDZV_CONF=last_call_timeout=0.2 " LAUNCH
              "%s --data_dir %s/images --output_dir %s/out --model resnet10t --no-freeze --image_size 32 --epochs 6 "
              "--batch_size 8 --checkpointing_steps 2 --resume_from_checkpoint latest",
              folder, find_port(), path("killed_once"), folder, folder) == 0);
    CHECK(says("first cause: rank 1") && says("SIGKILL") && says("restart 1 of 10") && says("epoch 5: "));
    CHECK(access(path("out/model.safetensors"), R_OK) == 0);
#endif
}

int main(int argc, char **argv)
{
    begin_shell(argc, argv);
    CHECK_RUN(numbers_workers_not_pods);
    CHECK_RUN(auto_is_what_the_pod_is_granted);
    CHECK_RUN(one_elastic_pod_is_enough);
    CHECK_RUN(elastic_pods_join);
    CHECK_RUN(an_empty_standalone_stands_alone);
    CHECK_RUN(runs_a_train_job);
    CHECK_RUN(runs_below_mpirun);
    CHECK_RUN(runs_the_batch_script);
    CHECK_RUN_SLOW(trains_on_after_a_kill);
    return check_done();
}
