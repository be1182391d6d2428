/* norm.c - batch, layer and group normalisation and their gradients, checked against plain loops.
 *
 * All three are the same problem: elements belong to groups that are normalised together, and have a coefficient each.
 * The expected result is computed from two lists: group of element, coefficient of element. */
#include "kernels/norm.h"
#include "operands.h"

typedef struct problem {
    ls_dtype dtype;
    ls_shape shape;
    int64_t n, groups, coefficients;
    int64_t *group, *coefficient;
    bool fixed;          /* statistics are given and constant */
    double *mean, *rstd; /* per group */
    double epsilon;
} problem;

static problem problem_new(ls_dtype dtype, ls_shape shape, int64_t groups, int64_t coefficients)
{
    problem p = {.dtype = dtype,
                 .shape = shape,
                 .n = ls_shape_numel(shape),
                 .groups = groups,
                 .coefficients = coefficients,
                 .epsilon = 1e-5};
    p.group = calloc((size_t)p.n + 1, sizeof *p.group);
    p.coefficient = calloc((size_t)p.n + 1, sizeof *p.coefficient);
    p.mean = calloc((size_t)groups + 1, sizeof *p.mean);
    p.rstd = calloc((size_t)groups + 1, sizeof *p.rstd);
    return p;
}

static void problem_free(problem *p)
{
    free(p->group);
    free(p->coefficient);
    free(p->mean);
    free(p->rstd);
}

/* Mean and biased variance of s per group. */
static void find_statistics(problem *p, const double *s)
{
    double *var = calloc((size_t)p->groups + 1, sizeof *var), each = p->groups ? (double)(p->n / p->groups) : 0;
    for (int64_t g = 0; g < p->groups; g++) p->mean[g] = 0;
    for (int64_t i = 0; i < p->n; i++) p->mean[p->group[i]] += s[i] / each;
    for (int64_t i = 0; i < p->n; i++) var[p->group[i]] += pow(s[i] - p->mean[p->group[i]], 2) / each;
    for (int64_t g = 0; g < p->groups; g++) p->rstd[g] = 1 / sqrt(var[g] + p->epsilon);
    free(var);
}

static double coefficient_of(const problem *p, const operand *vector, int64_t i, double absent)
{
    return vector ? get(vector, p->coefficient[i]) : absent;
}

/* dx, dweight, dbias from dy, x and what find_statistics() left. */
static void find_gradients(const problem *p, const double *dy, const double *x, const operand *weight, double *dx,
                           double *dweight, double *dbias)
{
    double *sum = calloc((size_t)p->groups + 1, sizeof *sum), *dot = calloc((size_t)p->groups + 1, sizeof *dot);
    double each = p->groups ? (double)(p->n / p->groups) : 0;
    for (int64_t i = 0; i < p->n; i++) {
        int64_t g = p->group[i], c = p->coefficient[i];
        double xhat = (x[i] - p->mean[g]) * p->rstd[g], w = coefficient_of(p, weight, i, 1);
        sum[g] += dy[i] * w / each;
        dot[g] += dy[i] * w * xhat / each;
        dweight[c] += dy[i] * xhat;
        dbias[c] += dy[i];
    }
    for (int64_t i = 0; i < p->n; i++) {
        int64_t g = p->group[i];
        double xhat = (x[i] - p->mean[g]) * p->rstd[g], w = coefficient_of(p, weight, i, 1);
        dx[i] = p->rstd[g] * (dy[i] * w - (p->fixed ? 0 : sum[g] + xhat * dot[g]));
    }
    free(sum);
    free(dot);
}

static double *values(const operand *o, int64_t n)
{
    double *v = calloc((size_t)n + 1, sizeof *v);
    for (int64_t i = 0; o && i < n; i++) v[i] = get(o, i);
    return v;
}

static void check_all(const char *what, const problem *p, const operand *got, const double *want, double scale)
{
    for (int64_t i = 0; i < numel(&got->view); i++) {
        double limit = tolerance(got->view.dtype == p->dtype ? p->dtype : ls_compute_dtype(p->dtype)) * scale;
        CHECK_MSG(fabs(get(got, i) - want[i]) <= limit * fmax(1, fabs(want[i])),
                  "%s %s of [%lld,%lld,..] %d dims: [%lld] = %.9g, expected %.9g", what, ls_dtype_name(p->dtype),
                  (long long)p->shape.dim[0], (long long)p->shape.dim[1], (int)p->shape.ndim, (long long)i, get(got, i),
                  want[i]);
    }
}

