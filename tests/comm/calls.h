/* calls.h - every collective for every type and odd sizes, checked against values that each rank computes for all. */
#ifndef LOCKSTEP_TESTS_COMM_CALLS_H
#define LOCKSTEP_TESTS_COMM_CALLS_H

#include "base/rng.h"
#include "comm/crew.h"
#include "kernels/combine.h"
#include "kernels/element.h"

/* ---- inputs that every rank can compute for every other ---- */

__attribute__((unused)) static void fill(ls_dtype dtype, void *to, int rank, int64_t salt, int64_t count)
{
    ls_philox4 bits = {{0}};
    for (int64_t i = 0; i < count; i++) {
        if (i % 4 == 0) bits = ls_philox((uint64_t)(rank * 1000003 + salt), (uint64_t)i);
        uint32_t lane = bits.lane[i % 4];
        if (dtype == LS_F32) ((float *)to)[i] = (float)(lane % 4096) / 1024 - 2; /* most data is f32 */
        else if (ls_dtype_is_float(dtype)) ls_put(dtype, to, i, (double)(lane % 4096) / 1024 - 2);
        else if (dtype == LS_BOOL) ls_put_int(dtype, to, i, lane % 2);
        else ls_put_int(dtype, to, i, lane % 11 - 5);
    }
}

__attribute__((unused)) static char *room(ls_dtype dtype, int64_t count)
{
    return calloc((size_t)count + 1, ls_dtype_size(dtype));
}

__attribute__((unused)) static char *filled(ls_dtype dtype, int rank, int64_t salt, int64_t count)
{
    char *data = room(dtype, count);
    fill(dtype, data, rank, salt, count);
    return data;
}

/* The expected result of all ranks: folded in rank order over each host, then over hosts. f16 and bf16 are rounded at
 * the very end. */
__attribute__((unused)) static char *reduced(int size, ls_dtype dtype, ls_reduction op, int64_t salt, int64_t count)
{
    static const ls_fold folds[] = {LS_FOLD_SUM, LS_FOLD_SUM, LS_FOLD_MAX, LS_FOLD_MIN, LS_FOLD_PROD};
    bool half = dtype == LS_BF16 || dtype == LS_F16;
    ls_dtype between = half ? LS_F32 : dtype;
    char *rows[CREW_MOST], *sums[CREW_MOST], *sum = room(dtype, count);
    int hosts = 0;
    for (int r = 0; r < size; r++) rows[r] = filled(dtype, r, salt, count);
    for (int first = 0; first < size; first++) {
        const void *here[CREW_MOST];
        int width = 0, earlier = 0;
        while (crew_host(earlier) != crew_host(first)) earlier++;
        for (int r = first; r < size && earlier == first; r++)
            if (crew_host(r) == crew_host(first)) here[width++] = rows[r];
        if (!width) continue;
        sums[hosts] = room(between, count);
        ls_combine_ref.fold_rows(dtype, between, folds[op], 1, (void *[]){sums[hosts++]}, 1, here, width, count);
    }
    ls_combine_ref.fold_rows(between, dtype, folds[op], op == LS_REDUCE_MEAN ? 1.0 / size : 1, (void *[]){sum}, 1,
                             (const void *const *)sums, hosts, count);
    for (int r = 0; r < size; r++) free(rows[r]);
    for (int i = 0; i < hosts; i++) free(sums[i]);
    return sum;
}

#define SAME(got, want, elements)                                                                                      \
    CHECK_MSG(memcmp(got, want, (size_t)(elements)*ls_dtype_size(dtype)) == 0, "%s: rank %d of %d, %lld %s, %s",       \
              __func__, comm->rank, comm->size, (long long)(elements), ls_dtype_name(dtype), ls_comm_op_name(op))

__attribute__((unused)) static void ok(ls_comm *comm, const ls_comm_call *call)
{
    ls_message why = {{0}};
    CHECK_MSG(ls_comm_run(comm, call, &why) == LS_OK, "%s", why.text);
}

/* ---- reductions ---- */

