/* selftest_collectives.c - the self-test: every collective on raw memory, checked against sums that each rank
 * computes. */
#include "selftest.h"

#include <stdlib.h>

/* Part `part` of the input of rank `rank`: small integers, whose sums are exact. */
static float given(int rank, int part, int64_t i)
{
    return (float)((31 * rank + 17 * part + 7 * i) % 23 - 11);
}

typedef struct scene {
    trial *t;
    ls_comm *all;
    int rank, size;
    int64_t count; /* elements of a part */
    float *in, *out;
} scene;

typedef float wanted_fn(const scene *s, int part, int64_t i);

static float sum_of_mine(const scene *s, int part, int64_t i)
{
    float sum = 0;
    (void)part;
    for (int r = 0; r < s->size; r++) sum += given(r, s->rank, i);
    return sum;
}

static float sum_of_parts(const scene *s, int part, int64_t i)
{
    float sum = 0;
    for (int r = 0; r < s->size; r++) sum += given(r, part, i);
    return sum;
}

static float first_of(const scene *s, int part, int64_t i)
{
    (void)s;
    return given(part, 0, i);
}

static float mine_of(const scene *s, int part, int64_t i)
{
    return given(part, s->rank, i);
}

static float from_last(const scene *s, int part, int64_t i)
{
    (void)part;
    return given(s->size - 1, s->rank, i);
}

static float from_before(const scene *s, int part, int64_t i)
{
    (void)part;
    return given((s->rank + s->size - 1) % s->size, 0, i);
}

/* Is out, of `parts` parts, as expected? It is cleared for the next call. */
static void compare(const scene *s, ls_comm_kind kind, int parts, wanted_fn *wanted)
{
    static const char *const names[] = {
#define LS_COMM_KIND(symbol, name) name,
        LS_COMM_KIND_LIST(LS_COMM_KIND)
#undef LS_COMM_KIND
    };
    for (int p = 0; p < parts && !ls_error(s->t->run); p++) {
        for (int64_t i = 0; i < s->count; i++) {
            float *got = &s->out[p * s->count + i];
            if (*got != wanted(s, p, i))
                trial_fails(s->t, "%s: value %lld of %lld in part %d is %g, expected %g", names[kind], (long long)i,
                            (long long)s->count, p, *got, wanted(s, p, i));
            *got = -1;
        }
    }
}

static void call(const scene *s, ls_comm_kind kind, int64_t count, int peer)
{
    ls_collective(s->all, kind, .in = s->in, .out = s->out, .count = count, .dtype = LS_F32, .peer = peer);
}

static void call_each(const scene *s)
{
    int last = s->size - 1, parts_at_last = s->rank == last ? s->size : 0;
    call(s, LS_COMM_ALL_REDUCE, s->count * s->size, 0);
    compare(s, LS_COMM_ALL_REDUCE, s->size, sum_of_parts);
    call(s, LS_COMM_REDUCE, s->count * s->size, last);
    compare(s, LS_COMM_REDUCE, parts_at_last, sum_of_parts);
    call(s, LS_COMM_REDUCE_SCATTER, s->count, 0);
    compare(s, LS_COMM_REDUCE_SCATTER, 1, sum_of_mine);
    call(s, LS_COMM_ALL_GATHER, s->count, 0);
    compare(s, LS_COMM_ALL_GATHER, s->size, first_of);
    call(s, LS_COMM_GATHER, s->count, last);
    compare(s, LS_COMM_GATHER, parts_at_last, first_of);
    call(s, LS_COMM_SCATTER, s->count, last);
    compare(s, LS_COMM_SCATTER, 1, from_last);
    call(s, LS_COMM_ALL_TO_ALL, s->count, 0);
    compare(s, LS_COMM_ALL_TO_ALL, s->size, mine_of);
    for (int64_t i = 0; i < s->count; i++) s->out[i] = given(s->rank, 0, i);
    call(s, LS_COMM_BROADCAST, s->count, 0);
    for (int64_t i = 0; i < s->count && !ls_error(s->t->run); i++)
        if (s->out[i] != given(0, 0, i)) trial_fails(s->t, "broadcast: value %lld is %g", (long long)i, s->out[i]);
}

/* Send around the ring; every second rank receives first. */
static void call_neighbours(const scene *s)
{
    if (s->size == 1) return;
    int after = (s->rank + 1) % s->size, before = (s->rank + s->size - 1) % s->size;
    if (s->rank % 2) call(s, LS_COMM_RECEIVE, s->count, before);
    call(s, LS_COMM_SEND, s->count, after);
    if (s->rank % 2 == 0) call(s, LS_COMM_RECEIVE, s->count, before);
    compare(s, LS_COMM_RECEIVE, 1, from_before);
}

/* In the background; and in a group of every second process. */
static void call_in_background(const scene *s)
{
    ls_request_wait(ls_collective_start(s->all, LS_COMM_ALL_GATHER, .in = s->in, .out = s->out, .count = s->count,
                                        .dtype = LS_F32));
    compare(s, LS_COMM_ALL_GATHER, s->size, first_of);
    ls_comm *half = ls_comm_split(s->all, s->rank % 2, s->rank);
    int32_t ones = 1, wanted = (s->size + 1 - s->rank % 2) / 2;
    ls_collective(half, LS_COMM_ALL_REDUCE, .in = &ones, .out = &ones, .count = 1, .dtype = LS_I32);
    if (ones != wanted && !ls_error(s->t->run)) trial_fails(s->t, "a group of %d counts %d processes", wanted, ones);
    ls_comm_free(half);
}

void try_raw_collectives(trial *t)
{
    static const int64_t counts[] = {1, 777, 40001};
    scene s = {.t = t, .all = ls_comm_of(t->run)};
    s.rank = ls_comm_rank(s.all), s.size = ls_comm_size(s.all);
    for (size_t c = 0; c < sizeof counts / sizeof *counts && !ls_error(t->run); c++) {
        size_t bytes = (size_t)(s.size * counts[c]) * sizeof *s.in;
        s.count = counts[c];
        s.in = malloc(bytes), s.out = malloc(bytes);
        if (!s.in || !s.out) ls_set_error(t->run, LS_ERR_MEMORY, "lockstep test: no memory for %zu bytes", bytes);
        for (int64_t i = 0; !ls_error(t->run) && i < s.size * s.count; i++)
            s.in[i] = given(s.rank, (int)(i / s.count), i % s.count);
        if (!ls_error(t->run)) call_each(&s), call_neighbours(&s), call_in_background(&s);
        free(s.in), free(s.out);
    }
}
