/* loader.c - batches: what is in them, in which order, and what happens around the loop. */
#include "data/loader/loader.h"

#include "check.h"
#include "data/tests.h"

static void batches_come_in_order(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 1);
    ls_loader *loader = ls_loader_new(run, numbers(run, 10), .batch = 4);
    CHECK(ls_len(loader) == 3);
    for (int pass = 0; pass < 2; pass++) {
        int64_t next = 0;
        int batches = 0;
        for (ls_batch b; ls_next(loader, &b); batches++) {
            CHECK(b.size == (batches < 2 ? 4 : 2) && b.last == (batches == 2));
            CHECK(b.count == 2 && b.tensor[0] == b.image && b.tensor[1] == b.label);
            CHECK(ls_dim(b.image, 0) == b.size && ls_dim(b.image, 1) == 3 && ls_ndim(b.label) == 1);
            CHECK(ls_batch_field(&b, "label") == b.label);
            for (int64_t j = 0; j < b.size; j++, next++) {
                CHECK(b.index[j] == next);
                CHECK(row_of(b.image, j) == 3 * (double)next && label_of(b.label, j) == (double)next);
            }
        }
        CHECK(next == 10 && batches == 3 && ls_loader_epoch(loader) == pass + 1);
    }
    CHECK(ls_finish(run) == 0);
}

static void shuffling_depends_on_seed_and_epoch_alone(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 42);
    int64_t first[3][100], again[100], other[100];
    ls_dataset *set = numbers(run, 100);
    ls_loader *loader = ls_loader_new(run, set, .batch = 7, .shuffle = true);
    for (int e = 0; e < 3; e++) {
        CHECK(read_pass(loader, first[e]) == 100);
        CHECK(is_permutation(first[e], 100));
    }
    CHECK(memcmp(first[0], first[1], sizeof first[0]) != 0 && memcmp(first[1], first[2], sizeof first[0]) != 0);
    ls_loader_set_epoch(loader, 0);
    for (int e = 0; e < 3; e++) {
        read_pass(loader, again);
        CHECK(memcmp(first[e], again, sizeof again) == 0);
    }
    /* the order does not depend on the batch, nor on numbers drawn in between */
    ls_randn(run, LS_F32, 10);
    read_pass(ls_loader_new(run, set, .batch = 64, .shuffle = true), other);
    CHECK(memcmp(first[0], other, sizeof other) == 0);
    read_pass(ls_loader_new(run, set, .batch = 64, .shuffle = true, .seed = 43), other);
    CHECK(memcmp(first[0], other, sizeof other) != 0);
    CHECK(ls_finish(run) == 0);
}

static void a_split_is_disjoint_and_the_same_every_time(void)
{
    int64_t seen[2][50];
    for (int time = 0; time < 2; time++) {
        ls_run *run = ls_init(NULL, NULL, .seed = 5);
        if (time) ls_rand(run, LS_F32, 3);
        ls_rng_state before = ls_rng(run);
        ls_dataset *a, *b;
        ls_random_split(numbers(run, 50), 0.8, &a, &b);
        CHECK(ls_rng(run).offset == before.offset);
        CHECK(ls_dataset_len(a) == 40 && ls_dataset_len(b) == 10);
        int64_t labels = 0;
        for (ls_dataset *part = a; part; part = part == a ? b : NULL)
            for (ls_batch batch; ls_next(
                     time ? ls_loader_new(run, part, .batch = 50) : ls_loader_new(run, part, .batch = 40), &batch);) {
                for (int64_t j = 0; j < batch.size; j++) seen[time][labels++] = (int64_t)label_of(batch.label, j);
                break;
            }
        CHECK(labels == 50 && is_permutation(seen[time], 50));
        CHECK(ls_finish(run) == 0);
    }
    CHECK(memcmp(seen[0], seen[1], sizeof seen[0]) == 0);
}

static void drop_last_leaves_the_short_batch_out(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 5);
    ls_loader *loader = ls_loader_new(run, numbers(run, 10), .batch = 4, .drop_last = true);
    CHECK(ls_len(loader) == 2);
    int64_t seen[10];
    CHECK(read_pass(loader, seen) == 8);
    CHECK(ls_finish(run) == 0);
}

static void a_broken_loop_goes_on_and_a_rewound_one_begins(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 5);
    ls_loader *loader = ls_loader_new(run, numbers(run, 10), .batch = 2);
    ls_batch b;
    CHECK(ls_next(loader, &b) && b.index[0] == 0);
    CHECK(ls_next(loader, &b) && b.index[0] == 2);
    ls_loader_rewind(loader);
    CHECK(ls_next(loader, &b) && b.index[0] == 0 && ls_loader_epoch(loader) == 1);
    int64_t left[10];
    CHECK(read_pass(loader, left) == 8 && left[0] == 2);
    CHECK(ls_finish(run) == 0);
}

