/* conv.c - convolutions on the GPU against plain loops in f64, at some places of large results and everywhere in small
 * ones, and their rates on the layers of resnet50d. */
#include "bare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FORWARD, DINPUT, DWEIGHT, PASSES, MOST_PLACES = 3000 };

typedef struct layer {
    int64_t n, c, o, kernel, stride, padding, dilation, groups, height, width;
    ls_dtype dtype, weight_dtype;
} layer;

static int64_t reduced(const layer *l, int64_t size)
{
    return (size + 2 * l->padding - l->dilation * (l->kernel - 1) - 1) / l->stride + 1;
}

static ls_attrs attrs_of(const layer *l, int accumulate)
{
    ls_attrs a = {.conv = {.compute = l->dtype, .accumulate = accumulate}};
    for (int i = 0; i < 2; i++) {
        a.conv.window.kernel[i] = l->kernel, a.conv.window.stride[i] = l->stride;
        a.conv.window.padding[i] = l->padding, a.conv.window.dilation[i] = l->dilation;
    }
    a.conv.window.groups = l->groups;
    return a;
}

static double at(const bare_tensor *t, int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t *dim = t->view.dim;
    return c < 0 || d < 0 || c >= dim[2] || d >= dim[3] ? 0 : t->value[((a * dim[1] + b) * dim[2] + c) * dim[3] + d];
}

/* Element i of a result. */
static double expected(const layer *l, int pass, int64_t i, const bare_tensor *x, const bare_tensor *w,
                       const bare_tensor *y)
{
    const bare_tensor *result = pass == FORWARD ? y : pass == DINPUT ? x : w;
    const int64_t *dim = result->view.dim;
    int64_t d = i % dim[3], c = i / dim[3] % dim[2], b = i / dim[3] / dim[2] % dim[1], a = i / dim[3] / dim[2] / dim[1];
    int64_t group_c = l->c / l->groups, group_o = l->o / l->groups;
    double sum = 0;
    for (int64_t kh = 0; pass != DWEIGHT && kh < l->kernel; kh++)
        for (int64_t kw = 0; kw < l->kernel; kw++) {
            if (pass == FORWARD) {
                int64_t row = c * l->stride - l->padding + kh * l->dilation;
                int64_t column = d * l->stride - l->padding + kw * l->dilation;
                for (int64_t k = 0; k < group_c; k++)
                    sum += at(x, a, b / group_o * group_c + k, row, column) * at(w, b, k, kh, kw);
                continue;
            }
            int64_t row = c + l->padding - kh * l->dilation, column = d + l->padding - kw * l->dilation;
            if (row < 0 || column < 0 || row % l->stride || column % l->stride) continue;
            for (int64_t k = 0; k < group_o; k++) {
                int64_t o = b / group_c * group_o + k;
                sum += at(y, a, o, row / l->stride, column / l->stride) * at(w, o, b % group_c, kh, kw);
            }
        }
    for (int64_t n = 0; pass == DWEIGHT && n < l->n; n++)
        for (int64_t row = 0; row < y->view.dim[2]; row++)
            for (int64_t column = 0; column < y->view.dim[3]; column++)
                sum += at(y, n, a, row, column) * at(x, n, a / group_o * group_c + b,
                                                     row * l->stride - l->padding + c * l->dilation,
                                                     column * l->stride - l->padding + d * l->dilation);
    return sum;
}

