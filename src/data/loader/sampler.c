/* sampler.c - orders of an epoch: random, weighted, every n-th sample, given by the user. */
#include "data/loader/sampler.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/opts.h"
#include "data/random.h"
#include "step/step.h"

static void clear(void *object)
{
    ls_sampler *sampler = object;
    ls_sys_free(sampler->weights);
    ls_sys_free(sampler->keyed);
    ls_sys_free(sampler->lists);
    ls_sys_free(sampler->listed);
    ls_sys_free(sampler->by_length);
}

ls_sampler *ls_sampler_begin(ls_run *run, const char *kind, int64_t draws)
{
    if (ls_failed(run)) return NULL;
    if (draws != LS_AUTO && draws < 1)
        return ls_fail(&run->errors, LS_ERR_VALUE, "%s: .draws = %lld; it must be at least 1", kind, (long long)draws),
               NULL;
    ls_sampler *sampler = ls_object_new(run, LS_OBJECT_SAMPLER, sizeof *sampler, clear);
    if (!sampler) return NULL;
    sampler->kind = kind;
    sampler->draws = draws;
    return sampler;
}

void ls_sampler_free(ls_sampler *sampler)
{
    ls_object_free(sampler);
}

static int64_t refuse(const ls_sampler *s, int64_t wanted, const char *of, int64_t there)
{
    ls_fail(&s->object.run->errors, LS_ERR_VALUE, "%s: %lld %s, but the dataset has %lld samples", s->kind,
            (long long)wanted, of, (long long)there);
    return -1;
}

/* ---- random ---- */

void ls_order_shuffled(uint64_t key, int64_t count, int64_t *samples)
{
    for (int64_t i = 0; i < count; i++) samples[i] = i;
    ls_random_shuffle(key, count, samples);
}

static int64_t random_length(const ls_sampler *s, int64_t count)
{
    if (s->draws > count && !s->replacement) return refuse(s, s->draws, "draws without .replacement", count);
    return ls_opts_integer(s->draws, count);
}

static bool random_order(const ls_sampler *s, int64_t count, uint64_t key, int64_t epoch, int64_t *samples)
{
    (void)epoch;
    if (!s->replacement) return ls_order_shuffled(key, count, samples), true; /* the first of them are the draws */
    for (int64_t i = 0; i < random_length(s, count); i++)
        samples[i] = (int64_t)ls_random_below(ls_random_bits(key, (uint64_t)i), (uint64_t)count);
    return true;
}

ls_sampler *ls_random_sampler_new_sized(ls_run *run, const ls_random_sampler_opts *opts, size_t opts_size)
{
    ls_random_sampler_opts o = LS_OPTS_READ(ls_random_sampler_opts, opts, opts_size);
    ls_sampler *s = ls_sampler_begin(run, "random sampler", o.draws);
    if (!s) return NULL;
    s->replacement = o.replacement;
    s->length = random_length;
    s->order = random_order;
    return s;
}

/* ---- weighted ---- */

static int64_t weighted_length(const ls_sampler *s, int64_t count)
{
    if (s->weight_count != count) return refuse(s, s->weight_count, "weights", count);
    int64_t draws = ls_opts_integer(s->draws, count);
    if (s->replacement || draws <= s->positive_count) return draws;
    ls_fail(&s->object.run->errors, LS_ERR_VALUE,
            "%s: %lld draws without replacement, but only %lld weights are above 0", s->kind, (long long)draws,
            (long long)s->positive_count);
    return -1;
}

/* The first sample whose cumulative weight is above x. */
static int64_t find_sum(const double *sums, int64_t count, double x)
{
    int64_t low = 0, high = count - 1;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (sums[middle] > x) high = middle;
        else low = middle + 1;
    }
    return low;
}

static void sift_down(struct ls_keyed *heap, int64_t at, int64_t count)
{
    for (int64_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && heap[child + 1].key > heap[child].key) child++;
        if (heap[at].key >= heap[child].key) return;
        struct ls_keyed swap = heap[at];
        heap[at] = heap[child];
        heap[child] = swap;
    }
}

/* Move the `count` entries with the smallest keys to the front, smallest first: a heap of the best so far, largest on
 * top. */
