/* conv_norm.c - conv2d_norm in training on the GPU: some channels against plain loops in f64, and its rates on the
 * layers of resnet50d. */
#include "bare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct layer {
    ls_dtype dtype;
    int64_t n, c, o, kernel, stride, height, width;
    bool residual, relu, bias;
    double mean; /* of x, beyond that of a ReLU's result */
} layer;

enum { LOOKED_AT = 5 }; /* channels of the result */

static int64_t reduced(const layer *l, int64_t size)
{
    return (size + 2 * (l->kernel / 2) - l->kernel) / l->stride + 1;
}

/* Statistics are looked at closely where x has a large mean. */
static double momentum_of(const layer *l)
{
    return l->mean > 0 ? 1 : 0.1;
}

static ls_attrs attrs_of(const layer *l)
{
    ls_attrs a = {.conv = {.compute = l->dtype, .epsilon = 1e-5, .momentum = momentum_of(l), .training = true}};
    a.conv.activation = l->relu ? LS_ACT_RELU : LS_ACT_NONE;
    for (int i = 0; i < 2; i++) {
        a.conv.window.kernel[i] = l->kernel, a.conv.window.stride[i] = l->stride;
        a.conv.window.padding[i] = l->kernel / 2, a.conv.window.dilation[i] = 1;
    }
    a.conv.window.groups = 1;
    return a;
}

static double at(const bare_tensor *t, int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t *dim = t->view.dim;
    return c < 0 || d < 0 || c >= dim[2] || d >= dim[3] ? 0 : t->value[((a * dim[1] + b) * dim[2] + c) * dim[3] + d];
}

/* Channel o of the convolution, [n, height, width] of y. */
static void convolve(const layer *l, const bare_tensor *x, const bare_tensor *w, const bare_tensor *y, int64_t o,
                     double bias, double *to)
{
    const int64_t *dim = y->view.dim;
    for (int64_t i = 0; i < dim[0] * dim[2] * dim[3]; i++) {
        int64_t column = i % dim[3], row = i / dim[3] % dim[2], item = i / dim[3] / dim[2];
        to[i] = bias;
        for (int64_t c = 0; c < l->c; c++)
            for (int64_t tap = 0; tap < l->kernel * l->kernel; tap++) {
                int64_t kh = tap / l->kernel, kw = tap % l->kernel;
                to[i] += at(w, o, c, kh, kw) *
                         at(x, item, c, row * l->stride - l->kernel / 2 + kh, column * l->stride - l->kernel / 2 + kw);
            }
    }
}

/* Vectors of a call: weight, bias, of the norm; bias of the convolution; running mean and variance. */
enum { GAIN, SHIFT, BIAS, MEAN, VAR, VECTORS };

static ls_call call_of(const layer *l, bare_tensor *x, bare_tensor *w, bare_tensor *residual, bare_tensor *y,
                       bare_tensor *const v[VECTORS])
{
    ls_call call = {.op = LS_OP_conv2d_norm,
                    .n_in = 8,
                    .n_out = 3,
                    .in = {&x->view, &w->view, NULL, &v[GAIN]->view, &v[SHIFT]->view},
                    .out = {&y->view, &v[MEAN]->view, &v[VAR]->view},
                    .attrs = attrs_of(l)};
    if (l->bias) call.in[2] = &v[BIAS]->view;
    if (l->residual) call.in[7] = &residual->view;
    return call;
}

