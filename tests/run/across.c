/* across.c - tensors of all processes, alone and on two to four of them. */
#include <lockstep.h>

#include <stdatomic.h>
#include <unistd.h>

#include "run/share.h"
#include "run/team.h"

/* The numbers of a tensor are these. */
#define CHECK_NUMBERS(tensor, ...)                                                                                     \
    do {                                                                                                               \
        ls_tensor *t_ = (tensor);                                                                                      \
        float want_[] = {__VA_ARGS__}, got_[64];                                                                       \
        size_t bytes_ = sizeof want_;                                                                                  \
        CHECK(ls_numel(t_) == (int64_t)(bytes_ / sizeof(float)));                                                      \
        CHECK(ls_read(t_, got_, bytes_) && memcmp(got_, want_, bytes_) == 0);                                          \
    } while (0)

/* arange(P) + 1 + P * rank */
static ls_tensor *mine(ls_run *run)
{
    int n = ls_world_size(run);
    return ls_arange(run, LS_F32, n, 1 + n * ls_rank(run), 1);
}

static void gathers(ls_run *run)
{
    int n = ls_world_size(run);
    ls_tensor *all = ls_gather(run, mine(run));
    CHECK(ls_dim(all, 0) == n * n && ls_item(ls_min(all)) == 1 && ls_item(ls_max(all)) == n * n);
    CHECK(ls_item(ls_sum(ls_abs(ls_sub(all, ls_arange(run, LS_F32, n * n, 1, 1))))) == 0);

    ls_tensor *numbers = ls_gather(run, ls_full_shape(run, LS_F32, ls_rank(run), LS_SCALAR));
    CHECK(ls_ndim(numbers) == 1 && ls_dim(numbers, 0) == n && ls_item(ls_max(numbers)) == n - 1);

    /* a transposed view, and a different number of rows on each process */
    ls_tensor *turned = ls_transpose(ls_reshape(ls_arange(run, LS_F32, 12, 0, 1), 4, 3), 0, 1);
    CHECK(ls_dim(ls_gather(run, turned), 0) == 3 * n && ls_item(ls_sum(ls_gather(run, turned))) == 66 * n);
    ls_tensor *rows = ls_full(run, LS_I64, ls_rank(run), ls_rank(run), 2);
    CHECK(ls_dim(ls_gather(run, rows), 0) == n * (n - 1) / 2 && ls_dim(ls_gather(run, rows), 1) == 2);
    CHECK(ls_error(run) == LS_OK);
}

static void objects(ls_run *run)
{
    char text[16];
    int length = ls_rank(run) == 1 ? 0 : snprintf(text, sizeof text, "rank %d", ls_rank(run));
    ls_gathered all = ls_gather_object(run, text, (size_t)length);
    CHECK(all.count == ls_world_size(run));
    for (int r = 0; r < all.count; r++) {
        snprintf(text, sizeof text, "rank %d", r);
        CHECK(all.size[r] == (r == 1 ? 0 : 6) && memcmp(all.data[r], text, all.size[r]) == 0);
    }
}

static void reduces_and_broadcasts(ls_run *run)
{
    ls_tensor *from_first = ls_broadcast(run, mine(run), 0);
    CHECK(ls_item(ls_max(from_first)) == ls_world_size(run));
    if (ls_world_size(run) != 2) return;
    CHECK_NUMBERS(ls_reduce(run, mine(run), LS_REDUCE_SUM), 4, 6);
    CHECK_NUMBERS(ls_reduce(run, mine(run), LS_REDUCE_MEAN), 2, 3);
    CHECK_NUMBERS(ls_reduce(run, mine(run), LS_REDUCE_MAX), 3, 4);
    CHECK_NUMBERS(ls_reduce(run, mine(run), LS_REDUCE_MIN), 1, 2);
    CHECK_NUMBERS(ls_broadcast(run, mine(run), 1), 3, 4);
}

