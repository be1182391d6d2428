/* squad.c - the questions of SQuAD, versions 1.1 and 2.0. */
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/message.h"
#include "data/text/tokenizer.h"

enum { LARGEST_FILE = 1 << 30 };

typedef struct squad {
    ls_object object;
    ls_squad view;
    ls_arena memory;
} squad;

static void clear(void *object)
{
    ls_arena_free(&((squad *)object)->memory);
}

static const char *kept(squad *s, const ls_json *value)
{
    const char *text = ls_json_text(value);
    return text ? ls_arena_text(&s->memory, text, strlen(text)) : NULL;
}

static ls_status missing(const char *what, const char *id, ls_message *why)
{
    return ls_explain(why, LS_ERR_IO, "%s is missing or not of the right type%s%s", what, id ? " in question " : "",
                      id ? id : "");
}

static ls_status read_answers(squad *s, const ls_json *answers, ls_squad_example *to, ls_message *why)
{
    if (!answers || answers->type != LS_JSON_ARRAY) return missing("answers", to->id, why);
    ls_squad_answer *list = ls_arena_take(&s->memory, (size_t)(answers->count + 1) * sizeof *list);
    if (!list) return ls_explain(why, LS_ERR_MEMORY, "out of memory");
    to->answers = list;
    for (const ls_json *a = ls_json_first(answers); a; a = a->next, list++) {
        *list = (ls_squad_answer){kept(s, ls_json_get(a, "text")), ls_json_integer(ls_json_get(a, "answer_start"), -1)};
        if (!list->text || list->start < 0) return missing("text or answer_start of an answer", to->id, why);
    }
    to->answer_count = answers->count;
    return LS_OK;
}

static ls_status read_question(squad *s, const ls_json *q, const char *context, ls_squad_example *to, ls_message *why)
{
    *to = (ls_squad_example){.id = kept(s, ls_json_get(q, "id")),
                             .question = kept(s, ls_json_get(q, "question")),
                             .context = context,
                             .is_impossible = ls_json_bool(ls_json_get(q, "is_impossible"), false)};
    if (!to->id || !to->question) return missing("id or question", to->id, why);
    return read_answers(s, ls_json_get(q, "answers"), to, why);
}

static int64_t count_questions(const ls_json *articles)
{
    int64_t count = 0;
    for (const ls_json *a = ls_json_first(articles); a; a = a->next)
        for (const ls_json *p = ls_json_first(ls_json_get(a, "paragraphs")); p; p = p->next)
            if (ls_json_first(ls_json_get(p, "qas"))) count += ls_json_get(p, "qas")->count;
    return count;
}

static ls_status read_all(squad *s, const ls_json *root, ls_message *why)
{
    const ls_json *articles = ls_json_get(root, "data");
    if (!articles || articles->type != LS_JSON_ARRAY) return missing("data", NULL, why);
    int64_t count = count_questions(articles);
    ls_squad_example *examples = ls_arena_take(&s->memory, (size_t)(count + 1) * sizeof *examples);
    if (!examples) return ls_explain(why, LS_ERR_MEMORY, "no memory for %lld questions", (long long)count);
    s->view.examples = examples;
    for (const ls_json *a = ls_json_first(articles); a; a = a->next)
        for (const ls_json *p = ls_json_first(ls_json_get(a, "paragraphs")); p; p = p->next) {
            const char *context = kept(s, ls_json_get(p, "context"));
            if (!context) return missing("the context of a paragraph", NULL, why);
            for (const ls_json *q = ls_json_first(ls_json_get(p, "qas")); q; q = q->next, s->view.count++) {
                ls_status status = read_question(s, q, context, &examples[s->view.count], why);
                if (status) return status;
            }
        }
    return LS_OK;
}

ls_squad *ls_squad_new(ls_run *run, const char *path)
{
    if (ls_failed(run)) return NULL;
    if (!path) return ls_fail(&run->errors, LS_ERR_VALUE, "ls_squad_new: the path is NULL"), NULL;
    squad *s = ls_object_new(run, LS_OBJECT_SQUAD, sizeof *s, clear);
    if (!s) return NULL;
    ls_message why = {{0}}, reason = {{0}};
    size_t size;
    char *text = ls_file_read(path, LARGEST_FILE, &size, &why);
    ls_json *root = text ? ls_json_read(text, size, &reason) : NULL;
    ls_sys_free(text);
    ls_status status = root ? read_all(s, root, &reason) : LS_ERR_IO;
    ls_json_free(root);
    if (!status) return &s->view;
    if (!why.text[0]) ls_explain(&why, status, "%s: %s", path, reason.text);
    ls_fail(&run->errors, status, "ls_squad_new: %s", why.text);
    ls_object_free(s);
    return NULL;
}

void ls_squad_free(ls_squad *view)
{
    if (view) ls_object_free((char *)view - offsetof(squad, view));
}
