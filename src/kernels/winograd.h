/* winograd.h - 3x3 convolutions with fewer than 36 products for four points, after Winograd: 16, or 25 with a stride.
 *
 * Without stride, F(2x2, 3x3):
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
 * With a stride of two, points share one pixel of five in each dimension, whose products they can share, too:
 *
 *     y0 = w0 x0 + w1 x1 + w2 x2  =  [w0 (x0 - x2) + w1 x1] + [(w0 + w2) x2]
 *     y1 = w0 x2 + w1 x3 + w2 x4  =                           [(w0 + w2) x2] + [w1 x3 + w2 (x4 - x2)]
 *
 * In two dimensions, 25 terms of 5 x 5 pixels are multiplied with 25 of the weights. What is in brackets is added up by
 * the product over channels itself, as more of these, so that just 3 x 3 sums are left. Terms are numbered sum by sum.
 *
 * In between, each of the numbers of a tile is a vector of channels, and "*" a matrix product over them. Kernels
 * transform lines of n channels in f32. Every ISA adds in the same order: results are the same. */
#ifndef LOCKSTEP_KERNELS_WINOGRAD_H
#define LOCKSTEP_KERNELS_WINOGRAD_H

#include <lockstep/base.h>

#define LS_WINOGRAD_POINTS 2                                    /* of the result of a tile, along a side */
#define LS_WINOGRAD_SIDE 4                                      /* of a tile, without stride */
#define LS_WINOGRAD_TERMS (LS_WINOGRAD_SIDE * LS_WINOGRAD_SIDE) /* of that, row by row */
#define LS_WINOGRAD_MOST_TERMS 25                               /* of a tile of any form */
#define LS_WINOGRAD_MOST_SUMS LS_WINOGRAD_TERMS

/* What convolutions of one stride are made of. */
typedef struct ls_winograd_form {
    int stride;                           /* pixels from point to point, in both dimensions */
    int side;                             /* of a tile, in pixels */
    int terms;                            /* of a tile, side * side, and of the weights */
    int sums;                             /* of products of these */
    int first[LS_WINOGRAD_MOST_SUMS + 1]; /* sum i is of terms [first[i], first[i + 1]) */
} ls_winograd_form;

extern const ls_winograd_form ls_winograd_unstrided, ls_winograd_strided;

/* The form of a stride; NULL: there is none. */
const ls_winograd_form *ls_winograd_form_of(const int64_t stride[2]);

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
    /* With a stride: the 25 terms of 25 lines of pixels, of 9 lines of weights; and points of the 9 sums. */
    void (*strided_pixels)(float *term, int64_t distance, const float *const *pixel, int64_t n);
    void (*strided_weights)(float *term, int64_t distance, const float *const *tap, int64_t n);
    void (*strided_points)(float *const *point, const float *sum, int64_t distance, int64_t n);
} ls_winograd_table;

/* The table in use. */
const ls_winograd_table *ls_winograd(void);

/* Of that, what a form takes. */
typedef struct ls_winograd_transforms {
    void (*pixels)(float *term, int64_t distance, const float *const *pixel, int64_t n);
    void (*weights)(float *term, int64_t distance, const float *const *tap, int64_t n);
    void (*points)(float *const *point, const float *sum, int64_t distance, int64_t n);
} ls_winograd_transforms;

ls_winograd_transforms ls_winograd_transforms_of(const ls_winograd_form *form);

extern const ls_winograd_table ls_winograd_ref, ls_winograd_neon, ls_winograd_avx2, ls_winograd_avx512;

#endif
