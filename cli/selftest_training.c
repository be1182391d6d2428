/* selftest_training.c - the self-test: training by all processes must match training by one, in f32 and with 16-bit
 * products, and resume from a checkpoint bit for bit. */
#include "selftest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    FEATURES = 8,
    HIDDEN = 16,
    CLASSES = 3,
    BATCH = 8,
    STEPS = 4,
    MOST = FEATURES * HIDDEN + HIDDEN * (CLASSES + 1) + CLASSES
};

typedef struct training {
    ls_module *model;
    ls_optim *sgd;
    ls_loader *loader;
} training;

/* The same in every process: weights follow from the seed, samples from their index. The batches are those of one
 * process with `batch` samples each. */
static training make_training(ls_run *run, int64_t batch)
{
    int64_t count = (int64_t)BATCH * STEPS * ls_world_size(run);
    ls_set_seed(run, 7);
    training it = {.model = ls_sequential_new(run, ls_linear_new(run, FEATURES, HIDDEN), ls_gelu_new(run),
                                              ls_linear_new(run, HIDDEN, CLASSES))};
    it.sgd = ls_sgd_new(run, it.model, .lr = 0.1, .momentum = 0.9);
    ls_tensor *x = ls_randn(run, LS_F32, count, FEATURES);
    ls_dataset *set = ls_tensor_dataset_new(run, x, ls_argmax(ls_slice(x, 1, 0, CLASSES, 1)));
    it.loader = ls_loader_new(run, set, .batch = batch, .shuffle = true, .seed = 3);
    return it;
}

static void train(ls_run *run, training it, ls_dtype precision, int passes)
{
    for (int pass = 0; pass < passes; pass++) {
        for (ls_batch b; ls_next(it.loader, &b);) {
            ls_autocast_begin(run, precision);
            ls_tensor *loss = ls_cross_entropy(ls_forward(it.model, b.tensor[0]), b.tensor[1]);
            ls_autocast_end(run);
            ls_backward(run, loss);
            ls_step(it.sgd);
            ls_zero_grad(it.sgd);
        }
    }
}

/* Copy all parameters, one after the other; returns their number. */
static int64_t read_parameters(training it, float to[MOST])
{
    ls_state *parameters = ls_parameters(it.model);
    int64_t count = 0;
    for (int64_t i = 0; i < ls_state_count(parameters); i++) {
        ls_tensor *p = ls_state_tensor(parameters, i);
        if (count + ls_numel(p) > MOST || !ls_read(p, to + count, (size_t)ls_numel(p) * sizeof *to)) return 0;
        count += ls_numel(p);
    }
    return count;
}

/* All processes must have the same bits. */
static void expect_equal_everywhere(trial *t, const float *values, int64_t count)
{
    size_t bytes = (size_t)count * sizeof *values;
    ls_gathered all = ls_gather_object(t->run, values, bytes);
    for (int r = 0; r < all.count; r++)
        if (all.size[r] != bytes || memcmp(all.data[r], values, bytes) != 0)
            trial_fails(t, "after training, rank %d has different parameters", r);
}

/* How far parameters may differ after all steps: a rounding error of every product, over 12 steps. */
static double tolerance_of(ls_dtype precision)
{
    return precision == LS_BF16 ? 0.05 : precision == LS_F16 ? 0.01 : 1e-5;
}

/* Prepared modules of a mixed precision run use that precision. */
static void compare_with_one(trial *t, ls_dtype precision)
{
    ls_run *run = t->run;
    float alone[MOST], together[MOST];
    if (ls_mixed_precision(run) != LS_DTYPE_NONE) precision = ls_mixed_precision(run);
    training reference = make_training(run, (int64_t)BATCH * ls_world_size(run)), shared = make_training(run, BATCH);
    ls_optim_train_apart(reference.sgd);
    train(run, reference, precision, 3);
    ls_prepare(run, shared.model, shared.sgd, shared.loader);
    train(run, shared, precision, 3);
    int64_t count = read_parameters(reference, alone);
    if (read_parameters(shared, together) != count || !count) return; /* the run has the reason */
    double largest = 0;
    for (int64_t i = 0; i < count; i++) largest = fmax(largest, fabs((double)together[i] - (double)alone[i]));
    if (!(largest <= tolerance_of(precision)))
        trial_fails(t, "after %d steps with %s products, parameters are up to %.3g away from those of one process",
                    3 * STEPS, ls_dtype_name(precision), largest);
    expect_equal_everywhere(t, together, count);
}

void try_gradients(trial *t)
{
    compare_with_one(t, LS_F32);
}

void try_half_precision(trial *t)
{
    ls_autocast_begin(t->run, LS_BF16);
    ls_tensor *product = ls_matmul(ls_ones(t->run, LS_F32, 4, 4), ls_ones(t->run, LS_F32, 4, 4));
    ls_autocast_end(t->run);
    if (!ls_error(t->run) && ls_dtype_of(product) != LS_BF16)
        trial_fails(t, "a product under bf16 is %s", ls_dtype_name(ls_dtype_of(product)));
    ls_free_memory(t->run);
    compare_with_one(t, LS_BF16);
    ls_free_memory(t->run);
    compare_with_one(t, LS_F16);
}

void try_checkpoint(trial *t)
{
    ls_run *run = t->run;
    char path[4200];
    float first[MOST], second[MOST];
    training it = make_training(run, BATCH);
    ls_prepare(run, it.model, it.sgd, it.loader);
    snprintf(path, sizeof path, "%s/checkpoint", t->folder);
    for (int epoch; ls_epoch(run, 3, &epoch);) {
        train(run, it, LS_F32, 1);
        if (epoch == 0) ls_save_state(run, path);
    }
    int64_t count = read_parameters(it, first);
    ls_wait_for_everyone(run);
    ls_load_state(run, path);
    for (int epoch; ls_epoch(run, 3, &epoch);) train(run, it, LS_F32, 1);
    if (read_parameters(it, second) != count || !count || ls_error(run)) return; /* the run has the reason */
    if (memcmp(first, second, (size_t)count * sizeof *first) != 0)
        trial_fails(t, "after resuming, training had different results");
    expect_equal_everywhere(t, second, count);
}
