/* report.c - what a run tells its owner without failing: schedules made for another number of steps, numbers that are
 * not finite. */
#include <lockstep.h>

#include <signal.h>
#include <sys/wait.h>

#include "base/capture.h"
#include "folder.h"
#include "run/team.h"

static const char *device = "cpu";
static char said[8192];

/* Run a body in a process of its own; what it prints is in `said`. Returns its exit code. */
static int tell_with(char *environment, int (*body)(void))
{
    int status = run_captured(environment, body, said, sizeof said);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int tell(int (*body)(void))
{
    return tell_with(NULL, body);
}

static int count_of(const char *text)
{
    int count = 0;
    for (const char *at = said; (at = strstr(at, text)); at++) count++;
    return count;
}

/* ---- schedules ---- */

static int batches_of_five(ls_loader **loader, ls_run *run)
{
    *loader = ls_loader_new(run, ls_tensor_dataset_new(run, ls_keep(ls_zeros(run, LS_F32, 10, 1))), .batch = 2);
    return (int)ls_len(*loader);
}

static void steps_of_an_epoch_know_who_counts_them(void)
{
    static const struct {
        int64_t accumulation;
        int world;
        ls_schedule_policy policy;
        int64_t steps;
    } cases[] = {
        {1, 1, LS_SCHEDULE_PER_STEP, 5}, {2, 1, LS_SCHEDULE_PER_STEP, 3},    {5, 1, LS_SCHEDULE_PER_STEP, 1},
        {9, 1, LS_SCHEDULE_PER_STEP, 1}, {2, 1, LS_SCHEDULE_PER_CALL, 5},    {1, 2, LS_SCHEDULE_PER_STEP, 3},
        {2, 2, LS_SCHEDULE_PER_STEP, 2}, {2, 2, LS_SCHEDULE_PER_PROCESS, 4}, {2, 2, LS_SCHEDULE_PER_CALL, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_run *run = ls_init(NULL, NULL, .gradient_accumulation_steps = cases[i].accumulation,
                              .schedule_policy = cases[i].policy);
        run->step->share.world = cases[i].world;
        ls_loader *loader;
        CHECK(batches_of_five(&loader, run) == (cases[i].world == 1 ? 5 : 3));
        CHECK_MSG(ls_steps_per_epoch(loader) == cases[i].steps, "case %zu: %lld", i,
                  (long long)ls_steps_per_epoch(loader));
        CHECK(ls_finish(run) == 0);
    }
    CHECK(ls_steps_per_epoch(NULL) == 0);
}

/* Three epochs of five batches, two to a step. */
static int train_by(int64_t (*length)(const ls_loader *), ls_schedule *(*make)(ls_optim *, int64_t))
{
    ls_run *run = ls_init(NULL, NULL, .gradient_accumulation_steps = 2);
    ls_loader *loader;
    batches_of_five(&loader, run);
    ls_module *net = ls_linear_new(run, 1, 1);
    ls_optim *sgd = ls_sgd_new(run, net);
    ls_schedule *schedule = make(sgd, 3 * length(loader));
    ls_prepare(run, net, sgd, schedule, loader);
    for (int epoch; ls_epoch(run, 3, &epoch);)
        for (ls_batch b; ls_next(loader, &b);) {
            ls_backward(run, ls_mean(ls_forward(net, b.image)));
            ls_step(sgd);
            ls_schedule_step(schedule);
            ls_zero_grad(sgd);
        }
    return ls_finish(run);
}

static ls_schedule *linear(ls_optim *optim, int64_t steps)
{
    return ls_warmup_linear_schedule_new(optim, 1, steps);
}

static ls_schedule *cosine(ls_optim *optim, int64_t steps)
{
    return ls_cosine_schedule_new(optim, steps, 0);
}

static ls_schedule *cycle(ls_optim *optim, int64_t steps)
{
    return ls_one_cycle_schedule_new(optim, .max_lr = 1, .total_steps = steps);
}

static ls_schedule *sequence(ls_optim *optim, int64_t steps)
{
    ls_schedule *parts[] = {ls_exponential_schedule_new(optim, 1), ls_cosine_schedule_new(optim, steps - 2, 0)};
    return ls_sequential_schedule_new(optim, parts, 2, (int64_t[]){2});
}

static ls_schedule *endless(ls_optim *optim, int64_t steps)
{
    (void)steps;
    return ls_exponential_schedule_new(optim, 0.9);
}

static ls_schedule *third(ls_optim *optim, int64_t steps)
{
    return ls_cosine_schedule_new(optim, steps / 3, 0);
}

static ls_schedule *restarts(ls_optim *optim, int64_t steps)
{
    ls_schedule *parts[] = {third(optim, steps), third(optim, steps), third(optim, steps)};
    return ls_sequential_schedule_new(optim, parts, 3, (int64_t[]){steps / 3, steps / 3 * 2});
}

static int64_t two_an_epoch(const ls_loader *loader)
{
    (void)loader;
    return 2;
}

static int linear_by_steps(void)
{
    return train_by(ls_steps_per_epoch, linear);
}
static int cycle_by_steps(void)
{
    return train_by(ls_steps_per_epoch, cycle);
}
static int sequence_by_steps(void)
{
    return train_by(ls_steps_per_epoch, sequence);
}
static int restarts_by_steps(void)
{
    return train_by(ls_steps_per_epoch, restarts);
}
static int cosine_of_one_epoch(void)
{
    return train_by(ls_steps_per_epoch, third);
}
static int endless_by_steps(void)
{
    return train_by(ls_steps_per_epoch, endless);
}
static int cosine_by_batches(void)
{
    return train_by(ls_loader_len, cosine);
}
static int cycle_by_batches(void)
{
    return train_by(ls_loader_len, cycle);
}
static int sequence_by_batches(void)
{
    return train_by(ls_loader_len, sequence);
}
static int linear_too_short(void)
{
    return train_by(two_an_epoch, linear);
}
static int cycle_too_short(void)
{
    return train_by(two_an_epoch, cycle);
}

static void a_schedule_of_the_right_length_says_nothing(void)
{
    int (*const bodies[])(void) = {linear_by_steps, cycle_by_steps, sequence_by_steps, restarts_by_steps,
                                   endless_by_steps};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        CHECK(tell(bodies[i]) == 0);
        CHECK_MSG(!*said, "body %zu said %s", i, said);
    }
}

static void a_schedule_that_did_not_end_with_training_is_named(void)
{
    int (*const early[])(void) = {cosine_by_batches, cycle_by_batches, sequence_by_batches};
    for (size_t i = 0; i < sizeof early / sizeof *early; i++) {
        CHECK(tell(early[i]) == 0);
        CHECK_MSG(count_of("a learning rate schedule created for 15 steps ended at step 9") == 1, "%zu: %s", i, said);
        CHECK(count_of("\n") == 1 && count_of("ls_steps_per_epoch(loader)") == 1);
    }
    CHECK(tell(linear_too_short) == 0);
    CHECK(count_of("a learning rate schedule created for 6 steps continued to step 9") == 1 && count_of("\n") == 1);
    CHECK(tell(cosine_of_one_epoch) == 0);
    CHECK(count_of("a learning rate schedule created for 3 steps continued to step 9") == 1 && count_of("\n") == 1);
    CHECK(tell(cycle_too_short) == 1);
    CHECK(count_of("step 7 of a schedule made for 6") == 1 && count_of("\n") == 1);
}

/* ---- numbers that are not finite ---- */

/* Five steps of two layers on pictures of ones; `spoil` says what one element of batch i is. */
static void train_on(ls_run *run, float (*spoil)(int rank, int i), bool clip, bool accumulate)
{
    ls_module *net = ls_module_new(run, "Net", NULL, NULL);
    ls_module *first = ls_module_add(net, "fc1", ls_linear_new(run, 4, 3));
    ls_module *last = ls_module_add(net, "fc2", ls_linear_new(run, 3, 2));
    ls_optim *sgd = ls_sgd_new(run, net, .lr = 1e-3);
    ls_prepare(run, net, sgd);
    if (accumulate) ls_set_gradient_accumulation_steps(run, 2);
    for (int i = 0; i < 5 && !ls_error(run); i++) {
        float x[8] = {1, 1, 1, 1, 1, 1, spoil(ls_rank(run), i), 1};
        ls_tensor *loss = ls_mean(ls_forward(last, ls_forward(first, ls_from(run, LS_F32, LS_SHAPE(2, 4), x))));
        ls_backward(run, loss);
        if (clip) ls_clip_grad_norm(sgd, 1);
        if (isfinite(x[6]) || ls_world_size(run) > 1) ls_step(sgd); /* all processes, or none */
        ls_zero_grad(sgd);
    }
}

static float nan_in_the_third(int rank, int i)
{
    (void)rank;
    return i == 2 ? NAN : 1;
}

static float nan_in_the_last_process(int rank, int i)
{
    return rank == 1 && i >= 2 ? INFINITY : 1;
}

static float never(int rank, int i)
{
    (void)rank;
    (void)i;
    return 1;
}

static int one_bad_loss(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = device);
    train_on(run, nan_in_the_third, true, false);
    return ls_finish(run);
}

