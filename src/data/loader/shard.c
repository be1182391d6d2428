/* shard.c - which samples make up batch i of rank r. */
#include "data/loader/shard.h"

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* A single process never repeats a sample. */
static bool completes(const ls_shard *s)
{
    return s->even && s->world > 1;
}

/* The remaining amount and the size of a round, in samples or in listed batches. */
static int64_t left(const ls_shard *s)
{
    int64_t all = s->lists ? s->list_count : s->samples;
    return all > s->start ? all - s->start : 0;
}

static int64_t round_size(const ls_shard *s)
{
    return s->lists ? s->world : s->batch * s->world;
}

int64_t ls_shard_len(const ls_shard *s)
{
    if (s->drop_last) return left(s) / round_size(s);
    if (completes(s) || s->dispatch) return divide_up(left(s), round_size(s));
    int64_t batches = s->lists ? left(s) : divide_up(left(s), s->batch);
    return batches > s->rank ? divide_up(batches - s->rank, s->world) : 0;
}

ls_span ls_shard_batch(const ls_shard *s, int64_t i)
{
    if (s->lists) {
        int64_t list = (s->start + i * s->world + s->rank) % s->list_count;
        return (ls_span){s->lists[list], s->lists[list + 1] - s->lists[list]};
    }
    int64_t begin = s->start + i * round_size(s), size = s->batch;
    if (s->dispatch) size = smaller(size, divide_up(s->samples - begin, s->world));
    int64_t first = begin + s->rank * size;
    if (!completes(s) && !s->dispatch) size = smaller(size, s->samples - first);
    return (ls_span){first, size};
}

int64_t ls_shard_real(const ls_shard *s, int64_t i)
{
    int64_t begin = s->start + i * round_size(s);
    if (!s->lists) return smaller(round_size(s), s->samples - begin);
    return s->lists[smaller(begin + s->world, s->list_count)] - s->lists[begin];
}

int64_t ls_shard_after(const ls_shard *s, int64_t i)
{
    return s->start + smaller((i + 1) * round_size(s), left(s));
}
