/* loader.c - passes over a dataset, batch by batch. */
#include "data/loader/loader.h"

#include "base/log.h"
#include "base/pin.h"
#include "data/random.h"
#include "tensor/live.h"

/* ---- start and end of a pass ---- */

static bool make_order(ls_loader *loader)
{
    if (!loader->order) return true;
    const ls_sampler *sampler = loader->opts.sampler;
    uint64_t key = ls_random_key(loader->opts.seed, (uint64_t)loader->epoch, LS_RANDOM_ORDER);
    if (sampler) return sampler->order(sampler, loader->set->count, key, loader->epoch, loader->order);
    ls_order_shuffled(key, loader->set->count, loader->order);
    return true;
}

bool ls_loader_begin_pass(ls_loader *loader)
{
    ls_run *run = loader->object.run;
    bool stream = ls_dataset_is_stream(loader->set);
    ls_reading *reading = &loader->prefetcher.reading;
    reading->sample_key = ls_random_key(loader->opts.seed, (uint64_t)loader->epoch, LS_RANDOM_SAMPLE);
    reading->transform_key = ls_random_key(loader->opts.seed, (uint64_t)loader->epoch, LS_RANDOM_TRANSFORM);
    if (stream ? !ls_stream_restart(run, &loader->prefetcher, &loader->shard, loader->epoch) : !make_order(loader))
        return false;
    loader->in_pass = loader->settled = true;
    loader->batches = stream ? INT64_MAX : ls_shard_len(&loader->shard);
    loader->pushed = loader->handed = loader->bad = 0;
    if (loader->batches == 0 && loader->shard.start == 0)
        LS_LOG_ONCE(LS_LOG_WARN, "loader: %lld samples are too few to give rank %d of %d a batch of %lld%s",
                    (long long)loader->shard.samples, loader->shard.rank, loader->shard.world,
                    (long long)loader->shard.batch, loader->opts.drop_last ? ", with .drop_last" : "");
    return true;
}

static void leave_batch(ls_loader *loader)
{
    ls_scope_close(loader->object.run, loader->scope);
    loader->scope = 0;
    if (loader->has_batch) ls_prefetcher_pop(&loader->prefetcher);
    loader->has_batch = false;
}

/* The pass is over, complete or not: the next one uses the next order. */
static void leave_pass(ls_loader *loader)
{
    leave_batch(loader);
    ls_prefetcher_drain(&loader->prefetcher);
    ls_loop_end(loader->object.run, &loader->loop);
    loader->in_pass = false;
    loader->epoch++;
    loader->shard.start = 0;
}

static void end_pass(ls_loader *loader)
{
    if (loader->bad)
        ls_log_line(LS_LOG_WARN, "epoch %lld: %lld bad sample%s of the %s replaced by the next good one; the first: %s",
                    (long long)loader->epoch, (long long)loader->bad, loader->bad == 1 ? "" : "s", loader->set->kind,
                    loader->bad_reason.text);
    /* A pass without batches never ran: it is nested in the current loop. */
    const ls_loop *outer = loader->loop.running ? loader->loop.outer : loader->object.run->step->loop;
    if (!outer) loader->passes++;
    loader->finished = true;
    leave_pass(loader);
}

void ls_loader_rewind(ls_loader *loader)
{
    if (!loader) return;
    loader->ends = 0;
    if (loader->in_pass) leave_pass(loader);
}

/* ---- batches ---- */

/* With dispatch only rank 0 reads. */
static bool reads(const ls_loader *loader)
{
    return !ls_loader_dispatches(loader) || loader->shard.rank == 0;
}

/* Fill the ring with batches while there is room. */
static bool push_batches(ls_loader *loader)
{
    ls_prefetcher *prefetcher = &loader->prefetcher;
    bool stream = ls_dataset_is_stream(loader->set);
    for (ls_batch_slot *slot; loader->pushed < loader->batches && (slot = ls_prefetcher_free_slot(prefetcher));
         loader->pushed++) {
        ls_span span = stream ? (ls_span){0, loader->shard.batch} : ls_shard_batch(&loader->shard, loader->pushed);
        if (ls_loader_dispatches(loader)) span.size *= loader->shard.world; /* rank 0 reads the parts of all */
        if (!ls_batch_slot_prepare(loader->object.run, slot, &prefetcher->reading, span.size)) return false;
        for (int64_t j = 0; !stream && j < span.size; j++) {
            int64_t position = (span.first + j) % loader->shard.samples;
            slot->place[j] = loader->order ? loader->order[position] : position;
        }
        ls_prefetcher_push(prefetcher);
    }
    return true;
}

