/* started.c - one program, started on two hosts in all the ways there are: its processes find each other, know where
 * they are, and train to the parameters of one process. */
#include "beside.h"
#include "mpis.h"

enum { PARAMETERS = 12 * 40 + 40 + 40 * 5 + 5 };

/* ---- Ways ---- */

/* both LINE: on each host, with its number in $HOST. */
#define BOTH                                                                                                           \
    "both() { code=0; pids=; HOST=0; for host in a b; do HOST=$HOST " HOSTS " on $host sh -c \"$1\" & "                \
    "pids=\"$pids $!\"; HOST=1; done; for pid in $pids; do wait $pid || code=$?; done; return $code; }; "
#define LAUNCHED "both '" LOCKSTEP_COMMAND " launch --nproc-per-node 2 --no-pin --rdzv-conf join_timeout=60 "

enum { NO_MPI = -1 };

typedef struct way {
    int by;            /* NO_MPI: by ourselves */
    const char *line;  /* %s: the program */
    const char *local; /* rank of each of the four on its host */
    bool once;         /* tried with one program only */
} way;

#define HYDRA "-localhost 10.83.0.254 -launcher ssh -launcher-exec $RSH -hosts a,b -n 4 "
#define INTEL HOSTS " on a " INTEL_MPIEXEC " -launcher ssh -launcher-exec $RSH -n 4 " /* all hosts look for its own */
#define OPEN "--mca plm_rsh_agent $RSH -H a:2,b:2 -n 4 "

static const way ways[] = {
    {NO_MPI, LAUNCHED "--nnodes 2 --node-rank $HOST --master-addr a --master-port 29610 %s'", "0101", false},
    {NO_MPI, LAUNCHED "--nnodes 2:2 --rdzv-backend c10d --rdzv-endpoint a:29630 %s'", "0101", true},
    {NO_MPI,
     "both 'for L in 0 1; do RANK=$((2 * HOST + L)) LOCAL_RANK=$L WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 GROUP_RANK=$HOST "
     "GROUP_WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=29640 TORCHELASTIC_RUN_ID=hand %s & done; wait'",
     "0101", false},
    {NO_MPI, /* nobody says who is where */
     "both 'for L in 0 1; do LOCKSTEP_RANK=$((HOST + 2 * L)) LOCKSTEP_WORLD_SIZE=4 LOCKSTEP_MASTER_ADDR=a %s & done; "
     "wait'",
     "0011", true},
    {NO_MPI, /* over a network that comes up at this moment */
     "both 'N=$((HOST + 1)); [ $N = 2 ] || ip link add v1 type veth peer name v2 netns 3; "
     "until ip addr add 10.84.0.$N/24 dev v$N 2>/dev/null; do sleep 0.01; done; ip link set v$N up; "
     "for L in 0 1; do UCX_NET_DEVICES=v$N LOCKSTEP_RANK=$((HOST + 2 * L)) LOCKSTEP_WORLD_SIZE=4 "
     "LOCKSTEP_MASTER_ADDR=10.84.0.1 %s & done; wait; ip link del v$N 2>/dev/null; true'",
     "0011", true},
    {MPICH, "mpiexec.hydra " HYDRA "-ppn 2 %s </dev/null", "0101", false},
    {MPICH, "mpiexec.hydra " HYDRA "-ppn 1 %s </dev/null", "0011", true},
    {OPEN_MPI, "mpirun.openmpi " OPEN "--map-by ppr:2:node %s </dev/null", "0101", false},
    {OPEN_MPI, "mpirun.openmpi " OPEN "--map-by node %s </dev/null", "0011", true},
    {INTEL_MPI, INTEL "-hosts a,b -ppn 2 %s </dev/null", "0101", false},
    {INTEL_MPI, INTEL "-f $HOSTFILE -ppn 1 -genv SOMETHING else %s </dev/null", "0011", true},
};

/* The ways of the MPI in use, or our own where none is; `all`: also those tried with one program only. */
#define EACH_WAY(each, all)                                                                                            \
    for (const way *each = ways; each < ways + sizeof ways / sizeof *ways; each++)                                     \
        if (each->by == (mpi_in_use ? (int)(mpi_in_use - mpis) : NO_MPI) && ((all) || !each->once))

