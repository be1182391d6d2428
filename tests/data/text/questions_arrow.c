/* questions_arrow.c - questions in Arrow tables (tests/formats/samples, made by make_arrow.py), and datasets by name,
 * in caches laid out as Hugging Face's tools leave them. */
#include <lockstep.h>

#include <stdarg.h>

#include "check.h"
#include "folder.h"

#define FOLDER "questions_arrow_test"

static ls_run *run;

static const ls_questions *sample(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, SAMPLES_DIR "/%s.arrow", name);
    return ls_questions_read(run, path);
}

static void fails_with(const ls_questions *list, const char *words)
{
    CHECK(!list);
    CHECK_MSG(strstr(ls_error_message(run), words), "\"%s\" is not in \"%s\"", words, ls_error_message(run));
    ls_clear_error(run);
}

/* ---- tables ---- */

static void check_questions(const ls_questions *list)
{
    CHECK_MSG(list && list->count == 4 && !list->may_be_unanswerable, "%s", ls_error_message(run));
    const ls_question *q = list->list;
    CHECK_TEXT(q[0].id, "q0");
    CHECK_TEXT(q[1].text, "which 1?");
    CHECK_TEXT(q[1].context, "\303\251 is one letter");
    CHECK(q[0].answers[0].start == 3 && !strncmp(q[0].context + q[0].answers[0].start, "is", 2));
    CHECK(q[1].answer_count == 2 && q[1].answers[1].start == 6);
    CHECK_TEXT(q[1].answers[1].text, "one letter");
    CHECK_TEXT(q[2].context, "another context");
    CHECK_TEXT(q[3].answers[0].text, "last");
}

static void tables_of_datasets_are_read(void)
{
    const ls_questions *list = sample("squad");
    check_questions(list);
    CHECK(list->list[0].context == list->list[1].context); /* one text for both */
    CHECK_TEXT(list->list[3].title, "B\303\266hm");
    list = ls_questions_read(run, SAMPLES_DIR "/squad.arrow", .limit = 2);
    CHECK(list && list->count == 2);
    ls_questions_free(list);
    list = sample("squad_v2");
    CHECK(list && list->may_be_unanswerable && !list->list[0].answer_count && list->list[1].answer_count == 1);
}

static void other_columns_and_wider_offsets_are_fine(void)
{
    check_questions(sample("squad_wide"));
}

static void parts_are_one_table(void)
{
    check_questions(sample("squad-train-00000-of-00002"));
    const ls_questions *list = ls_questions_read(run, SAMPLES_DIR "/squad-train-00000-of-00002.arrow", .limit = 1);
    CHECK(list && list->count == 1);
}

static void what_is_wrong_with_a_table_is_named(void)
{
    fails_with(sample("squad_outside"), "squad_outside.arrow: row 0: an \"answer_start\" is outside the context");
    fails_with(sample("squad_compressed"), "squad_compressed.arrow: its batches are compressed");
    fails_with(sample("kinds"), "kinds.arrow: column \"id\" is missing, which SQuAD questions have");
    CHECK(!system("head -c 1000 " SAMPLES_DIR "/squad.arrow > " FOLDER "/cut.arrow"));
    fails_with(ls_questions_read(run, FOLDER "/cut.arrow"), "cut.arrow: it is damaged: it ends within");
    CHECK(!system("cp " SAMPLES_DIR "/squad-train-00000-of-00002.arrow " FOLDER));
    fails_with(ls_questions_read(run, FOLDER "/squad-train-00000-of-00002.arrow"), "-00001-of-00002.arrow");
}

/* ---- names ---- */

/* Copy a sample into a folder that is made. */
static void put(const char *name, const char *folder, const char *file)
{
    char line[1024];
    snprintf(line, sizeof line, "mkdir -p %s && cp " SAMPLES_DIR "/%s.arrow %s/%s", folder, name, folder, file);
    CHECK(system(line) == 0);
}

static int64_t count_of(const char *name, const char *config, const char *split)
{
    const ls_questions *list = ls_questions_read(run, name, .split = split, .config = config);
    CHECK_MSG(list, "%s: %s", name, ls_error_message(run));
    int64_t count = list ? list->count : -1;
    ls_questions_free(list);
    return count;
}

