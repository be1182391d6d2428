/* qa.h - question answering: SQuAD files, the windows of tokens that a model reads, the answers found from its logits,
 * and their scores.
 *
 *     const ls_questions *dev = ls_questions_read(run, "dev-v1.1.json");
 *     ls_qa_scores scores = ls_questions_score(dev, texts);
 *     printf("exact match %.2f, F1 %.2f\n", scores.all.exact, scores.all.f1); */
#ifndef LOCKSTEP_QA_H
#define LOCKSTEP_QA_H

#include <lockstep/data.h>
#include <lockstep/text.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Questions ---- */

typedef struct ls_answer {
    const char *text;
    int64_t start; /* byte of the context where it begins; files count characters */
} ls_answer;

typedef struct ls_question {
    const char *id, *title; /* title: "" where the file has none */
    const char *text;
    const char *context; /* the answer is a part of this */
    int64_t answer_count;
    const ls_answer *answers; /* correct ones; none if the question has no answer, or in a test file */
} ls_question;

typedef struct ls_questions {
    int64_t count;
    const ls_question *list;
    bool may_be_unanswerable; /* SQuAD 2.0: some questions have no answer, and scores count that */
} ls_questions;

/* Read SQuAD 1.1 or 2.0: JSON of articles with paragraphs with questions; {"data": [...]} with one entry for each
 * question; or an Arrow table with columns id, question, context and answers, as Hugging Face's `datasets` store it.
 * With .split, `path` is the name of a dataset ("squad", "rajpurkar/squad_v2", one of your own of that shape) that
 * load_dataset() has put into its cache, or a folder made by save_to_disk(). The run owns the result. NULL (and an
 * error that names the place) if the file is something else. */
typedef struct ls_questions_read_opts {
    const char *split LS_DEFAULT(NULL);  /* "train", "validation", ...: a split of the dataset named by `path` */
    const char *config LS_DEFAULT(NULL); /* its configuration, if the cache has several */
    int64_t limit LS_DEFAULT(LS_AUTO);   /* only the first questions; LS_AUTO: all */
    /* Treat the file as SQuAD 2.0 even if it does not show it; a file without answers cannot. */
    bool may_be_unanswerable LS_DEFAULT(false);
    ls_options_end _ LS_DEFAULT({});
} ls_questions_read_opts;
#define ls_questions_read_opts_defaults .limit = LS_AUTO
#define ls_questions_read(run, ...) LS_CALL_2(ls_questions_read, ls_questions_read_opts, run, __VA_ARGS__, )
LS_API const ls_questions *ls_questions_read_sized(ls_run *run, const char *path, const ls_questions_read_opts *opts,
                                                   size_t opts_size);
LS_API void ls_questions_free(const ls_questions *questions);

/* ---- Scores ---- */

typedef struct ls_qa_score {
    int64_t count;    /* questions */
    double exact, f1; /* percent; 0 where count is 0 */
} ls_qa_score;

typedef struct ls_qa_scores {
    ls_qa_score all;
    ls_qa_score answerable, unanswerable; /* SQuAD 2.0 only */
} ls_qa_scores;

/* Compare answers[i] with the right answers of question i by the rules of SQuAD's own evaluators: case, punctuation,
 * articles and white space are ignored, and the best match among several correct answers counts. "" means "no answer".
 * NULL is a missing prediction: 1.1 counts it as wrong, 2.0 leaves it out. */
LS_API ls_qa_scores ls_questions_score(const ls_questions *questions, const char *const *answers);

/* Read predictions from a file {"question id": "answer", ...}, in the order of the questions; NULL for questions that
 * the file does not answer. A warning counts unknown ids. The memory belongs to `questions`. */
LS_API const char *const *ls_questions_read_answers(const ls_questions *questions, const char *path);

/* ---- Windows: what a model reads ---- */

/* A question and its context as tokens. A context that does not fit is read through several windows that overlap. */
typedef struct ls_qa_windows ls_qa_windows;