/* How much larger the operands of a difference are than its result. */
static double cancellation(const problem *p)
{
    double most = 0;
    for (int64_t g = 0; g < p->groups; g++) most = fmax(most, fabs(p->mean[g] * p->rstd[g]));
    return 1 + most;
}

/* ---- Layer norm and group norm ---------------------------------------------------------------------------------- */

typedef struct options {
    bool weight, bias, residual;
} options;

/* The same gradient of what was normalised, output `output` of the call, on top of what is there. */
static void check_added(problem *p, ls_call back, int output, const double *want, placement layout)
{
    operand dx = operand_noise(p->dtype, p->shape, layout, 6);
    double *total = values(&dx, p->n);
    for (int64_t i = 0; i < p->n; i++) total[i] += want[i];
    back.out[output] = &dx.view;
    back.attrs.norm.accumulate = 1 << output;
    run(&back);
    check_all("dx, added", p, &dx, total, 4);
    free(total);
    operand_free(&dx);
}

static void check_rows(problem *p, ls_opcode op, int64_t attribute, ls_shape vector, ls_shape statistics,
                       placement layout, options with)
{
    ls_dtype wide = ls_compute_dtype(p->dtype);
    operand x = operand_noise(p->dtype, p->shape, layout, 1), y = operand_new(p->dtype, p->shape, layout);
    operand residual = operand_noise(p->dtype, p->shape, PLAIN, 2), sum = operand_new(p->dtype, p->shape, layout);
    operand weight = operand_noise(wide, vector, PLAIN, 3), bias = operand_noise(wide, vector, PLAIN, 4);
    operand mean = operand_new(wide, statistics, PLAIN), rstd = operand_new(wide, statistics, PLAIN);
    operand both = operand_new(wide, LS_SHAPE(2, p->groups), PLAIN); /* mean and rstd, where a residual is added */
    operand dy = operand_noise(p->dtype, p->shape, layout, 5), dx = operand_new(p->dtype, p->shape, PLAIN);
    operand dweight = operand_new(wide, vector, GAPS), dbias = operand_new(wide, vector, PLAIN);
    const ls_operand *w = with.weight ? &weight.view : NULL, *b = with.bias ? &bias.view : NULL;
    const ls_operand *to_w = with.weight ? &dweight.view : NULL, *to_b = with.bias ? &dbias.view : NULL;
    ls_call call = {.op = op, .n_in = 3, .n_out = 3, .in = {&x.view, w, b}, .out = {&y.view, &mean.view, &rstd.view}};
    ls_call added = {.op = LS_OP_dropout_add_layer_norm,
                     .n_in = 4,
                     .n_out = 4,
                     .in = {&x.view, &residual.view, w, b},
                     .out = {&y.view, &sum.view, &both.view}};
    if (with.residual) call = added;
    call.attrs.norm.epsilon = p->epsilon;
    call.attrs.norm.groups = attribute;
    run(&call);
    for (int64_t i = 0; with.residual && i < p->groups; i++) {
        set(&mean, i, get(&both, i));
        set(&rstd, i, get(&both, p->groups + i));
    }
    const operand *normalised = with.residual ? &sum : &x;
    double *s = values(normalised, p->n), *want = calloc((size_t)p->n + 1, sizeof *want);
    for (int64_t i = 0; with.residual && i < p->n; i++)
        CHECK_NEAR(s[i], get(&x, i) + get(&residual, i), p->dtype == LS_F64 ? 0 : tolerance(p->dtype) / 3);
    if (p->n) find_statistics(p, s);
    for (int64_t i = 0; i < p->n; i++)
        want[i] = (s[i] - p->mean[p->group[i]]) * p->rstd[p->group[i]] *
                      coefficient_of(p, with.weight ? &weight : NULL, i, 1) +
                  coefficient_of(p, with.bias ? &bias : NULL, i, 0);
    check_all("y", p, &y, want, cancellation(p));
    if (p->n) check_all("mean", p, &mean, p->mean, 1);
    if (p->n) check_all("rstd", p, &rstd, p->rstd, 2);

    double *g = values(&dy, p->n), *dw = calloc((size_t)p->coefficients + 1, sizeof *dw);
    double *db = calloc((size_t)p->coefficients + 1, sizeof *db);
    find_gradients(p, g, s, with.weight ? &weight : NULL, want, dw, db);
    ls_call back = {.op = op == LS_OP_layer_norm ? LS_OP_layer_norm_grad : LS_OP_group_norm_grad,
                    .n_in = 5,
                    .n_out = 3,
                    .in = {&dy.view, &x.view, &mean.view, &rstd.view, w},
                    .out = {&dx.view, to_w, to_b}};
    ls_call back_added = {.op = LS_OP_dropout_add_layer_norm_grad,
                          .n_in = 5,
                          .n_out = 4,
                          .in = {&dy.view, &sum.view, &both.view, w},
                          .out = {NULL, &dx.view, to_w, to_b}};
    if (with.residual) back = back_added;
    back.attrs.norm.epsilon = p->epsilon;
    back.attrs.norm.groups = attribute;
    run(&back);
    double terms = sqrt((double)p->n / (double)p->coefficients) + 1;
    check_all("dx", p, &dx, want, 4);
    if (op == LS_OP_layer_norm) check_added(p, back, with.residual ? 1 : 0, want, layout);
    if (with.weight) check_all("dweight", p, &dweight, dw, terms);
    if (with.bias) check_all("dbias", p, &dbias, db, terms);
    free(s);
    free(g);
    free(want);
    free(dw);
    free(db);
    operand *all[] = {&x, &y, &residual, &sum, &weight, &bias, &mean, &rstd, &both, &dy, &dx, &dweight, &dbias};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) operand_free(all[k]);
}

