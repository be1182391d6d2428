/* vectors.c - Accelerate's own tests on 2 and 4 processes: loaders, training, accumulation, metrics. */
#include <lockstep.h>

#include <sys/mman.h>

#include "base/rng.h"
#include "modes.h"
#include "optim/scaler.h"

static ls_dataset *counted(ls_run *run, int64_t samples)
{
    return ls_tensor_dataset_new(run, ls_keep(ls_arange(run, LS_F32, samples, 0, 1)));
}

/* ---- loaders ---- */

/* 32 samples per process in batches of 8: gathered batches are all samples in order, or shuffled. */
static void read_in_every_mode(ls_run *run)
{
    int64_t samples = 32 * ls_world_size(run);
    for (int mode = 0; mode < MODES; mode++) {
        for (int shuffle = 0; shuffle < 2; shuffle++) {
            set_mode(run, mode);
            ls_loader *loader =
                ls_loader_new(run, counted(run, samples), .batch = batch_of(run, 8), .shuffle = shuffle, .seed = 42);
            ls_prepare(run, loader);
            float all[128];
            int seen[128] = {0};
            int64_t got = 0;
            for (ls_batch b; ls_next(loader, &b); got += 8 * ls_world_size(run))
                CHECK(ls_read(ls_gather_with_repeats(run, b.tensor[0]), all + got,
                              8 * (size_t)ls_world_size(run) * sizeof *all));
            CHECK(got == samples);
            for (int64_t i = 0; i < samples; i++) {
                seen[(int)all[i]]++;
                if (!shuffle) CHECK(all[i] == (float)i);
            }
            for (int64_t i = 0; i < samples; i++) CHECK(seen[i] == 1);
        }
    }
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
}

static void loaders_read_everything_once(void)
{
    team_fork(2, read_in_every_mode);
    team_fork(4, read_in_every_mode);
}

/* Rounds are padded with repeated samples, which metrics do not count. */
static void count_metrics(ls_run *run)
{
    static const int64_t samples[] = {82, 99, 512, 9, 22};
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        for (int mode = 0; mode < MODES; mode++) {
            set_mode(run, mode);
            ls_loader *loader = ls_loader_new(run, counted(run, samples[i]), .batch = batch_of(run, 16));
            ls_prepare(run, loader);
            int64_t rows = 0;
            double sum = 0;
            for (ls_batch b; ls_next(loader, &b);) {
                ls_tensor *x = ls_gather(run, b.tensor[0]);
                rows += ls_numel(x);
                sum += ls_item(ls_sum(x));
            }
            CHECK_MSG(rows == samples[i], "%lld of %lld rows in mode %d", (long long)rows, (long long)samples[i], mode);
            CHECK_NEAR(sum, (double)(samples[i] * (samples[i] - 1) / 2), 1e-9);
        }
    }
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
}

static void metrics_count_every_sample_once(void)
{
    team_fork(2, count_metrics);
    team_fork(4, count_metrics);
}

/* ---- training ---- */

enum { PER_PROCESS = 8, BATCHES = 4, EPOCHS = 3 };

typedef struct line {
    float a, b;
} line;

static line *found; /* [TEAM_MAX], shared with forked processes */
static int global_batch, mode_now;

/* y = 2x + 3 + noise, fitted by y = ax + b from a = b = 0. */
static void fit_line(ls_run *run)
{
    int64_t samples = (int64_t)global_batch * BATCHES;
    float x[4 * PER_PROCESS * BATCHES], y[4 * PER_PROCESS * BATCHES];
    for (int64_t i = 0; i < samples; i++) {
        ls_philox4 bits = ls_philox(42, (uint64_t)i);
        x[i] = (float)bits.lane[0] / 2147483648.0f - 1;
        y[i] = 2 * x[i] + 3 + 0.1f * ((float)bits.lane[1] / 2147483648.0f - 1);
    }
    set_mode(run, mode_now);
    ls_dataset *set = ls_tensor_dataset_new(run, ls_keep(ls_from(run, LS_F32, LS_SHAPE(samples, 1), x)),
                                            ls_keep(ls_from(run, LS_F32, LS_SHAPE(samples, 1), y)));
    ls_module *model = ls_linear_new(run, 1, 1);
    for (int64_t i = 0; i < 2; i++) {
        ls_no_grad_begin(run);
        ls_assign(ls_state_tensor(ls_parameters(model), i), ls_zeros(run, LS_F32, 1));
        ls_no_grad_end(run);
    }
    ls_optim *sgd = ls_sgd_new(run, model, .lr = 0.1);
    ls_loader *loader =
        ls_loader_new(run, set, .batch = batch_of(run, global_batch / ls_world_size(run)), .shuffle = true, .seed = 42);
    ls_prepare(run, model, sgd, loader);
    for (int epoch; ls_epoch(run, EPOCHS, &epoch);) {
        for (ls_batch b; ls_next(loader, &b);) {
            ls_backward(run, ls_mse_loss(ls_forward(model, b.tensor[0]), b.tensor[1], LS_REDUCE_MEAN));
            ls_step(sgd);
            ls_zero_grad(sgd);
        }
    }
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
    CHECK(ls_optim_steps_taken(sgd) == EPOCHS * BATCHES);
    ls_state *parameters = ls_parameters(model);
    found[ls_rank(run)] = (line){(float)ls_item(ls_sum(ls_state_tensor(parameters, 0))),
                                 (float)ls_item(ls_sum(ls_state_tensor(parameters, 1)))};
}