static void pads(ls_run *run)
{
    int rank = ls_rank(run), n = ls_world_size(run);
    ls_tensor *t = ls_pad_across_processes(run, ls_arange(run, LS_F32, rank == 0 ? n + 1 : n, 0, 1));
    CHECK(ls_dim(t, 0) == n + 1);
    if (rank) CHECK(ls_item(ls_select(t, 0, n)) == 0 && ls_item(ls_select(t, 0, n - 1)) == n - 1);

    ls_tensor *rows = ls_ones(run, LS_F32, rank + 2, 10);
    ls_tensor *last = ls_pad_across_processes(run, rows), *first = ls_pad_across_processes(run, rows, .first = true);
    CHECK(ls_dim(last, 0) == n + 1 && ls_dim(first, 0) == n + 1 && ls_item(ls_sum(last)) == 10 * (rank + 2));
    CHECK(ls_item(ls_select(ls_select(last, 0, 0), 0, 0)) == 1);
    CHECK(ls_item(ls_select(ls_select(first, 0, n), 0, 0)) == 1);
    if (rank + 1 < n) {
        CHECK(ls_item(ls_select(ls_select(last, 0, n), 0, 0)) == 0);
        CHECK(ls_item(ls_select(ls_select(first, 0, 0), 0, 0)) == 0);
    }
    CHECK(ls_pad_across_processes(run, rows, .dim = 2) == rows &&
          ls_pad_across_processes(run, rows, .dim = -3) == rows);
    CHECK(ls_dim(ls_pad_across_processes(run, ls_transpose(rows, 0, 1), .dim = -1, .value = 7), 1) == n + 1);
}

static void splits(ls_run *run)
{
    int n = ls_world_size(run);
    ls_tensor *all = ls_arange(run, LS_F32, 17, 0, 1);
    ls_tensor *part = ls_split_tensor_between_processes(run, all, false);
    ls_tensor *padded = ls_split_tensor_between_processes(run, all, true);
    CHECK(ls_item(ls_sum(ls_gather(run, part))) == 136);
    CHECK(ls_dim(padded, 0) == (17 + n - 1) / n);
    if (17 % n && ls_is_last(run)) CHECK(ls_item(ls_select(padded, 0, ls_dim(padded, 0) - 1)) == 16);
}

static void shares_differ_by_one(void)
{
    static const int four[] = {5, 4, 4, 4}, eight[] = {3, 2, 2, 2, 2, 2, 2, 2};
    for (int r = 0; r < 4; r++) CHECK(ls_share_of(17, r, 4).end - ls_share_of(17, r, 4).begin == four[r]);
    for (int r = 0; r < 8; r++) CHECK(ls_share_of(17, r, 8).end - ls_share_of(17, r, 8).begin == eight[r]);
    for (int world = 1; world < 9; world++) {
        for (int64_t count = 0; count < 20; count++) {
            int64_t at = 0;
            for (int r = 0; r < world; r++) {
                CHECK(ls_share_of(count, r, world).begin == at);
                at = ls_share_of(count, r, world).end;
            }
            CHECK(at == count && ls_share_largest(count, world) == ls_share_of(count, 0, world).end);
        }
    }
}

/* Two processes, 3 samples left: the second's batch is filled up with a repeat. */
static void metrics(ls_run *run)
{
    ls_loop loop = {.last = true, .rows = 2, .real_rows = 3};
    ls_loop_batch(run, &loop);
    CHECK(ls_dim(ls_gather(run, ls_zeros(run, LS_F32, 2, 5)), 0) == 3);
    CHECK(ls_dim(ls_gather(run, ls_zeros(run, LS_F32, 1)), 0) == 2); /* a loss, not a row per sample */
    CHECK(ls_dim(ls_gather(run, ls_full_shape(run, LS_F32, 1, LS_SCALAR)), 0) == 2);
    loop.real_rows = -1;
    CHECK(ls_dim(ls_gather(run, ls_zeros(run, LS_F32, 2, 5)), 0) == 4);
    ls_loop_end(run, &loop);
    CHECK(ls_dim(ls_gather(run, ls_zeros(run, LS_F32, 2, 5)), 0) == 4);
}

static void triggers(ls_run *run)
{
    CHECK(!ls_check_trigger(run));
    if (ls_is_main(run)) ls_set_trigger(run);
    CHECK(ls_check_trigger(run));
    CHECK(!ls_check_trigger(run));
}

static atomic_int arrived;

static void main_goes_first(ls_run *run)
{
    ls_main_first(run)
    {
        if (ls_is_main(run)) {
            usleep(2000);
            CHECK(atomic_load(&arrived) == 0);
        } else {
            CHECK(atomic_load(&arrived) >= 1);
        }
        atomic_fetch_add(&arrived, 1);
    }
    ls_wait_for_everyone(run);
    CHECK(atomic_load(&arrived) == ls_world_size(run));
    ls_wait_for_everyone(run);
    atomic_store(&arrived, 0);
}

/* Ranks 0 and 1 on one host, the others on the next. */
static void one_of_each_host_goes_first(ls_run *run)
{
    int before = run->session->local_rank;
    run->session->local_rank = ls_rank(run) < 2 ? ls_rank(run) : ls_rank(run) - 2;
    int hosts = ls_world_size(run) > 2 ? 2 : 1;
    ls_local_main_first(run)
    {
        if (ls_is_local_main(run)) {
            usleep(2000);
            CHECK(atomic_load(&arrived) < hosts);
        } else {
            CHECK(atomic_load(&arrived) >= hosts);
        }
        atomic_fetch_add(&arrived, 1);
    }
    ls_wait_for_everyone(run);
    CHECK(atomic_load(&arrived) == ls_world_size(run));
    ls_wait_for_everyone(run);
    atomic_store(&arrived, 0);
    run->session->local_rank = before;
}

