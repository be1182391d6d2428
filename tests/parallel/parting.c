/* parting.c - processes that diverge after ls_prepare() are reported, by name: they would train different models. Those
 * that are meant to differ are not. */
#include <lockstep.h>

#include "base/capture.h"
#include "base/log.h"
#include "run/team.h"

enum { FEATURES = 3 };

typedef enum mistake {
    NONE,
    STEP_LEFT_OUT,
    ONE_STEP_MORE,
    RATE,
    MOMENTUM_OF_A_GROUP,
    CLIPPED,
    WRITTEN_OVER,
    ONE_NUMBER,
    APART,
    ANOTHER_OPTIMISER,
    NOT_CLEARED,
    FROZEN_WRITTEN_OVER,
    LAST_STEP_LEFT_OUT,
    UNFROZEN_BY_THE_FIRST,
    UNFROZEN_BY_THE_SECOND,
    FROZEN_BY_THE_SECOND,
} mistake;

static mistake made;

static void backward(ls_run *run, ls_module *model)
{
    ls_tensor *x = ls_full(run, LS_F32, 1 + ls_rank(run), 2, FEATURES);
    ls_backward(run, ls_sum(ls_square(ls_forward(model, x))));
}

/* What only rank 1 does, after its third pass. */
static bool steps_as_it_should(ls_run *run, ls_module *model, ls_optim *sgd)
{
    ls_tensor *weight = ls_module_tensor(model, "weight");
    float numbers[4 * FEATURES];
    switch (made) {
    case STEP_LEFT_OUT: return false;
    case ONE_STEP_MORE: ls_step(sgd); break;
    case RATE: ls_optim_set_lr(sgd, 0.02); break;
    case MOMENTUM_OF_A_GROUP: ls_optim_set_group(sgd, 1, .momentum = 0.5); break;
    case CLIPPED: ls_clip_grad_norm(sgd, 1e-3); break;
    case WRITTEN_OVER:
    case FROZEN_WRITTEN_OVER: ls_assign(weight, ls_zeros(run, LS_F32, 4, FEATURES)); break;
    case ONE_NUMBER: /* not the first element, which every pass compares */
        CHECK(ls_read(weight, numbers, sizeof numbers));
        numbers[5] += 1;
        CHECK(ls_write(weight, numbers, sizeof numbers));
        break;
    default: break;
    }
    return true;
}

/* A module that each process trains separately. */
static void train_apart(ls_run *run)
{
    ls_module *own = ls_linear_new(run, FEATURES, 1);
    ls_optim *adam = ls_adam_new(run, own, .lr = 0.1 + ls_rank(run));
    ls_optim_train_apart(adam);
    for (int i = 0; i <= ls_rank(run); i++) {
        ls_zero_grad(adam);
        ls_set_sync_gradients(run, false);
        backward(run, own);
        ls_set_sync_gradients(run, true);
        CHECK(ls_step(adam));
    }
}

static void train(ls_run *run)
{
    ls_module *model = ls_linear_new(run, FEATURES, 4);
    ls_optim *sgd = ls_sgd_new(run, model, .lr = 0.01, .momentum = 0.9);
    ls_state *bias = ls_state_matching(ls_parameters(model), "bias");
    ls_optim_add_group(sgd, bias, .lr = 0.001);
    if (made == FROZEN_WRITTEN_OVER) ls_set_requires_grad(ls_module_tensor(model, "weight"), false);
    ls_prepare(run, model, sgd);
    for (int i = 0; i < 5 && ls_error(run) == LS_OK; i++) {
        backward(run, model);
        if (i != 2 || ls_rank(run) != 1 || steps_as_it_should(run, model, sgd)) ls_step(sgd);
        if (made != NOT_CLEARED || ls_rank(run) != 1) ls_zero_grad(sgd);
        if (made == APART && i == 2) train_apart(run);
        if (made == ANOTHER_OPTIMISER && i == 2 && ls_rank(run) == 0) ls_sgd_new(run, model, .lr = 0.1);
    }
    if (made == LAST_STEP_LEFT_OUT) {
        backward(run, model);
        if (ls_rank(run) == 0) ls_step(sgd);
        CHECK(ls_save_model(run, model, "parting_test/model"));
    }
    if (made == ONE_NUMBER || made == FROZEN_WRITTEN_OVER) ls_save_state(run, "parting_test");
}

/* A model of two layers, the first of which is trained by one process alone from the third pass on. With the width of
 * `wide` its gradients make several buckets. */
static int wide;

