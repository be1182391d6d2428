/* qa_windows.c - questions and contexts as windows of tokens, with the position of the answer in each. */
#include "data/text/qa_windows.h"

#include <string.h>

#include "base/memory.h"
#include "base/opts.h"
#include "data/datasets/dataset.h"
#include "data/text/tokenizer.h"

ls_token_range ls_qa_context_of(const ls_qa_windows *windows, int64_t window)
{
    const ls_encoding *e = windows->tokens;
    ls_token_range range = {e->begin[window], e->begin[window + 1]};
    while (range.first < range.end && e->sequence[range.first] != 1) range.first++;
    while (range.end > range.first && e->sequence[range.end - 1] != 1) range.end--;
    return range;
}

const ls_question *ls_qa_question_of(const ls_qa_windows *windows, int64_t window)
{
    return &windows->questions->list[windows->tokens->text[window]];
}

/* ---- creating ---- */

static void clear(void *object)
{
    ls_qa_windows *windows = object;
    ls_encoding_free(windows->tokens);
}

static ls_encoding *encode(ls_tokenizer *tokenizer, ls_run *run, const ls_questions *questions,
                           const ls_qa_windows_opts *opts)
{
    int64_t count = questions->count;
    const char **texts = ls_sys_alloc(2 * (size_t)count * sizeof *texts + 1), **contexts = texts + count;
    if (!texts) return ls_fail(&run->errors, LS_ERR_MEMORY, "ls_qa_windows_new: no memory for texts"), NULL;
    for (int64_t i = 0; i < count; i++) {
        texts[i] = questions->list[i].text;
        contexts[i] = questions->list[i].context;
    }
    ls_encoding *e = ls_tokenizer_encode_n(tokenizer, texts, contexts, count, .max_length = opts->max_length,
                                           .stride = opts->stride, .overflow = true, .truncation = LS_TRUNCATE_SECOND);
    ls_sys_free(texts);
    return e;
}

ls_qa_windows *ls_qa_windows_new_sized(ls_tokenizer *tokenizer, const ls_questions *questions,
                                       const ls_qa_windows_opts *given, size_t opts_size)
{
    ls_qa_windows_opts opts = LS_OPTS_READ(ls_qa_windows_opts, given, opts_size);
    if (!tokenizer || !questions) return NULL;
    ls_run *run = ls_question_list_of(questions)->object.run;
    if (ls_failed(run)) return NULL;
    ls_qa_windows *windows = ls_object_new(run, LS_OBJECT_QA_WINDOWS, sizeof *windows, clear);
    if (!windows) return NULL;
    windows->questions = questions;
    windows->tokens = encode(tokenizer, run, questions, &opts);
    if (windows->tokens) return windows;
    ls_object_free(windows);
    return NULL;
}

void ls_qa_windows_free(ls_qa_windows *windows)
{
    ls_object_free(windows);
}

int64_t ls_qa_windows_count(const ls_qa_windows *windows)
{
    return windows ? windows->tokens->count : 0;
}

/* ---- The dataset ---- */

enum { INPUT_IDS, TOKEN_TYPE_IDS, LENGTH, WINDOW, START, END };

/* First and last token of the first correct answer, relative to the window; both 0 if the window does not contain all
 * of it. */
static void find_answer(const ls_qa_windows *windows, int64_t window, int64_t *start, int64_t *end)
{
    const ls_encoding *e = windows->tokens;
    const ls_question *q = ls_qa_question_of(windows, window);
    ls_token_range context = ls_qa_context_of(windows, window);
    int64_t begin = e->begin[window];
    *start = *end = 0;
    if (!q->answer_count || context.first == context.end) return;
    int64_t from = q->answers[0].start, to = from + (int64_t)strlen(q->answers[0].text);
    if (e->from[context.first] > from || e->to[context.end - 1] < to) return;
    int64_t first = context.first, last = context.end - 1;
    while (first + 1 < context.end && e->from[first + 1] <= from) first++;
    while (last > context.first && e->to[last - 1] >= to) last--;
    *start = first - begin;
    *end = last - begin;
}

static int64_t length_of(int64_t index, void *user)
{
    const ls_encoding *e = ((const ls_qa_windows *)user)->tokens;
    return e->begin[index + 1] - e->begin[index];
}

static bool get(int64_t index, ls_sample *sample, void *user)
{
    const ls_qa_windows *windows = user;
    const ls_encoding *e = windows->tokens;
    int64_t begin = e->begin[index], length = length_of(index, user);
    int64_t *ids = ls_sample_resize(sample, INPUT_IDS, LS_SHAPE(length));
    int64_t *types = ls_sample_resize(sample, TOKEN_TYPE_IDS, LS_SHAPE(length));
    if (!ids || !types) return ls_sample_fail(sample, LS_ERR_MEMORY, "no memory for %lld tokens", (long long)length);
    for (int64_t i = 0; i < length; i++) {
        ids[i] = e->id[begin + i];
        types[i] = e->type[begin + i];
    }
    *(int64_t *)ls_sample_field(sample, LENGTH) = length;
    *(int64_t *)ls_sample_field(sample, WINDOW) = index;
    find_answer(windows, index, ls_sample_field(sample, START), ls_sample_field(sample, END));
    return true;
}

static void hash_text(ls_hash *hash, const char *text)
{
    ls_hash_add(hash, text, strlen(text) + 1);
}

static uint64_t hash_samples(const void *user)
{
    const ls_qa_windows *windows = user;
    ls_hash hash;
    ls_hash_begin(&hash);
    ls_encoding_hash(&hash, windows->tokens);
    for (int64_t i = 0; i < windows->questions->count; i++) {
        const ls_question *q = &windows->questions->list[i];
        hash_text(&hash, q->id);
        for (int64_t a = 0; a < q->answer_count; a++) {
            ls_hash_add(&hash, &q->answers[a].start, sizeof q->answers[a].start);
            hash_text(&hash, q->answers[a].text);
        }
    }
    return ls_hash_end(&hash);
}

ls_dataset *ls_qa_windows_dataset(ls_qa_windows *windows)
{
    if (!windows) return NULL;
    ls_dataset *set =
        ls_dataset_new(windows->object.run, .count = windows->tokens->count, .get = get, .user = windows,
                       .fields = {[INPUT_IDS] = {.name = "input_ids", .dtype = LS_I64, .shape = {LS_ANY}},
                                  [TOKEN_TYPE_IDS] = {.name = "token_type_ids", .dtype = LS_I64, .shape = {LS_ANY}},
                                  [LENGTH] = {.name = "length", .dtype = LS_I64},
                                  [WINDOW] = {.name = "window", .dtype = LS_I64},
                                  [START] = {.name = "start", .dtype = LS_I64},
                                  [END] = {.name = "end", .dtype = LS_I64}});
    if (!set) return NULL;
    set->kind = "questions";
    set->length_of = length_of;
    set->hash_samples = hash_samples;
    if (ls_dataset_set_source(set, ls_question_list_of(windows->questions)->path)) return set;
    ls_object_free(set);
    return NULL;
}
