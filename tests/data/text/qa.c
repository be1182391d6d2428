/* qa.c - questions from files, their windows, the answers that logits point at, and scores, which are those of SQuAD's
 * own evaluators. */
#include <lockstep.h>

#include "check.h"
#include "folder.h"

#define FOLDER "qa_test"

static ls_run *run;

static void write_text(const char *path, const char *text)
{
    remove(path);
    file_append(path, text);
}

static const ls_questions *questions_of(const char *json)
{
    write_text(FOLDER "/questions.json", json);
    return ls_questions_read(run, FOLDER "/questions.json");
}

static void error_says(const char *words)
{
    CHECK_MSG(strstr(ls_error_message(run), words), "\"%s\" is not in \"%s\"", words, ls_error_message(run));
    ls_clear_error(run);
}

static void fails_with(const char *json, const char *words)
{
    CHECK(!questions_of(json));
    error_says(words);
}

/* ---- files ---- */

static const char V1[] =
    "{\"version\": \"1.1\", \"data\": [{\"title\": \"Cats\", \"paragraphs\": [{\"context\": \"D\\u00e9but: the cat sat "
    "on a "
    "mat.\", \"qas\": [{\"id\": \"q1\", \"question\": \"Who sat?\", \"answers\": [{\"answer_start\": 11, \"text\": "
    "\"cat\"}, "
    "{\"answer_start\": 7, \"text\": \"the cat\"}]}, {\"id\": \"q2\", \"question\": \"Where?\", \"answers\": "
    "[{\"answer_start\": 19, \"text\": \"on a mat\"}]}]}]}]}";

static void both_forms_of_files_are_read(void)
{
    const ls_questions *list = questions_of(V1);
    CHECK(list && list->count == 2 && !list->may_be_unanswerable);
    const ls_question *q = list->list;
    CHECK_TEXT(q[0].id, "q1");
    CHECK_TEXT(q[0].title, "Cats");
    CHECK(q[0].answer_count == 2 && !strncmp(q[0].context + q[0].answers[0].start, "cat", 3));
    CHECK(!strncmp(q[1].context + q[1].answers[0].start, "on a mat", 8));
    list = questions_of(
        "{\"data\": [{\"id\": \"a\", \"question\": \"Q\", \"context\": \"one two\", \"answers\": {\"text\": "
        "[\"two\"], \"answer_start\": [4]}}, {\"id\": \"b\", \"question\": \"Q\", \"context\": \"one\", "
        "\"answers\": {\"text\": [], \"answer_start\": []}}]}");
    CHECK(list && list->count == 2 && list->may_be_unanswerable && list->list[0].answers[0].start == 4);
    list = ls_questions_read(run, FOLDER "/questions.json", .limit = 1);
    CHECK(list && list->count == 1 && !list->may_be_unanswerable);
    list = ls_questions_read(run, FOLDER "/questions.json", .limit = 1, .may_be_unanswerable = true);
    CHECK(list && list->may_be_unanswerable);
}

static void what_is_wrong_with_a_file_is_named(void)
{
    fails_with("{\"data\": 3}", "the list \"data\" is missing");
    fails_with("{\"data\": [{\"question\": \"Q\", \"context\": \"c\"}]}", "question 0: \"id\" is missing");
    fails_with("{\"data\": [{\"id\": \"a7\", \"context\": \"c\"}]}", "(id \"a7\"): \"question\" is missing");
    fails_with("{\"data\": [{\"id\": \"a7\", \"question\": \"q\"}]}", "\"context\" is missing");
    fails_with(
        "{\"data\": [{\"id\": \"a\", \"question\": \"q\", \"context\": \"c\", \"answers\": [{\"text\": \"c\"}]}]}",
        "\"answer_start\"");
    fails_with("{\"data\": [{\"id\": \"a\", \"question\": \"q\", \"context\": \"c\", \"answers\": [{\"text\": \"c\", "
               "\"answer_start\": 9}]}]}",
               "beyond the end of the context");
    fails_with("{\"data\": [", FOLDER "/questions.json");
    CHECK(!ls_questions_read(run, FOLDER "/absent.json") && strstr(ls_error_message(run), "absent.json"));
    ls_clear_error(run);
}

