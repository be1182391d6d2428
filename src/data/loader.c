/* loader.c - loaders: made from options, shared out among ranks, stopped and resumed. */
#include "data/loader.h"

#include <string.h>

#include "base/cpus.h"
#include "base/memory.h"
#include "base/opts.h"
#include "data/image/image.h"

enum { MOST_WORKERS = 8, MOST_THREADS = 1024, MOST_SAMPLES = INT32_MAX };

/* ---- made and freed ---- */

static void clear(void *object)
{
    ls_loader *loader = object;
    ls_loop_end(loader->object.run, &loader->loop);
    ls_feed_clear(loader->object.run, &loader->feed);
    ls_sys_free(loader->order);
    ls_sys_free(loader->index);
    if (loader->set) ls_dataset_let_go(loader->set);
}

static bool refuse(ls_run *run, const char *what)
{
    ls_fail(&run->errors, LS_ERR_VALUE, "ls_loader_new: %s", what);
    return false;
}

static bool in_range(ls_run *run, const char *option, int64_t value, int64_t least, int64_t most)
{
    if (value >= least && value <= most) return true;
    ls_fail(&run->errors, LS_ERR_VALUE, "ls_loader_new: %s = %lld; it must be from %lld to %lld", option,
            (long long)value, (long long)least, (long long)most);
    return false;
}

static bool options_fit(ls_run *run, const ls_dataset *set, const ls_loader_opts *o)
{
    bool stream = ls_dataset_is_stream(set);
    if (!in_range(run, ".batch", ls_opts_integer(o->batch, 1), 1, MOST_SAMPLES) ||
        !in_range(run, ".prefetch", o->prefetch, 1, MOST_THREADS) ||
        !in_range(run, ".pad_multiple", o->pad_multiple, 1, MOST_SAMPLES) ||
        !in_range(run, ".workers", ls_opts_integer(o->workers, 0), 0, MOST_THREADS))
        return false;
    if (set->count == 0 && set->base_count) {
        ls_fail(&run->errors, LS_ERR_VALUE, "ls_loader_new: the %s has no samples; what it was taken from has %lld",
                set->kind, (long long)set->bases[0]->count);
        return false;
    }
    if (set->count == 0) {
        ls_fail(&run->errors, LS_ERR_VALUE, "ls_loader_new: the %s has no samples", set->kind);
        return false;
    }
    if (stream && (o->shuffle || o->sampler))
        return refuse(run, "a stream comes in its own order: neither .shuffle nor .sampler");
    if (o->sampler && o->shuffle) return refuse(run, "either .shuffle or .sampler decides the order, not both");
    if (o->sampler && o->sampler->lists && o->batch != LS_AUTO)
        return refuse(run, "a batch list has its own sizes: no .batch");
    return true;
}

/* What pictures become: size and type from the transform. */
static bool resolve_picture(ls_loader *loader, ls_field *field)
{
    ls_run *run = loader->object.run;
    ls_transform *transform = &loader->opts.transform;
    ls_dtype dtype = loader->opts.dtype;
    bool raw = field->shape[0] != 0;
    if (dtype && dtype != LS_F32 && dtype != LS_U8) {
        ls_fail(&run->errors, LS_ERR_DTYPE, "ls_loader_new: .dtype = %s; pictures are f32 or u8", ls_dtype_name(dtype));
        return false;
    }
    field->dtype = dtype ? dtype : LS_F32;
    if (raw && transform->count)
        return refuse(run, ".transform works on JPEG and PNG files, and this dataset has plain pixels");
    if (raw) return true;
    ls_message why = {{0}};
    if (dtype) transform->dtype = (int32_t)dtype;
    ls_status status = ls_transform_check(transform, &why);
    if (status) return ls_fail(&run->errors, status, "ls_loader_new: .transform: %s", why.text), false;
    int64_t height, width;
    if (!ls_transform_size(transform, &height, &width))
        return refuse(run,
                      "pictures of different sizes make no batch; give a transform that ends with one size, such as "
                      ".transform = ls_resize(224)");
    field->dtype = ls_transform_dtype(transform);
    field->shape[0] = 3, field->shape[1] = height, field->shape[2] = width;
    return true;
}

