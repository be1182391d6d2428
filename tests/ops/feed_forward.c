/* feed_forward.c - two linear layers as one operator: results and gradients are those of the layers alone, and what
 * lies between them is not kept. */
#include <lockstep.h>

#include "check.h"
#include "nn/layers.h"
#include "ops/op.h"
#include "tensor/context.h"

enum { ROWS = 64, IN = 32, BETWEEN = 128, OUT = 16, LEAVES = 5 };

static ls_run *run;
static int calls[LS_OP_COUNT];

static ls_status counting_run(void *device, ls_stream *stream, const ls_call *call, ls_message *why)
{
    calls[call->op]++;
    return ls_cpu_device.run(device, stream, call, why);
}

typedef ls_tensor *forward_both(ls_module *up, ls_module *down, ls_tensor *x);

static ls_tensor *alone(ls_module *up, ls_module *down, ls_tensor *x)
{
    return ls_forward(down, ls_forward(up, x));
}

static ls_module *up_new(ls_activation activation)
{
    return ls_linear_new(run, IN, BETWEEN, .activation = activation);
}

static ls_tensor *input(void)
{
    return ls_set_requires_grad(ls_detach(ls_normal_shape(run, LS_F32, 0, 1, LS_SHAPE(2, ROWS / 2, IN))), true);
}

/* The result and, after it, the gradients of x, weights and biases, NULL where there is none. */
static void outcome_of(forward_both *f, ls_module *up, ls_module *down, ls_tensor *x, ls_tensor *out[1 + LEAVES])
{
    ls_tensor *leaves[LEAVES] = {x, ls_module_tensor(up, "weight"), ls_module_tensor(up, "bias"),
                                 ls_module_tensor(down, "weight"), ls_module_tensor(down, "bias")};
    memset(calls, 0, sizeof calls);
    run->device->table.run = counting_run;
    for (int i = 0; i < 2; i++) { /* the second time gradients are added to */
        out[0] = f(up, down, x);
        ls_backward(run, ls_sum(ls_mul(out[0], ls_detach(ls_cos(out[0])))));
    }
    run->device->table.run = ls_cpu_device.run;
    for (int i = 0; i < LEAVES; i++) {
        bool has = ls_requires_grad(leaves[i]);
        out[1 + i] = has ? ls_clone(ls_grad(leaves[i])) : NULL;
        if (has) ls_clear_grad(leaves[i]);
    }
}

/* gradients: calls of linear_grad in a backward pass. */
static void compare(ls_module *up, ls_module *down, ls_tensor *x, int gradients)
{
    ls_tensor *got[1 + LEAVES], *expected[1 + LEAVES];
    outcome_of(ls_forward_feed_forward, up, down, x, got);
    CHECK_MSG(calls[LS_OP_linear_grad] == 2 * gradients, "%d gradients in two passes", calls[LS_OP_linear_grad]);
    outcome_of(alone, up, down, x, expected);
    for (int i = 0; i < 1 + LEAVES && !ls_error(run); i++) {
        CHECK(!got[i] == !expected[i]);
        if (!got[i] || !expected[i]) continue;
        double size = ls_item(ls_max(ls_abs(expected[i]))), off = ls_item(ls_max(ls_abs(ls_sub(got[i], expected[i]))));
        CHECK_MSG(off <= 1e-5 * (1 + size), "%s %d is %g off", i ? "gradient" : "result", i, off);
    }
}

static void results_and_gradients_are_those_of_the_layers(void)
{
    static const ls_activation kept[] = {LS_ACT_GELU, LS_ACT_GELU_TANH, LS_ACT_SILU},
                               others[] = {LS_ACT_RELU, LS_ACT_TANH};
    for (int i = 0; i < 3; i++) compare(up_new(kept[i]), ls_linear_new(run, BETWEEN, OUT), input(), 3);
    for (int i = 0; i < 2; i++) compare(up_new(others[i]), ls_linear_new(run, BETWEEN, OUT), input(), 2);
}

static void frozen_weights_get_no_gradient(void)
{
    ls_module *up = up_new(LS_ACT_GELU), *down = ls_linear_new(run, BETWEEN, OUT);
    ls_set_requires_grad(ls_module_tensor(down, "weight"), false);
    compare(up, down, input(), 2);
    ls_set_requires_grad(ls_module_tensor(up, "weight"), false);
    ls_set_requires_grad(ls_module_tensor(up, "bias"), false);
    compare(up, down, input(), 2);
    ls_set_requires_grad(ls_module_tensor(down, "weight"), true);
    compare(up, down, ls_detach(input()), 1); /* there is no slope: the result in between is kept, as by layers alone */
}

