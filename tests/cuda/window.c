/* window.c - pooling, resizing and their gradients on the GPU against plain loops in f64, group norm, and rates. A
 * gradient is held against sums over all windows, one by one. */
#include "bare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct picture {
    ls_dtype dtype;
    bare_order order;
    int64_t n, c, height, width;
} picture;

static bare_tensor *new_picture(picture p, double deviation)
{
    return bare_new(p.dtype, p.order, BARE_DIMS(p.n, p.c, p.height, p.width), deviation);
}

static double *zeros(int64_t n)
{
    double *values = calloc((size_t)n, sizeof *values);
    if (!values) exit(1);
    return values;
}

static void title(const char *what, picture p)
{
    printf("%s %s [%lld,%lld,%lld,%lld] %s\n", what, bare_type(p.dtype), (long long)p.n, (long long)p.c,
           (long long)p.height, (long long)p.width, p.order == BARE_CHANNELS_LAST ? "channels last" : "planes");
}

/* ---- pools ---- */

static ls_attrs pool_attrs(int64_t kernel, int64_t stride, int64_t padding, int64_t dilation, bool count_padding)
{
    ls_attrs a = {.pool = {.count_include_pad = count_padding}};
    for (int i = 0; i < 2; i++) {
        a.pool.window.kernel[i] = kernel, a.pool.window.stride[i] = stride;
        a.pool.window.padding[i] = padding, a.pool.window.dilation[i] = dilation;
    }
    return a;
}

