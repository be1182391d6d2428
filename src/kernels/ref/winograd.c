/* winograd.c - reference transforms of 3x3 convolutions. */
#include "kernels/winograd.h"

typedef float number;
#include "kernels/winograd_math.h"

static void pixels(float *term, int64_t distance, const float *const *pixel, int64_t n)
{
    for (int64_t c = 0; c < n; c++) {
        float x[4][4];
        EACH(i, 16) x[i / 4][i % 4] = pixel[i][c];
        transform_pixels(x);
        EACH(i, 16) term[i * distance + c] = x[i / 4][i % 4];
    }
}

static void weights(float *term, int64_t distance, const float *const *tap, int64_t n)
{
    for (int64_t c = 0; c < n; c++) {
        float w[3][3], to[4][4];
        EACH(i, 9) w[i / 3][i % 3] = tap[i][c];
        transform_weights(w, to);
        EACH(i, 16) term[i * distance + c] = to[i / 4][i % 4];
    }
}

static void points(float *const *point, const float *term, int64_t distance, int64_t n)
{
    for (int64_t c = 0; c < n; c++) {
        float m[4][4], to[2][2];
        EACH(i, 16) m[i / 4][i % 4] = term[i * distance + c];
        transform_products(m, to);
        EACH(i, 4) point[i][c] = to[i / 2][i % 2];
    }
}

static void dpoints(float *term, int64_t distance, const float *const *dpoint, int64_t n)
{
    for (int64_t c = 0; c < n; c++) {
        float dy[2][2], to[4][4];
        EACH(i, 4) dy[i / 2][i % 2] = dpoint[i][c];
        transform_gradients(dy, to);
        EACH(i, 16) term[i * distance + c] = to[i / 4][i % 4];
    }
}

static void dweights(float *const *dtap, const float *term, int64_t distance, int64_t n)
{
    for (int64_t c = 0; c < n; c++) {
        float m[4][4], to[3][3];
        EACH(i, 16) m[i / 4][i % 4] = term[i * distance + c];
        transform_sums(m, to);
        EACH(i, 9) dtap[i][c] = to[i / 3][i % 3];
    }
}

static void strided_pixels(float *term, int64_t distance, const float *const *pixel, int64_t n)
{
    for (int64_t c = 0; c < n; c++) {
        float x[5][5];
        EACH(i, 25) x[i / 5][i % 5] = pixel[i][c];
        transform_strided_row(x[2], NULL);
        EACH(i, 5)
        {
            if (i != 2) transform_strided_row(x[i], i % 2 ? NULL : x[2]);
        }
        EACH(i, 25) term[strided_term[i / 5][i % 5] * distance + c] = x[i / 5][i % 5];
    }
}

static void strided_weights(float *term, int64_t distance, const float *const *tap, int64_t n)
{
    for (int64_t c = 0; c < n; c++) {
        float w[3][3], to[5][5];
        EACH(i, 9) w[i / 3][i % 3] = tap[i][c];
        transform_strided_weights(w, to);
        EACH(i, 25) term[strided_term[i / 5][i % 5] * distance + c] = to[i / 5][i % 5];
    }
}

static void strided_points(float *const *point, const float *sum, int64_t distance, int64_t n)
{
    for (int64_t c = 0; c < n; c++) {
        float m[3][3], to[2][2];
        EACH(i, 9) m[i / 3][i % 3] = sum[i * distance + c];
        transform_strided_sums(m, to);
        EACH(i, 4) point[i][c] = to[i / 2][i % 2];
    }
}

const ls_winograd_table ls_winograd_ref = {.pixels = pixels,
                                           .weights = weights,
                                           .points = points,
                                           .dpoints = dpoints,
                                           .dweights = dweights,
                                           .strided_pixels = strided_pixels,
                                           .strided_weights = strided_weights,
                                           .strided_points = strided_points};