static int all_is_well(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = device);
    train_on(run, never, true, false);
    return ls_finish(run);
}

static char saves_to[64]; /* a folder; empty: it saves nothing */

/* Asked to end after five steps of a schedule for fifty. */
static int told_to_end(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = device);
    ls_should_stop(run); /* listens from now on */
    train_on(run, nan_in_the_third, false, false);
    ls_optim *sgd = ls_sgd_new(run, ls_linear_new(run, 1, 1));
    ls_cosine_schedule_new(sgd, 50, 0);
    ls_step(sgd);
    raise(SIGTERM);
    CHECK(ls_should_stop(run));
    if (saves_to[0]) CHECK(ls_save_state(run, saves_to));
    return ls_finish(run);
}

/* A process, such as a notebook's, in which another run follows. */
static int told_to_end_once(void)
{
    if (told_to_end() != 128 + SIGTERM) return 1;
    ls_run *next = ls_init(NULL, NULL, .device = device);
    CHECK(!ls_should_stop(next));
    return ls_finish(next);
}

static void one_process_of_two(ls_run *run)
{
    train_on(run, nan_in_the_last_process, false, false);
}

static void one_process_of_two_accumulating(ls_run *run)
{
    train_on(run, nan_in_the_last_process, false, true);
}

static int together(void)
{
    team_fork(2, one_process_of_two);
    return 0;
}

