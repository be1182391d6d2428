/* optim.c - optimisers beside their arithmetic (tests/golden compares that): groups, freezing, blocks of memory, state,
 * master weights. */
#include <lockstep.h>

#include <stdlib.h>

#include "base/half.h"
#include "base/memory.h"
#include "check.h"
#include "tensor/context.h"

static ls_module *two_layers(ls_run *run)
{
    return ls_sequential_new(run, ls_linear_new(run, 3, 5), ls_tanh_new(run), ls_linear_new(run, 5, 2));
}

static void backward_of(ls_module *m, ls_tensor *x)
{
    ls_run *run = ls_module_run(m);
    ls_mark mark = ls_scope_begin(run);
    ls_backward(run, ls_mean(ls_square(ls_forward(m, x))));
    ls_scope_end(run, mark, NULL);
}

/* Elements of all parameters, one after the other. */
static int snapshot(ls_module *m, float *to)
{
    int n = 0;
    ls_state *list = ls_parameters(m);
    for (int64_t i = 0; i < ls_state_count(list); i++) {
        int64_t numel = ls_numel(ls_state_tensor(list, i));
        ls_read(ls_state_tensor(list, i), to + n, (size_t)numel * sizeof *to);
        n += (int)numel;
    }
    return n;
}

enum { SIZE = 32 }; /* of two_layers */

static void check_same(ls_module *a, ls_module *b, double tolerance)
{
    float x[SIZE], y[SIZE];
    int n = snapshot(a, x);
    CHECK(n == SIZE && snapshot(b, y) == n);
    for (int i = 0; i < n; i++) CHECK_NEAR(x[i], y[i], tolerance);
}

/* ---- blocks ---- */

static void a_prepared_optimiser_has_its_memory_before_the_first_step(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *m = two_layers(run);
    ls_optim *adam = ls_adamw_new(run, m);
    ls_prepare(run, m, adam);
    ls_tensor *x = ls_randn(run, LS_F32, 4, 3);
    size_t before = ls_memory(run).in_use;
    backward_of(m, x);
    CHECK(ls_step(adam) && ls_memory(run).in_use == before);
    CHECK(ls_finish(run) == 0);
}

static int released;

static void count_release(void *form)
{
    (void)form;
    released++;
}

static void forms_of_the_place_that_a_parameter_leaves_are_freed(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *m = ls_linear_new(run, 3, 5);
    ls_optim *sgd = ls_sgd_new(run, m);
    ls_tensor *weight = ls_state_find(ls_parameters(m), "weight");
    backward_of(m, ls_randn(run, LS_F32, 4, 3));
    ls_derived *derived = weight->view.derived;
    if (derived->release) derived->release(derived->form);
    derived->form = weight;
    derived->release = count_release;
    released = 0;
    CHECK(ls_step(sgd) && released == 1 && !derived->form && !derived->release);
    CHECK(ls_finish(run) == 0);
}

static void blocks_make_no_difference(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 1);
    ls_module *a = two_layers(run), *b = two_layers(run);
    ls_load_state_dict(b, ls_state_dict(a));
    ls_optim *flat = ls_adamw_new(run, a, .lr = 0.1), *scattered = ls_adamw_new(run, b, .lr = 0.1, .scattered = true);
    ls_tensor *x = ls_randn(run, LS_F32, 4, 3);
    for (int i = 0; i < 10; i++) {
        /* freeze and unfreeze on the way: a gap in the block, steps of different number */
        if (i == 3) ls_freeze(ls_child(a, "0")), ls_freeze(ls_child(b, "0"));
        if (i == 5) ls_unfreeze(a), ls_unfreeze(b);
        backward_of(a, x);
        backward_of(b, x);
        CHECK(ls_step(flat) && ls_step(scattered));
        ls_zero_grad(flat);
        ls_zero_grad(scattered);
        check_same(a, b, 1e-6);
    }
    CHECK(ls_optim_steps_taken(flat) == 10);
    CHECK(ls_finish(run) == 0);
}

