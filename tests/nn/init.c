/* init.c - initialisers: the distributions PyTorch draws from. */
#include <lockstep.h>

#include <stdlib.h>

#include "check.h"

typedef struct moments {
    double mean, deviation, low, high;
} moments;

static moments moments_of(ls_tensor *t)
{
    moments m = {.low = ls_item(ls_min(t)), .high = ls_item(ls_max(t)), .mean = ls_item(ls_mean(t))};
    m.deviation = sqrt(ls_item(ls_var(t, 0)));
    return m;
}

static void check_uniform(ls_tensor *t, double bound)
{
    moments m = moments_of(t);
    CHECK_NEAR(m.mean / bound, 0, 0.05);
    CHECK_NEAR(m.deviation / (bound / sqrt(3.0)), 1, 0.03);
    CHECK(m.low >= -bound && m.high <= bound && m.high > 0.98 * bound && m.low < -0.98 * bound);
}

static void check_normal(ls_tensor *t, double deviation)
{
    moments m = moments_of(t);
    CHECK_NEAR(m.mean / deviation, 0, 0.05);
    CHECK_NEAR(m.deviation / deviation, 1, 0.03);
    CHECK(m.high > 2.5 * deviation && m.low < -2.5 * deviation);
}

static void layers_start_as_in_pytorch(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 5);
    ls_module *linear = ls_linear_new(run, 64, 100);
    check_uniform(ls_module_tensor(linear, "weight"), 1.0 / 8);
    CHECK(ls_item(ls_max(ls_abs(ls_module_tensor(linear, "bias")))) <= 1.0 / 8);
    check_uniform(ls_module_tensor(ls_conv2d_new(run, 16, 64, 3), "weight"), 1 / sqrt(16 * 9.0));
    check_uniform(ls_module_tensor(ls_conv2d_new(run, 16, 64, 3, .groups = 4), "weight"), 1 / sqrt(4 * 9.0));
    check_uniform(ls_module_tensor(ls_conv_transpose2d_new(run, 16, 64, 3), "weight"), 1 / sqrt(64 * 9.0));
    check_normal(ls_module_tensor(ls_embedding_new(run, 100, 64), "weight"), 1);
    ls_module *attention = ls_multihead_attention_new(run, 32, 2);
    check_uniform(ls_module_tensor(attention, "in_proj_weight"), sqrt(6.0 / (32 + 96)));
    CHECK(ls_item(ls_norm(ls_module_tensor(attention, "in_proj_bias"))) == 0);
    CHECK(ls_item(ls_norm(ls_module_tensor(attention, "out_proj.bias"))) == 0);
    ls_module *padded = ls_embedding_new(run, 5, 4, .padding_idx = 2);
    CHECK(ls_item(ls_norm(ls_select(ls_module_tensor(padded, "weight"), 0, 2))) == 0);
    CHECK(ls_item(ls_norm(ls_select(ls_module_tensor(padded, "weight"), 0, 1))) > 0);
    CHECK(ls_finish(run) == 0);
}

static void initialisers_have_their_moments(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 6);
    ls_tensor *t = ls_zeros(run, LS_F32, 60, 20, 3, 3);
    ls_init_kaiming_normal(t, LS_GAIN_RELU, LS_FAN_OUT);
    check_normal(t, sqrt(2 / (60 * 9.0)));
    ls_init_kaiming_uniform(t, LS_GAIN_RELU, LS_FAN_IN);
    check_uniform(t, sqrt(3.0) * sqrt(2 / (20 * 9.0)));
    ls_init_xavier_uniform(t, 2);
    check_uniform(t, 2 * sqrt(6 / (80 * 9.0)));
    ls_init_xavier_normal(t, 1);
    check_normal(t, sqrt(2 / (80 * 9.0)));
    ls_init_constant(t, 3);
    CHECK(ls_item(ls_min(t)) == 3 && ls_item(ls_max(t)) == 3);

    ls_init_trunc_normal(t, 0.5, 2, -1.5, 2.5); /* one deviation to both sides */
    moments m = moments_of(t);
    CHECK_NEAR(m.mean, 0.5, 0.03);
    CHECK_NEAR(m.deviation, 2 * 0.53956, 0.02);
    CHECK(m.low >= -1.5 && m.low < -1.45 && m.high <= 2.5 && m.high > 2.45);
    CHECK(ls_finish(run) == 0);
}

static void seeds_repeat(void)
{
    double sums[3];
    for (int i = 0; i < 3; i++) {
        ls_run *run = ls_init(NULL, NULL, .seed = i < 2 ? 9 : 10);
        sums[i] = ls_item(ls_sum(ls_module_tensor(ls_linear_new(run, 30, 30), "weight")));
        CHECK(ls_finish(run) == 0);
    }
    CHECK(sums[0] == sums[1] && sums[0] != sums[2]);
}

static void misuse_is_an_error(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_init_kaiming_normal(ls_zeros(run, LS_F32, 5), 1, LS_FAN_IN);
    CHECK(ls_error(run) == LS_ERR_SHAPE);
    ls_clear_error(run);
    ls_init_trunc_normal(ls_zeros(run, LS_F32, 5), 0, -1, 0, 1);
    CHECK(ls_error(run) == LS_ERR_VALUE);
    ls_clear_error(run);
    CHECK(ls_finish(run) == 0);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(layers_start_as_in_pytorch);
    CHECK_RUN(initialisers_have_their_moments);
    CHECK_RUN(seeds_repeat);
    CHECK_RUN(misuse_is_an_error);
    return check_done();
}
