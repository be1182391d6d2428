/* together.c - what processes share besides gradients: statistics of batches, means of parameters, seeds by rank. */
#include <lockstep.h>

#include "run/team.h"

enum { EACH = 3, CHANNELS = 4, PIXELS = 5 };

static void check_no_error(ls_run *run)
{
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
}

/* Rows of all processes, the same everywhere. */
static ls_tensor *rows_of_all(ls_run *run, int64_t step)
{
    int64_t n = EACH * ls_world_size(run);
    ls_tensor *x = ls_arange(run, LS_F32, n * CHANNELS * PIXELS, (double)step, 1);
    return ls_reshape(ls_mul_scalar(ls_sin(ls_mul_scalar(x, 1.7)), 2), n, CHANNELS, PIXELS);
}

static ls_tensor *own_rows(ls_run *run, ls_tensor *x)
{
    int64_t first = EACH * ls_rank(run);
    return ls_slice(x, 0, first, first + EACH, 1);
}

static double distance(ls_tensor *a, ls_tensor *b)
{
    return ls_item(ls_max(ls_abs(ls_sub(a, b))));
}

/* Outputs, gradients and running statistics are those of one process that has all rows. */
static void normalise_together(ls_run *run)
{
    ls_module *whole = ls_batch_norm_new(run, CHANNELS, .activation = LS_ACT_RELU);
    ls_module *shared = ls_sequential_new(run, ls_batch_norm_new(run, CHANNELS, .activation = LS_ACT_RELU));
    ls_sync_batch_norm(run, shared);
    for (int step = 0; step < 2; step++) {
        ls_tensor *x = ls_set_requires_grad(rows_of_all(run, step), true), *seed = rows_of_all(run, 100 + step);
        ls_tensor *mine = ls_set_requires_grad(ls_detach(ls_clone(own_rows(run, x))), true);
        ls_tensor *y = ls_forward(whole, x), *got = ls_forward(shared, mine);
        CHECK(distance(got, own_rows(run, y)) < 1e-5);
        ls_backward(run, ls_sum(ls_mul(y, seed)));
        ls_backward(run, ls_sum(ls_mul(got, own_rows(run, seed))));
        CHECK(distance(ls_grad(mine), own_rows(run, ls_grad(x))) < 1e-4);
        ls_tensor *weight = ls_module_tensor(whole, "weight"), *other = ls_module_tensor(shared, "0.weight");
        CHECK(distance(ls_reduce(run, ls_grad(other), LS_REDUCE_SUM), ls_grad(weight)) < 1e-3);
        ls_clear_grad(weight), ls_clear_grad(other);
    }
    CHECK(distance(ls_module_tensor(whole, "running_mean"), ls_module_tensor(shared, "0.running_mean")) < 1e-5);
    CHECK(distance(ls_module_tensor(whole, "running_var"), ls_module_tensor(shared, "0.running_var")) < 1e-5);
    CHECK(ls_item(ls_module_tensor(shared, "0.num_batches_tracked")) == 2);
    ls_eval(shared), ls_eval(whole); /* no statistics are exchanged */
    ls_tensor *x = rows_of_all(run, 9);
    CHECK(distance(ls_forward(shared, own_rows(run, x)), own_rows(run, ls_forward(whole, x))) < 1e-5);
    check_no_error(run);
}

/* f64 keeps its digits, and a residual has the shape of the input. */
static void normalise_exactly(ls_run *run)
{
    ls_module *whole = ls_batch_norm_new(run, CHANNELS), *shared = ls_batch_norm_new(run, CHANNELS);
    ls_sync_batch_norm(run, shared);
    ls_tensor *x = ls_cast(rows_of_all(run, 3), LS_F64), *mine = own_rows(run, x);
    ls_tensor *y = ls_forward(shared, mine, mine);
    CHECK(ls_dtype_of(y) == LS_F64 && distance(y, own_rows(run, ls_forward(whole, x, x))) < 1e-12);
    check_no_error(run);
    ls_forward(shared, mine, ls_slice(mine, 2, 0, 1, 1));
    CHECK_MSG(strstr(ls_error_message(run), "and residual"), "%s", ls_error_message(run));
    ls_clear_error(run);
}

/* Without gradients, a convolution and its norm may be one operator: not if it knows the batch of one process only. */
static void normalise_convolutions(ls_run *run)
{
    ls_module *whole = ls_sequential_new(run, ls_conv2d_new(run, CHANNELS, 2, 1), ls_batch_norm_new(run, 2));
    ls_module *shared = ls_sequential_new(run, ls_conv2d_new(run, CHANNELS, 2, 1), ls_batch_norm_new(run, 2));
    ls_load_state_dict(shared, ls_state_dict(whole));
    ls_sync_batch_norm(run, shared);
    ls_no_grad(run)
    {
        ls_tensor *x = ls_reshape(rows_of_all(run, 3), EACH * ls_world_size(run), CHANNELS, PIXELS, 1);
        CHECK(distance(ls_forward(shared, own_rows(run, x)), own_rows(run, ls_forward(whole, x))) < 1e-5);
    }
    check_no_error(run);
}

static void batches_are_normalised_together(void)
{
    team_run(1, normalise_together);
    team_run(2, normalise_together);
    team_run(3, normalise_together);
    team_run(2, normalise_convolutions);
    team_run(2, normalise_exactly);
}

/* Local SGD: each trains on its own, and after every second step all have the mean. */
static void average_now_and_then(ls_run *run)
{
    int n = ls_world_size(run);
    ls_module *line = ls_module_new(run, "line", NULL, NULL);
    ls_tensor *w = ls_register_parameter(line, "w", ls_zeros(run, LS_F32, 2));
    ls_optim *sgd = ls_sgd_new(run, line, .lr = 1);
    ls_optim_train_apart(sgd);
    double want = 0;
    for (int step = 1; step <= 4; step++) {
        ls_backward(run, ls_mul_scalar(ls_sum(w), -1 - ls_rank(run))); /* w grows by rank + 1 */
        CHECK(ls_step(sgd));
        ls_zero_grad(sgd);
        if (step % 2 == 0) {
            ls_average_parameters(run, line);
            want += n + 1; /* twice the mean of 1 .. n */
            CHECK_NEAR(ls_item(ls_slice(ls_detach(w), 0, 0, 1, 1)), want, 1e-5);
        }
    }
    check_no_error(run);
}

static void parameters_are_averaged(void)
{
    team_run(1, average_now_and_then);
    team_run(2, average_now_and_then);
}

static void draw_by_rank(ls_run *run)
{
    for (int specific = 0; specific < 2; specific++) {
        ls_set_seed(run, 5, .device_specific = specific);
        ls_tensor *all = ls_gather(run, ls_rand(run, LS_F32, 1));
        CHECK((ls_item(ls_max(all)) == ls_item(ls_min(all))) == !specific);
    }
    ls_set_seed(run, 5, .device_specific = true);
    double here = ls_item(ls_rand(run, LS_F32, 1));
    ls_set_seed(run, 5 + (uint64_t)ls_rank(run));
    CHECK(ls_item(ls_rand(run, LS_F32, 1)) == here);
    check_no_error(run);
}

static void seeds_may_differ_by_rank(void)
{
    team_run(2, draw_by_rank);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(batches_are_normalised_together);
    CHECK_RUN(parameters_are_averaged);
    CHECK_RUN(seeds_may_differ_by_rank);
    return check_done();
}