static void layer_norms(void)
{
    const struct {
        ls_shape shape;
        int32_t trailing;
    } cases[] = {{LS_SHAPE(1), 1},       {LS_SHAPE(3, 7), 1},    {LS_SHAPE(0, 7), 1},   {LS_SHAPE(2, 3, 64), 1},
                 {LS_SHAPE(5, 4, 3), 2}, {LS_SHAPE(150, 97), 1}, {LS_SHAPE(9, 1030), 1}};
    const options with[] = {{true, true, false}, {true, true, true}, {false, false, false}, {true, false, true}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ls_shape shape = cases[k].shape, vector = {.ndim = cases[k].trailing};
        int64_t size = 1;
        for (int32_t d = 0; d < vector.ndim; d++) size *= vector.dim[d] = shape.dim[shape.ndim - vector.ndim + d];
        for (int t = 0; t < FLOAT_TYPES; t++) {
            for (int layout = 0; layout < LAYOUTS; layout++) {
                int64_t n = ls_shape_numel(shape);
                problem p = problem_new(float_types[t], shape, n / size, size);
                for (int64_t i = 0; i < n; i++) {
                    p.group[i] = i / size;
                    p.coefficient[i] = i % size;
                }
                for (size_t o = 0; o < sizeof with / sizeof *with; o++)
                    check_rows(&p, LS_OP_layer_norm, size, vector, LS_SHAPE(n / size), (placement)layout, with[o]);
                problem_free(&p);
            }
        }
    }
}

static void group_norms(void)
{
    const struct {
        ls_shape shape;
        int64_t groups;
    } cases[] = {{LS_SHAPE(2, 6), 3}, {LS_SHAPE(2, 4, 5), 2}, {LS_SHAPE(3, 6, 5, 7), 6}, {LS_SHAPE(2, 32, 9, 9), 4}};
    const options with[] = {{true, true, false}, {false, false, false}, {true, false, false}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ls_shape shape = cases[k].shape;
        int64_t n = ls_shape_numel(shape), samples = shape.dim[0], channels = shape.dim[1], groups = cases[k].groups;
        int64_t pixels = n / samples / channels;
        for (int t = 0; t < FLOAT_TYPES; t++) {
            for (int layout = 0; layout < LAYOUTS; layout++) {
                problem p = problem_new(float_types[t], shape, samples * groups, channels);
                for (int64_t i = 0; i < n; i++) {
                    p.group[i] = i / (n / (samples * groups));
                    p.coefficient[i] = i / pixels % channels;
                }
                for (size_t o = 0; o < sizeof with / sizeof *with; o++)
                    check_rows(&p, LS_OP_group_norm, groups, LS_SHAPE(channels), LS_SHAPE(samples, groups),
                               (placement)layout, with[o]);
                problem_free(&p);
            }
        }
    }
}

