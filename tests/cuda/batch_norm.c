/* batch_norm.c - batch norm on the GPU against plain loops in f64, and its rates on the layers of resnet50d. */
#include "bare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct layer {
    int64_t n, c, size;
    bool residual, relu, training;
    ls_dtype dtype;
    bare_order order;
} layer;

/* Do rows of the mask hold the channels of a pixel? Those of single pixels are adjacent in either order. */
static bool by_pixels(const layer *l)
{
    return l->order == BARE_CHANNELS_LAST || l->size == 1;
}

typedef struct operands {
    bare_tensor *x, *dy, *weight, *bias, *mean, *var, *residual, *y, *save_mean, *save_rstd, *mask, *running_mean,
        *running_var, *dx, *dweight, *dbias, *dresidual;
} operands;

static bare_tensor *vector(int64_t n, double deviation, double center)
{
    bare_tensor *t = bare_new(LS_F32, BARE_ROW_MAJOR, BARE_DIMS(n), deviation);
    for (int64_t i = 0; deviation > 0 && i < n; i++) t->value[i] = fabs(t->value[i]) + center;
    if (deviation > 0) bare_send(t), bare_fetch(t);
    return t;
}

static bare_tensor *picture(const layer *l, double deviation, bool big)
{
    const int64_t dim[] = {l->n, l->c, l->size, l->size};
    return big ? bare_big(l->dtype, l->order, 4, dim) : bare_new(l->dtype, l->order, 4, dim, deviation);
}

static operands operands_new(const layer *l, bool big)
{
    operands o = {0};
    bool pixels = by_pixels(l);
    int64_t rows = pixels ? l->n * l->size * l->size : l->n * l->c, length = pixels ? l->c : l->size * l->size;
    o.x = picture(l, 2, big);
    o.dy = picture(l, 1, big);
    if (l->residual) o.residual = picture(l, 1, big);
    o.y = picture(l, 0, big);
    o.dx = picture(l, 0, big);
    if (l->residual) o.dresidual = picture(l, 0, big);
    o.weight = vector(l->c, 1, 0.1), o.bias = vector(l->c, 1, -1);
    o.mean = vector(l->c, 1, 0), o.var = vector(l->c, 1, 0.5);
    o.running_mean = vector(l->c, 1, 0), o.running_var = vector(l->c, 1, 0.5);
    o.save_mean = vector(l->c, 0, 0), o.save_rstd = vector(l->c, 0, 0);
    o.dweight = vector(l->c, 1, 0), o.dbias = vector(l->c, 1, 0);
    const int64_t mask[] = {rows, (length + 63) / 64 * 8};
    if (l->relu) o.mask = big ? bare_big(LS_U8, BARE_ROW_MAJOR, 2, mask) : bare_new(LS_U8, BARE_ROW_MAJOR, 2, mask, 0);
    return o;
}

static void operands_free(operands *o)
{
    bare_tensor **all = (bare_tensor **)o;
    for (size_t i = 0; i < sizeof *o / sizeof *all; i++) bare_free(all[i]);
}

static const ls_operand *view(const bare_tensor *t)
{
    return t ? &t->view : NULL;
}

static ls_call forward_call(const layer *l, const operands *o)
{
    ls_call call = {.op = LS_OP_batch_norm, .n_in = 6, .n_out = 6};
    const bare_tensor *in[] = {
        o->x, o->weight, o->bias, l->training ? NULL : o->mean, l->training ? NULL : o->var, o->residual};
    const bare_tensor *out[] = {o->y, o->save_mean, o->save_rstd, o->mask, o->running_mean, o->running_var};
    for (int i = 0; i < 6; i++) call.in[i] = view(in[i]), call.out[i] = view(out[i]);
    if (!l->training)
        for (int i = 1; i < 6; i++)
            if (i != 3) call.out[i] = NULL;
    call.attrs.norm.epsilon = 1e-5, call.attrs.norm.momentum = 0.1, call.attrs.norm.training = l->training;
    call.attrs.norm.activation = l->relu ? LS_ACT_RELU : LS_ACT_NONE;
    return call;
}

static ls_call backward_call(const layer *l, const operands *o)
{
    ls_call call = {.op = LS_OP_batch_norm_grad, .n_in = 6, .n_out = 4};
    const bare_tensor *in[] = {
        o->dy, o->x, o->mask, l->training ? o->save_mean : o->mean, l->training ? o->save_rstd : o->var, o->weight};
    const bare_tensor *out[] = {o->dx, o->dweight, o->dbias, l->relu ? o->dresidual : NULL};
    for (int i = 0; i < 6; i++) call.in[i] = view(in[i]);
    for (int i = 0; i < 4; i++) call.out[i] = view(out[i]);
    call.attrs.norm.epsilon = 1e-5, call.attrs.norm.training = l->training, call.attrs.norm.accumulate = 2 | 4;
    return call;
}

static double *copy(const bare_tensor *t)
{
    double *values = malloc((size_t)t->numel * sizeof *values);
    for (int64_t i = 0; i < t->numel; i++) values[i] = t->value[i];
    return values;
}

