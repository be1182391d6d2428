/* shard.c - optimisers with sharded state give the same results as those without, bit for bit. */
#include <lockstep.h>

#include <sys/mman.h>

#include "base/config.h"
#include "base/memory.h"
#include "comm/crew.h"
#include "folder.h"
#include "optim/optim.h"
#include "optim/scaler.h"
#include "run/team.h"

enum { FEATURES = 12, CLASSES = 5, BATCH = 4, STEPS = 50, MOST = 1 << 18 };

/* ---- results of runs ---- */

typedef struct left {
    int64_t count, skipped;
    float value[MOST];
    double norms;
} left;

static left *results, before[TEAM_MAX]; /* results: [TEAM_MAX], shared with forked processes */

static void leave(ls_run *run, ls_module *model)
{
    left *mine = &results[ls_rank(run)];
    mine->count = team_read(model, mine->value);
}

/* ---- a training with everything ---- */

typedef struct setup {
    bool shard;
    int hidden;    /* width of the hidden layers */
    bool sgd, two; /* optimisers: SGD instead of AdamW; a second one for the last layer */
    bool groups;   /* biases are not decayed */
    double norm, value;
    int accumulation;
    int passes; /* backward passes per batch */
    ls_dtype precision, compression;
    bool freeze;   /* freeze the first layer for some steps; skip the last in others */
    bool overflow; /* on one process, once */
    int steps;
    const char *save, *load;
} setup;

static setup now;

static ls_tensor *hidden_then_last(ls_module *net, ls_tensor *x, void *user)
{
    (void)user;
    x = ls_relu(ls_forward(ls_child(net, "first"), x));
    x = ls_relu(ls_forward(ls_child(net, "middle"), x));
    return ls_forward(ls_child(net, "last"), x);
}

static ls_module *make_model(ls_run *run)
{
    ls_module *net = ls_module_new(run, "Net", hidden_then_last, NULL);
    ls_module_add(net, "first", ls_linear_new(run, FEATURES, now.hidden));
    ls_module_add(net, "middle", ls_linear_new(run, now.hidden, now.hidden + 3));
    ls_module_add(net, "last", ls_linear_new(run, now.hidden + 3, CLASSES));
    return net;
}

static ls_optim *make_optim(ls_run *run, ls_module *model)
{
    ls_state *list = now.two ? ls_state_matching(ls_parameters(model), "first.*|middle.*") : ls_parameters(model);
    ls_optim *optim = now.sgd
                          ? ls_sgd_new(run, NULL, .lr = 0.05, .momentum = 0.9, .weight_decay = 1e-3, .parameters = list)
                          : ls_adamw_new(run, NULL, .lr = 2e-3, .weight_decay = 0.1, .parameters = list);
    if (now.groups)
        ls_optim_add_group(optim, ls_state_matching(ls_parameters(model), "*.bias"), .lr = 1e-2, .weight_decay = 0);
    return optim;
}

/* Different in every process, batch and step. */
static ls_tensor *loss_of(ls_run *run, ls_module *model, int step, int batch)
{
    float x[BATCH * FEATURES];
    int64_t y[BATCH];
    int salt = (step * 10 + batch) * 8 + ls_rank(run);
    for (int i = 0; i < BATCH * FEATURES; i++) x[i] = (float)(((i + salt * 17) * 7919) % 1000) / 500 - 1;
    for (int i = 0; i < BATCH; i++) y[i] = (i * 31 + salt) % CLASSES;
    ls_tensor *out = ls_from(run, LS_F32, LS_SHAPE(BATCH, FEATURES), x);
    bool cut = now.freeze && step % 7 == 3; /* skip the last layer */
    out =
        cut ? ls_forward(ls_child(model, "middle"), ls_forward(ls_child(model, "first"), out)) : ls_forward(model, out);
    ls_tensor *loss = cut ? ls_mean(out) : ls_cross_entropy(out, ls_from(run, LS_I64, LS_SHAPE(BATCH), y));
    if (now.overflow && step == 5 && ls_rank(run) == ls_world_size(run) - 1) loss = ls_mul_scalar(loss, 1e36);
    return loss;
}

