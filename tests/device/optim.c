/* optim.c - optimiser steps against the textbook in double, all types and layouts; clipping and loss scaling. */
#include "operands.h"

static void fill(const operand *t, double scale, double shift)
{
    for (int64_t i = 0; i < numel(&t->view); i++) set(t, i, scale * ((double)(i * 53 % 97) / 48 - 1) + shift);
}

static double *copy_of(const operand *t)
{
    double *copy = malloc((size_t)numel(&t->view) * sizeof *copy);
    for (int64_t i = 0; i < numel(&t->view); i++) copy[i] = get(t, i);
    return copy;
}

static double epsilon(ls_dtype dtype)
{
    return dtype == LS_BF16 ? 0x1p-8 : dtype == LS_F16 ? 0x1p-10 : dtype == LS_F32 ? 1e-6 : 1e-13;
}

/* ---- Adam and AdamW ---------------------------------------------------------------------------------------------- */

static void adam_case(ls_dtype dtype, ls_dtype gradient, ls_shape shape, placement how, bool decoupled, double decay)
{
    ls_dtype state = dtype == LS_F64 ? LS_F64 : LS_F32;
    operand p = operand_new(dtype, shape, how), g = operand_new(gradient, shape, (placement)((how + 1) % LAYOUTS));
    operand m = operand_new(state, shape, how), v = operand_new(state, shape, PLAIN);
    fill(&p, 1, 0);
    fill(&m, 0, 0);
    fill(&v, 0, 0);
    double *want_p = copy_of(&p), *want_m = copy_of(&m), *want_v = copy_of(&v);
    const double lr = 0.01, beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
    for (int t = 1; t <= 3; t++) {
        fill(&g, 0.1 * t, 0.02);
        ls_call call = {
            .op = LS_OP_adam_step, .n_in = 1, .n_out = 3, .in = {&g.view}, .out = {&p.view, &m.view, &v.view}};
        call.attrs.adam.lr = lr, call.attrs.adam.beta1 = beta1, call.attrs.adam.beta2 = beta2;
        call.attrs.adam.epsilon = eps, call.attrs.adam.weight_decay = decay, call.attrs.adam.decoupled = decoupled;
        call.attrs.adam.bias1 = 1 - pow(beta1, t), call.attrs.adam.bias2 = 1 - pow(beta2, t);
        run(&call);
        for (int64_t i = 0; i < numel(&p.view); i++) {
            double d = get(&g, i) + (decoupled ? 0 : decay * want_p[i]);
            if (decoupled) want_p[i] *= 1 - lr * decay;
            want_m[i] = beta1 * want_m[i] + (1 - beta1) * d;
            want_v[i] = beta2 * want_v[i] + (1 - beta2) * d * d;
            double root = sqrt(want_v[i]) / sqrt(1 - pow(beta2, t));
            want_p[i] -= lr / (1 - pow(beta1, t)) * want_m[i] / (root + eps);
            CHECK_NEAR(get(&m, i), want_m[i], dtype == LS_F64 ? 1e-14 : 1e-5);
            CHECK_NEAR(get(&v, i), want_v[i], dtype == LS_F64 ? 1e-14 : 1e-5);
            CHECK_NEAR(get(&p, i), want_p[i], epsilon(dtype));
            want_p[i] = get(&p, i); /* so that rounding does not accumulate */
        }
    }
    free(want_p), free(want_m), free(want_v);
    operand_free(&p);
    operand_free(&g);
    operand_free(&m);
    operand_free(&v);
}

