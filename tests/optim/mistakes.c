/* mistakes.c - loops that leave something out are told so once, with what is missing; those that are only unusual are
 * left in peace. */
#include <lockstep.h>

#include <sys/wait.h>

#include "base/capture.h"
#include "check.h"

static char said[8192];

static void backward(ls_run *run, ls_module *m)
{
    ls_backward(run, ls_sum(ls_square(ls_forward(m, ls_ones(run, LS_F32, 1, 2)))));
}

/* The body must warn as often, in these words; "" and 0: it says nothing at all. */
static void check_said(int (*body)(void), int times, const char *words)
{
    int count = 0, status = run_captured(NULL, body, said, sizeof said);
    for (const char *at = said; (at = strstr(at, "warning: ")); at++) count++;
    CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0 && count == times && strstr(said, words),
              "%d instead of %d warnings of \"%s\": \"%s\"", count, times, words, said);
}

/* ---- mistakes ---- */

static int never_clears(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *m = ls_linear_new(run, 2, 2);
    ls_optim *sgd = ls_sgd_new(run, m);
    for (int i = 0; i < 4; i++) {
        backward(run, m);
        ls_step(sgd);
    }
    return ls_finish(run);
}

static int never_clears_groups(void)
{
    ls_run *run = ls_init(NULL, NULL, .gradient_accumulation_steps = 2);
    ls_module *m = ls_linear_new(run, 2, 2);
    ls_optim *sgd = ls_sgd_new(run, m);
    for (int i = 0; i < 6; i++) {
        backward(run, m);
        ls_step(sgd);
    }
    return ls_finish(run);
}

static void gradients_that_stay_after_their_step_are_told(void)
{
    check_said(never_clears, 1, "are included again (\"weight\" is the first); call ls_zero_grad()");
    check_said(never_clears_groups, 1, "call ls_zero_grad()");
}

static int steps_twice(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *m = ls_linear_new(run, 2, 2);
    ls_optim *adam = ls_adam_new(run, m);
    for (int i = 0; i < 4; i++) {
        backward(run, m);
        ls_step(adam);
        ls_step(adam);
        ls_zero_grad(adam);
    }
    return ls_finish(run);
}

static void steps_without_a_pass_between_are_told(void)
{
    check_said(steps_twice, 1, "no ls_backward() since the last step of this Adam");
}

static int64_t accumulation;

static int never_steps(void)
{
    ls_run *run = ls_init(NULL, NULL, .gradient_accumulation_steps = accumulation);
    ls_module *m = ls_linear_new(run, 2, 2);
    ls_optim *sgd = ls_sgd_new(run, m);
    for (int i = 0; i < 3; i++) {
        ls_zero_grad(sgd);
        backward(run, m);
        if (accumulation > 1) ls_step(sgd);
    }
    return ls_finish(run);
}

static void gradients_that_no_step_used_are_told(void)
{
    accumulation = 1;
    check_said(never_steps, 1, "ls_step() of SGD was not: \"weight\" is unchanged");
    accumulation = 4;
    check_said(never_steps, 1, "no group of 4 batches");
}

static bool in_turn;

static int two_for_one(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *m = ls_sequential_new(run, ls_linear_new(run, 2, 3), ls_linear_new(run, 3, 2));
    ls_optim *sgd = ls_sgd_new(run, m),
             *adam = ls_adam_new(run, NULL, .parameters = ls_state_matching(ls_parameters(m), "1.*"));
    for (int i = 0; i < 6; i++) {
        ls_zero_grad(sgd);
        backward(run, m);
        if (!in_turn || i % 2) ls_step(sgd);
        if (!in_turn || i % 2 == 0) ls_step(adam);
    }
    return ls_finish(run);
}

static void optimisers_of_one_parameter_are_told(void)
{
    in_turn = false;
    check_said(two_for_one, 1, "two optimisers, Adam and SGD, take turns updating \"1.weight\"");
    in_turn = true;
    check_said(two_for_one, 1, "take turns");
}

/* ---- no mistakes ---- */

static int several_passes_for_a_step(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *m = ls_linear_new(run, 2, 2);
    ls_optim *sgd = ls_sgd_new(run, m);
    for (int i = 0; i < 3; i++) {
        for (int pass = 0; pass < 3; pass++) backward(run, m);
        ls_step(sgd);
        ls_zero_grad(sgd);
    }
    for (int i = 0; i < 6; i++) {
        ls_set_sync_gradients(run, i % 2);
        backward(run, m);
        ls_step(sgd);
        ls_zero_grad(sgd);
    }
    ls_set_sync_gradients(run, true);
    ls_set_gradient_accumulation_steps(run, 2);
    for (int i = 0; i < 6; i++) {
        ls_accumulate(run)
        {
            ls_zero_grad(sgd);
            backward(run, m);
            ls_step(sgd);
        }
    }
    return ls_finish(run);
}

