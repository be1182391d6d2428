/* sync.c - Accelerate's own tests of gradients, schedules, orders and metrics on several processes, in addition to
 * vectors.c. */
#include <lockstep.h>

#include "base/rng.h"
#include "modes.h"
#include "run/share.h"

static void check_no_error(ls_run *run)
{
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
}

/* ---- y = ax + b, by elementwise operators: autocast leaves their types alone ---- */

static ls_tensor *line_forward(ls_module *line, ls_tensor *x, void *user)
{
    ls_state *p = user;
    (void)line;
    return ls_add(ls_mul(x, ls_state_tensor(p, 0)), ls_state_tensor(p, 1));
}

static ls_module *make_line(ls_run *run)
{
    ls_state *parameters = ls_state_new(run);
    ls_module *line = ls_module_new(run, "line", line_forward, parameters);
    for (int i = 0; i < 2; i++) {
        ls_tensor *p = ls_set_requires_grad(ls_keep(ls_zeros(run, LS_F32, 1)), true);
        ls_state_add(parameters, i ? "b" : "a", ls_register_parameter(line, i ? "b" : "a", p));
    }
    return line;
}

static ls_tensor *parameter_of(ls_module *line, int i)
{
    return ls_state_tensor(ls_parameters(line), i);
}

/* y = 2x + 3 + noise */
static ls_dataset *line_data(ls_run *run, int64_t samples)
{
    float x[1024], y[1024];
    for (int64_t i = 0; i < samples; i++) {
        ls_philox4 bits = ls_philox(42, (uint64_t)i);
        x[i] = (float)bits.lane[0] / 2147483648.0f - 1;
        y[i] = 2 * x[i] + 3 + 0.1f * ((float)bits.lane[1] / 2147483648.0f - 1);
    }
    return ls_tensor_dataset_new(run, ls_keep(ls_from(run, LS_F32, LS_SHAPE(samples, 1), x)),
                                 ls_keep(ls_from(run, LS_F32, LS_SHAPE(samples, 1), y)));
}

static ls_tensor *loss_of(ls_module *line, ls_tensor *x, ls_tensor *y)
{
    return ls_mse_loss(ls_forward(line, x), y, LS_REDUCE_MEAN);
}

/* ---- gradients: after the last batch of a step all have those of a single process that sees all batches ---- */

/* The gradient of a or b; 0 if there is none. */
static double gradient(ls_module *line, int i)
{
    ls_tensor *g = ls_grad(parameter_of(line, i));
    return g ? ls_item(g) : 0;
}

static bool same_gradients(ls_module *one, ls_module *other)
{
    bool same = true;
    for (int i = 0; i < 2; i++) {
        double a = gradient(one, i), b = gradient(other, i);
        same = same && fabs(a - b) <= 1e-5 * fmax(1, fabs(a));
    }
    return same;
}

/* Without synchronisation (no_sync) gradients stay local; otherwise all have the mean. */
static void hold_every_other(ls_run *run)
{
    ls_module *alone = make_line(run), *together = make_line(run);
    ls_loader *loader = ls_loader_new(run, line_data(run, 96 * ls_world_size(run)), .batch = 16);
    ls_prepare(run, together, loader);
    int i = 0;
    for (ls_batch b; ls_next(loader, &b); i++) {
        ls_tensor *x = ls_gather_with_repeats(run, b.tensor[0]), *y = ls_gather_with_repeats(run, b.tensor[1]);
        for (int p = 0; p < 2; p++) {
            ls_clear_grad(parameter_of(alone, p));
            ls_clear_grad(parameter_of(together, p));
        }
        ls_set_sync_gradients(run, true);
        ls_backward(run, loss_of(alone, x, y));
        ls_set_sync_gradients(run, i % 2);
        ls_backward(run, loss_of(together, b.tensor[0], b.tensor[1]));
        CHECK(same_gradients(alone, together) == (i % 2 || ls_world_size(run) == 1));
        ls_set_sync_gradients(run, true);
    }
    CHECK(i == 6);
    check_no_error(run);
}

static void unsynchronised_gradients_stay_local(void)
{
    team_fork(1, hold_every_other);
    team_fork(2, hold_every_other);
}

