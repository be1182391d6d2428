/* identity.c - a table of launchers and the environment variables of each. */
#include "launch/bootstrap/identity.h"

#include "launch/environment.h"
#include "launch/hosts.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_PORT = 29500 };

typedef const char *const *entries;

/* ---- Reading -------------------------------------------------------------------------------------------------- */

static bool is_set(entries e, const char *name)
{
    const char *text = name ? ls_environment_get(e, name) : NULL;
    return text && *text;
}

/* A number that must be valid if given; otherwise *to stays as it is. */
static ls_status number(entries e, const char *name, int least, int *to, ls_message *why)
{
    if (!is_set(e, name)) return LS_OK;
    const char *text = ls_environment_get(e, name);
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (*end || errno || value < least || value > INT_MAX)
        return ls_explain(why, LS_ERR_VALUE, "%s=%.100s must be a whole number, at least %d", name, text, least);
    *to = (int)value;
    return LS_OK;
}

/* ---- Launchers ------------------------------------------------------------------------------------------------ */

/* A real step of srun, not the batch script itself, whose step numbers are at the top of the 32-bit range. */
static bool in_slurm_step(entries e)
{
    const char *step = ls_environment_get(e, "SLURM_STEP_ID");
    if (!step) step = ls_environment_get(e, "SLURM_STEPID");
    return step && *step && strtoll(step, NULL, 10) < 0xfffffff0LL && is_set(e, "SLURM_LOCALID");
}

static bool by_lockstep(entries e)
{
    return is_set(e, "LOCKSTEP_RANK") || is_set(e, "LOCKSTEP_WORLD_SIZE");
}

static bool by_torchrun(entries e)
{
    return is_set(e, "LOCAL_RANK") && is_set(e, "RANK");
}

static bool by_open_mpi(entries e)
{
    return is_set(e, "OMPI_COMM_WORLD_RANK");
}

/* srun may have started it. */
static bool by_hydra(entries e)
{
    return is_set(e, "PMI_RANK") && (!in_slurm_step(e) || is_set(e, "MPI_LOCALRANKID"));
}

static bool by_mvapich(entries e)
{
    return is_set(e, "MV2_COMM_WORLD_RANK");
}

static bool by_slurm(entries e)
{
    return in_slurm_step(e) && is_set(e, "SLURM_PROCID");
}

static bool by_pmix(entries e)
{
    return is_set(e, "PMIX_RANK");
}

static bool by_operator(entries e)
{
    return is_set(e, "RANK") || is_set(e, "WORLD_SIZE");
}

static ls_status finish_slurm(entries e, ls_identity *who, ls_message *why);
static ls_status finish_operator(entries e, ls_identity *who, ls_message *why);

/* Most specific first: srun with PMIx counts as Slurm, which provides more than PMIx. */
static const struct launcher {
    const char *name;
    bool (*applies)(entries e);
    const char *rank, *world, *local_rank, *local_world, *host_rank, *hosts; /* names of variables; or NULL */
    const char *job[2]; /* variables whose values together identify the job; or NULL */
    const char *attempt;
    bool has_manager; /* its ranks are those of a process manager that may support PMI */
    ls_status (*finish)(entries e, ls_identity *who, ls_message *why); /* what is not a number; may be NULL */
} launchers[] = {
    {.name = "lockstep",
     .applies = by_lockstep,
     .rank = "LOCKSTEP_RANK",
     .world = "LOCKSTEP_WORLD_SIZE",
     .local_rank = "LOCKSTEP_LOCAL_RANK",
     .local_world = "LOCKSTEP_LOCAL_WORLD_SIZE",
     .host_rank = "GROUP_RANK",
     .hosts = "GROUP_WORLD_SIZE",
     .job = {"TORCHELASTIC_RUN_ID"},
     .attempt = "TORCHELASTIC_RESTART_COUNT"},
    {.name = "torchrun",
     .applies = by_torchrun,
     .rank = "RANK",
     .world = "WORLD_SIZE",
     .local_rank = "LOCAL_RANK",
     .local_world = "LOCAL_WORLD_SIZE",
     .host_rank = "GROUP_RANK",
     .hosts = "GROUP_WORLD_SIZE",
     .job = {"TORCHELASTIC_RUN_ID"},
     .attempt = "TORCHELASTIC_RESTART_COUNT"},
    {.name = "Open MPI", /* OMPI_COMM_WORLD_NODE_RANK is not the number of a node */
     .applies = by_open_mpi,
     .rank = "OMPI_COMM_WORLD_RANK",
     .world = "OMPI_COMM_WORLD_SIZE",
     .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
     .local_world = "OMPI_COMM_WORLD_LOCAL_SIZE",
     .job = {"PMIX_NAMESPACE"},
     .has_manager = true},
    {.name = "Hydra",
     .applies = by_hydra,
     .rank = "PMI_RANK",
     .world = "PMI_SIZE",
     .local_rank = "MPI_LOCALRANKID",
     .local_world = "MPI_LOCALNRANKS",
     .has_manager = true},
    {.name = "MVAPICH",
     .applies = by_mvapich,
     .rank = "MV2_COMM_WORLD_RANK",
     .world = "MV2_COMM_WORLD_SIZE",
     .local_rank = "MV2_COMM_WORLD_LOCAL_RANK",
     .local_world = "MV2_COMM_WORLD_LOCAL_SIZE",
     .has_manager = true},
    {.name = "Slurm",
     .applies = by_slurm,
     .rank = "SLURM_PROCID",
     .local_rank = "SLURM_LOCALID",
     .host_rank = "SLURM_NODEID",
     .job = {"SLURM_JOB_ID", "SLURM_STEP_ID"},
     .attempt = "SLURM_RESTART_COUNT",
     .has_manager = true,
     .finish = finish_slurm},
    {.name = "PMIx", .applies = by_pmix, .rank = "PMIX_RANK", .job = {"PMIX_NAMESPACE"}, .has_manager = true},
    {.name = "PyTorchJob", .applies = by_operator, .rank = "RANK", .world = "WORLD_SIZE", .finish = finish_operator},
};