/* Neighbours in a block of memory are written one by one. */
static void writing_a_parameter_leaves_its_neighbours(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *m = two_layers(run);
    ls_optim *sgd = ls_sgd_new(run, m, .lr = 0.1);
    ls_tensor *x = ls_ones(run, LS_F32, 4, 3);
    backward_of(m, x);
    CHECK(ls_step(sgd)); /* moves them into the block */
    ls_tensor *loss = ls_mean(ls_square(ls_forward(m, x)));
    ls_init_constant(ls_module_tensor(m, "0.bias"), 0); /* no gradient needs a bias */
    ls_backward(run, loss);
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));

    loss = ls_mean(ls_square(ls_forward(m, x)));
    ls_init_constant(ls_module_tensor(m, "2.weight"), 0); /* that of the first layer needs this */
    ls_backward(run, loss);
    CHECK(ls_error(run) == LS_ERR_STATE);
    ls_clear_error(run);
    CHECK(ls_finish(run) == 0);
}

/* A parameter may have any layout; its gradient has the same. */
static void strided_parameters_step(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 8);
    ls_tensor *start = ls_randn(run, LS_F32, 2, 3, 4, 5), *x = ls_randn(run, LS_F32, 2, 3, 4, 5);
    ls_module *a = ls_module_new(run, "plain", NULL, NULL), *b = ls_module_new(run, "last", NULL, NULL);
    ls_tensor *p = ls_register_parameter(a, "p", ls_clone(start)),
              *q = ls_register_parameter(b, "p", ls_channels_last(start));
    ls_optim *first = ls_adam_new(run, a, .lr = 0.1), *second = ls_adam_new(run, b, .lr = 0.1);
    for (int i = 0; i < 3; i++) {
        ls_backward(run, ls_sum(ls_square(ls_mul(p, x))));
        ls_backward(run, ls_sum(ls_square(ls_mul(q, x))));
        CHECK(ls_step(first) && ls_step(second));
        ls_zero_grad(first);
        ls_zero_grad(second);
    }
    CHECK(!ls_is_contiguous(q) && ls_item(ls_max(ls_abs(ls_sub(p, q)))) < 1e-6);
    CHECK(ls_finish(run) == 0);
}

static void steps_take_no_memory(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *m = two_layers(run);
    ls_optim *adam = ls_adam_new(run, m);
    ls_tensor *x = ls_randn(run, LS_F32, 4, 3);
    ls_memory_stats before = {0};
    for (int i = 0; i < 6; i++) {
        if (i == 3) before = ls_memory(run);
        backward_of(m, x);
        ls_clip_grad_norm(adam, 1e-3);
        ls_step(adam);
        ls_zero_grad(adam);
    }
    ls_memory_stats after = ls_memory(run);
    CHECK(after.device_requests == before.device_requests && after.system_requests == before.system_requests);
    CHECK(ls_finish(run) == 0);
}

static void gradients_add_up(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 4);
    ls_module *a = two_layers(run), *b = two_layers(run);
    ls_load_state_dict(b, ls_state_dict(a));
    ls_optim *once = ls_sgd_new(run, a, .lr = 0.1), *twice = ls_sgd_new(run, b, .lr = 0.1);
    ls_tensor *x = ls_randn(run, LS_F32, 4, 3);
    for (int i = 0; i < 3; i++) {
        backward_of(a, x);
        backward_of(b, ls_slice(x, 0, 0, 2, 1)); /* means of the halves: together twice the mean of all */
        backward_of(b, ls_slice(x, 0, 2, 4, 1));
        ls_optim_set_lr(twice, 0.05);
        CHECK(ls_step(once) && ls_step(twice));
        ls_zero_grad(once);
        ls_zero_grad(twice);
        check_same(a, b, 1e-6);
    }
    CHECK(ls_finish(run) == 0);
}

static void frozen_parameters_stay(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *m = two_layers(run);
    ls_freeze(m);
    ls_unfreeze(ls_child(m, "2"));
    ls_optim *sgd = ls_sgd_new(run, m, .lr = 1, .weight_decay = 0.1, .momentum = 0.9);
    float before[SIZE], after[SIZE];
    snapshot(m, before);
    for (int i = 0; i < 2; i++) {
        ls_zero_grad(sgd);
        backward_of(m, ls_ones(run, LS_F32, 4, 3));
        CHECK(ls_step(sgd));
    }
    snapshot(m, after);
    for (int i = 0; i < SIZE; i++) CHECK(i < 20 ? before[i] == after[i] : before[i] != after[i]);
    CHECK(ls_state_count(ls_optim_state_dict(sgd)) == 4); /* momentum and step of two parameters */
    CHECK(ls_finish(run) == 0);
}

/* ---- groups ---- */

