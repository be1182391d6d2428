/* train.c - several processes train as one: the same numbers as one process with their batches together. */
#include <lockstep.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "base/config.h"
#include "base/memory.h"
#include "folder.h"
#include "parallel/inside.h"
#include "run/team.h"

#define FOLDER "parallel_test"

enum { SAMPLES = 48, FEATURES = 12, CLASSES = 5, GLOBAL_BATCH = 8, STEPS = 50, MOST = 1 << 14 };

/* ---- results of runs ---- */

typedef struct left {
    int64_t count;
    float value[MOST];
    double losses;
} left;

static bool several_hosts;

static left *results; /* [TEAM_MAX], shared with forked processes */

static void leave_parameters(ls_run *run, ls_module *model)
{
    left *mine = &results[ls_rank(run)];
    mine->count = team_read(model, mine->value);
}

/* ---- the same training on any number of processes ---- */

typedef struct setup {
    bool convolution, adam;
    bool recompute; /* recompute activations */
    int64_t accumulation;
    ls_dtype compression;
    int steps;        /* 0: STEPS */
    const char *save; /* folder for a checkpoint at the end */
    const char *load; /* and one to start from */
} setup;

static setup now;

static ls_module *make_model(ls_run *run)
{
    if (!now.convolution)
        return ls_sequential_new(run, ls_linear_new(run, FEATURES, 40), ls_relu_new(run), ls_linear_new(run, 40, 24),
                                 ls_gelu_new(run), ls_linear_new(run, 24, CLASSES));
    return ls_sequential_new(run, ls_conv2d_new(run, 3, 8, 3, .padding = 1), ls_relu_new(run),
                             ls_conv2d_new(run, 8, 4, 2, .stride = 2), ls_relu_new(run), ls_flatten_new(run),
                             ls_linear_new(run, 4, CLASSES));
}

static ls_loader *make_loader(ls_run *run)
{
    float x[SAMPLES * FEATURES];
    int64_t y[SAMPLES];
    for (int i = 0; i < SAMPLES * FEATURES; i++) x[i] = (float)((i * 7919) % 1000) / 500 - 1;
    for (int i = 0; i < SAMPLES; i++) y[i] = (i * 31) % CLASSES;
    ls_shape shape = now.convolution ? LS_SHAPE(SAMPLES, 3, 2, 2) : LS_SHAPE(SAMPLES, FEATURES);
    ls_dataset *set = ls_tensor_dataset_new(run, ls_keep(ls_from(run, LS_F32, shape, x)),
                                            ls_keep(ls_from(run, LS_I64, LS_SHAPE(SAMPLES), y)));
    return ls_loader_new(run, set, .batch = GLOBAL_BATCH / ls_world_size(run) / now.accumulation, .shuffle = true,
                         .seed = 99);
}

static void train(ls_run *run)
{
    ls_set_seed(run, (uint64_t)(7 + 100 * ls_rank(run))); /* the weights of rank 0 are used */
    ls_set_gradient_accumulation_steps(run, now.accumulation);
    run->session->compression = now.compression;
    ls_module *model = make_model(run);
    ls_set_recompute(model, now.recompute);
    for (int i = 0; i < 3; i++) ls_set_recompute(ls_child_at(model, i), now.recompute);
    ls_optim *optim =
        now.adam ? ls_adamw_new(run, model, .lr = 1e-3) : ls_sgd_new(run, model, .lr = 0.05, .momentum = 0.9);
    ls_loader *loader = make_loader(run);
    ls_prepare(run, model, optim, loader);
    if (now.load) CHECK(ls_load_state(run, now.load));
    int64_t end = now.steps ? now.steps : STEPS;
    for (int epoch; ls_optim_steps_taken(optim) < end && ls_epoch(run, 100, &epoch);) {
        for (ls_batch b; ls_optim_steps_taken(optim) < end && ls_next(loader, &b);) {
            ls_backward(run, ls_cross_entropy(ls_forward(model, ls_batch_field(&b, "0")), ls_batch_field(&b, "1")));
            ls_clip_grad_norm(optim, 5);
            ls_step(optim);
            ls_zero_grad(optim);
            if (now.save && ls_optim_steps_taken(optim) == end) CHECK(ls_save_state(run, now.save));
        }
    }
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
    CHECK(ls_optim_steps_taken(optim) == end);
    leave_parameters(run, model);
}

