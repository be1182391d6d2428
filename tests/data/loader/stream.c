/* stream.c - datasets without a length: cut into batches, shared out, resumed. */
#include "data/loader/loader.h"

#include "check.h"
#include "data/tests.h"

#include <sys/wait.h>

/* The numbers 0 .. count-1, one after the other; those divisible by `bad` are damaged. */
typedef struct tap {
    int64_t count, next, bad;
    int64_t begun, read, skipped;
    bool lists; /* with a field that varies */
} tap;

static bool next(ls_sample *sample, void *user)
{
    tap *t = user;
    if (t->next >= t->count) return false;
    int64_t value = t->next++;
    t->read++;
    if (t->bad && value % t->bad == t->bad - 1)
        return ls_sample_fail(sample, LS_ERR_IO, "drop %lld is dirty", (long long)value);
    int64_t *out = ls_sample_field(sample, 0);
    *out = value;
    if (!t->lists) return true;
    int64_t *list = ls_sample_resize(sample, 1, LS_SHAPE(1 + value % 3));
    for (int64_t i = 0; i <= value % 3; i++) list[i] = value;
    return true;
}

static void begin(int64_t epoch, void *user)
{
    tap *t = user;
    t->next = 0;
    t->begun = epoch + 1;
}

static int64_t skip(int64_t n, void *user)
{
    tap *t = user;
    int64_t left = t->count - t->next, skips = n < left ? n : left;
    t->next += skips;
    t->skipped += skips;
    return skips;
}

static ls_dataset *stream_of(ls_run *run, tap *t, bool can_skip)
{
    return ls_stream_dataset_new(
        run, .next = next, .begin = begin, .skip = can_skip ? skip : NULL, .user = t, .on_bad = LS_ON_BAD_SKIP,
        .fields = {{.name = "value", .dtype = LS_I64},
                   {.name = t->lists ? "list" : NULL, .dtype = LS_I64, .shape = {LS_ANY}, .pad = -1}});
}

/* "0 1 2|3 4": the values of the rest of a pass. */
static char *values_text(ls_loader *loader, char text[1024])
{
    size_t used = 0;
    text[0] = 0;
    bool ended = false;
    for (ls_batch b; ls_next(loader, &b);) {
        CHECK(!ended);
        ended = b.last;
        if (used) used += (size_t)snprintf(text + used, 1024 - used, "|");
        for (int64_t j = 0; j < b.size; j++)
            used += (size_t)snprintf(text + used, 1024 - used, "%s%.0f", j ? " " : "", label_of(b.tensor[0], j));
    }
    CHECK(ended || !used);
    return text;
}

static void expect(int line, tap t, ls_loader_opts o, ls_share share, const char *const *ranks)
{
    for (int workers = 0; workers < 3; workers += 2)
        for (share.rank = 0; share.rank < share.world; share.rank++) {
            ls_run *run = ls_init(NULL, NULL, .seed = 1);
            tap own = t;
            o.workers = workers;
            ls_loader *loader = ls_loader_new_sized(run, stream_of(run, &own, true), &o, LS_OPTS_SIZE(ls_loader_opts));
            CHECK(ls_len(loader) == -1 && ls_loader_share_out(loader, share));
            for (int pass = 0; pass < 2; pass++) {
                char text[1024];
                values_text(loader, text);
                if (strcmp(text, ranks[share.rank]) != 0)
                    check_fail(__FILE__, line, "rank %d, pass %d: %s, expected %s", share.rank, pass, text,
                               ranks[share.rank]);
                CHECK(own.begun == pass + 1);
            }
            CHECK(ls_finish(run) == 0);
        }
}
#define EXPECT(t, batch_size, drop, share, ...)                                                                        \
    expect(__LINE__, t, LS_OPTIONS(ls_loader_opts, .batch = batch_size, .drop_last = drop), share,                     \
           (const char *const[]){__VA_ARGS__})
