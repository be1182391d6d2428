/* sort.c - sort and topk along one dimension.
 *
 * Each element becomes an unsigned key in the wanted order, paired with its position: one sorting routine then serves
 * all types and both directions, and values are copied from the input by position. NaN counts
 * as greater than every number and as equal to other NaN; -0 equals 0. */
#include "base/half.h"
#include "base/parallel.h"
#include "device/cpu/cpu.h"
#include "device/cpu/order.h"
#include "device/cpu/rows.h"

#include <stdatomic.h>

/* ---- Order ---------------------------------------------------------------------------------------------------- */

#define INSERTION_MOST 32

static void order_by_insertion(ls_keyed *items, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        ls_keyed item = items[i];
        int64_t at = i;
        for (; at > 0 && items[at - 1].key > item.key; at--) items[at] = items[at - 1];
        items[at] = item;
    }
}

/* A counting sort per byte, lowest first. Bytes that are the same in all keys are skipped: small integers, f16, bf16
 * and f32 only pay for the bytes they have. */
ls_keyed *ls_order(ls_keyed *items, ls_keyed *spare, int64_t n)
{
    if (n <= INSERTION_MOST) {
        order_by_insertion(items, n);
        return items;
    }
    uint64_t differing = 0;
    for (int64_t i = 1; i < n; i++) differing |= items[i].key ^ items[0].key;
    for (int shift = 0; shift < 64; shift += 8) {
        if (!(differing >> shift & 0xff)) continue;
        int64_t place[256] = {0};
        for (int64_t i = 0; i < n; i++) place[items[i].key >> shift & 0xff]++;
        for (int64_t digit = 0, next = 0; digit < 256; digit++) {
            int64_t count = place[digit];
            place[digit] = next;
            next += count;
        }
        for (int64_t i = 0; i < n; i++) spare[place[items[i].key >> shift & 0xff]++] = items[i];
        ls_keyed *sorted = spare;
        spare = items;
        items = sorted;
    }
    return items;
}

/* ---- Keys ----------------------------------------------------------------------------------------------------- */

static inline uint64_t key_of_f32(float f)
{
    float no_negative_zero = f + 0.0f;
    uint32_t bits, negative;
    memcpy(&bits, &no_negative_zero, sizeof bits);
    negative = 0 - (bits >> 31);
    bits ^= negative | 0x80000000u; /* negative: flip all bits, which reverses their order; else only the sign */
    return f != f ? UINT32_MAX : bits;
}

static inline uint64_t key_of_f64(double f)
{
    double no_negative_zero = f + 0.0;
    uint64_t bits, negative;
    memcpy(&bits, &no_negative_zero, sizeof bits);
    negative = 0 - (bits >> 63);
    bits ^= negative | (uint64_t)1 << 63;
    return f != f ? UINT64_MAX : bits;
}

static inline uint64_t key_of_integer(int64_t i)
{
    return (uint64_t)i ^ (uint64_t)1 << 63;
}

static inline uint64_t key_of_bf16(ls_bf16 h)
{
    return key_of_f32(ls_bf16_to_f32(h));
}

static inline uint64_t key_of_f16(ls_f16 h)
{
    return key_of_f32(ls_f16_to_f32(h));
}

#define CHUNK 256

/* A full chunk has its own loop: compilers vectorise a constant trip count. */
#define KEYS(dtype, type, key_of)                                                                                      \
    case dtype: {                                                                                                      \
        const type *from = x;                                                                                          \
        if (n == CHUNK && stride == 1)                                                                                 \
            for (int i = 0; i < CHUNK; i++) keys[i] = flip ^ key_of(from[i]);                                          \
        else                                                                                                           \
            for (int64_t i = 0; i < n; i++) keys[i] = flip ^ key_of(from[i * stride]);                                 \
        break;                                                                                                         \
    }

/* keys[i] of element [i * stride] of x, n <= CHUNK; `flip` has all bits set for descending order. */
static void load_keys(uint64_t *restrict keys, const void *x, ls_dtype dtype, int64_t stride, int64_t n, uint64_t flip)
{
    switch (dtype) {
        KEYS(LS_BOOL, uint8_t, key_of_integer)
        KEYS(LS_U8, uint8_t, key_of_integer)
        KEYS(LS_I8, int8_t, key_of_integer)
        KEYS(LS_I32, int32_t, key_of_integer)
        KEYS(LS_I64, int64_t, key_of_integer)
        KEYS(LS_F16, ls_f16, key_of_f16)
        KEYS(LS_BF16, ls_bf16, key_of_bf16)
        KEYS(LS_F32, float, key_of_f32)
        KEYS(LS_F64, double, key_of_f64)
    default: break;
    }
}

