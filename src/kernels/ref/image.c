/* ref/image.c - rows of pictures in plain scalar C. */
#include "kernels/image.h"

static uint8_t rounded(int32_t sum)
{
    int32_t level = (sum + (1 << (LS_IMAGE_WEIGHT_BITS - 1))) >> LS_IMAGE_WEIGHT_BITS;
    return (uint8_t)(level < 0 ? 0 : level > 255 ? 255 : level);
}

static void across(uint8_t *y, const uint8_t *x, const int32_t *first, const int32_t *weight, int64_t taps, int64_t n)
{
    for (int64_t i = 0; i < n; i++, y += 3, weight += taps) {
        const uint8_t *pixel = x + first[i];
        int32_t sum[3] = {0};
        for (int64_t k = 0; k < taps; k++, pixel += 3)
            for (int c = 0; c < 3; c++) sum[c] += pixel[c] * weight[k];
        for (int c = 0; c < 3; c++) y[c] = rounded(sum[c]);
    }
}

static void down(uint8_t *y, const uint8_t *const *row, const int32_t *weight, int64_t taps, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int32_t sum = 0;
        for (int64_t k = 0; k < taps; k++) sum += row[k][i] * weight[k];
        y[i] = rounded(sum);
    }
}

static void to_float(float *y, const uint8_t *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = (float)x[i] / 255;
}

const ls_image_table ls_image_ref = {.across = across, .down = down, .to_float = to_float};
