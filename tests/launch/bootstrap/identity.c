/* identity.c - environments as launchers leave them, and who the process is in each. */
#include "check.h"

#include "launch/bootstrap/identity.h"
#include "launch/hosts.h"

typedef struct scene {
    const char *environment[18];
    ls_identity expected; /* source NULL: refused */
    const char *complaint;
} scene;

/* clang-format off */
static const scene scenes[] = {
    {.environment = {"HOME=/"}, .expected = {"nobody", 0, 1, 0, 1, 0, 1, "", 0, LS_BOOTSTRAP_ALONE, -1}},

    /* torchrun, two hosts of two; the same under Slurm and inside a PyTorchJob pod */
    {.environment = {"RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "GROUP_RANK=1",
                     "GROUP_WORLD_SIZE=2", "MASTER_ADDR=a", "MASTER_PORT=1234", "SLURM_PROCID=0", "SLURM_STEP_ID=0",
                     "SLURM_LOCALID=0", "PET_NNODES=7"},
     .expected = {"torchrun", 3, 4, 1, 2, 1, 2, "a", 1234, LS_BOOTSTRAP_STORE, -1}},
    /* our own names win */
    {.environment = {"RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCKSTEP_RANK=0", "LOCKSTEP_WORLD_SIZE=2",
                     "LOCKSTEP_LOCAL_RANK=0", "LOCKSTEP_LOCAL_WORLD_SIZE=2"},
     .expected = {"lockstep", 0, 2, 0, 2, -1, -1, "127.0.0.1", 29500, LS_BOOTSTRAP_STORE, -1}},
    /* an empty variable is none */
    {.environment = {"RANK=", "WORLD_SIZE=", "LOCAL_RANK="},
     .expected = {"nobody", 0, 1, 0, 1, 0, 1, "", 0, LS_BOOTSTRAP_ALONE, -1}},

    /* Open MPI 4.1, inside an sbatch script */
    {.environment = {"OMPI_COMM_WORLD_RANK=5", "OMPI_COMM_WORLD_SIZE=8", "OMPI_COMM_WORLD_LOCAL_RANK=1",
                     "OMPI_COMM_WORLD_LOCAL_SIZE=4", "OMPI_COMM_WORLD_NODE_RANK=1", "PMIX_RANK=5",
                     "PMIX_NAMESPACE=123", "SLURM_PROCID=0", "SLURM_STEP_ID=4294967291", "SLURM_LOCALID=0"},
     .expected = {"Open MPI", 5, 8, 1, 4, -1, -1, "", 0, LS_BOOTSTRAP_PMIX, -1, "123", 0}},
    /* MPICH and Intel MPI */
    {.environment = {"PMI_RANK=2", "PMI_SIZE=4", "PMI_FD=9", "MPI_LOCALRANKID=0", "MPI_LOCALNRANKS=2"},
     .expected = {"Hydra", 2, 4, 0, 2, -1, -1, "", 0, LS_BOOTSTRAP_PMI1, 9}},
    {.environment = {"PMI_RANK=0", "PMI_SIZE=1", "PMI_FD=9", "MPI_LOCALRANKID=0", "MPI_LOCALNRANKS=1"},
     .expected = {"Hydra", 0, 1, 0, 1, -1, -1, "", 0, LS_BOOTSTRAP_ALONE, -1}},
    /* PyTorchJob pods that call mpirun have RANK as well: it is the pod's, and does not win */
    {.environment = {"RANK=1", "WORLD_SIZE=2", "PMI_RANK=3", "PMI_SIZE=4", "PMI_FD=9"},
     .expected = {"Hydra", 3, 4, -1, -1, -1, -1, "", 0, LS_BOOTSTRAP_PMI1, 9}},
    {.environment = {"MV2_COMM_WORLD_RANK=1", "MV2_COMM_WORLD_SIZE=2", "MV2_COMM_WORLD_LOCAL_RANK=1",
                     "MV2_COMM_WORLD_LOCAL_SIZE=2"},
     .expected = {"MVAPICH", 1, 2, 1, 2, -1, -1, "127.0.0.1", 29500, LS_BOOTSTRAP_STORE, -1}},
    {.environment = {"PMIX_RANK=1", "PMIX_NAMESPACE=x"},
     .expected = {"PMIx", 1, -1, -1, -1, -1, -1, "", 0, LS_BOOTSTRAP_PMIX, -1, "x", 0}},

    /* srun --mpi=none, pmi2 */
    {.environment = {"SLURM_PROCID=3", "SLURM_STEP_ID=0", "SLURM_LOCALID=1", "SLURM_NODEID=1", "SLURM_STEP_NUM_TASKS=5",
                     "SLURM_STEP_NUM_NODES=3", "SLURM_STEP_TASKS_PER_NODE=2(x2),1", "SLURM_STEP_NODELIST=gpu[07-09]",
                     "SLURM_JOB_ID=70001", "SLURM_NTASKS=99", "SLURM_RESTART_COUNT=1"},
     .expected = {"Slurm", 3, 5, 1, 2, 1, 3, "gpu07", 30001, LS_BOOTSTRAP_STORE, -1, "70001.0", 1}},
    {.environment = {"SLURM_PROCID=0", "SLURM_STEP_ID=1", "SLURM_LOCALID=0", "SLURM_NODEID=0", "SLURM_NTASKS=2",
                     "SLURM_NNODES=1", "SLURM_TASKS_PER_NODE=2", "SLURM_JOB_NODELIST=n1",
                     "SLURM_STEP_RESV_PORTS=12000-12002", "PMI_RANK=0", "PMI_SIZE=2", "PMI_FD=7"},
     .expected = {"Slurm", 0, 2, 0, 2, 0, 1, "n1", 12000, LS_BOOTSTRAP_PMI2, 7, "1", 0}},
    /* mpiexec of MPICH that uses srun to reach the hosts: the step is that of its helpers */
    {.environment = {"SLURM_PROCID=0", "SLURM_STEP_ID=1", "SLURM_LOCALID=0", "SLURM_NODEID=0", "SLURM_NTASKS=2",
                     "PMI_RANK=3", "PMI_SIZE=4", "PMI_FD=9", "MPI_LOCALRANKID=1", "MPI_LOCALNRANKS=2"},
     .expected = {"Hydra", 3, 4, 1, 2, -1, -1, "", 0, LS_BOOTSTRAP_PMI1, 9}},
    /* a port of one's own choice; one that an operator left does not count */
    {.environment = {"PMI_RANK=2", "PMI_SIZE=4", "PMI_FD=9", "MASTER_ADDR=m", "MASTER_PORT=1"},
     .expected = {"Hydra", 2, 4, -1, -1, -1, -1, "m", 1, LS_BOOTSTRAP_PMI1, 9}},
    {.environment = {"PMI_RANK=2", "PMI_SIZE=4", "PMI_FD=9", "LOCKSTEP_MASTER_ADDR=m"},
     .expected = {"Hydra", 2, 4, -1, -1, -1, -1, "m", 29500, LS_BOOTSTRAP_STORE, -1}},
    /* launchers that mpiexec started number the processes themselves */
    {.environment = {"RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1", "MASTER_ADDR=a", "MASTER_PORT=5", "PMI_RANK=1",
                     "PMI_SIZE=2", "PMI_FD=9", "MPI_LOCALRANKID=0", "TORCHELASTIC_RUN_ID=j",
                     "TORCHELASTIC_RESTART_COUNT=2"},
     .expected = {"torchrun", 3, 4, 1, -1, -1, -1, "a", 5, LS_BOOTSTRAP_STORE, -1, "j", 2}},
    /* the batch script itself is alone */
    {.environment = {"SLURM_PROCID=0", "SLURM_LOCALID=0", "SLURM_NTASKS=8", "SLURM_JOB_ID=7"},
     .expected = {"nobody", 0, 1, 0, 1, 0, 1, "", 0, LS_BOOTSTRAP_ALONE, -1}},

    /* PyTorchJob: master and two workers, nprocPerNode auto, and 4 */
    {.environment = {"RANK=2", "WORLD_SIZE=3", "MASTER_ADDR=job-master-0", "MASTER_PORT=23456", "PET_NNODES=3",
                     "PET_NODE_RANK=2", "PET_NPROC_PER_NODE=auto"},
     .expected = {"PyTorchJob", 2, 3, 0, 1, 2, 3, "job-master-0", 23456, LS_BOOTSTRAP_STORE, -1}},
    {.environment = {"RANK=1", "WORLD_SIZE=8", "MASTER_ADDR=m", "MASTER_PORT=1", "PET_NNODES=1:4",
                     "PET_NPROC_PER_NODE=4"},
     .expected = {"PyTorchJob", 1, 2, 0, 1, 1, 2, "m", 1, LS_BOOTSTRAP_STORE, -1}},

    /* its only pod is alone, whatever WORLD_SIZE counts */
    {.environment = {"RANK=0", "WORLD_SIZE=4", "MASTER_ADDR=m", "MASTER_PORT=1", "PET_NNODES=1",
                     "PET_NPROC_PER_NODE=4"},
     .expected = {"PyTorchJob", 0, 1, 0, 1, 0, 1, "m", 1, LS_BOOTSTRAP_ALONE, -1}},

    {.environment = {"RANK=4", "WORLD_SIZE=4", "LOCAL_RANK=0"}, .complaint = "itself: rank 4, world size 4"},
    {.environment = {"RANK=x", "WORLD_SIZE=4", "LOCAL_RANK=0"}, .complaint = "RANK=x must be a whole number"},
    {.environment = {"RANK=1", "LOCAL_RANK=0"}, .complaint = "RANK is set, but WORLD_SIZE is not"},
    {.environment = {"RANK=0"}, .complaint = "RANK is set, but WORLD_SIZE is not"},
    {.environment = {"WORLD_SIZE=2"}, .complaint = "WORLD_SIZE is set, but RANK is not"},
    {.environment = {"LOCKSTEP_WORLD_SIZE=2"}, .complaint = "LOCKSTEP_WORLD_SIZE is set, but LOCKSTEP_RANK is not"},
    {.environment = {"RANK=1", "WORLD_SIZE=4", "LOCAL_RANK=2", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=a"},
     .complaint = "local rank 2, local world size 2"},
    {.environment = {"RANK=1", "WORLD_SIZE=2"}, .complaint = "MASTER_ADDR must name the host of rank 0"},
    {.environment = {"SLURM_PROCID=0", "SLURM_STEP_ID=0", "SLURM_LOCALID=0", "SLURM_NTASKS=2",
                     "SLURM_JOB_NODELIST=a[1-"},
     .complaint = "is not a list of hosts"},
};
/* clang-format on */

static void knows_who_it_is(void)
{
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        const ls_identity *want = &scenes[i].expected;
        ls_identity got;
        ls_message why = {""};
        ls_status status = ls_identity_read(scenes[i].environment, &got, &why);
        if (scenes[i].complaint) {
            CHECK_MSG(status != LS_OK && strstr(why.text, scenes[i].complaint), "scene %zu: %d \"%s\"", i, status,
                      why.text);
            continue;
        }
        CHECK_MSG(status == LS_OK, "scene %zu: %s", i, why.text);
        CHECK_TEXT(got.source, want->source);
        CHECK_TEXT(got.master_addr, want->master_addr);
        CHECK_TEXT(got.job, want->job);
        CHECK(got.attempt == want->attempt);
        bool expects_launcher = strcmp(got.source, "PyTorchJob") == 0; /* all of these pods have PET_NNODES */
        CHECK(got.launched == (!expects_launcher && strcmp(got.source, "nobody") != 0));
        CHECK_MSG(
            got.rank == want->rank && got.world == want->world && got.local_rank == want->local_rank &&
                got.local_world == want->local_world && got.host_rank == want->host_rank && got.hosts == want->hosts &&
                got.master_port == want->master_port && got.bootstrap == want->bootstrap && got.pmi_fd == want->pmi_fd,
            "scene %zu: rank %d/%d, local %d/%d, host %d/%d, port %d, bootstrap %d, fd %d", i, got.rank, got.world,
            got.local_rank, got.local_world, got.host_rank, got.hosts, got.master_port, (int)got.bootstrap, got.pmi_fd);
    }
}

