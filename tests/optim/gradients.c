/* gradients.c - what is done to gradients between the walk back and the step: clipping and loss scaling. */
#include <lockstep.h>

#include <string.h>

#include "check.h"
#include "tensor/context.h"

static const char *device = "cpu";

/* ---- clipping ---- */

static ls_module *known_gradients(ls_run *run)
{
    ls_module *m = ls_module_new(run, "known", NULL, NULL);
    ls_tensor *a = ls_register_parameter(m, "a", ls_zeros(run, LS_F32, 2)),
              *b = ls_register_parameter(m, "b", ls_zeros(run, LS_F32, 1));
    ls_backward(run, ls_add(ls_sum(ls_mul(a, ls_from(run, LS_F32, LS_SHAPE(2), (float[]){3, 4}))),
                            ls_sum(ls_mul_scalar(b, 12)))); /* the norm is 13 */
    return m;
}

static void check_gradients(ls_module *m, double a0, double a1, double b0)
{
    float a[2], b[1];
    ls_read(ls_grad(ls_module_tensor(m, "a")), a, sizeof a);
    ls_read(ls_grad(ls_module_tensor(m, "b")), b, sizeof b);
    CHECK_NEAR(a[0], a0, 1e-6);
    CHECK_NEAR(a[1], a1, 1e-6);
    CHECK_NEAR(b[0], b0, 1e-6);
}

static void clipping_limits_the_norm(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = device);
    ls_module *m = known_gradients(run);
    ls_optim *sgd = ls_sgd_new(run, m);
    CHECK_NEAR(ls_item(ls_clip_grad_norm(sgd, 26)), 13, 1e-6);
    check_gradients(m, 3, 4, 12);
    CHECK_NEAR(ls_item(ls_clip_grad_norm(sgd, 1.3)), 13, 1e-6);
    check_gradients(m, 0.3, 0.4, 1.2);
    ls_clip_grad_value(sgd, 0.35);
    check_gradients(m, 0.3, 0.35, 0.35);

    m = known_gradients(run);
    CHECK_NEAR(ls_item(ls_state_clip_grad_norm(ls_parameters(m), 1.3)), 13, 1e-6);
    check_gradients(m, 0.3, 0.4, 1.2);
    ls_state_clip_grad_value(ls_parameters(m), 0.35);
    check_gradients(m, 0.3, 0.35, 0.35);
    CHECK(ls_finish(run) == 0);
}

static void zero_lets_nothing_through_and_infinity_everything(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = device);
    ls_module *m = known_gradients(run);
    ls_optim *sgd = ls_sgd_new(run, m);
    CHECK_NEAR(ls_item(ls_clip_grad_norm(sgd, INFINITY)), 13, 1e-6);
    ls_clip_grad_value(sgd, INFINITY);
    check_gradients(m, 3, 4, 12);
    CHECK_NEAR(ls_item(ls_clip_grad_norm(sgd, 0)), 13, 1e-6);
    check_gradients(m, 0, 0, 0);
    m = known_gradients(run);
    ls_state_clip_grad_value(ls_parameters(m), 0);
    check_gradients(m, 0, 0, 0);
    CHECK(ls_finish(run) == 0);
}

/* Of 3, 4 and 12: powers other than 2, and the largest. Gaps and the limit are treated alike. */
static void norms_of_other_powers(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = device);
    static const struct {
        double power, norm;
    } table[] = {{1, 19}, {3, 12.2070551}, {INFINITY, 12}, {2, 13}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        ls_module *m = known_gradients(run);
        double half = table[i].norm / 2;
        CHECK_NEAR(ls_item(ls_clip_grad_norm(ls_sgd_new(run, m), half, .norm_type = table[i].power)), table[i].norm,
                   1e-4);
        check_gradients(m, 1.5, 2, 6);
        m = known_gradients(run);
        CHECK_NEAR(ls_item(ls_state_clip_grad_norm(ls_parameters(m), 100, .norm_type = table[i].power)), table[i].norm,
                   1e-4);
        check_gradients(m, 3, 4, 12);
    }
    CHECK(ls_finish(run) == 0);
}