static void smallest_first(struct ls_keyed *list, int64_t total, int64_t count)
{
    for (int64_t i = count / 2; i-- > 0;) sift_down(list, i, count);
    for (int64_t i = count; i < total; i++) {
        if (list[i].key >= list[0].key) continue;
        list[0] = list[i];
        sift_down(list, 0, count);
    }
    for (int64_t left = count - 1; left > 0; left--) {
        struct ls_keyed largest = list[0];
        list[0] = list[left];
        list[left] = largest;
        sift_down(list, 0, left);
    }
}

/* Without replacement: the order in which exponential clocks with the weights as rates ring is exactly this
 * distribution. */
static bool weighted_order(const ls_sampler *s, int64_t count, uint64_t key, int64_t epoch, int64_t *samples)
{
    (void)epoch;
    int64_t draws = weighted_length(s, count);
    if (s->replacement) {
        double sum = s->weights[count - 1];
        for (int64_t i = 0; i < draws; i++)
            samples[i] = find_sum(s->weights, count, sum * ls_random_unit(ls_random_bits(key, (uint64_t)i)));
        return true;
    }
    int64_t left = 0;
    for (int64_t i = 0; i < count; i++) {
        double unit = 1 - ls_random_unit(ls_random_bits(key, (uint64_t)i)); /* (0, 1] */
        if (s->weights[i] > 0) s->keyed[left++] = (struct ls_keyed){-log(unit) / s->weights[i], i};
    }
    smallest_first(s->keyed, left, draws);
    for (int64_t i = 0; i < draws; i++) samples[i] = s->keyed[i].sample;
    return true;
}

ls_sampler *ls_weighted_sampler_new_sized(ls_run *run, const double *weights, int64_t count,
                                          const ls_weighted_sampler_opts *opts, size_t opts_size)
{
    ls_weighted_sampler_opts o = LS_OPTS_READ(ls_weighted_sampler_opts, opts, opts_size);
    ls_sampler *s = ls_sampler_begin(run, "weighted sampler", o.draws);
    if (!s) return NULL;
    s->replacement = o.replacement;
    s->length = weighted_length;
    s->order = weighted_order;
    s->weight_count = count;
    double sum = 0;
    if (count < 1 || !weights)
        ls_fail(&run->errors, LS_ERR_VALUE, "weighted sampler: %lld weights%s; there must be one for each sample",
                (long long)count, weights ? "" : " of NULL");
    else {
        s->weights = ls_sys_alloc((size_t)count * sizeof *s->weights);
        if (!s->replacement) s->keyed = ls_sys_alloc((size_t)count * sizeof *s->keyed);
        if (!s->weights || (!s->replacement && !s->keyed))
            ls_fail(&run->errors, LS_ERR_MEMORY, "weighted sampler: out of memory");
    }
    for (int64_t i = 0; !ls_failed(run) && i < count; i++) {
        if (!(weights[i] >= 0 && weights[i] <= 1e300))
            ls_fail(&run->errors, LS_ERR_VALUE,
                    "weighted sampler: weight %lld is %g; it must be finite and not negative", (long long)i,
                    weights[i]);
        sum += weights[i];
        s->positive_count += weights[i] > 0;
        s->weights[i] = s->replacement ? sum : weights[i];
    }
    if (!ls_failed(run) && !(sum > 0 && sum <= 1e300))
        ls_fail(&run->errors, LS_ERR_VALUE, "weighted sampler: the sum of the weights is %g", sum);
    if (!ls_failed(run)) return s;
    ls_object_free(s);
    return NULL;
}

/* ---- every world-th sample ---- */

static int64_t distributed_length(const ls_sampler *s, int64_t count)
{
    return s->drop_last ? count / s->world : (count + s->world - 1) / s->world;
}

static bool distributed_order(const ls_sampler *s, int64_t count, uint64_t key, int64_t epoch, int64_t *samples)
{
    (void)epoch;
    int64_t length = distributed_length(s, count);
    for (int64_t i = 0; i < count; i++) samples[i] = i;
    if (s->shuffle) ls_random_shuffle(key, count, samples);
    /* In place: the sample for position i is at i * world + rank, at or after it; but the last may wrap around to one
     * of the first. */
    int64_t last = ((length - 1) * s->world + s->rank) % count;
    int64_t wrapped = length ? samples[last] : 0;
    for (int64_t i = 0; i < length; i++) {
        int64_t from = i * s->world + s->rank;
        samples[i] = from < count ? samples[from] : wrapped;
    }
    return true;
}

