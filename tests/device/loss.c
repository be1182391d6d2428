/* loss.c - losses and their gradients against plain loops. */
#include "operands.h"

static const ls_reduction reductions[] = {LS_REDUCE_MEAN, LS_REDUCE_SUM, LS_REDUCE_NONE};

/* ---- By class --------------------------------------------------------------------------------------------------- */

typedef struct options {
    bool weight, ignore;
    double smoothing;
    ls_reduction reduction;
} options;

/* x [N,C,pixels]: log probability of class c in row r = sample * pixels + pixel. */
typedef struct logits {
    const operand *x;
    int64_t classes, pixels;
    bool from_logits;
} logits;

static int64_t element(const logits *l, int64_t row, int64_t c)
{
    return (row / l->pixels * l->classes + c) * l->pixels + row % l->pixels;
}

static double log_sum_exp(const logits *l, int64_t row)
{
    double max = -INFINITY, sum = 0;
    if (!l->from_logits) return 0;
    for (int64_t c = 0; c < l->classes; c++) max = fmax(max, get(l->x, element(l, row, c)));
    for (int64_t c = 0; c < l->classes; c++) sum += exp(get(l->x, element(l, row, c)) - max);
    return max + log(sum);
}

static ls_shape without_classes(ls_shape shape)
{
    ls_shape rows = {.ndim = shape.ndim - 1};
    if (shape.ndim == 1) return rows;
    rows.dim[0] = shape.dim[0];
    for (int32_t d = 1; d < rows.ndim; d++) rows.dim[d] = shape.dim[d + 1];
    return rows;
}