/* Two optimisers in turn, ls_zero_grad() first, gradients of two batches: each reduction includes what the other has
 * accumulated so far, which must be kept, also in processes that did not use it: only the last process uses the second
 * model in the first batch of a group. */
static void train_two_in_turn(ls_run *run)
{
    enum { BATCHES = 4 };
    ls_module *lines[2];
    ls_optim *optims[2];
    for (int m = 0; m < 2; m++) lines[m] = make_line(run);
    for (int m = 0; m < 2; m++) optims[m] = ls_sgd_new(run, lines[m]);
    ls_prepare(run, lines[0], lines[1], optims[0], optims[1]);
    ls_set_gradient_accumulation_steps(run, 2);
    bool last = ls_rank(run) == ls_world_size(run) - 1;
    for (int i = 0; i < BATCHES; i++) {
        ls_accumulate(run)
        {
            for (int m = 0; m < 2; m++) {
                ls_zero_grad(optims[m]);
                if (m == 0 || last || i % 2)
                    ls_backward(run, ls_sum(ls_mul_scalar(parameter_of(lines[m], 0), i + 1))); /* 1, 2, 3, 4 */
                if (i % 2)
                    CHECK_NEAR(gradient(lines[m], 0), ((m ? 1.0 / ls_world_size(run) : 1) * i + i + 1) / 2, 1e-6);
                CHECK(ls_step(optims[m]) == (i % 2 == 1));
            }
        }
    }
    check_no_error(run);
}

static void optimisers_in_turn_keep_accumulated_gradients(void)
{
    team_fork(1, train_two_in_turn);
    team_fork(2, train_two_in_turn);
    team_fork(3, train_two_in_turn);
}

/* Gradients are the sum of weight * gradient over all processes' batches, divided by the sum of their weights. Weights
 * differ between processes and groups, so that none can guess those of the others. */
static void weigh_otherwise(ls_run *run, bool shard, int steps, bool plain_in_between)
{
    enum { BATCHES = 7 };
    run->step->share.optimizer = shard;
    ls_set_gradient_accumulation_steps(run, steps);
    ls_module *line = make_line(run);
    ls_optim *sgd = ls_sgd_new(run, line, .lr = 1);
    ls_dataset *data = line_data(run, BATCHES * ls_world_size(run));
    ls_loader *loader = ls_loader_new(run, data, .batch = 1);
    ls_prepare(run, line, sgd, loader);
    double sum[2] = {0}, at = 0;
    int i = 0;
    for (ls_batch b; ls_next(loader, &b); i++) {
        bool plain = plain_in_between && i / steps % 2;
        double weight = plain ? 1 : 100 * (1 + i % 3 + (i % 2 ? 5 : 2) * ls_rank(run)), x = 1 + i + 10 * ls_rank(run);
        ls_tensor *loss = ls_mean(ls_forward(line, ls_full(run, LS_F32, x, 1, 1)));
        if (plain) ls_backward(run, loss);
        else ls_backward_weighted(run, loss, weight);
        sum[0] += weight;
        sum[1] += weight * x;
        ls_tensor *norm = ls_clip_grad_norm(sgd, i % 2 ? 1e9 : 0.5);
        bool ends = (i + 1) % steps == 0 || i == BATCHES - 1;
        CHECK(ls_step(sgd) == ends);
        ls_zero_grad(sgd);
        if (!ends) continue;
        double all[2], a = ls_item(parameter_of(line, 0));
        CHECK(ls_read(ls_reduce(run, ls_from(run, LS_F64, LS_SHAPE(2), sum), LS_REDUCE_SUM), all, sizeof all));
        double want = all[1] / all[0], length = sqrt(want * want + 1); /* b's gradient is 1 */
        CHECK_NEAR(ls_item(norm), length, 1e-5 * length);
        CHECK_NEAR(at - a, i % 2 ? want : 0.5 * want / length, 1e-5 * length);
        at = a;
        sum[0] = sum[1] = 0;
    }
    CHECK(i == BATCHES);
    check_no_error(run);
    ls_free_memory(run);
}

static void weigh_in_all_ways(ls_run *run)
{
    for (int way = 0; way < 4; way++)
        for (int steps = 1; steps <= 3; steps++) weigh_otherwise(run, way & 1, steps, way & 2);
}

