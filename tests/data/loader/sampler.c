/* sampler.c - orders of an epoch: what is drawn, how often, and the same again. */
#include "data/loader/loader.h"

#include "check.h"
#include "data/tests.h"

static int64_t pass_of(ls_run *run, ls_dataset *set, ls_sampler *sampler, int64_t epoch, int64_t *index)
{
    ls_loader *loader = ls_loader_new(run, set, .batch = 5, .sampler = sampler);
    ls_loader_set_epoch(loader, epoch);
    int64_t count = read_pass(loader, index);
    ls_loader_free(loader);
    return count;
}

static void random_draws(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 11);
    ls_dataset *set = numbers(run, 40);
    int64_t a[1000], b[1000];
    CHECK(pass_of(run, set, ls_random_sampler_new(run), 0, a) == 40 && is_permutation(a, 40));
    CHECK(pass_of(run, set, ls_random_sampler_new(run, .draws = 7), 0, b) == 7 && memcmp(a, b, 7 * sizeof *a) == 0);
    ls_sampler *many = ls_random_sampler_new(run, .draws = 1000, .replacement = true);
    CHECK(pass_of(run, set, many, 0, a) == 1000 && pass_of(run, set, many, 0, b) == 1000);
    CHECK(memcmp(a, b, sizeof a) == 0);
    int seen[40] = {0};
    for (int i = 0; i < 1000; i++) seen[a[i]]++;
    for (int i = 0; i < 40; i++) CHECK(seen[i] > 5 && seen[i] < 60); /* 25 +- 5 */
    CHECK(pass_of(run, set, many, 1, b) == 1000 && memcmp(a, b, sizeof a) != 0);
    CHECK(!ls_loader_new(run, set, .sampler = ls_random_sampler_new(run, .draws = 41)));
    CHECK(strstr(ls_error_message(run), "41 draws without .replacement, but the dataset has 40 samples"));
    ls_finish(run);
}

static void weights_decide_how_often(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 11);
    ls_dataset *set = numbers(run, 4);
    static const double weights[] = {1, 0, 3, 4};
    static int64_t index[8000];
    CHECK(pass_of(run, set, ls_weighted_sampler_new(run, weights, 4, .draws = 8000), 0, index) == 8000);
    int seen[4] = {0};
    for (int i = 0; i < 8000; i++) seen[index[i]]++;
    CHECK(seen[1] == 0);
    CHECK_NEAR(seen[0], 1000, 0.12); /* four standard deviations */
    CHECK_NEAR(seen[2], 3000, 0.06);
    CHECK_NEAR(seen[3], 4000, 0.05);

    /* Without replacement, which comes first follows the weights too. */
    ls_sampler *once = ls_weighted_sampler_new(run, weights, 4, .draws = 3, .replacement = false);
    int first[4] = {0};
    for (int64_t epoch = 0; epoch < 2000; epoch++) {
        CHECK(pass_of(run, set, once, epoch, index) == 3);
        CHECK(index[0] != index[1] && index[1] != index[2] && index[0] != index[2] &&
              index[0] + index[1] + index[2] == 5);
        first[index[0]]++;
    }
    CHECK_NEAR(first[0], 250, 0.25);
    CHECK_NEAR(first[2], 750, 0.12);
    CHECK_NEAR(first[3], 1000, 0.1);
    ls_finish(run);
}

static void wrong_weights_say_so(void)
{
    static const double good[] = {1, 0, 3}, negative[] = {1, -2, 3}, none[] = {0, 0, 0};
    ls_run *run = ls_init(NULL, NULL, .seed = 11);
    ls_dataset *set = numbers(run, 3);
    CHECK(!ls_weighted_sampler_new(run, negative, 3) && strstr(ls_error_message(run), "weight 1 is -2"));
    ls_clear_error(run);
    CHECK(!ls_weighted_sampler_new(run, none, 3) && strstr(ls_error_message(run), "the sum of the weights is 0"));
    ls_clear_error(run);
    CHECK(!ls_weighted_sampler_new(run, good, 0) && ls_error(run) == LS_ERR_VALUE);
    ls_clear_error(run);
    CHECK(!ls_loader_new(run, set, .sampler = ls_weighted_sampler_new(run, good, 2)));
    CHECK(strstr(ls_error_message(run), "2 weights, but the dataset has 3 samples"));
    ls_clear_error(run);
    CHECK(!ls_loader_new(run, set, .sampler = ls_weighted_sampler_new(run, good, 3, .replacement = false)));
    CHECK(strstr(ls_error_message(run), "only 2 weights are above 0"));
    ls_finish(run);
}

