/* transformer.c - layers that begin with their norms: what is added and the norm behind it are one pass. */
#include <lockstep.h>

#include "check.h"
#include "tensor/context.h"

static ls_run *run;
static int calls[LS_OP_COUNT];

static ls_status counting_run(void *device, ls_stream *stream, const ls_call *call, ls_message *why)
{
    calls[call->op]++;
    return ls_cpu_device.run(device, stream, call, why);
}

typedef struct outcome {
    ls_tensor *y, *dx, *dweight;
} outcome;

/* Forward, with the calls that reach the device counted, and back. */
static outcome outcome_of(ls_module *layer, ls_tensor *x)
{
    ls_set_seed(run, 5);
    memset(calls, 0, sizeof calls);
    run->device->table.run = counting_run;
    outcome o = {.y = ls_forward(layer, x)};
    run->device->table.run = ls_cpu_device.run;
    ls_backward(run, ls_sum(ls_mul(o.y, ls_detach(ls_cos(o.y)))));
    ls_tensor *weight = ls_module_tensor(layer, "norm2.weight");
    o.dx = ls_clone(ls_grad(x));
    o.dweight = ls_clone(ls_grad(weight));
    ls_clear_grad(x);
    ls_clear_grad(weight);
    return o;
}

static double difference(ls_tensor *a, ls_tensor *b)
{
    return ls_item(ls_max(ls_abs(ls_sub(a, b))));
}

static void look(ls_module *module, ls_tensor *const *inputs, int64_t n, ls_outputs *outputs, void *user)
{
    (void)module, (void)n, (void)inputs, (void)outputs, (void)user;
}

static void a_sum_and_the_norm_behind_it_are_one_pass(void)
{
    ls_module *layer = ls_transformer_layer_new(run, 16, 2, .feedforward = 24, .dropout = 0.25, .norm_first = true);
    ls_tensor *x = ls_set_requires_grad(ls_randn(run, LS_F32, 3, 7, 16), true);
    outcome one = outcome_of(layer, x);
    CHECK(calls[LS_OP_dropout_add_layer_norm] == 1 && calls[LS_OP_layer_norm] == 1);
    ls_hook *hook = ls_register_forward_hook(ls_child(layer, "norm2"), look, NULL);
    outcome steps = outcome_of(layer, x);
    CHECK(calls[LS_OP_dropout_add_layer_norm] == 0 && calls[LS_OP_layer_norm] == 2);
    ls_hook_remove(hook);
    CHECK(difference(one.y, steps.y) == 0);
    CHECK(difference(one.dx, steps.dx) < 1e-5 && difference(one.dweight, steps.dweight) < 1e-5);
}

/* Under autocast the projection is bf16; what goes on past all layers stays f32. */
static void a_sum_has_the_wider_type(void)
{
    ls_module *layer = ls_transformer_layer_new(run, 16, 2, .feedforward = 24, .dropout = 0.25, .norm_first = true);
    ls_tensor *x = ls_set_requires_grad(ls_randn(run, LS_F32, 3, 7, 16), true);
    ls_autocast_begin(run, LS_BF16);
    outcome one = outcome_of(layer, x);
    CHECK(calls[LS_OP_dropout_add_layer_norm] == 1 && ls_dtype_of(one.y) == LS_F32);
    ls_hook *hook = ls_register_forward_hook(ls_child(layer, "norm2"), look, NULL);
    outcome steps = outcome_of(layer, x);
    ls_autocast_end(run);
    ls_hook_remove(hook);
    CHECK(difference(one.y, steps.y) < 0.05 && difference(one.dx, steps.dx) < 0.05);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    run = ls_init(NULL, NULL, .seed = 1);
    CHECK_RUN(a_sum_and_the_norm_behind_it_are_one_pass);
    CHECK_RUN(a_sum_has_the_wider_type);
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
    ls_finish(run);
    return check_done();
}
