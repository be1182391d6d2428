/* settings.c - settings that affect results: a resumed run has those it was saved with, or reports what differs. */
#include <lockstep.h>

#include <pthread.h>

#include "base/capture.h"
#include "base/config.h"
#include "check.h"
#include "checkpoint/points.h"
#include "data/datasets/dataset.h"
#include "folder.h"

static const char *home;

enum { EPOCHS = 4, BATCHES = 6, NEVER = -1 };

/* Everything that a case can change. */
typedef struct variant {
    ls_init_opts init;
    int epochs;
    int64_t cosine; /* steps of a cosine schedule; 0: exponential decay */
    double dropout, lr, group_lr, gamma, momentum;
    ls_activation activation;
    bool nesterov, in_order, frozen, drop_last, other_groups, one_group, gelu, evaluating;
    double max_lr, group_max_lr, base_momentum; /* of a cyclic schedule; 0: none */
    double factor;                              /* of a lambda schedule; 0: none */
    double weight;                              /* of the first sample in a weighted sampler; 0: none */
    bool once;                                  /* each sample at most once */
    uint64_t loader_seed, split_seed;           /* 0: the run's, no split */
    uint64_t contents;                          /* of the samples; 0: unknown */
    const char *variable, *value;               /* of the environment, when it is resumed */
} variant;

static const variant usual = {.init = {ls_init_opts_defaults},
                              .epochs = EPOCHS,
                              .dropout = 0.2,
                              .lr = 1e-2,
                              .group_lr = 1e-3,
                              .gamma = 0.99,
                              .momentum = 0.9};

typedef struct training {
    ls_run *run;
    ls_module *net;
    ls_optim *sgd;
    ls_schedule *decay;
    ls_loader *train;
    int epochs;
} training;

static double factor_at(int64_t step, void *user)
{
    return pow(*(const double *)user, (double)step);
}

static ls_schedule *schedule_of(ls_optim *sgd, const variant *v)
{
    static double factor;
    factor = v->factor;
    if (v->max_lr > 0)
        return ls_one_cycle_schedule_new(sgd, .max_lrs = (double[]){v->max_lr, v->group_max_lr}, .total_steps = 24,
                                         .base_momentum = v->base_momentum);
    if (v->factor > 0) return ls_lambda_schedule_new(sgd, factor_at, &factor);
    return v->cosine ? ls_cosine_schedule_new(sgd, v->cosine, 0) : ls_exponential_schedule_new(sgd, v->gamma);
}

static ls_loader *loader_of(ls_run *run, const variant *v)
{
    ls_dataset *set = points(run, v->split_seed ? 46 : 23, 4), *rest;
    set->contents = v->contents;
    if (v->split_seed) {
        ls_set_seed(run, v->split_seed);
        ls_random_split(set, 0.5, &set, &rest);
    }
    double weights[23];
    for (int i = 0; i < 23; i++) weights[i] = i ? 1 : v->weight;
    ls_sampler *sampler = NULL;
    if (v->weight > 0) sampler = ls_weighted_sampler_new(run, weights, 23, .replacement = !v->once);
    return ls_loader_new(run, set, .batch = 4, .shuffle = !v->in_order && !sampler, .sampler = sampler,
                         .drop_last = v->drop_last, .seed = v->loader_seed ? v->loader_seed : LS_AUTO_SEED);
}

static training start(variant v, const char *resume)
{
    v.init.project_dir = home;
    v.init.resume_from_checkpoint = resume;
    ls_run *run = ls_init_sized(NULL, NULL, &v.init, LS_OPTS_SIZE(ls_init_opts));
    training t = {.run = run, .epochs = v.epochs};
    t.net = ls_sequential_new(run, ls_linear_new(run, 4, 37), v.gelu ? ls_gelu_new(run) : ls_relu_new(run),
                              ls_linear_new(run, 37, 19, .activation = v.activation), ls_dropout_new(run, v.dropout),
                              ls_linear_new(run, 19, 2));
    if (v.frozen) {
        ls_freeze(t.net);
        ls_unfreeze(ls_child(t.net, "4"));
    }
    t.sgd = ls_sgd_new(run, t.net, .lr = v.lr, .momentum = v.momentum, .nesterov = v.nesterov);
    if (!v.one_group)
        ls_optim_add_group(t.sgd, ls_state_matching(ls_parameters(t.net), v.other_groups ? "0.bias" : "*.bias"),
                           .lr = v.group_lr);
    t.decay = schedule_of(t.sgd, &v);
    t.train = loader_of(run, &v);
    if (v.evaluating) ls_eval(ls_child(t.net, "3"));
    ls_prepare(run, t.net, t.sgd, t.decay, t.train);
    return t;
}