/* A process without batches has weight 0; groups that end earlier on one process are weighted the same way. */
static void weigh_until_all_are_done(ls_run *run)
{
    ls_set_gradient_accumulation_steps(run, 2);
    ls_module *line = make_line(run);
    ls_optim *sgd = ls_sgd_new(run, line, .lr = 1);
    ls_prepare(run, line, sgd);
    int batches = ls_rank(run) ? 3 : 6; /* groups: 2 and 2, 2 and 1, 2 and 0 */
    ls_loop loop = {0};
    ls_join_uneven_inputs(run)
    {
        for (int i = 0; i < batches; i++) {
            loop.left = batches - 1 - i;
            loop.last = !loop.left;
            ls_loop_batch(run, &loop);
            ls_backward_weighted(run, ls_mul_scalar(parameter_of(line, 0), 1 + i), ls_rank(run) ? 30 : 10 + i);
            ls_step(sgd);
            ls_zero_grad(sgd);
        }
        ls_loop_end(run, &loop);
    }
    double got = -ls_item(parameter_of(line, 0));
    double alone = (10 + 22) / 21.0 + (36 + 52) / 25.0, both = (10 + 22 + 30 + 60) / 81.0 + (36 + 52 + 90) / 55.0;
    CHECK_NEAR(got, (ls_world_size(run) == 1 ? alone : both) + (70 + 90) / 29.0, 1e-5);
    check_no_error(run);
}

/* A process without batches continues with zero gradients: its own must be in a step by then. */
static void join_in_the_middle_of_a_group(ls_run *run)
{
    ls_module *line = make_line(run);
    ls_prepare(run, line);
    run->step->accumulation.across_epochs = true;
    ls_set_gradient_accumulation_steps(run, 2);
    ls_join_uneven_inputs_begin(run);
    CHECK(ls_error(run) == LS_ERR_UNSUPPORTED && strstr(ls_error_message(run), "in the middle of a group"));
    ls_clear_error(run);
    run->step->accumulation.across_epochs = false;
    ls_set_gradient_accumulation_steps(run, 1);
    ls_join_uneven_inputs(run)
    {
        ls_set_sync_gradients(run, false);
        ls_backward(run, ls_mul_scalar(parameter_of(line, 0), 3));
    }
    CHECK(ls_error(run) == LS_ERR_STATE && strstr(ls_error_message(run), "would be lost; let the last batch end"));
    ls_clear_error(run);
}

static void a_join_loses_no_gradients(void)
{
    team_fork(2, join_in_the_middle_of_a_group);
}

static void weights_of_all_processes_count(void)
{
    team_fork(1, weigh_until_all_are_done);
    team_fork(2, weigh_until_all_are_done);
    team_fork(1, weigh_in_all_ways);
    team_fork(2, weigh_in_all_ways);
    team_fork(3, weigh_in_all_ways);
}

/* Three forward passes, then three backward passes: the last one reduces all three together. */
static void bring_three_together(ls_run *run)
{
    ls_module *alone = make_line(run), *together = make_line(run);
    ls_prepare(run, together);
    ls_tensor *mine[3], *all[3];
    double scale = 1.0 + ls_rank(run);
    ls_set_sync_gradients(run, false);
    for (int i = 0; i < 3; i++) {
        ls_tensor *x = ls_full(run, LS_F32, scale * (i + 1), 4, 1), *y = ls_full(run, LS_F32, 5, 4, 1);
        mine[i] = loss_of(together, x, y);
        all[i] = loss_of(alone, ls_gather_with_repeats(run, x), ls_gather_with_repeats(run, y));
    }
    for (int i = 0; i < 3; i++) {
        ls_set_sync_gradients(run, i == 2);
        ls_backward(run, mine[i]);
        ls_backward(run, all[i]);
        CHECK(same_gradients(alone, together) == (i == 2 || ls_world_size(run) == 1));
    }
    check_no_error(run);
}

static void one_synchronised_pass_reduces_all(void)
{
    team_fork(1, bring_three_together);
    team_fork(2, bring_three_together);
    team_fork(4, bring_three_together);
}

