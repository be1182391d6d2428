/* questions.c - lists of questions: find their file and its format. */
#include "data/text/questions.h"

#include <stdio.h>
#include <string.h>

#include <lockstep/formats.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/opts.h"
#include "formats/arrow.h"
#include "formats/hub.h"

int64_t ls_question_byte(const char *context, int64_t character)
{
    const char *at = context;
    for (; *at; at++) {
        bool begins = (*at & 0xc0) != 0x80;
        if (begins && character-- == 0) break;
    }
    return character <= 0 ? at - context : -1;
}

/* ---- Files ---- */

/* The file of a split: the one prepared by `datasets`, or SQuAD's own if that was downloaded. */
static bool find_split(const ls_hub_split *which, char path[LS_HUB_PATH], ls_message *why)
{
    char file[32], folder[LS_HUB_PATH - 32];
    if (!ls_hub_find_split(which, path, why)) return true;
    bool is_train = strcmp(which->split, "train") == 0;
    if (!is_train && strcmp(which->split, "validation") != 0) return false;
    snprintf(file, sizeof file, "%s-%s.json", is_train ? "train" : "dev", strstr(which->name, "v2") ? "v2.0" : "v1.1");
    bool found = ls_hub_find("datasets", which->name, file, folder, sizeof folder);
    if (found) snprintf(path, LS_HUB_PATH, "%s/%s", folder, file);
    return found;
}

static bool fill(ls_question_list *list, const ls_questions_read_opts *opts, ls_message *why)
{
    int64_t limit = opts->limit == LS_AUTO ? INT64_MAX : opts->limit;
    bool is_arrow = ls_is_arrow_file(list->path);
    if (!(is_arrow ? ls_questions_fill_arrow(list, limit, why) : ls_questions_fill_json(list, limit, why)))
        return false;
    bool is_all = opts->split && list->questions.count < limit;
    return !is_all || !ls_hub_check_rows(list->path, opts->split, list->questions.count, why);
}

/* ---- What is wrong with some answers ---- */

static bool is_misplaced(const ls_question *q)
{
    for (int64_t i = 0; i < q->answer_count; i++)
        if (strncmp(q->context + q->answers[i].start, q->answers[i].text, strlen(q->answers[i].text)) != 0) return true;
    return false;
}

/* Scores compare texts, but training looks for answers at their places. */
static void warn_of_misplaced(const ls_question_list *list)
{
    const char *first = NULL;
    int64_t count = 0;
    for (int64_t i = 0; i < list->questions.count; i++)
        if (is_misplaced(&list->questions.list[i]) && count++ == 0) first = list->questions.list[i].id;
    if (count)
        ls_log_of_job(LS_LOG_WARN,
                      "%s: the context does not have the text of an answer at its \"answer_start\"; such questions: "
                      "%lld, the first has the id \"%s\"",
                      list->path, (long long)count, first);
}

/* ---- The list ---- */

static void clear(void *object)
{
    ls_question_list *list = object;
    ls_json_free(list->file);
    ls_sys_free(list->rows);
    ls_arena_free(&list->memory);
    ls_sys_free(list->path);
}

const ls_questions *ls_questions_read_sized(ls_run *run, const char *path, const ls_questions_read_opts *given,
                                            size_t opts_size)
{
    ls_questions_read_opts opts = LS_OPTS_READ(ls_questions_read_opts, given, opts_size);
    if (ls_failed(run)) return NULL;
    if (opts.limit != LS_AUTO && opts.limit < 0)
        ls_fail(&run->errors, LS_ERR_VALUE, "ls_questions_read: limit is %lld; it must be 0 or more",
                (long long)opts.limit);
    if (!path) ls_fail(&run->errors, LS_ERR_VALUE, "ls_questions_read: the path is NULL");
    if (ls_failed(run)) return NULL;
    ls_message why = {{0}};
    char found[LS_HUB_PATH];
    ls_hub_split which = {.name = path, .config = opts.config, .split = opts.split};
    if (opts.split && !find_split(&which, found, &why)) {
        ls_fail(&run->errors, LS_ERR_IO, "%s", why.text);
        return NULL;
    }
    ls_question_list *list = ls_object_new(run, LS_OBJECT_QUESTIONS, sizeof *list, clear);
    if (!list) return NULL;
    list->path = ls_text_copy(run, opts.split ? found : path);
    list->questions.may_be_unanswerable = opts.may_be_unanswerable;
    if (list->path && fill(list, &opts, &why)) return warn_of_misplaced(list), &list->questions;
    if (!ls_failed(run)) ls_fail(&run->errors, LS_ERR_VALUE, "%s", why.text);
    ls_object_free(list);
    return NULL;
}

void ls_questions_free(const ls_questions *questions)
{
    if (questions) ls_object_free(ls_question_list_of(questions));
}