/* ---- Batch norm ------------------------------------------------------------------------------------------------- */

typedef struct batch_options {
    bool training, weight, residual, relu;
} batch_options;

static void check_batch(problem *p, placement layout, batch_options with)
{
    ls_dtype wide = ls_compute_dtype(p->dtype);
    int64_t channels = p->groups, each = p->n / channels;
    ls_shape vector = LS_SHAPE(channels);
    operand x = operand_noise(p->dtype, p->shape, layout, 1), y = operand_new(p->dtype, p->shape, layout);
    operand residual = operand_noise(p->dtype, p->shape, layout, 2);
    operand weight = operand_noise(wide, vector, PLAIN, 3), bias = operand_noise(wide, vector, PLAIN, 4);
    operand running_mean = operand_noise(wide, vector, PLAIN, 6), running_var = operand_noise(wide, vector, PLAIN, 7);
    operand mean = operand_new(wide, vector, PLAIN), rstd = operand_new(wide, vector, PLAIN);
    operand dy = operand_noise(p->dtype, p->shape, layout == REVERSED ? PLAIN : layout, 5);
    operand dx = operand_new(p->dtype, p->shape, layout), dresidual = operand_new(p->dtype, p->shape, PLAIN);
    operand dweight = operand_new(wide, vector, PLAIN), dbias = operand_new(wide, vector, GAPS);
    double *old_mean = calloc((size_t)channels, sizeof(double)), *old_var = calloc((size_t)channels, sizeof(double));
    for (int64_t c = 0; c < channels; c++) {
        set(&running_var, c, fabs(get(&running_var, c)) + 0.5);
        old_mean[c] = get(&running_mean, c);
        old_var[c] = get(&running_var, c);
    }
    ls_activation activation = with.relu ? LS_ACT_RELU : LS_ACT_NONE;
    bool pixels = p->shape.ndim == 2 || (x.view.stride[1] == 1 && channels > 1);
    int64_t length = pixels ? channels : each / p->shape.dim[0];
    operand mask = operand_new(LS_U8, LS_SHAPE(p->n / length, (length + 63) / 64 * 8), PLAIN);
    ls_call call = {
        .op = LS_OP_batch_norm,
        .n_in = 6,
        .n_out = 6,
        .in = {&x.view, with.weight ? &weight.view : NULL, with.weight ? &bias.view : NULL,
               with.training ? NULL : &running_mean.view, with.training ? NULL : &running_var.view,
               with.residual ? &residual.view : NULL},
        .out = {&y.view, with.training ? &mean.view : NULL, with.training ? &rstd.view : NULL,
                with.relu ? &mask.view : NULL, with.training ? &running_mean.view : NULL,
                with.training ? &running_var.view : NULL},
        .attrs.norm = {.epsilon = p->epsilon, .momentum = 0.1, .training = with.training, .activation = activation}};
    run(&call);
    double *s = values(&x, p->n), *want = calloc((size_t)p->n + 1, sizeof *want), *d = values(&dy, p->n);
    p->fixed = !with.training;
    if (with.training) find_statistics(p, s);
    for (int64_t c = 0; c < channels; c++) {
        if (with.training) {
            double var = 1 / p->rstd[c] / p->rstd[c] - p->epsilon, unbiased = var * (double)each / (double)(each - 1);
            CHECK_NEAR(get(&mean, c), p->mean[c], tolerance(wide));
            CHECK_NEAR(get(&rstd, c), p->rstd[c], 2 * tolerance(wide));
            old_mean[c] = 0.9 * old_mean[c] + 0.1 * p->mean[c];
            old_var[c] = 0.9 * old_var[c] + 0.1 * unbiased;
        } else {
            p->mean[c] = old_mean[c];
            p->rstd[c] = 1 / sqrt(old_var[c] + p->epsilon);
        }
        CHECK_NEAR(get(&running_mean, c), old_mean[c], tolerance(wide));
        CHECK_NEAR(get(&running_var, c), old_var[c], tolerance(wide));
    }
    for (int64_t i = 0; i < p->n; i++) {
        double v = (s[i] - p->mean[p->group[i]]) * p->rstd[p->group[i]];
        v = v * coefficient_of(p, with.weight ? &weight : NULL, i, 1) +
            coefficient_of(p, with.weight ? &bias : NULL, i, 0);
        if (with.residual) v += get(&residual, i);
        want[i] = with.relu && v < 0 ? 0 : v;
        if (with.relu && !(get(&y, i) > 0)) d[i] = 0;
    }
    check_all("y", p, &y, want, 2 * cancellation(p));

    run(&(ls_call){.op = LS_OP_batch_norm_grad,
                   .n_in = 6,
                   .n_out = 4,
                   .in = {&dy.view, &x.view, with.relu ? &mask.view : NULL,
                          with.training ? &mean.view : &running_mean.view,
                          with.training ? &rstd.view : &running_var.view, with.weight ? &weight.view : NULL},
                   .out = {&dx.view, with.weight ? &dweight.view : NULL, with.weight ? &dbias.view : NULL,
                           with.residual ? &dresidual.view : NULL},
                   .attrs.norm = call.attrs.norm});
    double *dw = calloc((size_t)channels, sizeof *dw), *db = calloc((size_t)channels, sizeof *db);
    find_gradients(p, d, s, with.weight ? &weight : NULL, want, dw, db);
    check_all("dx", p, &dx, want, 4);
    if (with.residual) check_all("dresidual", p, &dresidual, d, 0);
    if (with.weight) check_all("dweight", p, &dweight, dw, sqrt((double)each));
    if (with.weight) check_all("dbias", p, &dbias, db, sqrt((double)each));
    double *lists[] = {old_mean, old_var, s, want, d, dw, db};
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) free(lists[k]);
    operand *all[] = {&x,    &y,  &residual, &weight,    &bias,    &running_mean, &running_var, &mean,
                      &rstd, &dy, &dx,       &dresidual, &dweight, &dbias,        &mask};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) operand_free(all[k]);
}

