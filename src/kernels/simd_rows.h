/* simd_rows.h - rows of f32, bf16 or f16 read and written as f32 vectors, for kernel bodies that serve all three.
 *
 * Callers pass `type` as a constant, and `lanes` too except at the end of a row: after inlining, one load or store
 * remains. */
#ifndef LOCKSTEP_KERNELS_SIMD_ROWS_H
#define LOCKSTEP_KERNELS_SIMD_ROWS_H

#include "kernels/element.h"
#include "kernels/simd.h"

/* Elements i .. i+lanes-1 of data; lanes beyond are 0. */
LS_SIMD ls_vf ls_vf_get(ls_dtype type, const void *data, int64_t i, int64_t lanes)
{
    if (type == LS_F32) {
        const float *p = (const float *)data + i;
        return lanes == LS_VF_LANES ? ls_vf_load(p) : ls_vf_load_part(p, lanes);
    }
    const uint16_t *p = (const uint16_t *)data + i;
    if (type == LS_BF16) return lanes == LS_VF_LANES ? ls_vf_load_bf16(p) : ls_vf_load_bf16_part(p, lanes);
    return lanes == LS_VF_LANES ? ls_vf_load_f16(p) : ls_vf_load_f16_part(p, lanes);
}

LS_SIMD void ls_vf_put(ls_dtype type, void *data, int64_t i, ls_vf x, int64_t lanes)
{
    if (type == LS_F32) {
        float *p = (float *)data + i;
        if (lanes == LS_VF_LANES) ls_vf_store(p, x);
        else ls_vf_store_part(p, x, lanes);
        return;
    }
    uint16_t *p = (uint16_t *)data + i;
    if (type == LS_BF16) {
        if (lanes == LS_VF_LANES) ls_vf_store_bf16(p, x);
        else ls_vf_store_bf16_part(p, x, lanes);
    } else {
        if (lanes == LS_VF_LANES) ls_vf_store_f16(p, x);
        else ls_vf_store_f16_part(p, x, lanes);
    }
}

/* Run statements for every vector of a row of n elements: `i` is its first element, `lanes` its length (less than
 * LS_VF_LANES only at the end), and `u` counts 0 .. 3 while vectors come four at a time, so that sums can be kept in
 * four independent parts; at the end it is 0. */
#define LS_EACH_VECTOR(i, lanes, u, n, ...)                                                                            \
    LS_EACH_FOUR(                                                                                                      \
        first_, lanes, count_, n, LS_UNROLL for (int u = 0; u < count_; u++) {                                         \
            const int64_t i = first_ + u * LS_VF_LANES;                                                                \
            __VA_ARGS__                                                                                                \
        })

