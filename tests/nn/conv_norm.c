/* conv_norm.c - convolutions and the batch norms behind them: one operator where no gradient is wanted, else two. */
#include <lockstep.h>

#include "check.h"
#include "tensor/context.h"

static ls_run *run;
static int calls[LS_OP_COUNT];
static int with_moments; /* convolutions that give statistics, and norms that are given them */

static ls_status counting_run(void *device, ls_stream *stream, const ls_call *call, ls_message *why)
{
    calls[call->op]++;
    if (call->op == LS_OP_conv2d && call->n_out > 1 && call->out[1]) with_moments++;
    if (call->op == LS_OP_batch_norm && call->attrs.norm.training && call->in[3]) with_moments++;
    return ls_cpu_device.run(device, stream, call, why);
}

/* A forward pass, with the calls that reach the device counted. */
static ls_tensor *forward(ls_module *net, ls_tensor *x)
{
    memset(calls, 0, sizeof calls);
    with_moments = 0;
    run->device->table.run = counting_run;
    ls_tensor *y = ls_forward(net, x);
    run->device->table.run = ls_cpu_device.run;
    return y;
}

static ls_tensor *forward_without_gradient(ls_module *net, ls_tensor *x)
{
    ls_no_grad_begin(run);
    ls_tensor *y = forward(net, x);
    ls_no_grad_end(run);
    return y;
}

/* Norms with statistics and weights of their own: none is the identity. */
static void stir(ls_module *net)
{
    ls_state *all = ls_state_dict(net);
    for (int64_t i = 0; i < ls_state_count(all); i++) {
        ls_tensor *t = ls_state_tensor(all, i);
        if (ls_ndim(t) != 1) continue;
        ls_no_grad_begin(run);
        ls_assign(t, ls_add_scalar(ls_uniform_shape(run, LS_F32, 0, 1, ls_shape_of(t)), 0.5));
        ls_no_grad_end(run);
    }
}

static double difference(ls_tensor *a, ls_tensor *b)
{
    double largest = ls_item(ls_max(ls_abs(ls_cast(b, LS_F32))));
    return ls_item(ls_max(ls_abs(ls_sub(ls_cast(a, LS_F32), ls_cast(b, LS_F32))))) / largest;
}

static ls_module *pair_new(ls_activation activation)
{
    return ls_sequential_new(run, ls_conv2d_new(run, 5, 11, 3, .padding = 1),
                             ls_batch_norm_new(run, 11, .activation = activation));
}

static void evaluation_takes_one_pass(void)
{
    static const char *const names[] = {"resnet10t", "resnet14t", "resnet26d", "resnet18"};
    static const int norms[] = {3 + 3 + 4 * 2, 3 + 4 + 4 * 3, 3 + 4 + 8 * 3, 1 + 3 + 8 * 2};
    for (int i = 0; i < 4; i++) {
        ls_mark mark = ls_scope_begin(run);
        ls_module *net = ls_resnet_new(run, names[i], .width = 16, .classes = 5);
        stir(net);
        ls_eval(net);
        ls_tensor *x = ls_randn(run, LS_F32, 2, 3, 64, 64);
        ls_tensor *want = forward(net, x); /* recorded: in two passes */
        CHECK_MSG(calls[LS_OP_batch_norm] == norms[i] && calls[LS_OP_conv2d_norm] == 0, "%s: %d norms", names[i],
                  calls[LS_OP_batch_norm]);
        ls_tensor *got = forward_without_gradient(net, x);
        CHECK_MSG(calls[LS_OP_conv2d_norm] == norms[i] && calls[LS_OP_conv2d] == 0 && calls[LS_OP_batch_norm] == 0,
                  "%s: %d in one pass, %d norms", names[i], calls[LS_OP_conv2d_norm], calls[LS_OP_batch_norm]);
        CHECK_MSG(difference(got, want) < 1e-4, "%s: off by %g", names[i], difference(got, want));
        CHECK_TEXT(ls_error_message(run), "");
        ls_scope_end(run, mark, NULL);
        ls_module_free(net);
    }
}