__attribute__((unused)) static void check_all_reduce(ls_comm *comm, ls_dtype dtype, ls_reduction op, int64_t count,
                                                     char *shared)
{
    char *want = reduced(comm->size, dtype, op, count, count);
    char *data = shared ? shared : room(dtype, count), *apart = filled(dtype, comm->rank, count, count);
    ls_comm_call call = {LS_COMM_ALL_REDUCE, dtype, op, count, data, data, .site = "in place"};
    fill(dtype, data, comm->rank, count, count);
    ok(comm, &call);
    SAME(data, want, count);
    memset(data, 0, (size_t)count * ls_dtype_size(dtype));
    call.in = apart;
    ok(comm, &call);
    SAME(data, want, count);
    if (!shared) free(data);
    free(apart);
    free(want);
}

__attribute__((unused)) static void check_reduce(ls_comm *comm, ls_dtype dtype, ls_reduction op, int64_t count)
{
    int root = (int)count % comm->size;
    char *want = reduced(comm->size, dtype, op, count, count), *in = filled(dtype, comm->rank, count, count);
    char *out = comm->rank == root ? room(dtype, count) : NULL;
    ok(comm, &(ls_comm_call){LS_COMM_REDUCE, dtype, op, count, in, out, .peer = root});
    if (out) SAME(out, want, count);
    free(want), free(in), free(out);
}

__attribute__((unused)) static int64_t uneven(int64_t count, int rank)
{
    return rank == 1 ? 0 : count / (rank + 1) + rank;
}

/* Out of place, and in place, where the result is part `rank` of the input. */
__attribute__((unused)) static void check_reduce_scatter(ls_comm *comm, ls_dtype dtype, ls_reduction op, int64_t count,
                                                         char *shared)
{
    for (int differ = 0; differ < 2; differ++) {
        int64_t counts[CREW_MOST], total = 0, before = 0, mine = differ ? uneven(count, comm->rank) : count;
        for (int r = 0; r < comm->size; r++) total += counts[r] = differ ? uneven(count, r) : count;
        for (int r = 0; r < comm->rank; r++) before += counts[r];
        size_t at = (size_t)before * ls_dtype_size(dtype);
        char *want = reduced(comm->size, dtype, op, 7, total), *out = room(dtype, mine);
        char *in = shared ? shared : room(dtype, total);
        ls_comm_call call = {LS_COMM_REDUCE_SCATTER, dtype, op, mine, in, out, differ ? counts : NULL, .site = NULL};
        fill(dtype, in, comm->rank, 7, total);
        ok(comm, &call);
        SAME(out, want + at, mine);
        call.out = in + at;
        ok(comm, &call);
        SAME(in + at, want + at, mine);
        if (!shared) free(in);
        free(want), free(out);
    }
}

/* ---- exchanges ---- */

__attribute__((unused)) static void check_gathers(ls_comm *comm, ls_dtype dtype, int64_t count, bool differ,
                                                  char *shared)
{
    ls_reduction op = LS_REDUCE_SUM;
    int64_t counts[CREW_MOST], total = 0, before = 0, mine = differ ? uneven(count, comm->rank) : count;
    size_t element = ls_dtype_size(dtype);
    for (int r = 0; r < comm->size; r++) total += counts[r] = differ ? uneven(count, r) : count;
    char *want = room(dtype, total), *at = want;
    for (int r = 0; r < comm->size; r++) {
        fill(dtype, at, r, 3, counts[r]);
        at += (size_t)counts[r] * element;
        if (r < comm->rank) before += counts[r];
    }
    char *in = filled(dtype, comm->rank, 3, mine), *out = shared ? shared : room(dtype, total);
    const int64_t *given = differ ? counts : NULL;
    char *place = out + (size_t)before * element;
    memcpy(place, in, (size_t)mine * element);
    ok(comm, &(ls_comm_call){LS_COMM_ALL_GATHER, dtype, op, mine, place, out, .counts = given});
    SAME(out, want, total);
    memset(out, 0, (size_t)total * element);
    ok(comm, &(ls_comm_call){LS_COMM_ALL_GATHER, dtype, op, mine, in, out, .counts = given});
    SAME(out, want, total);
    int root = comm->size - 1;
    memset(out, 0, (size_t)total * element);
    ok(comm, &(ls_comm_call){LS_COMM_GATHER, dtype, op, mine, in, out, .counts = given, .peer = root});
    if (comm->rank == root) SAME(out, want, total);
    /* and back */
    memset(out, 0, (size_t)total * element);
    ok(comm, &(ls_comm_call){LS_COMM_SCATTER, dtype, op, mine, want, out, .counts = given, .peer = root});
    SAME(out, in, mine);
    if (!shared) free(out);
    free(want), free(in);
}