ls_sampler *ls_distributed_sampler_new_sized(ls_run *run, const ls_distributed_sampler_opts *opts, size_t opts_size)
{
    ls_distributed_sampler_opts o = LS_OPTS_READ(ls_distributed_sampler_opts, opts, opts_size);
    if (ls_failed(run)) return NULL;
    if (o.world_size == LS_AUTO) o.world_size = run->step->share.world;
    if (o.rank == LS_AUTO) o.rank = run->step->share.rank;
    if (o.world_size < 1 || o.rank < 0 || o.rank >= o.world_size)
        return ls_fail(&run->errors, LS_ERR_VALUE, "distributed sampler: rank %d of %d", o.rank, o.world_size), NULL;
    ls_sampler *s = ls_sampler_begin(run, "distributed sampler", LS_AUTO);
    if (!s) return NULL;
    s->rank = o.rank;
    s->world = o.world_size;
    s->shuffle = o.shuffle;
    s->drop_last = o.drop_last;
    s->length = distributed_length;
    s->order = distributed_order;
    return s;
}

/* ---- user-defined ---- */

static bool all_there(const ls_sampler *s, int64_t count, const int64_t *samples, int64_t draws)
{
    for (int64_t i = 0; i < draws; i++) {
        if (samples[i] >= 0 && samples[i] < count) continue;
        ls_fail(&s->object.run->errors, LS_ERR_VALUE, "%s: sample %lld at [%lld], but the dataset has %lld samples",
                s->kind, (long long)samples[i], (long long)i, (long long)count);
        return false;
    }
    return true;
}

static int64_t given_length(const ls_sampler *s, int64_t count)
{
    return ls_opts_integer(s->draws, count);
}

static bool own_order(const ls_sampler *s, int64_t count, uint64_t key, int64_t epoch, int64_t *samples)
{
    (void)key;
    s->own(epoch, samples, given_length(s, count), s->user);
    return all_there(s, count, samples, given_length(s, count));
}

ls_sampler *ls_order_sampler_new(ls_run *run, int64_t draws, ls_order_fn *order, void *user)
{
    if (!ls_failed(run) && !order) ls_fail(&run->errors, LS_ERR_VALUE, "order sampler: the function is NULL");
    ls_sampler *s = ls_sampler_begin(run, "order sampler", draws);
    if (!s) return NULL;
    s->own = order;
    s->user = user;
    s->length = given_length;
    s->order = own_order;
    return s;
}

static bool listed_order(const ls_sampler *s, int64_t count, uint64_t key, int64_t epoch, int64_t *samples)
{
    (void)key, (void)epoch;
    memcpy(samples, s->listed, (size_t)s->draws * sizeof *samples);
    return all_there(s, count, samples, s->draws);
}

ls_sampler *ls_batch_sampler_new(ls_run *run, const int64_t *sizes, int64_t batches, const int64_t *samples)
{
    ls_sampler *s = ls_sampler_begin(run, "batch list", LS_AUTO);
    if (!s) return NULL;
    s->length = given_length;
    s->order = listed_order;
    s->list_count = batches;
    if (batches < 1 || !sizes || !samples)
        ls_fail(&run->errors, LS_ERR_VALUE, "batch list: %lld batches", (long long)batches);
    else s->lists = ls_sys_alloc((size_t)(batches + 1) * sizeof *s->lists);
    for (int64_t i = 0; s->lists && i < batches; i++) {
        if (sizes[i] < 1)
            ls_fail(&run->errors, LS_ERR_VALUE, "batch list: batch %lld has %lld samples", (long long)i,
                    (long long)sizes[i]);
        s->lists[i + 1] = s->lists[i] + sizes[i];
    }
    if (s->lists && !ls_failed(run)) {
        s->draws = s->lists[batches];
        s->listed = ls_sys_alloc((size_t)s->draws * sizeof *s->listed);
        if (s->listed) memcpy(s->listed, samples, (size_t)s->draws * sizeof *samples);
    }
    if (!ls_failed(run) && !s->listed) ls_fail(&run->errors, LS_ERR_MEMORY, "batch list: out of memory");
    if (!ls_failed(run)) return s;
    ls_object_free(s);
    return NULL;
}