/* Called at the start of each epoch. */
typedef void begin_fn(training *t, int epoch);

typedef struct record {
    double number[128];
    int count;
} record;

/* Train to the end, or for `stop` batches and then save. */
static void train(training *t, record *r, begin_fn *begin, int stop)
{
    for (int epoch; ls_epoch(t->run, t->epochs, &epoch);) {
        if (begin && r->count % BATCHES == 0) begin(t, epoch);
        for (ls_batch b; ls_next(t->train, &b);) {
            ls_tensor *loss = ls_cross_entropy(ls_forward(t->net, b.image), b.label);
            ls_backward(t->run, loss);
            double norm = ls_item(ls_clip_grad_norm(t->sgd, 0.5));
            ls_step(t->sgd);
            ls_schedule_step(t->decay);
            ls_zero_grad(t->sgd);
            r->number[r->count++] = ls_item(loss) + norm;
            if (r->count != stop) continue;
            CHECK(ls_save_state(t->run, NULL));
            return;
        }
    }
}

/* Stop after each batch in turn. */
static void goes_on_exactly(variant v, begin_fn *begin)
{
    folder_fresh(home);
    record whole = {0};
    training t = start(v, NULL);
    train(&t, &whole, begin, NEVER);
    CHECK(ls_finish(t.run) == 0 && whole.count == EPOCHS * BATCHES);
    for (int stop = 1; stop < whole.count; stop++) {
        folder_fresh(home);
        record r = {0};
        t = start(v, NULL);
        train(&t, &r, begin, stop);
        CHECK(ls_finish(t.run) == 0);
        t = start(v, "latest");
        train(&t, &r, begin, NEVER);
        CHECK_TEXT(ls_error_message(t.run), "");
        int same = 0;
        while (same < whole.count && r.number[same] == whole.number[same]) same++;
        CHECK_MSG(same == whole.count && r.count == whole.count, "stopped after %d of %d: differs from %d on", stop,
                  whole.count, same);
        CHECK(ls_finish(t.run) == 0);
    }
}

/* ---- changes by the program during training ---- */

static void unfreeze_step_by_step(training *t, int epoch)
{
    if (epoch == 1) ls_unfreeze(ls_child(t->net, "2"));
    if (epoch == 2) ls_unfreeze(t->net);
    if (epoch == 3) ls_freeze(ls_child(t->net, "4"));
}

static void frozen_parameters_are_restored(void)
{
    variant v = usual;
    v.frozen = true;
    goes_on_exactly(v, unfreeze_step_by_step);
}

static void still_step_by_step(training *t, int epoch)
{
    if (epoch == 1) ls_eval(ls_child(t->net, "3"));
    if (epoch == 3) ls_train(ls_child(t->net, "3"));
}

static void parts_in_evaluation_are_restored(void)
{
    goes_on_exactly(usual, still_step_by_step);
    variant v = usual;
    v.evaluating = true;
    goes_on_exactly(v, NULL);
}

/* A program that evaluates a checkpoint has set the mode before. */
static void a_model_in_evaluation_stays_there(void)
{
    folder_fresh(home);
    training t = start(usual, NULL);
    CHECK(ls_save_state(t.run, NULL));
    ls_eval(t.net);
    CHECK(ls_load_state(t.run, NULL));
    CHECK(!ls_is_training(t.net) && !ls_is_training(ls_child(t.net, "3")));
    CHECK(ls_finish(t.run) == 0);
}

static void accumulate_more_and_more(training *t, int epoch)
{
    ls_set_gradient_accumulation_steps(t->run, epoch + 1);
}

static void accumulation_steps_are_restored(void)
{
    goes_on_exactly(usual, accumulate_more_and_more);
}

/* ---- changes by a different start ---- */

static variant changed;

static int resume_changed(void)
{
    if (changed.variable) setenv(changed.variable, changed.value, 1);
    ls_config_reload();
    training t = start(changed, "latest");
    record r = {0};
    train(&t, &r, NULL, NEVER);
    return ls_finish(t.run);
}

