/* others.c - the other processes of the job: who started them, and how this one joins them. */
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "comm/meet.h"
#include "comm/shm.h"
#include "launch/environment.h"
#include "launch/exchange.h"
#include "run/session.h"

#include <unistd.h>

/* What processes of one job, and no others, have in common. */
static void name_job(const ls_identity *who, char *name, size_t size)
{
    static const char *const job_numbers[] = {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "PMIX_NAMESPACE",
                                              "SLURM_JOB_ID", "SLURM_STEP_ID"};
    const char *token = ls_config_text(LS_SETTING_COMM_TOKEN);
    if (*token) {
        snprintf(name, size, "%s", token);
        return;
    }
    int used = snprintf(name, size, "%s:%d", who->master_addr, who->master_port);
    for (size_t i = 0; i < sizeof job_numbers / sizeof *job_numbers && (size_t)used < size; i++) {
        const char *value = ls_environment_get((const char *const *)environ, job_numbers[i]);
        used += snprintf(name + used, size - (size_t)used, " %s", value ? value : "");
    }
    /* Hydra's processes know nothing else in common but who started them. */
    if (who->bootstrap == LS_BOOTSTRAP_PMI1 && (size_t)used < size)
        snprintf(name + used, size - (size_t)used, " %ld", (long)getppid());
}

static int shared_file(const ls_identity *who, ls_message *why)
{
    int inherited = (int)ls_config_count(LS_SETTING_COMM_FILE);
    if (inherited) return dup(inherited); /* the next run of this process may need it, too */
    char job[512];
    name_job(who, job, sizeof job);
    return ls_meet(job, who->rank, who->world, (int64_t)ls_config_count(LS_SETTING_COMM_TIMEOUT), why);
}

/* By the environment; only PMIx keeps the number of processes to itself. */
static ls_status find_identity(ls_identity *who, ls_message *why)
{
    ls_status status = ls_identity_read((const char *const *)environ, who, why);
    if (status || who->world >= 0) return status;
    ls_exchange *exchange;
    status = ls_exchange_open(&exchange, who, (double)ls_config_count(LS_SETTING_COMM_TIMEOUT), why);
    ls_exchange_close(exchange);
    return status;
}

bool ls_session_find_others(ls_run *run)
{
    ls_identity who;
    ls_message why = {{0}};
    ls_status status = find_identity(&who, &why);
    if (status) return ls_fail(&run->errors, status, "ls_init: %s", why.text), false;
    if (who.world <= 1) return true;
    if (who.hosts > 1 || (who.local_world > 0 && who.local_world < who.world)) {
        ls_fail(
            &run->errors, LS_ERR_UNSUPPORTED,
            "ls_init: rank %d of %d processes on several hosts: this build has communicators between processes of one "
            "host only; start all of them on one",
            who.rank, who.world);
        return false;
    }
    if (who.world > LS_SEGMENT_MOST) {
        ls_fail(&run->errors, LS_ERR_UNSUPPORTED, "ls_init: %d processes on a host; at most %d can work together",
                who.world, (int)LS_SEGMENT_MOST);
        return false;
    }
    int file = shared_file(&who, &why);
    ls_segment *segment = file < 0 ? NULL : ls_segment_open(file, who.world, &why);
    ls_comm *comm = segment ? ls_shm_join(segment, who.rank, &why) : NULL;
    ls_segment_let_go(segment);
    if (!comm) return ls_fail(&run->errors, LS_ERR_PEER, "ls_init: %s", why.text), false;
    ls_session_join(run, comm);
    if (who.local_rank >= 0) run->session->local_rank = who.local_rank;
    return true;
}
