/* attention.h - softmax(q k^T scale + mask), dropout, times v; and its gradients; one head at a time.
 *
 * A kernel works on the matrices of one head (forward) or of the query heads that share one key head (backward), and
 * keeps no more than a cache-sized piece of the scores. Results do not depend on how callers cut the work: every value
 * is summed in the same order whatever range of queries or keys is requested. */
#ifndef LOCKSTEP_KERNELS_ATTENTION_H
#define LOCKSTEP_KERNELS_ATTENTION_H

#include "base/rng.h"

#include <lockstep/plugin.h>

/* A matrix of contiguous rows, `row` elements apart, once per head of a group, `head` elements apart. */
typedef struct ls_attention_matrix {
    void *data; /* NULL: absent input, or output not wanted */
    int64_t row, head;
} ls_attention_matrix;

/* Added to the scores: [queries, keys] per head, any strides (0 repeats). Bool: true lets a query see a key. */
typedef struct ls_attention_mask {
    const void *data; /* NULL: none */
    ls_dtype dtype;   /* LS_BOOL or any floating type */
    int64_t head, row, step;
} ls_attention_mask;

/* One problem. Matrices have the kernel's element type; lse is f64 for f64, else f32. */
typedef struct ls_attention_task {
    int64_t queries, keys, depth, value_depth;
    int64_t group; /* heads of q that share k and v; 1 in forward */
    double scale;
    bool causal; /* query i sees keys j <= i */
    ls_attention_mask mask;

    /* Score [i, j] of head h is element `first` + h * drawn_head + i * drawn_row + j of the tensor that dropout draws
     * at `offset`: that of the whole batch, whose rows may be longer than this problem has keys. */
    uint32_t drop_below; /* elements whose random bits are below this are dropped; 0: no dropout */
    double keep_scale;   /* 1 / (1 - p) */
    uint64_t seed, offset, first;
    int64_t drawn_row, drawn_head;

    ls_attention_matrix q, k, v; /* [queries, depth], [keys, depth], [keys, value_depth] */
    ls_attention_matrix o;       /* [queries, value_depth] */
    /* Which scores dropout kept, so that backward need not draw again: a bit per score, rows of whole bytes. NULL: draw
     * again. Private to the kernels; some ignore it. */
    ls_attention_matrix kept;
    ls_attention_matrix lse; /* log of the sum of exponentials of each query's scores; row 1 apart is contiguous */

    ls_attention_matrix d_o;        /* like o */
    ls_attention_matrix dq, dk, dv; /* like q, k, v */
} ls_attention_task;

/* Bytes of a row of `kept`. */
static inline int64_t ls_attention_kept_bytes(int64_t keys)
{
    return (keys + 63) / 64 * 8;
}

/* Parts begin at multiples of this. */
#define LS_ATTENTION_CUT 48

/* The part of a problem to compute. */
typedef struct ls_attention_part {
    int64_t query_begin, query_end, key_begin, key_end;
    const ls_attention_task *next; /* what this thread computes next, worth prefetching; NULL: unknown */
} ls_attention_part;

typedef struct ls_attention_kernel {
    /* Bytes of scratch memory that one call needs. */
    size_t (*forward_scratch)(const ls_attention_task *problem);
    size_t (*backward_scratch)(const ls_attention_task *problem, const ls_attention_part *part);
    /* Write o and (unless NULL) lse of the queries of the part; its keys are all of them. */
    void (*forward)(const ls_attention_task *problem, const ls_attention_part *part, void *scratch);
    /* Write dq of the part's queries (the part must then have all keys), and dk and dv of the part's keys (the part
     * must then have all queries). */
    void (*backward)(const ls_attention_task *problem, const ls_attention_part *part, void *scratch);
} ls_attention_kernel;

typedef struct ls_attention_table {
    const ls_attention_kernel *f32, *f64;
    const ls_attention_kernel *bf16; /* NULL: widen to f32 */
} ls_attention_table;

/* Tables per ISA; a NULL entry keeps that of the lower ISA. */
extern const ls_attention_table ls_attention_ref, ls_attention_neon, ls_attention_neon_bf16;
extern const ls_attention_table ls_attention_avx2, ls_attention_avx512, ls_attention_avx512_bf16, ls_attention_amx;

/* The table of this CPU. */
const ls_attention_table *ls_attention_kernels(void);

/* bias[j] = value added to the score of query i and key begin + j, for j in [0, count): that of the mask, or -infinity
 * where mask or causality hide the key. In f32, finite values of a mask are at most LS_ATTENTION_MOST_BIAS. */
void ls_attention_bias(const ls_attention_task *problem, int64_t head, int64_t query, int64_t begin, int64_t count,
                       float *bias);
void ls_attention_bias_f64(const ls_attention_task *problem, int64_t head, int64_t query, int64_t begin, int64_t count,
                           double *bias);

/* Index of a score among all elements that dropout draws for. */
static inline uint64_t ls_attention_element(const ls_attention_task *problem, int64_t head, int64_t query, int64_t key)
{
    return problem->first + (uint64_t)(head * problem->drawn_head + query * problem->drawn_row + key);
}

/* Does dropout keep this element? */
static inline bool ls_attention_keeps(const ls_attention_task *problem, uint64_t element)
{
    return ls_philox(problem->seed, problem->offset + element / 4).lane[element % 4] >= problem->drop_below;
}

/* Where weights are powers of scores from which nothing was subtracted: have products of a query's weights with large
 * values overflowed? Their sum is `total`; what cannot overflow with values of up to 2^112 is not looked at. */
static inline bool ls_attention_overflows(float total, const float *row, int64_t n)
{
    float beyond = 0;
    for (int64_t i = 0; total > 0x1p16f && i < n; i++) beyond += row[i] * 0; /* NaN, where a number is not finite */
    return beyond != 0;
}

#endif