/* The output of a run with these settings that resumes from one with those. */
static const char *said_between(variant before, variant v)
{
    static char text[8192];
    folder_fresh(home);
    training t = start(before, NULL);
    record r = {0};
    train(&t, &r, NULL, 8);
    CHECK(ls_finish(t.run) == 0);
    changed = v;
    run_captured(NULL, resume_changed, text, sizeof text);
    return text;
}

static void expect(variant before, variant v, const char *words)
{
    const char *said = said_between(before, v);
    CHECK_MSG(strstr(said, words), "\"%s\" lacks \"%s\"", said, words);
}

#define CHANGE(statement, words)                                                                                       \
    do {                                                                                                               \
        variant v = usual;                                                                                             \
        statement;                                                                                                     \
        expect(usual, v, words);                                                                                       \
    } while (0)

static void other_settings_are_named(void)
{
    CHECK_TEXT(said_between(usual, usual), "");
#define SAVED "/checkpoints/checkpoint_0 was saved with "
    CHANGE(v.init.mixed_precision = LS_BF16, SAVED "mixed_precision: no; this run continues with bf16\n");
    CHANGE(v.init.gradient_accumulation_steps = 3, SAVED "gradient_accumulation_steps: 1; this run continues with 3");
    CHANGE(v.init.accumulate_across_epochs = true, SAVED "accumulate_across_epochs: no; this run continues with yes\n");
    CHANGE(v.init.schedule_policy = LS_SCHEDULE_PER_CALL,
           SAVED "schedule_policy: per step; this run continues with per call\n");
    CHANGE(v.init.split_batches = true, SAVED "split_batches: no; this run continues with yes\n");
    CHANGE(v.init.uneven_batches = true, SAVED "uneven_batches: no; this run continues with yes\n");
    CHANGE(v.init.dispatch_batches = true, SAVED "dispatch_batches: no; this run continues with yes\n");
    CHANGE(v.init.shard_optimizer = true, SAVED "shard_optimizer: no; this run continues with yes\n");
    CHANGE(v.init.gradient_compression = LS_F16, SAVED "gradient_compression: no; this run continues with f16\n");
    CHANGE(v.epochs = 5, SAVED "epochs: 4; this run continues with 5\n");
    CHANGE(v.activation = LS_ACT_RELU, SAVED "model 0 2: Linear; this run continues with Linear activation relu\n");
    CHANGE(v.dropout = 0.4, SAVED "model 0 3: Dropout 0.2; this run continues with Dropout 0.4\n");
    CHANGE(v.gelu = true, SAVED "model 0 1: ReLU; this run continues with GELU\n");
    CHANGE(v.frozen = true,
           SAVED "parameters frozen at the beginning: none, which is restored; this program's value has no "
                 "effect: 0.weight, 0.bias, 2.weight, 2.bias\n");
    CHANGE(v.lr = 2e-2,
           SAVED "optimizer 0 group 0 lr: 0.01, which is restored; this program's value has no effect: 0.02\n");
    CHANGE(v.group_lr = 2e-2, SAVED "optimizer 0 group 1 lr: 0.001, which is restored");
    CHANGE(v.nesterov = true, "nesterov yes");
    CHANGE(v.gamma = 0.5,
           SAVED "schedule 0 at step 1: 0.99 times the initial rate; this run continues with 0.5 times the "
                 "initial rate\n");
    CHANGE(v.cosine = 24,
           SAVED "schedule 0 formula: exponential decay; this run continues with cosine over 24 steps\n");
    CHANGE(v.drop_last = true, SAVED "loader 0 drop_last: no; this run continues with yes\n");
    CHANGE(v.in_order = true,
           "ls_load_state: saved with loader 0 order: shuffled, here it is as in the dataset; continue "
           "with the same, or start a new training from the model alone");
    CHANGE(v.init.seed = 5,
           "ls_load_state: saved with seed 0, but this run started with seed 5, which ls_random_split() and everything "
           "else random have already used; continue with --seed 0, or start a new training");
    variant seeds = usual;
    seeds.init.seed = 5;
    seeds.loader_seed = 7;
    CHECK(!strstr(said_between(usual, seeds), "warning")); /* what is refused does not go on with anything */
    CHANGE(v.init.flush_denormals = true, SAVED "flush_denormals: no; this run continues with yes\n");
    CHANGE((v.variable = "LOCKSTEP_WINOGRAD", v.value = "0"),
           SAVED "LOCKSTEP_WINOGRAD: yes; this run continues with no\n");
    CHANGE((v.variable = "LOCKSTEP_CUDA_TF32", v.value = "1"),
           SAVED "LOCKSTEP_CUDA_TF32: no; this run continues with yes\n");
    CHANGE(v.evaluating = true,
           SAVED "parts in evaluation at the beginning: none, which is restored; this program's value has "
                 "no effect: 3\n");
    CHANGE(v.loader_seed = 7, SAVED "loader 0 seed: 0, which is restored; this program's value has no effect: 7\n");
    CHANGE(v.other_groups = true, "saved with optimizer 0 group of 2.bias: 1, here it is 0");
    CHANGE(v.one_group = true, "it has a different number of parameter groups");
}

