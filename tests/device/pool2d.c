/* pool2d.c - pooling and its gradients against plain loops. */
#include "pictures.h"

typedef struct setup {
    int64_t n, c, h, w;
    int64_t kernel[2], stride[2], padding[2], dilation[2];
    bool ceil; /* of the output's size */
} setup;

static const setup setups[] = {
    {1, 1, 1, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}, false},  {2, 3, 7, 5, {2, 2}, {2, 2}, {0, 0}, {1, 1}, false},
    {2, 19, 9, 8, {3, 3}, {2, 2}, {1, 1}, {1, 1}, false}, {1, 33, 8, 11, {3, 2}, {1, 3}, {1, 0}, {1, 1}, true},
    {2, 4, 7, 7, {3, 3}, {2, 2}, {1, 1}, {1, 1}, true},   {1, 5, 11, 12, {3, 2}, {2, 1}, {1, 1}, {2, 3}, false},
    {3, 2, 6, 6, {1, 1}, {3, 2}, {0, 0}, {1, 1}, false},  {2, 17, 20, 31, {3, 3}, {2, 2}, {1, 1}, {1, 1}, false},
    {0, 3, 4, 4, {2, 2}, {2, 2}, {0, 0}, {1, 1}, false},  {1, 0, 4, 4, {2, 2}, {2, 2}, {0, 0}, {1, 1}, false},
};
enum { SETUPS = sizeof setups / sizeof *setups };

static ls_attrs attrs_of(const setup *s)
{
    ls_attrs attrs = {.pool = {.count_include_pad = 0}};
    for (int axis = 0; axis < 2; axis++) {
        attrs.pool.window.kernel[axis] = s->kernel[axis];
        attrs.pool.window.stride[axis] = s->stride[axis];
        attrs.pool.window.padding[axis] = s->padding[axis];
        attrs.pool.window.dilation[axis] = s->dilation[axis];
    }
    return attrs;
}

/* PyTorch's rule: the last window must start inside the picture or its leading padding. */
static int64_t pooled_size(const setup *s, int axis, bool dilated)
{
    int64_t in = axis ? s->w : s->h, reach = (dilated ? s->dilation[axis] : 1) * (s->kernel[axis] - 1) + 1;
    int64_t room = in + 2 * s->padding[axis] - reach;
    int64_t out = (room + (s->ceil ? s->stride[axis] - 1 : 0)) / s->stride[axis] + 1;
    if (s->ceil && (out - 1) * s->stride[axis] >= in + s->padding[axis]) out--;
    return out;
}

/* ---- max_pool2d -------------------------------------------------------------------------------------------------- */

static void pool_max(const setup *s, ls_dtype dtype, placement from, placement to)
{
    operand x = operand_noise(dtype, LS_SHAPE(s->n, s->c, s->h, s->w), from, 1);
    if (numel(&x.view) > 20) set(&x, 13, NAN);
    ls_shape shape = LS_SHAPE(s->n, s->c, pooled_size(s, 0, true), pooled_size(s, 1, true));
    operand y = operand_new(dtype, shape, to), only_y = operand_new(dtype, shape, to);
    operand where = operand_new(LS_I32, shape, to), dy = operand_noise(dtype, shape, to, 2);
    operand dx = operand_new(dtype, shape_of(&x), from);
    run_op(LS_OP_max_pool2d, attrs_of(s), &x, NULL, &y, &where);
    run_op(LS_OP_max_pool2d, attrs_of(s), &x, NULL, &only_y, NULL);
    run_op(LS_OP_max_pool2d_grad, attrs_of(s), &dy, &where, &dx, NULL);

    double *gradient = zeros(&dx);
    for (int64_t i = 0; i < numel(&y.view); i++) {
        int64_t plane = i / (shape.dim[2] * shape.dim[3]);
        int64_t top = i / shape.dim[3] % shape.dim[2] * s->stride[0] - s->padding[0];
        int64_t left = i % shape.dim[3] * s->stride[1] - s->padding[1];
        double best = -INFINITY;
        int64_t at = -1;
        for (int64_t k = 0; k < s->kernel[0] * s->kernel[1]; k++) {
            int64_t h = top + k / s->kernel[1] * s->dilation[0], w = left + k % s->kernel[1] * s->dilation[1];
            if (h < 0 || h >= s->h || w < 0 || w >= s->w) continue;
            double value = get(&x, pixel(&x, plane, h, w));
            if (at >= 0 && !(value > best) && !isnan(value)) continue;
            best = value;
            at = h * s->w + w;
        }
        CHECK_NEAR(get(&y, i), best, 0);
        CHECK_NEAR(get(&only_y, i), best, 0);
        CHECK(get(&where, i) == (double)at);
        gradient[plane * s->h * s->w + at] += get(&dy, i);
    }
    check_picture(&dx, gradient);
    operand_free(&x);
    operand_free(&y);
    operand_free(&only_y);
    operand_free(&where);
    operand_free(&dy);
    operand_free(&dx);
}

