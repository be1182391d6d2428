/* tie.c - one weight for two layers, and averages of parameters. */
#include <lockstep.h>

#include "expect.h"
#include "step/step.h"

static ls_run *run;

static ls_tensor *language_forward(ls_module *net, ls_tensor *x, void *user)
{
    (void)user;
    return ls_forward(ls_child(net, "head"), ls_forward(ls_child(net, "tokens"), x));
}

static ls_module *language_new(void)
{
    ls_module *net = ls_module_new(run, "net", language_forward, NULL);
    ls_module_add(net, "tokens", ls_embedding_new(run, 7, 4));
    ls_module_add(net, "head", ls_linear_new(run, 4, 7, .bias = false));
    return net;
}

static void tied_layers_train_one_weight(void)
{
    ls_module *net = language_new();
    ls_tie(ls_child(net, "head"), ls_child(net, "tokens"));
    ls_tensor *weight = ls_module_tensor(net, "tokens.weight");
    CHECK(ls_module_tensor(net, "head.weight") == weight && ls_parameter_count(net) == 28);
    ls_tensor *index = ls_from(run, LS_I64, LS_SHAPE(2), (int64_t[]){1, 5});
    ls_backward(run, ls_sum(ls_square(ls_forward(net, index))));
    /* d/dW of |W[i] W^T|^2: of the head and of the rows that were looked up, in one gradient */
    ls_tensor *w = ls_set_requires_grad(ls_detach(ls_clone(weight)), true);
    ls_backward(run, ls_sum(ls_square(ls_matmul(ls_embedding(w, index), ls_transpose(w, 0, 1)))));
    CHECK_NEAR(ls_item(ls_max(ls_abs(ls_sub(ls_grad(weight), ls_grad(w))))), 0, 1e-5);
    ls_optim *sgd = ls_sgd_new(run, net, .lr = 0.1);
    CHECK(ls_step(sgd));
    ls_tensor *want = ls_sub(ls_detach(w), ls_mul_scalar(ls_grad(w), 0.1));
    CHECK_NEAR(ls_item(ls_max(ls_abs(ls_sub(ls_module_tensor(net, "head.weight"), want)))), 0, 1e-5);
    ls_tie(ls_child(net, "head"), ls_child(net, "tokens")); /* again: nothing happens */
    CHECK_TEXT(ls_error_message(run), "");
    ls_module_free(net);
}

static void layers_that_cannot_be_tied(void)
{
    ls_module *net = language_new();
    FAILS_SAYING((ls_tie(ls_child(net, "head"), ls_relu_new(run)), 0), "only Linear, Embedding, Conv1d");
    FAILS_SAYING((ls_tie(ls_child(net, "head"), ls_linear_new(run, 7, 4)), 0), "their weights differ in shape");
    ls_module_cast(ls_child(net, "tokens"), LS_BF16);
    FAILS_SAYING((ls_tie(ls_child(net, "head"), ls_child(net, "tokens")), 0), "their weights differ in type");
    ls_module *other = language_new();
    ls_prepare(run, ls_child(other, "head"));
    FAILS_SAYING((ls_tie(ls_child(other, "head"), ls_child(other, "tokens")), 0), "tie before ls_prepare()");
    ls_module *whole = language_new();
    ls_prepare(run, whole);
    FAILS_SAYING((ls_tie(ls_child(whole, "head"), ls_child(whole, "tokens")), 0), "tie before ls_prepare()");
    ls_module *late = language_new();
    ls_optim *sgd = ls_sgd_new(run, late, .lr = 0.1);
    FAILS_SAYING((ls_tie(ls_child(late, "head"), ls_child(late, "tokens")), 0), "tie before the optimiser is made");
    ls_optim_free(sgd);
    ls_tie(ls_child(late, "head"), ls_child(late, "tokens"));
    ls_tie(NULL, ls_child(net, "tokens"));
    CHECK_TEXT(ls_error_message(run), "");
}

/* ---- averages ---- */

static double value_of(const ls_state *state)
{
    return ls_item(ls_sum(ls_state_tensor(state, 0)));
}

