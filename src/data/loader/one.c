/* one.c - one sample of a dataset, without a loop over batches. */
#include "base/opts.h"
#include "data/loader/batch_slot.h"
#include "data/loader/fields.h"
#include "data/random.h"

int ls_dataset_sample_sized(ls_dataset *set, int64_t index, ls_tensor **fields, const ls_dataset_sample_opts *given,
                            size_t opts_size)
{
    ls_dataset_sample_opts opts = LS_OPTS_READ(ls_dataset_sample_opts, given, opts_size);
    if (!set || ls_failed(set->object.run)) return 0;
    ls_run *run = set->object.run;
    if (!fields) return ls_fail(&run->errors, LS_ERR_VALUE, "ls_dataset_sample: the list of fields is NULL"), 0;
    if (ls_dataset_is_stream(set))
        return ls_fail(&run->errors, LS_ERR_VALUE, "ls_dataset_sample: a stream has no sample %lld", (long long)index),
               0;
    if (index < 0 || index >= set->count)
        return ls_fail(&run->errors, LS_ERR_VALUE, "ls_dataset_sample: sample %lld of a %s of %lld", (long long)index,
                       set->kind, (long long)set->count),
               0;
    ls_field formed[LS_MAX_FIELDS];
    ls_reading reading;
    ls_fields_wanted wanted = {formed, &opts.transform, opts.dtype, .rounding = {.multiple = 1}};
    if (!ls_fields_resolve(run, "ls_dataset_sample", set, &wanted, &reading)) return 0;
    reading.sample_key = ls_random_key(run->random.seed, 0, LS_RANDOM_SAMPLE);
    reading.transform_key = ls_random_key(run->random.seed, 0, LS_RANDOM_TRANSFORM);
    ls_batch_slot slot = {0};
    ls_sample sample = {.place = index};
    bool ok = ls_batch_slot_prepare(run, &slot, &reading, 1);
    if (ok) ls_batch_slot_point(&slot, &reading, 0, &sample);
    if (ok && !ls_sample_get(&sample, set, index))
        ok = ls_fail(&run->errors, sample.status, "ls_dataset_sample: sample %lld: %s", (long long)index,
                     sample.why.text) == LS_OK;
    int count = ok && ls_batch_slot_deliver(run, &slot, &reading, fields) ? set->field_count : 0;
    ls_sample_clear(&sample);
    ls_batch_slot_clear(run, &slot);
    return count;
}
