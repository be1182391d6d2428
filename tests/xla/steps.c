/* steps.c - a step of training as one compiled program: it gives the CPU's numbers, and is compiled once. */
#include <lockstep.h>

#include "check.h"
#include "samples.h"

enum { STEPS = 12, SETTLED = 3, ROWS = 6 };

typedef struct outcome {
    double loss[STEPS];
    ls_device_counts settled, end; /* after step SETTLED, and in the end */
} outcome;

/* Steps with a schedule, so that numbers change from one to the next. */
static outcome train(const char *device)
{
    outcome out = {0};
    ls_run *run = ls_init(NULL, NULL, .seed = 5, .device = device);
    ls_module *net =
        ls_sequential_new(run, ls_linear_new(run, SAMPLE_SIZE, 32), ls_relu_new(run), ls_linear_new(run, 32, LABELS));
    ls_optim *adam = ls_adamw_new(run, net, .lr = 1e-2);
    ls_schedule *schedule = ls_cosine_schedule_new(adam, STEPS, 0);
    ls_loader *loader = sample_loader(run, STEPS * ROWS, ROWS);
    ls_prepare(run, net, adam, schedule, loader);
    int step = 0;
    for (ls_batch b; ls_next(loader, &b); step++) {
        if (step == SETTLED) out.settled = ls_device_stats(run);
        ls_tensor *loss = ls_cross_entropy(ls_forward(net, b.tensor[0]), b.tensor[1]);
        ls_backward(run, loss);
        ls_step(adam);
        ls_schedule_step(schedule);
        ls_zero_grad(adam);
        out.loss[step] = ls_item(loss);
    }
    CHECK(step == STEPS);
    out.end = ls_device_stats(run);
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
    CHECK(ls_finish(run) == 0);
    return out;
}

/* The first on the device in this process: later ones would find the programs that it compiled. */
static void training_gives_the_numbers_of_the_cpu_and_soon_compiles_nothing(void)
{
    outcome cpu = train("cpu"), xla = train(XLA_DEVICE);
    for (int i = 0; i < STEPS; i++) CHECK_NEAR(xla.loss[i], cpu.loss[i], 1e-5);
    CHECK(xla.end.compiled > 0);
    CHECK_MSG(xla.end.compiled == xla.settled.compiled, "%llu programs were compiled after step %d",
              (unsigned long long)(xla.end.compiled - xla.settled.compiled), SETTLED);
    CHECK(xla.end.executed > xla.settled.executed);
}

/* Programs are found again by a second run of the process. */
static void a_second_run_compiles_nothing(void)
{
    train(XLA_DEVICE);
    CHECK(train(XLA_DEVICE).end.compiled == 0);
}

/* The numbers that training begins with come from the host: every kind of layer, and the optimiser's moments. */
static void creating_a_network_compiles_nothing(void)
{
    float of[2][8 * 8];
    for (int i = 0; i < 2; i++) {
        ls_run *run = ls_init(NULL, NULL, .seed = 5, .device = i ? XLA_DEVICE : "cpu");
        ls_module *net = ls_sequential_new(run, ls_embedding_new(run, 9, 8, .padding_idx = 2), ls_linear_new(run, 8, 8),
                                           ls_batch_norm_new(run, 8), ls_conv2d_new(run, 3, 4, 3));
        ls_tensor *cut = ls_module_tensor(net, "1.weight");
        ls_init_trunc_normal(cut, 0, 1, -2, 2);
        ls_init_constant(ls_select(cut, 0, 3), 0.5);
        ls_init_constant(ls_transpose(ls_module_tensor(net, "0.weight"), 0, 1), 2);
        ls_prepare(run, net, ls_adamw_new(run, net));
        ls_read(cut, of[i], sizeof of[i]);
        CHECK(ls_device_stats(run).executed == 0);
        CHECK_MSG(ls_finish(run) == 0, "%s", ls_error_message(run));
    }
    CHECK(memcmp(of[0], of[1], sizeof of[0]) == 0);
    CHECK(of[1][3 * 8] == 0.5f);
}

