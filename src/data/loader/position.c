/* position.c - shard a loader among ranks; save and restore its position. */
#include "data/loader/loader.h"

/* ---- sharding ---- */

static bool share_fits(const ls_loader *loader, const ls_share *share)
{
    ls_run *run = loader->object.run;
    const ls_sampler *sampler = loader->opts.sampler;
    if (share->world < 1 || share->rank < 0 || share->rank >= share->world)
        ls_fail(&run->errors, LS_ERR_VALUE, "loader: rank %d of %d", share->rank, share->world);
    else if (share->dispatch && share->world > 1 && (run->comm->size == 1 || !ls_device_is_host(run->device)))
        ls_fail(&run->errors, LS_ERR_UNSUPPORTED,
                "loader: dispatch_batches: rank 0 can read for the other %d only if they train together on the CPU",
                share->world - 1);
    else if (share->dispatch && share->world > 1 && (ls_dataset_is_stream(loader->set) || (sampler && sampler->lists)))
        ls_fail(&run->errors, LS_ERR_UNSUPPORTED,
                "loader: dispatch_batches is not supported for %s; without it each rank reads its own part",
                ls_dataset_is_stream(loader->set) ? "streams" : "batch lists");
    else if (share->split_batches && sampler && sampler->lists)
        ls_fail(&run->errors, LS_ERR_VALUE, "loader: split_batches: the batches of a list have no common size");
    else if (share->split_batches && loader->opts.batch % share->world)
        ls_fail(
            &run->errors, LS_ERR_VALUE,
            "loader: split_batches: the batch size (%lld) needs to be a round multiple of the number of processes (%d)",
            (long long)loader->opts.batch, share->world);
    return !ls_failed(run);
}

static ls_shard shard_of(const ls_loader *loader, ls_share share)
{
    const ls_sampler *sampler = loader->opts.sampler;
    return (ls_shard){
        .samples = loader->shard.samples,
        .batch = share.split_batches ? loader->opts.batch / share.world : loader->opts.batch,
        .lists = sampler ? sampler->lists : NULL,
        .list_count = sampler ? sampler->list_count : 0,
        .rank = share.rank,
        .world = share.world,
        .even = !share.uneven,
        .drop_last = loader->opts.drop_last,
        .dispatch = share.dispatch,
    };
}

bool ls_loader_share_out(ls_loader *loader, ls_share share)
{
    if (!loader || ls_failed(loader->object.run) || !share_fits(loader, &share)) return false;
    ls_loader_rewind(loader);
    loader->shard = shard_of(loader, share);
    loader->settled = true;
    return true;
}

int64_t ls_loader_len(const ls_loader *loader)
{
    if (!loader || ls_object_has_ended(loader, "ls_len")) return 0;
    if (ls_dataset_is_stream(loader->set)) return -1;
    /* The length is needed before ls_prepare(), as it will be afterwards. */
    ls_shard whole = loader->settled ? loader->shard : shard_of(loader, loader->object.run->step->share);
    whole.start = 0;
    return ls_shard_len(&whole);
}

int64_t ls_steps_per_epoch(const ls_loader *loader)
{
    int64_t batches = ls_loader_len(loader);
    if (batches <= 0) return batches;
    const ls_run *run = loader->object.run;
    if (run->step->schedule_policy == LS_SCHEDULE_PER_CALL) return batches;
    int64_t steps = (batches - 1) / run->step->accumulation.steps + 1;
    return run->step->schedule_policy == LS_SCHEDULE_PER_PROCESS ? steps * run->step->share.world : steps;
}

/* ---- saving and restoring ---- */

static int64_t consumed(const ls_loader *loader)
{
    if (!loader->in_pass || !loader->handed) return loader->shard.start;
    if (ls_dataset_is_stream(loader->set)) return loader->stream_read;
    return ls_shard_after(&loader->shard, loader->handed - 1);
}

ls_loader_state ls_loader_state_get(const ls_loader *loader)
{
    return (ls_loader_state){
        .seed = loader->opts.seed,
        .samples = loader->shard.samples,
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
    ls_run *run = loader->object.run;
    if (state->samples != loader->shard.samples || state->start < 0 || state->epoch < 0 || state->passes < 0) {
        ls_fail(
            &run->errors, LS_ERR_STATE,
            "loader: the checkpoint is at sample %lld of %lld in epoch %lld, but the %s has %lld samples: the order "
            "of the epoch would differ",
            (long long)state->start, (long long)state->samples, (long long)state->epoch, loader->set->kind,
            (long long)loader->shard.samples);
        return false;
    }
    ls_loader_rewind(loader);
    loader->opts.seed = state->seed;
    loader->epoch = state->epoch;
    loader->shard.start = state->start;
    loader->passes = 0;
    loader->ends = state->passes;
    loader->finished = state->finished;
    return !state->in_pass || ls_loader_begin_pass(loader);
}

void ls_skip_first_batches(ls_loader *loader, int64_t n)
{
    if (!loader || n < 0) return;
    bool restored = loader->ends > 0 || (loader->in_pass && loader->handed == 0);
    if (restored) return; /* the program repeats a skip that the checkpoint's position already includes */
    if (n > LS_MOST_SAMPLES) n = LS_MOST_SAMPLES; /* more than any pass has; avoids overflow */
    ls_loader_rewind(loader);
    ls_shard *shard = &loader->shard;
    shard->start = 0;
    if (ls_dataset_is_stream(loader->set)) shard->start = n * shard->batch * shard->world;
    else if (n) shard->start = ls_shard_after(shard, n - 1);
}

void ls_loader_set_epoch(ls_loader *loader, int64_t epoch)
{
    if (!loader) return;
    ls_loader_rewind(loader);
    loader->epoch = epoch;
}

int64_t ls_loader_epoch(const ls_loader *loader)
{
    return loader ? loader->epoch : 0;
}

void ls_loader_epoch_begin(ls_loader *loader)
{
    if (!loader) return;
    ls_loader_rewind(loader);
    loader->passes = 0;
    loader->finished = false;
}

bool ls_loader_epoch_done(const ls_loader *loader)
{
    return loader && !loader->in_pass && loader->finished;
}
