/* session.c - who this process is: rank, world, the main one; and where its files go. */
#include "run/exchange.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/config.h"
#include "base/memory.h"
#include "base/terminal.h"

static bool identify(ls_run *run, ls_session *session)
{
    uint64_t rank = ls_config_count(LS_SETTING_RANK), world = ls_config_count(LS_SETTING_WORLD_SIZE);
    uint64_t local_rank = ls_config_count(LS_SETTING_LOCAL_RANK);
    uint64_t local_world = ls_config_count(LS_SETTING_LOCAL_WORLD_SIZE);
    if (local_world == 0) local_world = world;
    if (world > 1) {
        ls_fail(&run->errors, LS_ERR_UNSUPPORTED,
                "WORLD_SIZE is %llu: this build has no communicator between processes; start one process",
                (unsigned long long)world);
        return false;
    }
    if (rank >= world || local_rank >= local_world) {
        ls_fail(&run->errors, LS_ERR_VALUE, "RANK is %llu of WORLD_SIZE %llu, LOCAL_RANK %llu of LOCAL_WORLD_SIZE %llu",
                (unsigned long long)rank, (unsigned long long)world, (unsigned long long)local_rank,
                (unsigned long long)local_world);
        return false;
    }
    session->local_rank = (int)local_rank;
    session->local_world = (int)local_world;
    return true;
}

void ls_session_join(ls_run *run, ls_comm *comm)
{
    run->session->comm = comm;
    run->session->local_rank = comm->rank;
    run->session->local_world = comm->size;
    run->world = comm->size;
}

bool ls_session_open(ls_run *run, const ls_init_opts *opts)
{
    ls_session *session = run->session = ls_sys_alloc(sizeof *session);
    if (!session) return ls_fail(&run->errors, LS_ERR_MEMORY, "ls_init: no memory"), false;
    ls_session_join(run, ls_comm_self());
    session->split_batches = opts->split_batches;
    session->uneven_batches = opts->uneven_batches;
    session->dispatch_batches = opts->dispatch_batches;
    session->total_limit = opts->total_limit;
    session->async_save = opts->async_save;
    session->project_dir = ls_text_copy(run, opts->project_dir ? opts->project_dir : ".");
    if (opts->resume_from_checkpoint) session->resume = ls_text_copy(run, opts->resume_from_checkpoint);
    return session->project_dir && identify(run, session);
}

void ls_session_close(ls_run *run)
{
    ls_session *session = run->session;
    if (!session) return;
    ls_writer_free(&session->writer);
    session->comm->table->close(session->comm);
    for (ls_custom *c = session->customs, *next; c; c = next) {
        next = c->next;
        ls_sys_free(c->name);
        ls_sys_free(c);
    }
    ls_sys_free(session->prepared);
    ls_sys_free(session->gathered);
    ls_sys_free(session->project_dir);
    ls_sys_free(session->resume);
    ls_sys_free(session);
    run->session = NULL;
}

/* ---- who ---- */

int ls_rank(const ls_run *run)
{
    return run->session ? run->session->comm->rank : 0;
}

int ls_world(const ls_run *run)
{
    return run->session ? run->session->comm->size : 1;
}

int ls_local_rank(const ls_run *run)
{
    return run->session ? run->session->local_rank : 0;
}

int ls_local_world(const ls_run *run)
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
    return ls_rank(run) == ls_world(run) - 1;
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

/* ---- in turn ---- */

/* A run that failed comes as well: the others wait for it. */
void ls_wait_for_everyone(ls_run *run)
{
    if (run->session) ls_exchange_barrier(run, "ls_wait_for_everyone");
}

bool ls_main_first_begin(ls_run *run)
{
    if (!ls_is_main(run)) ls_exchange_barrier(run, "ls_main_first");
    return true;
}

bool ls_main_first_end(ls_run *run)
{
    if (ls_is_main(run) && run->session) ls_exchange_barrier(run, "ls_main_first");
    return false;
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