static void parts_of_a_tensor_are_written_and_read(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = XLA_DEVICE);
    float in[20], out[6];
    for (int i = 0; i < 20; i++) in[i] = (float)i;
    ls_tensor *x = ls_from(run, LS_F32, LS_SHAPE(4, 5), in);
    ls_assign(ls_slice(ls_slice(x, 0, 1, 3, 1), 1, 0, 5, 2), ls_full(run, LS_F32, -1, 2, 3));
    CHECK(ls_read(ls_contiguous(ls_slice(ls_permute(x, 1, 0), 1, 1, 2, 1)), out, 5 * sizeof *out));
    const float want[] = {-1, 6, -1, 8, -1};
    for (int i = 0; i < 5; i++) CHECK(out[i] == want[i]);
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
    CHECK(ls_finish(run) == 0);
}

/* What comes from the host in the middle of a step does not end it, nor does reading what has nothing to do with it. */
static void numbers_of_the_host_do_not_cut_a_step(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = XLA_DEVICE);
    float one[] = {1, 2, 3}, out[3], other[3];
    ls_tensor *x = ls_from(run, LS_F32, LS_SHAPE(3), one), *apart = ls_from(run, LS_F32, LS_SHAPE(3), one);
    ls_tensor *y = ls_add(x, x);
    y = ls_mul(y, ls_from(run, LS_F32, LS_SHAPE(3), one));
    ls_write(x, (float[]){7, 7, 7}, sizeof one);
    CHECK(ls_read(apart, other, sizeof other) && other[2] == 3);
    CHECK(ls_device_stats(run).executed == 0);
    CHECK(ls_read(ls_add(y, x), out, sizeof out) && out[0] == 9 && out[2] == 25);
    CHECK(ls_device_stats(run).executed == 1);
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
    CHECK(ls_finish(run) == 0);
}

static void whole_numbers_are_limited_at_one_end(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = XLA_DEVICE);
    int64_t x[] = {INT64_MIN, -5, 3, INT64_MAX}, out[4];
    ls_tensor *t = ls_from(run, LS_I64, LS_SHAPE(4), x);
    CHECK(ls_read(ls_clamp(t, 0, INFINITY), out, sizeof out));
    CHECK(out[0] == 0 && out[1] == 0 && out[2] == 3 && out[3] == INT64_MAX);
    CHECK(ls_read(ls_clamp(t, -INFINITY, 0), out, sizeof out));
    CHECK(out[0] == INT64_MIN && out[1] == -5 && out[2] == 0 && out[3] == 0);
    CHECK(ls_finish(run) == 0);
}

/* The same on both devices, NaN included. */
static void check_same(const char *what, ls_tensor *(*compute)(ls_run *run))
{
    float got[2][400];
    int64_t n = 0;
    const char *const devices[] = {XLA_DEVICE, "cpu"};
    for (int i = 0; i < 2; i++) {
        ls_run *run = ls_init(NULL, NULL, .device = devices[i]);
        ls_tensor *y = ls_contiguous(compute(run));
        n = ls_numel(y);
        CHECK(n <= 400 && ls_read(y, got[i], (size_t)n * sizeof **got));
        CHECK_MSG(ls_error(run) == LS_OK, "%s: %s", what, ls_error_message(run));
        ls_finish(run);
    }
    for (int64_t k = 0; k < n; k++) {
        float x = got[0][k], c = got[1][k];
        bool same = x == c || (isnan(x) && isnan(c)) || fabsf(x - c) <= 1e-6f * fmaxf(1, fabsf(c));
        CHECK_MSG(same, "%s: element %d is %g, on the CPU %g", what, (int)k, (double)x, (double)c);
    }
}

/* [1,1,6,6], with a pixel that is infinite and one that is NaN */
static ls_tensor *picture(ls_run *run)
{
    float x[36];
    for (int i = 0; i < 36; i++) x[i] = (float)(i * i % 11);
    x[8] = INFINITY;
    x[29] = NAN;
    return ls_from(run, LS_F32, LS_SHAPE(1, 1, 6, 6), x);
}

static ls_tensor *means(ls_run *run)
{
    return ls_avg_pool2d(picture(run), 3, .stride = 2, .padding = 1);
}

static ls_tensor *uneven_means(ls_run *run)
{
    return ls_adaptive_avg_pool2d(picture(run), 4, 4);
}

