/* walk.c - backward passes of all processes, reduced as they proceed. */
#include <string.h>

#include "autograd/tape.h"
#include "parallel/inside.h"

/* ---- a pass ---- */

/* Do the buckets still match? Freezing and unfreezing between steps changes what is reduced. */
static bool buckets_fit(const ls_reducer *p)
{
    if (!p->buckets) return false;
    for (int i = 0; i < p->slot_count; i++)
        if (p->slots[i]->trained != ls_requires_grad(p->slots[i]->tensor)) return false;
    return true;
}

static bool begin_round(ls_reducer *p, bool active)
{
    p->active = active;
    if (!buckets_fit(p) && !ls_buckets_make(p)) return false;
    for (int i = 0; i < p->bucket_count; i++) p->buckets[i].missing = 0;
    for (int i = 0; i < p->slot_count; i++) {
        ls_slot *slot = p->slots[i];
        slot->ready = false;
        if (slot->trained) p->buckets[slot->bucket].missing++;
    }
    p->next = p->completed_count = 0;
    p->unlike = false;
    return ls_buffers_start(p);
}

/* Start complete buckets, in order, since all processes must start the same ones. Everything
 * else is told before. */
static void start_complete(ls_reducer *p)
{
    while (p->next < p->bucket_count && p->buckets[p->next].missing == 0) {
        if (p->next == 0 && p->bucket_count > 1) ls_notice_start(p, false);
        if (p->next == p->bucket_count - 1) ls_notice_start(p, true);
        ls_bucket_start(p, &p->buckets[p->next++]);
    }
}

void ls_slot_ready(ls_tensor *leaf, void *user)
{
    (void)leaf;
    ls_slot *slot = user;
    ls_reducer *p = slot->reducer;
    if (!p->at_work || !slot->trained || slot->ready) return;
    slot->ready = true;
    p->completed[p->completed_count++] = slot->index;
    p->buckets[slot->bucket].missing--;
    start_complete(p);
}

/* Gradients missing in this pass: use those of earlier ones, else zero. */
static bool complete_the_rest(ls_reducer *p)
{
    for (int i = 0; i < p->slot_count; i++) {
        ls_slot *slot = p->slots[i];
        if (!slot->trained || slot->ready) continue;
        ls_tensor *room = ls_leaf_room(slot->tensor);
        if (!room || (!ls_leaf_holds(slot->tensor) && !ls_raw_fill(room, 0))) return false;
        p->buckets[slot->bucket].missing--;
    }
    start_complete(p);
    if (p->bucket_count == 0) ls_notice_start(p, true);
    return true;
}

/* The first pass determines the order in which gradients are completed; that of rank 0 is used by all. */
static bool take_order(ls_reducer *p)
{
    int count = p->completed_count;
    for (int i = 0; i < p->slot_count; i++)
        if (!p->slots[p->order[i]]->ready) p->completed[count++] = p->order[i];
    ls_message why = {{0}};
    ls_status status = ls_comm_broadcast(ls_reducer_comm(p), p->completed, (size_t)p->slot_count * sizeof *p->completed,
                                         0, "order of gradients", &why);
    if (!ls_reducer_check(p, status, &why, "ls_backward")) return false;
    memcpy(p->order, p->completed, (size_t)p->slot_count * sizeof *p->order);
    p->ordered = true;
    ls_buckets_free(p);
    return true;
}

/* Exchange the weights of the group. Each process divided its gradients by its planned weight before they became a
 * mean. */
static bool share_weights(ls_reducer *p)
{
    ls_comm *comm = ls_reducer_comm(p);
    ls_message why = {{0}};
    ls_weights mine = {0}, all = {0};
    if (p->active) mine = (ls_weights){ls_accumulation_sum(p->run), ls_accumulation_plan(p->run)};
    ls_status status = ls_comm_all_gather(comm, &mine, p->weights, sizeof mine, "weights of batches", &why);
    if (!ls_reducer_check(p, status, &why, "ls_backward_weighted")) return false;
    for (int r = 0; r < comm->size; r++) {
        const ls_weights *w = &p->weights[r];
        if (w->plan > 0 && all.plan > 0 && w->plan != all.plan) {
            ls_fail(&p->run->errors, LS_ERR_STATE,
                    "ls_backward_weighted: process %d started a group of batches with ls_backward, or with different "
                    "gradient_accumulation_steps, unlike another; make the same calls in all processes",
                    r);
            return false;
        }
        if (w->plan > 0) all.plan = w->plan;
        all.sum += w->sum;
    }
    ls_accumulation_share(p->run, all.sum, comm->size);
    return true;
}