static void groups_have_their_own_settings(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *m = two_layers(run);
    ls_optim *sgd = ls_sgd_new(run, m, .lr = 0.5, .weight_decay = 0.25);
    int biases = ls_optim_add_group(sgd, ls_state_matching(ls_parameters(m), "*.bias"), .weight_decay = 0);
    int head = ls_optim_add_group(sgd, ls_state_matching(ls_parameters(m), "2.weight"), .lr = 0.125);
    CHECK(biases == 1 && head == 2 && ls_optim_group_count(sgd) == 3);
    CHECK(ls_optim_group(sgd, 0).weight_decay == 0.25 && ls_optim_group(sgd, 1).weight_decay == 0);
    CHECK(ls_optim_group(sgd, 1).lr == 0.5 && ls_optim_group(sgd, 2).lr == 0.125 && ls_optim_lr(sgd) == 0.5);

    /* a loss whose gradient is 1 everywhere */
    ls_state *list = ls_parameters(m);
    ls_tensor *loss = NULL;
    for (int i = 0; i < 4; i++) {
        ls_init_constant(ls_state_tensor(list, i), 2);
        ls_tensor *sum = ls_sum(ls_state_tensor(list, i));
        loss = loss ? ls_add(loss, sum) : sum;
    }
    ls_backward(run, loss);
    CHECK(ls_step(sgd));
    CHECK(ls_item(ls_max(ls_module_tensor(m, "0.weight"))) == 2 - 0.5 * 1.5);
    CHECK(ls_item(ls_max(ls_module_tensor(m, "0.bias"))) == 2 - 0.5);
    CHECK(ls_item(ls_max(ls_module_tensor(m, "2.bias"))) == 2 - 0.5);
    CHECK(ls_item(ls_max(ls_module_tensor(m, "2.weight"))) == 2 - 0.125 * 1.5);

    ls_schedule *falling = ls_exponential_schedule_new(sgd, 0.5);
    CHECK(ls_step(sgd));
    ls_schedule_step(falling);
    CHECK(ls_optim_group(sgd, 0).lr == 0.25 && ls_optim_group(sgd, 2).lr == 0.0625 && ls_schedule_lr(falling) == 0.25);
    ls_optim_set_lr(sgd, 3);
    CHECK(ls_optim_group(sgd, 2).lr == 3);
    CHECK(ls_finish(run) == 0);
}

static void schedules_resume(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *m = two_layers(run);
    ls_optim *a = ls_adam_new(run, m), *b = ls_adam_new(run, m);
    ls_schedule *first = ls_one_cycle_schedule_new(a, .max_lr = 1, .total_steps = 20);
    ls_schedule *second = ls_one_cycle_schedule_new(b, .max_lr = 1, .total_steps = 20);
    for (int i = 0; i < 7; i++) ls_step(a), ls_schedule_step(first);
    ls_schedule_set_position(second, ls_schedule_position(first));
    CHECK(ls_optim_lr(a) == ls_optim_lr(b) && ls_optim_group(a, 0).beta1 == ls_optim_group(b, 0).beta1);
    for (int i = 7; i < 20; i++) ls_step(a), ls_schedule_step(first);
    CHECK(ls_error(run) == LS_OK);
    ls_step(a);
    ls_schedule_step(first);
    CHECK(ls_error(run) == LS_ERR_STATE);
    ls_clear_error(run);
    CHECK(ls_finish(run) == 0);
}

/* ---- state ---- */

static void state_resumes_exactly(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 2);
    ls_module *a = two_layers(run), *b = two_layers(run);
    ls_optim *first = ls_adam_new(run, a, .lr = 0.1);
    ls_tensor *x = ls_randn(run, LS_F32, 4, 3);
    for (int i = 0; i < 3; i++) {
        backward_of(a, x);
        ls_step(first);
        ls_zero_grad(first);
    }
    ls_state *saved = ls_state_copy(ls_optim_state_dict(first));
    CHECK(ls_state_count(saved) == 12);
    CHECK_TEXT(ls_state_name(saved, 0), "0.weight.exp_avg");
    CHECK(ls_item(ls_state_find(saved, "2.bias.step")) == 3);

    ls_load_state_dict(b, ls_state_dict(a));
    ls_optim *second = ls_adam_new(run, b, .lr = 0.1);
    ls_optim_load_state_dict(second, saved);
    for (int i = 0; i < 3; i++) {
        backward_of(a, x);
        backward_of(b, x);
        ls_step(first);
        ls_step(second);
        ls_zero_grad(first);
        ls_zero_grad(second);
        check_same(a, b, 0);
    }
    ls_state *wrong = ls_state_new(run);
    ls_state_add(wrong, "9.weight.exp_avg", x);
    ls_optim_load_state_dict(first, wrong);
    CHECK(ls_error(run) == LS_ERR_VALUE);
    ls_clear_error(run);
    CHECK(ls_finish(run) == 0);
}

