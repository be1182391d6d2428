/* user_comm.c - collectives on raw memory, for programs. */
#include <lockstep/comm.h>

#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/memory.h"
#include "base/opts.h"
#include "run/session.h"
#include "tensor/exchange.h"

/* The data of a program's communicator; its `user`. */
struct ls_user_comm {
    ls_run *run;
    ls_comm_queue *queue; /* of the communicator */
    ls_request *requests; /* not waited for yet */
    ls_user_comm *next;   /* of the session */
};

struct ls_request {
    ls_comm_request request;
    ls_comm_call call;
    ls_user_comm *user_comm;
    ls_request *next;
};

/* ---- workers ---- */

/* The entry at an index of a list such as "7,15"; -1: none. */
static int entry_of(const char *list, int place)
{
    for (; place > 0 && list; place--) list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL;
    return list && *list ? atoi(list) : -1;
}

bool ls_session_workers(ls_run *run, const char *who, ls_comm_workers *workers)
{
    uint64_t count = ls_config_count(LS_SETTING_COMM_WORKERS);
    const char *cpus = ls_config_text(LS_SETTING_COMM_AFFINITY);
    if (count > LS_COMM_WORKERS_MOST) {
        ls_fail(&run->errors, LS_ERR_VALUE, "%s: LOCKSTEP_COMM_WORKERS is %llu; it must be at most %d", who,
                (unsigned long long)count, (int)LS_COMM_WORKERS_MOST);
        return false;
    }
    *workers = (ls_comm_workers){.count = (int)count};
    for (int i = 0; i < workers->count; i++)
        workers->cpu[i] = entry_of(cpus, run->session->local_rank * workers->count + i);
    return true;
}

/* ---- creating and freeing ---- */

static ls_user_comm *user_comm_of(const ls_comm *comm)
{
    return comm ? comm->user : NULL;
}

/* The user_comm of a communicator on which a call can be made; otherwise NULL, and the others do not wait for this one.
 * */
static ls_user_comm *open_user_comm(const ls_comm *comm)
{
    ls_user_comm *user_comm = user_comm_of(comm);
    return user_comm && ls_session_of(user_comm->run) ? user_comm : NULL;
}

/* Operators identify a communicator by its number. */
static bool add_group(ls_run *run, ls_comm *comm)
{
    ls_comm **grown = ls_sys_realloc(run->groups, (size_t)(run->group_count + 1) * sizeof *grown);
    if (!grown) return false;
    run->groups = grown;
    run->groups[run->group_count++] = comm;
    return true;
}

static void forget_group(ls_run *run, const ls_comm *comm)
{
    for (int i = 0; i < run->group_count; i++)
        if (run->groups[i] == comm) run->groups[i] = NULL;
}

/* Split a communicator for the program: NULL if this process is in no part, or (with an error) on failure. */
static ls_comm *split_off(ls_run *run, ls_comm *from, int colour, int key, const char *who)
{
    ls_message why = {{0}};
    ls_comm_workers workers;
    ls_user_comm *user_comm = ls_sys_alloc(sizeof *user_comm);
    if (!user_comm) ls_fail(&run->errors, LS_ERR_MEMORY, "%s: no memory", who);
    if (!user_comm || !ls_session_workers(run, who, &workers)) return ls_sys_free(user_comm), NULL;
    ls_comm *comm = from->table->split(from, colour < 0 ? -1 : colour, key, &why);
    if (comm && colour >= 0) user_comm->queue = ls_comm_queue_new(comm, &workers, &why);
    else ls_comm_close(comm);
    if (user_comm->queue && !add_group(run, comm)) {
        ls_message_set(&why, "no memory");
        ls_comm_queue_free(user_comm->queue);
        user_comm->queue = NULL;
    }
    if (!user_comm->queue) {
        if (!comm || colour >= 0) ls_fail(&run->errors, LS_ERR_PEER, "%s: %s", who, why.text);
        return ls_sys_free(user_comm), NULL;
    }
    comm->user = user_comm;
    user_comm->run = run;
    user_comm->next = run->session->user_comms;
    run->session->user_comms = user_comm;
    return comm;
}

ls_comm *ls_comm_of(ls_run *run)
{
    ls_session *session = ls_session_of(run);
    if (!session) return NULL;
    if (!session->programs) session->programs = split_off(run, run->comm, 0, run->comm->rank, "ls_comm_of");
    return session->programs;
}

ls_comm *ls_comm_split(ls_comm *comm, int colour, int key)
{
    ls_user_comm *user_comm = open_user_comm(comm);
    if (!user_comm) return NULL;
    ls_comm *part = split_off(user_comm->run, ls_comm_queue_enter(user_comm->queue), colour, key, "ls_comm_split");
    ls_comm_queue_leave(user_comm->queue);
    return part;
}

static void free_user_comm(ls_user_comm *user_comm)
{
    ls_comm_queue_free(user_comm->queue); /* waits */
    for (ls_request *r = user_comm->requests, *next; r; r = next) {
        next = r->next;
        ls_sys_free(r);
    }
    ls_sys_free(user_comm);
}

void ls_comm_free(ls_comm *comm)
{
    ls_user_comm *user_comm = user_comm_of(comm);
    if (!user_comm || comm == user_comm->run->session->programs) return;
    ls_user_comm **at = &user_comm->run->session->user_comms;
    while (*at != user_comm) at = &(*at)->next;
    *at = user_comm->next;
    forget_group(user_comm->run, comm);
    free_user_comm(user_comm);
}

