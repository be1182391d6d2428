/* glue.c - fine-tune BERT to classify texts, or pairs of texts. The flags are among those of Transformers'
 * run_glue.py; docs/bert.md has the differences.
 *
 *     glue --model_name_or_path bert-base-uncased --task_name mrpc --output_dir out --bf16
 *     glue --model_name_or_path bert-base-uncased --task_name mrpc --data_dir MRPC --output_dir out
 *     glue --model_name_or_path bert-base-uncased --train_file train.tsv --validation_file dev.tsv \
 *          --text_column question --label_column kind --output_dir out
 *     glue --output_dir out --task_name mrpc --do_eval
 *     glue --output_dir out --predict "how far is it ?" more_questions.txt
 *
 * A model is a folder with config.json, weights and vocabulary, or the name of one in Hugging Face's local cache.
 * --output_dir becomes such a folder. An interrupted training resumes exactly at its last checkpoint with
 * --resume_from_checkpoint latest; on SIGTERM the program saves a checkpoint first. */
#define _POSIX_C_SOURCE 200809L /* getline, strdup */
#include <lockstep.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "saving.h"
#include "trainer_flags.h"

enum { LONGEST_PATH = 4096 };

typedef struct options {
    const char *model, *task, *data_dir, *train_file, *validation_file, *text, *second, *label;
    bool header, with_tracking, do_train, do_eval, do_predict;
    int64_t max_length;
    trainer_flags trainer;
    ls_names predict;
    saving save;
} options;

/* The format of GLUE's tables: their columns, in its own files and in the cache of Hugging Face's datasets, and what
 * their labels mean. */
typedef struct columns {
    const char *text, *second, *label;
    bool header;
} columns;

static const struct task {
    const char *name;
    columns file, cached;
    const char *meaning[2];
} tasks[] = {
    {"mrpc",
     {"#1 String", "#2 String", "Quality", true},
     {"sentence1", "sentence2", "label", true},
     {"not_equivalent", "equivalent"}},
    {"sst2", {"sentence", NULL, "label", true}, {"sentence", NULL, "label", true}, {"negative", "positive"}},
    {"cola", {"3", NULL, "1", false}, {"sentence", NULL, "label", true}, {"unacceptable", "acceptable"}},
    {"rte",
     {"sentence1", "sentence2", "label", true},
     {"sentence1", "sentence2", "label", true},
     {"entailment", "not_entailment"}},
};

static const struct task *task_of(const options *o)
{
    for (size_t i = 0; o->task && i < sizeof tasks / sizeof *tasks; i++)
        if (!strcasecmp(o->task, tasks[i].name)) return &tasks[i];
    return NULL;
}

/* ---- Flags ---- */

static bool trains(const options *o)
{
    return o->do_train || (o->model && !o->do_eval);
}