static void one_step(ls_run *run, ls_module *model, ls_optim *const *optims, int count, int step)
{
    left *mine = &results[ls_rank(run)];
    if (now.freeze) ls_set_requires_grad(ls_module_tensor(model, "first.weight"), step < 10 || step > 20);
    for (int batch = 0; batch < now.accumulation; batch++) {
        ls_accumulate(run)
        {
            for (int pass = 0; pass < now.passes; pass++) ls_backward(run, loss_of(run, model, step, batch + 3 * pass));
            for (int i = 0; i < count; i++) {
                if (now.norm > 0) mine->norms += ls_item(ls_clip_grad_norm(optims[i], now.norm));
                if (now.value > 0) ls_clip_grad_value(optims[i], now.value);
                ls_step(optims[i]);
                mine->skipped += ls_sync_gradients(run) && ls_optim_step_was_skipped(optims[i]);
                ls_zero_grad(optims[i]);
            }
        }
    }
}

static ls_tensor *some_rows(ls_module *model)
{
    return ls_slice(ls_detach(ls_module_tensor(model, "middle.weight")), 0, 5, 12, 1);
}

static void train(ls_run *run)
{
    results[ls_rank(run)].norms = 0;
    results[ls_rank(run)].skipped = 0;
    ls_set_seed(run, (uint64_t)(7 + 100 * ls_rank(run)));
    ls_set_gradient_accumulation_steps(run, now.accumulation);
    run->session->compression = now.compression;
    run->step->share.optimizer = now.shard;
    ls_module *model = make_model(run);
    ls_optim *optims[2] = {make_optim(run, model)};
    int count = 1;
    if (now.two) optims[count++] = ls_sgd_new(run, ls_child(model, "last"), .lr = 0.01, .momentum = 0.5);
    if (now.two) ls_prepare(run, model, optims[0], optims[1]);
    else ls_prepare(run, model, optims[0]);
    if (now.load) CHECK(ls_load_state(run, now.load));
    if (now.precision == LS_F16) ls_scaler_new(run);
    if (now.precision) ls_autocast_begin(run, now.precision);
    ls_tensor *view = some_rows(model); /* follows the weight when a step moves it */
    for (int step = now.load ? 20 : 0; step < now.steps && !ls_error(run); step++) {
        ls_mark mark = ls_scope_begin(run);
        one_step(run, model, optims, count, step);
        ls_scope_end(run, mark, NULL);
    }
    CHECK(ls_item(ls_sum(view)) == ls_item(ls_sum(some_rows(model))));
    if (now.save) CHECK(ls_save_state(run, now.save));
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
    leave(run, model);
}

static setup defaults(setup s)
{
    if (!s.hidden) s.hidden = 40;
    if (!s.accumulation) s.accumulation = 1;
    if (!s.passes) s.passes = 1;
    if (!s.steps) s.steps = STEPS;
    return s;
}

static void compare(const char *what, int world, double tolerance)
{
    for (int r = 0; r < world; r++) {
        double largest = 0;
        CHECK(results[r].count == before[r].count && results[r].count > 0);
        CHECK_MSG(results[r].skipped == before[r].skipped, "%s: %lld steps skipped, %lld", what,
                  (long long)results[r].skipped, (long long)before[r].skipped);
        CHECK_NEAR(results[r].norms, before[r].norms, 1e-4 * before[r].norms);
        for (int64_t i = 0; i < results[r].count; i++)
            largest = fmax(largest, fabs(results[r].value[i] - before[r].value[i]));
        CHECK_MSG(largest <= tolerance, "%s: rank %d of %d is %g away", what, r, world, largest);
        CHECK(memcmp(results[r].value, results[0].value, (size_t)results[r].count * sizeof(float)) == 0);
    }
}

static void check_same(const char *what, setup s, double tolerance)
{
    for (int world = 2; world <= 4; world++) {
        now = defaults(s);
        team_run(world, train);
        memcpy(before, results, sizeof before);
        now.shard = true;
        team_run(world, train);
        compare(what, world, tolerance);
    }
}

static void the_same_bits_as_without(void)
{
    check_same("AdamW", (setup){.steps = STEPS}, 0);
    check_same("SGD", (setup){.sgd = true, .groups = true}, 0);
    check_same("through shared memory", (setup){.hidden = 300, .steps = 8, .groups = true}, 0);
    check_same("two optimisers", (setup){.two = true}, 0);
    check_same("in half", (setup){.hidden = 200, .compression = LS_BF16, .steps = 20}, 0);
}

/* The ranks above were threads. */
static void processes_too(void)
{
    now = defaults((setup){.hidden = 300, .norm = 1, .steps = 8});
    team_fork(2, train);
    memcpy(before, results, sizeof before);
    now.shard = true;
    team_fork(2, train);
    compare("processes", 2, 0);
}

