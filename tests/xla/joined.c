/* joined.c - one process for each chip: collectives are operations of the compiled step where XLA connects the
 * processes, and go through the host where it does not. Both train as one process with a batch as large as theirs. */
#include <lockstep.h>
#include <lockstep/comm.h>

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "folder.h"
#include "samples.h"

enum { PROCESSES = 2, STEPS = 6, SETTLED = 3, ROWS = 4, SAMPLES = PROCESSES * STEPS * ROWS };

/* What a training leaves to the test, in memory that processes share. */
typedef struct outcome {
    float weight[16 * SAMPLE_SIZE];
    ls_device_counts settled, end;
    float gathered[PROCESSES * 3], summed[3], sent[3], part[3], slope[PROCESSES * 3];
    int64_t largest[2];
    char message[400];
} outcome;

static outcome *results; /* [PROCESSES] */

static ls_module *network(ls_run *run, bool has_statistics, ls_module **first)
{
    *first = ls_linear_new(run, SAMPLE_SIZE, 16);
    ls_module *norm = has_statistics ? ls_batch_norm_new(run, 16) : ls_relu_new(run);
    return ls_sequential_new(run, *first, norm, ls_relu_new(run), ls_linear_new(run, 16, LABELS));
}

/* Sample i of the data, so that process r of two gets what one process gets as its rows r * ROWS ... */
static void train(ls_run *run, int batch, bool has_statistics, outcome *out)
{
    ls_module *first, *net = network(run, has_statistics, &first);
    ls_optim *sgd = ls_sgd_new(run, net, .lr = 0.1, .momentum = 0.9);
    ls_loader *loader = sample_loader(run, SAMPLES, batch);
    ls_prepare(run, net, sgd, loader);
    int step = 0;
    for (ls_batch b; ls_next(loader, &b); step++) {
        if (step == SETTLED) out->settled = ls_device_stats(run);
        ls_backward(run, ls_cross_entropy(ls_forward(net, b.tensor[0]), b.tensor[1]));
        ls_step(sgd);
        ls_zero_grad(sgd);
    }
    out->end = ls_device_stats(run);
    ls_read(ls_state_tensor(ls_parameters(first), 0), out->weight, sizeof out->weight);
    if (step != STEPS) snprintf(out->message, sizeof out->message, "%d steps", step);
}

static void call_collectives(ls_run *run, outcome *out)
{
    ls_comm *comm = ls_comm_of(run);
    float mine[3] = {(float)ls_rank(run), NAN, 3};
    ls_tensor *x = ls_from(run, LS_F32, LS_SHAPE(3), mine);
    ls_read(ls_all_gather(comm, x), out->gathered, sizeof out->gathered);
    ls_read(ls_all_reduce(comm, x, LS_REDUCE_SUM), out->summed, sizeof out->summed);
    ls_read(ls_broadcast_from(comm, x, 1), out->sent, sizeof out->sent);
    float all[PROCESSES * 3] = {1, 2, 3, 4, 5, (float)ls_rank(run)};
    ls_tensor *whole = ls_set_requires_grad(ls_from(run, LS_F32, LS_SHAPE(PROCESSES * 3), all), true);
    ls_tensor *part = ls_reduce_scatter(comm, whole, LS_REDUCE_MEAN);
    float weight = (float)ls_rank(run) + 1; /* as a number of the program it would make programs differ */
    ls_backward(run, ls_sum(ls_mul(part, ls_from(run, LS_F32, LS_SHAPE(1), &weight))));
    ls_read(ls_detach(part), out->part, sizeof out->part);
    ls_read(ls_grad(whole), out->slope, sizeof out->slope);
    int64_t numbers[2] = {ls_rank(run) * 5 - 2, -ls_rank(run) - ((int64_t)1 << 40)};
    ls_tensor *whole_numbers = ls_from(run, LS_I64, LS_SHAPE(2), numbers);
    ls_read(ls_all_reduce(comm, whole_numbers, LS_REDUCE_MAX), out->largest, sizeof out->largest);
}

/* Rank 0 computes what the others do not: before a collective, between two of them as well, or after the last. */
typedef enum parting { NEVER, BEFORE, BETWEEN, AFTER } parting;

typedef struct setup {
    const char *device;
    bool has_statistics;
    parting parts;
    const char *chips; /* that a launcher gave each of them */
} setup;

static void part(ls_run *run, parting how)
{
    ls_comm *comm = ls_comm_of(run);
    ls_tensor *x = ls_full(run, LS_F32, 2, 4), *y = ls_mul(x, x);
    if (ls_rank(run) == 0 && how != AFTER) ls_item(ls_sum(y));
    ls_tensor *sum = ls_all_reduce(comm, y, LS_REDUCE_SUM);
    if (how == BEFORE) results[ls_rank(run)].summed[0] = (float)ls_item(ls_sum(sum));
    if (how == AFTER && ls_rank(run) == 0) ls_item(ls_sum(sum));
    if (how == AFTER) ls_item(ls_sum(ls_mul(sum, x)));
    if (how != BETWEEN) return;
    sum = ls_all_reduce(comm, ls_add(sum, x), LS_REDUCE_SUM);
    if (ls_rank(run) == 0) sum = ls_mul(sum, sum);
    ls_item(ls_sum(ls_all_reduce(comm, sum, LS_REDUCE_SUM)));
}

