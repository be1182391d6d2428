/* workers.c - batches do not depend on who makes them, and threads end when they should. */
#include "data/loader/loader.h"

#include "base/memory.h"
#include "check.h"
#include "data/tests.h"

#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 50 };

static const char *device = "cpu";

/* Sample i: `fixed` [2] is i and a random number, `list` has i % 5 numbers i, `label` is i. */
typedef struct made {
    int64_t bad_from, bad_to, fatal; /* samples that are damaged; one that fails for another reason */
    atomic_int reads;
} made;

static bool get(int64_t index, ls_sample *sample, void *user)
{
    made *m = user;
    atomic_fetch_add(&m->reads, 1);
    if (index >= m->bad_from && index < m->bad_to)
        return ls_sample_fail(sample, LS_ERR_IO, "number %lld is damaged", (long long)index);
    if (index == m->fatal) return ls_sample_fail(sample, LS_ERR_VALUE, "number %lld is wrong", (long long)index);
    float *fixed = ls_sample_field(sample, 0);
    fixed[0] = (float)index;
    fixed[1] = (float)(ls_sample_random(sample) % 1000);
    int32_t *list = ls_sample_resize(sample, 1, LS_SHAPE(index % 5));
    if (!list) return false;
    for (int64_t i = 0; i < index % 5; i++) list[i] = (int32_t)index;
    int64_t *label = ls_sample_field(sample, 2);
    *label = index;
    if (index % 7 == 0) usleep(100); /* some take longer */
    return true;
}

static ls_dataset *made_new(ls_run *run, made *m, ls_on_bad on_bad)
{
    return ls_dataset_new(run, .count = COUNT, .get = get, .user = m, .on_bad = on_bad,
                          .fields = {{.name = "fixed", .dtype = LS_F32, .shape = {2}},
                                     {.name = "list", .dtype = LS_I32, .shape = {LS_ANY}, .pad = -1},
                                     {.name = "label", .dtype = LS_I64}});
}

/* A number that stands for everything in a pass: order, content, padding. */
static uint64_t pass_digest(ls_loader *loader)
{
    uint64_t digest = 1;
    for (ls_batch b; ls_next(loader, &b);) {
        char bytes[4096];
        for (int i = 0; i < b.count; i++) {
            size_t size = (size_t)ls_numel(b.tensor[i]) * ls_dtype_size(ls_dtype_of(b.tensor[i]));
            ls_read(b.tensor[i], bytes, size);
            for (size_t k = 0; k < size; k++) digest = (digest ^ (uint64_t)(uint8_t)bytes[k]) * 1099511628211u;
            digest = (digest ^ (uint64_t)ls_dim(b.tensor[i], 1)) * 1099511628211u;
        }
        for (int64_t j = 0; j < b.size; j++) digest = (digest ^ (uint64_t)b.index[j]) * 1099511628211u;
    }
    return digest;
}

static void content_does_not_depend_on_workers(void)
{
    uint64_t expected[3] = {0};
    static const int workers[] = {0, 1, 3, 8};
    for (int w = 0; w < 4; w++)
        for (int prefetch = 1; prefetch < 5; prefetch += 3) {
            ls_run *run = ls_init(NULL, NULL, .seed = 3, .device = device);
            made m = {.bad_from = 10, .bad_to = 13, .fatal = -1};
            ls_loader *loader = ls_loader_new(run, made_new(run, &m, LS_ON_BAD_SKIP), .batch = 8, .shuffle = true,
                                              .workers = workers[w], .prefetch = prefetch);
            for (int pass = 0; pass < 3; pass++) {
                uint64_t digest = pass_digest(loader);
                CHECK(w == 0 && prefetch == 1 ? (expected[pass] = digest) : digest == expected[pass]);
                CHECK(ls_loader_bad_count(loader) == 3);
            }
            CHECK(ls_finish(run) == 0);
        }
    CHECK(expected[0] != expected[1] && expected[1] != expected[2]);
}