static int together_accumulating(void)
{
    team_fork(2, one_process_of_two_accumulating);
    return 0;
}

static void the_first_that_is_not_finite_is_told_and_all_are_counted(void)
{
    bool host = strcmp(device, "cpu") == 0;
    CHECK(tell(all_is_well) == 0);
    CHECK_MSG(!*said, "%s", said);
    CHECK(tell(one_bad_loss) == 0);
    if (host) CHECK_MSG(count_of("step 3: the loss is not finite; training continues") == 1, "%s", said);
    else CHECK_MSG(count_of("a loss or norm of gradients up to here is not finite") == 1, "%s", said);
    CHECK_MSG(count_of("was not finite: 1, the first was step ") == 1 && count_of("\n") == 2, "%s", said);
    CHECK(tell(told_to_end) == 128 + SIGTERM);
    CHECK_MSG(count_of("was not finite: 1, the first was step ") == 1 && count_of("schedule") == 0, "%s", said);
    CHECK_MSG(count_of("lockstep: stopped by SIGTERM; this run saved no checkpoint\n") == 1, "%s", said);
    CHECK(tell(told_to_end_once) == 0);
    snprintf(saves_to, sizeof saves_to, "report_saved_%d", (int)getpid()); /* devices are tested at the same time */
    CHECK(tell(told_to_end) == 128 + SIGTERM);
    char line[160];
    snprintf(line, sizeof line, "lockstep: stopped by SIGTERM; the last checkpoint is %s\n", saves_to);
    CHECK_MSG(count_of(line) == 1, "%s", said);
    folder_remove(saves_to);
    saves_to[0] = '\0';
    if (!host) return;
    CHECK(tell(together) == 0);
    CHECK_MSG(count_of("step 3: the loss is not finite in process 1; training continues") == 1, "%s", said);
    CHECK_MSG(count_of("was not finite: 3, the first was step 3") == 1 && count_of("\n") == 2, "%s", said);
    CHECK(tell(together_accumulating) == 0);
    CHECK_MSG(count_of("step 2: the loss is not finite in process 1") == 1 && count_of("\n") == 2, "%s", said);
}