static void train_unlike(ls_run *run)
{
    int other = made == UNFROZEN_BY_THE_FIRST ? 0 : 1;
    ls_module *first = ls_linear_new(run, FEATURES, wide);
    ls_module *model = ls_sequential_new(run, first, ls_linear_new(run, wide, 700), ls_linear_new(run, 700, 1));
    if (made != FROZEN_BY_THE_SECOND) ls_freeze(first);
    ls_optim *sgd = ls_sgd_new(run, model, .lr = 1e-9);
    ls_prepare(run, model, sgd);
    for (int i = 0; i < 4 && ls_error(run) == LS_OK; i++) {
        if (i == 2 && ls_rank(run) == other && made == FROZEN_BY_THE_SECOND) ls_freeze(first);
        else if (i == 2 && ls_rank(run) == other) ls_unfreeze(first);
        backward(run, model);
        ls_step(sgd);
        ls_zero_grad(sgd);
    }
    CHECK(ls_error(run) == LS_ERR_STATE);
}

/* The output of the first of two processes. */
static int train_both(void)
{
    check_failures_here = 0;
    team_run(2, made >= UNFROZEN_BY_THE_FIRST ? train_unlike : train);
    return check_failures_here;
}

static void makes(mistake m, const char *error, const char *warning)
{
    char text[4096];
    made = m;
    int status = run_captured(NULL, train_both, text, sizeof text);
    const char *said = strstr(text, warning ? warning : "warning:");
    CHECK_MSG(status == 0 && (warning ? said != NULL : !said), "%d: \"%s\"", (int)m, text);
    CHECK_MSG(error ? strstr(text, error) != NULL : !strstr(text, "error:"), "%d: \"%s\"", (int)m, text);
    /* Once each: the two ranks are threads here, and each considers itself the first. */
    for (int i = 0; said && i < 2; i++) said = strstr(said + 1, warning ? warning : "warning:");
    CHECK_MSG(!said, "%d: \"%s\"", (int)m, text);
}

static void processes_in_step_are_not_warned(void)
{
    makes(NONE, NULL, NULL);
    makes(APART, NULL, NULL);
}

static void a_different_step_is_reported_in_the_next_pass(void)
{
    makes(STEP_LEFT_OUT, "process 0 has taken 3 steps with SGD, process 1 2", NULL);
    makes(ONE_STEP_MORE, "process 0 has taken 3 steps with SGD, process 1 4", "no ls_backward() since the last step");
    makes(RATE,
          "lr of SGD is 0.01 in process 0, but 0.02 in process 1: set it to the same value in all processes, and give "
          "a plateau schedule the same number",
          NULL);
    makes(MOMENTUM_OF_A_GROUP, "momentum of SGD is 0.9 in process 0, but 0.5 in process 1", NULL);
    makes(ANOTHER_OPTIMISER, "optimisers and groups", NULL);
}

static void parameters_that_differ_are_named(void)
{
    makes(CLIPPED, NULL, "ls_backward: processes no longer train the same model: 2 of 2 parameters differ");
    makes(WRITTEN_OVER, NULL, "processes 0 and 1, first \"weight\"");
    makes(ONE_NUMBER, NULL, "ls_save_state: processes no longer train the same model: 1 of 2 parameters differ");
    makes(FROZEN_WRITTEN_OVER, NULL, "1 of 2 parameters differ in processes 0 and 1, first \"weight\"");
    makes(LAST_STEP_LEFT_OUT, NULL, "ls_save_model: processes no longer train the same model: 2 of 2 parameters");
}

static void the_process_that_left_something_out_says_so(void)
{
    ls_log_set_rank(1); /* what is said for the whole job is said elsewhere */
    makes(NOT_CLEARED, NULL, "process 1: warning: ls_step: gradients already used by an earlier step of this SGD");
    ls_log_set_rank(0);
}

static void a_parameter_that_only_some_train_is_named(void)
{
    for (wide = 2; wide <= 1024; wide *= 512) {
        makes(UNFROZEN_BY_THE_FIRST, "\"0.weight\" is trained in process 0, but frozen in process 1", NULL);
        makes(UNFROZEN_BY_THE_SECOND, "\"0.weight\" is trained in process 1, but frozen in process 0", NULL);
        makes(FROZEN_BY_THE_SECOND, "\"0.weight\" is trained in process 0, but frozen in process 1", NULL);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(processes_in_step_are_not_warned);
    CHECK_RUN(a_different_step_is_reported_in_the_next_pass);
    CHECK_RUN(parameters_that_differ_are_named);
    CHECK_RUN(the_process_that_left_something_out_says_so);
    CHECK_RUN(a_parameter_that_only_some_train_is_named);
    return check_done();
}