static void check_classes(ls_dtype dtype, ls_shape shape, placement layout, options with, bool from_logits)
{
    ls_dtype wide = ls_compute_dtype(dtype);
    int64_t classes = shape.ndim > 1 ? shape.dim[1] : shape.dim[0];
    ls_shape row_shape = without_classes(shape), loss_shape = with.reduction == LS_REDUCE_NONE ? row_shape : LS_SCALAR;
    operand x = operand_noise(dtype, shape, layout, 1), dx = operand_new(dtype, shape, layout);
    operand target = operand_new(LS_I64, row_shape, layout == GAPS ? GAPS : PLAIN);
    operand weight = operand_noise(wide, LS_SHAPE(classes), PLAIN, 2), lse = operand_new(wide, row_shape, PLAIN);
    operand loss = operand_new(wide, loss_shape, PLAIN), total = operand_new(wide, LS_SCALAR, PLAIN);
    operand dloss = operand_noise(wide, loss_shape, PLAIN, 3);
    int64_t rows = numel(&target.view), ignore = 1;
    for (int64_t r = 0; r < rows; r++) set(&target, r, floor((noise(9, r) + 2) / 4 * (double)classes));
    for (int64_t c = 0; c < classes; c++) set(&weight, c, fabs(get(&weight, c)) + 0.1);

    ls_call call = {.op = from_logits ? LS_OP_cross_entropy : LS_OP_nll_loss,
                    .n_in = 3,
                    .n_out = from_logits ? 3 : 2,
                    .in = {&x.view, &target.view, with.weight ? &weight.view : NULL},
                    .out = {&loss.view},
                    .attrs.loss = {.reduction = with.reduction,
                                   .smoothing = with.smoothing,
                                   .ignore_index = ignore,
                                   .has_ignore = with.ignore}};
    call.out[from_logits ? 1 : 0] = from_logits ? &lse.view : &loss.view;
    call.out[from_logits ? 2 : 1] = &total.view;
    run(&call);

    logits l = {&x, classes, rows && shape.ndim > 1 ? rows / shape.dim[0] : 1, from_logits};
    double sum = 0, weights = 0, all_weights = 0, s = from_logits ? with.smoothing : 0;
    for (int64_t c = 0; c < classes; c++) all_weights += with.weight ? get(&weight, c) : 1;
    for (int64_t r = 0; r < rows; r++) {
        int64_t t = (int64_t)get(&target, r);
        bool skip = with.ignore && t == ignore;
        double row_lse = log_sum_exp(&l, r), row = 0;
        if (!skip) {
            double w = with.weight ? get(&weight, t) : 1;
            row = (1 - s) * w * (row_lse - get(&x, element(&l, r, t)));
            for (int64_t c = 0; c < classes; c++)
                row +=
                    s / (double)classes * (with.weight ? get(&weight, c) : 1) * (row_lse - get(&x, element(&l, r, c)));
            weights += w;
        }
        sum += row;
        if (from_logits) CHECK_NEAR(get(&lse, r), row_lse, tolerance(wide));
        if (with.reduction == LS_REDUCE_NONE) CHECK_NEAR(get(&loss, r), row, 2 * tolerance(wide));
    }
    if (with.reduction == LS_REDUCE_MEAN) sum /= weights;
    if (with.reduction != LS_REDUCE_NONE) CHECK_NEAR(get(&loss, 0), sum, 2 * tolerance(wide));
    CHECK_NEAR(get(&total, 0), weights, tolerance(wide));

    ls_call grad = {
        .op = LS_OP_cross_entropy_grad,
        .n_in = 6,
        .n_out = 1,
        .in = {&dloss.view, &x.view, &target.view, with.weight ? &weight.view : NULL, &lse.view, &total.view},
        .out = {&dx.view},
        .attrs = call.attrs};
    if (!from_logits)
        grad = (ls_call){.op = LS_OP_nll_loss_grad,
                         .n_in = 4,
                         .n_out = 1,
                         .in = {&dloss.view, &target.view, with.weight ? &weight.view : NULL, &total.view},
                         .out = {&dx.view},
                         .attrs = call.attrs};
    run(&grad);
    for (int64_t r = 0; r < rows; r++) {
        int64_t t = (int64_t)get(&target, r);
        double w = with.weight ? get(&weight, t) : 1, g = get(&dloss, with.reduction == LS_REDUCE_NONE ? r : 0);
        if (with.reduction == LS_REDUCE_MEAN) g /= weights;
        if (with.ignore && t == ignore) g = 0;
        double row_lse = log_sum_exp(&l, r);
        for (int64_t c = 0; c < classes; c++) {
            double hard = g * (1 - s) * w, soft = g * s / (double)classes;
            double want = -(c == t ? hard : 0) - soft * (with.weight ? get(&weight, c) : 1);
            if (from_logits) want += exp(get(&x, element(&l, r, c)) - row_lse) * (hard + soft * all_weights);
            CHECK_NEAR(get(&dx, element(&l, r, c)), want, tolerance(dtype));
        }
    }
    operand *all[] = {&x, &dx, &target, &weight, &lse, &loss, &total, &dloss};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) operand_free(all[k]);
}

static void classes(void)
{
    const ls_shape shapes[] = {LS_SHAPE(3), LS_SHAPE(5, 3), LS_SHAPE(0, 3), LS_SHAPE(4, 1030), LS_SHAPE(2, 5, 3, 4)};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        for (int t = 0; t < FLOAT_TYPES; t++) {
            for (int layout = 0; layout < LAYOUTS; layout++) {
                for (int k = 0; k < 24; k++) {
                    options with = {k & 1, k & 2, k & 4 ? 0.1 : 0, reductions[k / 8]};
                    check_classes(float_types[t], shapes[s], (placement)layout, with, true);
                    if (!(k & 4)) check_classes(float_types[t], shapes[s], (placement)layout, with, false);
                }
            }
        }
    }
}