void ls_session_close_user_comms(ls_run *run)
{
    ls_session *session = run->session;
    ls_sys_free(run->groups);
    run->groups = NULL;
    run->group_count = 0;
    for (ls_user_comm *user_comm = session->user_comms, *next; user_comm; user_comm = next) {
        next = user_comm->next;
        free_user_comm(user_comm);
    }
    session->user_comms = NULL;
    session->programs = NULL;
}

void ls_session_reset_user_comms(ls_session *session)
{
    for (ls_user_comm *user_comm = session->user_comms; user_comm; user_comm = user_comm->next) {
        ls_comm_reset(ls_comm_queue_enter(user_comm->queue));
        ls_comm_queue_leave(user_comm->queue);
    }
}

int ls_comm_rank(const ls_comm *comm)
{
    return comm ? comm->rank : 0;
}

int ls_comm_size(const ls_comm *comm)
{
    return comm ? comm->size : 1;
}

void *ls_comm_share(ls_comm *comm, size_t bytes)
{
    ls_user_comm *user_comm = open_user_comm(comm);
    if (!user_comm) return NULL;
    ls_message why = {{0}};
    ls_comm_queue_enter(user_comm->queue);
    void *memory = comm->table->share(comm, bytes, &why);
    ls_comm_queue_leave(user_comm->queue);
    if (!memory) ls_fail(&user_comm->run->errors, LS_ERR_MEMORY, "ls_comm_share: %s", why.text);
    return memory;
}

/* ---- calls ---- */

/* Complete the program's arguments. False (and an error) if the call must not be made at all. */
static bool read_call(const ls_comm *comm, const ls_comm_call *given, size_t size, ls_comm_call *call)
{
    ls_run *run = user_comm_of(comm)->run;
    int64_t in, out;
    *call = LS_OPTS_READ(ls_comm_call, given, size);
    if (!call->site) call->site = "ls_collective";
    if (strrchr(call->site, '/')) call->site = strrchr(call->site, '/') + 1;
    if (call->kind == LS_COMM_BARRIER) call->dtype = LS_U8;
    const char *name = ls_comm_kind_name(call->kind);
    ls_comm_elements(comm, call, &in, &out);
    if (!ls_dtype_size(call->dtype))
        ls_fail(&run->errors, LS_ERR_DTYPE, "%s: %s needs a .dtype, such as LS_F32", call->site, name);
    else if ((in > 0 && !call->in) || (out > 0 && !call->out))
        ls_fail(&run->errors, LS_ERR_VALUE, "%s: %s of %lld elements needs .%s", call->site, name,
                (long long)call->count, in > 0 && !call->in ? "in" : "out");
    else if (call->kind == LS_COMM_ALL_TO_ALL && !call->counts != !call->out_counts)
        ls_fail(&run->errors, LS_ERR_VALUE, "%s: %s needs .counts and .out_counts together", call->site, name);
    return !ls_failed(run);
}

static bool check(ls_run *run, ls_status status, const ls_message *why, const char *site)
{
    if (status) ls_fail(&run->errors, status, "%s: %s", site, why->text);
    if (status) ls_report_failure(run);
    return status == LS_OK;
}

bool ls_collective_sized(ls_comm *comm, const ls_comm_call *given, size_t size)
{
    ls_user_comm *user_comm = open_user_comm(comm);
    ls_comm_call call;
    ls_message why = {{0}};
    if (!user_comm) return false;
    if (!read_call(comm, given, size, &call)) return ls_report_failure(user_comm->run), false;
    ls_status status = ls_comm_run(ls_comm_queue_enter(user_comm->queue), &call, &why);
    ls_comm_queue_leave(user_comm->queue);
    return check(user_comm->run, status, &why, call.site);
}

static ls_status work(ls_comm *comm, ls_comm_request *request, ls_message *why)
{
    return ls_comm_run(comm, &((ls_request *)request)->call, why); /* its first member */
}

ls_request *ls_collective_start_sized(ls_comm *comm, const ls_comm_call *given, size_t size)
{
    ls_user_comm *user_comm = open_user_comm(comm);
    ls_request *r = user_comm ? ls_sys_alloc(sizeof *r) : NULL;
    if (!user_comm) return NULL;
    if (!r) ls_fail(&user_comm->run->errors, LS_ERR_MEMORY, "ls_collective_start: no memory");
    if (!r || !read_call(comm, given, size, &r->call)) {
        ls_sys_free(r);
        ls_report_failure(user_comm->run);
        return NULL;
    }
    r->request.work = work;
    r->user_comm = user_comm;
    r->next = user_comm->requests;
    user_comm->requests = r;
    ls_comm_start(user_comm->queue, &r->request);
    return r;
}

bool ls_request_done(const ls_request *r)
{
    return !r || ls_comm_done(r->user_comm->queue, &r->request);
}

bool ls_request_wait(ls_request *r)
{
    if (!r) return false;
    ls_user_comm *user_comm = r->user_comm;
    ls_message why = {{0}};
    ls_status status = ls_comm_wait(user_comm->queue, &r->request, &why);
    ls_request **at = &user_comm->requests;
    while (*at != r) at = &(*at)->next;
    *at = r->next;
    const char *site = r->call.site;
    ls_sys_free(r);
    return check(user_comm->run, status, &why, site);
}