static void half_types_are_rounded_once(void)
{
    ls_module *net = pair_new(LS_ACT_RELU);
    stir(net);
    ls_eval(net);
    ls_tensor *x = ls_cast(ls_randn(run, LS_BF16, 2, 5, 9, 9), LS_F32);
    ls_tensor *exact = forward_without_gradient(net, x);
    ls_autocast_begin(run, LS_BF16);
    ls_tensor *one = forward_without_gradient(net, x), *two = forward(net, x);
    ls_autocast_end(run);
    CHECK(ls_dtype_of(one) == LS_BF16 && ls_dtype_of(two) == LS_BF16);
    CHECK(difference(one, exact) < 0x1p-7 && difference(one, two) < 0x1p-6);
}

/* A frozen network in training normalises by the statistics of the batch, and moves the running ones. */
static void training_uses_the_batch(void)
{
    ls_module *net = pair_new(LS_ACT_NONE);
    ls_freeze(net);
    ls_tensor *x = ls_randn(run, LS_F32, 4, 5, 8, 8);
    ls_tensor *y = forward(net, x);
    CHECK(calls[LS_OP_conv2d_norm] == 1 && calls[LS_OP_conv2d] == 0 && calls[LS_OP_batch_norm] == 0);
    CHECK(fabs(ls_item(ls_mean(y))) < 1e-5 && fabs(ls_item(ls_var(y, 0)) - 1) < 1e-2);
    CHECK(ls_item(ls_module_tensor(net, "1.num_batches_tracked")) == 1);
    CHECK(ls_item(ls_norm(ls_module_tensor(net, "1.running_mean"))) > 0);
    ls_eval(net);
    ls_train(ls_child(net, "1")); /* the norm's mode counts, not that of what is around it */
    y = forward_without_gradient(net, x);
    CHECK(calls[LS_OP_conv2d_norm] == 1 && fabs(ls_item(ls_mean(y))) < 1e-5);
    CHECK(ls_item(ls_module_tensor(net, "1.num_batches_tracked")) == 2);
}

/* The same statistics and results as of two operators, which gradients need. */
static void training_takes_one_operator_or_two(void)
{
    ls_module *one = pair_new(LS_ACT_RELU), *two = pair_new(LS_ACT_RELU);
    stir(one);
    ls_load_state_dict(two, ls_state_dict(one));
    ls_freeze(one);
    ls_tensor *x = ls_randn(run, LS_F32, 4, 5, 9, 7);
    ls_tensor *got = forward(one, x);
    CHECK(calls[LS_OP_conv2d_norm] == 1);
    ls_tensor *want = forward(two, x);
    CHECK(calls[LS_OP_conv2d_norm] == 0 && calls[LS_OP_batch_norm] == 1);
    CHECK(difference(got, want) < 1e-5);
    static const char *const names[] = {"1.running_mean", "1.running_var"};
    for (int i = 0; i < 2; i++)
        CHECK(difference(ls_module_tensor(one, names[i]), ls_module_tensor(two, names[i])) < 1e-5);
}

static void one_value_cannot_be_trained_on(void)
{
    ls_module *net = pair_new(LS_ACT_NONE);
    CHECK(!ls_is_valid(forward_without_gradient(net, ls_zeros(run, LS_F32, 1, 5, 1, 1))));
    CHECK(strstr(ls_error_message(run), "one value per channel has no variance"));
    ls_clear_error(run);
    CHECK(ls_item(ls_module_tensor(net, "1.num_batches_tracked")) == 0);
}

static void gradients_are_not_lost(void)
{
    ls_module *net = pair_new(LS_ACT_RELU);
    ls_eval(net);
    ls_freeze(net);
    ls_tensor *x = ls_set_requires_grad(ls_randn(run, LS_F32, 2, 5, 8, 8), true);
    ls_tensor *y = forward(net, x);
    CHECK(calls[LS_OP_conv2d_norm] == 0);
    ls_backward(run, ls_sum(y));
    CHECK(ls_item(ls_norm(ls_grad(x))) > 0);
    forward(net, ls_detach(x)); /* now nothing wants one */
    CHECK(calls[LS_OP_conv2d_norm] == 1);
}

