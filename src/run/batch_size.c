/* batch_size.c - try batch sizes until one fits in memory. */
#include "run/exchange.h"

enum { FIRST_SIZE = 128 };

/* Where a run stands, so that what a failed attempt left behind can be cleared away. */
typedef struct standing {
    ls_mark scope;
    ls_object *newest;
    ls_loop *loop;
    ls_accumulation accumulation;
    int32_t no_grad, autocast_count;
} standing;

static standing stand(ls_run *run)
{
    return (standing){ls_scope_begin(run), run->objects, run->loop,
                      run->accumulation,   run->no_grad, run->autocast_count};
}

static void return_to(ls_run *run, const standing *before)
{
    ls_error_clear(run);
    while (run->loop != before->loop) ls_loop_end(run, run->loop);
    ls_scope_end(run, before->scope, NULL);
    while (run->objects != before->newest) ls_object_free(run->objects);
    run->accumulation = before->accumulation;
    run->no_grad = before->no_grad;
    run->autocast_count = before->autocast_count;
    for (ls_device *d = run->devices; d; d = d->next) ls_pool_trim(d->pool);
}

int64_t ls_find_batch_size(ls_run *run, int64_t start, ls_batch_size_fn *train, void *user)
{
    if (!ls_session_of(run)) return 0;
    for (int64_t size = start ? start : FIRST_SIZE; size > 0; size = size * 9 / 10) {
        standing before = stand(run);
        if (ls_failed(run)) return 0;
        run->session->forgives_memory = true;
        train(run, size, user);
        run->session->forgives_memory = false;
        if (ls_failed(run) && ls_error(run) != LS_ERR_MEMORY) return 0;
        bool full;
        if (!ls_exchange_any(run, ls_failed(run), &full, "ls_find_batch_size")) return 0;
        if (!full) return ls_scope_end(run, before.scope, NULL), size;
        return_to(run, &before);
    }
    ls_fail(&run->errors, LS_ERR_MEMORY, "ls_find_batch_size: not even a batch of one fits");
    return 0;
}
