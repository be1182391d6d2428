/* buckets.c - groups of gradients that are reduced together. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "autograd/tape.h"
#include "base/memory.h"
#include "device/device.h"
#include "kernels/elementwise.h"
#include "parallel/inside.h"

enum {
    FIRST_BYTES = 1 << 20, /* of the first bucket: small, so that communication starts early */
    USUAL_BYTES = 25 << 20,
    LINE = 64,            /* gradients of a block start on cache lines */
    COMPRESSED = 2 << 20, /* elements sent at a time */
};

void ls_buckets_free(ls_reducer *p)
{
    ls_sys_free(p->buckets);
    ls_sys_free(p->extents);
    p->buckets = NULL;
    p->extents = NULL;
    p->bucket_count = 0;
}

/* ---- on the communication thread ---- */

/* y = x, in another type. On the host by this thread alone: an operator would take the thread team from the pass in
 * progress. */
static ls_status convert(ls_device *device, ls_dtype from, void *x, ls_dtype to, void *y, int64_t n, ls_message *why)
{
    if (ls_device_is_host(device)) {
        ls_elementwise_kernels()->convert[from][to](n, (void *const[]){y, x}, NULL);
        return LS_OK;
    }
    ls_operand in = {.data = x, .dtype = from}, out = {.data = y, .dtype = to};
    ls_view_set_contiguous(&in, LS_SHAPE(n));
    ls_view_set_contiguous(&out, LS_SHAPE(n));
    ls_call call = {.op = LS_OP_copy, .n_in = 1, .n_out = 1, .in = {&in}, .out = {&out}};
    return ls_device_run(device, &call, why);
}

/* Reduce n elements at `data` to their mean; they are elements of an extent starting at `at`, or converted copies of
 * them. *mine: the part of them that this process receives. */
static ls_status reduce_numbers(ls_comm *comm, ls_reducer *p, const ls_extent *s, int64_t at, ls_comm_call call,
                                ls_range *mine, ls_message *why)
{
    call.op = LS_REDUCE_MEAN;
    call.out = (void *)(uintptr_t)call.in;
    *mine = (ls_range){0, call.count};
    if (!p->opts.shard || s->block == INT_MAX) {
        call.kind = LS_COMM_ALL_REDUCE;
        return ls_comm_run_on(comm, p->device, &call, why);
    }
    int64_t begin = s->offset / (int64_t)sizeof(float) + at, n = (int64_t)(p->blocks[s->block].bytes / sizeof(float));
    ls_shard_counts(p, n, (ls_range){begin, begin + call.count});
    call.kind = LS_COMM_REDUCE_SCATTER;
    call.counts = p->counts;
    call.count = p->counts[comm->rank];
    mine->begin = ls_comm_offset(&call, comm->rank);
    mine->end = mine->begin + call.count;
    call.out = (char *)call.out + (size_t)mine->begin * ls_dtype_size(call.dtype);
    return ls_comm_run_on(comm, p->device, &call, why);
}

static ls_status reduce_compressed(ls_comm *comm, ls_reducer *p, const ls_extent *s, const char *site, ls_message *why)
{
    ls_status status = LS_OK;
    ls_range mine;
    ls_dtype dtype = p->opts.compress;
    for (int64_t at = 0; at < s->count && !status; at += COMPRESSED) {
        char *x = s->data + (size_t)at * sizeof(float), *half = p->compressed->view.data;
        int64_t n = s->count - at < COMPRESSED ? s->count - at : COMPRESSED;
        status = convert(p->device, LS_F32, x, dtype, half, n, why);
        ls_comm_call call = {.dtype = dtype, .in = half, .count = n, .site = site};
        if (!status) status = reduce_numbers(comm, p, s, at, call, &mine, why);
        if (!status)
            status = convert(p->device, dtype, half + (size_t)mine.begin * sizeof(uint16_t), LS_F32,
                             x + (size_t)mine.begin * sizeof(float), mine.end - mine.begin, why);
    }
    return status;
}

static ls_status reduce(ls_comm *comm, ls_comm_request *request, ls_message *why)
{
    const ls_bucket *bucket = (const ls_bucket *)request; /* the request is its first member */
    ls_reducer *p = request->user;
    ls_status status = p->unlike ? LS_ERR_STATE : LS_OK;
    ls_range mine;
    for (int i = 0; i < bucket->extent_count && !status; i++) {
        const ls_extent *s = &bucket->extents[i];
        if (p->opts.compress && s->dtype == LS_F32) status = reduce_compressed(comm, p, s, bucket->site, why);
        else {
            ls_comm_call call = {.dtype = s->dtype, .in = s->data, .count = s->count, .site = bucket->site};
            status = reduce_numbers(comm, p, s, 0, call, &mine, why);
        }
    }
    return status;
}