static void adam_follows_the_textbook(void)
{
    EACH_ISA(isa) for (int c = 0; c < 4; c++)
    {
        bool decoupled = c & 1;
        double decay = c & 2 ? 0.1 : 0;
        adam_case(LS_F32, LS_F32, LS_SHAPE(1037), PLAIN, decoupled, decay);
        adam_case(LS_F32, LS_BF16, LS_SHAPE(1037), PLAIN, decoupled, decay);
        adam_case(LS_BF16, LS_F32, LS_SHAPE(13, 7), GAPS, decoupled, decay);
        adam_case(LS_F16, LS_F16, LS_SHAPE(3, 5, 2), REVERSED, decoupled, decay);
        adam_case(LS_F64, LS_F64, LS_SHAPE(5, 1, 3, 2), CHANNELS_LAST, decoupled, decay);
        adam_case(LS_F32, LS_F32, LS_SHAPE(0), PLAIN, decoupled, decay);
        adam_case(LS_F32, LS_F32, LS_SHAPE(1), PLAIN, decoupled, decay);
    }
    lift_caps();
}

/* ---- SGD --------------------------------------------------------------------------------------------------------- */

static void sgd_case(ls_dtype dtype, ls_dtype gradient, placement how, double momentum, bool nesterov, bool maximize)
{
    ls_shape shape = LS_SHAPE(11, 13);
    ls_dtype state = dtype == LS_F64 ? LS_F64 : LS_F32;
    operand p = operand_new(dtype, shape, how), g = operand_new(gradient, shape, PLAIN),
            b = operand_new(state, shape, how);
    fill(&p, 1, 0);
    fill(&b, NAN, 0); /* not read in the first step */
    double *want_p = copy_of(&p), *want_b = copy_of(&b);
    const double lr = 0.1, decay = 0.01, dampening = nesterov ? 0 : 0.2;
    for (int t = 1; t <= 3; t++) {
        fill(&g, 0.1 * t, 0.02);
        ls_call call = {.op = LS_OP_sgd_step, .n_in = 1, .n_out = momentum > 0 ? 2 : 1};
        call.in[0] = &g.view, call.out[0] = &p.view, call.out[1] = momentum > 0 ? &b.view : NULL;
        call.attrs.sgd.lr = lr, call.attrs.sgd.momentum = momentum, call.attrs.sgd.dampening = dampening;
        call.attrs.sgd.weight_decay = decay, call.attrs.sgd.nesterov = nesterov, call.attrs.sgd.first = t == 1;
        call.attrs.sgd.maximize = maximize;
        run(&call);
        for (int64_t i = 0; i < numel(&p.view); i++) {
            double d = (maximize ? -1 : 1) * get(&g, i) + decay * want_p[i];
            if (momentum > 0) {
                want_b[i] = t == 1 ? d : momentum * want_b[i] + (1 - dampening) * d;
                d = nesterov ? d + momentum * want_b[i] : want_b[i];
                CHECK_NEAR(get(&b, i), want_b[i], dtype == LS_F64 ? 1e-14 : 1e-4);
            }
            want_p[i] -= lr * d;
            CHECK_NEAR(get(&p, i), want_p[i], epsilon(dtype));
            want_p[i] = get(&p, i);
        }
    }
    free(want_p), free(want_b);
    operand_free(&p);
    operand_free(&g);
    operand_free(&b);
}

static void sgd_follows_the_textbook(void)
{
    EACH_ISA(isa) for (int c = 0; c < 16; c++)
    {
        placement how = (placement)(c / 4);
        sgd_case(float_types[c % 4], float_types[c % 4], how, 0, false, false);
        sgd_case(float_types[c % 4], LS_F32, how, 0.9, false, true);
        sgd_case(float_types[c % 4], float_types[c % 4], how, 0.9, true, false);
    }
    lift_caps();
}