#define SHARE(...) ((ls_share){.world = __VA_ARGS__})

static void batches_of_streams(void)
{
    tap t = {.count = 10};
    EXPECT(t, 4, false, SHARE(1), "0 1 2 3|4 5 6 7|8 9");
    EXPECT(t, 5, false, SHARE(1), "0 1 2 3 4|5 6 7 8 9");
    EXPECT(t, 4, true, SHARE(1), "0 1 2 3|4 5 6 7");
    EXPECT(t, 20, false, SHARE(1), "0 1 2 3 4 5 6 7 8 9");
    EXPECT(t, 20, true, SHARE(1), "");
    EXPECT((tap){.count = 0}, 4, false, SHARE(1), "");
}

/* The table of accelerate's IterableDatasetShard. */
static void ranks_share_a_stream(void)
{
    for (int lists = 0; lists < 2; lists++) {
        tap ten = {.count = 10, .lists = lists}, eight = {.count = 8, .lists = lists},
            two = {.count = 2, .lists = lists};
        tap seven = {.count = 7, .lists = lists};
        EXPECT(eight, 4, false, SHARE(2), "0 1 2 3", "4 5 6 7");
        EXPECT(eight, 4, false, SHARE(2, .split_batches = true), "0 1|4 5", "2 3|6 7");
        EXPECT(ten, 4, false, SHARE(2), "0 1 2 3|8 9 0 1", "4 5 6 7|2 3 4 5");
        EXPECT(ten, 4, true, SHARE(2), "0 1 2 3", "4 5 6 7");
        EXPECT(ten, 4, false, SHARE(2, .split_batches = true), "0 1|4 5|8 9", "2 3|6 7|0 1");
        EXPECT(ten, 4, true, SHARE(2, .split_batches = true), "0 1|4 5", "2 3|6 7");
        EXPECT(two, 4, false, SHARE(2), "0 1 0 1", "0 1 0 1");
        EXPECT(two, 4, false, SHARE(2, .split_batches = true), "0 1", "0 1");
        EXPECT(two, 4, true, SHARE(2), "", "");
        EXPECT(seven, 2, false, SHARE(3), "0 1|6 0", "2 3|1 2", "4 5|3 4");
        EXPECT(seven, 2, true, SHARE(3), "0 1", "2 3", "4 5");
        EXPECT(seven, 2, false, SHARE(3, .uneven = true), "0 1|6", "2 3", "4 5");
    }
}

static void bad_samples_are_passed_over_by_all_ranks(void)
{
    tap t = {.count = 12, .bad = 3}; /* good: 0 1 3 4 6 7 9 10 */
    EXPECT(t, 3, false, SHARE(1), "0 1 3|4 6 7|9 10");
    EXPECT(t, 2, false, SHARE(3), "0 1|9 10", "3 4|0 1", "6 7|3 4");
}

static void a_stream_resumes_at_every_batch(void)
{
    for (int bad = 0; bad < 4; bad += 3)
        for (int can_skip = 0; can_skip < 2; can_skip++)
            for (int world = 1; world < 4; world++)
                for (int64_t stop = 0; stop < 8; stop++) {
                    ls_run *run = ls_init(NULL, NULL, .seed = 1);
                    tap a = {.count = 20, .bad = bad, .lists = true}, b = a;
                    ls_loader *one = ls_loader_new(run, stream_of(run, &a, can_skip), .batch = 3, .workers = 2);
                    ls_loader *two = ls_loader_new(run, stream_of(run, &b, can_skip), .batch = 3, .workers = 2);
                    ls_share share = {.rank = world / 2, .world = world};
                    CHECK(ls_loader_share_out(one, share) && ls_loader_share_out(two, share));
                    ls_batch batch;
                    for (int64_t i = 0; i < stop; i++)
                        if (!ls_next(one, &batch)) break;
                    ls_loader_state state = ls_loader_state_get(one);
                    CHECK(ls_loader_state_set(two, &state));
                    if (state.passes) CHECK(!ls_next(two, &batch));
                    for (int pass = 0; pass < 2; pass++) {
                        char x[1024], y[1024];
                        CHECK_TEXT(values_text(one, x), values_text(two, y));
                    }
                    CHECK(!can_skip || world > 1 || state.passes || b.skipped == state.start);
                    CHECK(ls_finish(run) == 0);
                }
}

