/* composed.c - datasets side by side and changed, and one sample of a dataset. */
#include <lockstep.h>

#include "expect.h"

static ls_run *run;

static ls_dataset *numbers(const char *name, int64_t count, double first)
{
    return ls_tensor_dataset_new(run, ls_keep(ls_set_name(ls_arange(run, LS_F32, count, first, 1), name)));
}

/* Sample i has i + 1 tokens, each i. */
static bool get_words(int64_t index, ls_sample *sample, void *user)
{
    (void)user;
    int64_t *words = ls_sample_resize(sample, 0, LS_SHAPE(index + 1));
    for (int64_t i = 0; words && i <= index; i++) words[i] = index;
    return words != NULL;
}

static ls_dataset *sentences(int64_t count)
{
    return ls_dataset_new(run, .count = count, .get = get_words,
                          .fields = {{.name = "words", .dtype = LS_I64, .shape = {LS_ANY}, .pad = -1}});
}

static void fields_of_several_side_by_side(void)
{
    ls_dataset *both = ls_zip_dataset_new(numbers("x", 5, 10), sentences(5), numbers("y", 5, 20));
    CHECK(ls_len(both) == 5);
    int64_t seen = 0;
    for (ls_batch b; ls_next(ls_loader_new(run, both, .batch = 5, .shuffle = true, .workers = 2), &b) && !seen;) {
        CHECK(b.count == 3 && ls_dim(ls_batch_field(&b, "words"), 1) == 5);
        float x[5], y[5];
        int64_t words[25];
        CHECK(ls_read(ls_batch_field(&b, "x"), x, sizeof x) && ls_read(ls_batch_field(&b, "y"), y, sizeof y));
        CHECK(ls_read(ls_batch_field(&b, "words"), words, sizeof words));
        for (int i = 0; i < 5; i++, seen++) {
            CHECK(x[i] == (float)(10 + b.index[i]) && y[i] == x[i] + 10 && words[5 * i] == b.index[i]);
            CHECK(b.index[i] == 4 || words[5 * i + b.index[i] + 1] == -1);
        }
    }
    CHECK(seen == 5);
    FAILS_SAYING(ls_zip_dataset_new(numbers("x", 5, 0), numbers("y", 4, 0)),
                 "dataset 1 has 4 samples, the first has 5");
    FAILS_SAYING(ls_zip_dataset_new(numbers("x", 5, 0), numbers("x", 5, 0)), "two fields are named \"x\"");
}

static bool negate(ls_sample *sample, void *user)
{
    float *x = ls_sample_field(sample, 0);
    *x = -*x * *(const float *)user;
    return true;
}

static bool reverse(ls_sample *sample, void *user)
{
    (void)user;
    int64_t *words = ls_sample_field(sample, 0), count = ls_sample_shape(sample, 0).dim[0];
    for (int64_t i = 0; i < count; i++) words[i] = count;
    return true;
}

static bool refuse(ls_sample *sample, void *user)
{
    (void)user;
    return ls_sample_fail(sample, LS_ERR_VALUE, "not this one");
}

static void samples_are_changed_by_a_function(void)
{
    float twice = 2;
    ls_dataset *changed = ls_map_dataset_new(numbers("x", 4, 1), negate, &twice);
    ls_batch b;
    float x[4];
    CHECK(ls_next(ls_loader_new(run, changed, .batch = 4), &b) && ls_read(b.tensor[0], x, sizeof x));
    for (int i = 0; i < 4; i++) CHECK(x[i] == -2 * (float)(i + 1));
    ls_dataset *words = ls_map_dataset_new(sentences(3), reverse, NULL);
    int64_t got[9];
    CHECK(ls_next(ls_loader_new(run, words, .batch = 3), &b) && ls_read(b.tensor[0], got, sizeof got));
    CHECK(got[0] == 1 && got[1] == -1 && got[3] == 2 && got[4] == 2 && got[8] == 3);
    FAILS_SAYING(ls_map_dataset_new(words, NULL, NULL), "the function is NULL");
    FAILS_SAYING(ls_next(ls_loader_new(run, ls_map_dataset_new(words, refuse, NULL)), &b), "not this one");
}