/* ---- scores ---- */

static void case_articles_and_punctuation_do_not_count(void)
{
    const ls_questions *list = questions_of(V1);
    const char *answers[] = {"The CAT!", "a mat"};
    ls_qa_scores s = ls_questions_score(list, answers);
    /* "mat" against "on mat": precision 1, recall 1/2 */
    CHECK(s.all.count == 2 && s.all.exact == 50);
    CHECK_NEAR(s.all.f1, 100 * (1 + 2. / 3) / 2, 1e-12);
    const char *missing[] = {NULL, "on \xc3\xa0 mat"}; /* a letter with an accent is no article */
    s = ls_questions_score(list, missing);
    CHECK(s.all.count == 2 && s.all.exact == 0);
    CHECK_NEAR(s.all.f1, 100 * (2 * (2. / 3) * 1 / (2. / 3 + 1)) / 2, 1e-12);
}

static void questions_without_an_answer_want_an_empty_one(void)
{
    const ls_questions *list = questions_of(
        "{\"data\": [{\"paragraphs\": [{\"context\": \"one two\", \"qas\": [{\"id\": \"a\", \"question\": "
        "\"Q\", \"is_impossible\": false, \"answers\": [{\"text\": \"two\", \"answer_start\": 4}]}, {\"id\": "
        "\"b\", \"question\": \"Q\", \"is_impossible\": true, \"answers\": [], \"plausible_answers\": "
        "[{\"text\": \"one\", \"answer_start\": 0}]}, {\"id\": \"c\", \"question\": \"Q\", "
        "\"is_impossible\": true, \"answers\": []}]}]}]}");
    CHECK(list && list->count == 3 && list->may_be_unanswerable && list->list[1].answer_count == 0);
    const char *answers[] = {"two", "one", ""};
    ls_qa_scores s = ls_questions_score(list, answers);
    CHECK(s.answerable.count == 1 && s.answerable.exact == 100 && s.unanswerable.count == 2);
    CHECK(s.unanswerable.exact == 50 && s.unanswerable.f1 == 50);
    CHECK_NEAR(s.all.exact, 200. / 3, 1e-12);
    const char *fewer[] = {"two", NULL, NULL};
    CHECK(ls_questions_score(list, fewer).all.count == 1);
}

static void published_predictions_get_their_scores(void)
{
    static const struct {
        const char *file;
        double exact, f1;
    } systems[] = {{"BERT_ensemble_Google_AI_Language.json", 86.20624408703878, 92.19557978351145},
                   {"Logistic_Regression_Baseline_Stanford_University.json", 40.14191106906339, 50.98153647324461}};
    const char *folder = check_data("squad");
    if (!folder) return;
    char path[2048];
    snprintf(path, sizeof path, "%s/dev-v1.1.json", folder);
    const ls_questions *dev = ls_questions_read(run, path);
    CHECK(dev && dev->count == 10570);
    for (int i = 0; dev && i < 2; i++) {
        snprintf(path, sizeof path, "%s/predictions/%s", folder, systems[i].file);
        ls_qa_scores s = ls_questions_score(dev, ls_questions_read_answers(dev, path));
        CHECK_NEAR(s.all.exact, systems[i].exact, 1e-10);
        CHECK_NEAR(s.all.f1, systems[i].f1, 1e-10);
    }
}

/* ---- windows ---- */

/* Every letter is a token of its own; [PAD] 0 [UNK] 1 [CLS] 2 [SEP] 3, then a 4, b 5, ... */
static ls_tokenizer *letters(void)
{
    char text[256] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n";
    for (char c = 'a'; c <= 'z'; c++) snprintf(text + strlen(text), sizeof text - strlen(text), "%c\n", c);
    write_text(FOLDER "/vocab.txt", text);
    return ls_tokenizer_new(run, FOLDER "/vocab.txt");
}