static int work(void *user)
{
    const setup *s = user;
    char own[2] = {s->chips ? s->chips[atoi(getenv("LOCAL_RANK"))] : 0};
    if (s->chips) setenv("TPU_VISIBLE_CHIPS", own, 1);
    ls_run *run = ls_init(NULL, NULL, .seed = 5, .device = s->device);
    outcome *out = &results[ls_rank(run)];
    if (s->parts) part(run, s->parts);
    else train(run, ROWS, s->has_statistics, out);
    if (!s->parts && !ls_error(run)) call_collectives(run, out);
    if (ls_error(run)) snprintf(out->message, sizeof out->message, "%s", ls_error_message(run));
    return ls_finish(run);
}

static int launch(const setup *s)
{
    memset(results, 0, PROCESSES * sizeof *results);
    return ls_launch(work, (void *)(uintptr_t)s, .num_processes = PROCESSES);
}

/* XLA's library as it is, or behind one that connects processes. */
static void choose(bool connects)
{
    setenv("LOCKSTEP_PJRT_LIBRARY", connects ? JOINED_LIBRARY : XLA_LIBRARY, 1);
    setenv("PRETENDED_BY_LIBRARY", XLA_LIBRARY, 1);
}

/* ---- training ---- */

static void compare(const outcome *got, const outcome *want)
{
    for (int i = 0; i < 16 * SAMPLE_SIZE; i++) CHECK_NEAR(got->weight[i], want->weight[i], 1e-5);
}

static void check_steady(void)
{
    for (int r = 0; r < PROCESSES; r++) {
        CHECK_MSG(!*results[r].message, "rank %d: %s", r, results[r].message);
        CHECK(results[r].end.compiled == results[r].settled.compiled);
        CHECK(results[r].end.host_calls == 0);
    }
}

static outcome one_process(void)
{
    outcome out = {0};
    ls_run *run = ls_init(NULL, NULL, .seed = 5, .device = "cpu");
    train(run, PROCESSES * ROWS, false, &out);
    CHECK(ls_finish(run) == 0);
    return out;
}

static void processes_reduce_gradients_inside_the_step(void)
{
    outcome one = one_process();
    choose(true);
    CHECK(launch(&(setup){.device = XLA_DEVICE}) == 0);
    check_steady();
    for (int r = 0; r < PROCESSES; r++) {
        compare(&results[r], &one);
        CHECK_MSG(results[r].end.executed - results[r].settled.executed == STEPS - SETTLED, "%llu programs in %d steps",
                  (unsigned long long)(results[r].end.executed - results[r].settled.executed), STEPS - SETTLED);
    }
}

static void processes_that_xla_does_not_connect_reduce_on_the_host(void)
{
    outcome one = one_process();
    choose(false);
    CHECK(launch(&(setup){.device = XLA_DEVICE}) == 0);
    check_steady();
    for (int r = 0; r < PROCESSES; r++) compare(&results[r], &one);
}

/* Each of them divides its batches once more. */
static void processes_have_several_chips_each(void)
{
    outcome one = one_process();
    choose(true);
    setenv("LOCKSTEP_XLA_CHIPS", "2", 1);
    CHECK(launch(&(setup){.device = XLA_DEVICE}) == 0);
    unsetenv("LOCKSTEP_XLA_CHIPS");
    check_steady();
    for (int r = 0; r < PROCESSES; r++) {
        compare(&results[r], &one);
        CHECK(results[r].end.divided >= STEPS);
    }
}

/* Each normalises by its own samples, and all keep the running statistics of rank 0. */
static void statistics_of_batches_are_those_of_each_process(void)
{
    CHECK(launch(&(setup){.device = "cpu", .has_statistics = true}) == 0);
    outcome cpu = results[0];
    choose(true);
    CHECK(launch(&(setup){.device = XLA_DEVICE, .has_statistics = true}) == 0);
    check_steady();
    for (int r = 0; r < PROCESSES; r++) compare(&results[r], &cpu);
}

/* Each sees one chip, the first of its own: they are told apart by what the launcher gave them. */
static void processes_have_a_chip_each(void)
{
    outcome one = one_process();
    choose(true);
    CHECK(launch(&(setup){.device = XLA_DEVICE, .chips = "02"}) == 0);
    for (int r = 0; r < PROCESSES; r++) compare(&results[r], &one);
    CHECK(launch(&(setup){.device = XLA_DEVICE, .chips = "22"}) != 0);
}