static void limits_below_zero_are_refused(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = device);
    ls_module *m = known_gradients(run);
    ls_optim *sgd = ls_sgd_new(run, m);
    static const double limits[] = {-1, -INFINITY, NAN};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        for (int form = 0; form < 4; form++) {
            if (form == 0) CHECK(!ls_is_valid(ls_clip_grad_norm(sgd, limits[i])));
            if (form == 1) CHECK(!ls_is_valid(ls_state_clip_grad_norm(ls_parameters(m), limits[i])));
            if (form == 2) ls_clip_grad_value(sgd, limits[i]);
            if (form == 3) ls_state_clip_grad_value(ls_parameters(m), limits[i]);
            CHECK(ls_error(run) == LS_ERR_VALUE && strstr(ls_error_message(run), "it must be 0 or more"));
            ls_clear_error(run);
        }
    check_gradients(m, 3, 4, 12);
    CHECK(ls_finish(run) == 0);
}

/* Gradients of 5 and 3 numbers in one block, with a gap between; factors[0] is that of the first number. */
static double clipped_norm(ls_run *run, ls_module *m, ls_optim *adam, float first, double limit)
{
    ls_mark mark = ls_scope_begin(run);
    float factors[5] = {first, 2, 3, 4, 5};
    ls_tensor *a = ls_mul(ls_module_tensor(m, "a"), ls_from(run, LS_F32, LS_SHAPE(5), factors));
    ls_tensor *b = ls_mul(ls_module_tensor(m, "b"), ls_from(run, LS_F32, LS_SHAPE(3), factors + 1));
    ls_backward(run, ls_add(ls_sum(a), ls_sum(b)));
    double norm = ls_item(ls_clip_grad_norm(adam, limit));
    ls_scope_end(run, mark, NULL);
    return norm;
}

static ls_module *two_vectors(ls_run *run)
{
    ls_module *m = ls_module_new(run, "two", NULL, NULL);
    ls_register_parameter(m, "a", ls_ones(run, LS_F32, 5));
    ls_register_parameter(m, "b", ls_ones(run, LS_F32, 3));
    return m;
}

/* A program that leaves out the step after a bad batch trains on as if it had not been there. */
static void a_bad_batch_spoils_no_later_norm(void)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY, 1e30f};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ls_run *run = ls_init(NULL, NULL, .device = device);
        ls_module *m = two_vectors(run);
        ls_optim *adam = ls_adamw_new(run, m);
        for (int batch = 0; batch < 6; batch++) {
            bool spoil = batch == 1 || batch == 3;
            double norm = clipped_norm(run, m, adam, spoil ? bad[i] : 1, 1);
            if (!spoil) CHECK_NEAR(norm, sqrt(84), 1e-6);
            if (spoil) CHECK(!isfinite(norm) || norm > 1e29);
            if (!spoil) CHECK(ls_step(adam));
            ls_zero_grad(adam);
        }
        CHECK(ls_finish(run) == 0);
    }
}

/* As where the norm is infinite: what is not finite shows, and the rest is limited to nothing. */
static void a_norm_of_nan_zeroes_the_gradients_that_are_numbers(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = device);
    ls_module *m = two_vectors(run);
    ls_optim *adam = ls_adamw_new(run, m);
    CHECK(isnan(clipped_norm(run, m, adam, NAN, 1)));
    float a[5], b[3];
    ls_read(ls_grad(ls_module_tensor(m, "a")), a, sizeof a);
    ls_read(ls_grad(ls_module_tensor(m, "b")), b, sizeof b);
    CHECK(isnan(a[0]) && a[1] == 0 && a[4] == 0 && b[0] == 0 && b[2] == 0);
    CHECK(ls_finish(run) == 0);
}

enum { SEEN = 6 };