static const char ALPHABET[] = "{\"data\": [{\"id\": \"x\", \"question\": \"q\", \"context\": \"a b c d e f g h i j\", "
                               "\"answers\": [{\"text\": \"f g\", \"answer_start\": 10}]}]}";

static void windows_overlap_and_know_where_the_answer_is(void)
{
    /* [CLS] q [SEP] + 5 letters + [SEP], of which 2 are repeated: abcde, defgh, ghij */
    static const int64_t want[3][4] = {
        {9, 4, 0, 0}, {9, 7, 5, 6}, {8, 10, 0, 0}}; /* length, first letter, start, end */
    ls_qa_windows *windows = ls_qa_windows_new(letters(), questions_of(ALPHABET), .max_length = 9, .stride = 2);
    CHECK(ls_qa_windows_count(windows) == 3);
    ls_loader *loader = ls_loader_new(run, ls_qa_windows_dataset(windows), .batch = 3);
    ls_batch b;
    CHECK(ls_next(loader, &b) && b.size == 3);
    int64_t ids[3][9], types[3][9], length[3], start[3], end[3];
    CHECK(ls_read(ls_batch_field(&b, "input_ids"), ids, sizeof ids));
    CHECK(ls_read(ls_batch_field(&b, "token_type_ids"), types, sizeof types));
    CHECK(ls_read(ls_batch_field(&b, "length"), length, sizeof length));
    CHECK(ls_read(ls_batch_field(&b, "start"), start, sizeof start));
    CHECK(ls_read(ls_batch_field(&b, "end"), end, sizeof end));
    for (int i = 0; i < 3; i++) {
        CHECK(length[i] == want[i][0] && ids[i][0] == 2 && ids[i][1] == 4 + 'q' - 'a' && ids[i][3] == want[i][1]);
        CHECK(types[i][2] == 0 && types[i][3] == 1 && start[i] == want[i][2] && end[i] == want[i][3]);
    }
    CHECK(ids[2][8] == 0); /* padding */
    while (ls_next(loader, &b)) {}
}

static void a_question_that_fills_the_window_is_an_error(void)
{
    CHECK(!ls_qa_windows_new(letters(), questions_of(ALPHABET), .max_length = 4, .stride = 2));
    CHECK(ls_error(run) == LS_ERR_VALUE);
    ls_clear_error(run);
}

/* ---- answers ---- */

/* Logits [3,9] that are `low` everywhere but at the places named. */
static ls_tensor *logits(const int places[][2], const float *values, int count)
{
    float all[3][9];
    for (int i = 0; i < 27; i++) all[i / 9][i % 9] = -10;
    for (int i = 0; i < count; i++) all[places[i][0]][places[i][1]] = values[i];
    return ls_from(run, LS_F32, LS_SHAPE(3, 9), all);
}

static void the_best_pair_of_all_windows_is_the_answer(void)
{
    ls_qa_windows *windows = ls_qa_windows_new(letters(), questions_of(ALPHABET), .max_length = 9, .stride = 2);
    ls_qa_answers *answers = ls_qa_answers_new(windows, .n_best = 3, .max_answer_length = 3);
    int64_t numbers[3] = {0, 1, 2};
    ls_tensor *window = ls_from(run, LS_I64, LS_SHAPE(3), numbers);
    /* The question itself, an end before its start and an answer of 4 letters do not count: f .. g of window 1 does. */
    ls_tensor *start = logits((const int[][2]){{0, 1}, {1, 5}, {1, 3}, {2, 3}}, (const float[]){9, 3, 4, 1}, 4);
    ls_tensor *end = logits((const int[][2]){{0, 1}, {1, 6}, {1, 4}, {2, 3}}, (const float[]){9, 4, -20, 1}, 4);
    ls_tensor *found = ls_qa_candidates(answers, window, start, end);
    CHECK(ls_ndim(found) == 3 && ls_dim(found, 0) == 3 && ls_dim(found, 1) == 4 && ls_dim(found, 2) == 4);
    ls_qa_answers_add(answers, window, found);
    ls_qa_answers_add(answers, window, found); /* again: nothing changes */
    const char *const *texts = ls_qa_answers_best(answers);
    CHECK(texts);
    if (texts) CHECK_TEXT(texts[0], "f g");
    CHECK(ls_qa_answers_write(answers, FOLDER "/predictions.json", FOLDER "/nbest.json", NULL));
    char *text = file_text(FOLDER "/predictions.json", NULL);
    CHECK(text && strstr(text, "\"x\": \"f g\""));
    free(text);
    text = file_text(FOLDER "/nbest.json", NULL);
    CHECK(text && strstr(text, "\"score\": 7") && strstr(text, "\"start_logit\": 3") &&
          strstr(text, "\"probability\": 0.99"));
    free(text);
}

