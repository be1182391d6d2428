/* elementwise.h - functions of single elements over contiguous arrays, and conversions between number types.
 *
 * All inputs of a map have one number type; its result has the same, or is bool. Half types are computed in f32 and
 * rounded once. p[0] is the result, p[1] .. the inputs; an input may be the result itself. k holds up to two scalar
 * arguments of the operator; NULL if it has none. */
#ifndef LOCKSTEP_KERNELS_ELEMENTWISE_H
#define LOCKSTEP_KERNELS_ELEMENTWISE_H

#include <lockstep/base.h>

/* LS_MAP(name, inputs, result, numbers, cost)
 * result   SAME type as the inputs, or BOOL
 * numbers  ALL number types, or only the FLOAT ones
 * cost     nanoseconds of one core for 1,000 elements, roughly: decides from what size on threads pay */
#define LS_MAP_LIST(LS_MAP)                                                                                            \
    LS_MAP(add, 2, SAME, ALL, 250)                                                                                     \
    LS_MAP(sub, 2, SAME, ALL, 250)                                                                                     \
    LS_MAP(mul, 2, SAME, ALL, 250)                                                                                     \
    LS_MAP(div, 2, SAME, FLOAT, 400)                                                                                   \
    LS_MAP(pow, 2, SAME, ALL, 30000)                                                                                   \
    LS_MAP(maximum, 2, SAME, ALL, 250)                                                                                 \
    LS_MAP(minimum, 2, SAME, ALL, 250)                                                                                 \
    LS_MAP(remainder, 2, SAME, ALL, 8000)                                                                              \
    LS_MAP(eq, 2, BOOL, ALL, 250)                                                                                      \
    LS_MAP(ne, 2, BOOL, ALL, 250)                                                                                      \
    LS_MAP(lt, 2, BOOL, ALL, 250)                                                                                      \
    LS_MAP(le, 2, BOOL, ALL, 250)                                                                                      \
    LS_MAP(gt, 2, BOOL, ALL, 250)                                                                                      \
    LS_MAP(ge, 2, BOOL, ALL, 250)                                                                                      \
    LS_MAP(logical_and, 2, BOOL, ALL, 250)                                                                             \
    LS_MAP(logical_or, 2, BOOL, ALL, 250)                                                                              \
    LS_MAP(affine, 1, SAME, ALL, 200)       /* x k[0] + k[1] */                                                        \
    LS_MAP(pow_scalar, 1, SAME, ALL, 30000) /* x to the power k[0] */                                                  \
    LS_MAP(clamp, 1, SAME, ALL, 200)        /* to [k[0], k[1]] */                                                      \
    LS_MAP(neg, 1, SAME, ALL, 200)                                                                                     \
    LS_MAP(abs, 1, SAME, ALL, 200)                                                                                     \
    LS_MAP(sign, 1, SAME, ALL, 200)                                                                                    \
    LS_MAP(exp, 1, SAME, FLOAT, 1500)                                                                                  \
    LS_MAP(log, 1, SAME, FLOAT, 2000)                                                                                  \
    LS_MAP(sqrt, 1, SAME, FLOAT, 800)                                                                                  \
    LS_MAP(rsqrt, 1, SAME, FLOAT, 1500)                                                                                \
    LS_MAP(square, 1, SAME, ALL, 200)                                                                                  \
    LS_MAP(cube, 1, SAME, ALL, 200)                                                                                    \
    LS_MAP(reciprocal, 1, SAME, FLOAT, 400)                                                                            \
    LS_MAP(sin, 1, SAME, FLOAT, 20000)                                                                                 \
    LS_MAP(cos, 1, SAME, FLOAT, 20000)                                                                                 \
    LS_MAP(erf, 1, SAME, FLOAT, 1500)                                                                                  \
    LS_MAP(floor, 1, SAME, ALL, 200)                                                                                   \
    LS_MAP(ceil, 1, SAME, ALL, 200)                                                                                    \
    LS_MAP(logical_not, 1, BOOL, ALL, 200)                                                                             \
    LS_MAP(isfinite, 1, BOOL, ALL, 200)                                                                                \
    LS_MAP(relu, 1, SAME, ALL, 200)                                                                                    \
    LS_MAP(gelu, 1, SAME, FLOAT, 1500)                                                                                 \
    LS_MAP(gelu_tanh, 1, SAME, FLOAT, 2000)                                                                            \
    LS_MAP(silu, 1, SAME, FLOAT, 2000)                                                                                 \
    LS_MAP(sigmoid, 1, SAME, FLOAT, 2000)                                                                              \
    LS_MAP(tanh, 1, SAME, FLOAT, 2000)                                                                                 \
    LS_MAP(softplus, 1, SAME, FLOAT, 3000)  /* beta k[0] */                                                            \
    LS_MAP(elu, 1, SAME, FLOAT, 2000)       /* alpha k[0] */                                                           \
    LS_MAP(leaky_relu, 1, SAME, FLOAT, 200) /* slope k[0] */                                                           \
    LS_MAP(relu_grad, 2, SAME, FLOAT, 250)  /* from here on x is dy; y the output ... */                               \
    LS_MAP(sigmoid_grad, 2, SAME, FLOAT, 300)                                                                          \
    LS_MAP(tanh_grad, 2, SAME, FLOAT, 300)                                                                             \
    LS_MAP(gelu_grad, 2, SAME, FLOAT, 2000) /* ... or the input of the function */                                     \
    LS_MAP(gelu_tanh_grad, 2, SAME, FLOAT, 3000)                                                                       \
    LS_MAP(silu_grad, 2, SAME, FLOAT, 2000)                                                                            \
    LS_MAP(softplus_grad, 2, SAME, FLOAT, 2000)                                                                        \
    LS_MAP(elu_grad, 2, SAME, FLOAT, 2000)                                                                             \
    LS_MAP(leaky_relu_grad, 2, SAME, FLOAT, 250)                                                                       \
    LS_MAP(clamp_grad, 2, SAME, FLOAT, 250)