typedef struct ls_qa_windows_opts {
    int64_t max_length LS_DEFAULT(384); /* tokens of a window, including question and special tokens */
    int64_t stride LS_DEFAULT(128);     /* tokens of the context that a window shares with the one before it */
    ls_options_end _ LS_DEFAULT({});
} ls_qa_windows_opts;
#define ls_qa_windows_opts_defaults .max_length = 384, .stride = 128
/* The questions and the tokenizer must outlive the windows. */
#define ls_qa_windows_new(tokenizer, ...) LS_CALL_2(ls_qa_windows_new, ls_qa_windows_opts, tokenizer, __VA_ARGS__, )
LS_API ls_qa_windows *ls_qa_windows_new_sized(ls_tokenizer *tokenizer, const ls_questions *questions,
                                              const ls_qa_windows_opts *opts, size_t opts_size);
LS_API void ls_qa_windows_free(ls_qa_windows *windows);
LS_API int64_t ls_qa_windows_count(const ls_qa_windows *windows);

/* A sample for each window. Fields, all i64: "input_ids" and "token_type_ids" [tokens], padded with 0 to the longest of
 * the batch; "length" of the window; "window", its number; "start" and "end": the first and the last token of the first
 * correct answer, both 0, the position of [CLS], if it is not in the window. */
LS_API ls_dataset *ls_qa_windows_dataset(ls_qa_windows *windows);

/* ---- Answers ---- */

/* Answers collected from a model's logits, window by window. */
typedef struct ls_qa_answers ls_qa_answers;

typedef struct ls_qa_answers_opts {
    int n_best LS_DEFAULT(20);            /* candidates of a window, and of a question; at most those there can be */
    int max_answer_length LS_DEFAULT(30); /* tokens */
    double
        null_threshold LS_DEFAULT(0.0); /* SQuAD 2.0: "no answer" wins where it scores more than this above the best */
    ls_options_end _ LS_DEFAULT({});
} ls_qa_answers_opts;
#define ls_qa_answers_opts_defaults .n_best = 20, .max_answer_length = 30
/* The windows must outlive the answers. Two questions with the same id are an error; for training they are fine. */
#define ls_qa_answers_new(...) LS_CALL_1(ls_qa_answers_new, ls_qa_answers_opts, __VA_ARGS__, )
LS_API ls_qa_answers *ls_qa_answers_new_sized(ls_qa_windows *windows, const ls_qa_answers_opts *opts, size_t opts_size);

/* The best candidates of a batch of windows: start and end logits [B,S], window [B] -> [B,1 + n_best,4] of f32 on the
 * CPU: first token, last token, start logit, end logit. Row 0 is "no answer"; unused rows begin with -1. The size does
 * not depend on the lengths of the windows, so processes can gather the results. */
LS_API ls_tensor *ls_qa_candidates(ls_qa_answers *answers, ls_tensor *window, ls_tensor *start, ls_tensor *end);
/* Add results of ls_qa_candidates(), of this process or gathered from all. A window added before is ignored.
 * Candidates outside the context of their window are an error, as when processes read different questions; so are
 * logits that are NaN or infinite. */
LS_API void ls_qa_answers_add(ls_qa_answers *answers, ls_tensor *window, ls_tensor *candidates);

/* The answer to each question, for ls_questions_score(). Valid until more is added. */
LS_API const char *const *ls_qa_answers_best(ls_qa_answers *answers);
/* Write {"id": "answer"}, and for each question the list of the best with their probabilities and logits, as
 * Transformers' run_qa.py does; null_odds: for 2.0, by how much "no answer" scores above the best. A file with a NULL
 * path is not written. */
LS_API bool ls_qa_answers_write(ls_qa_answers *answers, const char *predictions, const char *nbest,
                                const char *null_odds);
LS_API void ls_qa_answers_free(ls_qa_answers *answers);

#ifdef __cplusplus
}
#endif
#endif