static void batch_norms(void)
{
    const ls_shape shapes[] = {LS_SHAPE(5, 3),        LS_SHAPE(9, 130),       LS_SHAPE(2, 3, 4),
                               LS_SHAPE(3, 5, 4, 7),  LS_SHAPE(2, 1, 3, 3),   LS_SHAPE(2, 3, 2, 3, 2),
                               LS_SHAPE(4, 19, 9, 9), LS_SHAPE(3, 1100, 2, 2)};
    const batch_options with[] = {{true, true, false, false},  {true, true, true, true},  {true, false, false, true},
                                  {false, true, false, false}, {false, true, true, true}, {false, false, false, true}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        int64_t n = ls_shape_numel(shapes[s]), channels = shapes[s].dim[1];
        for (int t = 0; t < FLOAT_TYPES; t++) {
            for (int layout = 0; layout < LAYOUTS; layout++) {
                problem p = problem_new(float_types[t], shapes[s], channels, channels);
                for (int64_t i = 0; i < n; i++)
                    p.group[i] = p.coefficient[i] = i / (n / shapes[s].dim[0] / channels) % channels;
                for (size_t o = 0; o < sizeof with / sizeof *with; o++) check_batch(&p, (placement)layout, with[o]);
                problem_free(&p);
            }
        }
    }
}

/* A constant far from zero leaves nothing but rounding of the mean; the result must still be near zero. */
static void constants(void)
{
    operand x = operand_new(LS_F32, LS_SHAPE(64, 8, 3, 3), CHANNELS_LAST),
            y = operand_new(LS_F32, LS_SHAPE(64, 8, 3, 3), CHANNELS_LAST);
    for (int64_t i = 0; i < numel(&x.view); i++) set(&x, i, 1000.123);
    run(&(ls_call){.op = LS_OP_batch_norm,
                   .n_in = 6,
                   .n_out = 6,
                   .in = {&x.view},
                   .out = {&y.view},
                   .attrs.norm = {.epsilon = 1e-5, .momentum = 0.1, .training = 1}});
    for (int64_t i = 0; i < numel(&y.view); i++) CHECK_NEAR(get(&y, i), 0, 0.02);
    operand_free(&x);
    operand_free(&y);
}

