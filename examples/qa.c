/* qa.c - fine-tune BERT to answer questions about texts (SQuAD 1.1 and 2.0), and score its answers. The flags are among
 * those of Transformers' run_qa.py; docs/qa.md lists them.
 *
 *     qa --model_name_or_path bert-large-uncased --dataset_name squad --do_train --do_eval \
 *        --per_device_train_batch_size 12 --learning_rate 3e-5 --num_train_epochs 2 --max_seq_length 384 \
 *        --doc_stride 128 --bf16 --output_dir out
 *     qa --model_name_or_path bert-large-uncased --train_file train-v1.1.json --validation_file dev-v1.1.json ...
 *     qa --evaluate out/predictions.json --validation_file dev-v1.1.json
 *
 * A model is a folder with config.json, weights and vocabulary, or the name of one in Hugging Face's local cache.
 * --output_dir becomes such a folder. An interrupted training resumes exactly at its last checkpoint with
 * --resume_from_checkpoint latest; on SIGTERM the program saves a checkpoint first. */
#include <lockstep.h>

#include <stdio.h>
#include <string.h>

#include "trainer_flags.h"

typedef struct options {
    const char *model, *dataset, *dataset_config, *train_file, *validation_file, *test_file, *evaluate;
    const char *save_strategy, *eval_strategy;
    bool do_train, do_eval, do_predict, version_2, group_by_length;
    int64_t max_length, stride, max_train, max_eval, max_predict, save_steps, logging_steps;
    double null_threshold;
    trainer_flags trainer;
    int n_best, max_answer_length;
} options;

/* ---- Flags ---- */

static bool read_flags(ls_run *run, int *argc, char ***argv, options *o)
{
    trainer_flags *to = &o->trainer;
    ls_flag flags[] = {
        LS_FLAG("model_name_or_path", &o->model, "folder of a BERT model, or its name in Hugging Face's cache"),
        LS_FLAG("dataset_name", &o->dataset,
                "squad, squad_v2 or one with their columns, in the cache of Hugging Face's datasets"),
        LS_FLAG("dataset_config_name", &o->dataset_config, "its configuration, if the cache has several"),
        LS_FLAG("train_file", &o->train_file, "training questions: SQuAD's json, or an Arrow table"),
        LS_FLAG("validation_file", &o->validation_file, "evaluation questions: SQuAD's json, or an Arrow table"),
        LS_FLAG("test_file", &o->test_file, "questions to answer: SQuAD's json, or an Arrow table"),
        LS_FLAG("do_train", &o->do_train, "train"),
        LS_FLAG("do_eval", &o->do_eval, "answer the questions of the validation file, and score the answers"),
        LS_FLAG("do_predict", &o->do_predict, "answer the questions of the test file"),
        LS_FLAG("evaluate", &o->evaluate, "only score this file of predictions"),
        TRAINER_FLAGS LS_FLAG("max_seq_length", &o->max_length, "tokens in a window"),
        LS_FLAG("doc_stride", &o->stride, "tokens shared by consecutive windows of a text"),
        LS_FLAG("n_best_size", &o->n_best, "number of candidate answers"),
        LS_FLAG("max_answer_length", &o->max_answer_length, "most tokens of an answer"),
        LS_FLAG("version_2_with_negative", &o->version_2, "the files have questions without an answer"),
        LS_FLAG("null_score_diff_threshold", &o->null_threshold, "\"no answer\" must score this much more"),
        LS_FLAG("max_train_samples", &o->max_train, "only the first questions of the training file"),
        LS_FLAG("max_eval_samples", &o->max_eval, "only the first questions of the validation file"),
        LS_FLAG("max_predict_samples", &o->max_predict, "only the first questions of the test file"),
        LS_FLAG("save_strategy", &o->save_strategy, "steps: as save_steps says; no: no checkpoints"),
        LS_FLAG("eval_strategy", &o->eval_strategy, "no: do_eval answers the questions once, after training"),
        LS_FLAG("evaluation_strategy", &o->eval_strategy, "the same as --eval_strategy"),
        LS_FLAG("save_steps", &o->save_steps, "steps between checkpoints; 0: none"),
        LS_FLAG("logging_steps", &o->logging_steps, "steps between lines with the loss; 0: none"),
        LS_FLAG("group_by_length", &o->group_by_length, "put windows of similar lengths into one batch: less padding"),
    };
    if (!ls_flags_read(run, argc, argv, flags, .about = "fine-tune BERT to answer questions about texts")) return false;
    if (!strcmp(o->save_strategy, "no")) o->save_steps = 0;
    else if (strcmp(o->save_strategy, "steps") != 0)
        ls_set_error(run, LS_ERR_VALUE, "--save_strategy is %s; it can be no, or steps with --save_steps N",
                     o->save_strategy);
    if (strcmp(o->eval_strategy, "no") != 0)
        ls_set_error(run, LS_ERR_VALUE, "--eval_strategy is %s; it can be no: --do_eval evaluates once, after training",
                     o->eval_strategy);
    return !ls_error(run) && trainer_flags_fit(run, to);
}