__attribute__((unused)) static void check_broadcast(ls_comm *comm, ls_dtype dtype, int64_t count, char *shared)
{
    ls_reduction op = LS_REDUCE_SUM;
    for (int root = 0; root < comm->size; root++) {
        char *want = filled(dtype, root, 5, count), *mine = filled(dtype, comm->rank, 5, count);
        char *data = shared ? memcpy(shared, mine, (size_t)count * ls_dtype_size(dtype)) : mine;
        ok(comm, &(ls_comm_call){LS_COMM_BROADCAST, dtype, op, count, NULL, data, .peer = root});
        SAME(data, want, count);
        free(want), free(mine);
    }
}

/* Number of elements that rank a sends to rank b, filled with the salt of both. */
__attribute__((unused)) static int64_t between(int64_t count, int a, int b, bool differ)
{
    return differ ? (a == b ? 0 : count / (a + 1) + b) : count;
}

__attribute__((unused)) static void check_all_to_all(ls_comm *comm, ls_dtype dtype, int64_t count, bool differ)
{
    ls_reduction op = LS_REDUCE_SUM;
    int64_t to[CREW_MOST], from[CREW_MOST], sent = 0, got = 0;
    size_t element = ls_dtype_size(dtype);
    for (int r = 0; r < comm->size; r++) {
        sent += to[r] = between(count, comm->rank, r, differ);
        got += from[r] = between(count, r, comm->rank, differ);
    }
    char *in = room(dtype, sent), *out = room(dtype, got), *want = room(dtype, got), *at = in, *there = want;
    for (int r = 0; r < comm->size; r++) {
        fill(dtype, at, comm->rank, r, to[r]);
        fill(dtype, there, r, comm->rank, from[r]);
        at += (size_t)to[r] * element;
        there += (size_t)from[r] * element;
    }
    ok(comm, &(ls_comm_call){LS_COMM_ALL_TO_ALL, dtype, op, differ ? 0 : count, in, out, differ ? to : NULL,
                             differ ? from : NULL, .site = NULL});
    SAME(out, want, got);
    free(want), free(in), free(out);
}

/* Every rank sends to the next and receives from the one before; even ranks send first. */
__attribute__((unused)) static void check_messages(ls_comm *comm, ls_dtype dtype, int64_t count)
{
    ls_reduction op = LS_REDUCE_SUM;
    if (comm->size == 1) return;
    int next = (comm->rank + 1) % comm->size, before = (comm->rank + comm->size - 1) % comm->size;
    char *in = filled(dtype, comm->rank, 9, count), *out = room(dtype, count), *want = filled(dtype, before, 9, count);
    ls_comm_call send = {LS_COMM_SEND, dtype, op, count, in, NULL, .peer = next};
    ls_comm_call receive = {LS_COMM_RECEIVE, dtype, op, count, NULL, out, .peer = before};
    ok(comm, comm->rank % 2 ? &receive : &send);
    ok(comm, comm->rank % 2 ? &send : &receive);
    SAME(out, want, count);
    free(want), free(in), free(out);
}

/* ---- the walk ---- */

__attribute__((unused)) static void walk(ls_comm *comm, ls_dtype dtype, int64_t count, char *shared)
{
    for (ls_reduction op = 0; op < LS_REDUCE_NONE; op++) {
        if (op == LS_REDUCE_MEAN && !ls_dtype_is_float(dtype)) continue;
        check_all_reduce(comm, dtype, op, count, NULL);
        if (shared) check_all_reduce(comm, dtype, op, count, shared + (count % 3) * 64);
        check_reduce(comm, dtype, op, count);
        check_reduce_scatter(comm, dtype, op, count, NULL);
        if (shared) check_reduce_scatter(comm, dtype, op, count, shared);
    }
    check_broadcast(comm, dtype, count, NULL);
    if (shared) check_broadcast(comm, dtype, count, shared);
    for (int differ = 0; differ < 2; differ++) {
        check_gathers(comm, dtype, count, differ, NULL);
        if (shared) check_gathers(comm, dtype, count, differ, shared);
        check_all_to_all(comm, dtype, count, differ);
    }
    check_messages(comm, dtype, count);
    ok(comm, &(ls_comm_call){.kind = LS_COMM_BARRIER, .dtype = LS_U8});
}