static void takes_the_largest(void)
{
    for (int i = 0; i < SETUPS; i++) {
        for (int t = LS_F16; t <= LS_F64; t++) {
            for (int how = 0; how < LAYOUTS; how++) {
                pool_max(&setups[i], (ls_dtype)t, (placement)how, (placement)how);
                pool_max(&setups[i], (ls_dtype)t, (placement)how, (placement)((how + 1) % LAYOUTS));
            }
        }
    }
}

/* A dilated window may be entirely outside the picture: then there is no largest. */
static void takes_nothing_from_an_empty_window(void)
{
    const setup s = {1, 4, 2, 2, {2, 2}, {1, 1}, {1, 1}, {3, 3}, false};
    for (int how = 0; how < LAYOUTS; how++) {
        operand x = operand_noise(LS_F32, LS_SHAPE(1, 4, 2, 2), (placement)how, 1);
        operand y = operand_new(LS_F32, LS_SHAPE(1, 4, 1, 1), (placement)how);
        operand where = operand_new(LS_I32, LS_SHAPE(1, 4, 1, 1), (placement)how);
        run_op(LS_OP_max_pool2d, attrs_of(&s), &x, NULL, &y, &where);
        for (int64_t i = 0; i < 4; i++) CHECK(get(&y, i) == -INFINITY && get(&where, i) == -1);
        run_op(LS_OP_max_pool2d_grad, attrs_of(&s), &y, &where, &x, NULL);
        for (int64_t i = 0; i < 16; i++) CHECK(get(&x, i) == 0);
        operand_free(&x);
        operand_free(&y);
        operand_free(&where);
    }
}

/* ---- means ------------------------------------------------------------------------------------------------------- */

typedef struct bounds {
    int64_t first[2], end[2]; /* part of a window inside the picture */
    double divisor;
} bounds;

static bounds avg_bounds(const setup *s, int64_t row, int64_t column, bool include_padding)
{
    bounds b = {.divisor = 1};
    for (int axis = 0; axis < 2; axis++) {
        int64_t in = axis ? s->w : s->h, start = (axis ? column : row) * s->stride[axis] - s->padding[axis];
        int64_t end = start + s->kernel[axis];
        if (end > in + s->padding[axis]) end = in + s->padding[axis];
        b.first[axis] = start < 0 ? 0 : start;
        b.end[axis] = end > in ? in : end;
        b.divisor *= (double)(include_padding ? end - start : b.end[axis] - b.first[axis]);
    }
    return b;
}

static bounds adaptive_bounds(const setup *s, const operand *y, int64_t row, int64_t column)
{
    bounds b = {.divisor = 1};
    for (int axis = 0; axis < 2; axis++) {
        double in = (double)(axis ? s->w : s->h), out = (double)y->view.dim[2 + axis],
               i = (double)(axis ? column : row);
        b.first[axis] = (int64_t)floor(i * in / out);
        b.end[axis] = (int64_t)ceil((i + 1) * in / out);
        b.divisor *= (double)(b.end[axis] - b.first[axis]);
    }
    return b;
}

enum { EXCLUDE_PADDING, INCLUDE_PADDING, ADAPTIVE };