static void check(layer l)
{
    static const char *const names[] = {"forward", "dinput", "dweight"};
    static const ls_opcode ops[] = {LS_OP_conv2d, LS_OP_conv2d_dinput, LS_OP_conv2d_dweight};
    printf("conv %s, weights %s: [%lld,%lld,%lld,%lld] to %lld, kernel %lld/%lld+%lld*%lld, groups %lld\n",
           bare_type(l.dtype), bare_type(l.weight_dtype), (long long)l.n, (long long)l.c, (long long)l.height,
           (long long)l.width, (long long)l.o, (long long)l.kernel, (long long)l.stride, (long long)l.padding,
           (long long)l.dilation, (long long)l.groups);
    bare_tensor *x = bare_new(l.dtype, BARE_CHANNELS_LAST, BARE_DIMS(l.n, l.c, l.height, l.width), 1);
    bare_tensor *y =
        bare_new(l.dtype, BARE_CHANNELS_LAST, BARE_DIMS(l.n, l.o, reduced(&l, l.height), reduced(&l, l.width)), 1);
    bare_tensor *w =
        bare_new(l.weight_dtype, BARE_CHANNELS_LAST, BARE_DIMS(l.o, l.c / l.groups, l.kernel, l.kernel), 1);
    /* What is computed with: weights in the type of the pictures. */
    bare_tensor *narrow = bare_new(l.dtype, BARE_CHANNELS_LAST, 4, w->view.dim, 1);
    for (int64_t i = 0; i < w->numel; i++) narrow->value[i] = w->value[i];
    bare_send(narrow), bare_fetch(narrow);
    for (int pass = 0; pass < PASSES; pass++) {
        for (int accumulate = 0; accumulate < 2; accumulate++) {
            const bare_tensor *like = pass == FORWARD ? y : pass == DINPUT ? x : w;
            bare_tensor *out = bare_new(like->view.dtype, BARE_CHANNELS_LAST, 4, like->view.dim, accumulate ? 10 : 0);
            ls_call call = {.op = ops[pass], .n_in = 2, .n_out = 1, .out = {&out->view}};
            call.in[0] = pass == FORWARD ? &x->view : &y->view;
            call.in[1] = pass == DWEIGHT ? &x->view : &w->view;
            call.attrs = attrs_of(&l, accumulate);
            int64_t places = out->numel < MOST_PLACES ? out->numel : MOST_PLACES;
            double got[MOST_PLACES], wanted[MOST_PLACES];
            int64_t place[MOST_PLACES];
            for (int64_t i = 0; i < places; i++) {
                place[i] = places == out->numel ? i : (int64_t)((uint64_t)(i * 2654435761) % (uint64_t)out->numel);
                wanted[i] = accumulate ? out->value[place[i]] : 0;
                wanted[i] += expected(&l, pass, place[i], x, narrow, y);
            }
            if (bare_run(&call)) {
                bare_fetch(out);
                for (int64_t i = 0; i < places; i++) got[i] = out->value[place[i]];
                char name[32];
                snprintf(name, sizeof name, "%s%s", names[pass], accumulate ? " added" : "");
                bare_compare(name, places, got, wanted, 3 * bare_rounding(l.dtype) + 2e-6);
            }
            bare_free(out);
        }
    }
    bare_free(x), bare_free(y), bare_free(w), bare_free(narrow);
}

/* ---- rates ---- */

/* The distinct convolutions of resnet50d: channels in and out, kernel, stride, size of the picture, how many. */
static const struct {
    int c, o, kernel, stride, size, count;
} layers[] = {
    {3, 32, 3, 2, 224, 1},    {32, 32, 3, 1, 112, 1},   {32, 64, 3, 1, 112, 1},   {64, 64, 1, 1, 56, 1},
    {64, 64, 3, 1, 56, 3},    {64, 256, 1, 1, 56, 4},   {256, 64, 1, 1, 56, 2},   {256, 128, 1, 1, 56, 1},
    {128, 128, 3, 2, 56, 1},  {128, 512, 1, 1, 28, 4},  {256, 512, 1, 1, 28, 1},  {512, 128, 1, 1, 28, 3},
    {128, 128, 3, 1, 28, 3},  {512, 256, 1, 1, 28, 1},  {256, 256, 3, 2, 28, 1},  {256, 1024, 1, 1, 14, 6},
    {512, 1024, 1, 1, 14, 1}, {1024, 256, 1, 1, 14, 5}, {256, 256, 3, 1, 14, 5},  {1024, 512, 1, 1, 14, 1},
    {512, 512, 3, 2, 14, 1},  {512, 2048, 1, 1, 7, 3},  {1024, 2048, 1, 1, 7, 1}, {2048, 512, 1, 1, 7, 2},
    {512, 512, 3, 1, 7, 2},
};