static void ranks_share_out_by_themselves(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 11);
    for (int shuffle = 0; shuffle < 2; shuffle++)
        for (int64_t n = 1; n < 12; n++)
            for (int world = 1; world < 5; world++) {
                ls_dataset *set = numbers(run, n);
                int64_t all[16], whole[16];
                pass_of(run, set, shuffle ? ls_random_sampler_new(run) : NULL, 2, whole);
                int64_t each = (n + world - 1) / world;
                for (int r = 0; r < world; r++) {
                    ls_sampler *s = ls_distributed_sampler_new(run, .rank = r, .world_size = world, .shuffle = shuffle);
                    CHECK(pass_of(run, set, s, 2, all) == each);
                    for (int64_t i = 0; i < each; i++) CHECK(all[i] == whole[(i * world + r) % n]);
                }
            }
    ls_sampler *last = ls_distributed_sampler_new(run, .rank = 1, .world_size = 3, .drop_last = true);
    int64_t index[16];
    CHECK(pass_of(run, numbers(run, 8), last, 0, index) == 2 && index[0] == 1 && index[1] == 4);
    CHECK(ls_finish(run) == 0);
}

static void backwards(int64_t epoch, int64_t *samples, int64_t draws, void *user)
{
    for (int64_t i = 0; i < draws; i++) samples[i] = (draws - 1 - i + epoch) % (draws + *(const int64_t *)user);
}

static void an_order_of_ones_own(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 11);
    ls_dataset *set = numbers(run, 6);
    int64_t index[8], beyond = 0;
    ls_sampler *own = ls_order_sampler_new(run, LS_AUTO, backwards, &beyond);
    CHECK(pass_of(run, set, own, 0, index) == 6 && index[0] == 5 && index[5] == 0);
    CHECK(pass_of(run, set, own, 1, index) == 6 && index[0] == 0 && index[1] == 5);
    beyond = 2;
    ls_batch b;
    ls_loader *loader = ls_loader_new(run, set, .sampler = own);
    ls_loader_set_epoch(loader, 1);
    CHECK(!ls_next(loader, &b));
    CHECK_TEXT(ls_error_message(run), "order sampler: sample 6 at [0], but the dataset has 6 samples");
    ls_finish(run);
}

static void batches_of_ones_own(void)
{
    static const int64_t sizes[] = {3, 2, 4, 3, 2}, samples[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13};
    ls_run *run = ls_init(NULL, NULL, .seed = 11);
    ls_dataset *set = numbers(run, 14);
    ls_sampler *lists = ls_batch_sampler_new(run, sizes, 5, samples);
    ls_loader *loader = ls_loader_new(run, set, .sampler = lists);
    CHECK(ls_len(loader) == 5);
    int k = 0;
    for (ls_batch b; ls_next(loader, &b); k++) {
        CHECK(b.size == sizes[k]);
        if (k != 2) continue;
        ls_loader_state state = ls_loader_state_get(loader);
        ls_loader *other = ls_loader_new(run, set, .sampler = lists);
        ls_batch c;
        CHECK(ls_loader_state_set(other, &state) && ls_next(other, &c) && c.index[0] == 9 && c.size == 3);
        ls_loader_free(other);
    }
    CHECK(k == 5);
    CHECK(ls_loader_share_out(loader, (ls_share){.rank = 1, .world = 2}) && ls_len(loader) == 3);
    int64_t index[16];
    CHECK(read_pass(loader, index) == 8 && index[0] == 3 && index[5] == 0);
    CHECK(!ls_loader_share_out(loader, (ls_share){.world = 2, .split_batches = true}));
    CHECK(strstr(ls_error_message(run), "split_batches"));
    ls_clear_error(run);
    CHECK(!ls_loader_new(run, set, .sampler = lists, .batch = 4) && !!ls_error(run));
    ls_clear_error(run);
    CHECK(!ls_loader_new(run, set, .sampler = lists, .shuffle = true) && !!ls_error(run));
    ls_clear_error(run);
    ls_loader *small = ls_loader_new(run, numbers(run, 13), .sampler = lists);
    ls_batch b;
    CHECK(!ls_next(small, &b) && strstr(ls_error_message(run), "sample 13 at [13]"));
    ls_finish(run);
}

static void a_weighted_order_resumes(void)
{
    static const double weights[] = {1, 2, 3, 4, 5, 6, 7};
    for (int64_t stop = 0; stop < 9; stop++) {
        ls_run *run = ls_init(NULL, NULL, .seed = 11);
        ls_dataset *set = numbers(run, 7);
        ls_sampler *s = ls_weighted_sampler_new(run, weights, 7, .draws = 16);
        ls_loader *one = ls_loader_new(run, set, .batch = 2, .sampler = s);
        ls_loader *two = ls_loader_new(run, set, .batch = 2, .sampler = s, .seed = 5);
        ls_batch b;
        for (int64_t i = 0; i < stop; i++) ls_next(one, &b);
        ls_loader_state state = ls_loader_state_get(one);
        CHECK(ls_loader_state_set(two, &state));
        for (int pass = 0; pass < 2; pass++) {
            int64_t x[16], y[16], count = read_pass(one, x);
            CHECK(read_pass(two, y) == count && memcmp(x, y, (size_t)count * sizeof *x) == 0);
        }
        CHECK(ls_finish(run) == 0);
    }
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    CHECK_RUN(random_draws);
    CHECK_RUN(weights_decide_how_often);
    CHECK_RUN(wrong_weights_say_so);
    CHECK_RUN(ranks_share_out_by_themselves);
    CHECK_RUN(an_order_of_ones_own);
    CHECK_RUN(batches_of_ones_own);
    CHECK_RUN(a_weighted_order_resumes);
    return check_done();
}