static void look(ls_module *m, bool at_gradients, float seen[8])
{
    ls_mark mark = ls_scope_begin(ls_module_run(m)); /* gradients that are held are not put off */
    ls_tensor *a = ls_module_tensor(m, "a"), *b = ls_module_tensor(m, "b");
    ls_read(at_gradients ? ls_grad(a) : a, seen, 5 * sizeof(float));
    ls_read(at_gradients ? ls_grad(b) : b, seen + 5, 3 * sizeof(float));
    ls_scope_end(ls_module_run(m), mark, NULL);
}

static int passes;

static ls_status counting_run(void *handle, ls_stream *stream, const ls_call *call, ls_message *why)
{
    passes += call->op == LS_OP_mul && call->in[1]->stride[0] == 0 && call->in[0]->dim[0] > 1;
    return ls_cpu_device.run(handle, stream, call, why);
}

/* What a program sees that clips, steps, looks, adds to the gradients, clips and clears them. */
static void clip_and_look(bool puts_off, float seen[SEEN][8])
{
    ls_run *run = ls_init(NULL, NULL, .device = device);
    bool counted = strcmp(device, "cpu") == 0;
    if (counted) run->device->table.run = counting_run;
    if (puts_off) run->device->table.traits |= LS_TRAIT_STEP_FACTOR;
    else run->device->table.traits &= ~(uint32_t)LS_TRAIT_STEP_FACTOR;
    ls_module *m = two_vectors(run);
    ls_optim *adam = ls_adamw_new(run, m, .lr = 0.1);
    passes = 0;
    CHECK_NEAR(clipped_norm(run, m, adam, 1, 1), sqrt(84), 1e-6);
    CHECK(ls_step(adam));
    look(m, false, seen[0]);
    CHECK(!counted || passes == !puts_off);
    look(m, true, seen[1]);
    CHECK(!counted || passes == 1);
    clipped_norm(run, m, adam, 1, 2);
    look(m, true, seen[2]);
    clipped_norm(run, m, adam, 1, 3);
    clipped_norm(run, m, adam, 1, 4); /* adds to gradients that were clipped */
    CHECK(ls_step(adam));
    look(m, true, seen[3]);
    clipped_norm(run, m, adam, 1, 5);
    ls_zero_grad(adam);
    clipped_norm(run, m, adam, 1, 1e6);
    look(m, true, seen[4]);
    ls_zero_grad(adam);
    ls_backward(run, ls_sum(ls_mul_scalar(ls_module_tensor(m, "a"), 8)));
    ls_tensor *held = ls_grad(ls_module_tensor(m, "a"));
    ls_clip_grad_norm(adam, 1);
    memset(seen[5], 0, sizeof seen[5]);
    ls_read(held, seen[5], 5 * sizeof(float)); /* not asked for again */
    if (counted) run->device->table.run = ls_cpu_device.run;
    CHECK(ls_finish(run) == 0);
}

static void clipping_put_off_until_the_step_looks_the_same(void)
{
    float now[SEEN][8], later[SEEN][8];
    double tolerance = strstr(device, "xla") ? 1e-6 : 0; /* a compiler fuses what it finds in one program */
    clip_and_look(false, now);
    clip_and_look(true, later);
    for (int i = 0; i < SEEN; i++)
        for (int k = 0; k < 8; k++) CHECK_NEAR(later[i][k], now[i][k], tolerance);
    CHECK_NEAR(now[4][1], 2, 0);
    CHECK_NEAR(now[5][1], sqrt(0.2), 1e-6);
}

/* ---- loss scaling ---- */

/* Gradients of 0.01, one of them NaN when told so. */
static bool scaled_step(ls_run *run, ls_module *m, ls_optim *sgd, bool spoil)
{
    ls_mark mark = ls_scope_begin(run);
    ls_tensor *p = ls_module_tensor(m, "p");
    float factors[4] = {0.01f, 0.01f, spoil ? NAN : 0.01f, 0.01f};
    ls_backward(run, ls_sum(ls_mul(p, ls_from(run, LS_F32, LS_SHAPE(4), factors))));
    bool taken = ls_step(sgd);
    ls_zero_grad(sgd);
    ls_scope_end(run, mark, NULL);
    return taken;
}

