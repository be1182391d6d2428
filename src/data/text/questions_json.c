/* questions_json.c - SQuAD files as published: questions, contexts and answers in json.
 *
 * Both formats are read in two passes: one to count the questions, one to fill them in. Texts stay in the JSON reader's
 * memory. */
#include "data/text/questions.h"

#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"

enum { LARGEST_FILE = 1 << 30 };

/* One pass over the file. */
typedef struct reading {
    ls_question_list *list;
    ls_question *to; /* NULL: only count */
    int64_t count, limit;
    int64_t bare;           /* paragraphs without "qas" */
    const char *bare_title; /* of the article of the first one; may be NULL */
    ls_message why;         /* of the first error */
} reading;

static bool wrong(reading *w, const char *id, const char *what)
{
    ls_message_set(&w->why, "question %lld%s%s%s: %s", (long long)w->count, id ? " (id \"" : "", id ? id : "",
                   id ? "\")" : "", what);
    return false;
}

/* ---- Answers ---- */

static bool set_answer(reading *w, const ls_question *q, ls_answer *answer, const ls_json *text, const ls_json *start)
{
    int64_t character = ls_json_integer(start, -1);
    if (!ls_json_text(text)) return wrong(w, q->id, "an answer has no \"text\"");
    if (character < 0) return wrong(w, q->id, "an answer has no \"answer_start\", the character where it begins");
    *answer = (ls_answer){ls_json_text(text), ls_question_byte(q->context, character)};
    return answer->start >= 0 || wrong(w, q->id, "an \"answer_start\" is beyond the end of the context");
}

/* [{"text": t, "answer_start": n}, ...] or {"text": [t, ...], "answer_start": [n, ...]} */
static bool set_answers(reading *w, ls_question *q, const ls_json *answers)
{
    bool columns = answers && answers->type == LS_JSON_OBJECT;
    const ls_json *texts = columns ? ls_json_get(answers, "text") : answers;
    const ls_json *starts = columns ? ls_json_get(answers, "answer_start") : NULL;
    if (!answers || answers->type == LS_JSON_NULL) return true;
    if (!texts || texts->type != LS_JSON_ARRAY || (columns && (!starts || starts->type != LS_JSON_ARRAY)))
        return wrong(w, q->id, "\"answers\" is neither a list nor an object of two lists");
    if (columns && texts->count != starts->count) return wrong(w, q->id, "\"answers\" has lists of different lengths");
    ls_answer *list = ls_arena_take(&w->list->memory, (size_t)texts->count * sizeof *list + 1);
    if (!list) return wrong(w, q->id, "no memory for its answers");
    const ls_json *start = ls_json_first(starts);
    for (const ls_json *text = ls_json_first(texts); text; text = text->next) {
        ls_answer *answer = &list[q->answer_count++];
        if (!(columns ? set_answer(w, q, answer, text, start)
                      : set_answer(w, q, answer, ls_json_get(text, "text"), ls_json_get(text, "answer_start"))))
            return false;
        start = start ? start->next : NULL;
    }
    q->answers = list;
    return true;
}

/* ---- Questions ---- */

static bool add_question(reading *w, const ls_json *entry, const char *title, const char *context)
{
    const char *id = ls_json_text(ls_json_get(entry, "id")), *text = ls_json_text(ls_json_get(entry, "question"));
    const ls_json *impossible = ls_json_get(entry, "is_impossible");
    if (w->count == w->limit) return true;
    if (w->to) {
        ls_question *q = &w->to[w->count];
        if (!id) return wrong(w, NULL, "\"id\" is missing");
        if (!text) return wrong(w, id, "\"question\" is missing");
        if (!context) return wrong(w, id, "\"context\" is missing");
        *q = (ls_question){.id = id, .title = title ? title : "", .text = text, .context = context};
        /* Answers of an impossible question are only plausible ones. */
        const ls_json *answers = ls_json_get(entry, "answers");
        if (!ls_json_bool(impossible, false) && !set_answers(w, q, answers)) return false;
        if (impossible || (answers && !q->answer_count)) w->list->questions.may_be_unanswerable = true;
    }
    w->count++;
    return true;
}

static bool read_article(reading *w, const ls_json *article)
{
    const char *title = ls_json_text(ls_json_get(article, "title"));
    const ls_json *paragraphs = ls_json_get(article, "paragraphs");
    if (!paragraphs) return add_question(w, article, title, ls_json_text(ls_json_get(article, "context")));
    for (const ls_json *p = ls_json_first(paragraphs); p; p = p->next) {
        if (!ls_json_get(p, "qas") && w->bare++ == 0) w->bare_title = title;
        for (const ls_json *qa = ls_json_first(ls_json_get(p, "qas")); qa; qa = qa->next)
            if (!add_question(w, qa, title, ls_json_text(ls_json_get(p, "context")))) return false;
    }
    return true;
}

static bool read_entries(reading *w)
{
    const ls_json *data = ls_json_get(w->list->file, "data");
    w->count = w->bare = 0;
    if (!data || data->type != LS_JSON_ARRAY) {
        ls_message_set(&w->why, "the list \"data\" is missing, which SQuAD files begin with");
        return false;
    }
    for (const ls_json *article = ls_json_first(data); article; article = article->next)
        if (!read_article(w, article)) return false;
    return true;
}

/* Paragraphs without questions are skipped. False if nothing else is in the file. */
static bool check_bare(reading *w)
{
    const char *title = w->bare_title ? w->bare_title : "";
    if (w->bare && !w->count && w->limit) {
        ls_message_set(&w->why, "no paragraph has the list \"qas\", which contains the questions");
        return false;
    }
    if (w->bare)
        ls_log_of_job(LS_LOG_WARN, "%s: paragraphs without the list \"qas\" of questions: %lld, the first in \"%s\"",
                      w->list->path, (long long)w->bare, title);
    return true;
}

bool ls_questions_fill_json(ls_question_list *list, int64_t limit, ls_message *why)
{
    size_t size;
    char *text = ls_file_read(list->path, LARGEST_FILE, &size, why);
    if (!text) return false;
    reading w = {.list = list, .limit = limit};
    list->file = ls_json_read(text, size, &w.why);
    ls_sys_free(text);
    bool ok = list->file && read_entries(&w);
    if (ok) w.to = ls_arena_take(&list->memory, (size_t)w.count * sizeof *w.to + 1);
    if (ok && !w.to) ok = (ls_message_set(&w.why, "no memory for %lld questions", (long long)w.count), false);
    ok = ok && read_entries(&w) && check_bare(&w);
    list->questions.count = w.count;
    list->questions.list = w.to;
    if (!ok) ls_message_set(why, "%s: %s", list->path, w.why.text);
    return ok;
}