/* 80 samples in batches of 16 per process, two per step: equal at every second batch and at the last. */
static void accumulate_in_every_mode(ls_run *run)
{
    for (int mode = 0; mode < MODES; mode++) {
        set_mode(run, mode);
        ls_set_gradient_accumulation_steps(run, 2);
        ls_module *line = make_line(run);
        ls_optim *sgd = ls_sgd_new(run, line, .lr = 1e-3);
        ls_loader *loader = ls_loader_new(run, line_data(run, 80), .batch = batch_of(run, 16));
        ls_prepare(run, line, sgd, loader);
        double want[2] = {0, 0};
        int i = 0, in_group = 0;
        for (ls_batch b; ls_next(loader, &b); i++) {
            ls_no_grad_begin(run); /* the mean over the batches of the group, each with the samples of all processes */
            ls_tensor *x = ls_gather_with_repeats(run, b.tensor[0]),
                      *error = ls_sub(ls_forward(line, x), ls_gather_with_repeats(run, b.tensor[1]));
            want[0] += 2 * ls_item(ls_mean(ls_mul(error, x)));
            want[1] += 2 * ls_item(ls_mean(error));
            ls_no_grad_end(run);
            in_group++;
            ls_backward(run, loss_of(line, b.tensor[0], b.tensor[1]));
            bool ends = i % 2 == 1 || b.last;
            CHECK(ls_sync_gradients(run) == ends);
            for (int p = 0; ends && p < 2; p++) CHECK_NEAR(gradient(line, p), want[p] / in_group, 1e-5);
            ls_step(sgd);
            ls_zero_grad(sgd);
            if (ends) want[0] = want[1] = in_group = 0;
        }
        CHECK(ls_optim_steps_taken(sgd) == (i + 1) / 2 && i == (ls_world_size(run) == 1 ? 5 : 3));
        ls_free_memory(run);
    }
    ls_set_gradient_accumulation_steps(run, 1);
    check_no_error(run);
}

static void groups_of_batches_give_the_mean_of_all(void)
{
    team_fork(1, accumulate_in_every_mode);
    team_fork(2, accumulate_in_every_mode);
}

/* ---- mixed precision ---- */

static double found[2];

static void fit(ls_run *run, ls_dtype precision)
{
    int64_t world = ls_world_size(run), samples = 8 * 4 * 2;
    ls_module *line = make_line(run);
    ls_optim *sgd = ls_sgd_new(run, line, .lr = 0.1);
    ls_loader *loader = ls_loader_new(run, line_data(run, samples), .batch = 16 / world, .shuffle = true, .seed = 42);
    ls_prepare(run, line, sgd, loader);
    if (precision) ls_autocast_begin(run, precision);
    for (int epoch; ls_epoch(run, 3, &epoch);) {
        for (ls_batch b; ls_next(loader, &b);) {
            ls_backward(run, loss_of(line, b.tensor[0], b.tensor[1]));
            ls_step(sgd);
            ls_zero_grad(sgd);
        }
    }
    if (precision) ls_autocast_end(run);
    check_no_error(run);
    CHECK(ls_optim_steps_taken(sgd) == 12);
    for (int i = 0; i < 2; i++) {
        double value = ls_item(parameter_of(line, i));
        if (world == 1) found[i] = value;
        else CHECK_NEAR(value, found[i], 1e-6);
    }
}

static void fit_in_f32(ls_run *run)
{
    fit(run, LS_DTYPE_NONE);
}

static void fit_in_bf16(ls_run *run)
{
    fit(run, LS_BF16);
}

static void fit_in_f16(ls_run *run)
{
    fit(run, LS_F16);
}

static void mixed_precision_fits_the_line_of_one_process(void)
{
    team_run(1, fit_in_f32);
    CHECK(fabs(found[1]) > 1);
    team_run(2, fit_in_f32);
    team_run(2, fit_in_bf16);
    team_run(2, fit_in_f16);
}

/* ---- schedules ---- */

static double tenth_less(int64_t step, void *user)
{
    (void)user;
    return 1 - (double)step / 10;
}

