/* linears.c - several linear layers of one input: one product for weights that lie one behind the other in memory, as
 * an optimiser places them, else one for each; results and gradients are those of the layers alone. */
#include <lockstep.h>

#include "check.h"
#include "nn/layers.h"
#include "tensor/context.h"

enum { LAYERS = 3, IN = 16, WIDTH = 32, LEAVES = 1 + 2 * LAYERS };

static ls_run *run;
static int calls[LS_OP_COUNT];

static ls_status counting_run(void *device, ls_stream *stream, const ls_call *call, ls_message *why)
{
    calls[call->op]++;
    return ls_cpu_device.run(device, stream, call, why);
}

/* The layers one after the other: what they are compared with. */
static ls_tensor *alone(ls_module *const *layers, ls_tensor *x)
{
    ls_tensor *y[LAYERS];
    for (int i = 0; i < LAYERS; i++) y[i] = ls_forward(layers[i], x);
    return ls_concat_n(-1, y, LAYERS);
}

static ls_tensor *together(ls_module *const *layers, ls_tensor *x)
{
    ls_tensor *y = ls_forward_linears(LAYERS, layers, x);
    CHECK_MSG(y, "the layers are not run together");
    return y ? y : alone(layers, x);
}

typedef ls_tensor *forward_all(ls_module *const *layers, ls_tensor *x);

/* The result and, after it, the gradients of x, weights and biases. To the layers, the host looks like another device.
 */
static void outcome_of(forward_all *f, ls_module *const *layers, ls_tensor *x, bool twice, ls_tensor *out[1 + LEAVES])
{
    ls_tensor *leaves[LEAVES] = {x};
    for (int i = 0; i < LAYERS; i++) {
        leaves[1 + i] = ls_module_tensor(layers[i], "weight");
        leaves[1 + LAYERS + i] = ls_module_tensor(layers[i], "bias");
    }
    memset(calls, 0, sizeof calls);
    run->device->table.run = counting_run;
    run->device->table.traits &= ~(uint32_t)LS_TRAIT_HOST;
    for (int i = 0; i <= twice; i++) {
        out[0] = f(layers, x);
        ls_backward(run, ls_sum(ls_mul(out[0], ls_detach(ls_cos(out[0])))));
    }
    run->device->table.traits |= LS_TRAIT_HOST;
    run->device->table.run = ls_cpu_device.run;
    for (int i = 0; i < LEAVES; i++) {
        out[1 + i] = ls_clone(ls_grad(leaves[i]));
        ls_clear_grad(leaves[i]);
    }
}

static double difference(ls_tensor *a, ls_tensor *b)
{
    return ls_item(ls_max(ls_abs(ls_sub(a, b)))) / (1 + ls_item(ls_max(ls_abs(a))));
}

static void compare(ls_module *const *layers, ls_tensor *x, bool twice, int products)
{
    ls_tensor *got[1 + LEAVES], *expected[1 + LEAVES];
    outcome_of(together, layers, x, twice, got);
    CHECK_MSG(calls[LS_OP_linear] == products * (1 + twice), "%d products", calls[LS_OP_linear]);
    CHECK_MSG(calls[LS_OP_linear_grad] == products * (1 + twice), "%d gradients", calls[LS_OP_linear_grad]);
    outcome_of(alone, layers, x, twice, expected);
    for (int i = 0; i < 1 + LEAVES && !ls_error(run); i++) {
        double off = difference(expected[i], got[i]);
        CHECK_MSG(off < 1e-5, "%s %d is %g off", i ? "gradient" : "result", i, off);
    }
}

static ls_tensor *input(void)
{
    return ls_set_requires_grad(ls_detach(ls_normal_shape(run, LS_F32, 0, 1, LS_SHAPE(2, 5, IN))), true);
}

static void an_optimiser_makes_them_one_product(void)
{
    ls_module *layers[LAYERS];
    for (int i = 0; i < LAYERS; i++) layers[i] = ls_linear_new(run, IN, WIDTH);
    ls_module *list = ls_module_list_new_n(run, layers, LAYERS);
    ls_optim *sgd = ls_sgd_new(run, list, .lr = 0.1);
    ls_optim_add_group(sgd, ls_state_matching(ls_parameters(list), "*.bias"), .weight_decay = 0);
    ls_tensor *x = input();
    compare(layers, x, false, LAYERS);
    ls_backward(run, ls_sum(alone(layers, x)));
    ls_step(sgd);
    ls_zero_grad(sgd);
    ls_clear_grad(x);
    compare(layers, x, false, 1);
    compare(layers, x, true, 1);
}

static void frozen_ones_get_no_gradient(void)
{
    ls_module *layers[LAYERS];
    for (int i = 0; i < LAYERS; i++) layers[i] = ls_linear_new(run, IN, WIDTH);
    ls_set_requires_grad(ls_module_tensor(layers[1], "weight"), false);
    ls_tensor *x = input(), *y;
    run->device->table.traits &= ~(uint32_t)LS_TRAIT_HOST;
    y = together(layers, x);
    ls_backward(run, ls_sum(y));
    run->device->table.traits |= LS_TRAIT_HOST;
    ls_tensor *got = ls_clone(ls_grad(x));
    ls_clear_grad(x);
    CHECK(!ls_grad(ls_module_tensor(layers[1], "weight")));
    ls_backward(run, ls_sum(alone(layers, x)));
    CHECK(difference(ls_grad(x), got) < 1e-5);
}

static void the_host_runs_them_alone(void)
{
    ls_module *layers[LAYERS];
    for (int i = 0; i < LAYERS; i++) layers[i] = ls_linear_new(run, IN, WIDTH);
    CHECK(!ls_forward_linears(LAYERS, layers, input()));
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    run = ls_init(NULL, NULL, .seed = 1);
    CHECK_RUN(an_optimiser_makes_them_one_product);
    CHECK_RUN(frozen_ones_get_no_gradient);
    CHECK_RUN(the_host_runs_them_alone);
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
    ls_finish(run);
    return check_done();
}