/* The vector kernels do the same operations in the same order as the reference. */
static void all_isas_step_to_the_same_bits(void)
{
    enum { N = 30011 };
    operand first[2] = {{.memory = NULL}, {.memory = NULL}};
    EACH_ISA(isa) for (int op = 0; op < 2; op++)
    {
        operand p = operand_new(LS_F32, LS_SHAPE(N), PLAIN), g = operand_new(LS_F32, LS_SHAPE(N), PLAIN);
        operand m = operand_new(LS_F32, LS_SHAPE(N), PLAIN), v = operand_new(LS_F32, LS_SHAPE(N), PLAIN);
        fill(&p, 1, 0);
        fill(&g, 0.3, 0.1);
        fill(&m, 0.2, 0);
        fill(&v, 0.01, 0.02);
        ls_call call = {.op = op ? LS_OP_sgd_step : LS_OP_adam_step,
                        .n_in = 1,
                        .n_out = op ? 2 : 3,
                        .in = {&g.view},
                        .out = {&p.view, &m.view, &v.view}};
        if (op) call.attrs.sgd.lr = 0.1, call.attrs.sgd.momentum = 0.9, call.attrs.sgd.weight_decay = 0.01;
        else {
            call.attrs.adam.lr = 0.01, call.attrs.adam.beta1 = 0.9, call.attrs.adam.beta2 = 0.999;
            call.attrs.adam.epsilon = 1e-8, call.attrs.adam.weight_decay = 0.01, call.attrs.adam.decoupled = 1;
            call.attrs.adam.bias1 = 0.3, call.attrs.adam.bias2 = 0.004;
        }
        run(&call);
        operand_free(&g);
        operand_free(&m);
        operand_free(&v);
        if (first[op].memory) {
            CHECK(same_bits(&first[op], &p));
            operand_free(&p);
        } else {
            first[op] = p;
        }
    }
    operand_free(&first[0]);
    operand_free(&first[1]);
    lift_caps();
}

/* ---- clipping and scaling ---------------------------------------------------------------------------------------- */

static void squares_add_up(void)
{
    const ls_shape shapes[] = {LS_SHAPE(0), LS_SHAPE(1), LS_SHAPE(7, 9, 5), LS_SHAPE(250007)};
    EACH_ISA(isa) for (int c = 0; c < 4 * 4 * LAYOUTS; c++)
    {
        operand x = operand_new(float_types[c % 4], shapes[c / 4 % 4], (placement)(c / 16));
        fill(&x, 2, 0.1);
        double want = 3, results[2];
        for (int64_t i = 0; i < numel(&x.view); i++) want += get(&x, i) * get(&x, i);
        for (int width = 1; width <= 2; width++) {
            operand total = operand_new(c % 3 ? LS_F64 : LS_F32, LS_SHAPE(1), PLAIN);
            ls_parallel_set_width(width);
            set(&total, 0, 3);
            ls_call call = {.op = LS_OP_sum_squares, .n_in = 1, .n_out = 1, .in = {&x.view}, .out = {&total.view}};
            run(&call);
            results[width - 1] = get(&total, 0);
            CHECK_NEAR(results[width - 1] / want, 1, c % 3 ? 1e-11 : 1e-7);
            operand_free(&total);
        }
        CHECK(results[0] == results[1]);
        operand_free(&x);
    }
    lift_caps();
}

static void unscaling_notices_what_is_not_finite(void)
{
    const double bad[] = {0, INFINITY, -INFINITY, NAN};
    EACH_ISA(isa) for (int c = 0; c < 4 * 4 * LAYOUTS; c++)
    {
        operand g = operand_new(float_types[c % 4], LS_SHAPE(5, 37), (placement)(c / 16)),
                found = operand_new(LS_F32, LS_SHAPE(1), PLAIN);
        fill(&g, 2, 0.1);
        set(&found, 0, 0);
        set(&g, 183, bad[c / 4 % 4]);
        double *before = copy_of(&g);
        ls_call call = {.op = LS_OP_unscale, .n_out = 2, .out = {&g.view, &found.view}, .attrs.scalar.value = 0.25};
        run(&call);
        CHECK(get(&found, 0) == (c / 4 % 4 != 0));
        for (int64_t i = 0; i < 185; i++) CHECK_NEAR(get(&g, i), before[i] * 0.25, 0);
        free(before);
        operand_free(&g);
        operand_free(&found);
    }
    lift_caps();
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(adam_follows_the_textbook);
    CHECK_RUN(sgd_follows_the_textbook);
    CHECK_RUN(all_isas_step_to_the_same_bits);
    CHECK_RUN(squares_add_up);
    CHECK_RUN(unscaling_notices_what_is_not_finite);
    return check_done();
}