static void training_gives_what_one_process_gives(void)
{
    for (int world = 2; world <= 4; world *= 2) {
        global_batch = PER_PROCESS * world;
        mode_now = 0;
        team_fork(1, fit_line);
        line one = found[0];
        CHECK(fabsf(one.b) > 1);
        for (mode_now = 0; mode_now < MODES; mode_now++) {
            memset(found, 0, sizeof *found * TEAM_MAX);
            team_fork(world, fit_line);
            for (int r = 0; r < world; r++) {
                CHECK_NEAR(found[r].a, one.a, 1e-6);
                CHECK_NEAR(found[r].b, one.b, 1e-6);
            }
        }
    }
}

/* ---- gradients while batches are accumulated ---- */

static void accumulate(ls_run *run)
{
    int rank = ls_rank(run), world = ls_world_size(run);
    ls_module *model = ls_module_new(run, "line", NULL, NULL);
    ls_tensor *a = ls_register_parameter(model, "a", ls_set_requires_grad(ls_keep(ls_zeros(run, LS_F32, 1)), true));
    ls_optim *sgd = ls_sgd_new(run, model, .lr = 0.1);
    ls_prepare(run, model, sgd);
    ls_set_gradient_accumulation_steps(run, 2);
    for (int i = 0; i < 6; i++) {
        /* d/da of (i + rank) a; two batches of all ranks average to i - 0.5 + (world - 1) / 2 */
        ls_accumulate(run)
        {
            ls_backward(run, ls_mul_scalar(ls_sum(a), i + rank));
            CHECK(ls_sync_gradients(run) == (i % 2 == 1));
            double here = ls_item(ls_grad(a)), all = i - 0.5 + (world - 1) / 2.0;
            if (i % 2) CHECK_NEAR(here, all, 1e-6);
            else CHECK_NEAR(here, (i + rank) / 2.0, 1e-6); /* local, not synchronised */
            ls_step(sgd);
            ls_zero_grad(sgd);
        }
    }
    CHECK(ls_optim_steps_taken(sgd) == 3);
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
}

static void gradients_are_reduced_at_the_last_batch_of_a_group(void)
{
    team_fork(2, accumulate);
    team_fork(4, accumulate);
}

/* ---- an overflow on one process affects all ---- */

static void overflow(ls_run *run)
{
    ls_module *model = ls_module_new(run, "line", NULL, NULL);
    ls_tensor *a = ls_register_parameter(model, "a", ls_set_requires_grad(ls_keep(ls_zeros(run, LS_F32, 1)), true));
    ls_optim *sgd = ls_sgd_new(run, model, .lr = 0.1);
    ls_scaler_new(run);
    ls_prepare(run, model, sgd);
    for (int i = 0; i < 3; i++) {
        double slope = i == 1 && ls_rank(run) == 1 ? INFINITY : 1;
        ls_backward(run, ls_mul_scalar(ls_sum(a), slope));
        CHECK(ls_step(sgd) == (i != 1));
        CHECK(ls_optim_step_was_skipped(sgd) == (i == 1));
        ls_zero_grad(sgd);
    }
    CHECK_NEAR(ls_item(a), -0.2, 1e-6);
}

static void all_skip_a_step_that_overflows_on_one(void)
{
    team_fork(2, overflow);
}

/* ---- operations ---- */

static void operate(ls_run *run)
{
    int rank = ls_rank(run), world = ls_world_size(run);
    ls_tensor *t = ls_arange(run, LS_F32, world, 1 + world * rank, 1);
    float all[16];
    CHECK(ls_read(ls_gather(run, t), all, (size_t)(world * world) * sizeof *all));
    for (int i = 0; i < world * world; i++) CHECK(all[i] == (float)(i + 1));
    CHECK(ls_read(ls_broadcast(run, t, 0), all, (size_t)world * sizeof *all));
    for (int i = 0; i < world; i++) CHECK(all[i] == (float)(i + 1));
    CHECK(ls_read(ls_reduce(run, t, LS_REDUCE_MEAN), all, (size_t)world * sizeof *all));
    for (int i = 0; i < world; i++) CHECK_NEAR(all[i], i + 1 + world * (world - 1) / 2.0, 1e-6);
    ls_tensor *padded = ls_pad_across_processes(run, ls_arange(run, LS_F32, rank ? world : world + 1, 0, 1));
    CHECK(ls_dim(padded, 0) == world + 1);
    ls_tensor *turned = ls_transpose(ls_reshape(ls_arange(run, LS_F32, 12, 0, 1), 4, 3), 0, 1);
    CHECK(ls_dim(ls_gather(run, turned), 0) == 3 * world);
    ls_range part = ls_split_between_processes(run, 17);
    CHECK(part.end - part.begin == 17 / world + (rank < 17 % world));
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
}

static void operations_give_the_documented_values(void)
{
    team_fork(2, operate);
    team_fork(4, operate);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    found = mmap(NULL, sizeof *found * TEAM_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK_RUN_FORK(loaders_read_everything_once);
    CHECK_RUN_FORK(metrics_count_every_sample_once);
    CHECK_RUN_FORK(training_gives_what_one_process_gives);
    CHECK_RUN_FORK(gradients_are_reduced_at_the_last_batch_of_a_group);
    CHECK_RUN_FORK(all_skip_a_step_that_overflows_on_one);
    CHECK_RUN_FORK(operations_give_the_documented_values);
    return check_done();
}
