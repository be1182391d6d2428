/* one.c - one sample of a dataset, without a loop over batches. */
#include "base/opts.h"
#include "data/loader/loader.h"
#include "data/random.h"

int ls_dataset_sample_sized(ls_dataset *set, int64_t index, ls_tensor **fields, const ls_dataset_sample_opts *given,
                            size_t opts_size)
{
    ls_dataset_sample_opts opts = LS_OPTS_READ(ls_dataset_sample_opts, given, opts_size);
    if (!set || ls_failed(set->object.run)) return 0;
    ls_run *run = set->object.run;
    if (ls_dataset_is_stream(set) || index < 0 || index >= set->count || !fields)
        return ls_fail(&run->errors, LS_ERR_VALUE, "ls_dataset_sample: sample %lld of a %s%s", (long long)index,
                       set->kind, fields ? ls_dataset_is_stream(set) ? ", which is a stream" : "" : ", to NULL"),
               0;
    ls_loader *loader =
        ls_loader_new(run, set, .batch = 1, .workers = 0, .transform = opts.transform, .dtype = opts.dtype);
    if (!loader) return 0;
    ls_reading *reading = &loader->prefetcher.reading;
    reading->sample_key = ls_random_key(loader->opts.seed, 0, LS_RANDOM_SAMPLE);
    reading->transform_key = ls_random_key(loader->opts.seed, 0, LS_RANDOM_TRANSFORM);
    ls_batch_slot slot = {0};
    ls_sample sample = {.place = index};
    bool ok = ls_batch_slot_prepare(run, &slot, reading, 1);
    if (ok) ls_batch_slot_point(&slot, reading, 0, &sample);
    if (ok && !ls_sample_get(&sample, set, index))
        ok = ls_fail(&run->errors, sample.status, "ls_dataset_sample: sample %lld: %s", (long long)index,
                     sample.why.text) == LS_OK;
    int count = ok && ls_batch_slot_deliver(run, &slot, reading, fields) ? set->field_count : 0;
    ls_sample_clear(&sample);
    ls_batch_slot_clear(run, &slot);
    ls_loader_free(loader);
    return count;
}