/* ---- forgotten ---- */

static struct {
    bool net, head, optim, loader, apart; /* which are prepared; and the optimiser is told that nobody else trains */
} given;

/* Two layers, with an optimiser for both, trained for four batches. */
static void train_what_was_given(ls_run *run)
{
    ls_module *net = ls_module_new(run, "Net", NULL, NULL), *head = ls_module_new(run, "Head", NULL, NULL);
    ls_module *first = ls_module_add(net, "fc1", ls_linear_new(run, 1, 3));
    ls_module *last = ls_module_add(head, "fc2", ls_linear_new(run, 3, 1));
    ls_optim *sgd = ls_sgd_new(run, net, .lr = 1e-3);
    ls_optim_add_group(sgd, ls_parameters(head));
    ls_loader *loader;
    batches_of_five(&loader, run);
    if (given.net) ls_prepare(run, net);
    if (given.head) ls_prepare(run, head);
    if (given.optim) ls_prepare(run, sgd);
    if (given.loader) ls_prepare(run, loader);
    if (given.apart) ls_optim_train_apart(sgd);
    CHECK(ls_len(loader) == 3);
    for (int epoch = 0; epoch < 2; epoch++)
        for (ls_batch b; ls_next(loader, &b);) {
            ls_backward(run, ls_mean(ls_forward(last, ls_forward(first, b.tensor[0]))));
            CHECK(ls_step(sgd));
            ls_zero_grad(sgd);
        }
    CHECK(ls_len(loader) == (given.loader ? 3 : 5));
    CHECK_MSG(!ls_error(run), "%s", ls_error_message(run));
}

static int forgetful(void)
{
    team_fork(2, train_what_was_given);
    return check_failures_here != 0;
}

static void what_several_processes_train_apart_is_told_once_in_a_job(void)
{
    static const char
        *const net = "each of 2 processes trains the module of fc1.weight on its own, and they will differ: "
                     "it was not passed to ls_prepare()",
               *const head = "trains the module of fc2.weight on its own",
               *const loader = "each of 2 processes trains on all samples of a loader: it was not passed to "
                               "ls_prepare()";
    static const struct {
        bool net, head, optim, loader, apart;
        bool says_net, says_head, says_loader;
    } cases[] = {
        {.net = true, .head = true, .optim = true, .loader = true},
        {.net = true, .head = true, .loader = true},
        {.optim = true, .loader = true, .says_net = true},
        {.says_net = true, .says_loader = true},
        {.net = true, .optim = true, .loader = true, .says_head = true},
        {.net = true, .head = true, .optim = true, .says_loader = true},
        {.apart = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        given.net = cases[i].net;
        given.head = cases[i].head;
        given.optim = cases[i].optim;
        given.loader = cases[i].loader;
        given.apart = cases[i].apart;
        CHECK(tell(forgetful) == 0);
        CHECK_MSG(count_of(net) == cases[i].says_net && count_of(head) == cases[i].says_head &&
                      count_of(loader) == cases[i].says_loader &&
                      count_of("\n") == cases[i].says_net + cases[i].says_head + cases[i].says_loader,
                  "case %zu: %s", i, said);
    }
}

/* ---- full ---- */

/* On the CPU: a device that records has no memory of its own to run out of. */
static int fill_memory(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = "cpu");
    ls_module *net = ls_linear_new(run, 1024, 256, .bias = false);
    ls_optim *adam = ls_adam_new(run, net);
    ls_backward(run, ls_mean(ls_forward(net, ls_ones(run, LS_F32, 2, 1024))));
    ls_step(adam);
    ls_empty(run, LS_F32, (int64_t)1 << 45);
    return ls_finish(run);
}