/* Windows of 5, 5 and 4 letters have 9, 9 and 7 parts of one or two letters. */
static void no_more_candidates_are_kept_than_there_can_be(void)
{
    ls_qa_windows *windows = ls_qa_windows_new(letters(), questions_of(ALPHABET), .max_length = 9, .stride = 2);
    ls_qa_answers *answers = ls_qa_answers_new(windows, .n_best = 100000000, .max_answer_length = 2);
    int64_t numbers[3] = {0, 1, 2};
    ls_tensor *window = ls_from(run, LS_I64, LS_SHAPE(3), numbers), *x = logits(NULL, NULL, 0);
    ls_tensor *found = ls_qa_candidates(answers, window, x, x);
    CHECK(ls_dim(found, 1) == 1 + 25);
    ls_qa_answers_add(answers, window, found);
    CHECK(ls_qa_answers_write(answers, NULL, FOLDER "/nbest.json", NULL));
    char *text = file_text(FOLDER "/nbest.json", NULL);
    int listed = 0;
    for (const char *at = text; (at = strstr(at, "\"score\"")); at++) listed++;
    CHECK_MSG(listed == 25, "%d", listed);
    free(text);
}

static void no_answer_wins_by_more_than_the_threshold(void)
{
    for (int i = 0; i < 2; i++) {
        const ls_questions *list = questions_of(
            "{\"data\": [{\"id\": \"x\", \"question\": \"q\", \"context\": \"a b c\", \"is_impossible\": true}]}");
        ls_qa_windows *windows = ls_qa_windows_new(letters(), list, .max_length = 9, .stride = 2);
        ls_qa_answers *answers = ls_qa_answers_new(windows, .null_threshold = i ? 3 : 0);
        int64_t number = 0;
        ls_tensor *window = ls_from(run, LS_I64, LS_SHAPE(1), &number);
        float scores[7] = {2, 0, 0, 1, 0, 0, 0}; /* none: 4, a: 2 */
        ls_tensor *x = ls_from(run, LS_F32, LS_SHAPE(1, 7), scores);
        ls_qa_answers_add(answers, window, ls_qa_candidates(answers, window, x, x));
        const char *const *texts = ls_qa_answers_best(answers);
        CHECK(texts);
        if (texts) CHECK_TEXT(texts[0], i ? "a" : "");
    }
}

static void shapes_that_do_not_fit_are_refused(void)
{
    ls_qa_windows *windows = ls_qa_windows_new(letters(), questions_of(ALPHABET), .max_length = 9, .stride = 2);
    ls_qa_answers *answers = ls_qa_answers_new(windows);
    int64_t number = 7;
    ls_tensor *window = ls_from(run, LS_I64, LS_SHAPE(1), &number), *x = ls_zeros(run, LS_F32, 1, 9);
    ls_qa_candidates(answers, window, x, x);
    CHECK_MSG(strstr(ls_error_message(run), "window 7 does not exist"), "%s", ls_error_message(run));
    ls_clear_error(run);
    number = 0;
    window = ls_from(run, LS_I64, LS_SHAPE(1), &number);
    x = ls_zeros(run, LS_F32, 1, 5);
    ls_qa_candidates(answers, window, x, x);
    CHECK_MSG(strstr(ls_error_message(run), "9 tokens, but there are 5 logits"), "%s", ls_error_message(run));
    ls_clear_error(run);
    CHECK(!ls_qa_answers_new(windows, .n_best = 0) && ls_error(run) == LS_ERR_VALUE);
    ls_clear_error(run);
}