static bool read_flags(ls_run *run, int *argc, char ***argv, options *o)
{
    trainer_flags *to = &o->trainer;
    ls_flag flags[] = {
        LS_FLAG("model_name_or_path", &o->model, "folder of a BERT model, or its name in Hugging Face's cache"),
        LS_FLAG(
            "task_name", &o->task,
            "mrpc, sst2, cola or rte of GLUE, whose files are in data_dir or in the cache of Hugging Face's datasets"),
        LS_FLAG("data_dir", &o->data_dir, "folder with train.tsv and dev.tsv"),
        LS_FLAG("train_file", &o->train_file, "training texts: .tsv, .csv or Arrow"),
        LS_FLAG("validation_file", &o->validation_file, "evaluation texts"),
        LS_FLAG("text_column", &o->text, "column with the texts; without it, \"sentence\""),
        LS_FLAG("second_column", &o->second, "column with the second texts of pairs"),
        LS_FLAG("label_column", &o->label, "column with the labels; without it, \"label\""),
        LS_FLAG("header", &o->header, "the first row names the columns; --no-header: use numbers, from 0"),
        LS_FLAG("max_length", &o->max_length, "most tokens of a text or pair; the rest is truncated"),
        LS_FLAG("max_seq_length", &o->max_length, "the same as --max_length"),
        LS_FLAG("do_train", &o->do_train, "train, as --model_name_or_path alone does"),
        LS_FLAG("do_eval", &o->do_eval, "evaluate after each epoch, as every training does; alone: only evaluate"),
        LS_FLAG("do_predict", &o->do_predict, "not supported: give the texts with --predict"),
        TRAINER_FLAGS SAVING_FLAG(&o->save),
        LS_FLAG("with_tracking", &o->with_tracking, "record loss, rate and scores: TensorBoard, JSON lines, CSV"),
        LS_FLAG("predict", &o->predict, "classify these texts, or the lines of these files; a tab separates a pair"),
    };
    if (!ls_flags_read(run, argc, argv, flags, .about = "fine-tune BERT to classify texts")) return false;
    if (!saving_fits(run, &o->save)) return false;
    if (o->task && !task_of(o))
        ls_set_error(run, LS_ERR_VALUE, "--task_name is %s; it must be one of mrpc|sst2|cola|rte", o->task);
    else if (!o->model && !o->do_eval && !o->predict.count)
        ls_set_error(run, LS_ERR_VALUE,
                     "nothing to do: give --model_name_or_path to train, --do_eval, or --predict TEXT");
    else if (!o->model && o->do_train)
        ls_set_error(run, LS_ERR_VALUE, "--do_train: give the model to start from, --model_name_or_path");
    else if (trains(o) && !o->task && !o->data_dir && !(o->train_file && o->validation_file))
        ls_set_error(run, LS_ERR_VALUE,
                     "no training data: give --task_name, --data_dir, or --train_file and --validation_file");
    else if (o->do_eval && !o->task && !o->data_dir && !o->validation_file)
        ls_set_error(run, LS_ERR_VALUE, "no texts to evaluate: give --task_name, --data_dir or --validation_file");
    else if (o->task && (o->text || o->second || o->label || !o->header))
        ls_set_error(run, LS_ERR_VALUE, "--task_name %s knows its columns; leave out --%s", o->task,
                     o->text     ? "text_column"
                     : o->second ? "second_column"
                     : o->label  ? "label_column"
                                 : "no-header");
    else if (o->do_predict)
        ls_set_error(run, LS_ERR_VALUE,
                     "--do_predict: give the texts, or a file with one in each line, with --predict");
    return !ls_error(run) && trainer_flags_fit(run, to);
}

/* ---- Files ---- */

/* The texts of a file or, without one, of `name`.tsv in --data_dir, or of a split of the task in the cache. `like` has
 * the classes; NULL: taken from the file. */
static ls_dataset *texts_of(ls_tokenizer *tokenizer, const options *o, const char *file, const char *name,
                            const ls_dataset *like)
{
    char path[LONGEST_PATH];
    const struct task *task = task_of(o);
    bool is_cached = !file && !o->data_dir;
    columns given = {o->text ? o->text : "sentence", o->second, o->label ? o->label : "label", o->header};
    const columns *c = !task ? &given : is_cached ? &task->cached : &task->file;
    snprintf(path, sizeof path, "%s/%s.tsv", o->data_dir ? o->data_dir : "", name);
    return ls_text_dataset_new(tokenizer,
                               file        ? file
                               : is_cached ? "glue"
                                           : path,
                               .text = c->text, .second = c->second, .label = c->label, .header = c->header,
                               .max_length = o->max_length, .classes = like,
                               .split = !is_cached                 ? NULL
                                        : strcmp(name, "dev") == 0 ? "validation"
                                                                   : name,
                               .config = is_cached ? task->name : NULL);
}

/* A model for the classes of a dataset; config.json gets their names. */
static ls_module *new_model(ls_run *run, const options *o, const char *folder, const ls_dataset *set)
{
    int64_t count = ls_class_count(set);
    const struct task *task = task_of(o);
    const char **labels = calloc((size_t)count + 1, sizeof *labels);
    if (!labels) exit(1);
    for (int64_t i = 0; i < count; i++) labels[i] = task && count == 2 ? task->meaning[i] : ls_class_name(set, i);
    ls_module *model = ls_bert_for_sequence_classification_new(run, folder, .labels = labels, .unpad = true);
    free(labels);
    return model;
}

/* ---- Training ---- */

/* Logits [B,classes]. */
static ls_tensor *classify(ls_module *model, const ls_batch *b)
{
    return ls_forward(model, ls_batch_field(b, "input_ids"), ls_batch_field(b, "length"),
                      ls_batch_field(b, "token_type_ids"));
}

typedef struct scores {
    double accuracy, f1, matthews; /* f1: of class 1 if there are two, else the mean of all classes */
} scores;