static void compare(int world, const left *one, double tolerance)
{
    for (int r = 0; r < world; r++) {
        double largest = 0;
        CHECK(results[r].count == one->count && one->count > 0);
        for (int64_t i = 0; i < one->count; i++) largest = fmax(largest, fabs(results[r].value[i] - one->value[i]));
        CHECK_MSG(largest <= tolerance, "rank %d of %d is %g away from one process", r, world, largest);
        CHECK(memcmp(results[r].value, results[0].value, (size_t)one->count * sizeof(float)) == 0);
    }
}

static void check_training(setup s, double tolerance, bool processes)
{
    static left one;
    now = s;
    team_run(1, train);
    one = results[0];
    for (int world = 2; world <= 4; world *= 2) {
        memset(results, 0, sizeof *results * TEAM_MAX);
        if (processes) team_fork(world, train);
        else team_run(world, train);
        compare(world, &one, tolerance);
    }
}

static void processes_train_as_one(void)
{
    check_training((setup){.accumulation = 1}, 1e-6, true);
    check_training((setup){.accumulation = 1, .convolution = true}, 1e-6, true);
}

static void adam_trains_the_same_way(void)
{
    check_training((setup){.accumulation = 1, .adam = true}, 2e-6, false);
}

static void batches_add_up_before_they_are_reduced(void)
{
    check_training((setup){.accumulation = 2}, 1e-6, false);
}

static void gradients_of_recomputed_modules_are_reduced_once(void)
{
    static left plain;
    now = (setup){.accumulation = 2};
    team_run(2, train);
    plain = results[0];
    memset(results, 0, sizeof *results * TEAM_MAX);
    now.recompute = true;
    team_run(2, train);
    compare(2, &plain, 0);
}

static void training_works_without_a_communication_thread(void)
{
    setenv("LOCKSTEP_COMM_WORKERS", "0", 1);
    ls_config_reload();
    check_training((setup){.accumulation = 1}, 1e-6, false);
    unsetenv("LOCKSTEP_COMM_WORKERS");
    ls_config_reload();
}

static void gradients_may_be_sent_in_half_precision(void)
{
    check_training((setup){.accumulation = 1, .compression = LS_BF16}, 0.03, false);
    check_training((setup){.accumulation = 1, .compression = LS_F16}, 0.01, false);
}

/* Started by one number of processes, finished by another: as if one process had done it all. */
static void checkpoints_move_between_numbers_of_processes(void)
{
    static const int worlds[][2] = {{2, 1}, {1, 2}, {2, 4}, {2, 2}};
    static left one;
    now = (setup){.accumulation = 1, .adam = true};
    team_run(1, train);
    one = results[0];
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        folder_fresh(FOLDER);
        now = (setup){.accumulation = 1, .adam = true, .steps = 20, .save = FOLDER "/part"};
        team_run(worlds[i][0], train);
        now = (setup){.accumulation = 1, .adam = true, .load = FOLDER "/part"};
        team_run(worlds[i][1], train);
        compare(worlds[i][1], &one, 2e-6);
    }
    folder_remove(FOLDER);
}

/* ---- parameters that are not used by all ---- */

static ls_tensor *one_number(ls_run *run, double value)
{
    return ls_set_requires_grad(ls_keep(ls_full(run, LS_F32, value, 1)), true);
}

typedef struct branches {
    ls_module *model;
    ls_tensor *both, *mine[2], *nobody;
} branches;

static branches make_branches(ls_run *run)
{
    branches b = {.model = ls_module_new(run, "branches", NULL, NULL)};
    b.both = ls_register_parameter(b.model, "both", one_number(run, 2));
    b.mine[0] = ls_register_parameter(b.model, "first", one_number(run, 3));
    b.mine[1] = ls_register_parameter(b.model, "second", one_number(run, 5));
    b.nobody = ls_register_parameter(b.model, "nobody", one_number(run, 7));
    return b;
}

static double gradient(ls_tensor *t)
{
    ls_tensor *g = ls_grad(t);
    return g ? ls_item(g) : NAN;
}

