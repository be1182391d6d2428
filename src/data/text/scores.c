/* scores.c - compare answers as SQuAD's evaluation scripts do.
 *
 * Both texts are lower-cased, punctuation is removed, then the words a, an and the; the rest is compared as words. An
 * answer is exact if they are equal; its F1 counts the common words. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "data/text/questions.h"
#include "data/text/unicode.h"

/* ---- Words ---- */

typedef struct words {
    int64_t count;
    char **word;   /* [count], in text order */
    char **sorted; /* [count] the same, sorted */
    char *text;    /* owns them, each zero-terminated */
} words;

/* Lower case without ASCII punctuation, like Python's lower() and string.punctuation. */
static size_t simplify(const char *text, char *to)
{
    size_t room = strlen(text), length = 0;
    for (size_t step; room; text += step, room -= step) {
        uint32_t c, parts[LS_CHAR_MAX_PARTS];
        step = ls_char_read(text, room, &c);
        int count = ls_char_lower(c, parts);
        if (c < 0x80 && ispunct((int)c)) continue;
        for (int i = 0; i < count; i++) length += ls_utf8_encode(parts[i], to + length);
    }
    return length;
}

/* Bytes up to the next change between letters or digits and others. */
static size_t segment_length(const char *text, size_t room, bool *is_word)
{
    size_t length = 0;
    for (size_t step; length < room; length += step) {
        uint32_t c;
        step = ls_char_read(text + length, room - length, &c);
        bool letter = ls_char_flags(c) & LS_CHAR_WORD;
        if (length == 0) *is_word = letter;
        else if (*is_word != letter) break;
    }
    return length;
}

/* Replace articles by blanks, as the regular expression \b(a|an|the)\b finds them. */
static void blank_articles(char *text, size_t room)
{
    bool is_word = false;
    for (size_t step; room; text += step, room -= step) {
        step = segment_length(text, room, &is_word);
        bool article = is_word && ((step == 1 && *text == 'a') || (step == 2 && !memcmp(text, "an", 2)) ||
                                   (step == 3 && !memcmp(text, "the", 3)));
        if (article) memset(text, ' ', step);
    }
}