/* count[label * classes + guess]: the number of texts of that label classified as that class. */
static scores scores_of(const int64_t *count, int64_t classes)
{
    double all = 0, right = 0, chance = 0, guessed_squares = 0, labelled_squares = 0, f1 = 0;
    for (int64_t c = 0; c < classes; c++) {
        double guessed = 0, labelled = 0, hit = (double)count[c * classes + c];
        for (int64_t k = 0; k < classes; k++) {
            guessed += (double)count[k * classes + c];
            labelled += (double)count[c * classes + k];
        }
        all += labelled;
        right += hit;
        chance += guessed * labelled;
        guessed_squares += guessed * guessed;
        labelled_squares += labelled * labelled;
        double f1_of_class = guessed + labelled > 0 ? 2 * hit / (guessed + labelled) : 0;
        if (classes != 2) f1 += f1_of_class / (double)classes;
        else if (c == 1) f1 = f1_of_class;
    }
    double spread = sqrt((all * all - guessed_squares) * (all * all - labelled_squares));
    return (scores){right / all, f1, spread > 0 ? (right * all - chance) / spread : 0};
}

/* Logits that are not have no highest one, and every score of them would be made up. */
static bool are_finite(ls_run *run, ls_tensor *logits)
{
    if (!isfinite(ls_item(ls_sum(logits))))
        ls_set_error(run, LS_ERR_VALUE,
                     "the model's logits are not finite: its weights are damaged, or its training diverged");
    return !ls_error(run);
}

/* Each process classifies its part; each text is counted once. Class c of the texts is label[c] of the model; NULL: the
 * same number. */
static scores evaluate(ls_run *run, ls_module *model, ls_loader *loader, int64_t batch, int64_t classes,
                       const int64_t *label)
{
    int64_t *pair = calloc((size_t)(batch * ls_world_size(run)), sizeof *pair);
    int64_t *count = calloc((size_t)(classes * classes), sizeof *count);
    if (!pair || !count) exit(1);
    ls_eval(model);
    ls_no_grad_begin(run);
    for (ls_batch b; ls_next(loader, &b);) {
        ls_tensor *logits = ls_gather(run, classify(model, &b)), *class = ls_gather(run, b.label);
        ls_tensor *pairs = ls_add(ls_mul_scalar(class, (double)classes), ls_argmax(logits));
        if (!are_finite(run, logits)) break;
        if (!ls_read(pairs, pair, (size_t)ls_numel(pairs) * sizeof *pair)) break;
        for (int64_t i = 0; i < ls_numel(pairs); i++) {
            int64_t of = pair[i] / classes, guess = pair[i] % classes;
            count[(label ? label[of] : of) * classes + guess]++;
        }
    }
    ls_no_grad_end(run);
    ls_train(model);
    scores s = scores_of(count, classes);
    free(pair);
    free(count);
    return s;
}