static ls_tensor *larger(ls_run *run)
{
    return ls_interpolate(picture(run), 9, 8, LS_INTERPOLATE_BILINEAR);
}

static ls_tensor *gradient_of_means(ls_run *run)
{
    ls_tensor *x = ls_set_requires_grad(ls_zeros(run, LS_F32, 1, 1, 12, 12), true);
    ls_backward(run, ls_sum(ls_mul(ls_avg_pool2d(x, 2), picture(run))));
    return ls_grad(x);
}

/* As in a mean of windows by a product of matrices it would not. */
static void a_pixel_that_is_not_finite_stays_in_its_window(void)
{
    check_same("means", means);
    check_same("uneven means", uneven_means);
    check_same("larger", larger);
    check_same("gradient of means", gradient_of_means);
}

static ls_tensor *maxima(ls_run *run)
{
    float a[] = {NAN, 1, -2, 3, NAN, INFINITY}, b[] = {1, NAN, -INFINITY, 2, NAN, 0};
    ls_tensor *x = ls_from(run, LS_F32, LS_SHAPE(6), a), *y = ls_from(run, LS_F32, LS_SHAPE(6), b);
    return ls_concat(0, ls_maximum(x, y), ls_minimum(x, y), ls_reshape(ls_max(x), 1), ls_reshape(ls_min(y), 1),
                     ls_cast(ls_reshape(ls_argmax(y), 1), LS_F32));
}

static void maxima_of_nan_are_nan(void)
{
    check_same("maxima", maxima);
}

static ls_tensor *gelu_far_from_0(ls_run *run)
{
    float numbers[] = {-INFINITY, -1e10f, -100, -9, -3, 3, 100, 1e10f, INFINITY, NAN};
    ls_tensor *x = ls_set_requires_grad(ls_from(run, LS_F32, LS_SHAPE(10), numbers), true), *y = ls_gelu(x);
    ls_backward(run, ls_sum(y));
    return ls_concat(0, ls_detach(y), ls_grad(x));
}

static void gelu_far_from_0_is_that_of_the_cpu(void)
{
    check_same("gelu far from 0", gelu_far_from_0);
}

static ls_tensor *negative_constants(ls_run *run)
{
    int64_t numbers[] = {-1, 300, -8, 14, 0, -7, 6};
    ls_tensor *x = ls_from(run, LS_I64, LS_SHAPE(7), numbers);
    ls_tensor *below = ls_reshape(ls_tril(ls_ones(run, LS_F32, 1, 1), -1), 1);
    return ls_concat(0, ls_cast(ls_remainder_scalar(x, -7), LS_F32), below,
                     ls_cast(ls_lt_scalar(ls_full(run, LS_I32, -7, 1), 0), LS_F32));
}

/* XLA evaluates what is known when a program is compiled, by rules of its own. */
static void constants_have_their_sign(void)
{
    check_same("negative constants", negative_constants);
}

enum { RULES = 8 };
static int rule; /* that check_same() is to compare */

static ls_optim *optimiser(ls_run *run, ls_module *m)
{
    switch (rule) {
    case 0: return ls_sgd_new(run, m, .lr = 0.1, .momentum = 0.9, .weight_decay = 0.1);
    case 1: return ls_adam_new(run, m, .lr = 0.1, .weight_decay = 0.1);
    case 2: return ls_adamw_new(run, m, .lr = 0.1, .maximize = true);
    case 3: return ls_adagrad_new(run, m, .lr = 0.1, .lr_decay = 0.1);
    case 4: return ls_rmsprop_new(run, m, .lr = 0.1);
    case 5: return ls_rmsprop_new(run, m, .lr = 0.1, .momentum = 0.8, .weight_decay = 0.1);
    case 6: return ls_rmsprop_new(run, m, .lr = 0.1, .centered = true);
    default: return ls_rmsprop_new(run, m, .lr = 0.1, .momentum = 0.8, .weight_decay = 0.1, .centered = true);
    }
}

