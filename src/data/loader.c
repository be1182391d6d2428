/* loader.c - passes over a dataset: the order of an epoch, batch by batch. */
#include "data/loader.h"

#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/opts.h"
#include "data/random.h"

/* ---- made and freed ---- */

static void clear(void *object)
{
    ls_loader *loader = object;
    ls_loop_end(loader->object.run, &loader->loop);
    ls_feed_clear(loader->object.run, &loader->feed);
    ls_sys_free(loader->order);
    if (loader->set) ls_dataset_let_go(loader->set);
}

ls_loader *ls_loader_sized(ls_run *run, ls_dataset *set, const ls_loader_opts *opts, size_t opts_size)
{
    ls_loader_opts o;
    ls_opts_read(&o, sizeof o, opts, opts_size);
    if (ls_failed(run)) return NULL;
    if (!set) return ls_fail(&run->errors, LS_ERR_VALUE, "ls_loader_new: the dataset is NULL"), NULL;
    if (o.batch < 0)
        return ls_fail(&run->errors, LS_ERR_VALUE, "ls_loader_new: .batch = %lld", (long long)o.batch), NULL;
    if (o.batch == 0) o.batch = 1;
    if (o.seed == 0) o.seed = run->random.seed;
    if (set->count == 0)
        return ls_fail(&run->errors, LS_ERR_VALUE, "ls_loader_new: the %s has no samples", set->kind), NULL;
    ls_loader *loader = ls_object_new(run, LS_OBJECT_LOADER, sizeof *loader, clear);
    if (!loader) return NULL;
    ls_dataset_hold(set);
    loader->set = set;
    loader->opts = o;
    loader->feed.set = set;
    loader->feed.fields = set->fields;
    loader->feed.field_count = set->field_count;
    if (!ls_feed_init(run, &loader->feed, 0, 1)) return ls_object_free(loader), NULL;
    ls_loader_share_out(loader, (ls_loader_share){.world = 1});
    return loader;
}

void ls_loader_free(ls_loader *loader)
{
    ls_object_free(loader);
}

bool ls_loader_share_out(ls_loader *loader, ls_loader_share share)
{
    if (!loader || ls_failed(loader->object.run)) return false;
    ls_run *run = loader->object.run;
    if (share.world < 1 || share.rank < 0 || share.rank >= share.world)
        return ls_fail(&run->errors, LS_ERR_VALUE, "loader: rank %d of %d", share.rank, share.world), false;
    if (share.dispatch && share.world > 1)
        return ls_fail(&run->errors, LS_ERR_UNSUPPORTED,
                       "loader: dispatch_batches needs a communicator to send batches from rank 0 to %d others, and "
                       "this build has "
                       "none; without it each rank reads its own part",
                       share.world - 1),
               false;
    if (share.split_batches && loader->opts.batch % share.world)
        return ls_fail(&run->errors, LS_ERR_VALUE,
                       "loader: split_batches: the batch size (%lld) needs to be a round multiple of the number of "
                       "processes (%d)",
                       (long long)loader->opts.batch, share.world),
               false;
    ls_rewind(loader);
    loader->shard = (ls_shard){
        .samples = loader->set->count,
        .batch = share.split_batches ? loader->opts.batch / share.world : loader->opts.batch,
        .rank = share.rank,
        .world = share.world,
        .even = !share.uneven,
        .drop_last = loader->opts.drop_last,
        .dispatch = share.dispatch,
    };
    return true;
}

int64_t ls_len(const ls_loader *loader)
{
    if (!loader) return 0;
    ls_shard whole = loader->shard;
    whole.start = 0;
    return ls_shard_len(&whole);
}

/* ---- the order of an epoch ---- */

static bool make_order(ls_loader *loader)
{
    if (!loader->opts.shuffle) return true;
    ls_run *run = loader->object.run;
    int64_t n = loader->shard.samples;
    if (!loader->order) loader->order = ls_sys_alloc((size_t)n * sizeof *loader->order);
    if (!loader->order)
        return ls_fail(&run->errors, LS_ERR_MEMORY, "loader: no memory for the order of %lld samples", (long long)n),
               false;
    for (int64_t i = 0; i < n; i++) loader->order[i] = i;
    ls_random_shuffle(ls_random_key(loader->opts.seed, (uint64_t)loader->epoch, LS_RANDOM_ORDER), n, loader->order);
    return true;
}

/* ---- passes ---- */