/* ---- Files ---- */

/* The questions of a file or, without one, of a split of --dataset_name. */
static const ls_questions *questions(ls_run *run, const options *o, const char *path, const char *split, int64_t limit)
{
    const ls_questions *list =
        ls_questions_read(run, path ? path : o->dataset, .split = path ? NULL : split, .config = o->dataset_config,
                          .limit = limit, .may_be_unanswerable = o->version_2);
    if (list && list->may_be_unanswerable && !o->version_2)
        ls_print(run, "%s has questions without an answer: --version_2_with_negative is on\n",
                 path ? path : o->dataset);
    return list;
}

static void print_scores(ls_run *run, const ls_questions *list, ls_qa_scores s)
{
    ls_print(run, "exact match %.4f, F1 %.4f of %lld questions\n", s.all.exact, s.all.f1, (long long)s.all.count);
    if (!list->may_be_unanswerable) return;
    ls_print(run, "  with an answer: exact match %.4f, F1 %.4f of %lld\n", s.answerable.exact, s.answerable.f1,
             (long long)s.answerable.count);
    ls_print(run, "  without:        exact match %.4f, F1 %.4f of %lld\n", s.unanswerable.exact, s.unanswerable.f1,
             (long long)s.unanswerable.count);
}

/* ---- Training and answering ---- */

/* Start and end logits, [B,S] each. */
static ls_outputs read_windows(ls_module *model, const ls_batch *b)
{
    return ls_forward_all(model, ls_batch_field(b, "input_ids"), ls_batch_field(b, "length"),
                          ls_batch_field(b, "token_type_ids"));
}

/* Questions to learn from must have answers, unless the file has unanswerable ones. */
static void check_answers(ls_run *run, const ls_questions *list)
{
    const char *first = NULL;
    int64_t without = 0;
    if (!list || list->may_be_unanswerable) return;
    for (int64_t i = 0; i < list->count; i++)
        if (!list->list[i].answer_count && without++ == 0) first = list->list[i].id;
    if (without && without == list->count)
        ls_set_error(run, LS_ERR_VALUE, "--do_train: no question of the training file has \"answers\"");
    else if (without)
        ls_print(run, "warning: questions without \"answers\" are trained as having none: %lld, the first is \"%s\"\n",
                 (long long)without, first);
}