/* As bytes, decoded pictures are a quarter as large as the f32 they become: a device that can widen them does. */
static bool travels_as_bytes(const ls_loader *loader, int i)
{
    const ls_device *device = loader->object.run->device;
    const ls_field *declared = &loader->set->fields[i];
    return declared->image && !declared->shape[0] && loader->fields[i].dtype == LS_F32 && !ls_device_is_host(device) &&
           ls_device_supports(device, LS_OP_normalize);
}

static bool resolve_fields(ls_loader *loader)
{
    const ls_dataset *set = loader->set;
    bool pictures = false;
    for (int i = 0; i < set->field_count; i++) {
        loader->fields[i] = set->fields[i];
        if (!set->fields[i].image) continue;
        pictures = true;
        if (!resolve_picture(loader, &loader->fields[i])) return false;
    }
    if (!pictures && (loader->opts.transform.count || loader->opts.dtype))
        return refuse(loader->object.run, ".transform and .dtype are for pictures, and this dataset has none");
    loader->feed.set = set;
    loader->feed.reading = (ls_reading){
        .fields = loader->fields,
        .field_count = set->field_count,
        .transform = &loader->opts.transform,
        .pad_multiple = loader->opts.pad_multiple,
    };
    ls_reading *reading = &loader->feed.reading;
    for (int i = 0; i < set->field_count; i++) {
        reading->as_bytes[i] = travels_as_bytes(loader, i);
        reading->bytes[i] = ls_field_bytes(&loader->fields[i]);
        if (reading->as_bytes[i]) reading->bytes[i] /= ls_dtype_size(LS_F32);
    }
    return true;
}

/* The order of an epoch gets memory once; it holds a permutation or, where more is drawn, the draws. */
static bool make_room(ls_loader *loader)
{
    const ls_sampler *sampler = loader->opts.sampler;
    int64_t count = loader->set->count, length = sampler ? sampler->length(sampler, count) : count;
    if (length < 0 && sampler) return false;
    loader->shard.samples = length;
    if (!sampler && !loader->opts.shuffle) return true;
    loader->order = ls_sys_alloc((size_t)(length > count ? length : count) * sizeof *loader->order);
    if (!loader->order)
        ls_fail(&loader->object.run->errors, LS_ERR_MEMORY, "loader: no memory for the order of %lld samples",
                (long long)length);
    return loader->order != NULL;
}

static int workers_for(const ls_dataset *set, int wanted)
{
    if (wanted != LS_AUTO) return wanted;
    if (set->in_memory) return 0;
    int cpus = ls_cpus_allowed(NULL, 0), quota = ls_cpus_quota("");
    if (quota && quota < cpus) cpus = quota;
    return cpus < MOST_WORKERS ? cpus : MOST_WORKERS;
}

ls_loader *ls_loader_new_sized(ls_run *run, ls_dataset *set, const ls_loader_opts *opts, size_t opts_size)
{
    ls_loader_opts o = LS_OPTS_READ(ls_loader_opts, opts, opts_size);
    if (ls_failed(run)) return NULL;
    if (!set) return refuse(run, "the dataset is NULL"), NULL;
    if (set->object.kind == LS_OBJECT_ENDED) return refuse(run, "the run of the dataset has ended"), NULL;
    if (!options_fit(run, set, &o)) return NULL;
    ls_loader *loader = ls_object_new(run, LS_OBJECT_LOADER, sizeof *loader, clear);
    if (!loader) return NULL;
    ls_dataset_hold(set);
    if (o.batch == LS_AUTO) o.batch = 1;
    if (o.seed == LS_AUTO_SEED) o.seed = run->random.seed;
    loader->set = set;
    loader->opts = o;
    int workers = workers_for(set, o.workers);
    int ahead = workers ? o.prefetch : ls_dataset_is_stream(set);
    bool ok = resolve_fields(loader) && make_room(loader) && ls_feed_init(run, &loader->feed, workers, ahead + 1) &&
              ls_loader_share_out(loader, (ls_share){.world = 1});
    loader->settled = false;
    if (ok) return loader;
    ls_object_free(loader);
    return NULL;
}

