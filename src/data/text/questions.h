/* questions.h - the internals of a list of questions, and the files it is read from. */
#ifndef LOCKSTEP_DATA_TEXT_QUESTIONS_H
#define LOCKSTEP_DATA_TEXT_QUESTIONS_H

#include <lockstep/qa.h>

#include "base/arena.h"
#include "base/json.h"
#include "tensor/context.h"

typedef struct ls_question_list {
    ls_object object;
    ls_questions questions; /* the public part */
    ls_json *file;          /* of json: owns the texts */
    ls_question *rows;      /* of Arrow: the list */
    ls_arena memory;
    char *path;
} ls_question_list;

static inline ls_question_list *ls_question_list_of(const ls_questions *questions)
{
    return (ls_question_list *)((char *)(uintptr_t)questions - offsetof(ls_question_list, questions));
}

/* Read the file at list->path, up to `limit` questions. False on failure, with the file and the reason in `why`. */
bool ls_questions_fill_json(ls_question_list *list, int64_t limit, ls_message *why);
/* The same for an Arrow table. "squad-train-00000-of-00004.arrow" means all four parts. */
bool ls_questions_fill_arrow(ls_question_list *list, int64_t limit, ls_message *why);

/* The byte offset of a character of a context; -1: the context is shorter. */
int64_t ls_question_byte(const char *context, int64_t character);

#endif