static void cut_at_blanks(words *w, size_t room)
{
    char *text = w->text;
    bool inside = false;
    for (size_t step; room; text += step, room -= step) {
        uint32_t c;
        step = ls_char_read(text, room, &c);
        bool blank = ls_char_flags(c) & LS_CHAR_SPACE;
        if (!blank && !inside) w->word[w->count++] = text;
        if (blank) *text = 0;
        inside = !blank;
    }
    *text = 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* False if out of memory; call free_words() in any case. */
static bool find_words(words *w, const char *text)
{
    size_t size = strlen(text), most = size / 2 + 1;
    *w = (words){.text = ls_sys_alloc(size * LS_CHAR_MAX_PARTS + 1), .word = ls_sys_alloc(2 * most * sizeof *w->word)};
    if (!w->text || !w->word) return false;
    size_t length = simplify(text, w->text);
    blank_articles(w->text, length);
    cut_at_blanks(w, length);
    w->sorted = w->word + w->count;
    memcpy(w->sorted, w->word, (size_t)w->count * sizeof *w->word);
    qsort(w->sorted, (size_t)w->count, sizeof *w->sorted, by_text);
    return true;
}

static void free_words(words *w)
{
    ls_sys_free(w->text);
    ls_sys_free(w->word);
}

/* ---- One answer ---- */

typedef struct marks {
    double exact, f1; /* 0..1 */
} marks;

static bool same_words(const words *a, const words *b)
{
    bool same = a->count == b->count;
    for (int64_t i = 0; same && i < a->count; i++) same = strcmp(a->word[i], b->word[i]) == 0;
    return same;
}

/* The number of common words, each counted as often as it is in both. */
static int64_t count_common(const words *a, const words *b)
{
    int64_t common = 0;
    for (int64_t i = 0, j = 0; i < a->count && j < b->count;) {
        int order = strcmp(a->sorted[i], b->sorted[j]);
        common += order == 0;
        i += order <= 0;
        j += order >= 0;
    }
    return common;
}

static marks compare(const words *answer, const words *right, bool empty_matches)
{
    marks m = {.exact = same_words(answer, right)};
    int64_t common = count_common(answer, right);
    double precision = (double)common / (double)answer->count, recall = (double)common / (double)right->count;
    if (common) m.f1 = 2 * precision * recall / (precision + recall);
    else if (empty_matches && !answer->count && !right->count) m.f1 = 1;
    return m;
}

/* The best match among the correct answers of a question. In 2.0, answers without words are ignored, and if all are,
 * the correct answer is "". False if out of memory. */
static bool mark(const ls_question *q, const char *answer, bool version_2, marks *best)
{
    words mine, right = {0};
    bool ok = find_words(&mine, answer), seen = false;
    *best = (marks){0};
    for (int64_t i = 0; ok && (i < q->answer_count || (version_2 && !seen)); i++) {
        ok = find_words(&right, i < q->answer_count ? q->answers[i].text : "");
        if (ok && (!version_2 || right.count || i == q->answer_count)) {
            marks m = compare(&mine, &right, version_2);
            if (m.exact > best->exact) best->exact = m.exact;
            if (m.f1 > best->f1) best->f1 = m.f1;
            seen = true;
        }
        free_words(&right);
    }
    free_words(&mine);
    return ok;
}

/* ---- All of them ---- */

static void add(ls_qa_score *score, marks m)
{
    score->count++;
    score->exact += m.exact;
    score->f1 += m.f1;
}

static void to_percent(ls_qa_score *score)
{
    if (!score->count) return;
    score->exact = 100 * score->exact / (double)score->count;
    score->f1 = 100 * score->f1 / (double)score->count;
}

ls_qa_scores ls_questions_score(const ls_questions *questions, const char *const *answers)
{
    ls_qa_scores scores = {0};
    if (!questions || !answers) return scores;
    ls_run *run = ls_question_list_of(questions)->object.run;
    bool version_2 = questions->may_be_unanswerable;
    for (int64_t i = 0; i < questions->count && !ls_failed(run); i++) {
        const ls_question *q = &questions->list[i];
        marks m = {0};
        if (!answers[i] && version_2) continue;
        if (answers[i] && !mark(q, answers[i], version_2, &m))
            ls_fail(&run->errors, LS_ERR_MEMORY, "ls_questions_score: no memory to compare answers");
        add(&scores.all, m);
        if (version_2) add(q->answer_count ? &scores.answerable : &scores.unanswerable, m);
    }
    to_percent(&scores.all);
    to_percent(&scores.answerable);
    to_percent(&scores.unanswerable);
    return scores;
}

/* ---- answers from a file ---- */

/* Fill in the answers by id; returns how many of the file's belong to a question. */
static int64_t match(const ls_questions *questions, const ls_json *file, const char **answers)
{
    int64_t used = 0;
    for (int64_t i = 0; i < questions->count; i++) {
        answers[i] = ls_json_text(ls_json_get(file, questions->list[i].id));
        used += answers[i] != NULL;
    }
    return used;
}

const char *const *ls_questions_read_answers(const ls_questions *questions, const char *path)
{
    if (!questions) return NULL;
    ls_question_list *list = ls_question_list_of(questions);
    ls_run *run = list->object.run;
    ls_message why = {{0}};
    if (ls_failed(run)) return NULL;
    if (!path) return ls_fail(&run->errors, LS_ERR_VALUE, "ls_questions_read_answers: the path is NULL"), NULL;
    size_t size;
    char *text = ls_file_read(path, SIZE_MAX, &size, &why);
    if (!text) return ls_fail(&run->errors, LS_ERR_IO, "%s", why.text), NULL;
    ls_json *file = ls_json_read(text, size, &why);
    ls_sys_free(text);
    if (!file || file->type != LS_JSON_OBJECT) {
        ls_json_free(file);
        ls_fail(&run->errors, LS_ERR_VALUE, "%s: not an object {\"question id\": \"answer\", ...}%s%s", path,
                why.text[0] ? ": " : "", why.text);
        return NULL;
    }
    const char **answers = ls_arena_take(&list->memory, (size_t)questions->count * sizeof *answers + 1);
    if (!answers) return ls_json_free(file), ls_fail(&run->errors, LS_ERR_MEMORY, "%s: no memory", path), NULL;
    int64_t used = match(questions, file, answers), strangers = file->count - used;
    if (strangers > 0)
        ls_log_of_job(LS_LOG_WARN, "%s: %lld of %lld answers belong to no question of %s", path, (long long)strangers,
                      (long long)file->count, list->path);
    for (int64_t i = 0; i < questions->count; i++) {
        if (!answers[i]) continue;
        answers[i] = ls_arena_text(&list->memory, answers[i], strlen(answers[i]));
        if (!answers[i]) ls_fail(&run->errors, LS_ERR_MEMORY, "%s: no memory", path);
    }
    ls_json_free(file);
    return ls_failed(run) ? NULL : answers;
}