static ls_module *train(ls_run *run, const options *o, const char *folder, ls_tokenizer *tokenizer)
{
    ls_dataset *train_set = texts_of(tokenizer, o, o->train_file, "train", NULL);
    ls_dataset *eval_set = texts_of(tokenizer, o, o->validation_file, "dev", train_set);
    ls_loader *texts = ls_loader_new(run, train_set, .batch = o->trainer.train_batch, .shuffle = true);
    ls_loader *eval = ls_loader_new(run, eval_set, .batch = o->trainer.eval_batch);
    ls_module *model = new_model(run, o, folder, train_set);
    ls_optim *adam = ls_adamw_new(run, model, .lr = o->trainer.lr, .weight_decay = o->trainer.weight_decay);
    ls_optim_add_group(adam, ls_state_matching(ls_parameters(model), "*.bias|*orm.weight"), .weight_decay = 0);
    int epochs;
    int64_t steps = trainer_steps(&o->trainer, texts, &epochs);
    ls_schedule *schedule = trainer_schedule(run, &o->trainer, adam, steps);
    ls_prepare(run, model, adam, schedule, texts, eval);

    if (o->with_tracking) ls_tracker_new(run, "all", .name = "records");
    for (int epoch; ls_epoch(run, epochs, &epoch);) {
        ls_progress *bar = ls_progress_new(run, ls_len(texts), .label = "train");
        for (ls_batch b; ls_progress_next(bar, texts, &b) && ls_optim_steps_taken(adam) < steps;) {
            ls_tensor *loss = ls_cross_entropy(classify(model, &b), b.label);
            ls_backward(run, loss);
            if (o->trainer.max_grad_norm > 0) ls_clip_grad_norm(adam, o->trainer.max_grad_norm);
            bool stepped = ls_step(adam);
            ls_schedule_step(schedule);
            ls_zero_grad(adam);

            ls_progress_show(bar, "loss", ls_item(loss));
            if (!stepped) continue; /* gradients accumulate, or were not finite */
            int64_t step = ls_optim_steps_taken(adam);
            ls_track(run, step, {"loss", ls_item(loss)}, {"lr", ls_optim_lr(adam)});
            bool stop = ls_should_stop(run);
            save_after_step(run, &o->save, step, stop);
            if (stop) exit(ls_finish(run)); /* a restart continues with the next step */
        }
        ls_progress_free(bar);
        scores s = evaluate(run, model, eval, o->trainer.eval_batch, ls_class_count(train_set), NULL);
        if (ls_error(run)) return model;
        ls_track(run, ls_optim_steps_taken(adam), {"accuracy", s.accuracy}, {"f1", s.f1}, {"matthews", s.matthews});
        ls_print(run, "epoch %d: accuracy %.4f, F1 %.4f, Matthews %.4f\n", epoch, s.accuracy, s.f1, s.matthews);
        save_after_epoch(run, &o->save);
    }
    ls_save_model(run, model, ls_project_dir(run));
    if (ls_is_main(run)) ls_tokenizer_write(tokenizer, ls_project_dir(run));
    return model;
}

/* ---- Evaluation of a trained model ---- */

/* The model that a training saved. Without a trained head its results would be random. */
static ls_module *trained_model(ls_run *run, const char *folder)
{
    const ls_contents *contents = ls_contents_read(run, folder);
    bool has_head = false;
    for (int64_t i = 0; contents && i < contents->count && !has_head; i++)
        has_head = !strncmp(contents->tensors[i].name, "classifier.", strlen("classifier."));
    if (contents && !has_head)
        ls_set_error(run, LS_ERR_VALUE,
                     "%s has no classifier, only an encoder; train one first (--model_name_or_path %s)", folder,
                     folder);
    return ls_bert_for_sequence_classification_new(run, folder, .unpad = true);
}

static int64_t label_count(const ls_module *model)
{
    int64_t count = 0;
    while (*ls_bert_label(model, count)) count++;
    return count;
}

/* The model's label for a class of a file: the one of that name or, as files of GLUE have numbers, of that number; -1
 * if it has none. */
static int64_t label_of(const ls_module *model, const char *class)
{
    char *end;
    int64_t number = strtoll(class, &end, 10), count = label_count(model);
    for (int64_t i = 0; i < count; i++)
        if (!strcmp(ls_bert_label(model, i), class)) return i;
    return *class && !*end && number >= 0 && number < count ? number : -1;
}

static void evaluate_alone(ls_run *run, const options *o, ls_module *model, ls_tokenizer *tokenizer)
{
    ls_dataset *set = texts_of(tokenizer, o, o->validation_file, "dev", NULL);
    ls_loader *loader = ls_loader_new(run, set, .batch = o->trainer.eval_batch);
    int64_t *label = calloc((size_t)ls_class_count(set) + 1, sizeof *label);
    if (!label) exit(1);
    for (int64_t c = 0; c < ls_class_count(set) && !ls_error(run); c++)
        if ((label[c] = label_of(model, ls_class_name(set, c))) < 0)
            ls_set_error(
                run, LS_ERR_VALUE,
                "the model has no label for the class \"%s\" of the texts (its first label is \"%s\"); give the model "
                "that was trained on such texts",
                ls_class_name(set, c), ls_bert_label(model, 0));
    ls_prepare(run, model, loader);
    scores s = {0};
    if (!ls_error(run)) s = evaluate(run, model, loader, o->trainer.eval_batch, label_count(model), label);
    if (!ls_error(run)) ls_print(run, "accuracy %.4f, F1 %.4f, Matthews %.4f\n", s.accuracy, s.f1, s.matthews);
    free(label);
}

/* ---- Prediction ---- */