/* ---- Lines ---------------------------------------------------------------------------------------------------- */

typedef struct ordering {
    ls_dtype dtype;
    ls_rows x, values, indices; /* lines along the dimension */
    int64_t wanted;             /* elements of a line in the output */
    int64_t room;               /* items kept at a time */
    uint64_t flip;
    atomic_bool out_of_memory;
} ordering;

/* The first `wanted` of a line in order. When the buffer is full only the best are kept, and from then on only elements
 * that beat the last of them are considered: of equal elements the earlier one stays. */
static const ls_keyed *order_line(const ordering *job, const char *x, ls_keyed *items, ls_keyed *spare)
{
    int64_t stride = job->x.inner_stride[0], n = job->x.length, kept = 0;
    uint64_t keys[CHUNK], most = UINT64_MAX; /* the largest key still of interest */
    for (int64_t begin = 0; begin < n; begin += CHUNK) {
        int64_t count = n - begin < CHUNK ? n - begin : CHUNK;
        load_keys(keys, x + begin * stride * (int64_t)job->x.size, job->dtype, stride, count, job->flip);
        for (int64_t i = 0; i < count; i++) {
            if (keys[i] > most) continue;
            if (kept == job->room) {
                ls_keyed *sorted = ls_order(items, spare, kept);
                spare = sorted == items ? spare : items;
                items = sorted;
                kept = job->wanted;
                if (items[kept - 1].key == 0) return items;
                most = items[kept - 1].key - 1;
                if (keys[i] > most) continue;
            }
            items[kept++] = (ls_keyed){keys[i], begin + i};
        }
    }
    return ls_order(items, spare, kept);
}

static void store_line(const ordering *job, const char *x, char *values, int64_t *indices, const ls_keyed *order)
{
    int64_t from = job->x.inner_stride[0], to = job->values.inner_stride[0], step = job->indices.inner_stride[0];
    int64_t n = job->wanted;
#define VALUES(bytes)                                                                                                  \
    case bytes:                                                                                                        \
        for (int64_t i = 0; i < n; i++) memcpy(values + i * to * bytes, x + order[i].index * from * bytes, bytes);     \
        break;
    switch (job->x.size) {
        VALUES(1)
        VALUES(2)
        VALUES(4)
        VALUES(8)
    }
#undef VALUES
    for (int64_t i = 0; i < n; i++) indices[i * step] = order[i].index;
}

static void order_lines(void *arg, ls_worker worker)
{
    ordering *job = arg;
    ls_keyed *items = ls_scratch(worker, 0, 2 * (size_t)job->room * sizeof *items);
    if (!items) {
        atomic_store(&job->out_of_memory, true);
        return;
    }
    int64_t line, end;
    ls_worker_range(worker, job->x.count, 1, &line, &end);
    for (; line < end; line++) {
        const char *x = ls_row_at(&job->x, line);
        const ls_keyed *order = order_line(job, x, items, items + job->room);
        store_line(job, x, ls_row_at(&job->values, line), (int64_t *)ls_row_at(&job->indices, line), order);
    }
}

/* The first `wanted` elements of each line; all, if negative. */
static ls_status order_along(const ls_call *call, int64_t wanted, ls_message *why)
{
    uint32_t dim = 1u << call->attrs.axis.dim;
    ordering job = {.dtype = call->in[0]->dtype, .flip = call->attrs.axis.flag ? UINT64_MAX : 0};
    job.x = ls_rows_of(call->in[0], dim);
    job.values = ls_rows_of(call->out[0], dim);
    job.indices = ls_rows_of(call->out[1], dim);
    int64_t n = job.x.length;
    job.wanted = wanted < 0 ? n : wanted;
    job.room = job.wanted > n / 4 ? n : job.wanted < 4 ? 8 : 2 * job.wanted;
    if (job.x.count == 0 || job.wanted == 0) return LS_OK;
    ls_parallel(order_lines, &job, ls_workers_for(4 * n * job.x.count));
    if (atomic_load(&job.out_of_memory))
        return ls_explain(why, LS_ERR_MEMORY, "no memory to order %lld elements", (long long)n);
    return LS_OK;
}

/* in: x  out: values (x's type), indices i64, both of x's shape.   axis: dim, flag = descending
 * Stable in both directions. */
ls_status ls_cpu_sort(const ls_call *call, ls_message *why)
{
    return order_along(call, -1, why);
}

/* in: x  out: values (x's type), indices i64, both of x's shape except k along dim.   axis: dim, k, flag = largest
 * Best first; of equal elements the one with the lowest index first. */
ls_status ls_cpu_topk(const ls_call *call, ls_message *why)
{
    return order_along(call, call->attrs.axis.k, why);
}
