/* session.c - rank and world of this process, and the project folder. */
#include "run/session.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/claim.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/terminal.h"
#include "tensor/exchange.h"

void ls_session_join(ls_run *run, ls_comm *comm)
{
    run->comm = comm;
    run->session->local_rank = comm->rank;
    run->session->local_world = comm->size;
    run->step->share.rank = comm->rank;
    run->step->share.world = comm->size;
}

bool ls_session_open(ls_run *run, const ls_init_opts *opts)
{
    ls_session *session = run->session = ls_sys_alloc(sizeof *session);
    if (!session) return ls_fail(&run->errors, LS_ERR_MEMORY, "ls_init: no memory"), false;
    ls_session_join(run, ls_comm_self());
    run->step->share.split_batches = opts->split_batches;
    run->step->share.uneven = opts->uneven_batches;
    run->step->share.dispatch = opts->dispatch_batches;
    run->step->share.optimizer = opts->shard_optimizer;
    session->compression = opts->gradient_compression;
    session->bucket_cap_mb = opts->bucket_cap_mb;
    session->begun = (ls_begun){.seed = opts->seed,
                                .precision = opts->mixed_precision,
                                .compression = opts->gradient_compression,
                                .accumulation = run->step->accumulation.steps};
    session->total_limit = opts->total_limit;
    session->async_save = opts->async_save;
    session->project_dir = ls_text_copy(run, opts->project_dir ? opts->project_dir : ".");
    if (opts->resume_from_checkpoint) session->resume = ls_text_copy(run, opts->resume_from_checkpoint);
    if (opts->project_dir && !*opts->project_dir)
        return ls_fail(&run->errors, LS_ERR_VALUE, "ls_init: the name of the project folder is empty"), false;
    session->project_named = opts->project_dir != NULL;
    return session->project_dir && ls_session_find_others(run) && ls_session_take_cpus(run);
}

bool ls_session_open_project(ls_run *run)
{
    ls_session *session = run->session;
    if (!session->project_named || session->project_open || !ls_is_main(run)) return true;
    ls_message why = {{0}};
    if (!ls_folder_make(session->project_dir, &why) || !ls_folder_sync_above(session->project_dir, &why))
        ls_fail(&run->errors, LS_ERR_IO, "ls_epoch: %s", why.text);
    else if (access(session->project_dir, W_OK | X_OK) != 0)
        ls_fail(&run->errors, LS_ERR_IO, "ls_epoch: cannot write to %s: %s", session->project_dir, strerror(errno));
    else ls_claim_folder(&session->claims, session->project_dir, "ls_epoch", &run->errors);
    session->project_open = true;
    return !ls_failed(run);
}

void ls_session_close(ls_run *run)
{
    ls_session *session = run->session;
    if (!session) return;
    ls_writer_free(&session->writer);
    ls_claims_end(&session->claims);
    ls_report_failure(run);
    ls_session_leave_cpus(session);
    ls_session_close_user_comms(run);
    ls_reducer_free(run->step->reducer);
    run->step->reducer = NULL;
    ls_comm_close(session->vote);
    ls_comm_close(run->comm);
    run->comm = ls_comm_self();
    ls_rank_guard_close(session->guard);
    for (ls_custom *c = session->customs, *next; c; c = next) {
        next = c->next;
        ls_sys_free(c->name);
        ls_sys_free(c);
    }
    ls_sys_free(session->prepared);
    ls_sys_free(session->gathered);
    ls_sys_free(session->project_dir);
    ls_sys_free(session->resume);
    ls_sys_free(session->resumed_from);
    ls_sys_free(session->begun.frozen);
    ls_sys_free(session->begun.evaluating);
    ls_sys_free(session);
    run->session = NULL;
}

ls_session *ls_session_of(ls_run *run)
{
    if (!ls_failed(run)) return run->session;
    if (run->session) ls_report_failure(run);
    return NULL;
}

/* ---- identity ---- */

int ls_rank(const ls_run *run)
{
    return run->step->share.rank;
}

int ls_world_size(const ls_run *run)
{
    return run->session ? run->step->share.world : 1;
}

int ls_local_rank(const ls_run *run)
{
    return run->session ? run->session->local_rank : 0;
}

int ls_local_world_size(const ls_run *run)
{
    return run->session ? run->session->local_world : 1;
}

bool ls_is_main(const ls_run *run)
{
    return ls_rank(run) == 0;
}

bool ls_is_local_main(const ls_run *run)
{
    return ls_local_rank(run) == 0;
}

bool ls_is_last(const ls_run *run)
{
    return ls_rank(run) == ls_world_size(run) - 1;
}

const char *ls_project_dir(const ls_run *run)
{
    return run->session ? run->session->project_dir : ".";
}

void ls_print(ls_run *run, const char *format, ...)
{
    if (!ls_is_local_main(run) || ls_failed(run)) return;
    va_list args;
    va_start(args, format);
    ls_terminal_print(stdout, format, args);
    va_end(args);
    fflush(stdout);
}

/* ---- order ---- */

void ls_wait_for_everyone(ls_run *run)
{
    if (ls_session_of(run)) ls_exchange_barrier(run, "ls_wait_for_everyone");
}

/* The first waits for the others after it is done; the others wait before they begin. */
static void meet_if(ls_run *run, bool now, const char *who)
{
    if (ls_session_of(run) && now) ls_exchange_barrier(run, who);
}

bool ls_main_first_begin(ls_run *run)
{
    return meet_if(run, !ls_is_main(run), "ls_main_first"), true;
}

bool ls_main_first_end(ls_run *run)
{
    return meet_if(run, ls_is_main(run), "ls_main_first"), false;
}

bool ls_local_main_first_begin(ls_run *run)
{
    return meet_if(run, !ls_is_local_main(run), "ls_local_main_first"), true;
}

bool ls_local_main_first_end(ls_run *run)
{
    return meet_if(run, ls_is_local_main(run), "ls_local_main_first"), false;
}

/* ---- triggers ---- */

void ls_set_trigger(ls_run *run)
{
    if (ls_session_of(run)) run->session->trigger = true;
}

bool ls_check_trigger(ls_run *run)
{
    ls_session *session = ls_session_of(run);
    if (!session) return false;
    bool raised, ok = ls_exchange_any(run, session->trigger, &raised, "ls_check_trigger");
    session->trigger = false;
    return ok && raised;
}