static void one_sample_is_a_batch_of_one(void)
{
    ls_dataset *both = ls_zip_dataset_new(numbers("x", 5, 10), sentences(5));
    ls_tensor *fields[LS_MAX_FIELDS];
    CHECK(ls_dataset_sample(both, 2, fields) == 2);
    int64_t words[3];
    CHECK(ls_item(fields[0]) == 12 && ls_ndim(fields[1]) == 2 && ls_dim(fields[1], 1) == 3);
    CHECK(ls_read(fields[1], words, sizeof words) && words[2] == 2);
    FAILS_SAYING(ls_dataset_sample(both, 5, fields), "ls_dataset_sample: sample 5 of a zip");
    FAILS_SAYING(ls_dataset_sample(both, -1, fields), "sample -1");
    FAILS_SAYING(ls_dataset_sample(ls_map_dataset_new(both, refuse, NULL), 1, fields), "sample 1: not this one");
    FAILS_SAYING(ls_dataset_sample(both, 1, fields, .transform = ls_resize(8)),
                 "ls_dataset_sample: .transform and .dtype");
    CHECK(ls_dataset_sample(NULL, 0, fields) == 0);
}

static void null_is_accepted(void)
{
    ls_dataset *set = numbers("x", 4, 0), *part = NULL, *const none = NULL;
    CHECK(!ls_zip_dataset_new_n(NULL, 2) && !ls_concat_dataset_new_n(NULL, 2) && !ls_zip_dataset_new_n(&none, 1));
    CHECK(ls_compose_n(NULL, 2).count == 0);
    ls_random_split(set, 0.5, NULL, NULL);
    ls_random_split(set, 0.25, NULL, &part);
    CHECK(ls_len(part) == 3 && !ls_error(run));
    CHECK(!ls_next(NULL, NULL) && !ls_error(run));
    FAILS_SAYING(ls_next(ls_loader_new(run, set), NULL), "ls_next: the batch is NULL");
    FAILS_SAYING(ls_batch_field(NULL, "x"), "\"x\" of a batch that was not filled by ls_next()");
    FAILS_SAYING(ls_batch_set_field(NULL, NULL, NULL), "\"\" of a batch");
    FAILS_SAYING(ls_batch_sample_shape(NULL, "x", 0), "\"x\" of a batch");
    ls_batch b;
    CHECK(ls_next(ls_loader_new(run, set), &b));
    FAILS_SAYING(ls_batch_field(&b, NULL), "has no field \"\"; it has x");
}

static void errors_say_what_is_wrong(void)
{
    ls_tensor *fields[LS_MAX_FIELDS], *x = ls_ones(run, LS_F32, 3);
    FAILS_SAYING(ls_dataset_sample(numbers("x", 4, 0), 4, fields), "sample 4 of a tensor dataset of 4");
    FAILS_SAYING(ls_dataset_sample(numbers("x", 4, 0), 0, NULL), "the list of fields is NULL");
    FAILS_SAYING(ls_tensor_dataset_new(run, x, ls_sum(x)), "tensor 1 is [] f32, a single number without rows");
    FAILS_SAYING(ls_tensor_dataset_new_n(run, NULL, 2), "2 tensors of NULL");
    FAILS_SAYING(ls_weighted_sampler_new(run, NULL, 3), "3 weights of NULL");
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    run = ls_init(NULL, NULL, .seed = 3);
    CHECK_RUN(fields_of_several_side_by_side);
    CHECK_RUN(samples_are_changed_by_a_function);
    CHECK_RUN(one_sample_is_a_batch_of_one);
    CHECK_RUN(null_is_accepted);
    CHECK_RUN(errors_say_what_is_wrong);
    ls_finish(run);
    return check_done();
}
