/* bert.c - BERT, DistilBERT and RoBERTa with each of their heads: logits, losses, gradients and twenty steps of AdamW
 * against Transformers. make_bert.py makes the values. */
#include "golden/read.h"

enum { STEPS = 20, BATCHES = 2 };
#define LOGIT_TOLERANCE 1e-5
#define GRADIENT_TOLERANCE 1e-5
#define LOSS_TOLERANCE 2e-5 /* 1e-4 is promised */

static const char *const kinds[] = {"bert", "distilbert", "roberta"};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* ---- the tasks of make_bert.py ---- */

typedef struct task {
    const char *name;
    ls_module *(*make)(ls_run *run, const char *from, const ls_bert_opts *opts, size_t opts_size);
} task;

static const task tasks[] = {
    {"classes", ls_bert_for_sequence_classification_new_sized},
    {"answers", ls_bert_for_question_answering_new_sized},
    {"words", ls_bert_for_masked_lm_new_sized},
};
enum { TASKS = sizeof tasks / sizeof *tasks };

typedef struct comparison {
    const golden *g;
    const task *task;
    char name[64]; /* "bert/classes" */
} comparison;

/* A tensor of a batch; NULL where the model has no such input. */
static ls_tensor *batch_tensor(const comparison *c, ls_run *run, const char *what, int batch)
{
    const golden_entry *entry = golden_find(c->g, "%s/%s%d", c->name, what, batch);
    return entry ? golden_tensor(run, entry) : NULL;
}

static ls_outputs run_model(const comparison *c, ls_module *model, int batch)
{
    ls_run *run = ls_module_run(model);
    return ls_forward_all(model, batch_tensor(c, run, "input_ids", batch),
                          batch_tensor(c, run, "attention_mask", batch), batch_tensor(c, run, "token_type_ids", batch));
}

static ls_tensor *loss_of(const comparison *c, ls_module *model, ls_outputs out, int batch)
{
    ls_run *run = ls_module_run(model);
    ls_tensor *labels = batch_tensor(c, run, "labels", batch);
    if (strcmp(c->task->name, "classes") == 0) return ls_bert_classification_loss(model, out.item[0], labels);
    if (strcmp(c->task->name, "words") == 0) return ls_bert_masked_lm_loss(out.item[0], labels);
    return ls_bert_span_loss(out.item[0], out.item[1], batch_tensor(c, run, "start_positions", batch),
                             batch_tensor(c, run, "end_positions", batch));
}

/* ---- comparison ---- */

static void compare_gradients(const comparison *c, ls_module *model)
{
    ls_state *parameters = ls_parameters(model);
    for (int64_t i = 0; i < ls_state_count(parameters); i++) {
        const golden_entry *want = golden_find(c->g, "%s/grad/%s", c->name, ls_state_name(parameters, i));
        CHECK_MSG(want, "%s: Transformers has no %s", c->name, ls_state_name(parameters, i));
        if (want) golden_compare(ls_grad(ls_state_tensor(parameters, i)), want, GRADIENT_TOLERANCE);
    }
}

static void follow(const comparison *c, ls_run *run, const char *kind, double tolerance)
{
    char path[1024], prefix[80];
    snprintf(path, sizeof path, "%s/bert/%s.json", GOLDEN_DIR, kind);
    snprintf(prefix, sizeof prefix, "%s/state/", c->name);
    ls_module *model = c->task->make(run, path, NULL, 0);
    ls_load_state_dict(model, golden_state(run, c->g, prefix));
    ls_optim *adamw = ls_adamw_new(run, model, .lr = 2e-3, .weight_decay = 0.01);
    ls_prepare(run, model, adamw);
    const golden_entry *losses = golden_find(c->g, "%s/losses", c->name);
    for (int i = 0; i < STEPS && !ls_error(run); i++) {
        ls_mark mark = ls_scope_begin(run);
        ls_outputs out = run_model(c, model, i % BATCHES);
        bool exact = i == 0 && tolerance <= LOSS_TOLERANCE;
        if (exact) golden_compare(ls_contiguous(out.item[0]), golden_find(c->g, "%s/logits", c->name), LOGIT_TOLERANCE);
        ls_tensor *loss = loss_of(c, model, out, i % BATCHES);
        double got = ls_item(loss), want = (double)((const float *)losses->data)[i];
        CHECK_MSG(fabs(got - want) <= tolerance * fmax(1, fabs(want)), "%s: loss of step %d is %.9g, expected %.9g",
                  c->name, i, got, want);
        ls_backward(run, loss);
        if (exact) compare_gradients(c, model);
        ls_step(adamw);
        ls_zero_grad(adamw);
        ls_scope_end(run, mark, NULL);
    }
    CHECK_MSG(ls_error(run) == LS_OK, "%s: %s", c->name, ls_error_message(run));
    ls_clear_error(run);
}

static void follow_all(ls_dtype precision, double tolerance)
{
    golden g = golden_open(GOLDEN_DIR "/bert.safetensors");
    for (int kind = 0; kind < KINDS; kind++) {
        for (int i = 0; i < TASKS; i++) {
            comparison c = {.g = &g, .task = &tasks[i]};
            snprintf(c.name, sizeof c.name, "%s/%s", kinds[kind], tasks[i].name);
            ls_run *run = golden_run(precision);
            follow(&c, run, kinds[kind], tolerance);
            ls_finish(run);
        }
    }
    golden_close(&g);
}

static void losses_match(void)
{
    follow_all(LS_F32, LOSS_TOLERANCE);
}

static void bf16_comes_close(void)
{
    follow_all(LS_BF16, 0.03);
}

int main(int argc, char **argv)
{
    golden_arguments(argc, argv);
    CHECK_RUN(losses_match);
    CHECK_RUN(bf16_comes_close);
    return check_done();
}