/* ---- Lists of hosts ---- */

static const char *listed(ls_status status, ls_host_list *hosts, const ls_message *why)
{
    static char text[1024];
    snprintf(text, sizeof text, "%s", status ? why->text : "");
    for (int i = 0; i < hosts->count; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s:%d", i ? " " : "", hosts->host[i].name, hosts->host[i].slots);
    }
    ls_host_list_free(hosts);
    return text;
}

static const char *expanded(const char *list)
{
    ls_host_list hosts = {0};
    ls_message why = {""};
    return listed(ls_host_list_expand(list, &hosts, &why), &hosts, &why);
}

static const char *parsed(const char *file)
{
    ls_host_list hosts = {0};
    ls_message why = {""};
    return listed(ls_host_list_parse(file, &hosts, &why), &hosts, &why);
}

static void expands_node_lists(void)
{
    CHECK_TEXT(expanded("a"), "a:1");
    CHECK_TEXT(expanded("gpu[01-03,07],login"), "gpu01:1 gpu02:1 gpu03:1 gpu07:1 login:1");
    CHECK_TEXT(expanded("r[1-2]n[8-10]-ib"), "r1n8-ib:1 r1n9-ib:1 r1n10-ib:1 r2n8-ib:1 r2n9-ib:1 r2n10-ib:1");
    CHECK_TEXT(expanded("n[098-101]"), "n098:1 n099:1 n100:1 n101:1");
    static const char *const wrong[] = {"", "a[", "a[1-", "a[1-]", "a[x]", "a[3-1]", "a[1;2]", "a[1-99999999]"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_MSG(strstr(expanded(wrong[i]), "list of hosts"), "\"%s\"", wrong[i]);
}

static void counts_tasks(void)
{
    CHECK(ls_host_list_tasks("2(x3),1", 0) == 2 && ls_host_list_tasks("2(x3),1", 2) == 2 &&
          ls_host_list_tasks("2(x3),1", 3) == 1);
    CHECK(ls_host_list_tasks("2(x3),1", 4) == 0 && ls_host_list_tasks("x", 0) == 0 && ls_host_list_tasks("4", 0) == 4);
}

static void reads_host_files(void)
{
    CHECK_TEXT(parsed("# Open MPI\na slots=4 max_slots=8\n\nb.ns.svc slots=2 # two\n"), "a:4 b.ns.svc:2");
    CHECK_TEXT(parsed("a:4\nb:2\n"), "a:4 b:2");
    CHECK_TEXT(parsed("a\r\nb\r\n  a  \n"), "a:2 b:1");
    CHECK_TEXT(parsed("  a \t slots = 4  max-slots= 8\r\nme@b slots =2#two\nc:3"), "a:4 b:2 c:3");
    CHECK_TEXT(parsed("a slots= \n"), "line 1: \"slots=\" is neither host, host:n nor slots=n");
    CHECK_TEXT(parsed("a = \n"), "line 1: \"a =\" is neither host, host:n nor slots=n");
    CHECK_TEXT(parsed("a slots=4\nb slots=x\n"), "line 2: \"slots=x\" is neither host, host:n nor slots=n");
    CHECK_TEXT(parsed("a b\n"), "line 1: \"b\" is neither host, host:n nor slots=n");
    CHECK_TEXT(parsed("a:0\n"), "line 1: \"a:0\" is neither host, host:n nor slots=n");
    CHECK_TEXT(parsed("# nothing\n"), "the file lists no host");
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    CHECK_RUN(knows_who_it_is);
    CHECK_RUN(expands_node_lists);
    CHECK_RUN(counts_tasks);
    CHECK_RUN(reads_host_files);
    return check_done();
}