static void step_schedules(ls_run *run)
{
    double world = ls_world_size(run);
    for (int policy = LS_SCHEDULE_PER_STEP; policy <= LS_SCHEDULE_PER_CALL; policy++) {
        run->step->schedule_policy = (ls_schedule_policy)policy;
        ls_module *line = make_line(run);
        ls_optim *sgd = ls_sgd_new(run, line, .lr = 1);
        ls_schedule *falling = ls_lambda_schedule_new(sgd, tenth_less, NULL);
        ls_prepare(run, line, sgd, falling);
        ls_tensor *x = ls_ones(run, LS_F32, 2, 1);
        ls_backward(run, loss_of(line, x, x));
        CHECK(ls_step(sgd));
        ls_schedule_step(falling);
        CHECK_NEAR(ls_optim_lr(sgd), policy == LS_SCHEDULE_PER_PROCESS ? 1 - world / 10 : 0.9, 1e-12);
        ls_free_memory(run);
    }
    run->step->schedule_policy = LS_SCHEDULE_PER_PROCESS;
    ls_optim *sgd = ls_sgd_new(run, make_line(run), .lr = 1);
    ls_schedule *cycle = ls_one_cycle_schedule_new(sgd, .max_lr = 0.01, .steps_per_epoch = 2, .epochs = 1);
    CHECK(ls_step(sgd));
    ls_schedule_step(cycle);
    CHECK(ls_schedule_position(cycle) == ls_world_size(run));
    check_no_error(run);
}

static void schedules_follow_their_policy(void)
{
    team_run(1, step_schedules);
    team_run(2, step_schedules);
}

/* A schedule of 20 steps from 10 reaches 0 after 10 k batches on two processes, k per step: not one batch earlier. */
static void end_a_schedule(ls_run *run)
{
    run->step->schedule_policy = LS_SCHEDULE_PER_PROCESS;
    for (int k = 1; k <= 4; k *= 2) {
        ls_set_gradient_accumulation_steps(run, k);
        ls_module *line = make_line(run);
        ls_optim *sgd = ls_sgd_new(run, line, .lr = 10);
        ls_schedule *falling = ls_warmup_linear_schedule_new(sgd, 0, 20);
        ls_prepare(run, line, sgd, falling);
        ls_tensor *x = ls_zeros(run, LS_F32, 2, 1);
        for (int i = 0; i < 10 * k; i++) {
            CHECK(ls_optim_lr(sgd) > 0);
            ls_accumulate(run)
            {
                ls_backward(run, loss_of(line, x, x));
                ls_step(sgd);
                ls_schedule_step(falling);
                ls_zero_grad(sgd);
            }
        }
        CHECK(ls_optim_lr(sgd) == 0);
        ls_free_memory(run);
    }
    check_no_error(run);
}

static void a_schedule_ends_with_its_steps(void)
{
    team_run(2, end_a_schedule);
}

/* ---- orders ---- */

static bool get_number(int64_t index, ls_sample *sample, void *user)
{
    (void)user;
    *(float *)ls_sample_field(sample, 0) = (float)index;
    return true;
}

/* Random numbers may be seeded by rank: all processes still read parts of one order. */
static void read_with_seeds_of_ones_own(ls_run *run)
{
    enum { COUNT = 22 };
    static const int64_t sizes[] = {4, 4, 4, 4, 4, 2};
    int64_t numbers[COUNT];
    for (int i = 0; i < COUNT; i++) numbers[i] = i;
    ls_set_seed(run, (uint64_t)(100 + ls_rank(run)));
    for (int way = 0; way < 4; way++) {
        ls_dataset *set = ls_dataset_new(run, .count = COUNT, .get = get_number, .fields = {{"x", LS_F32}});
        ls_sampler *sampler = way == 2   ? ls_random_sampler_new(run)
                              : way == 3 ? ls_batch_sampler_new(run, sizes, 6, numbers)
                                         : NULL;
        ls_loader *loader = ls_loader_new(run, set, .batch = way == 3 ? LS_AUTO : 4, .shuffle = way == 1, .workers = 4,
                                          .sampler = sampler);
        ls_prepare(run, loader);
        int seen[COUNT] = {0};
        int64_t rows = 0;
        for (ls_batch b; ls_next(loader, &b);) {
            float x[64];
            ls_tensor *all = way == 3 ? ls_gather_with_repeats(run, b.tensor[0]) : ls_gather(run, b.tensor[0]);
            CHECK(ls_numel(all) <= 64 && ls_read(all, x, (size_t)ls_numel(all) * sizeof *x));
            for (int64_t i = 0; i < ls_numel(all); i++, rows++) seen[(int)x[i]]++;
        }
        CHECK(rows == COUNT);
        for (int i = 0; i < COUNT; i++) CHECK_MSG(seen[i] == 1, "way %d: sample %d came %d times", way, i, seen[i]);
    }
    check_no_error(run);
}