static void use_different_parameters(ls_run *run)
{
    branches b = make_branches(run);
    ls_optim *sgd = ls_sgd_new(run, b.model, .lr = 1);
    ls_prepare(run, b.model, sgd);
    for (int step = 0; step < 3; step++) {
        double both = ls_item(b.both), own[2] = {ls_item(b.mine[0]), ls_item(b.mine[1])};
        ls_backward(run, ls_sum(ls_mul(b.both, b.mine[ls_rank(run)])));
        CHECK_NEAR(gradient(b.both), (own[0] + own[1]) / 2, 1e-6);
        CHECK_NEAR(gradient(b.mine[0]), both / 2, 1e-6);
        CHECK_NEAR(gradient(b.mine[1]), both / 2, 1e-6);
        CHECK(isnan(gradient(b.nobody)));
        ls_step(sgd);
        ls_zero_grad(sgd);
    }
    CHECK_NEAR(ls_item(b.nobody), 7, 0);
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
}

static void unused_parameters_count_as_zero(void)
{
    team_run(2, use_different_parameters);
}

static void freeze_and_unfreeze(ls_run *run)
{
    branches b = make_branches(run);
    ls_set_requires_grad(b.mine[0], false);
    ls_optim *sgd = ls_sgd_new(run, b.model, .lr = 1);
    ls_prepare(run, b.model, sgd);
    for (int step = 0; step < 4; step++) {
        if (step == 2) ls_set_requires_grad(b.mine[0], true);
        ls_backward(run, ls_mul_scalar(ls_sum(ls_mul(b.both, b.mine[0])), 1 + ls_rank(run)));
        CHECK_NEAR(gradient(b.both), 1.5 * ls_item(b.mine[0]), 1e-6);
        if (step >= 2) CHECK_NEAR(gradient(b.mine[0]), 1.5 * ls_item(b.both), 1e-6);
        ls_step(sgd);
        ls_zero_grad(sgd);
    }
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
}

static void parameters_may_be_frozen_and_unfrozen(void)
{
    team_run(2, freeze_and_unfreeze);
}

/* ---- in shared memory, in few pieces ---- */

static void look_inside(ls_run *run)
{
    ls_module *model = make_model(run);
    ls_optim *sgd = ls_sgd_new(run, model, .lr = 0.1);
    ls_prepare(run, model, sgd);
    ls_reducer *reducer = run->step->reducer;
    for (int step = 0; step < 3; step++) {
        ls_tensor *x = ls_ones(run, LS_F32, 4, FEATURES);
        ls_backward(run, ls_sum(ls_forward(model, x)));
        if (step == 0) continue; /* the order is found in the first step */
        CHECK(reducer->ordered && reducer->bucket_count == 1);
        CHECK_MSG(reducer->buckets[0].extent_count == 1, "%d extents", reducer->buckets[0].extent_count);
        CHECK(reducer->buckets[0].extents[0].block == 0);
        CHECK(reducer->order[0] >= 4 && reducer->order[5] <= 1); /* from the last layer to the first */
        uint64_t before = ls_sys_calls();
        ls_step(sgd);
        ls_zero_grad(sgd);
        CHECK(ls_sys_calls() == before);
    }
}

static void gradients_are_reduced_in_place(void)
{
    now = (setup){.accumulation = 1};
    team_run(2, look_inside);
}

/* ---- buffers ---- */

static void normalise(ls_run *run)
{
    ls_module *norm = ls_batch_norm_new(run, 3);
    ls_optim *sgd = ls_sgd_new(run, norm, .lr = 0.1);
    ls_prepare(run, norm, sgd);
    ls_tensor *x = ls_add_scalar(ls_reshape(ls_arange(run, LS_F32, 12, 0, 1), 4, 3), 100 * ls_rank(run));
    ls_backward(run, ls_sum(ls_forward(norm, x)));
    ls_tensor *mean = ls_module_tensor(norm, "running_mean");
    CHECK_NEAR(ls_item(ls_sum(mean)), 0.1 * (4.5 + 5.5 + 6.5), 1e-5); /* of rank 0 */
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
}

static void buffers_are_those_of_rank_0(void)
{
    team_run(2, normalise);
}

/* ---- the communication thread ---- */

typedef struct counted {
    const ls_comm_table *table; /* of the watched communicator */
    pthread_t runs;             /* the thread of the run */
    int calls, of_run;
} counted;

static counted counts[TEAM_MAX];

static ls_status count_call(ls_comm *comm, const ls_comm_call *call, ls_message *why)
{
    counted *c = &counts[comm->rank];
    c->calls++;
    c->of_run += pthread_equal(pthread_self(), c->runs);
    return c->table->run(comm, call, why);
}

