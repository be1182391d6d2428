/* winograd.c - transforms of 3x3 convolutions: together they convolve, and every ISA gives the reference's bits. */
#include "kernels/winograd.h"

#include "base/rng.h"
#include "check.h"
#include "kernels/kernels.h"

enum { MOST = 70, APART = MOST + 3 };

static float noise(uint64_t seed, int i)
{
    return (float)(ls_philox(seed, (uint64_t)i).lane[0] & 0xffff) / 4096 - 8;
}

static void lines(float line[][MOST], const float **at, int count, uint64_t seed)
{
    for (int i = 0; i < count; i++) {
        at[i] = line[i];
        for (int c = 0; c < MOST; c++) line[i][c] = noise(seed + (uint64_t)i, c);
    }
}

static void form_convolves(const ls_winograd_form *form)
{
    static float x[LS_WINOGRAD_MOST_TERMS][MOST], w[9][MOST], points[4][MOST];
    static float terms[LS_WINOGRAD_MOST_TERMS][APART], weights[LS_WINOGRAD_MOST_TERMS][APART];
    static float sums[LS_WINOGRAD_MOST_SUMS][APART];
    const ls_winograd_transforms transforms = ls_winograd_transforms_of(form);
    const float *pixel[LS_WINOGRAD_MOST_TERMS], *tap[9];
    float *point[4] = {points[0], points[1], points[2], points[3]};
    lines(x, pixel, form->terms, 1);
    lines(w, tap, 9, 2);
    for (int n = 1; n <= MOST; n++) {
        transforms.pixels(terms[0], APART, pixel, n);
        transforms.weights(weights[0], APART, tap, n);
        memset(sums, 0, sizeof sums);
        for (int i = 0; i < form->sums; i++)
            for (int t = form->first[i]; t < form->first[i + 1]; t++)
                for (int c = 0; c < n; c++) sums[i][c] += terms[t][c] * weights[t][c];
        transforms.points(point, sums[0], APART, n);
        for (int c = 0; c < n; c++)
            for (int p = 0; p < 4; p++) {
                double sum = 0, size = 0;
                for (int t = 0; t < 9; t++) {
                    int row = p / 2 * form->stride + t / 3, column = p % 2 * form->stride + t % 3;
                    double product = (double)x[row * form->side + column][c] * (double)w[t][c];
                    sum += product;
                    size += fabs(product);
                }
                CHECK_MSG(fabs((double)points[p][c] - sum) <= 1e-6 * size,
                          "stride %d, n %d, channel %d, point %d: %g, not %g", form->stride, n, c, p,
                          (double)points[p][c], sum);
            }
    }
}

static void they_convolve(void)
{
    form_convolves(&ls_winograd_unstrided);
    form_convolves(&ls_winograd_strided);
}

/* All terms belong to one sum, in order. */
static void strides_have_forms(void)
{
    CHECK(ls_winograd_form_of((int64_t[]){1, 1}) == &ls_winograd_unstrided);
    CHECK(ls_winograd_form_of((int64_t[]){2, 2}) == &ls_winograd_strided);
    CHECK(!ls_winograd_form_of((int64_t[]){1, 2}) && !ls_winograd_form_of((int64_t[]){2, 1}));
    CHECK(!ls_winograd_form_of((int64_t[]){3, 3}));
    for (int64_t stride = 1; stride <= 2; stride++) {
        const ls_winograd_form *form = ls_winograd_form_of((int64_t[]){stride, stride});
        CHECK(form->stride == stride && form->side == stride + 3 && form->terms == form->side * form->side);
        CHECK(form->first[0] == 0 && form->first[form->sums] == form->terms);
        for (int i = 0; i < form->sums; i++) CHECK(form->first[i] < form->first[i + 1]);
    }
}

