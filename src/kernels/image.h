/* image.h - kernels on rows of pictures: bytes, three to a pixel.
 *
 * Scaling is Pillow's: along the row, then down the columns, each a weighted sum in 32-bit integers with weights of
 * LS_IMAGE_WEIGHT_BITS fractional bits, rounded to nearest and clamped to a byte. All ISAs give the same bytes. */
#ifndef LOCKSTEP_KERNELS_IMAGE_H
#define LOCKSTEP_KERNELS_IMAGE_H

#include <stdint.h>

enum {
    LS_IMAGE_WEIGHT_BITS = 22,
    LS_IMAGE_TAPS = 4,   /* taps along a row are padded to a multiple of this, with weight 0 */
    LS_IMAGE_SLACK = 64, /* bytes past a row that kernels may read, and `across` may write */
};

/* n pixels of y, each from `taps` pixels of x: pixel i starts at byte first[i] and has weights weight[i * taps ...]. */
typedef void ls_image_across_fn(uint8_t *y, const uint8_t *x, const int32_t *first, const int32_t *weight, int64_t taps,
                                int64_t n);
/* n bytes of y: byte i from byte i of each of `taps` rows. */
typedef void ls_image_down_fn(uint8_t *y, const uint8_t *const *row, const int32_t *weight, int64_t taps, int64_t n);
/* y = x / 255, correctly rounded. */
typedef void ls_image_to_float_fn(float *y, const uint8_t *x, int64_t n);

typedef struct ls_image_table {
    ls_image_across_fn *across;
    ls_image_down_fn *down;
    ls_image_to_float_fn *to_float;
} ls_image_table;

/* The table in use. */
const ls_image_table *ls_image_kernels(void);

extern const ls_image_table ls_image_ref, ls_image_neon, ls_image_avx2;

#endif