static void shorter_samples_are_padded(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 3, .device = device);
    made m = {.fatal = -1};
    ls_loader *loader = ls_loader_new(run, made_new(run, &m, LS_ON_BAD_FAIL), .batch = 4, .pad_multiple = 2);
    ls_batch b;
    CHECK(ls_next(loader, &b));
    ls_tensor *list = ls_batch_field(&b, "list");
    CHECK(ls_dim(list, 0) == 4 && ls_dim(list, 1) == 4); /* 0, 1, 2, 3 numbers, rounded up to 4 */
    int32_t values[16];
    CHECK(ls_read(list, values, sizeof values));
    static const int32_t expected[] = {-1, -1, -1, -1, 1, -1, -1, -1, 2, 2, -1, -1, 3, 3, 3, -1};
    CHECK(memcmp(values, expected, sizeof expected) == 0);
    for (int64_t i = 0; i < 4; i++) CHECK(ls_batch_sample_shape(&b, "list", i).dim[0] == i);
    CHECK(ls_batch_sample_shape(&b, "fixed", 2).dim[0] == 2);
    CHECK(ls_finish(run) == 0);
}

static void a_bad_sample_is_replaced_by_the_next_good_one(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 3, .device = device);
    made m = {.bad_from = 48, .bad_to = 50, .fatal = -1};
    ls_loader *loader = ls_loader_new(run, made_new(run, &m, LS_ON_BAD_SKIP), .batch = 10);
    int64_t index[COUNT];
    CHECK(read_pass(loader, index) == COUNT);
    CHECK(index[47] == 47 && index[48] == 0 && index[49] == 0 && ls_loader_bad_count(loader) == 2);
    m.bad_from = 0;
    ls_batch b;
    CHECK(!ls_next(loader, &b) && ls_error(run) == LS_ERR_IO); /* none is good */
    ls_finish(run);
}

static void failures_name_the_first_sample(void)
{
    static const int workers[] = {0, 3};
    for (int w = 0; w < 2; w++) {
        ls_run *run = ls_init(NULL, NULL, .seed = 3, .device = device);
        made m = {.bad_from = 23, .bad_to = 30, .fatal = 22};
        ls_loader *loader = ls_loader_new(run, made_new(run, &m, LS_ON_BAD_FAIL), .batch = 20, .workers = workers[w]);
        ls_batch b;
        CHECK(ls_next(loader, &b) && !ls_next(loader, &b) && !ls_next(loader, &b));
        CHECK(ls_error(run) == LS_ERR_VALUE);
        CHECK_TEXT(ls_error_message(run), "dataset: sample 22: number 22 is wrong");
        CHECK(b.size == 0 && !b.image);
        ls_clear_error(run);
        ls_loader_rewind(loader); /* it can be used again */
        m.fatal = -1;
        m.bad_to = 0;
        CHECK(ls_next(loader, &b) && ls_next(loader, &b) && b.index[2] == 22);
        ls_finish(run);
    }
}

static bool forgetful(int64_t index, ls_sample *sample, void *user)
{
    (void)index;
    int what = *(const int *)user;
    if (what == 1) return false;
    if (what == 2) return ls_sample_field(sample, 1) != NULL;
    if (what == 3) return ls_sample_field(sample, 7) != NULL;
    if (what == 4) return ls_sample_resize(sample, 1, LS_SHAPE(1, 2)) != NULL;
    if (what == 5) return ls_sample_image(sample, 0, "", 0);
    return true;
}

static void mistakes_in_get_are_explained(void)
{
    static const char *const words[] = {"ls_sample_resize() was not called for \"list\"",
                                        "without calling ls_sample_fail()",
                                        "the size of \"list\" varies",
                                        "field 7 of 2",
                                        "[1,2] for field \"list\" of [-1]",
                                        "is not an image"};
    for (int what = 0; what < 6; what++) {
        ls_run *run = ls_init(NULL, NULL, .seed = 3, .device = device);
        ls_dataset *set = ls_dataset_new(
            run, .count = 3, .get = forgetful, .user = &what,
            .fields = {{.name = "x", .dtype = LS_F32}, {.name = "list", .dtype = LS_F32, .shape = {LS_ANY}}});
        ls_batch b;
        CHECK(!ls_next(ls_loader_new(run, set), &b));
        CHECK_MSG(strstr(ls_error_message(run), words[what]), "%d: %s", what, ls_error_message(run));
        ls_finish(run);
    }
}