static void scale_follows_accelerate(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = device, .mixed_precision = LS_F16);
    ls_module *m = ls_module_new(run, "one", NULL, NULL);
    ls_tensor *p = ls_register_parameter(m, "p", ls_ones(run, LS_F32, 4));
    ls_optim *sgd = ls_sgd_new(run, m, .lr = 0.1);
    ls_schedule *falling = ls_exponential_schedule_new(sgd, 0.5);
    static const bool spoil[] = {false, true, true, false};
    static const double scales[] = {65536, 32768, 16384, 16384}, rates[] = {0.05, 0.05, 0.05, 0.025};
    CHECK(ls_loss_scaler(run).scale == 65536);
    for (int i = 0; i < 4; i++) {
        CHECK(scaled_step(run, m, sgd, spoil[i]) == !spoil[i]);
        CHECK(ls_optim_step_was_skipped(sgd) == spoil[i]);
        CHECK(ls_loss_scaler(run).scale == scales[i]);
        ls_schedule_step(falling);
        CHECK_NEAR(ls_optim_lr(sgd), rates[i], 1e-15);
    }
    CHECK_NEAR(ls_item(ls_max(p)), 1 - 0.01 * (0.1 + 0.05), 1e-6);
    CHECK(ls_optim_steps_taken(sgd) == 2 && ls_loss_scaler(run).good_steps == 1);
    CHECK(ls_finish(run) == 0);
}

static void scale_grows_and_clipping_unscales(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = device, .mixed_precision = LS_F16);
    ls_module *m = ls_module_new(run, "one", NULL, NULL);
    ls_tensor *p = ls_register_parameter(m, "p", ls_ones(run, LS_F32, 4));
    ls_optim *sgd = ls_sgd_new(run, m, .lr = 1);
    ls_set_loss_scaler(run, (ls_loss_scaler_state){.scale = 1024, .good_steps = 1998});
    ls_backward(run, ls_sum(p)); /* norm 2 */
    CHECK_NEAR(ls_item(ls_grad(p) ? ls_max(ls_grad(p)) : p), 1024, 1e-6);
    CHECK_NEAR(ls_item(ls_clip_grad_norm(sgd, 1)), 2, 1e-6);
    CHECK_NEAR(ls_item(ls_clip_grad_norm(sgd, 1)), 1, 1e-6);
    CHECK(ls_step(sgd));
    CHECK_NEAR(ls_item(ls_max(p)), 0.5, 1e-5);
    CHECK(ls_loss_scaler(run).scale == 1024);
    CHECK(scaled_step(run, m, sgd, false));
    CHECK(ls_loss_scaler(run).scale == 2048 && ls_loss_scaler(run).good_steps == 0);
    CHECK(ls_finish(run) == 0);
}

/* Two optimisers step after each walk: both divide by the scale of that walk, and together change it once. */
static void optimisers_share_a_scale(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = device, .mixed_precision = LS_F16);
    ls_module *a = ls_module_new(run, "a", NULL, NULL), *b = ls_module_new(run, "b", NULL, NULL);
    ls_tensor *p = ls_register_parameter(a, "p", ls_ones(run, LS_F32, 1)),
              *q = ls_register_parameter(b, "q", ls_ones(run, LS_F32, 1));
    ls_optim *first = ls_sgd_new(run, a, .lr = 0.25), *second = ls_sgd_new(run, b, .lr = 0.25);
    static const double scales[] = {65536, 32768, 16384, 16384};
    static const double factors[] = {1, NAN, NAN, 1}; /* of the first one's loss */
    for (int i = 0; i < 4; i++) {
        ls_backward(run, ls_add(ls_sum(ls_mul_scalar(p, factors[i])), ls_sum(q)));
        CHECK(ls_step(first) == !isnan(factors[i]) && ls_step(second));
        ls_zero_grad(first);
        ls_zero_grad(second);
        CHECK(ls_loss_scaler(run).scale == scales[i]);
    }
    CHECK(ls_loss_scaler(run).good_steps == 1);
    CHECK(ls_item(p) == 1 - 2 * 0.25 && ls_item(q) == 1 - 4 * 0.25);

    ls_backward(run, ls_sum(q));
    CHECK(ls_step(second) && ls_step(second)); /* once more by the same gradient, divided once */
    CHECK(ls_item(q) == 1 - 6 * 0.25 && ls_loss_scaler(run).good_steps == 2);
    CHECK(ls_finish(run) == 0);
}