static void masters_remember_small_steps(void)
{
    ls_run *run = ls_init(NULL, NULL);
    for (int with = 0; with < 2; with++) {
        ls_module *m = ls_module_new(run, "one", NULL, NULL);
        ls_tensor *p = ls_register_parameter(m, "p", ls_ones(run, LS_BF16, 4));
        ls_optim *sgd = ls_sgd_new(run, m, .lr = 1e-3, .master_weights = with);
        for (int i = 0; i < 100; i++) {
            ls_mark mark = ls_scope_begin(run);
            ls_backward(run, ls_sum(p));
            CHECK(ls_step(sgd));
            ls_zero_grad(sgd);
            ls_scope_end(run, mark, NULL);
        }
        /* 0.001 is less than half of bf16's grain below 1: lost without a master */
        CHECK_NEAR(ls_item(ls_max(p)), with ? 0.9 : 1, 2e-3);
        CHECK((ls_state_find(ls_optim_state_dict(sgd), "p.master") != NULL) == with);
        ls_optim *again = ls_sgd_new(run, m, .lr = 1e-3, .momentum = 0.5, .master_weights = with);
        ls_state *moments = ls_state_new(run);
        ls_state_add(moments, "p.momentum_buffer", ls_keep(ls_full(run, LS_F32, 1 + 1e-3, 4)));
        ls_optim_load_state_dict(again, moments);
        ls_tensor *moment = ls_state_find(ls_optim_state_dict(again), "p.momentum_buffer");
        CHECK(moment && ls_dtype_of(moment) == (with ? LS_F32 : LS_BF16));
    }
    CHECK(ls_finish(run) == 0);
}

/* On a device that asks for them. The norm lies behind the weight, where there is room; the table lies before it. */
static void parameters_in_no_product_need_no_half_copy(void)
{
    ls_run *run = ls_init(NULL, NULL, .mixed_precision = LS_BF16);
    run->device->table.traits |= LS_TRAIT_HALF_COPY;
    ls_module *m =
        ls_sequential_new(run, ls_embedding_new(run, 7, 16), ls_linear_new(run, 16, 5), ls_layer_norm_new(run, 5));
    ls_optim *adam = ls_adamw_new(run, m, .lr = 0.1);
    for (int i = 0; i < 2; i++) {
        ls_backward(run, ls_sum(ls_forward(m, ls_from(run, LS_I64, LS_SHAPE(2), (int64_t[]){3, 5}))));
        CHECK(ls_step(adam));
        ls_zero_grad(adam);
    }
    CHECK(!ls_module_tensor(m, "0.weight")->view.derived->half);
    static const char *const copied[] = {"1.weight", "1.bias", "2.weight"};
    for (int i = 0; i < 3; i++) {
        const ls_operand *x = &ls_module_tensor(m, copied[i])->view;
        CHECK(x->derived->half && x->derived->half_version == x->derived->version);
        for (int64_t k = 0; x->derived->half && k < ls_view_numel(x); k++)
            CHECK(((const uint16_t *)x->derived->half)[k] == ls_bf16_from_f32(((const float *)x->data)[k]));
    }
    run->device->table.traits &= ~(uint32_t)LS_TRAIT_HALF_COPY;
    CHECK(ls_finish(run) == 0);
}

/* A device that records may want blocks all the same: they end with LS_TRAIT_SCATTERED, another trait. */
static void blocks_are_updated_on_devices_that_record(void)
{
    static float weight[2][8 * 16];
    for (int records = 0; records < 2; records++) {
        ls_run *run = ls_init(NULL, NULL, .seed = 3);
        ls_module *m = ls_sequential_new(run, ls_linear_new(run, 16, 8), ls_linear_new(run, 8, 4));
        ls_optim *adam = ls_adamw_new(run, m, .lr = 0.1);
        ls_tensor *x = ls_keep(ls_randn(run, LS_F32, 2, 16));
        if (records) run->device->table.traits |= LS_TRAIT_STORAGES;
        for (int i = 0; i < 3; i++) {
            ls_backward(run, ls_sum(ls_square(ls_forward(m, x))));
            CHECK(ls_step(adam));
            ls_zero_grad(adam);
        }
        run->device->table.traits &= ~(uint32_t)LS_TRAIT_STORAGES;
        ls_read(ls_module_tensor(m, "0.weight"), weight[records], sizeof *weight);
        CHECK(ls_finish(run) == 0);
    }
    CHECK(memcmp(weight[0], weight[1], sizeof *weight) == 0);
}