static void train(ls_run *run, const options *o, ls_module *model, ls_tokenizer *tokenizer)
{
    const ls_questions *list = questions(run, o, o->train_file, "train", o->max_train);
    check_answers(run, list);
    ls_qa_windows *windows = ls_qa_windows_new(tokenizer, list, .max_length = o->max_length, .stride = o->stride);
    ls_dataset *set = ls_qa_windows_dataset(windows);
    ls_sampler *sampler = o->group_by_length ? ls_length_sampler_new(run, set, .batch = o->trainer.train_batch) : NULL;
    ls_loader *loader =
        ls_loader_new(run, set, .batch = o->trainer.train_batch, .shuffle = !sampler, .sampler = sampler);
    ls_optim *adam = ls_adamw_new(run, model, .lr = o->trainer.lr, .weight_decay = o->trainer.weight_decay);
    ls_optim_add_group(adam, ls_state_matching(ls_parameters(model), "*.bias|*LayerNorm*"), .weight_decay = 0);
    int epochs;
    int64_t steps = trainer_steps(&o->trainer, loader, &epochs);
    ls_schedule *schedule = trainer_schedule(run, &o->trainer, adam, steps);
    ls_prepare(run, model, adam, schedule, loader);
    ls_print(run, "questions: %lld, windows: %lld, steps: %lld\n", (long long)(list ? list->count : 0),
             (long long)ls_qa_windows_count(windows), (long long)steps);

    for (int epoch; ls_epoch(run, epochs, &epoch);) {
        ls_progress *bar = ls_progress_new(run, ls_len(loader), .label = "train");
        for (ls_batch b; ls_progress_next(bar, loader, &b) && ls_optim_steps_taken(adam) < steps;) {
            ls_outputs logits = read_windows(model, &b);
            ls_tensor *loss = ls_bert_span_loss(logits.item[0], logits.item[1], ls_batch_field(&b, "start"),
                                                ls_batch_field(&b, "end"));
            ls_backward(run, loss);
            if (o->trainer.max_grad_norm > 0) ls_clip_grad_norm(adam, o->trainer.max_grad_norm);
            bool stepped = ls_step(adam);
            ls_schedule_step(schedule);
            ls_zero_grad(adam);
            if (!stepped) continue; /* gradients accumulate, or were not finite */

            int64_t step = ls_optim_steps_taken(adam);
            ls_progress_show(bar, "loss", ls_item(loss));
            if (o->logging_steps && step % o->logging_steps == 0)
                ls_print(run, "step %lld: loss %.4f, learning rate %.3g\n", (long long)step, ls_item(loss),
                         ls_optim_lr(adam));
            bool stop = ls_should_stop(run);
            if (stop || (o->save_steps && step % o->save_steps == 0)) ls_save_state(run, NULL);
            if (stop) return;
        }
        ls_progress_free(bar);
    }
    ls_save_model(run, model, ls_project_dir(run));
    if (ls_is_main(run)) ls_tokenizer_write(tokenizer, ls_project_dir(run));
}

/* Answer all questions, each process its part of the windows. `prefix` starts the names of the written files. */
static void answer(ls_run *run, const options *o, ls_module *model, ls_tokenizer *tokenizer, const ls_questions *list,
                   const char *prefix, bool score)
{
    ls_qa_windows *windows = ls_qa_windows_new(tokenizer, list, .max_length = o->max_length, .stride = o->stride);
    ls_qa_answers *answers = ls_qa_answers_new(windows, .n_best = o->n_best, .max_answer_length = o->max_answer_length,
                                               .null_threshold = o->null_threshold);
    ls_loader *loader = ls_loader_new(run, ls_qa_windows_dataset(windows), .batch = o->trainer.eval_batch);
    ls_prepare(run, loader);
    ls_eval(model);
    ls_no_grad_begin(run);
    for (ls_batch b; ls_next(loader, &b);) {
        ls_outputs logits = read_windows(model, &b);
        ls_tensor *window = ls_batch_field(&b, "window");
        ls_tensor *found = ls_qa_candidates(answers, window, logits.item[0], logits.item[1]);
        ls_qa_answers_add(answers, ls_gather(run, window), ls_gather(run, found));
    }
    ls_no_grad_end(run);
    const char *const *texts = ls_qa_answers_best(answers);
    if (!texts) return;
    char predictions[4096], nbest[4096], odds[4096];
    snprintf(predictions, sizeof predictions, "%s/%spredictions.json", ls_project_dir(run), prefix);
    snprintf(nbest, sizeof nbest, "%s/%snbest_predictions.json", ls_project_dir(run), prefix);
    snprintf(odds, sizeof odds, "%s/%snull_odds.json", ls_project_dir(run), prefix);
    if (ls_is_main(run)) ls_qa_answers_write(answers, predictions, nbest, list->may_be_unanswerable ? odds : NULL);
    if (score) print_scores(run, list, ls_questions_score(list, texts));
}

/* The folder of the model: --model_name_or_path itself, or its folder in the cache. */
static const char *model_folder(ls_run *run, const options *o, char *room, size_t size)
{
    if (!o->model) ls_set_error(run, LS_ERR_VALUE, "--model_name_or_path is missing: the folder of a BERT model");
    else if (!ls_hub_find("models", o->model, "config.json", room, size))
        ls_set_error(run, LS_ERR_IO,
                     "--model_name_or_path %s: no config.json in %s or %s; download the model, or give its folder",
                     o->model, o->model, room);
    return room;
}