/* The same for statements that take four vectors at once: `count` is 4, and 1 at the end. */
#define LS_EACH_FOUR(i, lanes, count, n, ...)                                                                          \
    do {                                                                                                               \
        int64_t i = 0;                                                                                                 \
        for (; i + 4 * LS_VF_LANES <= (n); i += 4 * LS_VF_LANES) {                                                     \
            const int64_t lanes = LS_VF_LANES;                                                                         \
            enum { count = 4 };                                                                                        \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
        for (; i + LS_VF_LANES <= (n); i += LS_VF_LANES) {                                                             \
            const int64_t lanes = LS_VF_LANES;                                                                         \
            enum { count = 1 };                                                                                        \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
        if (i < (n)) {                                                                                                 \
            const int64_t lanes = (n)-i;                                                                               \
            enum { count = 1 };                                                                                        \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    } while (0)

/* `count` vectors at once, from element i on. */
LS_SIMD void ls_vf_get4(ls_vf *v, ls_dtype type, const void *data, int64_t i, int64_t lanes, int count)
{
    if (type == LS_BF16 && count == 4) {
        ls_vf_load2_bf16((const uint16_t *)data + i, v);
        ls_vf_load2_bf16((const uint16_t *)data + i + 2 * LS_VF_LANES, v + 2);
        return;
    }
    LS_UNROLL for (int u = 0; u < count; u++) v[u] = ls_vf_get(type, data, i + u * LS_VF_LANES, lanes);
}

LS_SIMD void ls_vf_put4(ls_dtype type, void *data, int64_t i, const ls_vf *v, int64_t lanes, int count)
{
    if (type == LS_BF16 && count == 4) {
        ls_vf_store2_bf16((uint16_t *)data + i, v);
        ls_vf_store2_bf16((uint16_t *)data + i + 2 * LS_VF_LANES, v + 2);
        return;
    }
    LS_UNROLL for (int u = 0; u < count; u++) ls_vf_put(type, data, i + u * LS_VF_LANES, v[u], lanes);
}

/* The same, past the caches where that is possible: data is then a multiple of 64 bytes, and ls_stream_end() must
 * follow before other threads may look. */
LS_SIMD void ls_vf_stream4(ls_dtype type, void *data, int64_t i, const ls_vf *v, int64_t lanes, int count)
{
    if (type == LS_BF16 && count == 4) {
        ls_vf_stream2_bf16((uint16_t *)data + i, v);
        ls_vf_stream2_bf16((uint16_t *)data + i + 2 * LS_VF_LANES, v + 2);
    } else if (type == LS_F32 && count == 4) {
        LS_UNROLL for (int u = 0; u < count; u++) ls_vf_stream((float *)data + i + u * LS_VF_LANES, v[u]);
    } else {
        ls_vf_put4(type, data, i, v, lanes, count);
    }
}

/* Past the caches or, unless `stream`, as usual. */
LS_SIMD void ls_vf_write4(ls_dtype type, void *data, int64_t i, const ls_vf *v, int64_t lanes, int count, bool stream)
{
    if (stream) ls_vf_stream4(type, data, i, v, lanes, count);
    else ls_vf_put4(type, data, i, v, lanes, count);
}

/* Prefetch these lines into L2. Of results, too: a line is read before it is written. */
LS_SIMD void ls_fetch_lines(const void *data, int64_t bytes)
{
    for (int64_t line = 0; line < bytes; line += 64) __builtin_prefetch((const char *)data + line, 0, 2);
}

/* The lines of `count` vectors that lie `ahead` bytes after element i. For kernels that pass over rows repeatedly, or
 * over many at a time, where hardware cannot predict the next address. */
#define LS_AHEAD 16384 /* bytes: a few rows, more than the memory latency */

LS_SIMD void ls_read_ahead(ls_dtype type, const void *data, int64_t i, int count, int64_t ahead)
{
    const int64_t bytes = type == LS_F32 ? 4 : 2;
    ls_fetch_lines((const char *)data + i * bytes + ahead, count * LS_VF_LANES * bytes);
}

/* The same where vectors are so wide that a core has used what hardware fetched before more of it comes. */
LS_SIMD void ls_read_ahead_wide(ls_dtype type, const void *data, int64_t i, int count, int64_t ahead)
{
    if (LS_VF_LANES >= 16) ls_read_ahead(type, data, i, count, ahead);
}

/* All-ones in the first n lanes. */
LS_SIMD ls_vi ls_vi_first(int64_t n)
{
    ls_vi index = {0};
    for (int32_t i = 0; i < LS_VF_LANES; i++) index[i] = i;
    return index < (int32_t)n;
}

/* A row of a matrix; NULL where it is absent. */
LS_SIMD void *ls_matrix_row(ls_dtype type, ls_matrix m, int64_t row)
{
    return m.data ? (char *)m.data + row * m.pitch * (type == LS_F32 ? 4 : 2) : NULL;
}

/* Sum of four vectors' lanes, as a tree. */
LS_SIMD float ls_vf_sum4(const ls_vf v[4])
{
    return ls_vf_sum((v[0] + v[1]) + (v[2] + v[3]));
}

#endif