__attribute__((unused)) static void all_kinds(ls_comm *comm, crew_result *result)
{
    const int64_t counts[] = {0, 1, 17, 1025}, many = 33011; /* the last: large enough that slices are reduced */
    char *shared = comm->table->share(comm, 1 << 20, &result->why);
    CHECK_MSG(shared, "%s", result->why.text);
    for (ls_dtype dtype = LS_BOOL; dtype < LS_DTYPE_COUNT; dtype++) {
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) walk(comm, dtype, counts[i], shared);
        check_all_reduce(comm, dtype, LS_REDUCE_SUM, many, shared);
        check_all_reduce(comm, dtype, LS_REDUCE_MAX, many, NULL);
        check_reduce_scatter(comm, dtype, LS_REDUCE_SUM, many / comm->size, shared);
        check_gathers(comm, dtype, many / comm->size, true, shared);
    }
}

/* Several pieces per call, more than fit at a time. */
__attribute__((unused)) static void large_ones(ls_comm *comm, crew_result *result)
{
    const int64_t many = 1600007, each = many / comm->size;
    (void)result;
    check_all_reduce(comm, LS_F32, LS_REDUCE_SUM, many, NULL);
    check_reduce(comm, LS_F32, LS_REDUCE_MAX, each);
    check_reduce(comm, LS_BF16, LS_REDUCE_MEAN, each);
    check_reduce_scatter(comm, LS_F32, LS_REDUCE_SUM, each, NULL);
    check_broadcast(comm, LS_F32, each, NULL);
    for (int differ = 0; differ < 2; differ++) {
        check_gathers(comm, LS_F32, each, differ, NULL);
        check_all_to_all(comm, LS_F32, each, differ);
    }
    check_messages(comm, LS_F32, each);
}

__attribute__((unused)) static void a_few_kinds(ls_comm *comm, crew_result *result)
{
    char *shared = comm->table->share(comm, 1 << 20, &result->why);
    walk(comm, LS_F32, 1025, shared);
    walk(comm, LS_BF16, 40001, shared);
}

/* ---- any order, any pace ---- */

__attribute__((unused)) static void interleave(ls_comm *comm, crew_result *result)
{
    char *shared = comm->table->share(comm, 1 << 20, &result->why);
    ls_comm *half = comm->table->split(comm, comm->rank % 2, -comm->rank, &result->why);
    CHECK_MSG(half, "%s", result->why.text);
    CHECK(half->size == (comm->size + 1 - comm->rank % 2) / 2);
    CHECK(half->rank == half->size - 1 - comm->rank / 2); /* keys reverse the order */
    for (uint64_t i = 0; i < 200; i++) {
        ls_philox4 same = ls_philox(17, i), own = ls_philox((uint64_t)(comm->rank + 100), i);
        if (own.lane[0] % 8 == 0) usleep(own.lane[1] % 300);
        int64_t count = same.lane[1] % 4 ? same.lane[1] % 2000 : same.lane[1] % 50000;
        switch (same.lane[0] % 8) {
        case 0: check_all_reduce(comm, LS_F32, LS_REDUCE_MEAN, count, shared); break;
        case 1: check_all_reduce(comm, LS_BF16, LS_REDUCE_SUM, count, NULL); break;
        case 2: check_gathers(comm, LS_I32, count, true, shared); break;
        case 3: check_all_to_all(comm, LS_U8, count, true); break;
        case 4: check_messages(comm, LS_F32, count); break;
        case 5: check_reduce_scatter(comm, LS_F32, LS_REDUCE_SUM, count / comm->size, shared); break;
        case 6: check_broadcast(half, LS_F32, count, NULL); break;
        default: check_all_reduce(half, LS_F64, LS_REDUCE_MAX, count, NULL); break;
        }
    }
    ls_comm_close(half);
}

#endif