#define CACHE FOLDER "/hf/datasets"

static void datasets_are_found_by_name(void)
{
    setenv("HF_HOME", FOLDER "/hf", 1);
    fails_with(ls_questions_read(run, "squad", .split = "train"),
               "squad: no split \"train\" is in the cache; python3 -c \"from datasets import load_dataset; "
               "load_dataset('squad')\" puts it there (looked in " CACHE ")");
    put("squad", CACHE "/squad/plain_text/0.0.0/abc", "squad-train.arrow");
    put("squad_v2", CACHE "/squad/plain_text/0.0.0/abc", "squad-validation.arrow");
    CHECK(count_of("squad", NULL, "train") == 4 && count_of("squad", "plain_text", "validation") == 2);
    CHECK(count_of("rajpurkar/squad", NULL, "train") == 4); /* its name today */
    fails_with(ls_questions_read(run, "squad", .split = "test"), "squad: no split \"test\" is in the cache");
    fails_with(ls_questions_read(run, "squad", .split = "train", .config = "other"), "load_dataset('squad', 'other')");
    fails_with(ls_questions_read(run, "someone/squad", .split = "train"), "someone/squad: no split");

    put("squad_v2", CACHE "/someone___my_questions/default/1.0.0/abc", "my_questions-train.arrow");
    CHECK(count_of("someone/MyQuestions", NULL, "train") == 2);
    put("squad-train-00000-of-00002", CACHE "/parts/default/0.0.0/abc", "parts-train-00000-of-00002.arrow");
    put("squad-train-00001-of-00002", CACHE "/parts/default/0.0.0/abc", "parts-train-00001-of-00002.arrow");
    CHECK(count_of("parts", NULL, "train") == 4);
}

static void the_latest_of_a_dataset_is_taken(void)
{
    put("squad", CACHE "/often/default/0.0.0/b", "often-train.arrow");
    put("squad_v2", CACHE "/often/default/0.0.0/a", "often-train.arrow");
    put("squad", CACHE "/often/default/0.0.0/c.incomplete", "often-train.arrow");
    CHECK(!system("touch -d 2020-01-01 " CACHE "/often/default/0.0.0/a"));
    CHECK(count_of("often", NULL, "train") == 4);
    CHECK(!system("touch -d 2019-01-01 " CACHE "/often/default/0.0.0/b"));
    CHECK(count_of("often", NULL, "train") == 2);
}

static void configurations_are_not_mixed_up(void)
{
    put("squad", CACHE "/both/one/0.0.0/a", "both-train.arrow");
    put("squad_v2", CACHE "/both/two/0.0.0/a", "both-train.arrow");
    const ls_questions *list = ls_questions_read(run, "both", .split = "train");
    CHECK(!list && strstr(ls_error_message(run), "both has configurations") &&
          strstr(ls_error_message(run), "\"one\"") && strstr(ls_error_message(run), "\"two\""));
    ls_clear_error(run);
    CHECK(count_of("both", "one", "train") == 4 && count_of("both", "two", "train") == 2);
}

static void folders_of_save_to_disk_are_datasets(void)
{
    put("squad", FOLDER "/saved/train", "data-00000-of-00001.arrow");
    CHECK(count_of(FOLDER "/saved", NULL, "train") == 4);
}

static void files_of_an_earlier_save_are_left_alone(void)
{
#define SAVED FOLDER "/again/train"
    put("squad", SAVED, "data-00000-of-00001.arrow");
    put("squad_v2", SAVED, "data-00000-of-00002.arrow"); /* without its second part */
    put("squad_v2", SAVED, "data.arrow");
    file_append(SAVED "/state.json", "{\"_data_files\": [{\"filename\": \"data-00000-of-00001.arrow\"}]}");
    /* of the dataset that the rows were selected from */
    file_append(SAVED "/dataset_info.json", "{\"splits\": {\"train\": {\"num_examples\": 9}}}");
    CHECK(count_of(FOLDER "/again", NULL, "train") == 4);
    remove(SAVED "/state.json");
    file_append(SAVED "/state.json", "{\"_data_files\": [{\"filename\": \"../data.arrow\"}]}");
    fails_with(ls_questions_read(run, FOLDER "/again", .split = "train"), SAVED "/state.json: it lists no _data_files");
    remove(SAVED "/state.json");
    file_append(SAVED "/state.json", "{\"_data_files\"");
    fails_with(ls_questions_read(run, FOLDER "/again", .split = "train"), SAVED "/state.json: line 1");
#undef SAVED
}