/* With clipping as without: the scale is halved once, and training goes on. */
static void an_overflow_costs_one_step(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = device, .mixed_precision = LS_F16);
    ls_module *m = two_vectors(run);
    ls_optim *adam = ls_adamw_new(run, m);
    for (int batch = 0; batch < 5; batch++) {
        double norm = clipped_norm(run, m, adam, batch == 1 ? INFINITY : 1, 1);
        CHECK(ls_step(adam) == (batch != 1));
        if (batch != 1) CHECK_NEAR(norm, sqrt(84), 1e-3);
        ls_zero_grad(adam);
    }
    CHECK(ls_optim_steps_taken(adam) == 4 && ls_loss_scaler(run).scale == 32768);
    CHECK(ls_finish(run) == 0);
}

/* Less than f32 can invert would make gradients of zero NaN. */
static void the_scale_stays_a_number(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = device, .mixed_precision = LS_F16);
    ls_module *m = ls_module_new(run, "one", NULL, NULL);
    ls_register_parameter(m, "p", ls_ones(run, LS_F32, 4));
    ls_optim *sgd = ls_sgd_new(run, m);
    ls_set_loss_scaler(run, (ls_loss_scaler_state){.scale = 0x1p-97});
    for (int i = 0; i < 9; i++) CHECK(!scaled_step(run, m, sgd, true));
    CHECK(ls_loss_scaler(run).scale == 0x1p-100);
    static const double bad[] = {0, -1, INFINITY, NAN, 0x1p-101, 0x1p128};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ls_set_loss_scaler(run, (ls_loss_scaler_state){.scale = bad[i]});
        CHECK(ls_error(run) == LS_ERR_VALUE);
        ls_clear_error(run);
    }
    CHECK(ls_finish(run) == 0);
}

static void the_scale_moves_as_the_program_says(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = device, .mixed_precision = LS_F16);
    ls_module *m = ls_module_new(run, "one", NULL, NULL);
    ls_register_parameter(m, "p", ls_ones(run, LS_F32, 4));
    ls_optim *sgd = ls_sgd_new(run, m);
    ls_set_loss_scaling(run, .init_scale = 64, .growth_factor = 4, .backoff_factor = 0.25, .growth_interval = 2);
    const double scales[] = {64, 64, 256, 64, 64, 256};
    for (int i = 0; i < 6; i++) {
        CHECK_MSG(ls_loss_scaler(run).scale == scales[i], "step %d: %g", i, ls_loss_scaler(run).scale);
        CHECK(scaled_step(run, m, sgd, i == 2) == (i != 2));
    }
    CHECK(ls_finish(run) == 0);
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "--device") == 0) device = argv[2];
    else if (argc > 1) check_filter = argv[1];
    CHECK_RUN(clipping_limits_the_norm);
    CHECK_RUN(zero_lets_nothing_through_and_infinity_everything);
    CHECK_RUN(norms_of_other_powers);
    CHECK_RUN(limits_below_zero_are_refused);
    CHECK_RUN(a_bad_batch_spoils_no_later_norm);
    CHECK_RUN(a_norm_of_nan_zeroes_the_gradients_that_are_numbers);
    CHECK_RUN(clipping_put_off_until_the_step_looks_the_same);
    CHECK_RUN(scale_follows_accelerate);
    CHECK_RUN(scale_grows_and_clipping_unscales);
    CHECK_RUN(optimisers_share_a_scale);
    CHECK_RUN(an_overflow_costs_one_step);
    CHECK_RUN(the_scale_stays_a_number);
    CHECK_RUN(the_scale_moves_as_the_program_says);
    return check_done();
}