/* One call more than there are steps, as at the end of any loop, and a step that somebody takes after it. */
static void a_cycle_ends_at_its_lowest_rate(void)
{
    ls_run *run = ls_init(NULL, NULL, .schedule_policy = LS_SCHEDULE_PER_CALL);
    for (int linear = 0; linear < 2; linear++) {
        ls_optim *sgd = ls_sgd_new(run, two_layers(run));
        ls_schedule *cycle = ls_one_cycle_schedule_new(sgd, .max_lr = 1, .total_steps = 5, .linear = linear);
        for (int i = 0; i < 4; i++) ls_schedule_step(cycle);
        double lowest = ls_optim_lr(sgd), momentum = ls_optim_group(sgd, 0).momentum;
        CHECK_NEAR(lowest, 1.0 / 25 / 1e4, 1e-12);
        CHECK_NEAR(momentum, 0.95, 1e-12);
        ls_schedule_step(cycle);
        CHECK(ls_optim_lr(sgd) == lowest && ls_optim_group(sgd, 0).momentum == momentum && !ls_error(run));
        ls_schedule_step(cycle);
        CHECK(ls_error(run) == LS_ERR_STATE);
        ls_clear_error(run);
    }
    CHECK(ls_finish(run) == 0);
}

static double below_zero(int64_t step, void *user)
{
    (void)user;
    return step < 2 ? 1 : -1;
}

/* ---- schedules that end above 0, or follow a value ---- */

static void warm_ups_end_at_their_lowest_rate(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_optim *sgd = ls_sgd_new(run, two_layers(run), .lr = 1);
    ls_schedule *cosine = ls_warmup_cosine_schedule_new(sgd, 2, 10, .min_lr = 0.1);
    const double want[] = {0, 0.5, 1};
    for (int i = 0; i < 3; i++) {
        ls_schedule_set_position(cosine, i);
        CHECK_NEAR(ls_schedule_lr(cosine), want[i], 1e-12);
    }
    ls_schedule_set_position(cosine, 6);
    CHECK_NEAR(ls_schedule_lr(cosine), 0.55, 1e-12);
    for (int i = 10; i < 14; i++) {
        ls_schedule_set_position(cosine, i);
        CHECK_NEAR(ls_schedule_lr(cosine), 0.1, 1e-12);
    }
    ls_schedule *linear = ls_warmup_linear_schedule_new(sgd, 0, 10, .min_lr = 0.2);
    ls_schedule_set_position(linear, 5);
    CHECK_NEAR(ls_schedule_lr(linear), 0.6, 1e-12);
    ls_schedule_set_position(linear, 10);
    CHECK_NEAR(ls_schedule_lr(linear), 0.2, 1e-12);
    ls_finish(run);
}

/* The rates after each value are those of PyTorch's ReduceLROnPlateau with the same options. */
static void rates_fall_on_plateaus(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_optim *sgd = ls_sgd_new(run, two_layers(run), .lr = 1);
    const double values[] = {1, 0.9, 0.9, 0.95, 0.89995, 0.9, 0.9, 0.5, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6};
    const double relative[] = {1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25, 0.2};
    ls_schedule *plateau = ls_plateau_schedule_new(sgd, .factor = 0.5, .patience = 2, .cooldown = 1, .min_lr = 0.2);
    for (int i = 0; i < 15; i++) {
        double before = ls_optim_lr(sgd);
        CHECK(ls_schedule_step_with(plateau, values[i]) == (ls_optim_lr(sgd) < before));
        CHECK_MSG(ls_optim_lr(sgd) == relative[i], "value %d: rate %g", i, ls_optim_lr(sgd));
    }
    CHECK(ls_schedule_position(plateau) == 3);
    ls_optim *adam = ls_adam_new(run, two_layers(run), .lr = 1);
    plateau = ls_plateau_schedule_new(adam, .maximize = true, .absolute = true, .threshold = 0.1, .patience = 0);
    CHECK(!ls_schedule_step_with(plateau, 0.5) && !ls_schedule_step_with(plateau, 0.61));
    CHECK(ls_schedule_step_with(plateau, 0.7) && ls_schedule_step_with(plateau, NAN));
    CHECK_NEAR(ls_optim_lr(adam), 0.01, 1e-15);
    ls_finish(run);
}