static void what_a_batch_gave_ends_with_the_next(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 5);
    ls_loader *loader = ls_loader_new(run, numbers(run, 6), .batch = 2);
    ls_tensor *sum = NULL, *image = NULL, *kept = NULL;
    for (ls_batch b; ls_next(loader, &b);) {
        CHECK(!sum || (!ls_is_valid(sum) && !ls_is_valid(image)));
        image = b.image;
        sum = ls_sum(b.image);
        if (!kept) kept = ls_keep(b.label);
    }
    CHECK(!ls_is_valid(sum) && label_of(kept, 1) == 1);
    CHECK(ls_finish(run) == 0);
}

/* Eval inside train, the inner loop left by break, and two loaders side by side. */
static void loops_nest_in_every_way(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 5);
    ls_loader *train = ls_loader_new(run, numbers(run, 6), .batch = 2);
    ls_loader *eval = ls_loader_new(run, numbers(run, 9), .batch = 3);
    int32_t depth = run->scope_count;
    for (int leave = 0; leave < 3; leave++) {
        int rounds = 0;
        for (ls_batch t; ls_next(train, &t); rounds++) {
            for (ls_batch e; ls_next(eval, &e);) {
                CHECK(ls_is_valid(t.image) && ls_is_valid(e.image) && label_of(t.label, 0) == 2 * rounds);
                if (leave) break;
            }
            CHECK(ls_is_valid(t.image));
        }
        CHECK(rounds == 3);
    }
    ls_loader_rewind(eval);
    CHECK(run->scope_count == depth);
    /* an inner loop that was left before the outer one began does not take the outer batch along */
    ls_batch e, t;
    CHECK(ls_next(eval, &e) && ls_next(train, &t) && ls_next(eval, &e));
    CHECK(ls_is_valid(t.image) && ls_is_valid(e.image));
    for (int i = 0; i < 2; i++) CHECK(ls_next(train, &t) && ls_is_valid(e.image));
    ls_loader_rewind(eval);
    ls_loader_rewind(train);
    CHECK(run->scope_count == depth);
    CHECK(ls_finish(run) == 0);
}

static void the_state_resumes_at_every_batch(void)
{
    for (int shuffle = 0; shuffle < 2; shuffle++)
        for (int64_t stop = 0; stop <= 12; stop++) {
            ls_run *run = ls_init(NULL, NULL, .seed = 5);
            ls_dataset *set = numbers(run, 11);
            ls_loader *one = ls_loader_new(run, set, .batch = 2, .shuffle = shuffle);
            ls_batch b;
            for (int64_t i = 0; i < stop; i++) ls_next(one, &b); /* the seventh says false */
            ls_loader_state state = ls_loader_state_get(one);
            ls_loader *two = ls_loader_new(run, set, .batch = 2, .shuffle = shuffle, .seed = 99);
            CHECK(ls_loader_state_set(two, &state));
            if (stop >= 7) CHECK(!ls_next(two, &b)); /* a pass that is done ends at once */
            for (int64_t i = 0; i < 12; i++) {
                ls_batch x, y;
                bool more = ls_next(one, &x);
                CHECK(ls_next(two, &y) == more && x.size == y.size && x.last == y.last);
                CHECK(!more || memcmp(x.index, y.index, (size_t)x.size * sizeof *x.index) == 0);
            }
            CHECK(ls_finish(run) == 0);
        }
}

static void an_evaluation_inside_training_is_not_repeated(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 5);
    ls_loader *train = ls_loader_new(run, numbers(run, 6), .batch = 2);
    ls_loader *eval = ls_loader_new(run, numbers(run, 3), .batch = 2);
    ls_batch b, e;
    CHECK(ls_next(train, &b));
    while (ls_next(eval, &e)) continue;
    CHECK(ls_loader_epoch_done(eval) && ls_loader_state_get(eval).passes == 0);
    while (ls_next(train, &b)) continue;
    CHECK(ls_loader_state_get(train).passes == 1);
    while (ls_next(eval, &e)) continue;
    CHECK(ls_loader_state_get(eval).passes == 1);
    ls_loader_epoch_begin(eval);
    CHECK(!ls_loader_epoch_done(eval) && ls_loader_state_get(eval).passes == 0);
    CHECK(ls_finish(run) == 0);
}