static void pool_mean(const setup *s, int kind, ls_shape shape, ls_dtype dtype, placement from, placement to)
{
    operand x = operand_noise(dtype, LS_SHAPE(s->n, s->c, s->h, s->w), from, 1);
    operand y = operand_new(dtype, shape, to), dy = operand_noise(dtype, shape, to, 2);
    operand dx = operand_new(dtype, shape_of(&x), from);
    ls_attrs attrs = attrs_of(s);
    attrs.pool.count_include_pad = kind == INCLUDE_PADDING;
    run_op(kind == ADAPTIVE ? LS_OP_adaptive_avg_pool2d : LS_OP_avg_pool2d, attrs, &x, NULL, &y, NULL);
    run_op(kind == ADAPTIVE ? LS_OP_adaptive_avg_pool2d_grad : LS_OP_avg_pool2d_grad, attrs, &dy, NULL, &dx, NULL);

    double *mean = zeros(&y), *gradient = zeros(&dx);
    for (int64_t i = 0; i < numel(&y.view); i++) {
        int64_t plane = i / (shape.dim[2] * shape.dim[3]), row = i / shape.dim[3] % shape.dim[2],
                column = i % shape.dim[3];
        bounds b = kind == ADAPTIVE ? adaptive_bounds(s, &y, row, column) : avg_bounds(s, row, column, kind);
        for (int64_t h = b.first[0]; h < b.end[0]; h++) {
            for (int64_t w = b.first[1]; w < b.end[1]; w++) {
                mean[i] += get(&x, pixel(&x, plane, h, w)) / b.divisor;
                gradient[pixel(&x, plane, h, w)] += get(&dy, i) / b.divisor;
            }
        }
    }
    check_picture(&y, mean);
    check_picture(&dx, gradient);
    operand_free(&x);
    operand_free(&y);
    operand_free(&dy);
    operand_free(&dx);
}

static void takes_means(void)
{
    const int64_t sizes[][2] = {{1, 1}, {3, 5}, {7, 2}, {14, 1}};
    for (int i = 0; i < SETUPS; i++) {
        const setup *s = &setups[i];
        for (int t = LS_F16; t <= LS_F64; t++) {
            for (int how = 0; how < LAYOUTS; how++) {
                placement to = i % 2 ? (placement)((how + 1) % LAYOUTS) : (placement)how;
                ls_shape pooled = LS_SHAPE(s->n, s->c, pooled_size(s, 0, false), pooled_size(s, 1, false));
                pool_mean(s, EXCLUDE_PADDING, pooled, (ls_dtype)t, (placement)how, to);
                pool_mean(s, INCLUDE_PADDING, pooled, (ls_dtype)t, (placement)how, to);
                for (int k = 0; k < 4; k++)
                    pool_mean(s, ADAPTIVE, LS_SHAPE(s->n, s->c, sizes[k][0], sizes[k][1]), (ls_dtype)t, (placement)how,
                              to);
            }
        }
    }
}

/* Nothing depends on the number of workers, to the last bit. */
static void workers_do_not_change_bits(void)
{
    const setup s = {3, 24, 37, 29, {3, 3}, {1, 2}, {1, 1}, {1, 1}, false};
    ls_attrs attrs = attrs_of(&s);
    ls_shape shape = LS_SHAPE(s.n, s.c, pooled_size(&s, 0, true), pooled_size(&s, 1, true));
    operand x = operand_new(LS_F32, LS_SHAPE(s.n, s.c, s.h, s.w), CHANNELS_LAST),
            dy = operand_new(LS_F32, shape, CHANNELS_LAST);
    for (int64_t i = 0; i < numel(&x.view); i++) set(&x, i, sin((double)i));
    for (int64_t i = 0; i < numel(&dy.view); i++) set(&dy, i, cos((double)i));
    operand results[3][5];
    for (int width = 1; width <= 3; width++) {
        operand *r = results[width - 1];
        ls_parallel_set_width(width);
        for (int i = 0; i < 5; i++)
            r[i] = operand_new(i == 1 ? LS_I32 : LS_F32, i < 3 ? shape : shape_of(&x), CHANNELS_LAST);
        run_op(LS_OP_max_pool2d, attrs, &x, NULL, &r[0], &r[1]);
        run_op(LS_OP_avg_pool2d, attrs, &x, NULL, &r[2], NULL);
        run_op(LS_OP_max_pool2d_grad, attrs, &dy, &r[1], &r[3], NULL);
        run_op(LS_OP_avg_pool2d_grad, attrs, &dy, NULL, &r[4], NULL);
        for (int i = 0; i < 5; i++) CHECK(same_bits(&r[i], &results[0][i]));
    }
    for (int i = 0; i < 15; i++) operand_free(&results[i / 5][i % 5]);
    operand_free(&x);
    operand_free(&dy);
}

static void all(void)
{
    CHECK_RUN(takes_the_largest);
    CHECK_RUN(takes_nothing_from_an_empty_window);
    CHECK_RUN(takes_means);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    for (int width = 1; width <= 2; width++) {
        ls_parallel_set_width(width);
        all();
    }
    CHECK_RUN(workers_do_not_change_bits);
    return check_done();
}