static bool begin_pass(ls_loader *loader)
{
    if (!make_order(loader)) return false;
    loader->in_pass = true;
    loader->batches = ls_shard_len(&loader->shard);
    loader->pushed = loader->handed = loader->bad = 0;
    loader->feed.sample_key = ls_random_key(loader->opts.seed, (uint64_t)loader->epoch, LS_RANDOM_SAMPLE);
    if (loader->batches == 0 && loader->shard.start == 0)
        LS_LOG_ONCE(LS_LOG_WARN, "loader: %lld samples give no batch of %lld%s", (long long)loader->shard.samples,
                    (long long)loader->shard.batch, loader->opts.drop_last ? ", with .drop_last" : "");
    return true;
}

static void leave_batch(ls_loader *loader)
{
    ls_scope_close(loader->object.run, loader->scope);
    loader->scope = 0;
    if (loader->has_batch) ls_feed_pop(&loader->feed);
    loader->has_batch = false;
}

/* The pass is over, at its end or before: the next one has the next order. */
static void leave_pass(ls_loader *loader)
{
    leave_batch(loader);
    ls_loop_end(loader->object.run, &loader->loop);
    ls_feed_drain(&loader->feed);
    loader->in_pass = false;
    loader->epoch++;
    loader->shard.start = 0;
}

static void end_pass(ls_loader *loader)
{
    if (loader->bad)
        ls_log_line(LS_LOG_WARN,
                    "epoch %lld: %lld bad sample%s of the %s, replaced by the next good one; the first: %s",
                    (long long)loader->epoch, (long long)loader->bad, loader->bad == 1 ? "" : "s", loader->set->kind,
                    loader->blemish.text);
    /* A pass without a batch never ran: it is inside whatever runs. */
    const ls_loop *outer = loader->loop.running ? loader->loop.outer : loader->object.run->loop;
    if (!outer) loader->passes++;
    loader->finished = true;
    leave_pass(loader);
}

/* ---- batches ---- */

/* Put batches into the ring as long as there is room. */
static bool push_batches(ls_loader *loader)
{
    ls_feed *feed = &loader->feed;
    for (ls_slot *slot; loader->pushed < loader->batches && (slot = ls_feed_free_slot(feed)); loader->pushed++) {
        ls_span span = ls_shard_batch(&loader->shard, loader->pushed);
        if (!ls_slot_prepare(loader->object.run, slot, feed->fields, feed->field_count, span.size)) return false;
        for (int64_t j = 0; j < span.size; j++) {
            int64_t position = (span.first + j) % loader->shard.samples;
            slot->place[j] = loader->order ? loader->order[position] : position;
        }
        ls_feed_push(feed);
    }
    return true;
}

static bool slot_failed(ls_loader *loader, const ls_slot *slot)
{
    if (slot->failed_at < 0) return false;
    ls_fail(&loader->object.run->errors, slot->status, "%s: sample %lld: %s", loader->set->kind,
            (long long)slot->index[slot->failed_at], slot->failure.text);
    return true;
}

static ls_tensor *tensor_called(const ls_loader *loader, const char *name, int otherwise)
{
    for (int i = 0; i < loader->feed.field_count; i++)
        if (strcmp(loader->feed.fields[i].name, name) == 0) return loader->tensors[i];
    return otherwise < loader->feed.field_count ? loader->tensors[otherwise] : NULL;
}

static bool hand_out(ls_loader *loader, ls_batch *batch)
{
    ls_run *run = loader->object.run;
    ls_slot *slot = ls_feed_wait(&loader->feed);
    loader->has_batch = true;
    if (slot->bad && !loader->bad) loader->blemish = slot->blemish;
    loader->bad += slot->bad;
    if (slot_failed(loader, slot)) return false;
    loader->scope = ls_scope_open(run, "batch");
    if (!loader->scope) return false;
    if (!ls_slot_deliver(run, slot, loader->feed.fields, loader->feed.field_count, loader->tensors)) return false;
    *batch = (ls_batch){
        .image = tensor_called(loader, "image", 0),
        .label = tensor_called(loader, "label", 1),
        .count = loader->feed.field_count,
        .tensor = loader->tensors,
        .size = slot->size,
        .index = slot->index,
        .last = ++loader->handed == loader->batches,
        .loader = loader,
    };
    loader->loop.last = batch->last;
    loader->loop.left = loader->batches - loader->handed;
    loader->loop.rows = batch->size;
    loader->loop.real_rows = ls_loader_real_count(loader);
    ls_loop_batch(run, &loader->loop);
    return true;
}