static void clipping_and_accumulation(void)
{
    check_same("by value", (setup){.value = 0.01, .groups = true, .accumulation = 2}, 0);
    /* The norm is summed in another order, in f64: rounded to f32 it is the same. */
    check_same("by norm", (setup){.norm = 0.5, .groups = true, .accumulation = 3}, 0);
    check_same("by norm, large", (setup){.norm = 0.5, .hidden = 300, .steps = 8}, 0);
    check_same("both optimisers", (setup){.norm = 0.1, .value = 0.05, .two = true, .sgd = true}, 0);
}

static void mixed_precision_and_loss_scaling(void)
{
    check_same("bf16", (setup){.precision = LS_BF16, .norm = 1, .accumulation = 2}, 0);
    check_same("f16", (setup){.precision = LS_F16, .norm = 1, .overflow = true}, 0);
    CHECK(results[0].skipped > 0); /* the same on all processes */
}

static void frozen_and_unused_parameters(void)
{
    check_same("freezing", (setup){.freeze = true, .groups = true}, 0);
    check_same("freezing, SGD", (setup){.freeze = true, .sgd = true, .norm = 1}, 0);
}

/* Means of several passes add up; internally a slice is multiplied by the number of processes and divided again. */
static void several_passes_for_a_step(void)
{
    check_same("passes", (setup){.passes = 2, .sgd = true, .accumulation = 2}, 2e-6);
}

/* ---- several hosts ---- */

static void train_between_hosts(ls_comm *comm, crew_result *result)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_comm *own = comm->table->split(comm, 0, comm->rank, &result->why);
    CHECK_MSG(own && strcmp(own->table->name, "hosts") == 0, "%s", result->why.text);
    if (own) ls_session_join(run, own);
    if (own) train(run);
    ls_finish(run);
}

/* What else a process holds does not decide where its parameters are. */
static void train_slices(ls_run *run)
{
    run->step->share.optimizer = now.shard;
    const int rank = ls_rank(run);
    ls_module *net = ls_module_new(run, "Net", NULL, NULL);
    for (int i = 0; i < 2; i++) { /* slices of living tensors, another one in each process */
        ls_tensor *w = ls_select(ls_full(run, LS_F32, i ? 0.5 : 1, 2, 40, 40), 0, 0);
        ls_register_parameter(net, i ? "second" : "first", rank == i ? w : ls_clone(w));
    }
    ls_optim *sgd = ls_sgd_new(run, net, .lr = 1e-3);
    ls_prepare(run, net, sgd);
    for (int step = 0; step < 3; step++) {
        ls_tensor *x = ls_full(run, LS_F32, 1 + rank, 4, 40);
        for (int i = 0; i < 2; i++) x = ls_matmul(x, ls_module_tensor(net, i ? "second" : "first"));
        ls_backward(run, ls_mean(x));
        CHECK(ls_step(sgd));
        ls_zero_grad(sgd);
    }
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
    leave(run, net);
}

static void what_processes_hold_may_differ(void)
{
    for (int shard = 0; shard < 2; shard++) {
        now = defaults((setup){.shard = shard});
        team_run(2, train_slices);
        for (int r = 0; r < 2; r++) {
            CHECK(results[r].count == 2 * 40 * 40);
            CHECK(memcmp(results[r].value, results[0].value, sizeof(float) * 2 * 40 * 40) == 0);
            /* d first: 1.5 / 40 / 40 * 40 rows of x, times what `second` sums to */
            CHECK_NEAR(results[r].value[0], 1 - 3 * 1e-3 * 1.5 * 0.5, 1e-5);
            CHECK_NEAR(results[r].value[40 * 40], 0.5 - 3 * 1e-3 * 1.5, 1e-4);
        }
    }
}

static void hosts_shard_like_processes(void)
{
    const char *layout = crew_layout;
    crew_layout = "0011";
    now = defaults((setup){.hidden = 150, .norm = 1, .steps = 5, .groups = true});
    crew_run_threads(4, train_between_hosts);
    memcpy(before, results, sizeof before);
    now.shard = true;
    crew_run_threads(4, train_between_hosts);
    compare("hosts", 4, 0);
    crew_layout = layout;
}

/* ---- another device ---- */

