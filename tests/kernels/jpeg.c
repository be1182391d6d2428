/* jpeg.c - kernels of the JPEG decoder: every ISA of this machine gives the bytes of the plain ones. */
#include "kernels/jpeg.h"

#include "base/rng.h"
#include "check.h"
#include "kernels/kernels.h"

enum { MOST = 75, ROW = 3 * MOST + LS_JPEG_SLACK };

static uint8_t x[3][ROW], y[2][3 * ROW];

static uint32_t word(uint64_t i)
{
    return ls_philox(9, i).lane[0];
}

static void for_every_isa(void (*compare)(const ls_jpeg_table *table))
{
    for (int isa = 0; isa < LS_ISA_COUNT; isa++) {
        if (!ls_isa_usable((ls_isa)isa)) continue;
        ls_isa_cap((ls_isa)isa);
        compare(ls_jpeg_kernels());
    }
}

/* The diagonals of a block, as files go along them. */
static int along_diagonals(int n)
{
    int diagonal = 0;
    for (int length = 1; n >= length; length = diagonal < 8 ? diagonal + 1 : 15 - diagonal) n -= length, diagonal++;
    int low = diagonal < 8 ? 0 : diagonal - 7, i = low + n;
    return diagonal % 2 ? 8 * i + diagonal - i : 8 * (diagonal - i) + i;
}

/* Coefficients as large as pictures have them: few and small, many, and such that samples must be clamped. */
static void compare_samples(const ls_jpeg_table *table)
{
    for (uint64_t n = 0; n < 2000; n++) {
        int16_t coefficients[64] = {0}, steps[64];
        int used = 1 + (int)(n % 64);
        for (int i = 0; i < 64; i++) {
            steps[i] = (int16_t)(1 + word(n * 64 + (uint64_t)i) % 12);
            int value = (int)(word(n * 64 + (uint64_t)i + 100000) % 121) - 60;
            if (i < used) coefficients[along_diagonals(i)] = (int16_t)value;
        }
        coefficients[0] = (int16_t)((int)(word(n) % 401) - 200);
        memset(y, 0, sizeof y);
        ls_jpeg_ref.samples(y[0], 11, coefficients, steps, used);
        table->samples(y[1], 11, coefficients, steps, used);
        CHECK_MSG(memcmp(y[0], y[1], sizeof y[0]) == 0, "samples of block %d", (int)n);
        for (int size = 1; size <= 4; size *= 2) {
            ls_jpeg_ref.few_samples(y[0], 11, coefficients, steps, size);
            table->few_samples(y[1], 11, coefficients, steps, size);
            CHECK_MSG(memcmp(y[0], y[1], sizeof y[0]) == 0, "%d samples of block %d", size, (int)n);
        }
    }
}

static void blocks_are_the_same(void)
{
    for_every_isa(compare_samples);
}

/* The transform of one coefficient is a cosine. */
static void blocks_are_cosines(void)
{
    for (int v = 0; v < 8; v++)
        for (int u = 0; u < 8; u++) {
            int16_t coefficients[64] = {0}, steps[64];
            for (int i = 0; i < 64; i++) steps[i] = 3;
            coefficients[8 * v + u] = 100;
            uint8_t out[64];
            ls_jpeg_ref.samples(out, 8, coefficients, steps, 64);
            for (int i = 0; i < 64; i++) {
                double wave = cos((2 * (i % 8) + 1) * u * M_PI / 16) * cos((2 * (i / 8) + 1) * v * M_PI / 16);
                double scale = (u ? 1 : sqrt(0.5)) * (v ? 1 : sqrt(0.5)) / 4;
                CHECK(fabs(out[i] - (128 + 300 * scale * wave)) < 0.6);
            }
        }
}

/* Fewer samples are the same waves, looked at in the middle of larger squares. */
static void few_samples_are_waves(void)
{
    for (int size = 1; size <= 4; size *= 2)
        for (int v = 0; v < size; v++)
            for (int u = 0; u < size; u++) {
                int16_t coefficients[64] = {0}, steps[64];
                for (int i = 0; i < 64; i++) steps[i] = 3;
                coefficients[8 * v + u] = 100;
                uint8_t out[16];
                ls_jpeg_ref.few_samples(out, 4, coefficients, steps, size);
                for (int y0 = 0; y0 < size; y0++)
                    for (int x0 = 0; x0 < size; x0++) {
                        double wave = cos((2 * x0 + 1) * u * M_PI / 2 / size) * cos((2 * y0 + 1) * v * M_PI / 2 / size);
                        double scale = (u ? 1 : sqrt(0.5)) * (v ? 1 : sqrt(0.5)) / 4;
                        CHECK(fabs(out[4 * y0 + x0] - (128 + 300 * scale * wave)) < 0.6);
                    }
            }
}

static void fill(uint64_t seed)
{
    for (uint64_t i = 0; i < 3; i++)
        for (uint64_t k = 0; k < ROW; k++) x[i][k] = (uint8_t)word(seed * 100000 + i * ROW + k);
}

static void compare_rows(const ls_jpeg_table *table)
{
    const ls_jpeg_table *both[2] = {&ls_jpeg_ref, table};
    for (int64_t n = 0; n <= MOST; n++) {
        fill((uint64_t)n);
        for (int i = 0; i < 2; i++) both[i]->widen(y[i], x[0] + 1, n);
        CHECK_MSG(memcmp(y[0], y[1], (size_t)(2 * n)) == 0, "widen %d", (int)n);
        for (int i = 0; i < 2; i++) both[i]->enlarge(y[i], x[0] + 1, x[1] + 1, n);
        CHECK_MSG(memcmp(y[0], y[1], (size_t)(2 * n)) == 0, "enlarge %d", (int)n);
        for (int i = 0; i < 2; i++) both[i]->pixels(y[i], x[0], x[1], x[2], n);
        CHECK_MSG(memcmp(y[0], y[1], (size_t)(3 * n)) == 0, "pixels %d", (int)n);
    }
}

static void rows_are_the_same(void)
{
    for_every_isa(compare_rows);
}

/* All colours, in rows of one brightness and one difference. */
static void compare_colors(const ls_jpeg_table *table)
{
    uint8_t level[256 + LS_JPEG_SLACK], blue[256 + LS_JPEG_SLACK], red[256 + LS_JPEG_SLACK];
    uint8_t out[2][3 * 256 + LS_JPEG_SLACK];
    for (int i = 0; i < 256; i++) level[i] = (uint8_t)i;
    for (int cb = 0; cb < 256; cb++)
        for (int cr = 0; cr < 256; cr++) {
            memset(blue, cb, sizeof blue);
            memset(red, cr, sizeof red);
            ls_jpeg_ref.pixels(out[0], level, blue, red, 256);
            table->pixels(out[1], level, blue, red, 256);
            CHECK_MSG(memcmp(out[0], out[1], 3 * 256) == 0, "cb %d, cr %d", cb, cr);
        }
}

static void all_colors_are_the_same(void)
{
    for_every_isa(compare_colors);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(blocks_are_the_same);
    CHECK_RUN(blocks_are_cosines);
    CHECK_RUN(few_samples_are_waves);
    CHECK_RUN(rows_are_the_same);
    CHECK_RUN_SLOW(all_colors_are_the_same);
    return check_done();
}