bool ls_next(ls_loader *loader, ls_batch *batch)
{
    *batch = (ls_batch){.loader = loader};
    if (!loader || ls_failed(loader->object.run)) return false;
    leave_batch(loader);
    if (loader->ends > 0) {
        loader->ends--;
        loader->passes++;
        return false;
    }
    if (!loader->in_pass && !begin_pass(loader)) return false;
    if (loader->handed == loader->batches) return end_pass(loader), false;
    return push_batches(loader) && hand_out(loader, batch);
}

void ls_rewind(ls_loader *loader)
{
    if (!loader) return;
    loader->ends = 0;
    if (loader->in_pass) leave_pass(loader);
}

ls_tensor *ls_batch_field(const ls_batch *batch, const char *name)
{
    const ls_loader *loader = batch->loader;
    if (!loader)
        return LS_POISON(ls_run_of(NULL), LS_ERR_STATE, "ls_batch_field: \"%s\" of a batch that ls_next() did not fill",
                         name);
    for (int i = 0; i < batch->count; i++)
        if (strcmp(loader->feed.fields[i].name, name) == 0) return batch->tensor[i];
    return LS_POISON(loader->object.run, LS_ERR_VALUE,
                     "ls_batch_field: the %s has no field \"%s\"; its first is \"%s\"", loader->set->kind, name,
                     loader->feed.fields[0].name);
}

ls_shape ls_batch_shape(const ls_batch *batch, const char *name, int64_t sample)
{
    const ls_loader *loader = batch->loader;
    if (loader && loader->has_batch && sample >= 0 && sample < batch->size) {
        const ls_slot *slot = &loader->feed.slots[loader->feed.begin % loader->feed.slot_count];
        for (int i = 0; i < batch->count; i++) {
            if (strcmp(loader->feed.fields[i].name, name) != 0) continue;
            return slot->cells[i] ? slot->cells[i][sample].shape : ls_field_shape(&loader->feed.fields[i]);
        }
    }
    return ls_shape_make(0, NULL);
}

bool ls_loader_at_end(const ls_loader *loader)
{
    return loader && loader->in_pass && loader->handed == loader->batches;
}

int64_t ls_loader_real_count(const ls_loader *loader)
{
    return loader && loader->has_batch ? ls_shard_real(&loader->shard, loader->handed - 1) : 0;
}

int64_t ls_loader_bad_count(const ls_loader *loader)
{
    return loader ? loader->bad : 0;
}

/* ---- stopping and resuming ---- */

static int64_t consumed(const ls_loader *loader)
{
    return loader->in_pass && loader->handed ? ls_shard_after(&loader->shard, loader->handed - 1) : loader->shard.start;
}

ls_loader_state ls_loader_state_get(const ls_loader *loader)
{
    return (ls_loader_state){
        .seed = loader->opts.seed,
        .samples = loader->set->count,
        .epoch = loader->epoch,
        .start = consumed(loader),
        .in_pass = loader->in_pass,
        .passes = loader->passes + loader->ends,
        .finished = loader->finished,
    };
}

bool ls_loader_state_set(ls_loader *loader, const ls_loader_state *state)
{
    if (!loader || ls_failed(loader->object.run)) return false;
    if (state->samples != loader->set->count)
        return ls_fail(&loader->object.run->errors, LS_ERR_STATE,
                       "loader: the checkpoint was made with %lld samples, the %s has %lld: the order of the epoch "
                       "would not be "
                       "the same",
                       (long long)state->samples, loader->set->kind, (long long)loader->set->count),
               false;
    ls_rewind(loader);
    loader->opts.seed = state->seed;
    loader->epoch = state->epoch;
    loader->shard.start = state->start;
    loader->passes = 0;
    loader->ends = state->passes;
    loader->finished = state->finished;
    return !state->in_pass || begin_pass(loader);
}

void ls_skip_first_batches(ls_loader *loader, int64_t n)
{
    if (!loader || n <= 0) return;
    ls_rewind(loader);
    loader->shard.start = 0;
    loader->shard.start = ls_shard_after(&loader->shard, n - 1);
}

void ls_loader_set_epoch(ls_loader *loader, int64_t epoch)
{
    if (!loader) return;
    ls_rewind(loader);
    loader->epoch = epoch;
}

int64_t ls_loader_epoch(const ls_loader *loader)
{
    return loader ? loader->epoch : 0;
}

void ls_loader_epoch_begin(ls_loader *loader)
{
    if (!loader) return;
    ls_rewind(loader);
    loader->passes = 0;
    loader->finished = false;
}

bool ls_loader_epoch_done(const ls_loader *loader)
{
    return loader && !loader->in_pass && loader->finished;
}