static void candidates_outside_the_context_are_refused(void)
{
    static const float wild[][2] = {{1e9f, 1e9f}, {3, 1e9f}, {-7, 3}, {0, 3}, {3, 8}, {5, 4}, {(float)NAN, 3}};
    ls_qa_windows *windows = ls_qa_windows_new(letters(), questions_of(ALPHABET), .max_length = 9, .stride = 2);
    ls_qa_answers *answers = ls_qa_answers_new(windows, .n_best = 1);
    int64_t number = 1;
    ls_tensor *window = ls_from(run, LS_I64, LS_SHAPE(1), &number);
    for (size_t i = 0; i < sizeof wild / sizeof *wild; i++) {
        float rows[2][4] = {{0, 0, 1, 1}, {wild[i][0], wild[i][1], 2, 2}};
        ls_qa_answers_add(answers, window, ls_from(run, LS_F32, LS_SHAPE(1, 2, 4), rows));
        error_says("candidate 1 of window 1 has tokens ");
    }
    float rows[2][4] = {{3, 3, 1, 1}, {-1, -1, 0, 0}};
    ls_qa_answers_add(answers, window, ls_from(run, LS_F32, LS_SHAPE(1, 2, 4), rows));
    error_says("candidate 0 of window 1 has tokens 3 .. 3");
}

static void logits_of_a_broken_model_are_refused(void)
{
    ls_qa_windows *windows = ls_qa_windows_new(letters(), questions_of(ALPHABET), .max_length = 9, .stride = 2);
    ls_qa_answers *answers = ls_qa_answers_new(windows);
    int64_t numbers[3] = {0, 1, 2};
    ls_tensor *window = ls_from(run, LS_I64, LS_SHAPE(3), numbers);
    ls_tensor *good = logits((const int[][2]){{1, 5}}, (const float[]){-INFINITY}, 1);
    static const float broken[] = {(float)NAN, (float)INFINITY};
    for (int i = 0; i < 4; i++) {
        ls_tensor *bad = logits((const int[][2]){{1, 8}}, &broken[i / 2], 1);
        ls_qa_answers_add(answers, window, ls_qa_candidates(answers, window, i % 2 ? bad : good, i % 2 ? good : bad));
        error_says(i / 2 ? "logits of window 1 are infinite" : "logits of window 1 are NaN");
    }
    ls_qa_answers_add(answers, window, ls_qa_candidates(answers, window, good, good));
    CHECK(ls_qa_answers_best(answers));
}

static void two_questions_with_one_id_cannot_be_answered(void)
{
    const ls_questions *list = questions_of("{\"data\": [{\"id\": \"x\", \"question\": \"q\", \"context\": \"a\"}, "
                                            "{\"id\": \"y\", \"question\": \"q\", \"context\": \"a\"}, "
                                            "{\"id\": \"x\", \"question\": \"q\", \"context\": \"b\"}]}");
    ls_qa_windows *windows = ls_qa_windows_new(letters(), list, .max_length = 9, .stride = 2);
    CHECK(windows && !ls_qa_answers_new(windows));
    error_says(FOLDER "/questions.json: questions 0 and 2 both have the id \"x\"");
}

/* ---- the cache ---- */

