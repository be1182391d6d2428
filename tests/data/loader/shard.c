/* shard.c - who gets which samples: the tables of Accelerate's tests, and the rule behind them on many sizes. */
#include "data/loader/shard.h"

#include "check.h"

#include <stdint.h>

static bool is_even, drops_last, dispatches;

/* "0 1 2|6 7 8": the batches of one rank. */
static char *batches_text(const ls_shard *shard, const int64_t *values, char text[1024])
{
    size_t used = 0;
    text[0] = 0;
    for (int64_t i = 0; i < ls_shard_len(shard); i++) {
        ls_span span = ls_shard_batch(shard, i);
        if (i) used += (size_t)snprintf(text + used, 1024 - used, "|");
        for (int64_t j = 0; j < span.size; j++) {
            int64_t position = (span.first + j) % shard->samples;
            used += (size_t)snprintf(text + used, 1024 - used, "%s%lld", j ? " " : "",
                                     (long long)(values ? values[position] : position));
        }
    }
    return text;
}

/* samples in batches of `batch` for each of `world` ranks: what rank 0, 1, ... get. */
static void expect(int line, int64_t samples, int64_t batch, int world, const char *const *ranks)
{
    for (int rank = 0; rank < world; rank++) {
        ls_shard shard = {.samples = samples, .batch = batch, .rank = rank, .world = world};
        shard.even = is_even, shard.drop_last = drops_last, shard.dispatch = dispatches;
        char text[1024];
        batches_text(&shard, NULL, text);
        if (strcmp(text, ranks[rank]) != 0)
            check_fail(__FILE__, line, "rank %d of %d: %s, expected %s", rank, world, text, ranks[rank]);
    }
}
#define EXPECT(samples, batch, world, ...) expect(__LINE__, samples, batch, world, (const char *const[]){__VA_ARGS__})

static void mode(bool even, bool drop_last, bool dispatch)
{
    is_even = even, drops_last = drop_last, dispatches = dispatch;
}

#define FIRST_18 "0 1 2|6 7 8|12 13 14"
#define SECOND_18 "3 4 5|9 10 11|15 16 17"

static void even_batches_of_two_ranks(void)
{
    for (int drop = 0; drop < 2; drop++) {
        mode(true, drop, false);
        EXPECT(24, 3, 2, FIRST_18 "|18 19 20", SECOND_18 "|21 22 23");
    }
    mode(true, false, false);
    EXPECT(21, 3, 2, FIRST_18 "|18 19 20", SECOND_18 "|0 1 2");
    EXPECT(22, 3, 2, FIRST_18 "|18 19 20", SECOND_18 "|21 0 1");
    EXPECT(20, 3, 2, FIRST_18 "|18 19 0", SECOND_18 "|1 2 3");
    EXPECT(2, 3, 2, "0 1 0", "1 0 1");
    mode(true, true, false);
    EXPECT(21, 3, 2, FIRST_18, SECOND_18);
    EXPECT(22, 3, 2, FIRST_18, SECOND_18);
    EXPECT(20, 3, 2, FIRST_18, SECOND_18);
    EXPECT(2, 3, 2, "", "");
}

static void uneven_batches_of_two_ranks(void)
{
    for (int drop = 0; drop < 2; drop++) {
        mode(false, drop, false);
        EXPECT(24, 3, 2, FIRST_18 "|18 19 20", SECOND_18 "|21 22 23");
    }
    mode(false, false, false);
    EXPECT(21, 3, 2, FIRST_18 "|18 19 20", SECOND_18);
    EXPECT(22, 3, 2, FIRST_18 "|18 19 20", SECOND_18 "|21");
    EXPECT(20, 3, 2, FIRST_18 "|18 19", SECOND_18);
    EXPECT(2, 3, 2, "0 1", "");
    mode(false, true, false);
    EXPECT(21, 3, 2, FIRST_18, SECOND_18);
    EXPECT(22, 3, 2, FIRST_18, SECOND_18);
    EXPECT(20, 3, 2, FIRST_18, SECOND_18);
    EXPECT(2, 3, 2, "", "");
}