/* mpirun calls a program, without arguments of its own, to reach a host. */
static void prepare(void)
{
    FILE *script = fopen(path("rsh"), "w");
    fprintf(script, "#!/bin/sh\nexec " HOSTS " rsh \"$@\"\n");
    fclose(script);
    chmod(path("rsh"), 0755);
    setenv("RSH", path("rsh"), 1);
    FILE *hosts = fopen(path("hosts"), "w");
    fprintf(hosts, "a:2\nb:2\n");
    fclose(hosts);
    setenv("HOSTFILE", path("hosts"), 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
}

/* Wait for the end of a script, for a time that is far too long; -1: it hangs, and `ours` says how many processes of
 * this program were there to the last. */
static int await(pid_t script, int *ours)
{
    int status = 0;
    for (int i = 0; i < 60000; i++, usleep(1000))
        if (waitpid(script, &status, WNOHANG) == script)
            return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
    run("for one in /proc/[0-9]*/exe; do readlink $one; done | grep -c -e '/comm_worker$' -e '/lockstep$'");
    *ours = atoi(output);
    kill(script, SIGTERM); /* timeout passes it on to all that the script began */
    end_of(script);
    return -1;
}

/* By a script. Helpers of Open MPI 4.1 sometimes do not end when all processes have, and mpirun waits for them: then,
 * but only when none of ours is left, once more. */
static int start_program(const way *by, const char *program)
{
    char line[2000];
    FILE *script = fopen(path("start"), "w");
    snprintf(line, sizeof line, by->line, program);
    fprintf(script, BOTH "%s\n", line);
    fclose(script);
    snprintf(line, sizeof line, "timeout -k 5 100 sh %s", path("start"));
    int ours = 0, code = -1;
    for (int tries = by->by == NO_MPI ? 1 : 2; tries && code < 0 && !ours; tries--) {
        code = await(start_line(line, "said"), &ours);
        run("cat %s", path("said"));
        if (code < 0) printf("%s hangs with %d of our processes\n%s\n", program, ours, output);
    }
    return code;
}

/* ---- What comes out ---- */

static void expect_exchange(const char *local, int times)
{
    for (int rank = 0; rank < 4; rank++) {
        char line[200];
        snprintf(line, sizeof line,
                 "rank %d of 4, local %c of 2: rows 10 sum 40 total 30 mean 2.5 from 4 padded 4 words rank 3 part %d\n",
                 rank, local[rank], rank ? 2 : 3);
        int found = 0;
        for (const char *at = output; (at = strstr(at, line)); at++) found++;
        CHECK_MSG(found == times, "%d times, not %d, \"%s\" in:\n%s", found, times, line, output);
    }
}

static bool read_parameters(const char *file, int rank, float *to)
{
    char name[300];
    snprintf(name, sizeof name, "%s.%d", file, rank);
    FILE *from = fopen(name, "rb");
    size_t count = from ? fread(to, sizeof *to, PARAMETERS, from) : 0;
    if (from) fclose(from);
    return count == PARAMETERS;
}

/* The same bits everywhere, and those of one process to rounding. */
static void expect_parameters(const char *file, const char *name)
{
    static float one[PARAMETERS], first[PARAMETERS], other[PARAMETERS];
    CHECK_MSG(read_parameters(file, 0, first), "%s: rank 0 has left nothing:\n%s", name, output);
    for (int r = 1; r < 4; r++)
        CHECK_MSG(read_parameters(file, r, other) && memcmp(other, first, sizeof first) == 0, "%s: rank %d differs",
                  name, r);
    double largest = 0;
    CHECK(run(PROGRAM " train %s", path("one")) == 0 && read_parameters(path("one"), 0, one));
    for (int i = 0; i < PARAMETERS; i++) largest = fmax(largest, fabs((double)first[i] - (double)one[i]));
    CHECK_MSG(largest <= 1e-6, "%s: %g away from one process", name, largest);
}

/* ---- Tests ---- */

static void processes_find_each_other(void)
{
    EACH_WAY(by, true)
    {
        CHECK_MSG(start_program(by, PROGRAM " exchange") == 0, "%s", by->line);
        expect_exchange(by->local, 1);
        if (!mpi_in_use || by->once) continue; /* and with the addresses passed on by the process manager, not by MPI */
        CHECK_MSG(start_program(by, "env LOCKSTEP_COMM_TRANSPORT=ucx " PROGRAM " exchange") == 0, "%s", by->line);
        expect_exchange(by->local, 1);
    }
}

/* Two runs in each process, one after the other. */
static void and_once_more(void)
{
    EACH_WAY(by, false)
    {
        CHECK_MSG(start_program(by, PROGRAM " twice") == 0, "%s", by->line);
        expect_exchange(by->local, 2);
    }
}

static void they_train_as_one(void)
{
    EACH_WAY(by, true)
    {
        char file[100], program[400];
        snprintf(file, sizeof file, "%s/way%td", folder, by - ways);
        snprintf(program, sizeof program, PROGRAM " train %s", file);
        CHECK_MSG(start_program(by, program) == 0, "%s", by->line);
        expect_parameters(file, by->line);
    }
}

/* The command that users try a new cluster with. */
static void the_self_test_passes(void)
{
    char program[400];
    snprintf(program, sizeof program, LOCKSTEP_COMMAND " test %s", folder);
    EACH_WAY(by, false)
    {
        CHECK_MSG(start_program(by, program) == 0, "%s\n%s", by->line, output);
        CHECK(says(", 4 processes on 2 hosts: ") && says("All checks passed: these processes can train together."));
    }
}

static void the_self_test_starts_itself(void)
{
    static const way itself = {
        NO_MPI, "both '" LOCKSTEP_COMMAND " test --nproc-per-node 2 --nnodes 2 --node-rank $HOST --master-addr a %s'",
        "", true};
    char program[400];
    CHECK(start_program(&itself, folder) == 0);
    CHECK(says(", 4 processes on 2 hosts: a (2) b (2)\n") &&
          says("All checks passed: these processes can train together."));
    /* A folder that is not the same one everywhere. */
    snprintf(program, sizeof program, LOCKSTEP_COMMAND " test /run");
    CHECK(start_program(&ways[0], program) == 1);
    CHECK(says("  shared folder     FAILED ") && says("      rank 2 on b: /run/lockstep_test_") &&
          says("      rank 3 on b: ") && !strstr(output, "      rank 1 on a: "));
}

/* As a PyTorchJob starts them: one process a pod, and names that cannot be resolved before all pods are ready. */
static void pods_wait_for_names(void)
{
    CHECK(run(HOSTS " on b sh -c 'grep -v \" a$\" /etc/hosts >/run/less; cat /etc/hosts >/run/more; cat /run/less "
                    ">/etc/hosts'") == 0);
    const char *pod = "env RANK=%d WORLD_SIZE=2 PET_NNODES=2 PET_NODE_RANK=%d PET_NPROC_PER_NODE=auto MASTER_ADDR=a "
                      "MASTER_PORT=23456 " PROGRAM " exchange";
    char line[2][500];
    for (int i = 0; i < 2; i++) snprintf(line[i], sizeof line[i], pod, i, i);
    pid_t a = start_on('a', line[0], "a"), b = start_on('b', line[1], "b");
    usleep(500000);
    CHECK(count_processes(PROGRAM) == 2); /* it is tried again, not given up */
    CHECK(run(HOSTS " on b sh -c 'cat /run/more >/etc/hosts'") == 0);
    CHECK(end_of(a) == 0);
    CHECK(end_of(b) == 0);
    run("cat %s %s", path("a"), path("b"));
    CHECK(says("rank 0 of 2, local 0 of 1: rows 3 ") && says("rank 1 of 2, local 0 of 1: rows 3 "));
}

static void what_is_missing_is_named(void)
{
    CHECK(start_program(&ways[0], "env LOCKSTEP_COMM_TRANSPORT=pigeon " PROGRAM " exchange") == 1);
    CHECK(says("ls_init: no transport between hosts: pigeon: "));
    CHECK(start_program(&ways[0], "env LOCKSTEP_COMM_TRANSPORT=mpi " PROGRAM " exchange") == 1);
    CHECK(says("LOCKSTEP_COMM_TRANSPORT=mpi, but torchrun started this process"));
    /* One host has none: all are told at once. */
    CHECK(start_program(&ways[0], "sh -c \"[ $HOST = 0 ] || export LOCKSTEP_COMM_TRANSPORT=pigeon; exec " PROGRAM
                                  " exchange\"") == 1);
    CHECK(strstr(output, "has transport ucx between hosts, rank ") || says("no transport between hosts: pigeon: "));
    /* Somebody does not come. */
    run(HOSTS " on a env RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=29650 LOCKSTEP_COMM_TIMEOUT=1 " PROGRAM
              " exchange");
    CHECK(says("ls_init: 1 of 2 processes did not connect to rank 0 within 1 s: rank 1"));
    run(HOSTS " on b env RANK=1 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=29650 LOCKSTEP_COMM_TIMEOUT=1 " PROGRAM
              " exchange");
    CHECK(says("ls_init: rank 1 of 2 did not find rank 0 at a:29650 within 1 s: Connection refused"));
}

/* The second attempt of a group finds its port free, and itself. */
static void they_start_again(void)
{
    static const way restarted = {
        NO_MPI, LAUNCHED "--max-restarts 2 --nnodes 2 --node-rank $HOST --master-addr a --master-port 29660 %s'",
        "0101", true};
    char program[400];
    snprintf(
        program, sizeof program,
        "sh -c \"echo attempt \\$TORCHELASTIC_RESTART_COUNT; [ \\$TORCHELASTIC_RESTART_COUNT = 2 ] || exec " PROGRAM
        " die; exec " PROGRAM " exchange\"");
    CHECK(start_program(&restarted, program) == 0);
    expect_exchange("0101", 1);
}

int main(int argc, char **argv)
{
    begin_beside(2, argc, argv);
    prepare();
    CHECK_RUN(processes_find_each_other);
    CHECK_RUN_MPIS(processes_find_each_other);
    CHECK_RUN(and_once_more);
    CHECK_RUN_MPIS(and_once_more);
    CHECK_RUN(they_train_as_one);
    CHECK_RUN_MPIS(they_train_as_one);
    CHECK_RUN(the_self_test_passes);
    CHECK_RUN_MPIS(the_self_test_passes);
    CHECK_RUN(the_self_test_starts_itself);
    CHECK_RUN(pods_wait_for_names);
    CHECK_RUN(what_is_missing_is_named);
    CHECK_RUN(they_start_again);
    return check_done();
}
