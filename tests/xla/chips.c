/* chips.c - several chips of a process train as one does: they divide each batch, and the numbers are the same. */
#include <lockstep.h>

#include <stdlib.h>

#include "check.h"
#include "samples.h"

enum { STEPS = 8, ROWS = 12, SAMPLES = STEPS * ROWS };

typedef struct outcome {
    double loss[STEPS + 1];
    int steps;
    float weight[32 * SAMPLE_SIZE];
    ls_device_counts counts;
} outcome;

/* Steps with dropout, so that all chips must draw what one would. */
static outcome train(const char *chips, int samples)
{
    outcome out = {0};
    setenv("LOCKSTEP_XLA_CHIPS", chips, 1);
    ls_run *run = ls_init(NULL, NULL, .seed = 5, .device = XLA_DEVICE);
    ls_module *first = ls_linear_new(run, SAMPLE_SIZE, 32);
    ls_module *net =
        ls_sequential_new(run, first, ls_relu_new(run), ls_dropout_new(run, 0.2), ls_linear_new(run, 32, LABELS));
    ls_optim *adam = ls_adamw_new(run, net, .lr = 1e-2);
    ls_loader *loader = sample_loader(run, samples, ROWS);
    ls_prepare(run, net, adam, loader);
    for (ls_batch b; ls_next(loader, &b);) {
        ls_tensor *loss = ls_cross_entropy(ls_forward(net, b.tensor[0]), b.tensor[1]);
        ls_backward(run, loss);
        ls_step(adam);
        ls_zero_grad(adam);
        out.loss[out.steps++] = ls_item(loss);
    }
    CHECK(ls_read(ls_state_tensor(ls_parameters(first), 0), out.weight, sizeof out.weight));
    out.counts = ls_device_stats(run);
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
    CHECK(ls_finish(run) == 0);
    unsetenv("LOCKSTEP_XLA_CHIPS");
    return out;
}

static void compare(const outcome *got, const outcome *want)
{
    CHECK(got->steps == want->steps);
    for (int i = 0; i < want->steps; i++) CHECK_NEAR(got->loss[i], want->loss[i], 1e-5);
    for (int i = 0; i < 32 * SAMPLE_SIZE; i++) CHECK_NEAR(got->weight[i], want->weight[i], 1e-5);
}

static void chips_divide_every_batch_and_train_as_one(void)
{
    outcome one = train("1", SAMPLES), two = train("2", SAMPLES), four = train("4", SAMPLES);
    compare(&two, &one);
    compare(&four, &one);
    CHECK(one.counts.divided == 0);
    CHECK(two.counts.divided == STEPS);
    CHECK(four.counts.divided == STEPS);
}

/* The last batch has 5 samples, which two chips cannot divide: each computes all of it. */
static void a_batch_that_cannot_be_divided_is_computed_by_all(void)
{
    outcome one = train("1", SAMPLES + 5), two = train("2", SAMPLES + 5);
    CHECK(one.steps == STEPS + 1);
    compare(&two, &one);
    CHECK(two.counts.divided == STEPS);
}

static void what_is_asked_for_must_be_there(void)
{
    static const struct {
        const char *chips, *why;
    } cases[] = {
        {"0", "LOCKSTEP_XLA_CHIPS=0: it must be a number from 1 to 8, or all"},
        {"two", "LOCKSTEP_XLA_CHIPS=two: it must be a number from 1 to 8, or all"},
        {"8", "LOCKSTEP_XLA_CHIPS=8: this process has 4 cpu chips"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("LOCKSTEP_XLA_CHIPS", cases[i].chips, 1);
        ls_run *run = ls_init(NULL, NULL, .device = XLA_DEVICE);
        CHECK_MSG(strstr(ls_error_message(run), cases[i].why), "%s: %s", cases[i].chips, ls_error_message(run));
        ls_clear_error(run);
        ls_finish(run);
    }
    unsetenv("LOCKSTEP_XLA_CHIPS");
}

/* Programs, and memory, of devices of one process stay apart. */
static void every_chip_is_a_device_of_its_own(void)
{
    static const char *const names[] = {XLA_DEVICE ":0", XLA_DEVICE ":1", XLA_DEVICE ":3"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        ls_run *run = ls_init(NULL, NULL, .device = names[i]);
        CHECK(ls_item(ls_sum(ls_full(run, LS_F32, (double)i, 3))) == 3.0 * (double)i);
        CHECK_MSG(ls_error(run) == LS_OK, "%s: %s", names[i], ls_error_message(run));
        CHECK(ls_device_stats(run).compiled > 0);
        ls_finish(run);
    }
}

int main(void)
{
    CHECK_RUN(chips_divide_every_batch_and_train_as_one);
    CHECK_RUN(a_batch_that_cannot_be_divided_is_computed_by_all);
    CHECK_RUN(what_is_asked_for_must_be_there);
    CHECK_RUN(every_chip_is_a_device_of_its_own);
    return check_done();
}