void ls_loader_free(ls_loader *loader)
{
    if (!loader) return;
    ls_rewind(loader);
    ls_object_free(loader);
}

/* ---- shared out ---- */

static bool share_fits(const ls_loader *loader, const ls_share *share)
{
    ls_run *run = loader->object.run;
    const ls_sampler *sampler = loader->opts.sampler;
    if (share->world < 1 || share->rank < 0 || share->rank >= share->world)
        ls_fail(&run->errors, LS_ERR_VALUE, "loader: rank %d of %d", share->rank, share->world);
    else if (share->dispatch && share->world > 1 && (run->comm->size == 1 || !ls_device_is_host(run->device)))
        ls_fail(&run->errors, LS_ERR_UNSUPPORTED,
                "loader: dispatch_batches: rank 0 can read for the other %d only where they work together on the CPU",
                share->world - 1);
    else if (share->dispatch && share->world > 1 && (ls_dataset_is_stream(loader->set) || (sampler && sampler->lists)))
        ls_fail(&run->errors, LS_ERR_UNSUPPORTED,
                "loader: dispatch_batches is not there for %s; without it each rank reads and keeps its own part",
                ls_dataset_is_stream(loader->set) ? "streams" : "batch lists");
    else if (share->split_batches && sampler && sampler->lists)
        ls_fail(&run->errors, LS_ERR_VALUE, "loader: split_batches: batches of a list have no common size to be split");
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
    ls_rewind(loader);
    loader->shard = shard_of(loader, share);
    loader->settled = true;
    return true;
}

int64_t ls_len(const ls_loader *loader)
{
    if (!loader) return 0;
    if (ls_dataset_is_stream(loader->set)) return -1;
    /* Before ls_prepare() people want to know how long the loop will be after it. */
    ls_shard whole = loader->settled ? loader->shard : shard_of(loader, loader->object.run->share);
    whole.start = 0;
    return ls_shard_len(&whole);
}

int64_t ls_steps_per_epoch(const ls_loader *loader)
{
    int64_t batches = ls_len(loader);
    if (batches <= 0) return batches;
    const ls_run *run = loader->object.run;
    if (run->schedule_policy == LS_SCHEDULE_PER_CALL) return batches;
    int64_t steps = (batches - 1) / run->accumulation.steps + 1;
    return run->schedule_policy == LS_SCHEDULE_PER_PROCESS ? steps * run->share.world : steps;
}

/* ---- stopped and resumed ---- */

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
        ls_fail(&run->errors, LS_ERR_STATE,
                "loader: the checkpoint has sample %lld of %lld in epoch %lld, the %s has %lld samples: the order of "
                "the epoch would "
                "not be the same",
                (long long)state->start, (long long)state->samples, (long long)state->epoch, loader->set->kind,
                (long long)loader->shard.samples);
        return false;
    }
    ls_rewind(loader);
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
    if (restored) return; /* the program does again what it did before the checkpoint, which holds where that led */
    if (n > MOST_SAMPLES) n = MOST_SAMPLES; /* more than any pass has, and products stay numbers */
    ls_rewind(loader);
    ls_shard *shard = &loader->shard;
    shard->start = 0;
    if (ls_dataset_is_stream(loader->set)) shard->start = n * shard->batch * shard->world;
    else if (n) shard->start = ls_shard_after(shard, n - 1);
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