static bool slot_failed(ls_loader *loader, const ls_batch_slot *slot)
{
    if (slot->failed_at < 0) return false;
    int64_t index = slot->index[slot->failed_at];
    const char *path = ls_dataset_path(loader->set, index);
    if (path[0])
        ls_fail(&loader->object.run->errors, slot->status, "%s: %s: %s%s", loader->set->kind, path, slot->failure.text,
                slot->status == LS_ERR_IO ? "; .on_bad = LS_ON_BAD_SKIP skips damaged files" : "");
    else if (ls_dataset_is_stream(loader->set))
        ls_fail(&loader->object.run->errors, slot->status, "stream: %s", slot->failure.text);
    else
        ls_fail(&loader->object.run->errors, slot->status, "%s: sample %lld: %s", loader->set->kind, (long long)index,
                slot->failure.text);
    return true;
}

/* The oldest batch, once it is full; NULL at the end of the pass and after a failure. Sets whether another follows. */
static ls_batch_slot *next_slot(ls_loader *loader, bool *last)
{
    *last = loader->handed + 1 == loader->batches;
    if (!reads(loader)) return NULL;
    if (!push_batches(loader)) return NULL;
    ls_batch_slot *slot = ls_prefetcher_wait(&loader->prefetcher, 0);
    if (slot->bad && !loader->bad) loader->bad_reason = slot->bad_reason;
    loader->bad += slot->bad;
    slot->bad = 0;
    if (slot_failed(loader, slot)) return NULL;
    if (!ls_dataset_is_stream(loader->set)) return slot;
    if (slot->count == 0) return NULL;
    loader->stream_read = slot->after;
    const ls_batch_slot *following = ls_prefetcher_wait(&loader->prefetcher, 1);
    *last = following->count == 0 && following->failed_at < 0;
    return slot;
}

static void report(ls_loader *loader, const ls_batch_slot *slot, int64_t rows, bool last)
{
    bool stream = ls_dataset_is_stream(loader->set);
    loader->loop.whole = loader->shard.world < loader->object.run->step->share.world;
    loader->loop.last = last;
    loader->loop.left = stream ? (last ? 0 : -1) : loader->batches - loader->handed;
    loader->loop.rows = rows;
    loader->loop.real_rows = stream ? slot->real : ls_shard_real(&loader->shard, loader->handed - 1);
    ls_loop_batch(loader->object.run, &loader->loop);
}

/* The batch after this one, if full: its copy to the device overlaps with the work on this one. */
static void upload_ahead(ls_loader *loader)
{
    ls_run *run = loader->object.run;
    if (ls_device_is_host(run->device) || ls_loader_dispatches(loader)) return;
    ls_batch_slot *next = ls_prefetcher_look(&loader->prefetcher, 1);
    if (next && next->count > 0 && next->failed_at < 0)
        ls_batch_slot_upload_ahead(run, next, &loader->prefetcher.reading);
}

static bool deliver_batch(ls_loader *loader, ls_batch_slot *slot, bool last, ls_batch *batch)
{
    ls_run *run = loader->object.run;
    bool dispatched = ls_loader_dispatches(loader);
    int64_t rows = slot ? slot->count : 0;
    loader->has_batch = slot != NULL;
    loader->handed++;
    loader->scope = ls_scope_open(run, "batch");
    if (!loader->scope) return false;
    if (dispatched ? !ls_dispatch_deliver(loader, slot, &rows)
                   : !ls_batch_slot_deliver(run, slot, &loader->prefetcher.reading, loader->tensors))
        return false;
    *batch = (ls_batch){
        .count = loader->set->field_count,
        .tensor = loader->tensors,
        .size = rows,
        .index = dispatched ? loader->index : slot->index,
        .last = last,
        .loader = loader,
    };
    ls_batch_name_tensors(batch);
    report(loader, slot, rows, last);
    upload_ahead(loader);
    if (loader->opts.collate) loader->opts.collate(batch, loader->opts.user);
    return !ls_failed(run);
}

bool ls_next(ls_loader *loader, ls_batch *batch)
{
    if (batch) *batch = (ls_batch){.loader = loader};
    if (!loader || ls_object_has_ended(loader, "ls_next") || ls_failed(loader->object.run)) return false;
    if (!batch) return ls_fail(&loader->object.run->errors, LS_ERR_VALUE, "ls_next: the batch is NULL"), false;
    leave_batch(loader);
    ls_pin_watch();
    if (loader->ends > 0) {
        loader->ends--;
        loader->passes++;
        return false;
    }
    if (!loader->in_pass && !ls_loader_begin_pass(loader)) return false;
    ls_step_mark(loader->object.run, LS_MARK_STEP_BEGINS);
    bool last = false;
    bool more = loader->handed < loader->batches;
    ls_batch_slot *slot = more ? next_slot(loader, &last) : NULL;
    if (slot || (more && !reads(loader))) return deliver_batch(loader, slot, last, batch);
    if (!ls_failed(loader->object.run)) end_pass(loader);
    return false;
}

int64_t ls_loader_bad_count(const ls_loader *loader)
{
    return loader ? loader->bad : 0;
}