static void check(layer l)
{
    printf("conv_norm %s [%lld,%lld,%lld,%lld] to %lld, kernel %lld/%lld%s%s%s\n", bare_type(l.dtype), (long long)l.n,
           (long long)l.c, (long long)l.height, (long long)l.width, (long long)l.o, (long long)l.kernel,
           (long long)l.stride, l.bias ? " bias" : "", l.residual ? " residual" : "", l.relu ? " relu" : "");
    int64_t height = reduced(&l, l.height), width = reduced(&l, l.width), pixels = l.n * height * width;
    bare_order last = BARE_CHANNELS_LAST;
    bare_tensor *x = bare_new(l.dtype, last, BARE_DIMS(l.n, l.c, l.height, l.width), 1);
    bare_tensor *y = bare_new(l.dtype, last, BARE_DIMS(l.n, l.o, height, width), 0);
    bare_tensor *w = bare_new(l.dtype, last, BARE_DIMS(l.o, l.c, l.kernel, l.kernel), 0.1);
    bare_tensor *residual = bare_new(l.dtype, last, BARE_DIMS(l.n, l.o, height, width), 1), *v[VECTORS];
    for (int64_t i = 0; i < x->numel; i++)
        x->value[i] = fabs(x->value[i]) + 0.1 + l.mean; /* as after a ReLU: with a mean */
    bare_send(x), bare_fetch(x);
    /* A large mean is not to vary at the border, where windows see zeros: the middle of each window alone counts. */
    int64_t taps = l.kernel * l.kernel;
    for (int64_t i = 0; l.mean > 0 && i < w->numel; i++)
        if (i % taps != taps / 2) w->value[i] = 0;
    bare_send(w), bare_fetch(w);
    for (int i = 0; i < VECTORS; i++) v[i] = bare_new(LS_F32, BARE_ROW_MAJOR, BARE_DIMS(l.o), 1);
    for (int64_t i = 0; i < l.o; i++) v[VAR]->value[i] = fabs(v[VAR]->value[i]);
    bare_send(v[VAR]), bare_fetch(v[VAR]);
    double old_mean[LOOKED_AT], old_var[LOOKED_AT], *sums = malloc((size_t)pixels * sizeof *sums);
    for (int k = 0; k < LOOKED_AT; k++) {
        int64_t o = k * (l.o - 1) / (LOOKED_AT - 1);
        old_mean[k] = v[MEAN]->value[o], old_var[k] = v[VAR]->value[o];
    }
    ls_call call = call_of(&l, x, w, residual, y, v), rehearsal = call; /* the device learns that a norm follows */
    rehearsal.out[1] = rehearsal.out[2] = NULL;
    if (!sums || !bare_run(&rehearsal) || !bare_run(&call)) exit(1);
    bare_fetch(y), bare_fetch(v[MEAN]), bare_fetch(v[VAR]);
    for (int k = 0; k < LOOKED_AT; k++) {
        int64_t o = k * (l.o - 1) / (LOOKED_AT - 1), area = height * width;
        convolve(&l, x, w, y, o, l.bias ? v[BIAS]->value[o] : 0, sums);
        double mean = 0, m2 = 0, count = (double)pixels;
        for (int64_t i = 0; i < pixels; i++) mean += sums[i] / count;
        for (int64_t i = 0; i < pixels; i++) m2 += (sums[i] - mean) * (sums[i] - mean);
        double gain = v[GAIN]->value[o] / sqrt(m2 / count + 1e-5), *got = malloc((size_t)pixels * sizeof *got);
        if (!got) exit(1);
        for (int64_t i = 0; i < pixels; i++) {
            int64_t place = (i / area * l.o + o) * area + i % area;
            got[i] = y->value[place];
            sums[i] = (sums[i] - mean) * gain + v[SHIFT]->value[o] + (l.residual ? residual->value[place] : 0);
            if (l.relu && sums[i] < 0) sums[i] = 0;
        }
        bare_compare("y", pixels, got, sums, 3 * (1 + l.mean) * bare_rounding(l.dtype) + 2e-6);
        double momentum = momentum_of(&l), old = 1 - momentum;
        mean = old * old_mean[k] + momentum * mean, m2 = old * old_var[k] + momentum * m2 / (count - 1);
        bare_compare("running_mean", 1, &v[MEAN]->value[o], &mean, bare_rounding(l.dtype) + 2e-6);
        bare_compare("running_var", 1, &v[VAR]->value[o], &m2, l.mean > 0 ? 1e-2 : bare_rounding(l.dtype) + 2e-6);
        free(got);
    }
    free(sums);
    bare_free(x), bare_free(y), bare_free(w), bare_free(residual);
    for (int i = 0; i < VECTORS; i++) bare_free(v[i]);
}

/* ---- NaN ---- */

/* Which numbers are NaN, against those that ought to be. */
static void compare_nan(const char *name, bare_tensor *t, int64_t only)
{
    double *got = calloc((size_t)t->numel, sizeof *got), *expected = calloc((size_t)t->numel, sizeof *expected);
    if (!got || !expected) exit(1);
    bare_fetch(t);
    for (int64_t i = 0; i < t->numel; i++) got[i] = isnan(t->value[i]), expected[i] = only < 0 || i == only;
    bare_compare(name, t->numel, got, expected, 0);
    free(got), free(expected);
}

