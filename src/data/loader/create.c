/* create.c - create loaders from options, and free them. */
#include "data/loader/loader.h"

#include "base/cpus.h"
#include "base/memory.h"
#include "base/opts.h"
#include "data/loader/fields.h"

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
        !in_range(run, ".pad_multiple", ls_opts_integer(o->pad_multiple, 1), 1, LS_MOST_SAMPLES) ||
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

/* A device that records steps needs a program for every length of a batch: few lengths are worth some padding. Only
 * those of texts are known before the samples are read. */
static ls_rounding rounding_for(const ls_run *run, const ls_dataset *set, int64_t multiple)
{
    enum { FEW_LENGTHS = 64 };
    if (multiple != LS_AUTO) return (ls_rounding){.multiple = multiple};
    ls_rounding rounding = {.multiple = 1};
    if (!ls_device_records(run->device) || !set->length_of) return rounding;
    for (int64_t i = 0; i < set->count; i++) {
        int64_t length = ls_dataset_sample_length(set, i);
        if (length > rounding.most) rounding.most = length;
    }
    if (rounding.most) rounding.multiple = FEW_LENGTHS;
    return rounding;
}

static bool resolve_fields(ls_loader *loader)
{
    ls_fields_wanted wanted = {.fields = loader->fields,
                               .transform = &loader->opts.transform,
                               .dtype = loader->opts.dtype,
                               .rounding = rounding_for(loader->object.run, loader->set, loader->opts.pad_multiple)};
    loader->prefetcher.set = loader->set;
    return ls_fields_resolve(loader->object.run, "ls_loader_new", loader->set, &wanted, &loader->prefetcher.reading);
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
