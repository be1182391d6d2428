/* calls.c - the device calls of a backward pass: gradients are written in place, and contributions are added by the
 * operator that computes them, not by separate calls. */
#include <lockstep.h>

#include "check.h"
#include "tensor/context.h"

static ls_run *run;

/* ---- a device that counts ---- */

static ls_device_table cpu;
static int calls[LS_OP_COUNT];

static ls_status counted(void *device, ls_stream *stream, const ls_call *call, ls_message *why)
{
    calls[call->op]++;
    return cpu.run(device, stream, call, why);
}

static void count_calls(void)
{
    cpu = run->device->table;
    run->device->table.run = counted;
}

static void forget_calls(void)
{
    memset(calls, 0, sizeof calls);
}

static int all_calls(void)
{
    int total = 0;
    for (int op = 0; op < LS_OP_COUNT; op++) total += calls[op];
    return total;
}

/* ---- vectors ---- */

/* Each output element has its own weight, and no gradient is an expanded value. */
static ls_tensor *loss_of(ls_module *net, ls_tensor *x)
{
    ls_tensor *y = ls_forward(net, x);
    return ls_sum(ls_mul(y, ls_detach(ls_cos(y))));
}

/* The second pass over a module finds the gradients of the first and adds to them in the same call. */
static void walks_without_copies(ls_module *net, ls_tensor *x, const char *name)
{
    enum { MOST = 2 };
    ls_tensor *parameters[MOST] = {ls_module_tensor(net, "weight"), ls_module_tensor(net, "bias")}, *twice[MOST];
    for (int i = 0; i < MOST; i++) /* as an optimiser places them */
        if (ls_requires_grad(parameters[i]))
            ls_set_grad_memory(parameters[i], ls_full_shape(run, LS_F32, 0, ls_shape_of(parameters[i])));
    ls_tensor *loss = ls_add(loss_of(net, x), loss_of(net, x));
    forget_calls();
    ls_backward(run, loss);
    CHECK_MSG(calls[LS_OP_copy] == 0 && calls[LS_OP_add] == 0, "%s: %d copies, %d additions", name, calls[LS_OP_copy],
              calls[LS_OP_add]);
    for (int i = 0; i < MOST; i++) {
        if (!ls_requires_grad(parameters[i])) continue;
        twice[i] = ls_clone(ls_grad(parameters[i]));
        ls_clear_grad(parameters[i]);
    }
    ls_backward(run, loss_of(net, x));
    for (int i = 0; i < MOST; i++) {
        if (!ls_requires_grad(parameters[i])) continue;
        double difference = ls_item(ls_max(ls_abs(ls_sub(twice[i], ls_mul_scalar(ls_grad(parameters[i]), 2)))));
        CHECK_MSG(difference < 1e-3, "%s, parameter %d: the gradient of two passes is %g off", name, i, difference);
    }
}

static void gradients_of_vectors_are_written_where_they_live(void)
{
    ls_tensor *picture = ls_randn(run, LS_F32, 2, 6, 5, 4), *rows = ls_randn(run, LS_F32, 3, 7, 6);
    walks_without_copies(ls_linear_new(run, 6, 5), rows, "linear");
    walks_without_copies(ls_linear_new(run, 6, 5, .activation = LS_ACT_GELU), rows, "linear with GELU");
    walks_without_copies(ls_layer_norm_new(run, 6), rows, "layer norm");
    walks_without_copies(ls_conv2d_new(run, 6, 3, 3), picture, "convolution");
    walks_without_copies(ls_conv_transpose2d_new(run, 6, 3, 3), picture, "transposed convolution");
    walks_without_copies(ls_batch_norm_new(run, 6), picture, "batch norm");
    walks_without_copies(ls_group_norm_new(run, 3, 6), picture, "group norm");
}

static void a_frozen_scale_leaves_the_shift_in_place(void)
{
    ls_module *norm = ls_batch_norm_new(run, 6);
    ls_set_requires_grad(ls_module_tensor(norm, "weight"), false);
    walks_without_copies(norm, ls_randn(run, LS_F32, 2, 6, 5, 4), "batch norm with a frozen weight");
}

static void batches_are_counted_by_the_host(void)
{
    ls_module *norm = ls_batch_norm_new(run, 3);
    ls_tensor *x = ls_randn(run, LS_F32, 4, 3);
    forget_calls();
    ls_forward(norm, x);
    CHECK(calls[LS_OP_batch_norm] == 1 && all_calls() == 1);
    ls_forward(norm, x);
    CHECK(ls_item(ls_module_tensor(norm, "num_batches_tracked")) == 2);
}

/* ---- where branches meet ---- */

typedef ls_tensor *branch_fn(ls_tensor *h, ls_tensor *w);

static ls_tensor *through_linear(ls_tensor *h, ls_tensor *w)
{
    return ls_tanh(ls_linear(h, w, NULL, LS_ACT_NONE));
}

static ls_tensor *through_matmul(ls_tensor *h, ls_tensor *w)
{
    return ls_tanh(ls_matmul(h, w));
}

static ls_tensor *through_conv(ls_tensor *h, ls_tensor *w)
{
    return ls_tanh(ls_conv2d(h, ls_reshape(w, ls_dim(w, 0), ls_dim(w, 1), 1, 1), NULL));
}

static ls_tensor *through_norm(ls_tensor *h, ls_tensor *w)
{
    return ls_tanh(ls_layer_norm(h, ls_select(w, 0, 0), ls_select(w, 0, 1), 1e-5));
}