/* ---- one process ---- */

/* What a process does that has one chip, the given one; its programs are kept in a folder. */
static ls_device_counts compute_on(const char *chip)
{
    memset(results, 0, sizeof *results);
    pid_t child = fork();
    if (child == 0) {
        setenv("PRETENDED_CHIP", chip, 1);
        ls_run *run = ls_init(NULL, NULL, .device = XLA_DEVICE);
        results->summed[0] = (float)ls_item(ls_sum(ls_full(run, LS_F32, 2, 4)));
        results->end = ls_device_stats(run);
        _exit(ls_finish(run));
    }
    int status = 1;
    waitpid(child, &status, 0);
    CHECK(status == 0 && results->summed[0] == 8);
    return results->end;
}

static void a_program_of_another_chip_is_not_loaded(void)
{
    folder_fresh("xla_joined_programs");
    setenv("LOCKSTEP_XLA_CACHE", "xla_joined_programs", 1);
    choose(true);
    CHECK(compute_on("0").compiled == 1);
    CHECK(compute_on("2").compiled == 1);
    CHECK(compute_on("2").loaded == 1);
    folder_remove("xla_joined_programs");
}

/* Libtpu, which finds other processes by itself, is known by the name of its file. */
static void a_folder_may_be_called_libtpu(void)
{
    folder_fresh("libtpu");
    choose(true);
    CHECK(symlink(JOINED_LIBRARY, "libtpu/pjrt.so") == 0);
    setenv("LOCKSTEP_PJRT_LIBRARY", "libtpu/pjrt.so", 1);
    CHECK(launch(&(setup){.device = XLA_DEVICE, .parts = BEFORE}) == 0);
    folder_remove("libtpu");
}

/* ---- single calls ---- */

static bool same(const float *got, const float *want, int count)
{
    for (int i = 0; i < count; i++)
        if (got[i] != want[i] && !(isnan(got[i]) && isnan(want[i]))) return false;
    return true;
}

static void collectives_give_what_the_host_gives(void)
{
    const float gathered[] = {0, NAN, 3, 1, NAN, 3}, summed[] = {1, NAN, 6}, sent[] = {1, NAN, 3};
    const float parts[PROCESSES][3] = {{1, 2, 3}, {4, 5, 0.5f}}, slope[] = {0.5f, 0.5f, 0.5f, 1, 1, 1};
    choose(true);
    CHECK(launch(&(setup){.device = XLA_DEVICE}) == 0);
    for (int r = 0; r < PROCESSES; r++) {
        CHECK(same(results[r].gathered, gathered, 6));
        CHECK(same(results[r].summed, summed, 3));
        CHECK(same(results[r].sent, sent, 3));
        CHECK(same(results[r].part, parts[r], 3));
        CHECK(same(results[r].slope, slope, 6));
        CHECK(results[r].largest[0] == 3 && results[r].largest[1] == -((int64_t)1 << 40));
    }
}

static void processes_may_differ_before_a_collective(void)
{
    choose(true);
    CHECK(launch(&(setup){.device = XLA_DEVICE, .parts = BEFORE}) == 0);
    for (int r = 0; r < PROCESSES; r++) CHECK(results[r].summed[0] == PROCESSES * 4 * 4);
}

static void processes_that_differ_between_collectives_are_told(void)
{
    choose(true);
    CHECK(launch(&(setup){.device = XLA_DEVICE, .parts = BETWEEN}) != 0);
    CHECK_MSG(strstr(results[0].message, "computed different things between two collectives"), "%s",
              results[0].message);
}

static void processes_that_differ_after_the_last_collective_are_told(void)
{
    choose(true);
    CHECK(launch(&(setup){.device = XLA_DEVICE, .parts = AFTER}) != 0);
    for (int r = 0; r < PROCESSES; r++)
        CHECK_MSG(strstr(results[r].message, "ranks 0 and 1 computed different things after a collective"), "%s",
                  results[r].message);
}

int main(void)
{
    results = mmap(NULL, PROCESSES * sizeof *results, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK_RUN_FORK(processes_reduce_gradients_inside_the_step);
    CHECK_RUN_FORK(processes_that_xla_does_not_connect_reduce_on_the_host);
    CHECK_RUN_FORK(statistics_of_batches_are_those_of_each_process);
    CHECK_RUN_FORK(processes_have_a_chip_each);
    CHECK_RUN_FORK(processes_have_several_chips_each);
    CHECK_RUN_FORK(a_program_of_another_chip_is_not_loaded);
    CHECK_RUN_FORK(a_folder_may_be_called_libtpu);
    CHECK_RUN_FORK(collectives_give_what_the_host_gives);
    CHECK_RUN_FORK(processes_may_differ_before_a_collective);
    CHECK_RUN_FORK(processes_that_differ_between_collectives_are_told);
    CHECK_RUN_FORK(processes_that_differ_after_the_last_collective_are_told);
    return check_done();
}