/* A ReLU does not hide it: one number of the residual, then of x, of which the statistics of all channels consist. */
static void nan_stays(layer l)
{
    printf("NaN: conv_norm %s [%lld,%lld,%lld,%lld] to %lld, kernel %lld/%lld\n", bare_type(l.dtype), (long long)l.n,
           (long long)l.c, (long long)l.height, (long long)l.width, (long long)l.o, (long long)l.kernel,
           (long long)l.stride);
    int64_t height = reduced(&l, l.height), width = reduced(&l, l.width), at_y = l.o * height * width + 7, at_x = 5;
    bare_order last = BARE_CHANNELS_LAST;
    bare_tensor *x = bare_new(l.dtype, last, BARE_DIMS(l.n, l.c, l.height, l.width), 1), *v[VECTORS];
    bare_tensor *y = bare_new(l.dtype, last, BARE_DIMS(l.n, l.o, height, width), 0);
    bare_tensor *w = bare_new(l.dtype, last, BARE_DIMS(l.o, l.c, l.kernel, l.kernel), 0.1);
    bare_tensor *residual = bare_new(l.dtype, last, BARE_DIMS(l.n, l.o, height, width), 1);
    for (int i = 0; i < VECTORS; i++) v[i] = bare_new(LS_F32, BARE_ROW_MAJOR, BARE_DIMS(l.o), 1);
    ls_call call = call_of(&l, x, w, residual, y, v);
    if (l.residual) {
        residual->value[at_y] = NAN;
        bare_send(residual);
        if (!bare_run(&call)) exit(1);
        compare_nan("y, of the residual", y, at_y);
    }
    x->value[at_x] = NAN;
    bare_send(x);
    if (!bare_run(&call)) exit(1);
    compare_nan("y, of x", y, -1);
    compare_nan("running_mean", v[MEAN], -1);
    compare_nan("running_var", v[VAR], -1);
    bare_free(x), bare_free(y), bare_free(w), bare_free(residual);
    for (int i = 0; i < VECTORS; i++) bare_free(v[i]);
}

/* ---- rates ---- */

/* The distinct convolutions of resnet50d with their norms: channels in and out, kernel, stride, size of the picture, is
 * there a residual, how many. */
static const struct {
    int c, o, kernel, stride, size, residual, count;
} layers[] = {
    {3, 32, 3, 2, 224, 0, 1},    {32, 32, 3, 1, 112, 0, 1},   {32, 64, 3, 1, 112, 0, 1},   {64, 64, 1, 1, 56, 0, 1},
    {64, 64, 3, 1, 56, 0, 3},    {64, 256, 1, 1, 56, 0, 1},   {64, 256, 1, 1, 56, 1, 3},   {256, 64, 1, 1, 56, 0, 2},
    {256, 128, 1, 1, 56, 0, 1},  {128, 128, 3, 2, 56, 0, 1},  {128, 512, 1, 1, 28, 1, 4},  {256, 512, 1, 1, 28, 0, 1},
    {512, 128, 1, 1, 28, 0, 3},  {128, 128, 3, 1, 28, 0, 3},  {512, 256, 1, 1, 28, 0, 1},  {256, 256, 3, 2, 28, 0, 1},
    {256, 1024, 1, 1, 14, 1, 6}, {512, 1024, 1, 1, 14, 0, 1}, {1024, 256, 1, 1, 14, 0, 5}, {256, 256, 3, 1, 14, 0, 5},
    {1024, 512, 1, 1, 14, 0, 1}, {512, 512, 3, 2, 14, 0, 1},  {512, 2048, 1, 1, 7, 1, 3},  {1024, 2048, 1, 1, 7, 0, 1},
    {2048, 512, 1, 1, 7, 0, 2},  {512, 512, 3, 1, 7, 0, 2},
};