static void identities(ls_run *run)
{
    CHECK(ls_is_main(run) == (ls_rank(run) == 0) && ls_is_last(run) == (ls_rank(run) == ls_world_size(run) - 1));
    CHECK(ls_is_local_main(run) == ls_is_main(run) && ls_local_world_size(run) == ls_world_size(run));
}

static void disagreement(ls_run *run)
{
    ls_tensor *t = ls_rank(run) ? ls_ones(run, LS_F32, 1, 2, 5) : ls_ones(run, LS_F32, 1, 5);
    CHECK(!ls_is_valid(ls_gather(run, t)) && ls_error(run) == LS_ERR_SHAPE);
    CHECK_TEXT(ls_error_message(run), "ls_gather: process 0 has [1,5] f32, process 1 has [1,2,5] f32");
    ls_clear_error(run);
    CHECK(!ls_is_valid(ls_reduce(run, t, LS_REDUCE_SUM)) && ls_error(run) == LS_ERR_SHAPE);
    ls_clear_error(run);
    CHECK(!ls_is_valid(ls_reduce(run, t, LS_REDUCE_NONE)) && ls_error(run) == LS_ERR_VALUE);
    ls_clear_error(run);
    CHECK(!ls_is_valid(ls_pad_across_processes(run, t)) && ls_error(run) == LS_ERR_SHAPE);
    ls_clear_error(run);
    CHECK(!ls_is_valid(ls_broadcast(run, t, 0)) && ls_error(run) == LS_ERR_SHAPE);
    ls_clear_error(run);
    CHECK(!ls_is_valid(ls_broadcast(run, t, 2)) && ls_error(run) == LS_ERR_VALUE);
    ls_clear_error(run);
    CHECK(!ls_is_valid(ls_reduce(run, ls_ones(run, LS_I64, 2), LS_REDUCE_MEAN)) && ls_error(run) == LS_ERR_DTYPE);
}

/* An odd number of processes raises the schedule by as many steps where Accelerate's policy is asked for. */
static void schedules_per_process(ls_run *run)
{
    run->step->schedule_policy = LS_SCHEDULE_PER_PROCESS;
    ls_optim *sgd = ls_sgd_new(run, ls_linear_new(run, 1, 1), .lr = 1);
    ls_schedule *cycle = ls_one_cycle_schedule_new(sgd, .max_lr = 0.01, .steps_per_epoch = 2, .epochs = 1);
    ls_schedule *falling = ls_warmup_linear_schedule_new(sgd, 0, 10);
    ls_step(sgd);
    ls_schedule_step(falling);
    CHECK(ls_schedule_position(falling) == ls_world_size(run));
    ls_schedule_step(cycle);
    ls_step(sgd);
    ls_schedule_step(cycle);
    CHECK(ls_schedule_position(cycle) <= 2 && ls_error(run) == LS_OK);
    run->step->schedule_policy = LS_SCHEDULE_PER_STEP;
    ls_schedule_step(falling);
    CHECK(ls_schedule_position(falling) == ls_world_size(run) + 1);
}

static void alone_and_together(void (*body)(ls_run *run))
{
    for (int size = 1; size <= 4; size++) team_run(size, body);
}

#define TEST(name)                                                                                                     \
    static void test_##name(void)                                                                                      \
    {                                                                                                                  \
        alone_and_together(name);                                                                                      \
    }
TEST(gathers)
TEST(objects)
TEST(reduces_and_broadcasts)
TEST(pads)
TEST(splits)
TEST(triggers)
TEST(main_goes_first)
TEST(one_of_each_host_goes_first)
TEST(identities)
TEST(schedules_per_process)

static void test_metrics(void)
{
    team_run(2, metrics);
}

static void test_disagreement(void)
{
    team_run(2, disagreement);
}

static void count_batches(ls_run *run)
{
    ls_dataset *set = ls_tensor_dataset_new(run, ls_zeros(run, LS_F32, 21, 2));
    ls_loader *loader = ls_loader_new(run, set, .batch = 4), *whole = ls_loader_new(run, set, .batch = 4);
    CHECK(ls_len(loader) == 3 && ls_len(whole) == 3); /* of 6 batches */
    ls_prepare(run, loader);
    CHECK(ls_len(loader) == 3);
    int64_t batches = 0;
    for (ls_batch b; ls_next(whole, &b);) batches++;
    CHECK(batches == 6 && ls_len(whole) == 6); /* one that is read without being prepared is read by each */
}