static void all_read_parts_of_one_order(void)
{
    team_fork(2, read_with_seeds_of_ones_own);
}

static void read_different_data(ls_run *run)
{
    ls_loader *loader = ls_loader_new(run, line_data(run, 20 - ls_rank(run)), .batch = 4);
    ls_prepare(run, loader);
    CHECK(ls_error(run) == LS_ERR_VALUE);
    CHECK_TEXT(ls_error_message(run), "ls_prepare: a loader reads 20 samples in batches of 4 in process 0, but 19 in "
                                      "batches of 4 in process 1: all must see the same data");
}

static void data_that_differs_is_refused(void)
{
    team_run(2, read_different_data);
}

/* ---- metrics ---- */

typedef struct ending {
    int64_t samples, batch;
    int world;
    int64_t rest, steps;
} ending;

static const ending endings[] = {
    {82, 16, 2, 18, 3}, {99, 16, 2, 3, 4}, {99, 16, 4, 35, 2}, {512, 16, 2, 0, 16}, {9, 5, 2, 9, 1}, {22, 4, 2, 6, 3},
};

static void count_endings(ls_run *run)
{
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const ending *want = &endings[i];
        if (want->world != ls_world_size(run)) continue;
        ls_loader *loader = ls_loader_new(run, line_data(run, want->samples), .batch = want->batch);
        ls_prepare(run, loader);
        int64_t steps = 0, last = 0;
        for (ls_batch b; ls_next(loader, &b); steps++) last = ls_dim(ls_gather(run, b.tensor[0]), 0);
        CHECK(steps == want->steps && last == (want->rest ? want->rest : want->batch * want->world));
    }
    check_no_error(run);
}

static void the_last_batch_has_what_is_left(void)
{
    team_run(2, count_endings);
    team_run(4, count_endings);
}

static void drop_and_skip(ls_run *run)
{
    int64_t world = ls_world_size(run), rows = 0;
    ls_loader *dropping = ls_loader_new(run, line_data(run, 10 * world + 1), .batch = 5, .drop_last = true);
    ls_prepare(run, dropping);
    ls_batch b;
    CHECK(ls_next(dropping, &b) && ls_next(dropping, &b));
    CHECK(ls_dim(ls_gather(run, b.tensor[0]), 0) == 5 * world && !ls_next(dropping, &b));
    /* skipped samples are absent, padding is not counted */
    for (int64_t skip = 0; skip < 3; skip++) {
        ls_loader *loader = ls_loader_new(run, line_data(run, 10), .batch = 2);
        ls_prepare(run, loader);
        ls_skip_first_batches(loader, skip);
        for (rows = 0; ls_next(loader, &b);) rows += ls_dim(ls_gather(run, b.tensor[0]), 0);
        CHECK(rows == 10 - 2 * world * skip);
    }
    check_no_error(run);
}

static void dropped_and_skipped_samples_are_not_counted(void)
{
    team_run(2, drop_and_skip);
}

static bool next_number(ls_sample *sample, void *user)
{
    int *next = user;
    if (*next == 30) return false;
    *(float *)ls_sample_field(sample, 0) = (float)(*next)++;
    return true;
}

static void begin_again(int64_t epoch, void *user)
{
    (void)epoch;
    *(int *)user = 0;
}