static void wrong_targets(void)
{
    operand x = operand_noise(LS_F32, LS_SHAPE(4, 3), PLAIN, 1), target = operand_new(LS_I64, LS_SHAPE(4), PLAIN);
    operand loss = operand_new(LS_F32, LS_SCALAR, PLAIN);
    for (int64_t i = 0; i < 4; i++) set(&target, i, i == 2 ? 3 : 1);
    ls_call call = {
        .op = LS_OP_cross_entropy, .n_in = 2, .n_out = 1, .in = {&x.view, &target.view}, .out = {&loss.view}};
    ls_message why;
    CHECK(ls_cpu_run(&call, &why) == LS_ERR_VALUE);
    CHECK_TEXT(why.text, "target 3 at index 2 is out of range for 3 classes");
    set(&target, 2, -100);
    call.op = LS_OP_nll_loss;
    CHECK(ls_cpu_run(&call, &why) == LS_ERR_VALUE);
    CHECK_TEXT(why.text, "target -100 at index 2 is out of range for 3 classes");
    call.attrs.loss.has_ignore = 1;
    call.attrs.loss.ignore_index = -100;
    CHECK(ls_cpu_run(&call, &why) == LS_OK);
    operand_free(&x);
    operand_free(&target);
    operand_free(&loss);
}

/* ---- By element ------------------------------------------------------------------------------------------------- */

typedef enum loss_kind { MSE, SMOOTH_L1, BCE } loss_kind;

static double loss_at(loss_kind kind, double x, double t, double weight, double positive, double beta)
{
    double d = x - t;
    if (kind == MSE) return d * d;
    if (kind == SMOOTH_L1) return fabs(d) < beta ? d * d / beta / 2 : fabs(d) - beta / 2;
    double p = 1 / (1 + exp(-x));
    return -weight * (positive * t * log(p) + (1 - t) * log(1 - p));
}

static double slope_at(loss_kind kind, double x, double t, double weight, double positive, double beta)
{
    double d = x - t;
    if (kind == MSE) return 2 * d;
    if (kind == SMOOTH_L1) return fabs(d) < beta ? d / beta : d > 0 ? 1 : d < 0 ? -1 : 0;
    double p = 1 / (1 + exp(-x));
    return -weight * (positive * t * (1 - p) - (1 - t) * p);
}

static void check_elements(loss_kind kind, ls_dtype dtype, ls_shape shape, placement layout, ls_reduction reduction,
                           bool weighted, double beta)
{
    static const ls_opcode forward[] = {LS_OP_mse_loss, LS_OP_smooth_l1_loss, LS_OP_bce_with_logits};
    static const ls_opcode backward[] = {LS_OP_mse_loss_grad, LS_OP_smooth_l1_loss_grad, LS_OP_bce_with_logits_grad};
    ls_dtype wide = ls_compute_dtype(dtype);
    ls_shape loss_shape = reduction == LS_REDUCE_NONE ? shape : LS_SCALAR;
    operand x = operand_noise(dtype, shape, layout, 1),
            t = operand_noise(dtype, shape, layout == GAPS ? PLAIN : layout, 2);
    operand weight = operand_noise(dtype, shape, PLAIN, 3), positive = operand_noise(dtype, shape, layout, 4);
    operand loss = operand_new(wide, loss_shape, PLAIN), dloss = operand_noise(wide, loss_shape, layout, 5);
    operand dx = operand_new(dtype, shape, layout);
    int64_t n = numel(&x.view);
    for (int64_t i = 0; i < n; i++) {
        set(&weight, i, fabs(get(&weight, i)));
        set(&positive, i, fabs(get(&positive, i)));
        if (kind == BCE) set(&t, i, (get(&t, i) + 2) / 4);
        else if (i % 5 == 0) set(&x, i, get(&t, i));
    }
    ls_call call = {.op = forward[kind],
                    .n_in = 2,
                    .n_out = 1,
                    .in = {&x.view, &t.view},
                    .out = {&loss.view},
                    .attrs.loss = {.reduction = reduction, .beta = beta}};
    ls_call grad = {.op = backward[kind],
                    .n_in = 3,
                    .n_out = 1,
                    .in = {&dloss.view, &x.view, &t.view},
                    .out = {&dx.view},
                    .attrs = call.attrs};
    if (weighted) {
        call.in[2] = grad.in[3] = &weight.view;
        call.in[3] = grad.in[4] = &positive.view;
    }
    run(&call);
    run(&grad);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double w = weighted ? get(&weight, i) : 1, p = weighted ? get(&positive, i) : 1, a = get(&x, i), b = get(&t, i);
        double g = get(&dloss, reduction == LS_REDUCE_NONE ? i : 0) / (reduction == LS_REDUCE_MEAN ? (double)n : 1);
        double each = loss_at(kind, a, b, w, p, beta);
        sum += each;
        if (reduction == LS_REDUCE_NONE) CHECK_NEAR(get(&loss, i), each, tolerance(wide));
        CHECK_NEAR(get(&dx, i), g * slope_at(kind, a, b, w, p, beta), tolerance(dtype));
    }
    if (reduction == LS_REDUCE_MEAN) sum /= (double)n;
    if (reduction != LS_REDUCE_NONE) CHECK_NEAR(get(&loss, 0), sum, tolerance(wide));
    operand *all[] = {&x, &t, &weight, &positive, &loss, &dloss, &dx};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) operand_free(all[k]);
}