static void rates(int64_t batch, const double *known)
{
    double sum[PASSES] = {0};
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        layer l = {batch, layers[i].c, layers[i].o,    layers[i].kernel, layers[i].stride, layers[i].kernel / 2,
                   1,     1,           layers[i].size, layers[i].size,   LS_F16,           LS_F32};
        int64_t size = reduced(&l, l.height);
        bare_tensor *x = bare_big(LS_F16, BARE_CHANNELS_LAST, BARE_DIMS(l.n, l.c, l.height, l.width));
        bare_tensor *y = bare_big(LS_F16, BARE_CHANNELS_LAST, BARE_DIMS(l.n, l.o, size, size));
        bare_tensor *w = bare_big(LS_F16, BARE_CHANNELS_LAST, BARE_DIMS(l.o, l.c, l.kernel, l.kernel));
        bare_tensor *dw = bare_big(LS_F32, BARE_CHANNELS_LAST, BARE_DIMS(l.o, l.c, l.kernel, l.kernel));
        ls_call forward = {.op = LS_OP_conv2d, .n_in = 2, .n_out = 1, .in = {&x->view, &w->view}, .out = {&y->view}};
        ls_call dinput = forward, dweight = forward;
        forward.attrs = attrs_of(&l, 0), dinput.attrs = attrs_of(&l, 0), dweight.attrs = attrs_of(&l, 1);
        dinput.op = LS_OP_conv2d_dinput, dinput.in[0] = &y->view, dinput.out[0] = &x->view;
        dweight.op = LS_OP_conv2d_dweight, dweight.in[0] = &y->view, dweight.in[1] = &x->view,
        dweight.out[0] = &dw->view;
        double times[PASSES] = {0};
        times[DWEIGHT] = bare_time(&dweight);
        times[FORWARD] = bare_time(&forward);
        if (l.c > 3) times[DINPUT] = bare_time(&dinput);
        double flops = 2.0 * (double)(l.n * size * size * l.o * l.c * l.kernel * l.kernel);
        printf("RATE conv bs%lld %dx %lld-%lld %lldx%lld/%lld@%lld: forward %.1f us, dinput %.1f us, "
               "dweight to f32 %.1f us (%.0f, %.0f, %.0f TFLOP/s)\n",
               (long long)batch, layers[i].count, (long long)l.c, (long long)l.o, (long long)l.kernel,
               (long long)l.kernel, (long long)l.stride, (long long)l.height, times[0], times[1], times[2],
               flops / times[0] * 1e-6, times[1] > 0 ? flops / times[1] * 1e-6 : 0, flops / times[2] * 1e-6);
        fflush(stdout);
        for (int pass = 0; pass < PASSES; pass++) sum[pass] += layers[i].count * times[pass];
        bare_free(x), bare_free(y), bare_free(w), bare_free(dw);
    }
    printf("SUM conv bs%lld: forward %.2f ms (cuDNN's best %.2f), dinput %.2f (%.2f), dweight %.2f (%.2f, to f16)\n",
           (long long)batch, sum[0] * 1e-3, known[0], sum[1] * 1e-3, known[1], sum[2] * 1e-3, known[2]);
}

int main(int argc, char **argv)
{
    bool timed = argc > 1 && strcmp(argv[1], "rates") == 0;
    int64_t batch = argc > 2 ? strtoll(argv[2], NULL, 10) : 0; /* of 64 and 256 one alone */
    bare_begin(CUDA_DEVICE);
    /* n, c, o, kernel, stride, padding, dilation, groups, height, width */
    check((layer){8, 64, 64, 3, 1, 1, 1, 1, 28, 28, LS_F16, LS_F32});
    check((layer){8, 64, 256, 1, 1, 0, 1, 1, 28, 28, LS_F16, LS_F32});
    check((layer){8, 256, 64, 1, 1, 0, 1, 1, 14, 14, LS_BF16, LS_F32});
    check((layer){4, 3, 32, 3, 2, 1, 1, 1, 64, 60, LS_F16, LS_F32});
    check((layer){4, 3, 32, 3, 2, 1, 1, 1, 63, 64, LS_F16, LS_F32});
    check((layer){3, 3, 64, 3, 2, 1, 1, 1, 50, 40, LS_BF16, LS_BF16});
    check((layer){4, 3, 64, 7, 2, 3, 1, 1, 64, 64, LS_BF16, LS_F32});
    check((layer){4, 128, 128, 3, 2, 1, 1, 1, 29, 31, LS_F16, LS_F16});
    check((layer){4, 64, 96, 1, 2, 0, 1, 1, 15, 15, LS_F16, LS_F32});
    check((layer){2, 32, 48, 3, 1, 2, 2, 1, 17, 19, LS_F16, LS_F32});
    check((layer){4, 64, 64, 3, 1, 1, 1, 8, 14, 14, LS_F16, LS_F32});
    check((layer){4, 64, 64, 3, 1, 1, 1, 64, 14, 14, LS_F16, LS_F32});
    check((layer){2, 32, 64, 3, 2, 1, 1, 32, 15, 15, LS_F32, LS_F32});
    check((layer){3, 5, 7, 3, 1, 1, 1, 1, 11, 13, LS_F16, LS_F32});
    check((layer){3, 5, 7, 3, 2, 1, 1, 1, 11, 13, LS_F32, LS_F32});
    check((layer){2, 20, 50, 5, 1, 0, 1, 1, 12, 12, LS_F32, LS_F32});
    check((layer){2, 4, 6, 3, 2, 1, 2, 2, 11, 13, LS_F64, LS_F64});
    if (timed && batch != 256) rates(64, (const double[]){1.44, 1.43, 1.82});
    if (timed && batch != 64) rates(256, (const double[]){4.81, 4.67, 5.25});
    return bare_end();
}