/* The gradient of an input that does not lie in rows is put together in rows, and copied when it is complete. */
static void gradients_are_not_copied_before_they_are_written(void)
{
    static forward_both *const ways[] = {alone, ls_forward_feed_forward};
    ls_module *up = up_new(LS_ACT_GELU), *down = ls_linear_new(run, BETWEEN, OUT);
    ls_tensor *turned = ls_transpose(ls_normal_shape(run, LS_F32, 0, 1, LS_SHAPE(ROWS / 2, 2, IN)), 0, 1);
    for (int i = 0; i < 2; i++) {
        ls_tensor *x = ls_set_requires_grad(ls_detach(turned), true), *y = ways[i](up, down, x);
        ls_tensor *loss = ls_sum(ls_mul(y, ls_detach(y)));
        memset(calls, 0, sizeof calls);
        run->device->table.run = counting_run;
        ls_backward(run, loss);
        run->device->table.run = ls_cpu_device.run;
        CHECK_MSG(calls[LS_OP_copy] == 2, "%d copies in place of one of x and one of its gradient", calls[LS_OP_copy]);
    }
}

/* Bytes that are kept for the gradients of a module. */
static size_t kept_by(ls_module *module, ls_tensor *x)
{
    ls_mark mark = ls_scope_begin(run);
    size_t before = ls_memory(run).in_use;
    ls_tensor *y = ls_forward(module, x);
    size_t after = ls_memory(run).in_use;
    ls_backward(run, ls_sum(y));
    ls_scope_end(run, mark, NULL);
    return after - before;
}

static void look(ls_module *module, ls_tensor *const *inputs, int64_t count, ls_outputs *outputs, void *user)
{
    (void)module, (void)inputs, (void)count;
    *(ls_shape *)user = ls_shape_of(outputs->item[0]);
}

static void what_lies_between_is_kept_only_for_hooks(void)
{
    ls_module *up = up_new(LS_ACT_GELU), *both = ls_sequential_new(run, up, ls_linear_new(run, BETWEEN, OUT));
    ls_tensor *x = input();
    ls_shape seen = {0};
    kept_by(both, x); /* gradients get their memory */
    size_t together = kept_by(both, x), between = ROWS * BETWEEN * sizeof(float);
    CHECK(ls_shape_equal(up->output[0], LS_SHAPE(2, ROWS / 2, BETWEEN)));
    ls_register_forward_hook(up, look, &seen);
    size_t apart = kept_by(both, x);
    CHECK(ls_shape_equal(seen, LS_SHAPE(2, ROWS / 2, BETWEEN)));
    CHECK_MSG(apart >= together + between, "%zu bytes are kept, and %zu with a hook", together, apart);
}

static void sizes_that_do_not_fit_are_reported(void)
{
    ls_module *up = up_new(LS_ACT_GELU), *down = ls_linear_new(run, BETWEEN + 1, OUT);
    ls_forward(ls_sequential_new(run, up, down), input());
    CHECK(ls_error(run) == LS_ERR_SHAPE && strstr(ls_error_message(run), "128 inputs, but the weight has 129"));
    ls_clear_error(run);
}

static void a_missing_weight_is_reported(void)
{
    ls_tensor *x = input(), *weight = ls_module_tensor(up_new(LS_ACT_GELU), "weight");
    for (int i = 0; i < 2; i++) { /* as one operator, and layer by layer */
        ls_tensor *const weights[2] = {weight, NULL}, *const biases[2] = {NULL, NULL};
        CHECK(!ls_is_valid(ls_feed_forward(x, weights, biases, i ? LS_ACT_RELU : LS_ACT_GELU)));
        CHECK(ls_error(run) == LS_ERR_VALUE && strstr(ls_error_message(run), "the tensor is NULL"));
        ls_clear_error(run);
    }
}

/* ReLU saves its result: there is no input to make it again from. */
static void only_activations_that_saved_their_input_are_made_again(void)
{
    ls_tensor *dy = ls_ones(run, LS_F32, ROWS, OUT), *d = ls_clone(dy), *again = ls_clone(dy);
    static const ls_activation activations[] = {LS_ACT_SILU, LS_ACT_RELU, LS_ACT_TANH};
    for (int i = 0; i < 3; i++) {
        ls_call call = {.op = LS_OP_linear_grad,
                        .n_in = 4,
                        .n_out = 5,
                        .in = {&dy->view, NULL, NULL, &dy->view},
                        .out = {NULL, NULL, NULL, &d->view, &again->view},
                        .attrs = {.product = {.activation = activations[i], .compute = LS_F32}}};
        ls_message why = {0};
        ls_status status = ls_cpu_device.run(NULL, NULL, &call, &why);
        CHECK(status == (i == 0 ? LS_OK : LS_ERR_UNSUPPORTED));
    }
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    run = ls_init(NULL, NULL, .seed = 1);
    CHECK_RUN(results_and_gradients_are_those_of_the_layers);
    CHECK_RUN(frozen_weights_get_no_gradient);
    CHECK_RUN(gradients_are_not_copied_before_they_are_written);
    CHECK_RUN(what_lies_between_is_kept_only_for_hooks);
    CHECK_RUN(sizes_that_do_not_fit_are_reported);
    CHECK_RUN(a_missing_weight_is_reported);
    CHECK_RUN(only_activations_that_saved_their_input_are_made_again);
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
    ls_finish(run);
    return check_done();
}