static void loops_may_be_left_and_loaders_freed_at_any_time(void)
{
    for (int leave = 0; leave < 7; leave++)
        for (int end = 0; end < 3; end++) {
            ls_run *run = ls_init(NULL, NULL, .seed = 3, .device = device);
            made m = {.fatal = -1};
            ls_loader *loader = ls_loader_new(run, made_new(run, &m, LS_ON_BAD_FAIL), .batch = 8, .workers = 3);
            int batches = 0;
            for (ls_batch b; batches < leave && ls_next(loader, &b); batches++) continue;
            if (end == 1) ls_loader_free(loader);
            if (end == 2) {
                ls_loader_rewind(loader);
                int64_t index[COUNT];
                CHECK(read_pass(loader, index) == COUNT && index[0] == 0);
            }
            CHECK(ls_finish(run) == 0);
        }
}

static void resuming_works_with_workers(void)
{
    for (int64_t stop = 0; stop < 8; stop++) {
        ls_run *run = ls_init(NULL, NULL, .seed = 3, .device = device);
        made m = {.fatal = -1};
        ls_dataset *set = made_new(run, &m, LS_ON_BAD_FAIL);
        ls_loader *one = ls_loader_new(run, set, .batch = 8, .shuffle = true, .workers = 3);
        ls_batch b;
        for (int64_t i = 0; i < stop; i++) CHECK(ls_next(one, &b));
        if (stop == 7) CHECK(b.last);
        ls_loader_state state = ls_loader_state_get(one);
        uint64_t rest = pass_digest(one), after = pass_digest(one);
        int reads = atomic_load(&m.reads);
        ls_loader *two = ls_loader_new(run, set, .batch = 8, .shuffle = true, .workers = 2, .seed = 77);
        CHECK(ls_loader_state_set(two, &state));
        CHECK(atomic_load(&m.reads) == reads); /* nothing is read on the way */
        CHECK(pass_digest(two) == rest && pass_digest(two) == after);
        CHECK(atomic_load(&m.reads) == reads + 2 * COUNT - (int)(stop < 6 ? 8 * stop : stop == 6 ? 48 : 50));
        CHECK(ls_finish(run) == 0);
    }
}

static void steady_passes_take_nothing_from_the_system(void)
{
    static const int workers[] = {0, 3};
    for (int w = 0; w < 2; w++) {
        ls_run *run = ls_init(NULL, NULL, .seed = 3, .device = device);
        made m = {.fatal = -1};
        ls_loader *loader =
            ls_loader_new(run, made_new(run, &m, LS_ON_BAD_FAIL), .batch = 8, .shuffle = true, .workers = workers[w]);
        for (int pass = 0; pass < 20; pass++) pass_digest(loader);
        uint64_t before = ls_sys_calls();
        for (int pass = 0; pass < 3; pass++) pass_digest(loader);
        CHECK(ls_sys_calls() == before);
        CHECK(ls_finish(run) == 0);
    }
}