static bool bit(const layer *l, const bare_tensor *mask, int64_t n, int64_t c, int64_t pixel)
{
    bool pixels = by_pixels(l);
    int64_t row = pixels ? n * l->size * l->size + pixel : n * l->c + c, at = pixels ? c : pixel;
    return (int)mask->value[row * mask->view.dim[1] + at / 8] >> (at % 8) & 1;
}

static void check(layer l)
{
    operands o = operands_new(&l, false);
    double *running_mean = copy(o.running_mean), *running_var = copy(o.running_var), *dweight = copy(o.dweight),
           *dbias = copy(o.dbias), *y = copy(o.y), *dx = copy(o.x), *dresidual = copy(o.x);
    ls_call forward = forward_call(&l, &o), backward = backward_call(&l, &o);
    printf("batch_norm %s [%lld,%lld,%lld,%lld] %s%s%s%s\n", bare_type(l.dtype), (long long)l.n, (long long)l.c,
           (long long)l.size, (long long)l.size, l.order == BARE_CHANNELS_LAST ? "channels last" : "planes",
           l.residual ? " residual" : "", l.relu ? " relu" : "", l.training ? "" : " evaluation");
    if (bare_run(&forward) && bare_run(&backward)) {
        bare_tensor *fetched[] = {o.y, o.dx, o.dweight, o.dbias, o.running_mean, o.running_var, o.mask, o.dresidual};
        for (int i = 0; i < 8; i++)
            if (fetched[i]) bare_fetch(fetched[i]);
        int64_t area = l.size * l.size, differ = 0;
        double count = (double)(l.n * area);
        for (int64_t c = 0; c < l.c; c++) {
            double mean = 0, m2 = 0, sum = 0, dot = 0;
#define EACH                                                                                                           \
    for (int64_t n = 0; n < l.n; n++)                                                                                  \
        for (int64_t p = 0, i = (n * l.c + c) * area; p < area; p++, i++)
            EACH mean += o.x->value[i];
            mean /= count;
            EACH m2 += (o.x->value[i] - mean) * (o.x->value[i] - mean);
            double center = l.training ? mean : o.mean->value[c], var = l.training ? m2 / count : o.var->value[c];
            double rstd = 1 / sqrt(var + 1e-5), gain = rstd * o.weight->value[c];
            EACH
            {
                double value = (o.x->value[i] - center) * gain + o.bias->value[c];
                if (l.residual) value += o.residual->value[i];
                y[i] = l.relu && value < 0 ? 0 : value;
                /* the mask's own word, so that rounding at zero is no error; it may differ there only */
                bool open = l.relu ? bit(&l, o.mask, n, c, p) : true;
                differ += l.relu && open != (value > 0) && fabs(value) > 1e-3;
                double d = open ? o.dy->value[i] : 0;
                dresidual[i] = d;
                sum += d;
                dot += d * (o.x->value[i] - center);
            }
            EACH
            {
                double d = dresidual[i], along = rstd * rstd * dot / count * (o.x->value[i] - center);
                dx[i] = l.training ? gain * (d - sum / count - along) : gain * d;
            }
            dweight[c] += dot * rstd;
            dbias[c] += sum;
            if (!l.training) continue;
            running_mean[c] = 0.9 * running_mean[c] + 0.1 * mean;
            running_var[c] = 0.9 * running_var[c] + 0.1 * m2 / (count - 1);
        }
        double rounding = 2 * bare_rounding(l.dtype) + 1e-6, narrow = l.dtype == LS_F64 ? 1e-6 : 2e-6;
        bare_compare("y", o.y->numel, o.y->value, y, rounding);
        bare_compare("dx", o.dx->numel, o.dx->value, dx, rounding);
        bare_compare("dweight", l.c, o.dweight->value, dweight, 20 * narrow);
        bare_compare("dbias", l.c, o.dbias->value, dbias, 20 * narrow);
        bare_compare("running_mean", l.c, o.running_mean->value, running_mean, narrow);
        bare_compare("running_var", l.c, o.running_var->value, running_var, narrow);
        if (l.relu) bare_compare("bits that differ", 1, (double[]){(double)differ}, (double[]){0}, 0);
        if (l.residual && l.relu) {
            bare_compare("dresidual", o.dresidual->numel, o.dresidual->value, dresidual, rounding);
            backward.out[1] = backward.out[2] = NULL;
            backward.out[3] = backward.in[0];
            if (bare_run(&backward)) {
                bare_fetch(o.dx);
                bare_fetch(o.dy);
                bare_compare("dx beside dresidual over dy", o.dx->numel, o.dx->value, dx, rounding);
                bare_compare("dresidual over dy", o.dy->numel, o.dy->value, dresidual, rounding);
            }
        }
    }
    double *all[] = {running_mean, running_var, dweight, dbias, y, dx, dresidual};
    for (int i = 0; i < 7; i++) free(all[i]);
    operands_free(&o);
}

/* Layers of resnet50d: channels, size of the picture, how many there are, residual, ReLU; bs64, bs256: microseconds
 * forward and backward of the sketch that the plan is built on. */