static void a_cache_has_the_rows_it_counts(void)
{
#define COUNTED CACHE "/counted/default/0.0.0/abc"
    put("squad", COUNTED, "counted-train.arrow");
    file_append(COUNTED "/dataset_info.json", "{\"splits\": {\"train\": {\"num_examples\": 4}}}");
    CHECK(count_of("counted", NULL, "train") == 4);
    remove(COUNTED "/dataset_info.json");
    file_append(COUNTED "/dataset_info.json", "{\"splits\": {\"train\": {\"num_examples\": 5}}}");
    fails_with(ls_questions_read(run, "counted", .split = "train"),
               "counted-train.arrow: split \"train\" has 4 rows, but its dataset_info.json says 5");
    const ls_questions *list = ls_questions_read(run, "counted", .split = "train", .limit = 3);
    CHECK(list && list->count == 3);
#undef COUNTED
}

/* Files of a download: json is read; what has become of parquet is said. */
static void downloads_are_used_or_named(void)
{
    put("squad", FOLDER "/hf/hub/datasets--squad_v2/snapshots/abc/squad_v2", "train-00000-of-00001.parquet");
    file_append(FOLDER "/hf/hub/datasets--squad_v2/snapshots/abc/README.md", "parquet");
    fails_with(ls_questions_read(run, "squad_v2", .split = "train"),
               "load_dataset('squad_v2')\" makes it from the parquet files there");
    file_append(FOLDER "/hf/hub/datasets--squad_v2/snapshots/abc/train-v2.0.json",
                "{\"data\": [{\"id\": \"a\", \"question\": \"q\", \"context\": \"c\", \"answers\": []}]}");
    CHECK(count_of("rajpurkar/squad_v2", NULL, "train") == 1);
}

static void the_cache_may_be_elsewhere(void)
{
    put("squad", FOLDER "/datasets/squad/plain_text/0.0.0/abc", "squad-train.arrow");
    put("squad_v2", FOLDER "/xdg/huggingface/datasets/squad/plain_text/0.0.0/abc", "squad-train.arrow");
    put("squad-train-00000-of-00002", FOLDER "/user/.cache/huggingface/datasets/squad/plain_text/0.0.0/abc",
        "squad-train.arrow");
    setenv("HF_DATASETS_CACHE", FOLDER "/datasets", 1);
    CHECK(count_of("squad", NULL, "train") == 4);
    unsetenv("HF_DATASETS_CACHE");
    unsetenv("HF_HOME");
    setenv("XDG_CACHE_HOME", FOLDER "/xdg", 1);
    CHECK(count_of("squad", NULL, "train") == 2);
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", FOLDER "/user", 1);
    CHECK(count_of("squad", NULL, "train") == 1);
    setenv("HF_HOME", "~/.cache/huggingface", 1);
    CHECK(count_of("squad", NULL, "train") == 1);
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    folder_fresh(FOLDER);
    run = ls_init(NULL, NULL);
    CHECK_RUN(tables_of_datasets_are_read);
    CHECK_RUN(other_columns_and_wider_offsets_are_fine);
    CHECK_RUN(parts_are_one_table);
    CHECK_RUN(what_is_wrong_with_a_table_is_named);
    CHECK_RUN(datasets_are_found_by_name);
    CHECK_RUN(the_latest_of_a_dataset_is_taken);
    CHECK_RUN(configurations_are_not_mixed_up);
    CHECK_RUN(folders_of_save_to_disk_are_datasets);
    CHECK_RUN(files_of_an_earlier_save_are_left_alone);
    CHECK_RUN(a_cache_has_the_rows_it_counts);
    CHECK_RUN(downloads_are_used_or_named);
    CHECK_RUN(the_cache_may_be_elsewhere);
    ls_finish(run);
    folder_remove(FOLDER);
    return check_done();
}