/* A mean that is large against the deviation: digits of the variance must not cancel. */
static void far_from_zero(void)
{
    enum { ROWS = 3, N = 1000 };
    operand x = operand_noise(LS_F32, LS_SHAPE(ROWS, N), PLAIN, 11), y = operand_new(LS_F32, LS_SHAPE(ROWS, N), PLAIN);
    operand rstd = operand_new(LS_F32, LS_SHAPE(ROWS), PLAIN);
    problem p = problem_new(LS_F32, LS_SHAPE(ROWS, N), ROWS, N);
    for (int64_t i = 0; i < ROWS * N; i++) {
        set(&x, i, get(&x, i) + 1000);
        p.group[i] = i / N;
    }
    run(&(ls_call){.op = LS_OP_layer_norm,
                   .n_in = 1,
                   .n_out = 3,
                   .in = {&x.view},
                   .out = {&y.view, NULL, &rstd.view},
                   .attrs.norm = {.epsilon = p.epsilon, .groups = N}});
    double *s = values(&x, ROWS * N);
    find_statistics(&p, s);
    for (int64_t r = 0; r < ROWS; r++) CHECK_NEAR(get(&rstd, r), p.rstd[r], 1e-5);
    for (int64_t i = 0; i < ROWS * N; i++) CHECK_NEAR(get(&y, i), (s[i] - p.mean[i / N]) * p.rstd[i / N], 2e-4);
    free(s);
    problem_free(&p);
    operand_free(&x);
    operand_free(&y);
    operand_free(&rstd);
}

/* In training, statistics that the caller knows replace those of x, which here are others. */
static void statistics_may_be_given(void)
{
    enum { C = 19, EACH = 4 * 9 * 9 };
    ls_shape shape = LS_SHAPE(4, C, 9, 9), vector = LS_SHAPE(C);
    operand x = operand_noise(LS_F32, shape, CHANNELS_LAST, 12), y = operand_new(LS_F32, shape, CHANNELS_LAST);
    operand mean = operand_noise(LS_F64, vector, PLAIN, 13), var = operand_noise(LS_F64, vector, PLAIN, 14);
    operand saved[4]; /* mean, rstd; running mean, running variance */
    for (int i = 0; i < 4; i++) saved[i] = operand_new(LS_F32, vector, PLAIN);
    for (int64_t c = 0; c < C; c++) {
        set(&var, c, 1 + fabs(get(&var, c)));
        for (int i = 2; i < 4; i++) set(&saved[i], c, 1);
    }
    run(&(ls_call){.op = LS_OP_batch_norm,
                   .n_in = 6,
                   .n_out = 6,
                   .in = {&x.view, NULL, NULL, &mean.view, &var.view},
                   .out = {&y.view, &saved[0].view, &saved[1].view, NULL, &saved[2].view, &saved[3].view},
                   .attrs.norm = {.epsilon = 1e-3, .momentum = 0.25, .training = 1}});
    for (int64_t c = 0; c < C; c++) {
        CHECK_NEAR(get(&saved[0], c), get(&mean, c), 1e-6);
        CHECK_NEAR(get(&saved[1], c), 1 / sqrt(get(&var, c) + 1e-3), 1e-6);
        CHECK_NEAR(get(&saved[2], c), 0.75 + 0.25 * get(&mean, c), 1e-6);
        CHECK_NEAR(get(&saved[3], c), 0.75 + 0.25 * get(&var, c) * EACH / (EACH - 1), 1e-6);
    }
    for (int64_t i = 0; i < numel(&x.view); i++) {
        int64_t c = i / 81 % C;
        CHECK_NEAR(get(&y, i), (get(&x, i) - get(&mean, c)) / sqrt(get(&var, c) + 1e-3), 1e-5);
    }
    operand *all[] = {&x, &y, &mean, &var, &saved[0], &saved[1], &saved[2], &saved[3]};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) operand_free(all[k]);
}

/* ---- Results past the caches ------------------------------------------------------------------------------------- */

static const ls_norm_kernels *real;
static int streamed;