static void batch_sizes_of_two_ranks(void)
{
    mode(true, false, false);
    EXPECT(3, 1, 2, "0|2", "1|0");
    EXPECT(7, 2, 2, "0 1|4 5", "2 3|6 0");
    mode(false, false, false);
    EXPECT(3, 1, 2, "0|2", "1");
    EXPECT(7, 2, 2, "0 1|4 5", "2 3|6");
}

#define FIRST_20 "0 1|4 5|8 9|12 13|16 17"
#define SECOND_20 "2 3|6 7|10 11|14 15|18 19"

/* A batch of 4 split among 2 ranks is a batch of 2 for each. */
static void split_batches_of_two_ranks(void)
{
    for (int drop = 0; drop < 2; drop++)
        for (int even = 0; even < 2; even++) {
            mode(even, drop, false);
            EXPECT(24, 2, 2, FIRST_20 "|20 21", SECOND_20 "|22 23");
        }
    mode(true, false, false);
    EXPECT(22, 2, 2, FIRST_20 "|20 21", SECOND_20 "|0 1");
    EXPECT(21, 2, 2, FIRST_20 "|20 0", SECOND_20 "|1 2");
    EXPECT(2, 2, 2, "0 1", "0 1");
    for (int even = 0; even < 2; even++) {
        mode(even, true, false);
        EXPECT(22, 2, 2, FIRST_20, SECOND_20);
        EXPECT(21, 2, 2, FIRST_20, SECOND_20);
        EXPECT(2, 2, 2, "", "");
    }
    mode(false, false, false);
    EXPECT(22, 2, 2, FIRST_20 "|20 21", SECOND_20);
    EXPECT(21, 2, 2, FIRST_20 "|20", SECOND_20);
    EXPECT(2, 2, 2, "0 1", "");
}

static void three_and_four_ranks(void)
{
    mode(true, false, false);
    EXPECT(9, 2, 3, "0 1|6 7", "2 3|8 0", "4 5|1 2");
    EXPECT(10, 2, 3, "0 1|6 7", "2 3|8 9", "4 5|0 1");
    EXPECT(11, 2, 3, "0 1|6 7", "2 3|8 9", "4 5|10 0");
    EXPECT(12, 2, 3, "0 1|6 7", "2 3|8 9", "4 5|10 11");
    EXPECT(13, 2, 3, "0 1|6 7|12 0", "2 3|8 9|1 2", "4 5|10 11|3 4");
    EXPECT(5, 2, 3, "0 1", "2 3", "4 0");
    EXPECT(1, 2, 3, "0 0", "0 0", "0 0");
    EXPECT(2, 2, 3, "0 1", "0 1", "0 1"); /* a batch of 6, split */
    EXPECT(22, 4, 4, "0 1 2 3|16 17 18 19", "4 5 6 7|20 21 0 1", "8 9 10 11|2 3 4 5", "12 13 14 15|6 7 8 9");
    EXPECT(3, 4, 4, "0 1 2 0", "1 2 0 1", "2 0 1 2", "0 1 2 0");
    EXPECT(7, 4, 4, "0 1 2 3", "4 5 6 0", "1 2 3 4", "5 6 0 1");
    mode(false, false, false);
    EXPECT(9, 2, 3, "0 1|6 7", "2 3|8", "4 5");
    EXPECT(10, 2, 3, "0 1|6 7", "2 3|8 9", "4 5");
    EXPECT(11, 2, 3, "0 1|6 7", "2 3|8 9", "4 5|10");
    EXPECT(13, 2, 3, "0 1|6 7|12", "2 3|8 9", "4 5|10 11");
    EXPECT(5, 2, 3, "0 1", "2 3", "4");
    EXPECT(2, 2, 3, "0 1", "", "");
    mode(true, true, false);
    EXPECT(10, 2, 3, "0 1", "2 3", "4 5");
    EXPECT(13, 2, 3, "0 1|6 7", "2 3|8 9", "4 5|10 11");
}