static ls_tensor *stepped(ls_run *run)
{
    float numbers[] = {0.5f, -1, 2, 0.25f, 1, -3};
    ls_module *m = ls_module_new(run, "vector", NULL, NULL);
    ls_tensor *w = ls_register_parameter(m, "w", ls_from(run, LS_F32, LS_SHAPE(6), numbers));
    ls_optim *optim = optimiser(run, m);
    for (int i = 0; i < 4; i++) {
        ls_backward(run, ls_sum(ls_square(w)));
        CHECK(ls_step(optim));
        ls_zero_grad(optim);
    }
    ls_device_counts counts = ls_device_stats(run);
    CHECK_MSG(counts.host_calls == 0, "on the host: %s", counts.host_operators);
    return ls_detach(w);
}

static void every_rule_steps_as_on_the_cpu(void)
{
    static const char *const names[RULES] = {"SGD",
                                             "Adam",
                                             "AdamW",
                                             "Adagrad",
                                             "RMSprop",
                                             "RMSprop with momentum",
                                             "centered RMSprop",
                                             "centered RMSprop with momentum"};
    for (rule = 0; rule < RULES; rule++) check_same(names[rule], stepped);
}

static ls_tensor *picked(ls_run *run, int which, ls_tensor *x, ls_tensor *index)
{
    if (which == 0) return ls_embedding(x, index);
    if (which == 1) return ls_index_select(x, 0, index);
    if (which == 2) return ls_take_along_dim(x, 0, ls_expand(ls_reshape(index, 2, 1), 2, 4));
    if (which == 3) return ls_scatter_add(x, 0, ls_reshape(index, 2, 1), ls_ones(run, LS_F32, 2, 1));
    return ls_cross_entropy(ls_slice(x, 0, 0, 2, 1), index);
}

/* Found by the device, and reported when a number is read; 2 is the last that is right. */
static void an_index_out_of_range_is_an_error(void)
{
    static const char *const names[] = {"embedding", "index_select", "gather", "scatter_add", "cross_entropy"};
    for (int which = 0; which < 5; which++) {
        for (int64_t wrong = -1; wrong < 5; wrong++) {
            ls_run *run = ls_init(NULL, NULL, .device = XLA_DEVICE);
            int64_t numbers[2] = {0, wrong};
            ls_tensor *x = ls_full(run, LS_F32, 0.5, 3, 4);
            ls_item(ls_sum(picked(run, which, x, ls_from(run, LS_I64, LS_SHAPE(2), numbers))));
            bool right = wrong >= 0 && wrong < (which == 4 ? 4 : 3);
            CHECK_MSG((ls_error(run) == LS_OK) == right, "%s of %d: %s", names[which], (int)wrong,
                      ls_error_message(run));
            ls_clear_error(run);
            ls_finish(run);
        }
    }
}

static void an_index_whose_row_is_never_read_is_an_error(void)
{
    for (int wrong = 0; wrong < 2; wrong++) {
        ls_run *run = ls_init(NULL, NULL, .device = XLA_DEVICE);
        int64_t numbers[2] = {0, wrong ? 3 : 2};
        picked(run, 0, ls_full(run, LS_F32, 0.5, 3, 4), ls_from(run, LS_I64, LS_SHAPE(2), numbers));
        CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
        CHECK(ls_finish(run) == wrong);
    }
}

int main(void)
{
    CHECK_RUN(training_gives_the_numbers_of_the_cpu_and_soon_compiles_nothing);
    CHECK_RUN(a_second_run_compiles_nothing);
    CHECK_RUN(an_index_out_of_range_is_an_error);
    CHECK_RUN(an_index_whose_row_is_never_read_is_an_error);
    CHECK_RUN(creating_a_network_compiles_nothing);
    CHECK_RUN(parts_of_a_tensor_are_written_and_read);
    CHECK_RUN(numbers_of_the_host_do_not_cut_a_step);
    CHECK_RUN(whole_numbers_are_limited_at_one_end);
    CHECK_RUN(a_pixel_that_is_not_finite_stays_in_its_window);
    CHECK_RUN(maxima_of_nan_are_nan);
    CHECK_RUN(gelu_far_from_0_is_that_of_the_cpu);
    CHECK_RUN(constants_have_their_sign);
    CHECK_RUN(every_rule_steps_as_on_the_cpu);
    return check_done();
}