static ls_tensor *through_residual_norm(ls_tensor *h, ls_tensor *w)
{
    ls_tensor *x = ls_mul_scalar(ls_ones(run, LS_F32, 3, 5, 6), 0.5);
    return ls_tanh(ls_add_layer_norm(x, h, ls_select(w, 0, 0), ls_select(w, 0, 1), 1e-5));
}

/* h + branch(h), where h has a history: its gradient comes from both. */
static void meets_in_the_product(branch_fn *branch, ls_shape shape, const char *name)
{
    ls_tensor *x = ls_set_requires_grad(ls_normal_shape(run, LS_F32, 0, 1, shape), true);
    ls_tensor *w = ls_randn(run, LS_F32, 6, 6), *weights = ls_normal_shape(run, LS_F32, 0, 1, shape);
    ls_tensor *h = ls_mul_scalar(x, 2);
    ls_tensor *loss = ls_sum(ls_mul(ls_add(branch(h, w), h), weights));
    forget_calls();
    ls_backward(run, loss);
    CHECK_MSG(calls[LS_OP_add] == 0, "%s: %d additions", name, calls[LS_OP_add]);
    ls_tensor *both = ls_clone(ls_grad(x));
    ls_clear_grad(x);
    h = ls_mul_scalar(x, 2);
    ls_backward(run, ls_sum(ls_mul(branch(h, w), weights)));
    ls_backward(run, ls_sum(ls_mul(ls_mul_scalar(x, 2), weights)));
    double difference = ls_item(ls_max(ls_abs(ls_sub(both, ls_grad(x)))));
    CHECK_MSG(difference < 1e-4, "%s: the gradient is %g off", name, difference);
}

static void branches_meet_in_the_norm(void)
{
    meets_in_the_product(through_norm, LS_SHAPE(3, 5, 6), "layer norm");
    meets_in_the_product(through_residual_norm, LS_SHAPE(3, 5, 6), "layer norm of a sum");
}

static void branches_meet_in_the_product(void)
{
    meets_in_the_product(through_linear, LS_SHAPE(3, 5, 6), "linear");
    meets_in_the_product(through_matmul, LS_SHAPE(5, 6), "matmul");
    meets_in_the_product(through_conv, LS_SHAPE(2, 6, 3, 4), "convolution");
}

/* The first contribution may have another memory order than rows: later ones are added to it all the same. */
static void branches_meet_in_any_order_of_memory(void)
{
    ls_tensor *x = ls_set_requires_grad(ls_randn(run, LS_F32, 3, 5, 6), true), *w = ls_randn(run, LS_F32, 6, 6);
    ls_tensor *weights = ls_randn(run, LS_F32, 5, 3, 6), *want = ls_matmul(ls_permute(weights, 1, 0, 2), w);
    ls_tensor *h = ls_mul_scalar(x, 1);
    ls_tensor *product = ls_linear(h, w, NULL, LS_ACT_NONE);
    ls_tensor *turned = ls_mul(ls_permute(h, 1, 0, 2), weights); /* its gradient comes first */
    ls_backward(run, ls_sum(ls_add(ls_mul(ls_permute(product, 1, 0, 2), weights), turned)));
    want = ls_add(want, ls_permute(weights, 1, 0, 2));
    CHECK(ls_item(ls_max(ls_abs(ls_sub(ls_grad(x), want)))) < 1e-4);
}

/* Both factors are one tensor: a call must not write its gradient twice. */
static void a_tensor_times_itself(void)
{
    ls_tensor *w = ls_set_requires_grad(ls_randn(run, LS_F32, 6, 6), true);
    ls_tensor *ones = ls_ones(run, LS_F32, 6, 6);
    ls_backward(run, ls_sum(ls_linear(w, w, NULL, LS_ACT_NONE))); /* w w^T: 2 x column sums in every row */
    ls_tensor *want = ls_mul_scalar(ls_matmul(ones, ls_detach(w)), 2);
    CHECK(ls_item(ls_max(ls_abs(ls_sub(ls_grad(w), want)))) < 1e-4);
}

/* A gradient in another order than the tensor it belongs to would be turned around on its way. */
static void gradients_of_losses_have_the_order_of_their_input(void)
{
    ls_tensor *target = ls_channels_last(ls_randn(run, LS_F32, 2, 8, 5, 3));
    for (int i = 0; i < 3; i++) {
        ls_tensor *x = ls_set_requires_grad(ls_channels_last(ls_randn(run, LS_F32, 2, 8, 5, 3)), true);
        ls_tensor *loss = i == 0   ? ls_sum(ls_mul(x, target))
                          : i == 1 ? ls_mse_loss(x, target, LS_REDUCE_MEAN)
                                   : ls_l1_loss(x, target, LS_REDUCE_MEAN);
        forget_calls();
        ls_backward(run, loss); /* its result becomes the gradient if the order of both is the same */
        CHECK_MSG(calls[LS_OP_copy] == 0, "loss %d: %d copies", i, calls[LS_OP_copy]);
    }
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    run = ls_init(NULL, NULL, .seed = 3);
    count_calls();
    CHECK_RUN(gradients_of_vectors_are_written_where_they_live);
    CHECK_RUN(a_frozen_scale_leaves_the_shift_in_place);
    CHECK_RUN(batches_are_counted_by_the_host);
    CHECK_RUN(branches_meet_in_the_product);
    CHECK_RUN(branches_meet_in_the_norm);
    CHECK_RUN(branches_meet_in_any_order_of_memory);
    CHECK_RUN(a_tensor_times_itself);
    CHECK_RUN(gradients_of_losses_have_the_order_of_their_input);
    run->device->table = cpu;
    CHECK(ls_finish(run) == 0);
    return check_done();
}