static void count_a_stream(ls_run *run)
{
    int next = 0;
    ls_dataset *set =
        ls_stream_dataset_new(run, .next = next_number, .begin = begin_again, .user = &next, .fields = {{"x", LS_F32}});
    ls_loader *loader = ls_loader_new(run, set, .batch = 4);
    ls_prepare(run, loader);
    int64_t rows = 0;
    double sum = 0;
    for (ls_batch b; ls_next(loader, &b);) {
        ls_tensor *all = ls_gather(run, b.tensor[0]);
        rows += ls_numel(all);
        sum += ls_item(ls_sum(all));
    }
    CHECK(rows == 30 && sum == 435);
    check_no_error(run);
}

static void streams_are_counted_too(void)
{
    team_fork(2, count_a_stream);
}

/* ---- operations ---- */

static void operate(ls_run *run)
{
    int rank = ls_rank(run), world = ls_world_size(run);
    /* a tensor of rank 0 only reaches all */
    int64_t got[3] = {0};
    ls_tensor *t = rank ? NULL : ls_from(run, LS_I64, LS_SHAPE(3), (int64_t[]){1, 2, 3});
    t = ls_broadcast(run, t, 0);
    CHECK(ls_dtype_of(t) == LS_I64 && ls_ndim(t) == 1 && ls_read(t, got, sizeof got));
    CHECK(got[0] == 1 && got[1] == 2 && got[2] == 3);
    t = ls_broadcast(run, rank == world - 1 ? ls_full_shape(run, LS_F32, 7, LS_SCALAR) : NULL, world - 1);
    CHECK(ls_ndim(t) == 0 && ls_item(t) == 7);
    /* what is distributed is gathered again */
    float all[64];
    ls_tensor *data = ls_arange(run, LS_F32, 17, 0, 1);
    CHECK(ls_numel(ls_gather(run, ls_split_tensor_between_processes(run, data, true))) ==
          (17 + world - 1) / world * world);
    ls_tensor *parts = ls_gather(run, ls_split_tensor_between_processes(run, data, false));
    CHECK(ls_numel(parts) == 17 && ls_read(parts, all, 17 * sizeof *all));
    for (int i = 0; i < 17; i++) CHECK(all[i] == (float)i);
    check_no_error(run);
    CHECK(!ls_is_valid(ls_broadcast(run, rank == 0 ? NULL : data, 0)) && ls_error(run) == LS_ERR_VALUE);
    CHECK_TEXT(ls_error_message(run), "ls_broadcast: process 0 has no tensor to send");
    ls_clear_error(run);
}

static void tensors_are_exchanged_as_documented(void)
{
    team_run(1, operate);
    team_run(2, operate);
    team_run(4, operate);
}

/* Rows of an evenly distributed batch: the least multiple of the number of processes. */
static void rows_are_padded_to_a_multiple(void)
{
    static const struct {
        int64_t rows;
        int world;
        int64_t padded;
    } table[] = {{1, 2, 2}, {3, 2, 4},   {4, 3, 6}, {3, 4, 4},   {4, 6, 6}, {1, 6, 6},
                 {2, 6, 6}, {61, 6, 66}, {5, 4, 8}, {10, 6, 12}, {7, 3, 9}, {12, 6, 12}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        CHECK(ls_share_largest(table[i].rows, table[i].world) * table[i].world == table[i].padded);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN_FORK(unsynchronised_gradients_stay_local);
    CHECK_RUN_FORK(optimisers_in_turn_keep_accumulated_gradients);
    CHECK_RUN_FORK(a_join_loses_no_gradients);
    CHECK_RUN_FORK(weights_of_all_processes_count);
    CHECK_RUN_FORK(one_synchronised_pass_reduces_all);
    CHECK_RUN_FORK(groups_of_batches_give_the_mean_of_all);
    CHECK_RUN(mixed_precision_fits_the_line_of_one_process);
    CHECK_RUN(schedules_follow_their_policy);
    CHECK_RUN(a_schedule_ends_with_its_steps);
    CHECK_RUN_FORK(all_read_parts_of_one_order);
    CHECK_RUN(data_that_differs_is_refused);
    CHECK_RUN(the_last_batch_has_what_is_left);
    CHECK_RUN(dropped_and_skipped_samples_are_not_counted);
    CHECK_RUN_FORK(streams_are_counted_too);
    CHECK_RUN(tensors_are_exchanged_as_documented);
    CHECK_RUN(rows_are_padded_to_a_multiple);
    return check_done();
}