/* ---- creating ---- */

static size_t bytes_of(const ls_slot *slot)
{
    return (size_t)ls_view_numel(&slot->tensor->view) * ls_dtype_size(slot->tensor->view.dtype);
}

/* Allocate memory for gradients sent in half precision. */
static bool need_compressed(ls_reducer *p)
{
    if (!p->opts.compress || p->compressed) return true;
    ls_mark mark = ls_scope_begin(p->run);
    ls_tensor *t = ls_shared_tensor(p, p->opts.compress, COMPRESSED);
    if (ls_is_valid(t)) p->compressed = ls_alias_owned(t);
    ls_scope_end(p->run, mark, NULL);
    return p->compressed != NULL;
}

bool ls_buckets_make(ls_reducer *p)
{
    ls_buckets_free(p);
    if (!need_compressed(p)) return false;
    p->buckets = ls_sys_alloc((size_t)(p->slot_count + 1) * sizeof *p->buckets);
    p->extents = ls_sys_alloc((size_t)(p->slot_count + 1) * sizeof *p->extents);
    if (!p->buckets || !p->extents)
        return ls_fail(&p->run->errors, LS_ERR_MEMORY, "no memory for buckets of gradients"), false;
    size_t bytes = 0, most = p->opts.bucket_bytes ? p->opts.bucket_bytes : USUAL_BYTES;
    size_t first = most < FIRST_BYTES ? most : FIRST_BYTES;
    ls_bucket *open = NULL;
    for (int i = 0; i < p->slot_count; i++) {
        ls_slot *slot = p->slots[p->order[i]];
        slot->trained = ls_requires_grad(slot->tensor);
        slot->bucket = slot->trained ? p->bucket_count - 1 : -1;
        if (!slot->trained) continue;
        if (!open || bytes >= (p->bucket_count == 1 ? first : most)) {
            open = &p->buckets[p->bucket_count];
            *open = (ls_bucket){.request = {.work = reduce, .user = p}, .first = i, .extents = &p->extents[i]};
            snprintf(open->site, sizeof open->site, "gradients from %.40s", slot->name);
            slot->bucket = p->bucket_count++;
            bytes = 0;
        }
        bytes += bytes_of(slot);
        open->count = i - open->first + 1;
    }
    return true;
}

/* ---- starting ---- */

int ls_block_of(const ls_reducer *p, const char *data)
{
    for (int i = 0; i < p->block_count; i++)
        if (data >= p->blocks[i].base && data < p->blocks[i].base + p->blocks[i].bytes) return i;
    return INT_MAX;
}

static int in_memory_order(const void *a, const void *b)
{
    const ls_extent *x = a, *y = b;
    if (x->block != y->block) return x->block < y->block ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Merge gradients that are adjacent in a block into one extent, including the zeros between them. The order must be the
 * same in all processes, where addresses differ. */
static void join_neighbours(ls_bucket *bucket)
{
    int joined = 0;
    qsort(bucket->extents, (size_t)bucket->extent_count, sizeof *bucket->extents, in_memory_order);
    for (int i = 0; i < bucket->extent_count; i++) {
        const ls_extent *s = &bucket->extents[i];
        ls_extent *last = joined ? &bucket->extents[joined - 1] : NULL;
        int64_t size = (int64_t)ls_dtype_size(s->dtype);
        int64_t end = last ? (last->offset + last->count * size + LINE - 1) / LINE * LINE : 0;
        if (last && s->block != INT_MAX && last->block == s->block && last->dtype == s->dtype && end == s->offset)
            last->count = (s->offset - last->offset) / size + s->count;
        else bucket->extents[joined++] = *s;
    }
    bucket->extent_count = joined;
}

void ls_bucket_start(ls_reducer *p, ls_bucket *bucket)
{
    bucket->extent_count = 0;
    for (int i = bucket->first; i < bucket->first + bucket->count; i++) {
        const ls_slot *slot = p->slots[p->order[i]];
        ls_tensor *gradient = slot->trained ? ls_leaf_room(slot->tensor) : NULL;
        if (!gradient) continue;
        ls_extent *s = &bucket->extents[bucket->extent_count++];
        *s = (ls_extent){.data = gradient->view.data,
                         .count = ls_view_numel(&gradient->view),
                         .dtype = gradient->view.dtype,
                         .block = ls_block_of(p, gradient->view.data),
                         .offset = i};
        if (s->block != INT_MAX) s->offset = s->data - p->blocks[s->block].base;
    }
    join_neighbours(bucket);
    ls_comm_start(p->queue, &bucket->request);
}

bool ls_bucket_wait(ls_reducer *p, ls_bucket *bucket)
{
    ls_message why = {{0}};
    return ls_reducer_check(p, ls_comm_wait(p->queue, &bucket->request, &why), &why, "ls_backward");
}