static void models_are_found_in_the_hubs_cache(void)
{
    char folder[512];
    setenv("HF_HUB_CACHE", FOLDER "/hub", 1);
    CHECK(!ls_hub_find("models", "org/net", "config.json", folder, sizeof folder));
    CHECK_TEXT(folder, FOLDER "/hub/models--org--net");
    CHECK(!system("mkdir -p " FOLDER "/hub/models--org--net/snapshots/abc " FOLDER
                  "/hub/models--org--net/snapshots/zzz " FOLDER "/hub/models--org--net/refs && echo abc > " FOLDER
                  "/hub/models--org--net/refs/main"));
    CHECK(!ls_hub_find("models", "org/net", "config.json", folder, sizeof folder));
    write_text(FOLDER "/hub/models--org--net/snapshots/zzz/config.json", "{}");
    CHECK(ls_hub_find("models", "org/net", "config.json", folder, sizeof folder));
    CHECK_TEXT(folder, FOLDER "/hub/models--org--net/snapshots/zzz");
    write_text(FOLDER "/hub/models--org--net/snapshots/abc/config.json", "{}");
    CHECK(ls_hub_find("models", "org/net", "config.json", folder, sizeof folder));
    CHECK_TEXT(folder, FOLDER "/hub/models--org--net/snapshots/abc");
    /* names that got an owner later */
    CHECK(!ls_hub_find("models", "bert-tiny", "config.json", folder, sizeof folder));
    CHECK_TEXT(folder, FOLDER "/hub/models--bert-tiny");
    CHECK(!system("mkdir -p " FOLDER "/hub/models--google-bert--bert-tiny/snapshots/abc"));
    write_text(FOLDER "/hub/models--google-bert--bert-tiny/snapshots/abc/config.json", "{}");
    CHECK(ls_hub_find("models", "bert-tiny", "config.json", folder, sizeof folder));
    CHECK(ls_hub_find("models", "google-bert/bert-tiny", "config.json", folder, sizeof folder));
    CHECK(!ls_hub_find("models", "someone/bert-tiny", "config.json", folder, sizeof folder));
    CHECK(!ls_hub_find("models", "../org/net", "config.json", folder, sizeof folder));
    /* a folder comes first, also one that could be a name */
    CHECK(!ls_hub_find("models", FOLDER "/net", "config.json", folder, sizeof folder));
    CHECK(!system("mkdir -p " FOLDER "/net"));
    write_text(FOLDER "/net/config.json", "{}");
    CHECK(ls_hub_find("models", FOLDER "/net", "config.json", folder, sizeof folder));
    CHECK_TEXT(folder, FOLDER "/net");
    CHECK(!ls_hub_find("models", FOLDER "/net", "weights", folder, sizeof folder));
    unsetenv("HF_HUB_CACHE");
    setenv("TRANSFORMERS_CACHE", FOLDER "/hub", 1); /* of models alone */
    CHECK(ls_hub_find("models", "org/net", "config.json", folder, sizeof folder));
    CHECK(!ls_hub_find("datasets", "org/net", "config.json", folder, sizeof folder) && !strstr(folder, FOLDER));
    unsetenv("TRANSFORMERS_CACHE");
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    folder_fresh(FOLDER);
    run = ls_init(NULL, NULL);
    CHECK_RUN(both_forms_of_files_are_read);
    CHECK_RUN(what_is_wrong_with_a_file_is_named);
    CHECK_RUN(case_articles_and_punctuation_do_not_count);
    CHECK_RUN(questions_without_an_answer_want_an_empty_one);
    CHECK_RUN(published_predictions_get_their_scores);
    CHECK_RUN(windows_overlap_and_know_where_the_answer_is);
    CHECK_RUN(a_question_that_fills_the_window_is_an_error);
    CHECK_RUN(the_best_pair_of_all_windows_is_the_answer);
    CHECK_RUN(no_more_candidates_are_kept_than_there_can_be);
    CHECK_RUN(no_answer_wins_by_more_than_the_threshold);
    CHECK_RUN(shapes_that_do_not_fit_are_refused);
    CHECK_RUN(candidates_outside_the_context_are_refused);
    CHECK_RUN(logits_of_a_broken_model_are_refused);
    CHECK_RUN(two_questions_with_one_id_cannot_be_answered);
    CHECK_RUN(models_are_found_in_the_hubs_cache);
    ls_finish(run);
    folder_remove(FOLDER);
    return check_done();
}
