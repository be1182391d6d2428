/* image.c - kernels on rows of pictures: every ISA of this machine gives the bytes of the plain ones. */
#include "kernels/image.h"

#include "base/rng.h"
#include "check.h"
#include "kernels/kernels.h"

enum { PIXELS = 75, MOST_TAPS = 16, ROW = 3 * (PIXELS + MOST_TAPS) + LS_IMAGE_SLACK };

static uint8_t x[MOST_TAPS][ROW], y[2][ROW];
static int32_t first[PIXELS], weight[PIXELS * MOST_TAPS];

/* Weights of both signs whose sums lie on both sides of 0..1, so that some levels must be clamped. */
static void fill(int64_t taps)
{
    for (int64_t i = 0; i < MOST_TAPS; i++)
        for (int64_t j = 0; j < ROW; j++) x[i][j] = (uint8_t)ls_philox(1, (uint64_t)(i * ROW + j)).lane[0];
    for (int64_t i = 0; i < PIXELS; i++) {
        first[i] = 3 * (int32_t)(ls_philox(2, (uint64_t)i).lane[0] % PIXELS);
        for (int64_t k = 0; k < taps; k++) {
            int32_t range = (3 << LS_IMAGE_WEIGHT_BITS) / 2 / (int32_t)taps;
            weight[i * taps + k] =
                (int32_t)(ls_philox(3, (uint64_t)(i * taps + k)).lane[0] % (uint32_t)range) - range / 6;
        }
    }
}

static void every_isa_gives_the_same(void)
{
    for (int isa = 0; isa < LS_ISA_COUNT; isa++) {
        if (!ls_isa_usable((ls_isa)isa)) continue;
        ls_isa_cap((ls_isa)isa);
        const ls_image_table *table[2] = {&ls_image_ref, ls_image_kernels()};
        for (int64_t taps = 1; taps <= MOST_TAPS; taps++) {
            fill(taps);
            const uint8_t *rows[MOST_TAPS];
            for (int64_t k = 0; k < taps; k++) rows[k] = x[k];
            for (int64_t n = 0; n <= PIXELS; n++) {
                memset(y, 0, sizeof y);
                if (taps % LS_IMAGE_TAPS == 0) {
                    for (int i = 0; i < 2; i++) table[i]->across(y[i], x[0], first, weight, taps, n);
                    CHECK_MSG(memcmp(y[0], y[1], (size_t)(3 * n)) == 0, "across: %d taps, %d pixels", (int)taps,
                              (int)n);
                }
                memset(y, 0, sizeof y);
                for (int i = 0; i < 2; i++) table[i]->down(y[i], rows, weight, taps, n);
                CHECK_MSG(memcmp(y[0], y[1], sizeof y[0]) == 0, "down: %d taps, %d bytes", (int)taps, (int)n);
            }
        }
    }
}

static void floats_are_correctly_rounded(void)
{
    uint8_t bytes[256 + LS_IMAGE_SLACK];
    float got[256 + 1];
    for (int i = 0; i < (int)sizeof bytes; i++) bytes[i] = (uint8_t)i;
    for (int isa = 0; isa < LS_ISA_COUNT; isa++) {
        if (!ls_isa_usable((ls_isa)isa)) continue;
        ls_isa_cap((ls_isa)isa);
        for (int64_t n = 0; n <= 256; n++) {
            got[n] = -1;
            ls_image_kernels()->to_float(got, bytes, n);
            for (int64_t i = 0; i < n; i++) CHECK(got[i] == (float)((double)i / 255));
            CHECK(got[n] == -1);
        }
    }
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(every_isa_gives_the_same);
    CHECK_RUN(floats_are_correctly_rounded);
    return check_done();
}