static void count_calls(ls_run *run)
{
    enum { LAYERS = 5 };
    ls_module *model = ls_sequential_new(run, ls_linear_new(run, FEATURES, FEATURES));
    for (int i = 0; i < LAYERS; i++) ls_module_append(model, ls_batch_norm_new(run, FEATURES));
    ls_optim *sgd = ls_sgd_new(run, model, .lr = 0.1);
    ls_prepare(run, model, sgd);
    ls_tensor *x = ls_reshape(ls_arange(run, LS_F32, 4 * FEATURES, 0, 0.1 + ls_rank(run)), 4, FEATURES);
    ls_comm *comm = ls_reducer_comm(run->step->reducer);
    counted *c = &counts[comm->rank];
    *c = (counted){.table = comm->table, .runs = pthread_self()};
    ls_comm_table counting = *comm->table;
    counting.run = count_call;
    for (int step = 0; step < 3; step++) {
        if (step == 2) comm->table = &counting; /* the order of gradients is known */
        ls_backward(run, ls_sum(ls_forward(model, x)));
        ls_step(sgd);
        ls_zero_grad(sgd);
    }
    comm->table = c->table;
    /* One bucket, all buffers, the used flags. */
    CHECK_MSG(c->calls == 3, "%d calls", c->calls);
    CHECK_MSG(c->of_run == 0, "%d of %d calls are made by the thread that computes", c->of_run, c->calls);
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
}

static void a_pass_waits_only_for_its_buckets(void)
{
    team_run(2, count_calls);
}

/* ---- uneven inputs ---- */

static void run_out_early(ls_run *run)
{
    branches b = make_branches(run);
    ls_optim *sgd = ls_sgd_new(run, b.model, .lr = 0.1);
    ls_prepare(run, b.model, sgd);
    int steps = ls_rank(run) == 1 ? 4 : 2;
    ls_join_uneven_inputs(run)
    {
        for (int i = 0; i < steps; i++) {
            ls_backward(run, ls_sum(b.both));
            CHECK_NEAR(gradient(b.both), i < 2 ? 1 : 0.5, 1e-6);
            ls_step(sgd);
            ls_zero_grad(sgd);
        }
    }
    CHECK_NEAR(ls_item(b.both), 2 - 0.1 * 3, 1e-6);                     /* two whole steps and two halves, everywhere */
    CHECK_NEAR(ls_item(ls_sum(ls_gather(run, b.both))), 2 * 1.7, 1e-6); /* and calls match again */
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
}

static void a_process_without_batches_takes_part(void)
{
    team_run(2, run_out_early);
}

/* A process that ended earlier has taken fewer steps: it takes over the moments, counts and rates of the others, or the
 * same gradients would change its parameters differently from then on. */
static void go_on_after_running_out(ls_run *run)
{
    enum { EPOCHS = 3 };
    branches b = make_branches(run);
    ls_optim *adam = ls_adam_new(run, b.model, .lr = 0.1);
    ls_schedule *schedule = ls_cosine_schedule_new(adam, 20, 0);
    ls_prepare(run, b.model, adam, schedule);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        int steps = ls_rank(run) == 1 ? 4 : 1;
        ls_join_uneven_inputs(run)
        {
            for (int i = 0; i < steps; i++) {
                ls_backward(run, ls_mul_scalar(ls_sum(b.both), 1 + i));
                ls_step(adam);
                ls_schedule_step(schedule);
                ls_zero_grad(adam);
            }
        }
        CHECK(ls_optim_steps_taken(adam) == 4 * (epoch + 1) && ls_schedule_position(schedule) == 4 * (epoch + 1));
    }
    for (int i = 0; i < 3; i++) {
        ls_backward(run, ls_sum(b.both));
        ls_step(adam);
        ls_zero_grad(adam);
    }
    float both[2];
    CHECK(ls_read(ls_gather(run, b.both), both, sizeof both));
    CHECK_MSG(both[0] == both[1], "%.9g and %.9g", both[0], both[1]);
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
}

static void a_process_with_fewer_batches_catches_up(void)
{
    team_run(2, go_on_after_running_out);
}

/* ---- what cannot be trained together ---- */

static void differ(ls_run *run)
{
    ls_module *model = ls_linear_new(run, 3, 4 + ls_rank(run));
    ls_prepare(run, model);
    CHECK(ls_error(run) != LS_OK);
    CHECK_MSG(strstr(ls_error_message(run), "rank 0 has weight [4,3] f32, rank 1 has weight [5,3] f32"), "%s",
              ls_error_message(run));
}

static void models_that_differ_are_refused(void)
{
    team_run(2, differ);
}