#define CHANGE_OF(before, statement, words)                                                                            \
    do {                                                                                                               \
        variant v = before;                                                                                            \
        statement;                                                                                                     \
        expect(before, v, words);                                                                                      \
    } while (0)

static void parameters_of_schedules_and_samplers_are_compared(void)
{
    variant cycle = usual, function = usual, weighted = usual, split = usual;
    cycle.max_lr = cycle.group_max_lr = 0.1;
    cycle.base_momentum = 0.85;
    CHECK_TEXT(said_between(cycle, cycle), "");
    CHANGE_OF(cycle, v.group_max_lr = 0.2, "schedule 0 at step 1 of group 1: a rate of 0.");
    CHANGE_OF(cycle, v.base_momentum = 0.5, "schedule 0 momentum at step 1: 0.9");
    function.factor = 0.9;
    CHECK_TEXT(said_between(function, function), "");
    CHANGE_OF(function, v.factor = 0.5,
              "schedule 0 rate: at step 8: 0.430467 times the initial rate; this run continues with "
              "at step 8: 0.00390625 times");
    weighted.weight = 2;
    CHECK_TEXT(said_between(weighted, weighted), "");
    CHANGE_OF(weighted, v.weight = 3, "loader 0 sampler: draws: all, replacement: yes, ");
    CHANGE_OF(weighted, v.once = true, "this run continues with draws: all, replacement: no, ");
    split.split_seed = 3;
    CHECK_TEXT(said_between(split, split), "");
    CHANGE_OF(split, v.split_seed = 4, "ls_load_state: saved with loader 0 choice of samples: ");
}

static void other_samples_in_the_same_places_are_reported(void)
{
    variant known = usual;
    known.contents = 0xabc;
    CHECK_TEXT(said_between(known, known), "");
    CHANGE_OF(known, v.contents = 0xdef,
              "loader 0 contents of samples: 0000000000000abc; this run continues with 0000000000000def");
}

static int load_before_the_loop(void)
{
    training t = start(usual, NULL);
    ls_load_state(t.run, NULL);
    t.epochs = 5;
    record r = {0};
    train(&t, &r, NULL, NEVER);
    return ls_finish(t.run);
}

static void another_number_of_epochs_is_named_after_a_load(void)
{
    char text[2048];
    said_between(usual, usual);
    CHECK(run_captured(NULL, load_before_the_loop, text, sizeof text) == 0);
    CHECK_MSG(strstr(text, "continues from was saved with epochs: 4; this run continues with 5\n"), "%s", text);
}

/* In one line, not one for each step. */
static void a_schedule_of_another_length_is_named(void)
{
    variant shorter = usual, longer = usual;
    shorter.cosine = 21;
    longer.cosine = 24;
    char line[600];
    snprintf(line, sizeof line,
             "lockstep: warning: %s" SAVED
             "schedule 0 formula: cosine over 21 steps; this run continues with cosine over "
             "24 steps\n",
             home);
    CHECK_TEXT(said_between(shorter, longer), line);
}

/* ---- objects that were not prepared ---- */

/* Train a little, with only these prepared, and save twice. */
static struct {
    bool net, sgd, decay, registered, after_another; /* the last: another training came before */
} prepared;

static void train_another(ls_run *run)
{
    ls_module *net = ls_linear_new(run, 4, 2);
    ls_optim *adam = ls_adam_new(run, net);
    ls_backward(run, ls_mean(ls_forward(net, ls_ones(run, LS_F32, 3, 4))));
    ls_step(adam);
    ls_free_memory(run);
}