/* The rows for streams: the same sequence, so what holds for a stream of n samples holds for a dataset of n. */
static void streams(void)
{
    mode(true, false, false);
    EXPECT(8, 4, 2, "0 1 2 3", "4 5 6 7");
    EXPECT(8, 2, 2, "0 1|4 5", "2 3|6 7");
    EXPECT(10, 4, 2, "0 1 2 3|8 9 0 1", "4 5 6 7|2 3 4 5");
    EXPECT(10, 2, 2, "0 1|4 5|8 9", "2 3|6 7|0 1");
    EXPECT(2, 4, 2, "0 1 0 1", "0 1 0 1");
    EXPECT(2, 2, 2, "0 1", "0 1");
    EXPECT(7, 2, 3, "0 1|6 0", "2 3|1 2", "4 5|3 4");
    mode(true, true, false);
    EXPECT(10, 4, 2, "0 1 2 3", "4 5 6 7");
    EXPECT(10, 2, 2, "0 1|4 5", "2 3|6 7");
    EXPECT(2, 4, 2, "", "");
    EXPECT(7, 2, 3, "0 1", "2 3", "4 5");
}

static int64_t real_at_end(int64_t samples, int64_t batch, int world, bool drop_last)
{
    ls_shard shard = {.samples = samples, .batch = batch, .world = world, .dispatch = true, .drop_last = drop_last};
    return ls_shard_real(&shard, ls_shard_len(&shard) - 1);
}

static void rank_0_reads_for_all(void)
{
    mode(true, false, true);
    EXPECT(16, 4, 2, "0 1 2 3|8 9 10 11", "4 5 6 7|12 13 14 15");
    EXPECT(14, 4, 2, "0 1 2 3|8 9 10", "4 5 6 7|11 12 13");
    EXPECT(13, 4, 2, "0 1 2 3|8 9 10", "4 5 6 7|11 12 0");
    EXPECT(10, 4, 2, "0 1 2 3|8", "4 5 6 7|9");
    EXPECT(30, 4, 2, "0 1 2 3|8 9 10 11|16 17 18 19|24 25 26", "4 5 6 7|12 13 14 15|20 21 22 23|27 28 29");
    EXPECT(9, 2, 4, "0 1|8", "2 3|0", "4 5|1", "6 7|2");
    EXPECT(13, 2, 2, "0 1|4 5|8 9|12", "2 3|6 7|10 11|0"); /* a batch of 4, split */
    EXPECT(3, 2, 4, "0", "1", "2", "0");
    EXPECT(1, 2, 4, "0", "0", "0", "0"); /* nobody gets nothing */
    mode(true, true, true);
    EXPECT(13, 4, 2, "0 1 2 3", "4 5 6 7");
    CHECK(real_at_end(16, 4, 2, false) == 8);
    CHECK(real_at_end(14, 4, 2, false) == 6);
    CHECK(real_at_end(13, 4, 2, false) == 5);
    CHECK(real_at_end(10, 4, 2, false) == 2);
    CHECK(real_at_end(30, 4, 2, false) == 6);
    CHECK(real_at_end(9, 2, 4, false) == 1);
    CHECK(real_at_end(13, 4, 2, true) == 8);
    CHECK(real_at_end(13, 2, 2, false) == 1);
    CHECK(real_at_end(3, 2, 4, false) == 3);
}

static void expect_lists(int line, const int64_t *sizes, int count, int world, const char *const *ranks)
{
    int64_t ends[16] = {0};
    for (int i = 0; i < count; i++) ends[i + 1] = ends[i] + sizes[i];
    for (int rank = 0; rank < world; rank++) {
        ls_shard shard = {.samples = ends[count], .lists = ends, .list_count = count, .rank = rank, .world = world};
        shard.even = is_even, shard.drop_last = drops_last;
        char text[1024];
        batches_text(&shard, NULL, text);
        if (strcmp(text, ranks[rank]) != 0)
            check_fail(__FILE__, line, "rank %d of %d: %s, expected %s", rank, world, text, ranks[rank]);
    }
}
#define EXPECT_LISTS(sizes, world, ...)                                                                                \
    expect_lists(__LINE__, sizes, (int)(sizeof(sizes) / sizeof *(sizes)), world, (const char *const[]){__VA_ARGS__})