static void devices_shard_like_the_host(void)
{
    static const setup setups[] = {{.hidden = 40, .steps = 10},
                                   {.hidden = 300, .steps = 4, .groups = true},
                                   {.hidden = 200, .compression = LS_BF16, .steps = 5},
                                   {.hidden = 40, .passes = 2, .sgd = true, .accumulation = 2, .steps = 10},
                                   {.hidden = 40, .precision = LS_BF16, .steps = 10}};
    for (size_t i = 0; i < sizeof setups / sizeof *setups; i++) {
        now = defaults(setups[i]);
        now.shard = true;
        team_run(2, train);
        memcpy(before, results, sizeof before);
        team_device = ASYNC_DEVICE;
        team_run(2, train);
        team_device = NULL;
        compare("device", 2, 0);
    }
}

/* ---- workers ---- */

static void train_with_workers(const char *count, bool shard)
{
    setenv("LOCKSTEP_COMM_WORKERS", count, 1);
    ls_config_reload();
    now = defaults((setup){.shard = shard, .hidden = 400, .steps = 5, .norm = 1}); /* large slices */
    team_run(2, train);
    unsetenv("LOCKSTEP_COMM_WORKERS");
    ls_config_reload();
}

static void the_number_of_workers_makes_no_difference(void)
{
    train_with_workers("1", false);
    memcpy(before, results, sizeof before);
    for (int shard = 0; shard < 2; shard++) {
        train_with_workers("3", shard);
        compare("three workers", 2, 0);
        train_with_workers("0", shard);
        compare("no workers", 2, 0);
    }
}

/* ---- checkpoints ---- */

static void train_part(bool shard, int world, const char *save, const char *load)
{
    now = defaults((setup){.shard = shard, .norm = 1, .groups = true, .steps = save ? 20 : 30});
    now.save = save;
    now.load = load;
    team_run(world, train);
}

static void same_file(const char *a, const char *b, const char *name)
{
    char path[2][256];
    size_t size[2] = {0};
    snprintf(path[0], sizeof path[0], "%s/%s", a, name);
    snprintf(path[1], sizeof path[1], "%s/%s", b, name);
    char *bytes[2] = {file_text(path[0], &size[0]), file_text(path[1], &size[1])};
    CHECK_MSG(bytes[0] && bytes[1] && size[0] == size[1] && memcmp(bytes[0], bytes[1], size[0]) == 0,
              "%s differs: %zu and %zu bytes", name, size[0], size[1]);
    free(bytes[0]), free(bytes[1]);
}

static void checkpoints_are_the_same_files(void)
{
    char folder[32], plain[48], shared_out[48]; /* of this process: another may run at the same time with more hosts */
    snprintf(folder, sizeof folder, "shard_test_%d", (int)getpid());
    snprintf(plain, sizeof plain, "%s/plain", folder);
    snprintf(shared_out, sizeof shared_out, "%s/shared_out", folder);
    folder_fresh(folder);
    train_part(false, 2, plain, NULL);
    train_part(true, 2, shared_out, NULL);
    same_file(plain, shared_out, "model.safetensors");
    same_file(plain, shared_out, "optimizer.safetensors");
    for (int world = 1; world <= 4; world *= 2) {
        train_part(false, world, NULL, plain);
        memcpy(before, results, sizeof before);
        for (int shard = 0; shard < 2; shard++) {
            train_part(shard, world, NULL, shared_out);
            compare("resumed", world, 0);
            train_part(shard, world, NULL, plain);
            compare("resumed", world, 0);
        }
    }
    folder_remove(folder);
}

/* ---- memory ---- */

static size_t in_use[2];

static void measure(ls_run *run)
{
    run->step->share.optimizer = now.shard;
    ls_module *model = make_model(run);
    ls_optim *adam = ls_adam_new(run, model, .lr = 1e-3);
    ls_prepare(run, model, adam);
    ls_mark mark = ls_scope_begin(run);
    one_step(run, model, &adam, 1, 0);
    ls_scope_end(run, mark, NULL);
    if (ls_rank(run) == 1) in_use[now.shard] = ls_memory(run).in_use;
    int64_t numel = 0;
    for (int64_t i = 0; i < ls_state_count(ls_parameters(model)); i++)
        numel += ls_numel(ls_state_tensor(ls_parameters(model), i));
    results[ls_rank(run)].count = numel;
    /* Steps request no memory from the system. */
    for (int i = 1; i < 4; i++) {
        ls_backward(run, loss_of(run, model, i, 0));
        uint64_t requests = ls_sys_calls();
        if (i > 1) CHECK(ls_step(adam) && ls_sys_calls() == requests);
        ls_zero_grad(adam);
    }
}