#define WATCH(kernel, arguments, type)                                                                                 \
    static void watch_##kernel##_##type(const arguments *args)                                                         \
    {                                                                                                                  \
        streamed += args->stream;                                                                                      \
        real->kernel[LS_##type](args);                                                                                 \
    }
#define WATCH_ALL(type)                                                                                                \
    WATCH(apply, ls_norm_apply, type)                                                                                  \
    WATCH(slope, ls_norm_slope, type)                                                                                  \
    WATCH(layer_norm, ls_layer_norm_rows, type)                                                                        \
    WATCH(layer_norm_grad, ls_layer_norm_grad_rows, type)
WATCH_ALL(F32)
WATCH_ALL(BF16)

/* A norm and its gradient, y and dx `beyond` elements after the start of a cache line: how many blocks are streamed. */
static int norm_at(ls_dtype dtype, int64_t channels, int64_t beyond, operand *y, operand *dx)
{
    ls_shape shape = LS_SHAPE(5, channels, 7, 3), vector = LS_SHAPE(channels);
    operand x = operand_noise(dtype, shape, CHANNELS_LAST, 15), dy = operand_noise(dtype, shape, CHANNELS_LAST, 16);
    operand mean = operand_new(LS_F32, vector, PLAIN), rstd = operand_new(LS_F32, vector, PLAIN);
    int64_t size = (int64_t)ls_dtype_size(dtype), bytes = numel(&x.view) * size;
    ls_operand at[2] = {y->view, dx->view};
    char *memory[2];
    for (int i = 0; i < 2; i++) {
        memory[i] = aligned_alloc(64, (size_t)(bytes + 127) / 64 * 64);
        at[i].data = memory[i] + beyond * size;
    }
    streamed = 0;
    ls_call call = {.op = LS_OP_batch_norm,
                    .n_in = 6,
                    .n_out = 6,
                    .in = {&x.view},
                    .out = {&at[0], &mean.view, &rstd.view},
                    .attrs.norm = {.epsilon = 1e-5, .training = 1}};
    run(&call);
    run(&(ls_call){.op = LS_OP_batch_norm_grad,
                   .n_in = 6,
                   .n_out = 4,
                   .in = {&dy.view, &x.view, NULL, &mean.view, &rstd.view},
                   .out = {&at[1]},
                   .attrs = call.attrs});
    memcpy(y->view.data, at[0].data, (size_t)bytes);
    memcpy(dx->view.data, at[1].data, (size_t)bytes);
    call.out[0] = &x.view; /* in place: its lines are in the caches anyway */
    int before = streamed;
    run(&call);
    CHECK(streamed == before);
    operand *all[] = {&x, &dy, &mean, &rstd};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) operand_free(all[k]);
    for (int i = 0; i < 2; i++) free(memory[i]);
    return before;
}

typedef struct added {
    bool residual, sum; /* is one added, is what is normalised a result, too? */
    double dropout;
} added;

/* Layer norm of rows of n and its gradient, likewise. */
static int layer_norm_at(ls_dtype dtype, int64_t n, int64_t beyond, added with, operand *y, operand *dx)
{
    enum { ROWS = 21 };
    ls_shape shape = LS_SHAPE(ROWS, n);
    operand x = operand_noise(dtype, shape, PLAIN, 17), residual = operand_noise(dtype, shape, PLAIN, 18);
    operand dy = operand_noise(dtype, shape, PLAIN, 19), sum = operand_new(dtype, shape, PLAIN);
    operand dropped = operand_new(dtype, shape, PLAIN), statistics = operand_new(LS_F32, LS_SHAPE(2, ROWS), PLAIN);
    int64_t size = (int64_t)ls_dtype_size(dtype), bytes = ROWS * n * size;
    ls_operand at[2] = {y->view, dx->view};
    char *memory[2];
    for (int i = 0; i < 2; i++) {
        memory[i] = aligned_alloc(64, (size_t)(bytes + 127) / 64 * 64);
        at[i].data = memory[i] + beyond * size;
    }
    const ls_operand *what = with.sum ? &sum.view : with.residual ? &residual.view : &x.view;
    ls_call call = {.op = LS_OP_dropout_add_layer_norm,
                    .n_in = 4,
                    .n_out = 4,
                    .in = {&x.view, with.residual ? &residual.view : NULL},
                    .out = {&at[0], with.sum ? &sum.view : NULL, &statistics.view},
                    .attrs.norm = {.epsilon = 1e-5, .groups = n, .dropout = with.dropout, .seed = 3}};
    ls_call back = {.op = LS_OP_dropout_add_layer_norm_grad,
                    .n_in = 5,
                    .n_out = 4,
                    .in = {&dy.view, what, &statistics.view},
                    .out = {with.dropout > 0 ? &dropped.view : NULL, &at[1]},
                    .attrs = call.attrs};
    streamed = 0;
    run(&call);
    run(&back);
    memcpy(y->view.data, at[0].data, (size_t)bytes);
    memcpy(dx->view.data, at[1].data, (size_t)bytes);
    int before = streamed;
    back.out[1] = &dy.view; /* in place */
    run(&back);
    CHECK(streamed == before);
    for (int64_t i = 0; i < ROWS * n; i++) CHECK(get(&dy, i) == get(dx, i));
    operand *all[] = {&x, &residual, &dy, &sum, &dropped, &statistics};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) operand_free(all[k]);
    for (int i = 0; i < 2; i++) free(memory[i]);
    return before;
}