static int save_what_is_prepared(void)
{
    ls_run *run = ls_init(NULL, NULL, .project_dir = home);
    if (prepared.after_another) train_another(run);
    ls_module *net = ls_sequential_new(run, ls_linear_new(run, 4, 2), ls_linear_new(run, 2, 2));
    ls_optim *sgd = ls_sgd_new(run, net, .lr = 1e-2), *unused = ls_adam_new(run, net);
    ls_schedule *decay = ls_cosine_schedule_new(sgd, 2, 0), *idle = ls_exponential_schedule_new(unused, 0.5);
    if (prepared.net) ls_prepare(run, net);
    if (prepared.sgd) ls_prepare(run, sgd);
    if (prepared.decay) ls_prepare(run, decay);
    if (prepared.registered) ls_register_for_checkpointing(run, "net", .tensors = ls_parameters(net));
    for (int i = 0; i < 2; i++) {
        ls_backward(run, ls_mean(ls_forward(net, ls_ones(run, LS_F32, 3, 4))));
        ls_step(sgd);
        ls_schedule_step(decay);
        ls_zero_grad(sgd);
        ls_save_state(run, NULL);
    }
    return idle ? ls_finish(run) : 1;
}

static void expect_unsaved(const char *things)
{
    char text[2048], line[600] = "";
    if (*things)
        snprintf(line, sizeof line,
                 "lockstep: warning: ls_save_state does not save %s, so a resumed training starts it from scratch: it "
                 "was not "
                 "passed to ls_prepare()\n",
                 things);
    folder_fresh(home);
    CHECK(run_captured(NULL, save_what_is_prepared, text, sizeof text) == 0);
    CHECK_TEXT(text, line);
}

static void what_is_not_prepared_is_named_once(void)
{
    prepared.net = prepared.sgd = prepared.decay = true;
    expect_unsaved("");
    prepared.after_another = true; /* which is over */
    expect_unsaved("");
    prepared.after_another = false;
    prepared.decay = false;
    expect_unsaved("the schedule cosine over 2 steps");
    prepared.sgd = false;
    expect_unsaved("the schedule cosine over 2 steps, the optimiser SGD");
    prepared.net = false;
    expect_unsaved("the schedule cosine over 2 steps, the optimiser SGD, the module of 0.weight and 3 more");
    prepared.sgd = prepared.decay = prepared.registered = true;
    expect_unsaved("");
}

/* Rates are compared at steps 1, 10, 100, ... and at the last, which may be one of them. */
static void a_cycle_of_any_length_resumes(void)
{
    for (int64_t steps = 9; steps <= 102; steps += steps == 12 ? 87 : 1) {
        folder_fresh(home);
        ls_run *run = ls_init(NULL, NULL, .project_dir = home);
        ls_module *net = ls_linear_new(run, 4, 2);
        ls_optim *sgd = ls_sgd_new(run, net, .lr = 0.1, .momentum = 0.9);
        ls_prepare(run, net, sgd, ls_one_cycle_schedule_new(sgd, .max_lr = 0.1, .total_steps = steps));
        CHECK(ls_save_state(run, NULL));
        CHECK_MSG(ls_load_state(run, NULL), "%d steps: %s", (int)steps, ls_error_message(run));
        ls_finish(run);
    }
}

int main(int argc, char **argv)
{
    setenv("LOCKSTEP_LOG", "warn", 1); /* what goes on without a difference is not said */
    check_filter = argc > 1 ? argv[1] : NULL;
    home = home_of("settings");
    CHECK_RUN_FORK(other_settings_are_named);
    CHECK_RUN_FORK(parameters_of_schedules_and_samplers_are_compared);
    CHECK_RUN_FORK(other_samples_in_the_same_places_are_reported);
    CHECK_RUN_FORK(another_number_of_epochs_is_named_after_a_load);
    CHECK_RUN_FORK(what_is_not_prepared_is_named_once);
    CHECK_RUN_FORK(a_schedule_of_another_length_is_named);
    CHECK_RUN(frozen_parameters_are_restored);
    CHECK_RUN(parts_in_evaluation_are_restored);
    CHECK_RUN(a_model_in_evaluation_stays_there);
    CHECK_RUN(accumulation_steps_are_restored);
    CHECK_RUN(a_cycle_of_any_length_resumes);
    folder_remove(home);
    return check_done();
}
