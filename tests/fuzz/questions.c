/* questions.c - questions about texts, in SQuAD's files. */
#include <lockstep.h>

#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static ls_run *run;
    if (!run) run = ls_init(NULL, NULL);
    const ls_questions *questions = ls_questions_read(run, fuzz_file(bytes, size));
    FUZZ_CHECK((questions != NULL) == (ls_error(run) == LS_OK));
    for (int64_t i = 0; questions && i < questions->count; i++) {
        const ls_question *q = &questions->list[i];
        FUZZ_CHECK(q->id && q->title && q->text && q->context);
        for (int64_t k = 0; k < q->answer_count; k++)
            FUZZ_CHECK(q->answers[k].text && q->answers[k].start >= 0 &&
                       (size_t)q->answers[k].start <= strlen(q->context));
    }
    ls_questions_free(questions);
    ls_clear_error(run);
    return 0;
}