/* Wait for everything in flight. */
static bool wait_for_all(ls_reducer *p)
{
    bool ok = ls_notices_wait(p); /* the first error counts, and this one names a parameter */
    for (int i = 0; i < p->next; i++) ok &= ls_bucket_wait(p, &p->buckets[i]);
    return ls_buffers_wait(p) && ok;
}

/* Wait for all buckets; learn which gradients were used anywhere, their weights, and whether all train the same
 * model. */
static bool end_round(ls_reducer *p)
{
    bool ok = complete_the_rest(p);
    if (!wait_for_all(p) || !ok) return false;
    p->odd = false;
    ls_heard heard = ls_notice_heard(p);
    p->odd_rank = heard.odd_rank;
    if (!heard.weighted) ls_accumulation_share(p->run, 0, ls_reducer_comm(p)->size);
    else if (!share_weights(p)) return false;
    for (int i = 0; p->active && i < p->slot_count; i++)
        if (heard.used[i]) ls_leaf_hold(p->slots[i]->tensor);
    p->in_slices = p->opts.shard;
    p->parted = !ls_agree_hear(heard.agree, LS_AGREE_STEPS);
    if (!p->ordered && !take_order(p)) return false;
    return p->parted || ls_agree_hear(heard.agree, LS_AGREE_VALUES) || ls_reducer_compare(p, "ls_backward");
}

/* The highest rank that still makes passes; -1: none. */
static bool find_source(ls_reducer *p, bool active, int32_t *source)
{
    ls_comm *comm = ls_reducer_comm(p);
    ls_message why = {{0}};
    *source = active ? comm->rank : -1;
    return ls_reducer_check(p, ls_comm_all_reduce(comm, source, 1, LS_I32, LS_REDUCE_MAX, "join", &why), &why,
                            "ls_join_uneven_inputs");
}

/* The pass failed halfway: release the others, which wait for buckets. */
static void give_up(ls_reducer *p)
{
    ls_reducer_call_off(p);
    wait_for_all(p);
}

bool ls_reducer_odd_loss(ls_reducer *p)
{
    if (!ls_reducer_trains(p)) return false;
    return p->odd = true;
}

int ls_reducer_odd_rank(const ls_reducer *p)
{
    return ls_reducer_trains(p) ? p->odd_rank : -1;
}

void ls_reducer_walk_begins(ls_reducer *p, bool sync, uint64_t course)
{
    if (!ls_reducer_trains(p)) return;
    p->course = course;
    p->parted = false;
    p->odd_rank = -1;
    p->source = 0;
    ls_shard_reopen(p);
    p->at_work = sync && (!p->joining || find_source(p, true, &p->source)) && begin_round(p, true);
}

void ls_reducer_walk_ended(ls_reducer *p)
{
    if (!p || !p->at_work) return;
    if (ls_failed(p->run)) give_up(p);
    else end_round(p);
    p->at_work = false;
}

/* ---- joining ---- */

void ls_reducer_join_begin(ls_reducer *p)
{
    if (!p) return;
    if (p->opts.shard)
        ls_fail(&p->run->errors, LS_ERR_UNSUPPORTED,
                "ls_join_uneven_inputs: a process without batches takes no steps, but with "
                ".shard_optimizer the others need it; use only one of the two");
    else if (p->run->step->accumulation.across_epochs && p->run->step->accumulation.steps > 1)
        ls_fail(&p->run->errors, LS_ERR_UNSUPPORTED,
                "ls_join_uneven_inputs: with .accumulate_across_epochs a process may run out of batches in the middle "
                "of a group, and its gradients would be lost; use only one of the two");
    else p->joining = true;
}

int ls_reducer_join_end(ls_reducer *p)
{
    if (!p || !p->joining) return -1;
    p->joining = false;
    if (!p->run->step->accumulation.sync) {
        ls_fail(
            &p->run->errors, LS_ERR_STATE,
            "ls_join_uneven_inputs: it ends in the middle of a group of batches, whose gradients would be lost; let "
            "the last batch end the group (ls_set_sync_gradients)");
        return -1;
    }
    int32_t source = 0;
    while (p->slot_count && !ls_failed(p->run) && find_source(p, false, &source) && source >= 0) {
        p->source = source;
        for (int i = 0; i < p->slot_count; i++) ls_clear_grad(p->slots[i]->tensor);
        if (!begin_round(p, false) || !end_round(p)) return -1;
    }
    source = !ls_failed(p->run) && ls_reducer_send_all(p) ? p->source : -1;
    p->source = 0;
    return source;
}