/* Two sources of the same questions, or two things to do of which only one would be done. */
static bool flags_agree(ls_run *run, const options *o)
{
    const char *file = o->train_file        ? "train_file"
                       : o->validation_file ? "validation_file"
                       : o->test_file       ? "test_file"
                                            : NULL;
    const char *task = o->do_train ? "do_train" : o->do_eval ? "do_eval" : o->do_predict ? "do_predict" : NULL;
    if (o->dataset && file) ls_set_error(run, LS_ERR_VALUE, "--dataset_name and --%s: give one of them", file);
    else if (o->evaluate && task)
        ls_set_error(run, LS_ERR_VALUE, "--evaluate only scores a file of predictions; leave out --%s", task);
    else if (o->save_steps < 0 || o->logging_steps < 0)
        ls_set_error(run, LS_ERR_VALUE, "--%s is %lld; it must be at least 0 (0: never)",
                     o->save_steps < 0 ? "save_steps" : "logging_steps",
                     (long long)(o->save_steps < 0 ? o->save_steps : o->logging_steps));
    return !ls_error(run);
}

static bool flags_fit(ls_run *run, const options *o)
{
    if (!o->do_train && !o->do_eval && !o->do_predict && !o->evaluate)
        ls_set_error(run, LS_ERR_VALUE, "nothing to do: give --do_train, --do_eval, --do_predict or --evaluate FILE");
    else if (o->do_train && !o->train_file && !o->dataset)
        ls_set_error(run, LS_ERR_VALUE, "--do_train needs --train_file (or --dataset_name)");
    else if ((o->do_eval || o->evaluate) && !o->validation_file && !o->dataset)
        ls_set_error(run, LS_ERR_VALUE, "--%s needs --validation_file (or --dataset_name)",
                     o->evaluate ? "evaluate" : "do_eval");
    else if (o->do_predict && !o->test_file && !o->dataset)
        ls_set_error(run, LS_ERR_VALUE, "--do_predict needs --test_file (or --dataset_name)");
    return !ls_error(run);
}

int main(int argc, char **argv)
{
    options o = {.trainer = {TRAINER_DEFAULTS, .train_batch = 8, .eval_batch = 8, .lr = 5e-5},
                 .save_strategy = "steps",
                 .eval_strategy = "no",
                 .max_length = 384,
                 .stride = 128,
                 .n_best = 20,
                 .max_answer_length = 30,
                 .max_train = LS_AUTO,
                 .max_eval = LS_AUTO,
                 .max_predict = LS_AUTO,
                 .save_steps = 500,
                 .logging_steps = 500};
    ls_run *run = ls_init(&argc, &argv, .seed = 42, .project_dir = "out", .async_save = true, .total_limit = 2);
    if (!read_flags(run, &argc, &argv, &o) || !flags_agree(run, &o) || !flags_fit(run, &o)) return ls_finish(run);
    if (o.evaluate) {
        const ls_questions *list = questions(run, &o, o.validation_file, "validation", o.max_eval);
        const char *const *texts = ls_questions_read_answers(list, o.evaluate);
        if (texts) print_scores(run, list, ls_questions_score(list, texts));
        return ls_finish(run);
    }

    char room[4096];
    const char *folder = model_folder(run, &o, room, sizeof room);
    ls_tokenizer *tokenizer = ls_tokenizer_new(run, folder);
    ls_module *model = ls_bert_for_question_answering_new(run, folder, .unpad = true);
    if (o.do_train) train(run, &o, model, tokenizer);
    else ls_prepare(run, model);
    if (ls_should_stop(run)) return ls_finish(run); /* the next start resumes from the checkpoint */
    if (o.do_eval)
        answer(run, &o, model, tokenizer, questions(run, &o, o.validation_file, "validation", o.max_eval), "", true);
    if (o.do_predict)
        answer(run, &o, model, tokenizer, questions(run, &o, o.test_file, "test", o.max_predict), "predict_", false);
    return ls_finish(run);
}