static void check_max(picture p, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation)
{
    title("max_pool2d", p);
    picture q = p;
    q.height = (p.height + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
    q.width = (p.width + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
    picture at = q;
    at.dtype = LS_I32;
    bare_tensor *x = new_picture(p, 1), *y = new_picture(q, 0), *where = new_picture(at, 0);
    bare_tensor *dy = new_picture(q, 1), *dx = new_picture(p, 0);
    double *max = zeros(y->numel), *place = zeros(y->numel), *grad = zeros(x->numel);
    for (int64_t i = 0; i < y->numel; i++) {
        int64_t plane = i / q.width / q.height, top = i / q.width % q.height * stride - padding;
        int64_t left = i % q.width * stride - padding;
        max[i] = -INFINITY;
        for (int64_t r = top; r < top + kernel * dilation; r += dilation)
            for (int64_t c = left; c < left + kernel * dilation; c += dilation) {
                if (r < 0 || c < 0 || r >= p.height || c >= p.width) continue;
                double value = x->value[(plane * p.height + r) * p.width + c];
                if (value > max[i]) max[i] = value, place[i] = (double)(r * p.width + c);
            }
        grad[plane * p.height * p.width + (int64_t)place[i]] += dy->value[i];
    }
    ls_call call = {.op = LS_OP_max_pool2d, .n_in = 1, .n_out = 2, .in = {&x->view}, .out = {&y->view, &where->view}};
    call.attrs = pool_attrs(kernel, stride, padding, dilation, true);
    ls_call back = {.op = LS_OP_max_pool2d_grad,
                    .n_in = 2,
                    .n_out = 1,
                    .in = {&dy->view, &where->view},
                    .out = {&dx->view},
                    .attrs = call.attrs};
    ls_call alone = call; /* without the positions */
    alone.n_out = 1;
    if (bare_run(&alone)) {
        bare_fetch(y);
        bare_compare("y alone", y->numel, y->value, max, 0);
    }
    if (bare_run(&call) && bare_run(&back)) {
        bare_fetch(y), bare_fetch(where), bare_fetch(dx);
        bare_compare("y", y->numel, y->value, max, 0);
        bare_compare("where", y->numel, where->value, place, 0);
        bare_compare("dx", x->numel, dx->value, grad, bare_rounding(p.dtype));
    }
    free(max), free(place), free(grad);
    bare_free(x), bare_free(y), bare_free(where), bare_free(dy), bare_free(dx);
}

/* Weights of the inputs of output o along an axis: [in], zero where it does not see them. */
typedef void axis_fn(const ls_attrs *attrs, int64_t in, int64_t out, int64_t o, double *weight);

static void avg_axis(const ls_attrs *attrs, int64_t in, int64_t out, int64_t o, double *weight)
{
    (void)out;
    const ls_window *w = &attrs->pool.window;
    int64_t start = o * w->stride[0] - w->padding[0], end = start + w->kernel[0], seen = 0;
    if (end > in + w->padding[0]) end = in + w->padding[0];
    for (int64_t i = start; i < end; i++) seen += i >= 0 && i < in;
    for (int64_t i = start; i < end; i++)
        if (i >= 0 && i < in) weight[i] = 1.0 / (double)(attrs->pool.count_include_pad ? end - start : seen);
}

static void adaptive_axis(const ls_attrs *attrs, int64_t in, int64_t out, int64_t o, double *weight)
{
    (void)attrs;
    int64_t first = o * in / out, end = ((o + 1) * in + out - 1) / out;
    for (int64_t i = first; i < end; i++) weight[i] = 1.0 / (double)(end - first);
}

static void nearest_axis(const ls_attrs *attrs, int64_t in, int64_t out, int64_t o, double *weight)
{
    (void)out;
    int64_t at = (int64_t)floor((double)o * attrs->interpolate.scale[0]);
    weight[at < in ? at : in - 1] = 1;
}

static void bilinear_axis(const ls_attrs *attrs, int64_t in, int64_t out, int64_t o, double *weight)
{
    double at = attrs->interpolate.align_corners ? (double)o * (double)(in - 1) / (double)(out - 1)
                                                 : attrs->interpolate.scale[0] * ((double)o + 0.5) - 0.5;
    if (at < 0) at = 0;
    int64_t first = (int64_t)at;
    if (first > in - 1) first = in - 1;
    if (first == in - 1) weight[first] = 1;
    else weight[first] = 1 - (at - (double)first), weight[first + 1] = at - (double)first;
}

/* Squares only: both axes are alike. */
static void check_sum(const char *what, ls_opcode op, ls_opcode back_op, axis_fn *axis, ls_attrs attrs, picture p,
                      int64_t out)
{
    title(what, p);
    picture q = p;
    q.height = q.width = out;
    bare_tensor *x = new_picture(p, 1), *y = new_picture(q, 0), *dy = new_picture(q, 1), *dx = new_picture(p, 0);
    double *sum = zeros(y->numel), *grad = zeros(x->numel), *weight = zeros(out * p.width);
    for (int64_t o = 0; o < out; o++) axis(&attrs, p.width, out, o, weight + o * p.width);
    for (int64_t i = 0; i < y->numel; i++) {
        int64_t plane = i / out / out;
        const double *down = weight + i / out % out * p.width, *across = weight + i % out * p.width;
        for (int64_t r = 0; r < p.height; r++)
            for (int64_t c = 0; down[r] != 0 && c < p.width; c++) {
                sum[i] += down[r] * across[c] * x->value[(plane * p.height + r) * p.width + c];
                grad[(plane * p.height + r) * p.width + c] += down[r] * across[c] * dy->value[i];
            }
    }
    ls_call call = {.op = op, .n_in = 1, .n_out = 1, .in = {&x->view}, .out = {&y->view}, .attrs = attrs};
    ls_call back = {.op = back_op, .n_in = 1, .n_out = 1, .in = {&dy->view}, .out = {&dx->view}, .attrs = attrs};
    if (bare_run(&call) && bare_run(&back)) {
        bare_fetch(y), bare_fetch(dx);
        bare_compare("y", y->numel, y->value, sum, bare_rounding(p.dtype) + 1e-5);
        bare_compare("dx", x->numel, dx->value, grad, bare_rounding(p.dtype) + 1e-5);
    }
    free(sum), free(grad), free(weight);
    bare_free(x), bare_free(y), bare_free(dy), bare_free(dx);
}

/* ---- normalize ---- */

static void check_normalize(ls_dtype to, bare_order order, int64_t width)
{
    picture p = {LS_U8, order, 3, 3, 37, width}, q = {to, BARE_CHANNELS_LAST, 3, 3, 37, width};
    title("normalize", p);
    bare_tensor *x = new_picture(p, 0), *y = new_picture(q, 0);
    for (int64_t i = 0; i < x->numel; i++) x->value[i] = (double)(i * 7919 % 256);
    bare_send(x);
    ls_attrs attrs = {.normalize = {.mean = {0.485, 0.456, 0.406}, .std = {0.229, 0.224, 0.225}}};
    ls_call call = {.op = LS_OP_normalize, .n_in = 1, .n_out = 1, .in = {&x->view}, .out = {&y->view}, .attrs = attrs};
    double *wanted = zeros(y->numel);
    for (int64_t i = 0; i < y->numel; i++) {
        int64_t c = i / p.height / p.width % p.c;
        wanted[i] = (x->value[i] / 255 - attrs.normalize.mean[c]) / attrs.normalize.std[c];
    }
    if (bare_run(&call)) {
        bare_fetch(y);
        bare_compare("y", y->numel, y->value, wanted, bare_rounding(to) + 1e-7);
    }
    free(wanted);
    bare_free(x), bare_free(y);
}

/* ---- group norm ---- */

static void check_group_norm(picture p, int64_t groups)
{
    title("group_norm", p);
    bare_tensor *x = new_picture(p, 2), *dy = new_picture(p, 1), *y = new_picture(p, 0), *dx = new_picture(p, 0);
    bare_tensor *v[4], *statistics[2];
    for (int i = 0; i < 4; i++) v[i] = bare_new(LS_F32, BARE_ROW_MAJOR, BARE_DIMS(p.c), 1);
    ls_dtype wide = p.dtype == LS_F64 ? LS_F64 : LS_F32;
    for (int i = 0; i < 2; i++) statistics[i] = bare_new(wide, BARE_ROW_MAJOR, BARE_DIMS(p.n, groups), 0);
    int64_t area = p.height * p.width, each = p.c / groups, count = each * area;
    double *wy = zeros(x->numel), *wdx = zeros(x->numel), *dweight = zeros(p.c), *dbias = zeros(p.c);
    for (int64_t c = 0; c < p.c; c++) dweight[c] = v[2]->value[c], dbias[c] = v[3]->value[c];
    for (int64_t row = 0; row < p.n * groups; row++) {
        int64_t first = row * count;
        double mean = 0, var = 0, sum = 0, dot = 0;
        for (int64_t i = first; i < first + count; i++) mean += x->value[i] / (double)count;
        for (int64_t i = first; i < first + count; i++)
            var += (x->value[i] - mean) * (x->value[i] - mean) / (double)count;
        double rstd = 1 / sqrt(var + 1e-5);
        for (int64_t i = first; i < first + count; i++) {
            int64_t c = i / area % p.c;
            double along = (x->value[i] - mean) * rstd, given = dy->value[i] * v[0]->value[c];
            wy[i] = along * v[0]->value[c] + v[1]->value[c];
            sum += given / (double)count, dot += given * along / (double)count;
            dweight[c] += dy->value[i] * along, dbias[c] += dy->value[i];
        }
        for (int64_t i = first; i < first + count; i++)
            wdx[i] = rstd * (dy->value[i] * v[0]->value[i / area % p.c] - sum - (x->value[i] - mean) * rstd * dot);
    }
    ls_call call = {.op = LS_OP_group_norm,
                    .n_in = 3,
                    .n_out = 3,
                    .in = {&x->view, &v[0]->view, &v[1]->view},
                    .out = {&y->view, &statistics[0]->view, &statistics[1]->view}};
    call.attrs.norm.epsilon = 1e-5, call.attrs.norm.groups = groups, call.attrs.norm.accumulate = 2 | 4;
    ls_call back = {.op = LS_OP_group_norm_grad,
                    .n_in = 5,
                    .n_out = 3,
                    .in = {&dy->view, &x->view, &statistics[0]->view, &statistics[1]->view, &v[0]->view},
                    .out = {&dx->view, &v[2]->view, &v[3]->view},
                    .attrs = call.attrs};
    if (bare_run(&call) && bare_run(&back)) {
        bare_fetch(y), bare_fetch(dx), bare_fetch(v[2]), bare_fetch(v[3]);
        bare_compare("y", y->numel, y->value, wy, 2 * bare_rounding(p.dtype) + 1e-6);
        bare_compare("dx", x->numel, dx->value, wdx, 2 * bare_rounding(p.dtype) + 1e-6);
        bare_compare("dweight", p.c, v[2]->value, dweight, 2e-5);
        bare_compare("dbias", p.c, v[3]->value, dbias, 2e-5);
    }
    free(wy), free(wdx), free(dweight), free(dbias);
    bare_free(x), bare_free(dy), bare_free(y), bare_free(dx);
    for (int i = 0; i < 4; i++) bare_free(v[i]);
    for (int i = 0; i < 2; i++) bare_free(statistics[i]);
}

/* ---- rates of resnet50d's ---- */

static void rate(const char *what, const ls_call *call, double bytes)
{
    double time = bare_time(call);
    printf("RATE %s: %.1f us, %.2f TB/s of what must be moved\n", what, time, bytes / time * 1e-6);
}

static void rates(int64_t n)
{
    bare_order last = BARE_CHANNELS_LAST;
    bare_tensor *x = bare_big(LS_F16, last, BARE_DIMS(n, 64, 112, 112)),
                *y = bare_big(LS_F16, last, BARE_DIMS(n, 64, 56, 56));
    bare_tensor *where = bare_big(LS_I32, last, BARE_DIMS(n, 64, 56, 56));
    double small = 2.0 * (double)y->numel;
    ls_call call = {.op = LS_OP_max_pool2d, .n_in = 1, .n_out = 2, .in = {&x->view}, .out = {&y->view, &where->view}};
    call.attrs = pool_attrs(3, 2, 1, 1, true);
    printf("batch %lld\n", (long long)n);
    rate("max_pool2d 64@112", &call, 7 * small);
    call.n_out = 1;
    rate("max_pool2d 64@112 alone", &call, 5 * small);
    ls_call back = {
        .op = LS_OP_max_pool2d_grad, .n_in = 2, .n_out = 1, .in = {&y->view, &where->view}, .out = {&x->view}};
    back.attrs = call.attrs;
    rate("max_pool2d_grad 64@112", &back, 7 * small);
    bare_free(x), bare_free(y), bare_free(where);
    x = bare_big(LS_F16, last, BARE_DIMS(n, 256, 56, 56)), y = bare_big(LS_F16, last, BARE_DIMS(n, 256, 28, 28));
    small = 2.0 * (double)y->numel;
    ls_call avg = {.op = LS_OP_avg_pool2d, .n_in = 1, .n_out = 1, .in = {&x->view}, .out = {&y->view}};
    avg.attrs = pool_attrs(2, 2, 0, 1, false);
    rate("avg_pool2d 256@56", &avg, 5 * small);
    ls_call avg_back = {.op = LS_OP_avg_pool2d_grad, .n_in = 1, .n_out = 1, .in = {&y->view}, .out = {&x->view}};
    avg_back.attrs = avg.attrs;
    rate("avg_pool2d_grad 256@56", &avg_back, 5 * small);
    bare_free(x), bare_free(y);
    x = bare_big(LS_F16, last, BARE_DIMS(n, 2048, 7, 7)), y = bare_big(LS_F16, last, BARE_DIMS(n, 2048, 1, 1));
    ls_call whole = {.op = LS_OP_adaptive_avg_pool2d, .n_in = 1, .n_out = 1, .in = {&x->view}, .out = {&y->view}};
    rate("adaptive_avg_pool2d 2048@7", &whole, 2.0 * (double)x->numel);
    ls_call whole_back = {
        .op = LS_OP_adaptive_avg_pool2d_grad, .n_in = 1, .n_out = 1, .in = {&y->view}, .out = {&x->view}};
    rate("adaptive_avg_pool2d_grad 2048@7", &whole_back, 2.0 * (double)x->numel);
    bare_free(x), bare_free(y);
    x = bare_big(LS_U8, last, BARE_DIMS(n, 3, 224, 224)), y = bare_big(LS_F32, last, BARE_DIMS(n, 3, 224, 224));
    ls_call photos = {.op = LS_OP_normalize, .n_in = 1, .n_out = 1, .in = {&x->view}, .out = {&y->view}};
    for (int i = 0; i < 3; i++) photos.attrs.normalize.std[i] = 0.2;
    rate("normalize 3@224", &photos, 5.0 * (double)x->numel);
    bare_free(x), bare_free(y);
}

int main(int argc, char **argv)
{
    bool timed = argc > 1 && strcmp(argv[1], "rates") == 0;
    int64_t batch = argc > 2 ? strtoll(argv[2], NULL, 10) : 0; /* of 64 and 256 one alone */
    bare_begin(CUDA_DEVICE);
    bare_order last = BARE_CHANNELS_LAST, planes = BARE_ROW_MAJOR;
    check_max((picture){LS_F16, last, 3, 64, 28, 28}, 3, 2, 1, 1);
    check_max((picture){LS_BF16, last, 2, 12, 15, 17}, 3, 1, 1, 2);
    check_max((picture){LS_F32, planes, 2, 5, 15, 17}, 2, 2, 0, 1);
    check_max((picture){LS_F16, last, 2, 24, 16, 15}, 5, 2, 2, 1);
    check_max((picture){LS_BF16, last, 2, 8, 9, 11}, 2, 3, 0, 1); /* pixels that no window sees */
    ls_attrs adaptive = {.pool = {.count_include_pad = 0}},
             nearest = {.interpolate = {.scale = {14.0 / 25, 14.0 / 25}}};
    ls_attrs bilinear = {.interpolate = {.bilinear = 1, .scale = {14.0 / 25, 14.0 / 25}}}, corners = bilinear;
    ls_attrs less = {.interpolate = {.bilinear = 1, .scale = {14.0 / 6, 14.0 / 6}}};
    corners.interpolate.align_corners = 1;
    const picture each[] = {
        {LS_F16, last, 3, 32, 14, 14}, {LS_F32, planes, 2, 5, 14, 14}, {LS_F64, last, 2, 3, 14, 14}};
    for (int i = 0; i < 3; i++) {
        picture p = each[i];
        check_sum("avg_pool2d", LS_OP_avg_pool2d, LS_OP_avg_pool2d_grad, avg_axis, pool_attrs(2, 2, 0, 1, false), p, 7);
        check_sum("avg_pool2d", LS_OP_avg_pool2d, LS_OP_avg_pool2d_grad, avg_axis, pool_attrs(3, 2, 1, 1, false), p, 8);
        check_sum("avg_pool2d", LS_OP_avg_pool2d, LS_OP_avg_pool2d_grad, avg_axis, pool_attrs(3, 2, 1, 1, true), p, 8);
        check_sum("adaptive", LS_OP_adaptive_avg_pool2d, LS_OP_adaptive_avg_pool2d_grad, adaptive_axis, adaptive, p, 1);
        check_sum("adaptive", LS_OP_adaptive_avg_pool2d, LS_OP_adaptive_avg_pool2d_grad, adaptive_axis, adaptive, p, 5);
        check_sum("adaptive", LS_OP_adaptive_avg_pool2d, LS_OP_adaptive_avg_pool2d_grad, adaptive_axis, adaptive, p,
                  20);
        check_sum("nearest", LS_OP_interpolate, LS_OP_interpolate_grad, nearest_axis, nearest, p, 25);
        check_sum("bilinear", LS_OP_interpolate, LS_OP_interpolate_grad, bilinear_axis, bilinear, p, 25);
        check_sum("corners", LS_OP_interpolate, LS_OP_interpolate_grad, bilinear_axis, corners, p, 25);
        check_sum("smaller", LS_OP_interpolate, LS_OP_interpolate_grad, bilinear_axis, less, p, 6);
    }
    check_normalize(LS_F16, last, 41), check_normalize(LS_BF16, planes, 41), check_normalize(LS_F32, last, 41);
    check_normalize(LS_F16, last, 40), check_normalize(LS_BF16, planes, 40), check_normalize(LS_F32, last, 40);
    check_group_norm((picture){LS_F16, last, 4, 64, 9, 9}, 8);
    check_group_norm((picture){LS_F32, planes, 3, 48, 7, 7}, 6);
    check_group_norm((picture){LS_BF16, planes, 2, 33, 5, 5}, 3);
    check_group_norm((picture){LS_F64, last, 2, 40, 3, 3}, 1);
    if (timed && batch != 256) rates(64);
    if (timed && batch != 64) rates(256);
    return bare_end();
}