static void batches_of_different_sizes(void)
{
    static const int64_t five[] = {3, 2, 4, 3, 2}, one[] = {3}, seven[] = {1, 2, 3, 1, 2, 3, 2};
    mode(false, false, false);
    EXPECT_LISTS(five, 2, "0 1 2|5 6 7 8|12 13", "3 4|9 10 11");
    mode(true, false, false);
    EXPECT_LISTS(five, 2, "0 1 2|5 6 7 8|12 13", "3 4|9 10 11|0 1 2");
    EXPECT_LISTS(one, 2, "0 1 2", "0 1 2");
    EXPECT_LISTS(one, 3, "0 1 2", "0 1 2", "0 1 2");
    EXPECT_LISTS(seven, 3, "0|6|12 13", "1 2|7 8|0", "3 4 5|9 10 11|1 2");
    mode(true, true, false);
    EXPECT_LISTS(five, 2, "0 1 2|5 6 7 8", "3 4|9 10 11");
}

/* Read round by round and rank by rank, batches give the samples in order, then again from the first. */
static void every_size_keeps_the_order(void)
{
    for (int64_t n = 1; n < 40; n++)
        for (int64_t batch = 1; batch < 6; batch++)
            for (int world = 1; world < 5; world++) {
                int64_t next = 0, rounds = 0;
                ls_shard shard = {.samples = n, .batch = batch, .world = world, .even = true};
                rounds = ls_shard_len(&shard);
                for (int64_t i = 0; i < rounds; i++)
                    for (shard.rank = 0; shard.rank < world; shard.rank++) {
                        ls_span span = ls_shard_batch(&shard, i);
                        CHECK(ls_shard_len(&shard) == rounds && span.first == next);
                        next += span.size;
                    }
                CHECK(next >= n && (world > 1 ? next == rounds * world * batch : next == n));
                shard.rank = 0;
                CHECK(ls_shard_real(&shard, rounds - 1) == n - (rounds - 1) * world * batch);
            }
}

/* A pass that begins after round k is the rest of the whole pass, for each of the modes. */
static void going_on_gives_the_rest(void)
{
    for (int flags = 0; flags < 8; flags++)
        for (int64_t n = 1; n < 30; n++)
            for (int world = 1; world < 5; world++)
                for (int rank = 0; rank < world; rank++) {
                    ls_shard whole = {.samples = n, .batch = 3, .world = world, .rank = rank};
                    whole.even = flags & 1, whole.drop_last = flags & 2, whole.dispatch = flags & 4;
                    for (int64_t k = 0; k < ls_shard_len(&whole); k++) {
                        ls_shard rest = whole;
                        rest.start = ls_shard_after(&whole, k);
                        CHECK(ls_shard_len(&rest) == ls_shard_len(&whole) - k - 1);
                        for (int64_t i = 0; i < ls_shard_len(&rest); i++) {
                            ls_span a = ls_shard_batch(&rest, i), b = ls_shard_batch(&whole, k + 1 + i);
                            CHECK(a.first == b.first && a.size == b.size);
                        }
                    }
                }
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    CHECK_RUN(even_batches_of_two_ranks);
    CHECK_RUN(uneven_batches_of_two_ranks);
    CHECK_RUN(batch_sizes_of_two_ranks);
    CHECK_RUN(split_batches_of_two_ranks);
    CHECK_RUN(three_and_four_ranks);
    CHECK_RUN(streams);
    CHECK_RUN(rank_0_reads_for_all);
    CHECK_RUN(batches_of_different_sizes);
    CHECK_RUN(every_size_keeps_the_order);
    CHECK_RUN(going_on_gives_the_rest);
    return check_done();
}