/* A pass of which only the gradients are looked at, between a step and the next loop's ls_zero_grad(). */
static bool looks;

static float after_looking(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 1);
    ls_module *m = ls_linear_new(run, 2, 2);
    ls_optim *sgd = ls_sgd_new(run, m, .lr = 0.01);
    for (int i = 0; i < 4; i++) {
        ls_zero_grad(sgd);
        backward(run, m);
        ls_step(sgd);
        if (!looks) continue;
        ls_set_sync_gradients(run, false);
        backward(run, m);
        ls_set_sync_gradients(run, true);
    }
    float sum = (float)ls_item(ls_sum(ls_module_tensor(m, "weight")));
    CHECK(ls_finish(run) == 0);
    return sum;
}

static int looks_between_steps(void)
{
    looks = false;
    float plain = after_looking();
    looks = true;
    float looked = after_looking();
    CHECK_MSG(looked == plain, "%g instead of %g", (double)looked, (double)plain);
    return check_failures_here;
}

/* The gradients of a held batch are kept until its group has had a step, wherever ls_zero_grad() stands. */
static int clears_first_in_a_held_group(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *m = ls_linear_new(run, 2, 1);
    ls_optim *sgd = ls_sgd_new(run, m, .lr = 0);
    for (int i = 0; i < 4; i++) {
        ls_set_sync_gradients(run, i % 2);
        ls_zero_grad(sgd);
        ls_backward(run, ls_sum(ls_forward(m, ls_ones(run, LS_F32, 1, 2))));
        float gradient = (float)ls_item(ls_sum(ls_grad(ls_module_tensor(m, "bias"))));
        CHECK_MSG(gradient == (float)(1 + i % 2), "%g", (double)gradient);
        ls_step(sgd);
    }
    return ls_finish(run) + check_failures_here;
}

/* The generator's pass reaches the parameters of both. */
static int two_in_turn(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *generator = ls_linear_new(run, 2, 2), *critic = ls_linear_new(run, 2, 2);
    ls_module *both = ls_sequential_new(run, generator, critic);
    ls_optim *first = ls_adam_new(run, critic), *second = ls_adam_new(run, generator);
    for (int i = 0; i < 4; i++) {
        ls_zero_grad(first);
        backward(run, critic);
        ls_step(first);
        ls_zero_grad(second);
        backward(run, both);
        ls_step(second);
    }
    return ls_finish(run);
}

/* One loss, an optimiser for each half; then all by another, and layers that wake up one after the other. */
static int one_after_the_other(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *m = ls_sequential_new(run, ls_linear_new(run, 2, 3), ls_linear_new(run, 3, 2));
    ls_optim *halves[2];
    for (int k = 0; k < 2; k++)
        halves[k] = ls_sgd_new(run, NULL, .parameters = ls_state_matching(ls_parameters(m), k ? "1.*" : "0.*"));
    for (int i = 0; i < 3; i++) {
        backward(run, m);
        for (int k = 0; k < 2; k++) ls_step(halves[k]);
        for (int k = 0; k < 2; k++) ls_zero_grad(halves[k]);
    }
    ls_optim *all = ls_adam_new(run, m);
    ls_tensor *sleeping = ls_state_tensor(ls_parameters(m), 0);
    for (int i = 0; i < 4; i++) {
        ls_set_requires_grad(sleeping, i > 1);
        backward(run, m);
        ls_step(all);
        ls_zero_grad(all);
    }
    return ls_finish(run);
}

static int only_looks_at_gradients(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *m = ls_linear_new(run, 2, 2);
    for (int i = 0; i < 2; i++) backward(run, m);
    CHECK(ls_grad(ls_module_tensor(m, "weight")) != NULL);
    return ls_finish(run);
}

static void what_is_only_unusual_is_left_in_peace(void)
{
    check_said(several_passes_for_a_step, 0, "");
    check_said(looks_between_steps, 0, "");
    check_said(clears_first_in_a_held_group, 0, "");
    check_said(two_in_turn, 0, "");
    check_said(one_after_the_other, 0, "");
    check_said(only_looks_at_gradients, 0, "");
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(gradients_that_stay_after_their_step_are_told);
    CHECK_RUN(steps_without_a_pass_between_are_told);
    CHECK_RUN(gradients_that_no_step_used_are_told);
    CHECK_RUN(optimisers_of_one_parameter_are_told);
    CHECK_RUN(what_is_only_unusual_is_left_in_peace);
    return check_done();
}