static void averages_follow_parameters(void)
{
    ls_module *net = ls_module_new(run, "net", NULL, NULL);
    ls_tensor *w = ls_register_parameter(net, "w", ls_full(run, LS_F32, 1, 1));
    ls_module *other = language_new();
    ls_ema *ema = ls_ema_new(net, .decay = 0.75), *of_other = ls_ema_new(other);
    ls_optim *own = ls_sgd_new(run, net, .lr = 1), *of_another = ls_sgd_new(run, other, .lr = 1);
    double want = 1;
    for (int i = 2; i < 6; i++) {
        ls_assign(w, ls_full(run, LS_F32, i, 1));
        ls_ema_update(ema);
        want = 0.75 * want + 0.25 * i;
        CHECK_NEAR(value_of(ls_ema_state(ema)), want, 1e-6);
    }
    ls_ema_apply(ema)
    {
        CHECK_NEAR(ls_item(ls_detach(w)), want, 1e-6);
        FAILS_SAYING((ls_ema_update(ema), 0), "update outside ls_ema_apply()");
        FAILS_SAYING(ls_ema_apply_begin(ema), "has the averages already");
        FAILS_SAYING(ls_step(own), "ls_step: \"w\" has its average now, which the step would change; step outside");
        CHECK(ls_step(of_another) && ls_step(of_another));
        ls_ema_apply(of_other) FAILS_SAYING(ls_step(of_another), "has its average now");
        CHECK(ls_step(of_another));
    }
    CHECK(ls_item(ls_detach(w)) == 5 && ls_step(own));
    CHECK_NEAR(value_of(ls_ema_state(ema)), want, 1e-6);
    CHECK_TEXT(ls_state_name(ls_ema_state(ema), 0), "w");
    FAILS_SAYING(ls_ema_new(net, .decay = 1.5), ".decay = 1.5 is not in [0, 1]");
    ls_ema_free(ema);
    ls_ema_free(NULL);
    CHECK(!ls_ema_new(NULL) && !ls_ema_state(NULL) && ls_ema_apply_begin(NULL) && !ls_ema_apply_end(NULL));
}

static int calls;
static ls_status counting_run(void *device, ls_stream *stream, const ls_call *call, ls_message *why)
{
    calls++;
    return ls_cpu_device.run(device, stream, call, why);
}

/* Also where the average is far away. */
static void averages_of_every_type(void)
{
    static const ls_dtype types[] = {LS_F32, LS_F64, LS_BF16, LS_F16};
    for (int i = 0; i < 4; i++) {
        ls_module *net = ls_module_new(run, "net", NULL, NULL);
        ls_tensor *w = ls_register_parameter(net, "w", ls_full(run, types[i], 600, 3, 5));
        ls_ema *ema = ls_ema_new(net, .decay = 0.5), *copy = ls_ema_new(net, .decay = 0);
        ls_assign(w, ls_full(run, types[i], 1, 3, 5));
        uint64_t before = ls_state_tensor(ls_ema_state(ema), 0)->storage->version;
        calls = 0;
        run->device->table.run = counting_run;
        ls_ema_update(ema);
        run->device->table.run = ls_cpu_device.run;
        CHECK(calls == 1); /* in place */
        ls_ema_update(copy);
        CHECK_NEAR(value_of(ls_ema_state(ema)) / 15, 300.5, i < 2 ? 1e-6 : 4e-3);
        CHECK(value_of(ls_ema_state(copy)) == 15 && ls_state_tensor(ls_ema_state(ema), 0)->storage->version > before);
        ls_module_free(net);
    }
    CHECK_TEXT(ls_error_message(run), "");
}

/* What a failed run did not exchange is not taken to be exchanged. */
static void averages_survive_failures(void)
{
    ls_module *net = ls_module_new(run, "net", NULL, NULL);
    ls_tensor *w = ls_register_parameter(net, "w", ls_full(run, LS_F32, 1, 1));
    ls_optim *own = ls_sgd_new(run, net, .lr = 1);
    ls_ema *ema = ls_ema_new(net, .decay = 0.5);
    ls_assign(w, ls_full(run, LS_F32, 3, 1));
    ls_set_error(run, LS_ERR_VALUE, "failed before");
    ls_ema_apply_begin(ema);
    ls_clear_error(run);
    CHECK(!ls_ema_apply_end(ema) && ls_item(ls_detach(w)) == 3 && ls_step(own));
    ls_ema_apply(ema) ls_set_error(run, LS_ERR_VALUE, "failed inside");
    ls_clear_error(run);
    CHECK(ls_item(ls_detach(w)) == 1);
    ls_ema_apply_end(ema);
    CHECK(ls_item(ls_detach(w)) == 3 && ls_step(own));
    ls_ema_apply_begin(ema);
    ls_ema_free(ema); /* the model keeps the averages */
    CHECK(ls_item(ls_detach(w)) == 1 && ls_step(own) && run->step->averaged == 0);
    CHECK_TEXT(ls_error_message(run), "");
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    run = ls_init(NULL, NULL, .seed = 3);
    CHECK_RUN(tied_layers_train_one_weight);
    CHECK_RUN(layers_that_cannot_be_tied);
    CHECK_RUN(averages_follow_parameters);
    CHECK_RUN(averages_of_every_type);
    CHECK_RUN(averages_survive_failures);
    ls_finish(run);
    return check_done();
}