static void fail_on_one(ls_run *run)
{
    branches b = make_branches(run);
    ls_prepare(run, b.model, ls_sgd_new(run, b.model, .lr = 0.1));
    ls_tensor *loss = ls_sum(b.both);
    if (ls_rank(run) == 1) ls_matmul(ls_ones(run, LS_F32, 2, 3), ls_ones(run, LS_F32, 2, 3));
    ls_backward(run, loss);
    if (ls_rank(run) == 1) ls_wait_for_everyone(run);
    CHECK(ls_error(run) == (ls_rank(run) ? LS_ERR_SHAPE : LS_ERR_PEER));
    if (ls_rank(run) == 0) CHECK(strstr(ls_error_message(run), "rank 1 failed: matmul"));
}

static void a_rank_that_fails_stops_the_others(void)
{
    team_run(2, fail_on_one);
}

/* The same after successful steps. */
static void fail_later(ls_run *run)
{
    branches b = make_branches(run);
    ls_optim *sgd = ls_sgd_new(run, b.model, .lr = 0.1);
    ls_prepare(run, b.model, sgd);
    for (int step = 0; step < 3; step++) {
        ls_tensor *loss = ls_sum(b.both);
        if (step == 2 && ls_rank(run) == 1) ls_matmul(ls_ones(run, LS_F32, 2, 3), ls_ones(run, LS_F32, 2, 3));
        ls_backward(run, loss);
        ls_step(sgd);
        ls_zero_grad(sgd);
    }
    if (ls_rank(run) == 1) ls_wait_for_everyone(run);
    CHECK(ls_error(run) == (ls_rank(run) ? LS_ERR_SHAPE : LS_ERR_PEER));
}

/* ---- one process has less memory ---- */

static int too_large_at; /* -1: before ls_prepare; else the step in which batches are too large */

static void try_size(ls_run *run, int64_t size, void *user)
{
    int *tried = user;
    tried[0]++;
    ls_module *model = ls_linear_new(run, 3, 1);
    if (too_large_at < 0 && ls_rank(run) == 1 && size > 6) ls_fail(&run->errors, LS_ERR_MEMORY, "too large");
    ls_optim *sgd = ls_sgd_new(run, model, .lr = 0.01);
    ls_prepare(run, model, sgd);
    for (int i = 0; i < 3; i++) {
        ls_tensor *loss = ls_sum(ls_forward(model, ls_ones(run, LS_F32, size, 3)));
        if (i == too_large_at && ls_rank(run) == 1 && size > 6) ls_fail(&run->errors, LS_ERR_MEMORY, "too large");
        ls_backward(run, loss);
        ls_step(sgd);
        ls_zero_grad(sgd);
    }
}

static void search(ls_run *run)
{
    int tried = 0;
    int64_t size = ls_find_batch_size(run, 10, try_size, &tried); /* 10 9 8 7 6 */
    CHECK_MSG(size == 6 && tried == 5, "%lld after %d: %s", (long long)size, tried, ls_error_message(run));
    CHECK(ls_error(run) == LS_OK);
    CHECK_NEAR(ls_item(ls_sum(ls_gather(run, ls_ones(run, LS_F32, 1)))), 2, 0); /* calls match again */
}

static void all_find_the_same_batch_size(void)
{
    for (too_large_at = -1; too_large_at < 2; too_large_at++) team_run(2, search);
}

/* ---- devices ---- */

static void train_on(const char *device, double tolerance)
{
    static const setup setups[] = {{.accumulation = 1},
                                   {.accumulation = 1, .convolution = true},
                                   {.accumulation = 2, .adam = true},
                                   {.accumulation = 1, .compression = LS_BF16}};
    static left on_host[TEAM_MAX];
    for (size_t i = 0; i < sizeof setups / sizeof *setups; i++) {
        for (int world = 2; world <= 4; world *= 2) {
            now = setups[i];
            now.steps = 20;
            team_fork(world, train);
            memcpy(on_host, results, sizeof on_host);
            memset(results, 0, sizeof *results * TEAM_MAX);
            team_device = device;
            team_fork(world, train);
            team_device = NULL;
            for (int r = 0; r < world; r++) {
                double largest = 0;
                CHECK(results[r].count > 0 && results[r].count == on_host[r].count);
                for (int64_t k = 0; k < results[r].count; k++)
                    largest = fmax(largest, fabs(results[r].value[k] - on_host[r].value[k]));
                CHECK_MSG(largest <= tolerance, "setup %zu: rank %d of %d is %g away", i, r, world, largest);
            }
        }
    }
}