static const struct {
    int c, size, count;
    bool residual, relu;
    double expected[2][2];
} layers[] = {
    {32, 112, 2, false, true, {{49.4, 74.9}, {167, 270}}},    {64, 112, 1, false, true, {{91.8, 141.5}, {324, 519}}},
    {64, 56, 6, false, true, {{30.1, 44.0}, {91.9, 141}}},    {256, 56, 3, true, true, {{112.4, 175.8}, {412, 634}}},
    {256, 56, 1, false, false, {{87.5, 144}, {315, 516}}},    {128, 56, 1, false, true, {{50.1, 77.5}, {168, 273}}},
    {128, 28, 7, false, true, {{18.2, 25.1}, {50.1, 77.5}}},  {512, 28, 4, true, true, {{60.8, 94.1}, {212, 327}}},
    {512, 28, 1, false, false, {{48.8, 87.3}, {163, 267}}},   {256, 28, 1, false, true, {{28.6, 47.4}, {89.8, 149}}},
    {256, 14, 11, false, true, {{12.9, 17.3}, {28.6, 47.4}}}, {1024, 14, 6, true, true, {{34.3, 54.1}, {111, 174}}},
    {1024, 14, 1, false, false, {{28.3, 52.1}, {85.9, 142}}}, {512, 14, 1, false, true, {{18.0, 27.2}, {50.1, 80.2}}},
    {512, 7, 5, false, true, {{9.6, 13.1}, {18.0, 27.2}}},    {2048, 7, 3, true, true, {{21.6, 33.4}, {59.8, 96.1}}},
    {2048, 7, 1, false, false, {{17.6, 29.9}, {47.4, 79.9}}},
};

static void rates(int64_t batch, int which)
{
    double sum[2] = {0}, expected[2] = {0};
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        layer l = {batch,          layers[i].c, layers[i].size, layers[i].residual,
                   layers[i].relu, true,        LS_F16,         BARE_CHANNELS_LAST};
        operands o = operands_new(&l, true);
        ls_call forward = forward_call(&l, &o), backward = backward_call(&l, &o);
        double times[2] = {bare_time(&forward), bare_time(&backward)};
        double bytes = 2.0 * (double)(batch * l.c * l.size * l.size);
        printf("RATE batch_norm bs%lld %dx %lld@%lld: forward %.1f us (sketch %.1f, %.2f TB/s), "
               "backward %.1f us (sketch %.1f, %.2f TB/s)\n",
               (long long)batch, layers[i].count, (long long)l.c, (long long)l.size, times[0],
               layers[i].expected[which][0], (3 + l.residual) * bytes / times[0] * 1e-6, times[1],
               layers[i].expected[which][1], (5 + l.residual) * bytes / times[1] * 1e-6);
        fflush(stdout);
        for (int d = 0; d < 2; d++) {
            sum[d] += layers[i].count * times[d];
            expected[d] += layers[i].count * layers[i].expected[which][d];
        }
        operands_free(&o);
    }
    printf("SUM batch_norm bs%lld: forward %.2f ms (sketch %.2f), backward %.2f ms (sketch %.2f)\n", (long long)batch,
           sum[0] * 1e-3, expected[0] * 1e-3, sum[1] * 1e-3, expected[1] * 1e-3);
}

int main(int argc, char **argv)
{
    bool timed = argc > 1 && strcmp(argv[1], "rates") == 0;
    int64_t batch = argc > 2 ? strtoll(argv[2], NULL, 10) : 0; /* of 64 and 256 one alone */
    bare_begin(CUDA_DEVICE);
    bare_order last = BARE_CHANNELS_LAST, planes = BARE_ROW_MAJOR;
    check((layer){8, 256, 14, true, true, true, LS_F16, last});
    check((layer){16, 64, 28, false, true, true, LS_BF16, last});
    check((layer){4, 2048, 7, true, true, true, LS_F16, last});
    check((layer){6, 96, 14, true, true, true, LS_F16, last});
    check((layer){20, 64, 112, false, true, true, LS_BF16, last}); /* too large for shared memory */
    check((layer){4, 32, 33, false, false, true, LS_F32, last});
    check((layer){3, 13, 9, true, true, true, LS_F16, last});
    check((layer){3, 100, 5, true, true, true, LS_F32, last});
    check((layer){3, 12, 5, false, true, true, LS_F64, last});
    check((layer){4, 64, 14, true, true, false, LS_F16, last});
    check((layer){5, 24, 13, true, true, true, LS_F32, planes});
    check((layer){5, 24, 13, false, true, false, LS_BF16, planes});
    check((layer){64, 72, 1, false, true, true, LS_F32, planes});
    check((layer){3, 70001, 3, true, true, true, LS_F32, planes}); /* more channels than counters of blocks */
    check((layer){4, 1100001, 1, false, true, true, LS_F32, last});
    if (timed && batch != 256) rates(64, 0);
    if (timed && batch != 64) rates(256, 1);
    return bare_end();
}