static void check_layer_norm_at(ls_dtype dtype, int64_t n)
{
    static const added with[] = {{false, false, 0}, {true, true, 0}, {true, false, 0}, {true, true, 0.25}};
    for (int w = 0; w < 4; w++) {
        operand to[4];
        for (int i = 0; i < 4; i++) to[i] = operand_new(dtype, LS_SHAPE(21, n), PLAIN);
        bool lines = n * (int64_t)ls_dtype_size(dtype) % 64 == 0, read_again = with[w].dropout > 0;
        CHECK((layer_norm_at(dtype, n, 0, with[w], &to[0], &to[1]) > 0) == (lines && !read_again));
        CHECK(layer_norm_at(dtype, n, 1, with[w], &to[2], &to[3]) == 0);
        for (int i = 0; i < 2; i++) CHECK(same_bits(&to[i], &to[2 + i]));
        for (int i = 0; i < 4; i++) operand_free(&to[i]);
    }
}

/* The same bits, where rows begin on cache lines; others are stored as usual. */
static void large_results_are_streamed(void)
{
    ls_norm_kernels was = *ls_norm_table(), watched = was;
    real = &was;
    watched.stream_bytes = 1;
    watched.apply[LS_F32] = watch_apply_F32;
    watched.apply[LS_BF16] = watch_apply_BF16;
    watched.slope[LS_F32] = watch_slope_F32;
    watched.slope[LS_BF16] = watch_slope_BF16;
    watched.layer_norm[LS_F32] = watch_layer_norm_F32;
    watched.layer_norm[LS_BF16] = watch_layer_norm_BF16;
    watched.layer_norm_grad[LS_F32] = watch_layer_norm_grad_F32;
    watched.layer_norm_grad[LS_BF16] = watch_layer_norm_grad_BF16;
    const void *before = offer_kernels(&ls_family_norm, &watched);
    ls_parallel_set_width(1); /* the count is not atomic */
    static const int64_t channels[] = {64, 96, 32, 33};
    for (int half = 0; half < 2; half++)
        for (int c = 0; c < 4; c++) {
            ls_dtype dtype = half ? LS_BF16 : LS_F32;
            operand to[4];
            for (int i = 0; i < 4; i++) to[i] = operand_new(dtype, LS_SHAPE(5, channels[c], 7, 3), CHANNELS_LAST);
            bool lines = channels[c] * (int64_t)ls_dtype_size(dtype) % 64 == 0;
            CHECK((norm_at(dtype, channels[c], 0, &to[0], &to[1]) > 0) == lines);
            CHECK(norm_at(dtype, channels[c], 1, &to[2], &to[3]) == 0);
            for (int i = 0; i < 2; i++) CHECK(same_bits(&to[i], &to[2 + i]));
            for (int i = 0; i < 4; i++) operand_free(&to[i]);
            check_layer_norm_at(dtype, channels[c]);
        }
    ls_parallel_set_width(0);
    offer_kernels(&ls_family_norm, before);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN_ISAS(layer_norms);
    CHECK_RUN_ISAS(group_norms);
    CHECK_RUN_ISAS(batch_norms);
    CHECK_RUN_ISAS(constants);
    CHECK_RUN_ISAS(far_from_zero);
    CHECK_RUN_ISAS(statistics_may_be_given);
    CHECK_RUN_ISAS(large_results_are_streamed);
    return check_done();
}