static void training_stops_when_nothing_improves(void)
{
    ls_early_stopping stop = {.patience = 1, .min_delta = 0.05};
    CHECK(!ls_early_stopping_step(&stop, 1) && stop.improved);
    CHECK(!ls_early_stopping_step(&stop, 0.97) && !stop.improved && stop.best == 1);
    CHECK(!ls_early_stopping_step(&stop, 0.9) && stop.improved && stop.waited == 0);
    CHECK(!ls_early_stopping_step(&stop, NAN) && ls_early_stopping_step(&stop, 0.88) && stop.best == 0.9);
    ls_early_stopping up = {.maximize = true};
    CHECK(!ls_early_stopping_step(&up, -3) && !ls_early_stopping_step(&up, -2) && ls_early_stopping_step(&up, -2));
    CHECK(!ls_early_stopping_step(NULL, 1));
    ls_early_stopping lost = {.patience = 3};
    CHECK(!ls_early_stopping_step(&lost, NAN) && isnan(lost.best) && !lost.improved);
    CHECK(!ls_early_stopping_step(&lost, 7) && lost.best == 7 && lost.improved);
    ls_early_stopping hasty = {.patience = -1}, odd = {.min_delta = -0.5};
    ls_run *run = ls_init(NULL, NULL);
    CHECK(ls_early_stopping_step(&hasty, 1));
    CHECK(strstr(ls_error_message(run), "ls_early_stopping_step: .patience = -1"));
    ls_clear_error(run);
    CHECK(ls_early_stopping_step(&odd, 1) && strstr(ls_error_message(run), ".min_delta = -0.5 must be finite"));
    ls_clear_error(run);
    ls_finish(run);
}

/* ---- misuse ---- */

/* Their variance is 0, or by rounding less. */
static void gradients_that_do_not_change_can_be_centered(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *m = ls_module_new(run, "vector", NULL, NULL);
    ls_tensor *w = ls_register_parameter(m, "w", ls_full(run, LS_F32, 0, 64)), *g = ls_rand(run, LS_F32, 64);
    ls_optim *rmsprop = ls_rmsprop_new(run, m, .alpha = 0.5, .epsilon = 1, .centered = true);
    ls_keep(g);
    for (int i = 0; i < 100; i++) {
        ls_mark mark = ls_scope_begin(run);
        ls_zero_grad(rmsprop);
        ls_backward(run, ls_sum(ls_mul(w, g)));
        CHECK(ls_step(rmsprop));
        ls_scope_end(run, mark, NULL);
    }
    CHECK(isfinite(ls_item(ls_sum(ls_detach(w)))));
    CHECK(ls_is_valid(ls_state_find(ls_optim_state_dict(rmsprop), "w.grad_avg")));
    CHECK(ls_finish(run) == 0);
}

