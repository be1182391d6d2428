/* batch_size.c - try batch sizes until one fits in memory. */
#include "run/prepare.h"
#include "run/session.h"

enum { FIRST_SIZE = 128 };

/* The state of a run, so that the remains of a failed attempt can be removed. */
typedef struct run_state {
    ls_mark scope;
    ls_object *newest;
    ls_loop *loop;
    ls_accumulation accumulation;
    int32_t no_grad, autocast_count;
} run_state;

static run_state run_state_of(ls_run *run)
{
    return (run_state){ls_scope_begin(run),     run->objects, run->step->loop,
                       run->step->accumulation, run->no_grad, run->autocast_count};
}

static void return_to(ls_run *run, const run_state *before)
{
    ls_clear_error(run);
    while (run->step->loop != before->loop) ls_loop_end(run, run->step->loop);
    ls_scope_end(run, before->scope, NULL);
    while (run->objects != before->newest) ls_object_free(run->objects);
    run->step->accumulation = before->accumulation;
    run->no_grad = before->no_grad;
    run->autocast_count = before->autocast_count;
    for (ls_device *d = run->devices; d; d = d->next) ls_pool_trim(d->pool);
}

/* Did any process run out of memory? Collectives that wait for such a process are cancelled; the vote uses its own
 * communicator, since others were left in the middle of a call. */
static bool any_is_full(ls_run *run, bool *full)
{
    ls_session *session = run->session;
    ls_message why = {{0}};
    int32_t flag = ls_failed(run);
    if (flag) run->comm->table->cancel(run->comm);
    ls_status status = ls_comm_all_reduce(session->vote, &flag, 1, LS_I32, LS_REDUCE_MAX, "ls_find_batch_size", &why);
    *full = flag != 0;
    if (status) ls_clear_error(run);
    if (status) ls_fail(&run->errors, status, "ls_find_batch_size: %s", why.text);
    return status == LS_OK;
}

/* All are back: reset the communicators. */
static bool reset(ls_run *run)
{
    ls_session *session = run->session;
    ls_message why = {{0}};
    ls_status status = ls_comm_barrier(session->vote, "ls_find_batch_size", &why);
    ls_comm_reset(run->comm);
    ls_reducer_reset(run->step->reducer);
    ls_session_reset_user_comms(session);
    if (!status) status = ls_comm_barrier(session->vote, "ls_find_batch_size", &why);
    if (status) ls_fail(&run->errors, status, "ls_find_batch_size: %s", why.text);
    return status == LS_OK;
}

/* All processes create the communicators, or none: no cancel may be sent before all have them and ignore cancels in the
 * one for votes. Hence the barrier. */
static bool open_vote(ls_run *run)
{
    ls_session *session = run->session;
    ls_message why = {{0}};
    if (session->vote) return true;
    if (!ls_together_begin(run)) return false;
    session->vote = run->comm->table->split(run->comm, 0, run->comm->rank, &why);
    if (session->vote && session->vote->size > 1)
        session->vote->ignores_cancel = true; /* a single process shares its communicator */
    if (session->vote && ls_comm_barrier(session->vote, "ls_find_batch_size", &why) == LS_OK) return true;
    return ls_fail(&run->errors, LS_ERR_PEER, "ls_find_batch_size: %s", why.text), false;
}

int64_t ls_find_batch_size(ls_run *run, int64_t start, ls_batch_size_fn *train, void *user)
{
    if (!ls_session_of(run)) return 0;
    if (!train) return ls_fail(&run->errors, LS_ERR_VALUE, "ls_find_batch_size: the function is NULL"), 0;
    if (start < 0)
        return ls_fail(&run->errors, LS_ERR_VALUE, "ls_find_batch_size: start = %lld; it cannot be negative",
                       (long long)start),
               0;
    if (!open_vote(run)) return 0;
    for (int64_t size = start ? start : FIRST_SIZE; size > 0; size = size * 9 / 10) {
        run_state before = run_state_of(run);
        if (ls_failed(run)) return 0;
        run->tolerates_out_of_memory = true;
        train(run, size, user);
        run->tolerates_out_of_memory = false;
        bool full;
        if (ls_failed(run) && ls_error(run) != LS_ERR_MEMORY) return 0;
        if (!any_is_full(run, &full)) return 0;
        if (!full) return ls_scope_end(run, before.scope, NULL), size;
        return_to(run, &before);
        if (!reset(run)) return 0;
    }
    ls_fail(&run->errors, LS_ERR_MEMORY, "ls_find_batch_size: not even a batch of size 1 fits in memory");
    return 0;
}