static void a_full_device_says_what_training_holds(void)
{
    CHECK(tell(fill_memory) == 1);
    CHECK_MSG(count_of("is out of memory: ") == 1 &&
                  count_of("; trained parameters hold 1.0 MiB, their gradients 1.0, moments 2.0, and the rest is for "
                           "the batch") == 1,
              "%s", said);
}

/* ---- found ---- */

static int overflow_on_the_way_back(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = device, .check_finite = true);
    ls_module *net = ls_module_new(run, "Net", NULL, NULL);
    ls_module *layer = ls_module_add(net, "fc1", ls_linear_new(run, 2, 1, .bias = false));
    ls_init_constant(ls_module_tensor(layer, "weight"), 0);
    float x[2] = {1e30f, 1}; /* the loss is 0, its gradient 1e30 * 1e30 */
    ls_tensor *y = ls_forward(layer, ls_from(run, LS_F32, LS_SHAPE(1, 2), x));
    ls_backward(run, ls_sum(ls_mul_scalar(y, 1e30)));
    return ls_finish(run);
}

static int masked(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = device);
    ls_tensor *x = ls_set_requires_grad(ls_ones(run, LS_F32, 2, 2), true);
    ls_tensor *mask = ls_full(run, LS_F32, -INFINITY, 1, 1);
    ls_tensor *scores = ls_concat(1, x, ls_expand(mask, 2, 1));
    ls_backward(run, ls_sum(ls_softmax(scores, 1)));
    return ls_finish(run);
}

static int root_behind_relu(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = device);
    ls_tensor *x = ls_set_requires_grad(ls_full(run, LS_F32, -1, 3), true);
    ls_backward(run, ls_sum(ls_sqrt(ls_relu(x))));
    CHECK(ls_item(ls_sum(ls_abs(ls_grad(x)))) == 0);
    return ls_finish(run);
}

static int logarithm_of_zero(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = device);
    ls_log(ls_zeros(run, LS_F32, 3));
    return ls_finish(run);
}

static int scale_sinks(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = device, .mixed_precision = LS_F16);
    ls_module *m = ls_module_new(run, "one", NULL, NULL);
    ls_tensor *p = ls_register_parameter(m, "p", ls_ones(run, LS_F32, 4));
    ls_optim *sgd = ls_sgd_new(run, m);
    ls_set_loss_scaler(run, (ls_loss_scaler_state){.scale = 2});
    for (int i = 0; i < 5; i++) {
        ls_backward(run, ls_sum(ls_mul_scalar(p, INFINITY)));
        CHECK(!ls_step(sgd));
        ls_zero_grad(sgd);
    }
    return ls_finish(run);
}

/* Gradients overflow while the loss stays finite: with a scale that is kept high, in every step. */
static int overflows;

static int skips_with_a_finite_loss(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = device, .mixed_precision = LS_F16);
    ls_module *m = ls_module_new(run, "one", NULL, NULL);
    ls_tensor *p = ls_register_parameter(m, "p", ls_zeros(run, LS_F32, 4));
    ls_optim *other = ls_sgd_new(run, m), *sgd = ls_sgd_new(run, m);
    for (int i = 0; i < overflows; i++) {
        ls_set_loss_scaler(run, (ls_loss_scaler_state){.scale = 65536});
        ls_backward(run, ls_sum(ls_mul_scalar(p, 1e38)));
        CHECK(!ls_step(sgd));
        ls_zero_grad(sgd);
    }
    return other ? ls_finish(run) : 1;
}

static int two_schedules_take_turns(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *m = ls_linear_new(run, 2, 2);
    ls_optim *sgd = ls_sgd_new(run, m);
    ls_schedule *first = ls_exponential_schedule_new(sgd, 0.9), *second = ls_exponential_schedule_new(sgd, 0.5);
    for (int i = 0; i < 4; i++) {
        ls_backward(run, ls_sum(ls_forward(m, ls_ones(run, LS_F32, 1, 2))));
        ls_step(sgd);
        ls_zero_grad(sgd);
        ls_schedule_step(first);
        ls_schedule_step(second);
    }
    return ls_finish(run);
}