static void rates(int64_t batch)
{
    double sum = 0;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        layer l = {LS_F16,
                   batch,
                   layers[i].c,
                   layers[i].o,
                   layers[i].kernel,
                   layers[i].stride,
                   layers[i].size,
                   layers[i].size,
                   layers[i].residual,
                   !!layers[i].residual,
                   false,
                   0};
        int64_t size = reduced(&l, l.height);
        bare_tensor *x = bare_big(LS_F16, BARE_CHANNELS_LAST, BARE_DIMS(l.n, l.c, l.height, l.width)), *v[VECTORS];
        bare_tensor *y = bare_big(LS_F16, BARE_CHANNELS_LAST, BARE_DIMS(l.n, l.o, size, size));
        bare_tensor *residual = bare_big(LS_F16, BARE_CHANNELS_LAST, BARE_DIMS(l.n, l.o, size, size));
        bare_tensor *w = bare_big(LS_F16, BARE_CHANNELS_LAST, BARE_DIMS(l.o, l.c, l.kernel, l.kernel));
        for (int k = 0; k < VECTORS; k++) v[k] = bare_big(LS_F32, BARE_ROW_MAJOR, BARE_DIMS(l.o));
        ls_call call = call_of(&l, x, w, residual, y, v);
        double took = bare_time(&call), moved = 2.0 * (double)(x->numel + (l.residual ? 2 : 1) * y->numel);
        printf("RATE conv_norm bs%lld %dx %lld-%lld %lldx%lld/%lld@%lld%s: %.1f us (%.2f TB/s of what must be moved)\n",
               (long long)batch, layers[i].count, (long long)l.c, (long long)l.o, (long long)l.kernel,
               (long long)l.kernel, (long long)l.stride, (long long)l.height, l.residual ? " residual" : "", took,
               moved / took * 1e-6);
        fflush(stdout);
        sum += layers[i].count * took;
        bare_free(x), bare_free(y), bare_free(residual), bare_free(w);
        for (int k = 0; k < VECTORS; k++) bare_free(v[k]);
    }
    printf("SUM conv_norm bs%lld: %.2f ms\n", (long long)batch, sum * 1e-3);
}

int main(int argc, char **argv)
{
    bool timed = argc > 1 && strcmp(argv[1], "rates") == 0;
    int64_t batch = argc > 2 ? strtoll(argv[2], NULL, 10) : 0; /* of 64 and 256 one alone */
    bare_begin(CUDA_DEVICE);
    check((layer){LS_F16, 33, 64, 256, 1, 1, 53, 51, true, true, false, 0});
    check((layer){LS_F16, 39, 128, 512, 1, 1, 31, 33, true, true, false, 0});
    check((layer){LS_BF16, 131, 256, 1024, 1, 1, 14, 14, true, true, false, 0});
    check((layer){LS_F16, 61, 64, 128, 1, 1, 59, 47, false, false, true, 0});
    check((layer){LS_F16, 4, 64, 64, 3, 1, 14, 14, false, true, false, 0});
    check((layer){LS_F16, 64, 32, 64, 3, 1, 64, 64, true, true, false, 0}); /* large: sums come with the convolution */
    check((layer){LS_BF16, 96, 256, 64, 1, 1, 56, 56, false, true, false, 0});
    check((layer){LS_F32, 3, 12, 20, 3, 2, 11, 13, true, true, true, 0});
    check((layer){LS_BF16, 4, 3, 32, 3, 2, 32, 32, false, true, false, 0}); /* photos */
    check((layer){LS_F16, 7, 3, 32, 3, 2, 61, 56, false, true, true, 0});
    check((layer){LS_F16, 3, 3, 64, 3, 2, 40, 72, false, false, false, 0});
    check((layer){LS_F16, 64, 64, 200, 1, 1, 56, 56, true, true, false, 0}); /* a product that is not of whole tiles */
    /* Means of up to 1000 standard deviations and more: sums of squares have few digits left. */
    check((layer){LS_F16, 33, 64, 256, 1, 1, 53, 51, true, false, false, 100});
    check((layer){LS_F16, 96, 256, 64, 1, 1, 56, 56, false, false, false, 100});
    check((layer){LS_F16, 7, 3, 32, 3, 2, 61, 56, false, false, false, 1000});
    check((layer){LS_BF16, 5, 3, 64, 3, 2, 40, 72, false, false, true, 30});
    nan_stays((layer){LS_F16, 33, 64, 256, 1, 1, 56, 56, true, true, false, 0});
    nan_stays((layer){LS_BF16, 131, 256, 1024, 1, 1, 14, 14, true, true, false, 0});
    nan_stays((layer){LS_F16, 4, 64, 64, 3, 1, 14, 14, true, true, false, 0});
    nan_stays((layer){LS_F16, 4, 3, 32, 3, 2, 32, 32, false, true, false, 0});
    nan_stays((layer){LS_F32, 3, 12, 20, 3, 2, 11, 13, true, true, false, 0});
    if (timed && batch != 256) rates(64);
    if (timed && batch != 64) rates(256);
    return bare_end();
}
