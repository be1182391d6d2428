/* xla_bert.c - a training step of BERT for sequence classification on a device that compiles steps, and what compiling
 * it takes: forward with dropout, backward, AdamW, in f32. xla_jax.py is the same in JAX, xla.py runs both.
 *
 *     xla_bert [--layers N] [--width N] [--batch N] [--length N] [--steps N] [--device NAME]
 *
 * Layers are those of BERT-base. With a device that compiles nothing, the seconds of compiling are those of the first
 * use of memory. */
#include <lockstep.h>

#include <stdio.h>
#include <time.h>

enum { WARM_UP = 3, HEAD_WIDTH = 64, LABELS = 2 };

typedef struct options {
    int64_t layers, width, batch, length, steps;
} options;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool read_flags(ls_run *run, int *argc, char ***argv, options *o)
{
    const ls_flag flags[] = {
        LS_FLAG("layers", &o->layers, "layers of the encoder"),
        LS_FLAG("width", &o->width, "numbers of a word, a multiple of 64"),
        LS_FLAG("batch", &o->batch, "sequences in a batch"),
        LS_FLAG("length", &o->length, "words of a sequence"),
        LS_FLAG("steps", &o->steps, "steps that are timed"),
    };
    return ls_flags_read(run, argc, argv, flags, .about = "time training steps of BERT, and compiling them");
}

typedef struct training {
    ls_run *run;
    ls_module *model;
    ls_optim *adam;
    ls_loader *loader; /* of all steps */
    ls_tensor *lengths;
} training;

static training begin(ls_run *run, const options *o)
{
    training t = {.run = run};
    int64_t sequences = o->batch * (WARM_UP + o->steps);
    t.model = ls_bert_for_sequence_classification_new(
        run, NULL, .num_labels = LABELS, .num_hidden_layers = o->layers, .hidden_size = o->width,
        .num_attention_heads = o->width / HEAD_WIDTH, .intermediate_size = 4 * o->width);
    t.adam = ls_adamw_new(run, t.model, .lr = 3e-5, .weight_decay = 0.01);
    ls_tensor *ids = ls_cast(ls_uniform_shape(run, LS_F32, 1000, 30000, LS_SHAPE(sequences, o->length)), LS_I64);
    ls_tensor *labels = ls_cast(ls_uniform_shape(run, LS_F32, 0, LABELS, LS_SHAPE(sequences)), LS_I64);
    t.loader = ls_loader_new(run, ls_tensor_dataset_new(run, ids, labels), .batch = o->batch, .shuffle = false);
    ls_prepare(run, t.model, t.adam, t.loader);
    t.lengths = ls_keep(ls_full(run, LS_I64, (double)o->length, o->batch));
    ls_item(ls_sum(t.lengths)); /* everything is there */
    return t;
}

/* A step, until its loss is known. */
static double step(const training *t, const ls_batch *b)
{
    ls_tensor *logits = ls_forward(t->model, b->tensor[0], t->lengths);
    ls_tensor *loss = ls_bert_classification_loss(t->model, logits, b->tensor[1]);
    ls_backward(t->run, loss);
    ls_step(t->adam);
    ls_zero_grad(t->adam);
    return ls_item(loss);
}

int main(int argc, char **argv)
{
    options o = {.layers = 12, .width = 768, .batch = 8, .length = 128, .steps = 10};
    ls_run *run = ls_init(&argc, &argv, .seed = 1, .device = "xla");
    if (!read_flags(run, &argc, &argv, &o)) return ls_finish(run);
    training t = begin(run, &o);
    double warm = 0, best = 1e30, loss = 0, began = now();
    int64_t steps = 0;
    for (ls_batch b; ls_next(t.loader, &b); steps++) {
        loss = step(&t, &b);
        double ended = now(), took = ended - began;
        began = ended;
        if (steps < WARM_UP) warm += took;
        else if (took < best) best = took;
    }
    if (!ls_error(run))
        printf("%.2f ms a step, compiled in %.2f s, loss %.3f, %llu programs\n", 1e3 * best, warm - WARM_UP * best,
               loss, (unsigned long long)ls_device_stats(run).compiled);
    return ls_finish(run);
}
