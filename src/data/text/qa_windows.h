/* qa_windows.h - the internals of windows on questions and their contexts. */
#ifndef LOCKSTEP_DATA_TEXT_QA_WINDOWS_H
#define LOCKSTEP_DATA_TEXT_QA_WINDOWS_H

#include "data/text/questions.h"

struct ls_qa_windows {
    ls_object object;
    const ls_questions *questions;
    ls_encoding *tokens; /* the windows */
};

/* Tokens of the context in a window: [first, end) of the encoding's arrays; empty if the question leaves no room. */
typedef struct ls_token_range {
    int64_t first, end;
} ls_token_range;

ls_token_range ls_qa_context_of(const ls_qa_windows *windows, int64_t window);
const ls_question *ls_qa_question_of(const ls_qa_windows *windows, int64_t window);

#endif
