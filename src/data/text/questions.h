/* questions.h - the inside of a list of questions. */
#ifndef LOCKSTEP_DATA_TEXT_QUESTIONS_H
#define LOCKSTEP_DATA_TEXT_QUESTIONS_H

#include <lockstep/qa.h>

#include "base/arena.h"
#include "base/json.h"
#include "tensor/context.h"

typedef struct ls_question_list {
    ls_object object;
    ls_questions questions; /* what programs see */
    ls_json *file;          /* holds the texts */
    ls_arena memory;
    char *path;
} ls_question_list;

static inline ls_question_list *ls_question_list_of(const ls_questions *questions)
{
    return (ls_question_list *)((char *)(uintptr_t)questions - offsetof(ls_question_list, questions));
}

#endif