static void elements(void)
{
    const ls_shape shapes[] = {LS_SCALAR,         LS_SHAPE(7),    LS_SHAPE(0, 2),
                               LS_SHAPE(3, 5, 9), LS_SHAPE(9001), LS_SHAPE(40, 1)};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        for (int t = 0; t < FLOAT_TYPES; t++) {
            for (int layout = 0; layout < LAYOUTS; layout++) {
                for (int r = 0; r < 3; r++) {
                    check_elements(MSE, float_types[t], shapes[s], (placement)layout, reductions[r], false, 0);
                    check_elements(SMOOTH_L1, float_types[t], shapes[s], (placement)layout, reductions[r], false, 0);
                    check_elements(SMOOTH_L1, float_types[t], shapes[s], (placement)layout, reductions[r], false, 0.7);
                    check_elements(BCE, float_types[t], shapes[s], (placement)layout, reductions[r], false, 0);
                    check_elements(BCE, float_types[t], shapes[s], (placement)layout, reductions[r], true, 0);
                }
            }
        }
    }
}

/* Logits so large that exp alone would overflow. */
static void certain_answers(void)
{
    float x[4] = {200, -200, 200, -200}, t[4] = {1, 0, 0, 1}, loss[4], dx[4], ones[4] = {1, 1, 1, 1};
    ls_operand o[5];
    void *data[5] = {x, t, loss, ones, dx};
    for (int k = 0; k < 5; k++)
        o[k] = (ls_operand){.data = data[k], .dtype = LS_F32, .ndim = 1, .dim = {4}, .stride = {1}};
    run(&(ls_call){.op = LS_OP_bce_with_logits,
                   .n_in = 2,
                   .n_out = 1,
                   .in = {&o[0], &o[1]},
                   .out = {&o[2]},
                   .attrs.loss.reduction = LS_REDUCE_NONE});
    run(&(ls_call){.op = LS_OP_bce_with_logits_grad,
                   .n_in = 3,
                   .n_out = 1,
                   .in = {&o[3], &o[0], &o[1]},
                   .out = {&o[4]},
                   .attrs.loss.reduction = LS_REDUCE_NONE});
    const double want[4] = {0, 0, 200, 200}, slope[4] = {0, 0, 1, -1};
    for (int i = 0; i < 4; i++) {
        CHECK_NEAR(loss[i], want[i], 1e-6);
        CHECK_NEAR(dx[i], slope[i], 1e-6);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN_ISAS(classes);
    CHECK_RUN(wrong_targets);
    CHECK_RUN_ISAS(elements);
    CHECK_RUN_ISAS(certain_answers);
    return check_done();
}