/* Its memory is not host memory and it works asynchronously: gradients and buffers pass through the host. */
static void another_device_trains_to_the_same_bits(void)
{
    train_on(ASYNC_DEVICE, 0);
}

static void do_the_rest(const char *device)
{
    team_device = device;
    team_run(2, normalise);
    team_run(2, count_calls);
    team_run(2, use_different_parameters);
    team_run(2, freeze_and_unfreeze);
    team_run(2, run_out_early);
    team_run(2, fail_on_one);
    team_device = NULL;
}

static void another_device_supports_everything_else(void)
{
    do_the_rest(ASYNC_DEVICE);
}

/* It has its own collective library, which reduces in rank order; between hosts Lockstep sums each host first. */
static void a_device_with_groups_trains_to_the_same_bits(void)
{
    train_on(GROUPED_DEVICE, several_hosts ? 1e-6 : 0);
}

static int count_of(void *plugin, const char *name)
{
    return atomic_load((atomic_int *)dlsym(plugin, name));
}

static void groups_are_used_and_closed(void)
{
    void *plugin = dlopen(GROUPED_DEVICE, RTLD_NOW);
    CHECK_MSG(plugin, "%s", dlerror());
    if (!plugin) return;
    do_the_rest(GROUPED_DEVICE);
    CHECK(count_of(plugin, "grouped_calls") > 20);
    int before = count_of(plugin, "grouped_aborts");
    team_device = GROUPED_DEVICE;
    team_run(2, fail_later);
    team_device = NULL;
    CHECK(count_of(plugin, "grouped_aborts") > before);
    dlclose(plugin);
}

static void mix_devices(ls_run *run)
{
    ls_module *model = ls_module_new(run, "mixed", NULL, NULL);
    ls_register_parameter(model, "here", one_number(run, 1));
    ls_tensor *there = ls_set_requires_grad(ls_keep(ls_to_device(ls_ones(run, LS_F32, 1), ASYNC_DEVICE)), true);
    ls_register_parameter(model, "there", there);
    ls_prepare(run, model);
    CHECK_MSG(strstr(ls_error_message(run), "ls_prepare: there is on device") &&
                  strstr(ls_error_message(run), "other tensors are on cpu"),
              "%s", ls_error_message(run));
}

static void a_model_on_two_devices_is_refused(void)
{
    team_run(2, mix_devices);
}

/* With --hosts 0101 ranks belong to several hosts, one character each. */
int main(int argc, char **argv)
{
    int given = argc > 2 && strcmp(argv[1], "--hosts") == 0 ? 2 : 0;
    several_hosts = given > 0;
    if (given) crew_layout = argv[2];
    if (argc > 1 + given) check_filter = argv[1 + given];
    results = mmap(NULL, sizeof *results * TEAM_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK_RUN_FORK(processes_train_as_one);
    CHECK_RUN_FORK(another_device_trains_to_the_same_bits);
    CHECK_RUN_FORK(a_device_with_groups_trains_to_the_same_bits);
    CHECK_RUN(adam_trains_the_same_way);
    CHECK_RUN(batches_add_up_before_they_are_reduced);
    CHECK_RUN(gradients_of_recomputed_modules_are_reduced_once);
    CHECK_RUN(training_works_without_a_communication_thread);
    CHECK_RUN(gradients_may_be_sent_in_half_precision);
    CHECK_RUN(checkpoints_move_between_numbers_of_processes);
    CHECK_RUN(unused_parameters_count_as_zero);
    CHECK_RUN(parameters_may_be_frozen_and_unfrozen);
    CHECK_RUN(gradients_are_reduced_in_place);
    CHECK_RUN(buffers_are_those_of_rank_0);
    CHECK_RUN(a_pass_waits_only_for_its_buckets);
    CHECK_RUN(a_process_without_batches_takes_part);
    CHECK_RUN(a_process_with_fewer_batches_catches_up);
    CHECK_RUN(models_that_differ_are_refused);
    CHECK_RUN(a_rank_that_fails_stops_the_others);
    CHECK_RUN(all_find_the_same_batch_size);
    CHECK_RUN(another_device_supports_everything_else);
    CHECK_RUN(groups_are_used_and_closed);
    CHECK_RUN(a_model_on_two_devices_is_refused);
    return check_done();
}