static void schedules_that_undo_each_other_are_told_once(void)
{
    CHECK(tell(two_schedules_take_turns) == 0);
    CHECK_MSG(count_of("two schedules of one SGD take turns") == 1, "%s", said);
}

static int steps_of_another_module(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *trained = ls_linear_new(run, 2, 2), *forgotten = ls_linear_new(run, 2, 2);
    ls_optim *sgd = ls_sgd_new(run, forgotten);
    for (int i = 0; i < 3; i++) {
        ls_backward(run, ls_sum(ls_forward(trained, ls_ones(run, LS_F32, 1, 2))));
        ls_step(sgd);
    }
    return ls_finish(run);
}

static void steps_without_gradients_are_told_once(void)
{
    CHECK(tell(steps_of_another_module) == 0);
    CHECK_MSG(count_of("no parameter of this SGD has a gradient (\"weight\" is the first)") == 1, "%s", said);
}

static void skipped_steps_are_counted_where_they_are_many(void)
{
    overflows = 3; /* as a scaler does at first */
    CHECK(tell(skips_with_a_finite_loss) == 0);
    CHECK_MSG(count_of("skipped") == 0, "%s", said);
    overflows = 20;
    CHECK(tell(skips_with_a_finite_loss) == 0);
    CHECK_MSG(count_of("warning: steps skipped by the loss scaler: 20") == 1, "%s", said);
}

static int leave_autocast_open(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_autocast_begin(run, LS_BF16);
    return ls_finish(run);
}

static int end_autocast(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_autocast_begin(run, LS_BF16);
    ls_autocast_end(run);
    return ls_finish(run);
}

static void autocast_that_is_left_open_is_told(void)
{
    CHECK(tell(leave_autocast_open) == 0 && count_of("ls_autocast_begin() was not followed by ls_autocast_end()") == 1);
    CHECK(tell(end_autocast) == 0 && count_of("ls_autocast_begin") == 0);
}

static void a_loss_scale_below_one_is_told_once(void)
{
    CHECK(tell(scale_sinks) == 0);
    CHECK_MSG(count_of("the loss scale has fallen below 1") == 1, "%s", said);
    CHECK_MSG(count_of("was not finite: 5, the first was step 1") == 1 || strcmp(device, "cpu") != 0, "%s", said);
    CHECK_MSG(count_of("steps skipped by the loss scaler: 5") == 1, "%s", said);
}

static int input_too_large_for_half(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = device, .mixed_precision = LS_F16, .check_finite = true);
    ls_module *net = ls_module_new(run, "Net", NULL, NULL);
    ls_module *layer = ls_module_add(net, "fc1", ls_linear_new(run, 2, 1));
    ls_prepare(run, layer);
    ls_forward(layer, ls_full(run, LS_F32, 1e30, 3, 2));
    return ls_finish(run);
}

static int weight_too_large_for_half(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = device, .check_finite = true);
    ls_tensor *weight = ls_module_tensor(ls_linear_new(run, 2, 1), "weight");
    ls_init_constant(weight, 1e30);
    ls_cast(weight, LS_F16);
    return ls_finish(run);
}

static void the_check_names_the_tensor_that_a_cast_spoiled(void)
{
    CHECK(tell(input_too_large_for_half) == 1);
    CHECK_MSG(count_of("fc1: cast of [3,2] f32 to f16: the result, [3,2] f16, is inf at [0,0]; f16 holds numbers up to "
                       "65504") == 1,
              "%s", said);
    CHECK(tell(weight_too_large_for_half) == 1);
    CHECK_MSG(count_of("cast of weight [1,2] f32 to f16: the result, [1,2] f16, is inf") == 1, "%s", said);
}

/* ---- threads ---- */

static void *compute(void *run)
{
    CHECK(ls_item(ls_sum(ls_ones(run, LS_F32, 4))) == 4);
    return NULL;
}

static int times; /* that another thread computes in the run */

