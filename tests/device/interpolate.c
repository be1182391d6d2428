/* interpolate.c - resizing and its gradient against plain loops and PyTorch's numbers. */
#include "pictures.h"

typedef struct side {
    int64_t at[2];
    double weight[2];
} side;

/* The pixels along one axis that contribute to output i. */
static side side_of(ls_attrs attrs, int axis, int64_t i, int64_t in, int64_t out, bool wide)
{
    double step = attrs.interpolate.scale[axis], at;
    if (!attrs.interpolate.bilinear) {
        at = wide ? floor((double)i * step) : (double)floorf((float)i * (float)step);
        if (out == in) at = (double)i;
        if (out == 2 * in) at = (double)(i / 2);
        return (side){{at > (double)(in - 1) ? in - 1 : (int64_t)at, 0}, {1, 0}};
    }
    if (attrs.interpolate.align_corners) at = out > 1 ? (double)(i * (in - 1)) / (double)(out - 1) : 0;
    else at = step * ((double)i + 0.5) - 0.5;
    if (out == in) at = (double)i;
    if (at < 0) at = 0;
    int64_t first = at > (double)(in - 1) ? in - 1 : (int64_t)at;
    double second = at - (double)first > 1 ? 1 : at - (double)first;
    return (side){{first, first < in - 1 ? first + 1 : first}, {1 - second, second}};
}

static void resize(ls_attrs attrs, ls_shape from, ls_shape to, ls_dtype dtype, placement how, placement how_to)
{
    operand x = operand_noise(dtype, from, how, 1), y = operand_new(dtype, to, how_to);
    operand dy = operand_noise(dtype, to, how_to, 2), dx = operand_new(dtype, from, how);
    run_op(LS_OP_interpolate, attrs, &x, NULL, &y, NULL);
    run_op(LS_OP_interpolate_grad, attrs, &dy, NULL, &dx, NULL);
    double *resized = zeros(&y), *gradient = zeros(&dx);
    for (int64_t i = 0; i < numel(&y.view); i++) {
        int64_t plane = i / (to.dim[2] * to.dim[3]);
        side rows = side_of(attrs, 0, i / to.dim[3] % to.dim[2], from.dim[2], to.dim[2], dtype == LS_F64);
        side columns = side_of(attrs, 1, i % to.dim[3], from.dim[3], to.dim[3], dtype == LS_F64);
        for (int k = 0; k < 4; k++) {
            int64_t source = pixel(&x, plane, rows.at[k / 2], columns.at[k % 2]);
            double weight = rows.weight[k / 2] * columns.weight[k % 2];
            resized[i] += weight * get(&x, source);
            gradient[source] += weight * get(&dy, i);
        }
    }
    /* Coordinates are f32: less precise far from 0. */
    double allowed = dtype == LS_F64 ? 1e-12 : tolerance(dtype) + 1e-6 * (double)(from.dim[2] + from.dim[3]);
    for (int64_t i = 0; i < numel(&y.view); i++) CHECK_NEAR(get(&y, i), resized[i], allowed);
    for (int64_t i = 0; i < numel(&dx.view); i++) CHECK_NEAR(get(&dx, i), gradient[i], allowed);
    free(resized);
    free(gradient);
    operand_free(&x);
    operand_free(&y);
    operand_free(&dy);
    operand_free(&dx);
}

static const struct {
    ls_shape from, to;
    double factor[2]; /* 0: from the sizes */
} cases[] = {
    {{4, {1, 1, 1, 1}}, {4, {1, 1, 3, 4}}, {0, 0}},       {{4, {2, 3, 4, 5}}, {4, {2, 3, 8, 10}}, {0, 0}},
    {{4, {1, 19, 7, 9}}, {4, {1, 19, 10, 4}}, {0, 0}},    {{4, {2, 4, 8, 6}}, {4, {2, 4, 3, 1}}, {0, 0}},
    {{4, {1, 5, 6, 7}}, {4, {1, 5, 13, 18}}, {2.3, 2.6}}, {{4, {1, 2, 5, 4}}, {4, {1, 2, 5, 8}}, {1.1, 2.2}},
    {{4, {2, 16, 20, 30}}, {4, {2, 16, 40, 45}}, {0, 0}}, {{4, {0, 3, 4, 4}}, {4, {0, 3, 8, 8}}, {0, 0}},
};

static void resizes(void)
{
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        for (int mode = 0; mode < 3; mode++) {
            ls_attrs attrs = {.interpolate = {.bilinear = mode > 0, .align_corners = mode == 2}};
            for (int axis = 0; axis < 2; axis++) {
                double factor = cases[c].factor[axis];
                double ratio = (double)cases[c].from.dim[2 + axis] / (double)cases[c].to.dim[2 + axis];
                attrs.interpolate.scale[axis] = factor > 0 ? 1 / factor : ratio;
            }
            for (int t = LS_F16; t <= LS_F64; t++) {
                for (int how = 0; how < LAYOUTS; how++) {
                    resize(attrs, cases[c].from, cases[c].to, (ls_dtype)t, (placement)how, (placement)how);
                    resize(attrs, cases[c].from, cases[c].to, (ls_dtype)t, (placement)how,
                           (placement)((how + 1) % LAYOUTS));
                }
            }
        }
    }
}

/* [[1, 2, 4], [8, 16, 32]] to [3, 4] by torch.nn.functional.interpolate, and the gradient for dy = 1 .. 12. */
static void gives_the_numbers_of_pytorch(void)
{
    static const float resized[3][12] = {
        {1, 1, 2, 4, 1, 1, 2, 4, 8, 8, 16, 32},
        {1, 1.625f, 2.75f, 4, 4.5f, 7.3125f, 12.375f, 18, 8, 13, 22, 32},
        {1, 1.66666675f, 2.66666675f, 4, 4.5f, 7.5f, 12, 18, 8, 13.333334f, 21.333334f, 32},
    };
    static const float gradient[3][6] = {
        {14, 10, 12, 19, 11, 12},
        {5.375f, 7.1875f, 10.4375f, 16.375f, 17.1874981f, 21.4375f},
        {5.16666651f, 7.66666651f, 10.166667f, 15.833333f, 18.3333321f, 20.833334f},
    };
    for (int mode = 0; mode < 3; mode++) {
        ls_attrs attrs = {.interpolate = {mode > 0, mode == 2, {2.0 / 3, 3.0 / 4}}};
        operand x = operand_new(LS_F32, LS_SHAPE(1, 1, 2, 3), PLAIN),
                y = operand_new(LS_F32, LS_SHAPE(1, 1, 3, 4), PLAIN);
        for (int i = 0; i < 6; i++) set(&x, i, 1 << i);
        run_op(LS_OP_interpolate, attrs, &x, NULL, &y, NULL);
        for (int i = 0; i < 12; i++) CHECK_NEAR(get(&y, i), resized[mode][i], 1e-6);
        for (int i = 0; i < 12; i++) set(&y, i, i + 1);
        run_op(LS_OP_interpolate_grad, attrs, &y, NULL, &x, NULL);
        for (int i = 0; i < 6; i++) CHECK_NEAR(get(&x, i), gradient[mode][i], 1e-6);
        operand_free(&x);
        operand_free(&y);
    }
}

static void all(void)
{
    CHECK_RUN(resizes);
    CHECK_RUN(gives_the_numbers_of_pytorch);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    for (int width = 1; width <= 2; width++) {
        ls_parallel_set_width(width);
        all();
    }
    return check_done();
}