static void moments_take_a_part_of_the_memory(void)
{
    for (int world = 2; world <= 4; world += 2) {
        for (int shard = 0; shard < 2; shard++) {
            now = defaults((setup){.shard = shard, .hidden = 400});
            team_run(world, measure);
        }
        double bytes = (double)results[1].count * sizeof(float);
        /* The parameters themselves are now in memory shared by the processes. */
        double saved = (double)in_use[0] - (double)in_use[1] - bytes;
        CHECK_MSG(fabs(saved - 2 * bytes * (1 - 1.0 / world)) < 0.05 * bytes, "%g of %g bytes saved", saved, 2 * bytes);
    }
}

/* ---- what a program sees ---- */

static void look_at_state(ls_run *run)
{
    run->step->share.optimizer = true;
    ls_module *model = make_model(run);
    ls_optim *adam = ls_adam_new(run, model, .lr = 1e-3);
    ls_prepare(run, model, adam);
    for (int step = 0; step < 3; step++) one_step(run, model, &adam, 1, step);
    const ls_state *state = ls_optim_state_dict(adam);
    CHECK(ls_state_find(state, "first.weight.step"));
    ls_tensor *moment = ls_state_find(state, "last.bias.exp_avg");
    CHECK((moment != NULL) == ls_is_main(run));
    if (!moment) return;
    CHECK(ls_numel(moment) == CLASSES && ls_item(ls_sum(ls_abs(moment))) > 0);
    ls_tensor *first = ls_state_find(state, "first.weight.exp_avg_sq");
    CHECK(ls_shape_equal(ls_shape_of(first), LS_SHAPE(now.hidden, FEATURES)));
}

static void the_main_process_lists_all_state(void)
{
    now = defaults((setup){.shard = true});
    team_run(3, look_at_state);
}

static void refuse(ls_run *run, const char *words)
{
    CHECK_MSG(strstr(ls_error_message(run), words), "%s", ls_error_message(run));
    ls_clear_error(run);
}

static void ask_for_too_much(ls_run *run)
{
    run->step->share.optimizer = true;
    ls_module *model = make_model(run);
    ls_optim *adam = ls_adam_new(run, model, .lr = 1e-3), *other = ls_sgd_new(run, model, .lr = 0.1);
    ls_prepare(run, model, adam);
    one_step(run, model, &adam, 1, 0);
    ls_join_uneven_inputs_begin(run);
    refuse(run, "use only one of the two");
    ls_state_clip_grad_norm(ls_parameters(model), 1);
    refuse(run, "use the optimiser's clipping functions");
    ls_state_clip_grad_value(ls_parameters(model), 1);
    refuse(run, "use the optimiser's clipping functions");
    ls_prepare(run, other); /* takes over the parameters */
    ls_backward(run, loss_of(run, model, 1, 0));
    CHECK(!ls_step(adam));
    refuse(run, "a parameter must have one optimiser");
}

static void what_cannot_be_sharded_is_refused(void)
{
    now = defaults((setup){.shard = true});
    team_run(2, ask_for_too_much);
}

/* With --hosts 0101 ranks belong to several hosts, one character each. */
int main(int argc, char **argv)
{
    int given = argc > 2 && strcmp(argv[1], "--hosts") == 0 ? 2 : 0;
    if (given) crew_layout = argv[2];
    if (argc > 1 + given) check_filter = argv[1 + given];
    results = mmap(NULL, sizeof *results * TEAM_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK_RUN_FORK(processes_too);
    CHECK_RUN(the_same_bits_as_without);
    CHECK_RUN(clipping_and_accumulation);
    CHECK_RUN(mixed_precision_and_loss_scaling);
    CHECK_RUN(frozen_and_unused_parameters);
    CHECK_RUN(several_passes_for_a_step);
    CHECK_RUN(what_processes_hold_may_differ);
    CHECK_RUN(hosts_shard_like_processes);
    CHECK_RUN(devices_shard_like_the_host);
    CHECK_RUN(the_number_of_workers_makes_no_difference);
    CHECK_RUN(checkpoints_are_the_same_files);
    CHECK_RUN(moments_take_a_part_of_the_memory);
    CHECK_RUN(the_main_process_lists_all_state);
    CHECK_RUN(what_cannot_be_sharded_is_refused);
    return check_done();
}