static void skipping_reads_nothing_where_the_stream_can(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 1);
    tap t = {.count = 20};
    ls_loader *loader = ls_loader_new(run, stream_of(run, &t, true), .batch = 4);
    ls_skip_first_batches(loader, 3);
    char text[1024];
    CHECK_TEXT(values_text(loader, text), "12 13 14 15|16 17 18 19");
    CHECK(t.skipped == 12 && t.read == 8);
    CHECK_TEXT(values_text(loader, text), "0 1 2 3|4 5 6 7|8 9 10 11|12 13 14 15|16 17 18 19");
    CHECK(ls_finish(run) == 0);
}

static void what_a_stream_cannot_do_is_refused(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 1);
    tap t = {.count = 20};
    ls_dataset *set = stream_of(run, &t, true), *a, *b;
    CHECK(!ls_loader_new(run, set, .shuffle = true) && strstr(ls_error_message(run), "own order"));
    ls_clear_error(run);
    CHECK(!ls_subset_new(set, &(int64_t){0}, 1) && strstr(ls_error_message(run), "stream"));
    ls_clear_error(run);
    ls_random_split(set, 0.5, &a, &b);
    CHECK(!a && !b && strstr(ls_error_message(run), "stream"));
    ls_clear_error(run);
    CHECK(!ls_stream_dataset_new(run, .fields = {{.name = "x", .dtype = LS_F32}}) &&
          strstr(ls_error_message(run), ".next is missing"));
    ls_finish(run);
}

static bool next_fails(ls_sample *sample, void *user)
{
    return ++*(int64_t *)user < 6 ? ls_sample_field(sample, 0) != NULL
                                  : ls_sample_fail(sample, LS_ERR_IO, "the pipe broke");
}

static void a_failing_stream_gives_what_it_had(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 1);
    int64_t reads = 0;
    ls_dataset *set =
        ls_stream_dataset_new(run, .next = next_fails, .user = &reads, .fields = {{.name = "x", .dtype = LS_I64}});
    ls_loader *loader = ls_loader_new(run, set, .batch = 4, .workers = 1);
    ls_batch b;
    CHECK(ls_next(loader, &b) && !b.last && !ls_next(loader, &b));
    CHECK_TEXT(ls_error_message(run), "stream: the pipe broke");
    ls_finish(run);
}

static void a_forked_child_reads_on(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 1);
    tap t = {.count = 11};
    ls_loader *loader = ls_loader_new(run, stream_of(run, &t, true), .batch = 2, .workers = 2);
    ls_batch b;
    CHECK(ls_next(loader, &b) && ls_next(loader, &b));
    pid_t child = fork();
    char text[1024];
    bool right = strcmp(values_text(loader, text), "4 5|6 7|8 9|10") == 0;
    if (child == 0) _exit(ls_finish(run) == 0 && right ? 0 : 1);
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0 && right);
    CHECK(ls_finish(run) == 0);
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    CHECK_RUN(batches_of_streams);
    CHECK_RUN(ranks_share_a_stream);
    CHECK_RUN(bad_samples_are_passed_over_by_all_ranks);
    CHECK_RUN(a_stream_resumes_at_every_batch);
    CHECK_RUN(skipping_reads_nothing_where_the_stream_can);
    CHECK_RUN(what_a_stream_cannot_do_is_refused);
    CHECK_RUN(a_failing_stream_gives_what_it_had);
    CHECK_RUN_FORK(a_forked_child_reads_on);
    return check_done();
}
