/* jpeg.h - kernels of the JPEG decoder: blocks of coefficients to samples, samples to pixels.
 *
 * The arithmetic is that of libjpeg's accurate integer transform, its smooth ("fancy") enlargement of colour and its
 * conversion to RGB, so that pixels equal those of libjpeg. All ISAs give the same bytes. */
#ifndef LOCKSTEP_KERNELS_JPEG_H
#define LOCKSTEP_KERNELS_JPEG_H

#include <stddef.h>
#include <stdint.h>

enum { LS_JPEG_SLACK = 64 }; /* bytes past a row that kernels may read, and past the pixels that they may write */

/* 8 x 8 samples, `pitch` bytes from row to row, from 64 coefficients, multiplied by their steps. Both in row-major
 * order. Coefficients from index `used` on, in the zigzag order of files, are 0. */
typedef void ls_jpeg_samples_fn(uint8_t *samples, size_t pitch, const int16_t *coefficients, const int16_t *steps,
                                int used);
enum { LS_JPEG_CORNER = 10 }; /* that many zigzag coefficients lie in the upper left 4 x 4 */
/* The same picture in fewer samples: size x size, where size is 4, 2 or 1. */
typedef void ls_jpeg_few_samples_fn(uint8_t *samples, size_t pitch, const int16_t *coefficients, const int16_t *steps,
                                    int size);
/* 2n samples from n: each is 3/4 of the nearest plus 1/4 of the next. Reads x[-1] and x[n]. */
typedef void ls_jpeg_widen_fn(uint8_t *y, const uint8_t *x, int64_t n);
/* The same in both directions: rows weigh 3/4 (near) and 1/4 (far). Reads elements -1 and n of both. */
typedef void ls_jpeg_enlarge_fn(uint8_t *y, const uint8_t *near, const uint8_t *far, int64_t n);
/* n pixels from luma and two chroma channels. */
typedef void ls_jpeg_pixels_fn(uint8_t *rgb, const uint8_t *y, const uint8_t *cb, const uint8_t *cr, int64_t n);

typedef struct ls_jpeg_table {
    ls_jpeg_samples_fn *samples;
    ls_jpeg_few_samples_fn *few_samples;
    ls_jpeg_widen_fn *widen;
    ls_jpeg_enlarge_fn *enlarge;
    ls_jpeg_pixels_fn *pixels;
} ls_jpeg_table;

/* The table in use. */
const ls_jpeg_table *ls_jpeg_kernels(void);

extern const ls_jpeg_table ls_jpeg_ref, ls_jpeg_neon, ls_jpeg_avx2;

/* ---- The transform of 8 numbers, rows and columns alike (Loeffler, Ligtenberg, Moschytz), as sums of products ----
 *
 *     even:  e1 = A x2 + B x6        e2 = B x2 - C x6
 *     odd:   s = x7 + x3             t = x5 + x1             p = E t - D s           q = E s + F t
 *            o1 = I x1 - H x7 + q    o3 = L x3 - K x5 + p    o5 = q - J x5 - K x3    o7 = p - G x7 - H x1
 *     y0, y7 = x0 + x4 + e1 +- o1    y1, y6 = x0 - x4 + e2 +- o3
 *     y3, y4 = x0 + x4 - e1 +- o7    y2, y5 = x0 - x4 - e2 +- o5
 *
 * Constants have 13 fractional bits. Columns come first and keep 2 bits more than they need; rows drop these and 3
 * more, which the definition of the transform wants. */
enum {
    LS_DCT_A = 10703,
    LS_DCT_B = 4433,
    LS_DCT_C = 10704,
    LS_DCT_D = 6436,
    LS_DCT_E = 9633,
    LS_DCT_F = 6437,
    LS_DCT_G = 4927,
    LS_DCT_H = 7373,
    LS_DCT_I = 4926,
    LS_DCT_J = 4176,
    LS_DCT_K = 20995,
    LS_DCT_L = 4177,
    LS_DCT_BITS = 13,
    LS_DCT_COLUMN_SHIFT = LS_DCT_BITS - 2,
    LS_DCT_ROW_SHIFT = LS_DCT_BITS + 2 + 3,
};

#endif
