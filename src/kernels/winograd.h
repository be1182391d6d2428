/* winograd.h - 3x3 convolutions with 16 products for four points instead of 36, after Winograd: F(2x2, 3x3).
 *
 *     y = At [(G w Gt) * (Bt x B)] A      x: 4 x 4 pixels    w: 3 x 3 taps    y: 2 x 2 points
 *
 *          1  0 -1  0             1    0    0
 *     Bt = 0  1  1  0       G =   1/2  1/2  1/2       At = 1  1  1  0
 *          0 -1  1  0             1/2 -1/2  1/2            0  1 -1 -1
 *          0  1  0 -1             0    0    1
 *
 * The gradient of the weights, from that of y, needs as few:  dw = Gt [(A dy At) * (Bt x B)] G
 *
 * In between, each of the 16 numbers of a tile is a vector of channels, and "*" a matrix product over them. Kernels
 * transform lines of n channels in f32. Every ISA adds in the same order: results are the same. */
#ifndef LOCKSTEP_KERNELS_WINOGRAD_H
#define LOCKSTEP_KERNELS_WINOGRAD_H

#include <lockstep/base.h>

#define LS_WINOGRAD_SIDE 4                                      /* of a tile */
#define LS_WINOGRAD_POINTS 2                                    /* of its result, along a side */
#define LS_WINOGRAD_TERMS (LS_WINOGRAD_SIDE * LS_WINOGRAD_SIDE) /* of a tile, row by row */

typedef struct ls_winograd_table {
    /* Bt x B: the terms, `distance` elements apart, of 16 lines of pixels. */
    void (*pixels)(float *term, int64_t distance, const float *const *pixel, int64_t n);
    /* G w Gt: the same of 9 lines of weights. */
    void (*weights)(float *term, int64_t distance, const float *const *tap, int64_t n);
    /* At m A: 4 lines of points of the terms of their products. */
    void (*points)(float *const *point, const float *term, int64_t distance, int64_t n);
    /* A dy At: the terms of 4 lines of gradients of points. */
    void (*dpoints)(float *term, int64_t distance, const float *const *dpoint, int64_t n);
    /* Gt m G: 9 lines of gradients of taps, of the terms of sums of products. */
    void (*dweights)(float *const *dtap, const float *term, int64_t distance, int64_t n);
} ls_winograd_table;

/* The table in use. */
const ls_winograd_table *ls_winograd(void);

extern const ls_winograd_table ls_winograd_ref, ls_winograd_neon, ls_winograd_avx2, ls_winograd_avx512;

#endif