static void skipping_is_for_one_pass(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 5);
    ls_loader *loader = ls_loader_new(run, numbers(run, 16), .batch = 4);
    int64_t seen[16];
    ls_loader_set_epoch(loader, 1);
    ls_skip_first_batches(loader, 2);
    CHECK(ls_loader_epoch(loader) == 1 && ls_len(loader) == 4);
    CHECK(read_pass(loader, seen) == 8 && seen[0] == 8 && seen[7] == 15);
    CHECK(read_pass(loader, seen) == 16 && seen[0] == 0);
    ls_skip_first_batches(loader, 9);
    CHECK(read_pass(loader, seen) == 0);
    CHECK(ls_finish(run) == 0);
}

/* A program skips batches at the beginning of an epoch; resumed in the middle of it, it asks for that again. */
static void skipping_again_keeps_the_restored_place(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 5);
    ls_loader *loader = ls_loader_new(run, numbers(run, 16), .batch = 4);
    int64_t seen[16];
    ls_batch b;
    ls_skip_first_batches(loader, 1);
    CHECK(ls_next(loader, &b) && b.index[0] == 4);
    ls_loader_state inside = ls_loader_state_get(loader);
    CHECK(read_pass(loader, seen) == 8);
    ls_loader_state after = ls_loader_state_get(loader);

    CHECK(ls_loader_state_set(loader, &inside));
    ls_skip_first_batches(loader, 1);
    CHECK(read_pass(loader, seen) == 8 && seen[0] == 8);
    CHECK(ls_loader_state_set(loader, &after));
    ls_skip_first_batches(loader, 1);
    CHECK(!ls_next(loader, &b)); /* its loop was over */
    ls_skip_first_batches(loader, 1);
    CHECK(read_pass(loader, seen) == 12 && seen[0] == 4);

    CHECK(ls_loader_state_set(loader, &inside));
    ls_loader_rewind(loader);
    ls_skip_first_batches(loader, 3);
    CHECK(read_pass(loader, seen) == 4 && seen[0] == 12);
    CHECK(ls_finish(run) == 0);
}

static void a_resumed_job_may_have_another_size(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 5);
    ls_dataset *set = numbers(run, 24);
    ls_loader *one = ls_loader_new(run, set, .batch = 2, .shuffle = true);
    ls_loader_share_out(one, (ls_share){.rank = 1, .world = 4});
    ls_batch b;
    CHECK(ls_next(one, &b));
    ls_loader_state state = ls_loader_state_get(one);
    CHECK(state.start == 8);
    int64_t whole[24], rest[24], count = 0;
    read_pass(ls_loader_new(run, set, .batch = 24, .shuffle = true), whole);
    ls_loader *ranks[3];
    for (int r = 0; r < 3; r++) {
        ranks[r] = ls_loader_new(run, set, .batch = 2, .shuffle = true);
        CHECK(ls_loader_share_out(ranks[r], (ls_share){.rank = r, .world = 3}));
        CHECK(ls_loader_state_set(ranks[r], &state));
    }
    for (int i = 0; i < 3; i++)
        for (int r = 0; r < 3; r++) {
            CHECK(ls_next(ranks[r], &b) && ranks[r]->loop.last == (i == 2));
            CHECK(ranks[r]->loop.real_rows == (i < 2 ? 6 : 4));
            for (int64_t j = 0; j < b.size && count < 16; j++) rest[count++] = b.index[j];
        }
    CHECK(memcmp(rest, whole + 8, sizeof(int64_t) * 16) == 0);
    CHECK(ls_finish(run) == 0);
}

/* Two ranks with a batch of 8, or 16 split between them, read what one reads with a batch of 16: samples and order. */
static void ranks_together_read_what_one_would(void)
{
    for (int split = 0; split < 2; split++)
        for (int shuffle = 0; shuffle < 2; shuffle++) {
            ls_run *run = ls_init(NULL, NULL, .seed = 42);
            ls_dataset *set = numbers(run, 64);
            ls_loader *whole = ls_loader_new(run, set, .batch = 16, .shuffle = shuffle);
            ls_loader *ranks[2];
            for (int r = 0; r < 2; r++) {
                ranks[r] = ls_loader_new(run, set, .batch = split ? 16 : 8, .shuffle = shuffle, .workers = 2);
                CHECK(ls_loader_share_out(ranks[r], (ls_share){.rank = r, .world = 2, .split_batches = split}));
                CHECK(ls_len(ranks[r]) == ls_len(whole));
            }
            for (int i = 0; i < 8; i++) { /* two passes */
                ls_batch all, part[2];
                CHECK(ls_next(whole, &all) && ls_next(ranks[0], &part[0]) && ls_next(ranks[1], &part[1]));
                for (int64_t j = 0; j < 16; j++) CHECK(all.index[j] == part[j / 8].index[j % 8]);
                if (i % 4 == 3)
                    CHECK(!ls_next(whole, &all) && !ls_next(ranks[0], &part[0]) && !ls_next(ranks[1], &part[1]));
            }
            CHECK(ls_finish(run) == 0);
        }
}

