/* length_sampler.c - an order that puts samples of similar lengths into one batch, to reduce padding.
 *
 * All samples are shuffled and cut into pools of some batches. A pool is sorted by length and cut into batches, and
 * then all batches are shuffled. */
#include <stdlib.h>

#include "base/memory.h"
#include "base/opts.h"
#include "data/datasets/dataset.h"
#include "data/loader/sampler.h"
#include "data/random.h"

static int64_t length(const ls_sampler *s, int64_t count)
{
    if (s->length_count == count) return count;
    ls_fail(&s->object.run->errors, LS_ERR_VALUE, "%s: created for %lld samples, but the dataset has %lld", s->kind,
            (long long)s->length_count, (long long)count);
    return -1;
}

static int by_number(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static void swap_batches(int64_t *a, int64_t *b, int64_t size)
{
    for (int64_t i = 0; i < size; i++) {
        int64_t swap = a[i];
        a[i] = b[i];
        b[i] = swap;
    }
}

/* Shuffles and sorts indices into the list sorted by length: comparing them compares lengths. */
static bool order(const ls_sampler *s, int64_t count, uint64_t key, int64_t epoch, int64_t *samples)
{
    (void)epoch;
    ls_order_shuffled(key, count, samples);
    for (int64_t at = 0; at < count; at += s->pool) {
        int64_t size = count - at < s->pool ? count - at : s->pool;
        qsort(samples + at, (size_t)size, sizeof *samples, by_number);
    }
    for (int64_t i = 0; i < count; i++) samples[i] = s->by_length[samples[i]];
    /* The last batch, which may be smaller, stays last. */
    uint64_t batch_key = ls_mix64(key);
    for (int64_t i = count / s->batch - 1; i > 0; i--) {
        int64_t j = (int64_t)ls_random_below(ls_random_bits(batch_key, (uint64_t)i), (uint64_t)i + 1);
        if (j != i) swap_batches(samples + i * s->batch, samples + j * s->batch, s->batch);
    }
    return true;
}

typedef struct measured {
    int64_t length, sample;
} measured;

static int longest_first(const void *left, const void *right)
{
    const measured *a = left, *b = right;
    if (a->length != b->length) return a->length < b->length ? 1 : -1;
    return (a->sample > b->sample) - (a->sample < b->sample);
}

static bool sort_by_length(ls_sampler *s, const ls_dataset *set)
{
    ls_run *run = s->object.run;
    int64_t count = set->count;
    measured *all = ls_sys_alloc((size_t)count * sizeof *all);
    s->by_length = ls_sys_alloc((size_t)count * sizeof *s->by_length);
    s->length_count = count;
    if (!all || !s->by_length) ls_fail(&run->errors, LS_ERR_MEMORY, "length sampler: out of memory");
    for (int64_t i = 0; !ls_failed(run) && i < count; i++) {
        all[i] = (measured){ls_dataset_sample_length(set, i), i};
        if (all[i].length < 0)
            ls_fail(&run->errors, LS_ERR_VALUE, "length sampler: the lengths of samples of a %s are unknown",
                    set->kind);
    }
    if (!ls_failed(run)) qsort(all, (size_t)count, sizeof *all, longest_first);
    for (int64_t i = 0; !ls_failed(run) && i < count; i++) s->by_length[i] = all[i].sample;
    ls_sys_free(all);
    return !ls_failed(run);
}

ls_sampler *ls_length_sampler_new_sized(ls_run *run, ls_dataset *set, const ls_length_sampler_opts *opts,
                                        size_t opts_size)
{
    ls_length_sampler_opts o = LS_OPTS_READ(ls_length_sampler_opts, opts, opts_size);
    if (ls_failed(run) || !set) return NULL;
    if (o.batch < 1 || o.pool < 1 || o.pool > INT64_MAX / o.batch || set->count < 1) {
        if (set->count < 1) ls_fail(&run->errors, LS_ERR_VALUE, "length sampler: the dataset is empty or a stream");
        else if (o.batch == LS_AUTO)
            ls_fail(&run->errors, LS_ERR_VALUE, "length sampler: .batch is missing, the number of samples per batch");
        else
            ls_fail(&run->errors, LS_ERR_VALUE, "length sampler: .batch = %lld, .pool = %lld; both must be at least 1",
                    (long long)o.batch, (long long)o.pool);
        return NULL;
    }
    ls_sampler *s = ls_sampler_begin(run, "length sampler", LS_AUTO);
    if (!s) return NULL;
    s->batch = o.batch;
    s->pool = o.batch * o.pool;
    s->length = length;
    s->order = order;
    if (sort_by_length(s, set)) return s;
    ls_object_free(s);
    return NULL;
}