/* Print the class of a text, or of two separated by a tab, and its probability. */
static void predict_line(ls_run *run, const options *o, ls_module *model, ls_tokenizer *tokenizer, char *line)
{
    ls_mark mark = ls_scope_begin(run);
    line[strcspn(line, "\r\n")] = '\0';
    char *tab = strchr(line, '\t');
    if (tab) *tab = '\0';
    ls_encoding *e = ls_tokenizer_encode(tokenizer, line, tab ? tab + 1 : NULL, .max_length = o->max_length);
    ls_shape shape = LS_SHAPE(1, e ? e->begin[1] : 0);
    ls_tensor *ids = ls_from(run, LS_I32, shape, e ? e->id : NULL);
    ls_tensor *types = ls_from(run, LS_I8, shape, e ? e->type : NULL);
    ls_tensor *logits = ls_forward(model, ids, NULL, types), *chances = ls_softmax(logits, -1);
    const char *label = ls_bert_label(model, (int64_t)ls_item(ls_argmax(chances)));
    double chance = ls_item(ls_max(chances));
    if (tab) *tab = '\t';
    if (are_finite(run, logits)) ls_print(run, "%s (%.1f %%): %s\n", label, 100 * chance, line);
    ls_encoding_free(e);
    ls_scope_end(run, mark, NULL);
}

/* A text given as an argument has several words; one word with a slash or the suffix of a text file is a path. */
static bool looks_like_path(const char *name)
{
    static const char *const suffixes[] = {".txt", ".tsv", ".csv"};
    size_t length = strlen(name);
    if (strpbrk(name, " \t\n")) return false;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        size_t suffix = strlen(suffixes[i]);
        if (length > suffix && !strcmp(name + length - suffix, suffixes[i])) return true;
    }
    return strchr(name, '/') != NULL;
}

static void predict_file(ls_run *run, const options *o, ls_module *model, ls_tokenizer *tokenizer, const char *path,
                         FILE *file)
{
    char *line = NULL;
    size_t room = 0;
    while (!ls_error(run) && getline(&line, &room, file) >= 0) predict_line(run, o, model, tokenizer, line);
    if (ferror(file)) /* a folder opens, but cannot be read */
        ls_set_error(run, LS_ERR_IO, "--predict %s: %s; give a file with a text in each line", path, strerror(errno));
    free(line);
}

static void predict_text(ls_run *run, const options *o, ls_module *model, ls_tokenizer *tokenizer, const char *text)
{
    char *line = strdup(text);
    if (!line) exit(1);
    predict_line(run, o, model, tokenizer, line);
    free(line);
}

static void predict(ls_run *run, const options *o, ls_module *model, ls_tokenizer *tokenizer)
{
    ls_eval(model);
    ls_no_grad_begin(run);
    for (int64_t i = 0; i < o->predict.count && !ls_error(run); i++) {
        const char *name = o->predict.name[i];
        FILE *file = fopen(name, "r");
        if (file) predict_file(run, o, model, tokenizer, name, file);
        else if (looks_like_path(name))
            ls_set_error(run, LS_ERR_IO, "--predict %s: %s; give an existing file, or a text of several words", name,
                         strerror(errno));
        else predict_text(run, o, model, tokenizer, name);
        if (file) fclose(file);
    }
    ls_no_grad_end(run);
}

int main(int argc, char **argv)
{
    options o = {.header = true,
                 .max_length = 128,
                 .trainer = {TRAINER_DEFAULTS, .train_batch = 16, .eval_batch = 32, .lr = 2e-5}};
    ls_run *run = ls_init(&argc, &argv, .seed = 42, .project_dir = "out", .async_save = true, .total_limit = 2);
    if (!read_flags(run, &argc, &argv, &o)) return ls_finish(run);
    char found[LONGEST_PATH];
    if (o.model && !ls_hub_find("models", o.model, "config.json", found, sizeof found))
        ls_set_error(run, LS_ERR_IO,
                     "--model_name_or_path %s: no config.json in %s or %s; download the model, or give its folder",
                     o.model, o.model, found);
    const char *folder = o.model ? found : ls_project_dir(run);
    ls_tokenizer *tokenizer = ls_tokenizer_new(run, folder);
    ls_module *model = trains(&o) ? train(run, &o, folder, tokenizer) : trained_model(run, folder);
    if (!trains(&o) && o.do_eval) evaluate_alone(run, &o, model, tokenizer);
    predict(run, &o, model, tokenizer);
    return ls_finish(run);
}
