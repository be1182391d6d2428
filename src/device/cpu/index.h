/* index.h - shared by operators with an index tensor. Indices are i64 or i32; they are read as i64, in chunks, and a
 * negative or too large one is an error. */
#ifndef LOCKSTEP_DEVICE_CPU_INDEX_H
#define LOCKSTEP_DEVICE_CPU_INDEX_H

#include <lockstep/plugin.h>

#define LS_INDEX_CHUNK 256   /* indices processed together */
#define LS_INDEX_GRAIN 16384 /* least elements per worker */

/* LS_ERR_VALUE, naming the first one, if an index is not in [0, limit). */
ls_status ls_index_check(const ls_operand *index, int64_t limit, ls_message *why);

static inline int64_t ls_index_chunk_end(int64_t begin, int64_t end)
{
    return end - begin < LS_INDEX_CHUNK ? end : begin + LS_INDEX_CHUNK;
}

/* n indices, at most a chunk, starting at `at` and `step` apart: in place, or converted into `buffer`. */
static inline const int64_t *ls_indices(const ls_operand *index, int64_t at, int64_t step, int64_t n,
                                        int64_t buffer[LS_INDEX_CHUNK])
{
    const int64_t *wide = (const int64_t *)index->data + at;
    const int32_t *narrow = (const int32_t *)index->data + at;
    if (index->dtype == LS_I64 && (step == 1 || n == 1)) return wide;
    for (int64_t i = 0; i < n; i++) buffer[i] = index->dtype == LS_I64 ? wide[i * step] : narrow[i * step];
    return buffer;
}

static inline void *ls_element_at(const ls_operand *operand, int64_t at)
{
    return (char *)operand->data + at * (int64_t)ls_dtype_size(operand->dtype);
}

#endif