static int computes_in_threads(void)
{
    ls_run *run = ls_init(NULL, NULL);
    for (int i = 0; i < times; i++) {
        pthread_t thread;
        compute(run);
        pthread_create(&thread, NULL, compute, run);
        pthread_join(thread, NULL);
    }
    return ls_finish(run);
}

static void threads_that_take_turns_are_told_once(void)
{
    times = 20; /* handed over and back */
    CHECK(tell(computes_in_threads) == 0 && !*said);
    times = 100;
    CHECK(tell(computes_in_threads) == 0);
    CHECK_MSG(count_of("several threads call operators of one run") == 1 && count_of("\n") == 1, "%s", said);
}

/* Labels of -1 and 1, say: the loss falls for ever. */
static int labels_beyond_one(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = device);
    float labels[] = {-1, 1};
    ls_bce_with_logits(ls_zeros(run, LS_F32, 2), ls_from(run, LS_F32, LS_SHAPE(2), labels));
    return ls_finish(run);
}

static void the_check_names_targets_that_are_no_probabilities(void)
{
    CHECK(tell_with("LOCKSTEP_CHECK_FINITE=1", labels_beyond_one) == 1);
    CHECK_MSG(count_of("bce_with_logits: the target [2] f32 has numbers from -1 to 1; probabilities") == 1, "%s", said);
    CHECK(tell(labels_beyond_one) == 0 && !*said);
}

static void the_check_names_module_operator_and_parameter(void)
{
    CHECK(tell_with("LOCKSTEP_CHECK_FINITE=1", all_is_well) == 0 && !*said);
    CHECK(tell_with("LOCKSTEP_CHECK_FINITE=1", one_bad_loss) == 1);
    CHECK_MSG(
        count_of("fc1: linear: the result, [2,3] f32, is nan at [1,0]; its input 0, [2,4] f32, was nan already at "
                 "[1,2]") == 1,
        "%s", said);
    CHECK(count_of("\n") == 1);
    CHECK(tell(overflow_on_the_way_back) == 1);
    CHECK_MSG(count_of("fc1: backward of linear: the gradient of weight, [1,2] f32, is inf at [0,0]") == 1, "%s", said);
    CHECK(tell_with("LOCKSTEP_CHECK_FINITE=1", masked) == 0);
    CHECK_MSG(!*said, "%s", said);
    CHECK(tell_with("LOCKSTEP_CHECK_FINITE=1", root_behind_relu) == 0);
    CHECK_MSG(!*said, "%s", said);
    CHECK(tell_with("LOCKSTEP_CHECK_FINITE=1", logarithm_of_zero) == 1);
    CHECK_MSG(count_of("log: the result, [3] f32, is -inf at [0]; its inputs are finite") == 1, "%s", said);
    CHECK(tell(logarithm_of_zero) == 0 && !*said);
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "--device") == 0) device = argv[2];
    else if (argc > 1) check_filter = argv[1];
    CHECK_RUN(a_schedule_of_the_right_length_says_nothing);
    CHECK_RUN(a_schedule_that_did_not_end_with_training_is_named);
    CHECK_RUN_FORK(the_first_that_is_not_finite_is_told_and_all_are_counted);
    CHECK_RUN_FORK(what_several_processes_train_apart_is_told_once_in_a_job);
    CHECK_RUN(a_full_device_says_what_training_holds);
    CHECK_RUN(the_check_names_module_operator_and_parameter);
    CHECK_RUN(threads_that_take_turns_are_told_once);
    CHECK_RUN(the_check_names_targets_that_are_no_probabilities);
    CHECK_RUN(the_check_names_the_tensor_that_a_cast_spoiled);
    CHECK_RUN(autocast_that_is_left_open_is_told);
    CHECK_RUN(a_loss_scale_below_one_is_told_once);
    CHECK_RUN(skipped_steps_are_counted_where_they_are_many);
    CHECK_RUN(steps_without_gradients_are_told_once);
    CHECK_RUN(schedules_that_undo_each_other_are_told_once);
    CHECK_RUN(steps_of_an_epoch_know_who_counts_them); /* last: it reads the environment in this process */
    return check_done();
}