typedef enum ls_map {
#define LS_MAP(name, inputs, result, numbers, cost) LS_MAP_##name,
    LS_MAP_LIST(LS_MAP)
#undef LS_MAP
        LS_MAP_COUNT
} ls_map;

typedef void ls_map_fn(int64_t n, void *const *p, const double *k);

/* Elements [first, first + n) of a tensor, counted in row-major order, with the random words of base/rng.h. */
typedef struct ls_dropout_rule {
    uint64_t seed, offset;
    double p; /* of being zeroed; the rest is multiplied by 1 / (1 - p) */
    /* A bit per element, starting at `first`, in whole groups. note: where to record which elements are kept; noted:
     * use this record instead of drawing. NULL: neither. With either, `first` must begin a group. */
    uint8_t *note;
    const uint8_t *noted;
} ls_dropout_rule;
#define LS_DROPOUT_GROUP 256
typedef void ls_dropout_fn(int64_t n, int64_t first, void *out, const void *x, const ls_dropout_rule *how);

/* The four words of each of `blocks` Philox blocks, starting at `counter`. */
typedef void ls_words_fn(int64_t blocks, uint64_t seed, uint64_t counter, uint32_t *word);

/* out[c, r] = in[r, c] for elements of one size; strides of rows in elements. */
typedef void ls_transpose_fn(int64_t rows, int64_t columns, void *out, int64_t out_stride, const void *in,
                             int64_t in_stride);

typedef struct ls_elementwise {
    ls_map_fn *map[LS_MAP_COUNT][LS_DTYPE_COUNT];       /* by input type; NULL: type not supported */
    ls_map_fn *convert[LS_DTYPE_COUNT][LS_DTYPE_COUNT]; /* [from][to]; p[0] result, p[1] source */
    ls_map_fn *where[LS_DTYPE_COUNT];                   /* p[1] condition (bool), p[2], p[3] */
    ls_dropout_fn *dropout[LS_DTYPE_COUNT];             /* floating types */
    ls_transpose_fn *transpose[LS_DTYPE_COUNT];         /* only the element size matters */
    ls_words_fn *words;
} ls_elementwise;

const ls_elementwise *ls_elementwise_kernels(void);

/* Tables per ISA. */
extern const ls_elementwise ls_elementwise_ref, ls_elementwise_neon, ls_elementwise_neon_bf16, ls_elementwise_avx2,
    ls_elementwise_avx512, ls_elementwise_avx512_bf16;

/* Threshold t such that u = word >> 8 (24 bits) satisfies u / 2^24 >= p exactly if u >= t. */
static inline uint32_t ls_dropout_threshold(double p)
{
    double scaled = p * 0x1p24;
    uint32_t whole = (uint32_t)scaled;
    return whole + (scaled > whole);
}

#endif