/* The first host, and a port that all tasks of the step compute identically. */
static ls_status finish_slurm(entries e, ls_identity *who, ls_message *why)
{
    bool step = is_set(e, "SLURM_STEP_NUM_TASKS");
    ls_status status = number(e, step ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS", 1, &who->world, why);
    if (!status)
        status =
            number(e, is_set(e, "SLURM_STEP_NUM_NODES") ? "SLURM_STEP_NUM_NODES" : "SLURM_NNODES", 1, &who->hosts, why);
    if (status) return status;
    const char *tasks = ls_environment_get(e, step ? "SLURM_STEP_TASKS_PER_NODE" : "SLURM_TASKS_PER_NODE");
    if (tasks && who->host_rank >= 0) who->local_world = ls_host_list_tasks(tasks, who->host_rank);
    if (who->local_world == 0) who->local_world = -1;

    const char *list = ls_environment_get(e, "SLURM_STEP_NODELIST");
    if (!list) list = ls_environment_get(e, "SLURM_JOB_NODELIST");
    ls_host_list hosts = {0};
    if (list && !who->master_addr[0]) {
        status = ls_host_list_expand(list, &hosts, why);
        if (!status) snprintf(who->master_addr, sizeof who->master_addr, "%s", hosts.host[0].name);
        ls_host_list_free(&hosts);
    }
    if (!who->master_port) {
        const char *reserved = ls_environment_get(e, "SLURM_STEP_RESV_PORTS"); /* "12345-12348" */
        int job = ls_environment_integer(e, "SLURM_JOB_ID", 0, INT_MAX, 0);
        int number_of_step = ls_environment_integer(e, "SLURM_STEP_ID", 0, INT_MAX, 0);
        who->master_port = reserved ? atoi(reserved) : 20000 + (job % 20000 + number_of_step % 20000) % 20000;
    }
    return status;
}

/* One process per pod: RANK is the pod's number, but WORLD_SIZE counts the processes a launcher would start in each. */
static ls_status finish_operator(entries e, ls_identity *who, ls_message *why)
{
    (void)why;
    int per_pod = ls_environment_integer(e, "PET_NPROC_PER_NODE", 1, 1 << 16, 1);
    int pods = ls_environment_integer(e, "PET_NNODES", 1, 1 << 20, who->world / per_pod);
    if (pods > who->rank) who->world = pods;
    who->local_rank = 0;
    who->local_world = 1;
    who->host_rank = who->rank;
    who->hosts = who->world;
    who->launched = !is_set(e, "PET_NNODES"); /* meant for a launcher */
    return LS_OK;
}

/* ---- All together --------------------------------------------------------------------------------------------- */

static ls_status contradiction(ls_message *why, const char *source, const char *small, int a, const char *large, int b)
{
    return ls_explain(why, LS_ERR_VALUE, "the environment of %s contradicts itself: %s %d, %s %d", source, small, a,
                      large, b);
}

/* A process manager's own protocol is more reliable than a port, unless the user asks for the port. */
static void find_bootstrap(entries e, const struct launcher *by, ls_identity *who)
{
    int fd = ls_environment_integer(e, "PMI_FD", 0, 1 << 20, -1);
    bool managed = by->has_manager && !is_set(e, "LOCKSTEP_MASTER_ADDR");
    if (who->world == 1) who->bootstrap = LS_BOOTSTRAP_ALONE;
    else if (managed && is_set(e, "PMIX_NAMESPACE") && is_set(e, "PMIX_RANK")) who->bootstrap = LS_BOOTSTRAP_PMIX;
    else if (managed && fd >= 0) {
        who->bootstrap = by->finish == finish_slurm ? LS_BOOTSTRAP_PMI2 : LS_BOOTSTRAP_PMI1;
        who->pmi_fd = fd;
    } else {
        who->bootstrap = LS_BOOTSTRAP_STORE;
    }
}

static void name_job(entries e, const struct launcher *by, ls_identity *who)
{
    size_t used = 0;
    for (int i = 0; i < 2; i++) {
        const char *value = by->job[i] ? ls_environment_get(e, by->job[i]) : NULL;
        if (value && used < sizeof who->job)
            used += (size_t)snprintf(who->job + used, sizeof who->job - used, "%s%s", used ? "." : "", value);
    }
    if (by->attempt) who->attempt = ls_environment_integer(e, by->attempt, 0, INT_MAX, 0);
}

ls_status ls_identity_read(entries e, ls_identity *who, ls_message *why)
{
    *who = (ls_identity){.source = "nobody",
                         .rank = -1,
                         .world = -1,
                         .local_rank = -1,
                         .local_world = -1,
                         .host_rank = -1,
                         .hosts = -1,
                         .pmi_fd = -1};
    size_t which = 0, count = sizeof launchers / sizeof *launchers;
    while (which < count && !launchers[which].applies(e)) which++;
    if (which == count) {
        who->rank = who->local_rank = who->host_rank = 0;
        who->world = who->local_world = who->hosts = 1;
        return LS_OK;
    }
    const struct launcher *by = &launchers[which];
    who->source = by->name;
    who->launched = true;
    who->by_launcher = by->applies == by_lockstep || by->applies == by_torchrun;

    const char *address =
        ls_environment_get(e, is_set(e, "LOCKSTEP_MASTER_ADDR") ? "LOCKSTEP_MASTER_ADDR" : "MASTER_ADDR");
    if (address) snprintf(who->master_addr, sizeof who->master_addr, "%s", address);
    const struct {
        const char *name;
        int least, *to;
    } numbers[] = {
        {by->rank, 0, &who->rank},
        {by->world, 1, &who->world},
        {by->local_rank, 0, &who->local_rank},
        {by->local_world, 1, &who->local_world},
        {by->host_rank, 0, &who->host_rank},
        {by->hosts, 1, &who->hosts},
        {is_set(e, "LOCKSTEP_MASTER_PORT") ? "LOCKSTEP_MASTER_PORT" : "MASTER_PORT", 1, &who->master_port},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        ls_status status = number(e, numbers[i].name, numbers[i].least, numbers[i].to, why);
        if (status) return status;
    }
    if (who->world == 1 && who->rank < 0) who->rank = 0; /* the only one */
    if (who->rank < 0 || (by->world && who->world < 0)) {
        bool ranked = who->rank >= 0;
        return ls_explain(why, LS_ERR_VALUE, "%s is set, but %s is not", ranked ? by->rank : by->world,
                          ranked ? by->world : by->rank);
    }
    ls_status status = by->finish ? by->finish(e, who, why) : LS_OK;
    if (status) return status;
    if (who->world >= 0 && who->rank >= who->world)
        return contradiction(why, by->name, "rank", who->rank, "world size", who->world);
    if (who->local_world >= 0 && who->local_rank >= who->local_world)
        return contradiction(why, by->name, "local rank", who->local_rank, "local world size", who->local_world);
    if (who->hosts >= 0 && who->host_rank >= who->hosts)
        return contradiction(why, by->name, "host", who->host_rank, "hosts", who->hosts);

    name_job(e, by, who);
    find_bootstrap(e, by, who);
    if (who->bootstrap == LS_BOOTSTRAP_STORE) {
        if (!who->master_port) who->master_port = DEFAULT_PORT;
        if (!who->master_addr[0] && (who->hosts == 1 || who->local_world == who->world))
            snprintf(who->master_addr, sizeof who->master_addr, "127.0.0.1");
        if (!who->master_addr[0])
            return ls_explain(why, LS_ERR_VALUE,
                              "rank %d of %d on several hosts: MASTER_ADDR must name the host of rank 0", who->rank,
                              who->world);
    }
    return LS_OK;
}
