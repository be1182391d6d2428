/* qa_answers.c - from start and end logits of windows to one answer per question.
 *
 * The n best pairs (start, end) of every window are kept: the n best of a question are among those of its windows. */
#include <limits.h>
#include <math.h>

#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/names.h"
#include "base/opts.h"
#include "data/text/qa_windows.h"

enum { FIRST, LAST, START_LOGIT, END_LOGIT, COLUMNS }; /* columns of a candidate as numbers */

typedef struct candidate {
    int64_t window;      /* -1: empty */
    int64_t first, last; /* tokens of the window; 0 and 0: no answer */
    float start_logit, end_logit;
} candidate;

struct ls_qa_answers {
    ls_object object;
    ls_qa_windows *windows;
    int n_best, max_answer_length;
    double null_threshold;
    candidate *best;    /* [questions, n_best] best first, of all windows so far */
    candidate *none;    /* [questions] "no answer", of the window with its lowest score */
    bool *seen;         /* [windows] */
    const char **texts; /* [questions] result of ls_qa_answers_best(); owned */
};

static float score_of(const candidate *c)
{
    return c->start_logit + c->end_logit;
}

/* How many of the `n` best, which are sorted, score at least `least`. */
static int count_above(const candidate *best, int n, float least)
{
    int low = 0, high = n;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (best[middle].window >= 0 && score_of(&best[middle]) >= least) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Insert a candidate among the `n` best, which are sorted; the earlier one of equals stays first. */
static void insert(candidate *best, int n, const candidate *c)
{
    int at = count_above(best, n, score_of(c));
    if (at == n) return;
    int there = at + count_above(best + at, n - at, -INFINITY), moved = there < n ? there : n - 1;
    memmove(best + at + 1, best + at, (size_t)(moved - at) * sizeof *best);
    best[at] = *c;
}

/* ---- Candidates of a window ---- */

/* The tokens with the `n` highest logits, best first; returns how many there are. */
static int highest(const float *logits, int64_t count, int n, int64_t *tokens)
{
    int found = 0;
    for (int64_t t = 0; t < count; t++) {
        int at = found;
        while (at > 0 && logits[tokens[at - 1]] < logits[t]) at--;
        if (at == n) continue;
        if (found < n) found++;
        memmove(tokens + at + 1, tokens + at, (size_t)(found - 1 - at) * sizeof *tokens);
        tokens[at] = t;
    }
    return found;
}

/* Pairs of the highest starts and ends that lie in the context and are not too long. start, end: logits of the window's
 * tokens; tokens: memory for 2 n_best of them. */
static void find_candidates(const ls_qa_answers *a, int64_t window, const float *start, const float *end,
                            int64_t *tokens, candidate *best)
{
    const ls_encoding *e = a->windows->tokens;
    int64_t begin = e->begin[window], length = e->begin[window + 1] - begin;
    ls_token_range context = ls_qa_context_of(a->windows, window);
    int64_t *starts = tokens, *ends = tokens + a->n_best;
    int start_count = highest(start, length, a->n_best, starts), end_count = highest(end, length, a->n_best, ends);
    for (int i = 0; i < a->n_best; i++) best[i].window = -1;
    for (int i = 0; i < start_count; i++)
        for (int j = 0; j < end_count; j++) {
            candidate c = {window, starts[i], ends[j], start[starts[i]], end[ends[j]]};
            bool inside = begin + c.first >= context.first && begin + c.last < context.end;
            if (inside && c.last >= c.first && c.last - c.first < a->max_answer_length) insert(best, a->n_best, &c);
        }
}

static void write_row(float *row, const candidate *c)
{
    row[FIRST] = c->window < 0 ? -1 : (float)c->first;
    row[LAST] = c->window < 0 ? -1 : (float)c->last;
    row[START_LOGIT] = c->window < 0 ? 0 : c->start_logit;
    row[END_LOGIT] = c->window < 0 ? 0 : c->end_logit;
}

/* Does `x` have a row of numbers for each window? */
static bool fits(const ls_qa_answers *a, const char *who, ls_tensor *window, ls_tensor *x, int ndim)
{
    ls_run *run = a->object.run;
    char b[LS_TEXT], c[LS_TEXT];
    if (!ls_check_live(run, window, who) || !ls_check_live(run, x, who)) return false;
    const ls_operand *w = &window->view, *v = &x->view;
    if (w->dtype == LS_I64 && v->dtype == LS_F32 && w->ndim == 1 && v->ndim == ndim && v->dim[0] == w->dim[0])
        return true;
    ls_fail(&run->errors, LS_ERR_SHAPE, "%s: windows are %s, their numbers %s; i64 [B] and f32 [B,...] are needed", who,
            ls_operand_text(w, b), ls_operand_text(v, c));
    return false;
}

/* Copy a tensor to the host, to be freed with ls_sys_free(). NULL (and an error) on failure. */
static void *fetch(ls_tensor *x)
{
    size_t bytes = (size_t)ls_view_numel(&x->view) * ls_dtype_size(x->view.dtype);
    void *to = ls_sys_alloc(bytes + 1);
    if (!to) ls_fail(&x->run->errors, LS_ERR_MEMORY, "question answering: no memory for %zu bytes", bytes);
    if (to && ls_read(x, to, bytes)) return to;
    ls_sys_free(to);
    return NULL;
}

/* Check that all windows of a batch exist and have no more tokens than logits. */
static bool windows_exist(const ls_qa_answers *a, const char *who, const int64_t *window, int64_t count, int64_t width)
{
    const ls_encoding *e = a->windows->tokens;
    ls_run *run = a->object.run;
    for (int64_t i = 0; i < count; i++) {
        bool exists = window[i] >= 0 && window[i] < e->count;
        int64_t length = exists ? e->begin[window[i] + 1] - e->begin[window[i]] : 0;
        if (exists && length <= width) continue;
        if (exists)
            ls_fail(&run->errors, LS_ERR_SHAPE, "%s: window %lld has %lld tokens, but there are %lld logits", who,
                    (long long)window[i], (long long)length, (long long)width);
        else
            ls_fail(&run->errors, LS_ERR_VALUE, "%s: window %lld does not exist; windows are numbered 0 .. %lld", who,
                    (long long)window[i], (long long)e->count - 1);
        return false;
    }
    return true;
}

typedef struct batch {
    int64_t count, width;
    int64_t *window;
    float *start, *end;
    int64_t *tokens;      /* working memory */
    candidate *candidate; /* the same */
} batch;

/* Can scores be compared? A logit of -infinity rules a token out; NaN and +infinity come from a broken model. */
static bool is_score(float logit)
{
    return logit < (float)INFINITY;
}

static float first_broken(const float *logits, int64_t count)
{
    for (int64_t t = 0; t < count; t++)
        if (!is_score(logits[t])) return logits[t];
    return logits[0];
}

/* A broken logit takes the place of the one of "no answer", so that ls_qa_answers_add() finds it in all processes. */
static void fill_rows(const ls_qa_answers *a, const batch *b, float *rows)
{
    const int64_t *begin = a->windows->tokens->begin;
    for (int64_t i = 0; i < b->count; i++) {
        const float *start = b->start + i * b->width, *end = b->end + i * b->width;
        int64_t length = begin[b->window[i] + 1] - begin[b->window[i]];
        candidate none = {b->window[i], 0, 0, first_broken(start, length), first_broken(end, length)};
        find_candidates(a, b->window[i], start, end, b->tokens, b->candidate);
        write_row(rows, &none);
        rows += COLUMNS;
        for (int k = 0; k < a->n_best; k++, rows += COLUMNS) write_row(rows, &b->candidate[k]);
    }
}

ls_tensor *ls_qa_candidates(ls_qa_answers *a, ls_tensor *window, ls_tensor *start, ls_tensor *end)
{
    static const char who[] = "ls_qa_candidates";
    if (!a) return NULL;
    ls_run *run = a->object.run;
    if (!fits(a, who, window, start, 2) || !fits(a, who, window, end, 2)) return &run->poison;
    size_t n = (size_t)a->n_best;
    int64_t count = start->view.dim[0],
            width = start->view.dim[1] < end->view.dim[1] ? start->view.dim[1] : end->view.dim[1];
    batch b = {count,
               width,
               fetch(window),
               fetch(start),
               fetch(end),
               ls_sys_alloc(2 * n * sizeof *b.tokens),
               ls_sys_alloc(n * sizeof *b.candidate)};
    float *rows = ls_sys_alloc((size_t)count * (1 + n) * COLUMNS * sizeof *rows + 1);
    ls_tensor *result = &run->poison;
    if (!b.tokens || !b.candidate || !rows) ls_fail(&run->errors, LS_ERR_MEMORY, "%s: no memory", who);
    if (!ls_failed(run) && windows_exist(a, who, b.window, count, width)) {
        fill_rows(a, &b, rows);
        result = ls_from(run, LS_F32, LS_SHAPE(count, 1 + a->n_best, COLUMNS), rows);
    }
    ls_sys_free(b.window);
    ls_sys_free(b.start);
    ls_sys_free(b.end);
    ls_sys_free(b.tokens);
    ls_sys_free(b.candidate);
    ls_sys_free(rows);
    return result;
}

static void forget_texts(ls_qa_answers *a)
{
    for (int64_t i = 0; a->texts && i < a->windows->questions->count; i++) ls_sys_free((void *)(uintptr_t)a->texts[i]);
    ls_sys_free(a->texts);
    a->texts = NULL;
}

/* ---- Candidates of a question ---- */

/* Could ls_qa_candidates() have found this row of a window: "no answer" in row 0, a part of the context in others? */
static bool could_be_found(const ls_qa_answers *a, int64_t window, int row, const float *c)
{
    int64_t begin = a->windows->tokens->begin[window];
    ls_token_range context = ls_qa_context_of(a->windows, window);
    if (row == 0) return c[FIRST] == 0 && c[LAST] == 0;
    if (c[FIRST] == -1) return true; /* unused */
    return c[FIRST] >= (float)(context.first - begin) && c[FIRST] <= c[LAST] && c[LAST] < (float)(context.end - begin);
}

static bool row_sound(const ls_qa_answers *a, const char *who, int64_t window, int row, const float *c)
{
    ls_run *run = a->object.run;
    if (!could_be_found(a, window, row, c))
        ls_fail(&run->errors, LS_ERR_VALUE,
                "%s: candidate %d of window %lld has tokens %g .. %g, which are not in its context; all processes must "
                "read the same questions",
                who, row, (long long)window, (double)c[FIRST], (double)c[LAST]);
    else if (!is_score(c[START_LOGIT]) || !is_score(c[END_LOGIT]))
        ls_fail(&run->errors, LS_ERR_VALUE,
                "%s: logits of window %lld are %s; the weights of the model are damaged, or its training diverged", who,
                (long long)window, isnan(c[START_LOGIT]) || isnan(c[END_LOGIT]) ? "NaN" : "infinite");
    return !ls_failed(run);
}

/* Check all rows of a batch before any of it is kept. */
static bool rows_sound(const ls_qa_answers *a, const char *who, const int64_t *window, const float *rows, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        for (int k = 0; k <= a->n_best; k++, rows += COLUMNS)
            if (!row_sound(a, who, window[i], k, rows)) return false;
    return true;
}

static void take_in(ls_qa_answers *a, int64_t window, const float *rows)
{
    int64_t question = a->windows->tokens->text[window];
    candidate *none = &a->none[question], *best = a->best + question * a->n_best;
    if (a->seen[window]) return;
    a->seen[window] = true;
    for (int k = 0; k <= a->n_best; k++, rows += COLUMNS) {
        candidate c = {window, (int64_t)rows[FIRST], (int64_t)rows[LAST], rows[START_LOGIT], rows[END_LOGIT]};
        if (c.first < 0) continue;
        if (k > 0) insert(best, a->n_best, &c);
        else if (none->window < 0 || score_of(&c) < score_of(none)) *none = c;
    }
}

void ls_qa_answers_add(ls_qa_answers *a, ls_tensor *window, ls_tensor *candidates)
{
    static const char who[] = "ls_qa_answers_add";
    if (!a || !fits(a, who, window, candidates, 3)) return;
    ls_run *run = a->object.run;
    const ls_operand *v = &candidates->view;
    if (v->dim[1] != 1 + a->n_best || v->dim[2] != COLUMNS) {
        char text[LS_TEXT];
        ls_fail(&run->errors, LS_ERR_SHAPE, "%s: candidates are %s; ls_qa_candidates() makes f32 [B,%d,%d]", who,
                ls_operand_text(v, text), 1 + a->n_best, COLUMNS);
        return;
    }
    int64_t count = v->dim[0], row = (1 + a->n_best) * COLUMNS;
    int64_t *windows = fetch(window);
    float *rows = fetch(candidates);
    forget_texts(a);
    if (windows && rows && windows_exist(a, who, windows, count, INT64_MAX) && rows_sound(a, who, windows, rows, count))
        for (int64_t i = 0; i < count; i++) take_in(a, windows[i], rows + i * row);
    ls_sys_free(windows);
    ls_sys_free(rows);
}

/* ---- Answers ---- */

/* The part of the context that a candidate refers to. */
static const char *place_of(const ls_qa_answers *a, const candidate *c, size_t *length)
{
    const ls_encoding *e = a->windows->tokens;
    int64_t begin = e->begin[c->window];
    int32_t from = e->from[begin + c->first], to = e->to[begin + c->last];
    *length = (size_t)(to - from);
    return ls_qa_question_of(a->windows, c->window)->context + from;
}

static bool version_2(const ls_qa_answers *a)
{
    return a->windows->questions->may_be_unanswerable;
}

/* The score of "no answer" minus that of the best answer; only the best counts if nothing else was found. */
static double null_odds(const ls_qa_answers *a, int64_t question)
{
    const candidate *best = a->best + question * a->n_best, *none = &a->none[question];
    return (none->window < 0 ? 0 : score_of(none)) - (best->window < 0 ? 0 : score_of(best));
}

/* NULL if out of memory. */
static char *answer_to(const ls_qa_answers *a, int64_t question)
{
    const candidate *best = a->best + question * a->n_best;
    const char *text = "empty"; /* as in Transformers, if no pair is possible */
    size_t length = strlen(text);
    if (best->window >= 0) text = place_of(a, best, &length);
    if (version_2(a) && (best->window < 0 || null_odds(a, question) > a->null_threshold)) length = 0;
    char *copy = ls_sys_alloc(length + 1);
    if (!copy) return NULL;
    memcpy(copy, text, length);
    copy[length] = 0;
    return copy;
}

const char *const *ls_qa_answers_best(ls_qa_answers *a)
{
    if (!a) return NULL;
    ls_run *run = a->object.run;
    int64_t count = a->windows->questions->count;
    if (a->texts) return a->texts;
    a->texts = ls_sys_alloc((size_t)count * sizeof *a->texts + 1);
    bool ok = a->texts != NULL;
    for (int64_t i = 0; ok && i < count; i++) ok = (a->texts[i] = answer_to(a, i)) != NULL;
    if (!ok) ls_fail(&run->errors, LS_ERR_MEMORY, "ls_qa_answers_best: no memory for answers");
    if (!ok) forget_texts(a);
    return a->texts;
}

/* ---- Files ---- */

/* The best answers of a question as listed in files: candidates, with "no answer" among them in 2.0. Returns their
 * number. */
static int list_best(const ls_qa_answers *a, int64_t question, candidate *list)
{
    const candidate *best = a->best + question * a->n_best;
    int count = 0;
    for (int i = 0; i < a->n_best; i++) list[i] = best[i];
    list[a->n_best].window = -1;
    if (version_2(a) && a->none[question].window >= 0) insert(list, a->n_best + 1, &a->none[question]);
    while (count <= a->n_best && list[count].window >= 0) count++;
    return count;
}

static void put_candidate(ls_json_writer *w, const char *text, const candidate *c, double probability)
{
    ls_json_put_object(w, NULL);
    ls_json_put_number(w, "score", (double)score_of(c));
    ls_json_put_number(w, "start_logit", (double)c->start_logit);
    ls_json_put_number(w, "end_logit", (double)c->end_logit);
    ls_json_put_text(w, "text", text);
    ls_json_put_number(w, "probability", probability);
    ls_json_put_end(w);
}

/* [{...}, ...], with probabilities that sum to 1. */
static bool put_best(ls_json_writer *w, const ls_qa_answers *a, int64_t question, candidate *list)
{
    int count = list_best(a, question, list);
    double sum = 0;
    for (int i = 0; i < count; i++) sum += exp((double)score_of(&list[i]) - (double)score_of(&list[0]));
    ls_json_put_array(w, a->windows->questions->list[question].id);
    for (int i = 0; i < count; i++) {
        size_t length = 0;
        const char *place = list[i].last ? place_of(a, &list[i], &length) : "";
        char *text = ls_sys_alloc(length + 1);
        if (!text) return false;
        memcpy(text, place, length);
        put_candidate(w, text, &list[i], exp((double)score_of(&list[i]) - (double)score_of(&list[0])) / sum);
        ls_sys_free(text);
    }
    static const candidate empty = {0};
    if (count == 0) put_candidate(w, "empty", &empty, 1);
    ls_json_put_end(w);
    return true;
}

/* Write a file's entry about a question into its object; false if out of memory. */
typedef bool put_fn(ls_json_writer *w, const ls_qa_answers *a, int64_t question, candidate *room);

static bool put_answer(ls_json_writer *w, const ls_qa_answers *a, int64_t question, candidate *room)
{
    (void)room;
    ls_json_put_text(w, a->windows->questions->list[question].id, a->texts[question]);
    return true;
}

static bool put_odds(ls_json_writer *w, const ls_qa_answers *a, int64_t question, candidate *room)
{
    (void)room;
    ls_json_put_number(w, a->windows->questions->list[question].id, null_odds(a, question));
    return true;
}

static bool write_file(const ls_qa_answers *a, const char *path, put_fn *put)
{
    if (!path) return true;
    ls_run *run = a->object.run;
    ls_message why = {{0}};
    ls_json_writer w = {.indent = 4, .ascii = true};
    candidate *room = ls_sys_alloc((size_t)(a->n_best + 1) * sizeof *room);
    bool ok = room != NULL;
    ls_json_put_object(&w, NULL);
    for (int64_t i = 0; ok && i < a->windows->questions->count; i++) ok = put(&w, a, i, room);
    ls_json_put_end(&w);
    size_t size;
    char *text = ls_json_take(&w, &size);
    if (!ok || !text) ls_fail(&run->errors, LS_ERR_MEMORY, "%s: no memory to write answers", path);
    else if (!ls_folder_make_above(path, &why) || !ls_file_write(path, text, size, true, &why))
        ls_fail(&run->errors, LS_ERR_IO, "%s", why.text);
    ls_sys_free(text);
    ls_sys_free(room);
    return !ls_failed(run);
}

bool ls_qa_answers_write(ls_qa_answers *a, const char *predictions, const char *nbest, const char *odds)
{
    return ls_qa_answers_best(a) && write_file(a, predictions, put_answer) && write_file(a, nbest, put_best) &&
           write_file(a, odds, put_odds);
}

/* ---- The object ---- */

static void clear(void *object)
{
    ls_qa_answers *a = object;
    forget_texts(a);
    ls_sys_free(a->best);
    ls_sys_free(a->none);
    ls_sys_free(a->seen);
}

/* The most candidates that a question can have, in all its windows together: no list needs to be longer. */
static int most_candidates(const ls_qa_windows *windows, int max_answer_length)
{
    const ls_encoding *e = windows->tokens;
    int64_t most = 1, here = 0;
    for (int64_t w = 0; w < e->count; w++) {
        ls_token_range context = ls_qa_context_of(windows, w);
        int64_t tokens = context.end - context.first, longest = tokens < max_answer_length ? tokens : max_answer_length;
        if (w && e->text[w] != e->text[w - 1]) here = 0;
        here += tokens * longest - longest * (longest - 1) / 2; /* the last tokens begin fewer answers */
        if (here > most) most = here;
    }
    return most < INT_MAX ? (int)most : INT_MAX;
}

static bool sound(ls_run *run, const ls_qa_answers_opts *opts)
{
    if (opts->n_best < 1)
        ls_fail(&run->errors, LS_ERR_VALUE, "ls_qa_answers_new: n_best is %d; it must be at least 1", opts->n_best);
    else if (opts->max_answer_length < 1)
        ls_fail(&run->errors, LS_ERR_VALUE, "ls_qa_answers_new: max_answer_length is %d; it must be at least 1",
                opts->max_answer_length);
    else if (isnan(opts->null_threshold))
        ls_fail(&run->errors, LS_ERR_VALUE, "ls_qa_answers_new: null_threshold is not a number");
    return !ls_failed(run);
}

/* Files of predictions list answers by id, so every question needs one of its own. */
static bool ids_differ(ls_run *run, const ls_questions *questions)
{
    ls_name_table ids = {0};
    for (int64_t i = 0; i < questions->count && !ls_failed(run); i++) {
        const char *id = questions->list[i].id;
        int64_t first = ls_name_table_add(&ids, id, strlen(id), i);
        if (first == LS_NAME_TABLE_MEMORY)
            ls_fail(&run->errors, LS_ERR_MEMORY, "ls_qa_answers_new: no memory for %lld ids",
                    (long long)questions->count);
        else if (first != i)
            ls_fail(&run->errors, LS_ERR_VALUE,
                    "%s: questions %lld and %lld both have the id \"%.60s\"; answers are told apart by their ids",
                    ls_question_list_of(questions)->path, (long long)first, (long long)i, id);
    }
    ls_name_table_free(&ids);
    return !ls_failed(run);
}

ls_qa_answers *ls_qa_answers_new_sized(ls_qa_windows *windows, const ls_qa_answers_opts *given, size_t opts_size)
{
    ls_qa_answers_opts opts = LS_OPTS_READ(ls_qa_answers_opts, given, opts_size);
    if (!windows) return NULL;
    ls_run *run = windows->object.run;
    if (ls_failed(run) || !sound(run, &opts) || !ids_differ(run, windows->questions)) return NULL;
    ls_qa_answers *a = ls_object_new(run, LS_OBJECT_QA_ANSWERS, sizeof *a, clear);
    if (!a) return NULL;
    int most = most_candidates(windows, opts.max_answer_length);
    a->windows = windows;
    a->n_best = opts.n_best < most ? opts.n_best : most;
    size_t questions = (size_t)windows->questions->count, places = questions * (size_t)a->n_best;
    a->max_answer_length = opts.max_answer_length;
    a->null_threshold = opts.null_threshold;
    a->best = ls_sys_alloc(places * sizeof *a->best + 1);
    a->none = ls_sys_alloc(questions * sizeof *a->none + 1);
    a->seen = ls_sys_alloc((size_t)windows->tokens->count + 1);
    if (!a->best || !a->none || !a->seen) {
        ls_fail(&run->errors, LS_ERR_MEMORY, "ls_qa_answers_new: no memory for %zu candidates", places);
        return ls_object_free(a), NULL;
    }
    for (size_t i = 0; i < places; i++) a->best[i].window = -1;
    for (size_t i = 0; i < questions; i++) a->none[i].window = -1;
    return a;
}

void ls_qa_answers_free(ls_qa_answers *answers)
{
    ls_object_free(answers);
}