/* Only rank 0 looks at samples; every rank gets its rows of all fields, those of varying size padded alike. */
static atomic_int looked[2];

static bool look(int64_t i, ls_sample *sample, void *user)
{
    ls_run *run = user;
    looked[ls_rank(run)]++;
    *(float *)ls_sample_field(sample, 0) = (float)i;
    int64_t *words = ls_sample_resize(sample, 1, LS_SHAPE(1 + i % 3));
    if (!words) return false;
    for (int64_t k = 0; k <= i % 3; k++) words[k] = 10 * i + k;
    return true;
}

static void hand_out_batches(ls_run *run)
{
    int rank = ls_rank(run);
    run->step->share.dispatch = true;
    ls_dataset *set = ls_dataset_new(run, .count = 13, .get = look, .user = run,
                                     .fields = {{"x", LS_F32}, {"words", LS_I64, {LS_ANY}, .pad = -1}});
    ls_loader *loader = ls_loader_new(run, set, .batch = 4, .workers = 2);
    ls_prepare(run, loader);
    CHECK(ls_len(loader) == 2);
    static const int64_t want[2][2][4] = {{{0, 1, 2, 3}, {8, 9, 10, -1}}, {{4, 5, 6, 7}, {11, 12, 0, -1}}};
    for (int pass = 0; pass < 2; pass++) {
        int n = 0;
        for (ls_batch b; ls_next(loader, &b); n++) {
            CHECK(b.size == (n ? 3 : 4) && b.last == (n == 1));
            float x[4];
            int64_t words[12];
            CHECK(ls_dim(b.tensor[1], 1) == 3);
            CHECK(ls_read(b.tensor[0], x, (size_t)b.size * sizeof *x));
            CHECK(ls_read(b.tensor[1], words, (size_t)b.size * 3 * sizeof *words));
            for (int64_t j = 0; j < b.size; j++) {
                int64_t i = want[rank][n][j];
                CHECK(b.index[j] == i && x[j] == (float)i);
                for (int k = 0; k < 3; k++) CHECK(words[3 * j + k] == (k <= i % 3 ? 10 * i + k : -1));
            }
            int64_t rows = ls_numel(ls_gather(run, b.tensor[0]));
            CHECK(rows == (n ? 5 : 8));
        }
        CHECK(n == 2);
    }
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
}

static void rank_0_reads_for_all(void)
{
    looked[0] = looked[1] = 0;
    team_run(2, hand_out_batches);
    CHECK(looked[0] == 28 && looked[1] == 0);
}

/* As a program counts: right and seen of what all processes have. */
static void count_seven(ls_run *run)
{
    ls_loader *loader =
        ls_loader_new(run, ls_tensor_dataset_new(run, ls_arange(run, LS_F32, 7, 1, 1)), .batch = 4, .shuffle = true);
    ls_prepare(run, loader);
    for (int epoch; ls_epoch(run, 2, &epoch);) {
        int64_t seen = 0, with_repeats = 0;
        double sum = 0;
        for (ls_batch b; ls_next(loader, &b);) {
            ls_tensor *all = ls_gather(run, b.tensor[0]);
            sum += ls_item(ls_sum(all));
            seen += ls_numel(all);
            with_repeats += ls_numel(ls_gather_with_repeats(run, b.tensor[0]));
        }
        CHECK(seen == 7 && sum == 28 && with_repeats == (ls_world_size(run) == 1 ? 7 : 8));
    }
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
}

static void seven_samples_are_seven_on_any_number_of_processes(void)
{
    team_run(1, count_seven);
    team_run(2, count_seven);
}

static void lengths_are_known_before_preparing(void)
{
    team_run(2, count_batches);
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    CHECK_RUN(test_gathers);
    CHECK_RUN(seven_samples_are_seven_on_any_number_of_processes);
    CHECK_RUN(test_objects);
    CHECK_RUN(test_reduces_and_broadcasts);
    CHECK_RUN(test_pads);
    CHECK_RUN(test_splits);
    CHECK_RUN(shares_differ_by_one);
    CHECK_RUN(test_metrics);
    CHECK_RUN(test_triggers);
    CHECK_RUN(test_main_goes_first);
    CHECK_RUN(test_one_of_each_host_goes_first);
    CHECK_RUN(test_identities);
    CHECK_RUN(test_disagreement);
    CHECK_RUN(test_schedules_per_process);
    CHECK_RUN(lengths_are_known_before_preparing);
    CHECK_RUN(rank_0_reads_for_all);
    return check_done();
}