static void a_forked_child_goes_on_by_itself(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 3, .device = device);
    made m = {.fatal = -1};
    ls_loader *loader = ls_loader_new(run, made_new(run, &m, LS_ON_BAD_FAIL), .batch = 4, .workers = 3, .prefetch = 3);
    ls_batch b;
    CHECK(ls_next(loader, &b));
    pid_t child = fork();
    if (child == 0) {
        int64_t index[COUNT];
        int64_t count = read_pass(loader, index);
        bool right =
            count == COUNT - 4 && index[0] == 4 && index[COUNT - 5] == COUNT - 1 && read_pass(loader, index) == COUNT;
        _exit(ls_finish(run) == 0 && right ? 0 : 1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    int64_t index[COUNT];
    CHECK(read_pass(loader, index) == COUNT - 4);
    CHECK(ls_finish(run) == 0);
}

/* collate: what operators make of a batch takes its place. */
static void twice(ls_batch *batch, void *user)
{
    *(int64_t *)user += batch->size;
    ls_batch_set_field(batch, "fixed", ls_add(batch->image, batch->image));
}

static void a_collate_function_may_use_operators(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 3, .device = device);
    made m = {.fatal = -1};
    int64_t seen = 0;
    ls_loader *loader =
        ls_loader_new(run, made_new(run, &m, LS_ON_BAD_FAIL), .batch = 20, .collate = twice, .user = &seen);
    ls_batch b;
    CHECK(ls_next(loader, &b) && row_of(b.image, 3) == 6 && b.tensor[0] == b.image && seen == 20);
    CHECK(ls_finish(run) == 0);
}

/* Everything that takes memory, once; returns the number of samples. */
static int64_t use_everything(ls_run *run, made *m)
{
    static const double weights[COUNT] = {1, 2, 3};
    static const int64_t sizes[] = {2, 1}, samples[] = {0, 1, 2};
    ls_dataset *first, *second;
    ls_random_split(made_new(run, m, LS_ON_BAD_FAIL), 0.5, &first, &second);
    ls_dataset *both = ls_concat_dataset_new(first, second);
    ls_loader *loaders[] = {
        ls_loader_new(run, both, .batch = 7, .shuffle = true, .workers = 2),
        ls_loader_new(run, both, .batch = 7,
                      .sampler = ls_weighted_sampler_new(run, weights, COUNT, .draws = 3, .replacement = false)),
        ls_loader_new(run, numbers(run, 9), .sampler = ls_batch_sampler_new(run, sizes, 2, samples)),
    };
    int64_t seen = 0;
    for (int i = 0; i < 3; i++)
        for (ls_batch b; ls_next(loaders[i], &b);) seen += b.size;
    return seen;
}

static void no_lack_of_memory_goes_unnoticed(void)
{
    bool failed = true;
    for (uint64_t n = 1; failed && n < 500; n++) {
        ls_run *run = ls_init(NULL, NULL, .seed = 3, .device = device);
        made m = {.fatal = -1};
        uint64_t before = ls_sys_calls();
        ls_sys_fail_at(n);
        int64_t seen = use_everything(run, &m);
        ls_sys_fail_at(0);
        failed = ls_sys_calls() - before >= n;
        /* Some requests can be done without: then nothing is missing. */
        CHECK_MSG(ls_error(run) == LS_OK ? seen == COUNT + 3 + 3 : failed && ls_error(run) == LS_ERR_MEMORY,
                  "request %d: %s", (int)n, ls_error_message(run));
        ls_clear_error(run);
        CHECK(ls_finish(run) == 0);
    }
    CHECK(!failed);
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "--device") == 0) device = argv[2];
    else check_filter = argc > 1 ? argv[1] : NULL;
    CHECK_RUN(content_does_not_depend_on_workers);
    CHECK_RUN(shorter_samples_are_padded);
    CHECK_RUN(a_bad_sample_is_replaced_by_the_next_good_one);
    CHECK_RUN(failures_name_the_first_sample);
    CHECK_RUN(mistakes_in_get_are_explained);
    CHECK_RUN(loops_may_be_left_and_loaders_freed_at_any_time);
    CHECK_RUN(resuming_works_with_workers);
    CHECK_RUN(steady_passes_take_nothing_from_the_system);
    if (strcmp(device, "cpu") == 0) CHECK_RUN_FORK(a_forked_child_goes_on_by_itself);
    CHECK_RUN(a_collate_function_may_use_operators);
    CHECK_RUN(no_lack_of_memory_goes_unnoticed);
    return check_done();
}
