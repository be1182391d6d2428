/* create.c - create loaders from options, and free them. */
#include "data/loader/loader.h"

#include "base/cpus.h"
#include "base/memory.h"
#include "base/opts.h"
#include "data/image/image.h"

enum { MOST_WORKERS = 8, MOST_THREADS = 1024 };

static void clear(void *object)
{
    ls_loader *loader = object;
    ls_loop_end(loader->object.run, &loader->loop);
    ls_prefetcher_clear(loader->object.run, &loader->prefetcher);
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
    if (!in_range(run, ".batch", ls_opts_integer(o->batch, 1), 1, LS_MOST_SAMPLES) ||
        !in_range(run, ".prefetch", o->prefetch, 1, MOST_THREADS) ||
        !in_range(run, ".pad_multiple", o->pad_multiple, 1, LS_MOST_SAMPLES) ||
        !in_range(run, ".workers", ls_opts_integer(o->workers, 0), 0, MOST_THREADS))
        return false;
    if (set->count == 0 && set->base_count) {
        ls_fail(&run->errors, LS_ERR_VALUE, "ls_loader_new: the %s has no samples; its source has %lld", set->kind,
                (long long)set->bases[0]->count);
        return false;
    }
    if (set->count == 0) {
        ls_fail(&run->errors, LS_ERR_VALUE, "ls_loader_new: the %s has no samples", set->kind);
        return false;
    }
    if (stream && (o->shuffle || o->sampler))
        return refuse(run, "a stream has its own order: leave out .shuffle and .sampler");
    if (o->sampler && o->shuffle) return refuse(run, "give either .shuffle or .sampler, not both");
    if (o->sampler && o->sampler->lists && o->batch != LS_AUTO)
        return refuse(run, "a batch list has its own sizes: leave out .batch");
    if (o->sampler && o->sampler->batch && o->batch != LS_AUTO && o->batch != o->sampler->batch)
        return refuse(run, "the length sampler was created for another batch size; give both the same .batch");
    return true;
}

/* Plain pixels have a size; a transform may change it. */
static bool resolve_pixels(ls_loader *loader, ls_field *field)
{
    ls_run *run = loader->object.run;
    const ls_transform *transform = &loader->opts.transform;
    if (!transform->count && !transform->normalized) return true;
    if (field->shape[0] == 1 || field->shape[0] == 3) {
        ls_transform_size_after(transform, &field->shape[1], &field->shape[2]);
        return true;
    }
    ls_fail(&run->errors, LS_ERR_VALUE, "ls_loader_new: .transform is for images of 1 or 3 channels; \"%s\" has %lld",
            field->name, (long long)field->shape[0]);
    return false;
}

/* Size and type of images, from the transform. */
static bool resolve_picture(ls_loader *loader, ls_field *field)
{
    ls_run *run = loader->object.run;
    ls_transform *transform = &loader->opts.transform;
    ls_dtype dtype = loader->opts.dtype;
    bool raw = field->shape[0] != 0;
    if (dtype && dtype != LS_F32 && dtype != LS_U8) {
        ls_fail(&run->errors, LS_ERR_DTYPE, "ls_loader_new: .dtype = %s; images must be f32 or u8",
                ls_dtype_name(dtype));
        return false;
    }
    ls_message why = {{0}};
    if (dtype) transform->dtype = (int32_t)dtype;
    ls_status status = ls_transform_check(transform, &why);
    if (status) return ls_fail(&run->errors, status, "ls_loader_new: .transform: %s", why.text), false;
    field->dtype = ls_transform_dtype(transform);
    if (raw) return resolve_pixels(loader, field);
    int64_t height, width;
    if (!ls_transform_size(transform, &height, &width))
        return refuse(run,
                      "images of different sizes cannot form a batch; use a transform that gives one size, such as "
                      ".transform = ls_resize(224)");
    field->shape[0] = 3, field->shape[1] = height, field->shape[2] = width;
    return true;
}

/* Decoded bytes are a quarter of the size of f32: copy images as bytes if the device can convert them. */
static bool copied_as_bytes(const ls_loader *loader, int i)
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
        return refuse(loader->object.run, ".transform and .dtype are for images, but this dataset has none");
    loader->prefetcher.set = set;
    loader->prefetcher.reading = (ls_reading){
        .fields = loader->fields,
        .declared = set->fields,
        .field_count = set->field_count,
        .transform = &loader->opts.transform,
        .pad_multiple = loader->opts.pad_multiple,
    };
    ls_reading *reading = &loader->prefetcher.reading;
    for (int i = 0; i < set->field_count; i++) {
        reading->as_bytes[i] = copied_as_bytes(loader, i);
        reading->bytes[i] = ls_field_bytes(&loader->fields[i]);
        if (reading->as_bytes[i]) reading->bytes[i] /= ls_dtype_size(LS_F32);
    }
    return true;
}

/* The order of an epoch is allocated once: a permutation or, if larger, the draws. */
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
    if (o.batch == LS_AUTO) o.batch = o.sampler && o.sampler->batch ? o.sampler->batch : 1;
    if (o.seed == LS_AUTO_SEED) o.seed = run->random.seed;
    loader->set = set;
    loader->opts = o;
    int workers = workers_for(set, o.workers);
    int ahead = workers ? o.prefetch : ls_dataset_is_stream(set);
    bool ok = resolve_fields(loader) && make_room(loader) &&
              ls_prefetcher_init(run, &loader->prefetcher, workers, ahead + 1) &&
              ls_loader_share_out(loader, (ls_share){.world = 1});
    loader->settled = false;
    if (ok) return loader;
    ls_object_free(loader);
    return NULL;
}

void ls_loader_free(ls_loader *loader)
{
    if (!loader) return;
    ls_loader_rewind(loader);
    ls_object_free(loader);
}