/* 22 samples in batches of 4 for 2 ranks: all are there, two of them twice. */
static void every_sample_is_somewhere(void)
{
    static const int64_t sizes[] = {4, 4, 4, 4, 4, 2};
    int64_t in_order[22];
    for (int64_t i = 0; i < 22; i++) in_order[i] = i;
    for (int way = 0; way < 4; way++) {
        ls_run *run = ls_init(NULL, NULL, .seed = 42);
        ls_dataset *set = numbers(run, 22);
        int seen[22] = {0};
        for (int r = 0; r < 2; r++) {
            ls_sampler *sampler = way < 2    ? NULL
                                  : way == 2 ? ls_random_sampler_new(run)
                                             : ls_batch_sampler_new(run, sizes, 6, in_order);
            ls_loader *loader = ls_loader_new(run, set, .batch = way == 3 ? LS_AUTO : 4, .shuffle = way == 1,
                                              .sampler = sampler, .workers = 4);
            CHECK(ls_loader_share_out(loader, (ls_share){.rank = r, .world = 2}));
            int64_t index[24], count = read_pass(loader, index);
            CHECK(count == (way < 3 || r == 0 ? 12 : 10));
            for (int64_t i = 0; i < count; i++) seen[index[i]]++;
        }
        for (int i = 0; i < 22; i++) CHECK(seen[i] == 1 || seen[i] == 2);
        CHECK(ls_finish(run) == 0);
    }
}

static void wrong_options_say_so(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 5);
    CHECK(!ls_loader_new(run, NULL, .batch = 2) && strstr(ls_error_message(run), "dataset is NULL"));
    ls_clear_error(run);
    ls_dataset *set = numbers(run, 6);
    CHECK(!ls_loader_new(run, set, .batch = -2) && strstr(ls_error_message(run), ".batch = -2"));
    ls_clear_error(run);
    ls_loader *loader = ls_loader_new(run, set, .batch = 3);
    CHECK(!ls_loader_share_out(loader, (ls_share){.world = 2, .split_batches = true}));
    CHECK(strstr(ls_error_message(run), "round multiple"));
    ls_clear_error(run);
    CHECK(!ls_loader_share_out(loader, (ls_share){.world = 2, .dispatch = true}));
    CHECK(ls_error(run) == LS_ERR_UNSUPPORTED);
    ls_clear_error(run);
    CHECK(ls_loader_share_out(loader, (ls_share){.world = 1, .dispatch = true}));
    ls_loader_state state = ls_loader_state_get(loader);
    state.samples = 7;
    CHECK(!ls_loader_state_set(loader, &state) && strstr(ls_error_message(run), "sample 0 of 7"));
    ls_batch b;
    CHECK(!ls_next(loader, &b) && !ls_next(NULL, &b));
    ls_clear_error(run);
    CHECK(ls_next(loader, &b));
    CHECK(ls_batch_field(&b, "lable"));
    CHECK_MSG(strstr(ls_error_message(run), "has no field \"lable\"; it has label, x"), "%s", ls_error_message(run));
    ls_loader_free(NULL);
    ls_dataset_free(NULL);
    ls_finish(run);
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    CHECK_RUN(batches_come_in_order);
    CHECK_RUN(shuffling_depends_on_seed_and_epoch_alone);
    CHECK_RUN(a_split_is_disjoint_and_the_same_every_time);
    CHECK_RUN(drop_last_leaves_the_short_batch_out);
    CHECK_RUN(a_broken_loop_goes_on_and_a_rewound_one_begins);
    CHECK_RUN(what_a_batch_gave_ends_with_the_next);
    CHECK_RUN(loops_nest_in_every_way);
    CHECK_RUN(the_state_resumes_at_every_batch);
    CHECK_RUN(an_evaluation_inside_training_is_not_repeated);
    CHECK_RUN(skipping_is_for_one_pass);
    CHECK_RUN(skipping_again_keeps_the_restored_place);
    CHECK_RUN(a_resumed_job_may_have_another_size);
    CHECK_RUN(ranks_together_read_what_one_would);
    CHECK_RUN(every_sample_is_somewhere);
    CHECK_RUN(wrong_options_say_so);
    return check_done();
}