static void misuse_is_an_error(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *m = two_layers(run);
    ls_optim *sgd = ls_sgd_new(run, m);
#define FAILS(call, code)                                                                                              \
    do {                                                                                                               \
        (void)(call);                                                                                                  \
        CHECK_MSG(ls_error(run) == (code), "%s: %s", #call, ls_error_message(run));                                    \
        ls_clear_error(run);                                                                                           \
    } while (0)
    FAILS(ls_sgd_new(run, ls_relu_new(run)), LS_ERR_VALUE);
    FAILS(ls_sgd_new(run, m, .lr = -1), LS_ERR_VALUE);
    FAILS(ls_sgd_new(run, m, .lr = INFINITY), LS_ERR_VALUE);
    FAILS(ls_adam_new(run, m, .beta1 = 1), LS_ERR_VALUE);
    FAILS(ls_adam_new(run, m, .weight_decay = INFINITY), LS_ERR_VALUE);
    FAILS(ls_sgd_new(run, m, .momentum = 0.9, .dampening = NAN), LS_ERR_VALUE);
    FAILS(ls_sgd_new(run, m, .momentum = 1), LS_ERR_VALUE);
    FAILS(ls_sgd_new(run, m, .momentum = 0.9, .dampening = 1.5), LS_ERR_VALUE);
    FAILS(ls_optim_set_lr(sgd, -1), LS_ERR_VALUE);
    FAILS((ls_optim_set_group(sgd, 0, .beta1 = 0.5), 0), LS_ERR_VALUE);
    FAILS((ls_optim_set_group(ls_adam_new(run, m), 0, .momentum = 0.5), 0), LS_ERR_VALUE);
    FAILS(ls_optim_add_group(sgd, ls_parameters(m), .epsilon = 1e-3), LS_ERR_VALUE);
    FAILS((ls_optim_set_group(ls_rmsprop_new(run, m), 0, .beta1 = 0.5), 0), LS_ERR_VALUE);
    FAILS((ls_optim_set_group(ls_adagrad_new(run, m), 0, .momentum = 0.5), 0), LS_ERR_VALUE);
    FAILS(ls_rmsprop_new(run, m, .alpha = 1), LS_ERR_VALUE);
    FAILS(ls_adagrad_new(run, m, .lr_decay = -1), LS_ERR_VALUE);
    FAILS(ls_one_cycle_schedule_new(ls_adagrad_new(run, m), .max_lr = 1, .total_steps = 9), LS_ERR_VALUE);
    FAILS(ls_sgd_new(run, m, .nesterov = true), LS_ERR_VALUE);
    FAILS(ls_optim_group(sgd, 1), LS_ERR_VALUE);
    FAILS(ls_one_cycle_schedule_new(sgd, .max_lr = 1), LS_ERR_VALUE);
    FAILS(ls_one_cycle_schedule_new(sgd, .total_steps = 1), LS_ERR_VALUE);
    FAILS(ls_one_cycle_schedule_new(sgd, .total_steps = 1, .max_lr = INFINITY), LS_ERR_VALUE);
    FAILS(ls_one_cycle_schedule_new(sgd, .total_steps = 9, .max_lrs = &(double){-1}), LS_ERR_VALUE);
    FAILS(ls_one_cycle_schedule_new(sgd, .total_steps = 9, .max_lr = 1, .max_lrs = &(double){1}), LS_ERR_VALUE);
    FAILS(ls_one_cycle_schedule_new(sgd, .total_steps = 9, .max_lr = 1, .epochs = 3), LS_ERR_VALUE);
    FAILS(ls_one_cycle_schedule_new(sgd, .max_lr = 1, .epochs = INT64_MAX, .steps_per_epoch = 2), LS_ERR_VALUE);
    FAILS(ls_one_cycle_schedule_new(sgd, .total_steps = 9, .max_lr = 1, .base_momentum = -0.5), LS_ERR_VALUE);
    FAILS(ls_one_cycle_schedule_new(sgd, .total_steps = 9, .max_lr = 1, .max_momentum = NAN), LS_ERR_VALUE);
    FAILS(ls_one_cycle_schedule_new(sgd, .total_steps = 9, .max_lr = 1, .final_div_factor = NAN), LS_ERR_VALUE);
    FAILS(ls_one_cycle_schedule_new(sgd, .total_steps = 9, .max_lr = 1, .base_momentum = 0.8, .cycle_momentum = false),
          LS_ERR_VALUE);
    FAILS(ls_cosine_schedule_new(sgd, 5, NAN), LS_ERR_VALUE);
    FAILS(ls_cosine_schedule_new(sgd, 5, -1), LS_ERR_VALUE);
    FAILS(ls_step_schedule_new(sgd, 5, -0.5), LS_ERR_VALUE);
    FAILS(ls_exponential_schedule_new(sgd, NAN), LS_ERR_VALUE);
    FAILS(ls_warmup_linear_schedule_new(sgd, 20, 10), LS_ERR_VALUE);
    FAILS(ls_warmup_cosine_schedule_new(sgd, -1, 10), LS_ERR_VALUE);
    FAILS(ls_warmup_cosine_schedule_new(sgd, 1, 10, .min_lr = -1), LS_ERR_VALUE);
    FAILS(ls_plateau_schedule_new(sgd, .factor = 1), LS_ERR_VALUE);
    FAILS(ls_clip_grad_norm(sgd, 1, .norm_type = 0), LS_ERR_VALUE);
    FAILS((ls_set_loss_scaling(run, .growth_factor = 0.5), 0), LS_ERR_VALUE);
    FAILS((ls_set_loss_scaling(run, .backoff_factor = 1), 0), LS_ERR_VALUE);
    FAILS(ls_plateau_schedule_new(sgd, .patience = -1), LS_ERR_VALUE);
    FAILS(ls_schedule_step(ls_plateau_schedule_new(sgd)), LS_ERR_STATE);
    FAILS(ls_sequential_schedule_new(sgd, (ls_schedule *[]){ls_plateau_schedule_new(sgd)}, 1, NULL), LS_ERR_VALUE);
    FAILS(ls_schedule_step_with(ls_cosine_schedule_new(sgd, 5, 0), 1), LS_ERR_STATE);
    FAILS(ls_schedule_set_position(ls_lambda_schedule_new(sgd, below_zero, NULL), 2), LS_ERR_VALUE);
    ls_cosine_schedule_new(sgd, 0, 0);
    CHECK_TEXT(ls_error_message(run), "ls_cosine_schedule_new needs at least one step, not 0");
    FAILS((void)0, LS_ERR_VALUE);
    FAILS(ls_lambda_schedule_new(sgd, NULL, NULL), LS_ERR_VALUE);
    ls_schedule_set_position(ls_exponential_schedule_new(sgd, 0.5), -5);
    CHECK_TEXT(ls_error_message(run), "ls_schedule_set_position: step -5; steps are counted from 0");
    FAILS((void)0, LS_ERR_VALUE);
    FAILS(ls_set_loss_scaler(run, (ls_loss_scaler_state){.scale = 2}), LS_ERR_STATE);
#undef FAILS
    CHECK(!ls_step(NULL));
    ls_zero_grad(NULL);
    ls_schedule_step(NULL);
    CHECK(ls_step(sgd)); /* nothing to do yet */
    ls_module_free(m);
    CHECK(ls_step(sgd)); /* nor any more */
    CHECK(ls_finish(run) == 0);
}

static void memory_may_run_out(void)
{
    uint64_t n = 1;
    for (bool done = false; !done && n < 3000; n++) {
        uint64_t before = ls_sys_calls();
        ls_sys_fail_at(n);
        ls_run *run = ls_init(NULL, NULL);
        ls_module *m = two_layers(run);
        ls_optim *adam = ls_adamw_new(run, m);
        ls_schedule *cycle = ls_one_cycle_schedule_new(adam, .max_lr = 1, .total_steps = 5);
        if (m) backward_of(m, ls_randn(run, LS_F32, 4, 3));
        ls_clip_grad_norm(adam, 1);
        ls_step(adam);
        ls_schedule_step(cycle);
        ls_optim_state_dict(adam);
        CHECK_MSG(!ls_error(run) || ls_error(run) == LS_ERR_MEMORY, "%s", ls_error_message(run));
        ls_clear_error(run);
        ls_finish(run);
        done = ls_sys_calls() - before < n;
    }
    ls_sys_fail_at(0);
    CHECK(n > 10 && n < 3000);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(blocks_make_no_difference);
    CHECK_RUN(a_prepared_optimiser_has_its_memory_before_the_first_step);
    CHECK_RUN(forms_of_the_place_that_a_parameter_leaves_are_freed);
    CHECK_RUN(writing_a_parameter_leaves_its_neighbours);
    CHECK_RUN(strided_parameters_step);
    CHECK_RUN(steps_take_no_memory);
    CHECK_RUN(gradients_add_up);
    CHECK_RUN(frozen_parameters_stay);
    CHECK_RUN(groups_have_their_own_settings);
    CHECK_RUN(schedules_resume);
    CHECK_RUN(state_resumes_exactly);
    CHECK_RUN(masters_remember_small_steps);
    CHECK_RUN(parameters_in_no_product_need_no_half_copy);
    CHECK_RUN(blocks_are_updated_on_devices_that_record);
    CHECK_RUN(a_cycle_ends_at_its_lowest_rate);
    CHECK_RUN(warm_ups_end_at_their_lowest_rate);
    CHECK_RUN(rates_fall_on_plateaus);
    CHECK_RUN(training_stops_when_nothing_improves);
    CHECK_RUN(gradients_that_do_not_change_can_be_centered);
    CHECK_RUN(misuse_is_an_error);
    CHECK_RUN(memory_may_run_out);
    return check_done();
}