/* With gradients the operators stay two, but the norm does not go over its input for statistics. */
static void statistics_come_with_the_convolution(void)
{
    ls_module *net = pair_new(LS_ACT_RELU), *apart = pair_new(LS_ACT_RELU);
    stir(net);
    ls_load_state_dict(apart, ls_state_dict(net));
    ls_tensor *x = ls_randn(run, LS_F32, 4, 5, 9, 7);
    ls_tensor *got = forward(net, x);
    CHECK(calls[LS_OP_conv2d] == 1 && calls[LS_OP_batch_norm] == 1 && with_moments == 2);
    run->device->table.traits &= ~(uint32_t)LS_TRAIT_MOMENTS; /* a device that cannot */
    ls_tensor *want = forward(apart, x);
    run->device->table.traits |= LS_TRAIT_MOMENTS;
    CHECK(calls[LS_OP_conv2d] == 1 && calls[LS_OP_batch_norm] == 1 && with_moments == 0);
    CHECK(difference(got, want) < 1e-5);
    ls_backward(run, ls_sum(ls_square(got)));
    ls_backward(run, ls_sum(ls_square(want)));
    static const char *const names[] = {"0.weight", "1.weight", "1.bias"};
    for (int i = 0; i < 3; i++)
        CHECK(difference(ls_grad(ls_module_tensor(net, names[i])), ls_grad(ls_module_tensor(apart, names[i]))) < 1e-4);
    static const char *const buffers[] = {"1.running_mean", "1.running_var", "1.num_batches_tracked"};
    for (int i = 0; i < 3; i++)
        CHECK(difference(ls_module_tensor(net, buffers[i]), ls_module_tensor(apart, buffers[i])) < 1e-5);
    ls_eval(net);
    forward(net, x);
    CHECK(with_moments == 0); /* by running statistics */
}

static void norms_without_running_statistics_take_two_passes(void)
{
    ls_module *net =
        ls_sequential_new(run, ls_conv2d_new(run, 5, 11, 1), ls_batch_norm_new(run, 11, .track_running_stats = false));
    ls_eval(net);
    forward_without_gradient(net, ls_randn(run, LS_F32, 2, 5, 8, 8));
    CHECK(calls[LS_OP_conv2d_norm] == 0 && calls[LS_OP_batch_norm] == 1);
}

static void note_input(ls_module *module, ls_tensor *const *inputs, int64_t n, ls_outputs *outputs, void *user)
{
    (void)module, (void)n, (void)outputs;
    *(double *)user = ls_item(ls_norm(inputs[0]));
}

static void hooks_see_what_is_in_between(void)
{
    ls_module *net = pair_new(LS_ACT_NONE);
    ls_eval(net);
    ls_tensor *x = ls_randn(run, LS_F32, 2, 5, 8, 8);
    double seen = 0;
    ls_hook *hook = ls_register_forward_hook(ls_child(net, "1"), note_input, &seen);
    ls_train(net);
    ls_forward(net, x);
    CHECK(seen > 0);
    ls_eval(net);
    seen = 0;
    ls_no_grad_begin(run);
    ls_forward(net, x);
    CHECK_NEAR(seen, ls_item(ls_norm(ls_forward(ls_child(net, "0"), x))), 1e-4 * seen);
    ls_no_grad_end(run);
    ls_hook_remove(hook);
}

static void errors_still_carry_the_path(void)
{
    ls_module *net = pair_new(LS_ACT_NONE);
    ls_eval(net);
    CHECK(!ls_is_valid(forward_without_gradient(net, ls_zeros(run, LS_F32, 2, 4, 8, 8))));
    CHECK_MSG(strncmp(ls_error_message(run), "Sequential.0: conv2d_norm: ", 27) == 0, "%s", ls_error_message(run));
    ls_clear_error(run);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    run = ls_init(NULL, NULL, .seed = 3);
    CHECK_RUN(evaluation_takes_one_pass);
    CHECK_RUN(half_types_are_rounded_once);
    CHECK_RUN(training_uses_the_batch);
    CHECK_RUN(training_takes_one_operator_or_two);
    CHECK_RUN(one_value_cannot_be_trained_on);
    CHECK_RUN(gradients_are_not_lost);
    CHECK_RUN(statistics_come_with_the_convolution);
    CHECK_RUN(norms_without_running_statistics_take_two_passes);
    CHECK_RUN(hooks_see_what_is_in_between);
    CHECK_RUN(errors_still_carry_the_path);
    CHECK(ls_finish(run) == 0);
    return check_done();
}