/* Terms of pixels and of gradients of points add up to the gradients of the taps. */
static void they_give_gradients_of_weights(void)
{
    static float x[16][MOST], dy[4][MOST], terms[16][APART], gradients[16][APART], taps[9][MOST];
    const float *pixel[16], *dpoint[4];
    float *tap[9];
    for (int i = 0; i < 9; i++) tap[i] = taps[i];
    lines(x, pixel, 16, 4);
    lines(dy, dpoint, 4, 5);
    for (int n = 1; n <= MOST; n++) {
        ls_winograd()->pixels(terms[0], APART, pixel, n);
        ls_winograd()->dpoints(gradients[0], APART, dpoint, n);
        for (int i = 0; i < 16; i++)
            for (int c = 0; c < n; c++) terms[i][c] *= gradients[i][c];
        ls_winograd()->dweights(tap, terms[0], APART, n);
        for (int c = 0; c < n; c++)
            for (int t = 0; t < 9; t++) {
                double sum = 0, size = 0;
                for (int p = 0; p < 4; p++) {
                    double product = (double)x[(p / 2 + t / 3) * 4 + p % 2 + t % 3][c] * (double)dy[p][c];
                    sum += product;
                    size += fabs(product);
                }
                CHECK_MSG(fabs((double)taps[t][c] - sum) <= 1e-5 * (1 + size), "n %d, channel %d, tap %d: %g, not %g",
                          n, c, t, (double)taps[t][c], sum);
            }
    }
}

/* Not a number is written beyond the channels. */
static void bits_are_those_of_the_reference(void)
{
    static float x[25][MOST], here[25][APART], there[25][APART];
    const float *from[25];
    lines(x, from, 25, 3);
    for (int n = 1; n <= MOST; n++) {
        float *to_here[9], *to_there[9];
        for (int i = 0; i < 9; i++) to_here[i] = here[i], to_there[i] = there[i];
        memset(here, 0xee, sizeof here);
        memset(there, 0xee, sizeof there);
        ls_winograd()->pixels(here[0], APART, from, n);
        ls_winograd_ref.pixels(there[0], APART, from, n);
        CHECK(memcmp(here, there, sizeof here) == 0);
        ls_winograd()->weights(here[0], APART, from, n);
        ls_winograd_ref.weights(there[0], APART, from, n);
        CHECK(memcmp(here, there, sizeof here) == 0);
        ls_winograd()->dpoints(here[0], APART, from, n);
        ls_winograd_ref.dpoints(there[0], APART, from, n);
        CHECK(memcmp(here, there, sizeof here) == 0);
        ls_winograd()->points(to_here, x[0], MOST, n);
        ls_winograd_ref.points(to_there, x[0], MOST, n);
        CHECK(memcmp(here, there, sizeof here) == 0);
        ls_winograd()->dweights(to_here, x[0], MOST, n);
        ls_winograd_ref.dweights(to_there, x[0], MOST, n);
        CHECK(memcmp(here, there, sizeof here) == 0);
        ls_winograd()->strided_pixels(here[0], APART, from, n);
        ls_winograd_ref.strided_pixels(there[0], APART, from, n);
        CHECK(memcmp(here, there, sizeof here) == 0);
        ls_winograd()->strided_weights(here[0], APART, from, n);
        ls_winograd_ref.strided_weights(there[0], APART, from, n);
        CHECK(memcmp(here, there, sizeof here) == 0);
        ls_winograd()->strided_points(to_here, x[0], MOST, n);
        ls_winograd_ref.strided_points(to_there, x[0], MOST, n);
        CHECK(memcmp(here, there, sizeof here) == 0);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(strides_have_forms);
    for (int isa = 0; isa < LS_ISA_COUNT; isa++) {
        if (!ls_isa_usable((ls_isa)isa)) continue;
        ls_isa_cap((ls_isa)isa);
        CHECK_RUN(they_convolve);
        CHECK_RUN(they_give_gradients_of_weights);
        CHECK_RUN(bits_are_those_of_the_reference);
    }
    return check_done();
}
