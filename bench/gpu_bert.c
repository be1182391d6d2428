/* gpu_bert.c - milliseconds of a training step of BERT for question answering on a GPU, as examples/qa.c trains:
 * forward, backward, gradients clipped by their norm, AdamW.
 *
 *     gpu_bert [--batch N] [--steps N] [--layers N] [--base|--mini] [--padded|--unpadded] [--bf16|--fp16]
 *              [--device NAME]
 *
 * Sequences are of 384 words, or of the lengths that windows of SQuAD 1.1 have: --padded: of 384 words in memory,
 * --unpadded: without padding. With LOCKSTEP_CUDA_PROFILE=1 a table of operators follows. */
#include <lockstep.h>

#include <stdio.h>
#include <time.h>

#include "started.h"

enum { LENGTH = 384, WARM_UP = 5 };

/* Of windows from the training file, shuffled. */
static const int64_t squad[] = {161, 129, 105, 129, 144, 185, 80,  329, 276, 176, 104, 357, 169, 384, 116, 102,
                                121, 72,  102, 192, 135, 145, 154, 225, 159, 117, 213, 265, 129, 186, 90,  328,
                                205, 146, 166, 145, 76,  200, 247, 238, 240, 50,  345, 142, 155, 107, 285, 189};
enum { KNOWN = sizeof squad / sizeof *squad };

typedef struct options {
    int64_t batch, steps, layers;
    bool base, mini, padded, unpadded;
} options;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool read_flags(ls_run *run, int *argc, char ***argv, options *o)
{
    const ls_flag flags[] = {
        LS_FLAG("batch", &o->batch, "sequences in a batch"),
        LS_FLAG("steps", &o->steps, "steps that are timed"),
        LS_FLAG("layers", &o->layers, "layers of the encoder"),
        LS_FLAG("base", &o->base, "the sizes of BERT-base"),
        LS_FLAG("mini", &o->mini, "the sizes of MiniLM-L12-H384"),
        LS_FLAG("padded", &o->padded, "lengths of SQuAD, with padding"),
        LS_FLAG("unpadded", &o->unpadded, "lengths of SQuAD, without padding"),
    };
    return ls_flags_read(run, argc, argv, flags, .about = "time training steps of BERT on a GPU");
}

typedef struct sizes {
    const char *name;
    int64_t layers, width, heads;
} sizes;
static const sizes mini = {"minilm", 12, 384, 12}, base = {"bert-base", 12, 768, 12},
                   large = {"bert-large", 24, 1024, 16};

typedef struct batch {
    ls_tensor *ids, *lengths, *types, *starts;
} batch;

/* A batch that stays. */
static batch batch_of(ls_run *run, const options *o)
{
    int64_t lengths[512], longest = 0;
    for (int64_t i = 0; i < o->batch && i < 512; i++) {
        lengths[i] = o->padded || o->unpadded ? squad[i % KNOWN] : LENGTH;
        if (lengths[i] > longest) longest = lengths[i];
    }
    if (!o->unpadded) longest = LENGTH;
    ls_shape shape = LS_SHAPE(o->batch, longest);
    batch b;
    b.ids = ls_keep(ls_cast(ls_uniform_shape(run, LS_F32, 1000, 30000, shape), LS_I64));
    b.types = ls_keep(ls_cast(ls_uniform_shape(run, LS_F32, 0, 1.999, shape), LS_I64));
    b.lengths = ls_keep(ls_from(run, LS_I64, LS_SHAPE(o->batch), lengths));
    b.starts = ls_keep(ls_arange(run, LS_I64, o->batch, 1, 1));
    return b;
}

static ls_tensor *step(ls_run *run, ls_module *model, ls_optim *adam, const batch *b)
{
    ls_outputs out = ls_forward_all(model, b->ids, b->lengths, b->types);
    ls_tensor *loss = ls_bert_span_loss(out.item[0], out.item[1], b->starts, b->starts);
    ls_backward(run, loss);
    ls_clip_grad_norm(adam, 1);
    ls_step(adam);
    ls_zero_grad(adam);
    return loss;
}

/* Milliseconds of each of some steps; *host: of those, until the host was done; *loss: of the last. */
static double time_steps(ls_run *run, ls_module *model, ls_optim *adam, const batch *b, int64_t steps, double *host,
                         double *loss)
{
    double began = now(), submitted = 0;
    for (int64_t i = 0; i < steps && !ls_error(run); i++) {
        ls_mark mark = ls_scope_begin(run);
        ls_tensor *last = step(run, model, adam, b);
        submitted = now();
        if (i == steps - 1) *loss = ls_item(last);
        ls_scope_end(run, mark, NULL);
    }
    *host = 1e3 * (submitted - began) / (double)steps;
    return 1e3 * (now() - began) / (double)steps;
}

int main(int argc, char **argv)
{
    options o = {.batch = 12, .steps = 20, .layers = -1};
    ls_run *run = ls_init(&argc, &argv, .seed = 1, .device = "cuda", .mixed_precision = LS_BF16);
    if (!read_flags(run, &argc, &argv, &o)) return ls_finish(run);
    const sizes *size = o.mini ? &mini : o.base ? &base : &large;
    int64_t layers = o.layers > 0 ? o.layers : size->layers;
    ls_module *model = ls_bert_for_question_answering_new(
        run, NULL, .num_hidden_layers = layers, .unpad = o.unpadded, .hidden_size = size->width,
        .num_attention_heads = size->heads, .intermediate_size = 4 * size->width);
    ls_optim *adam = ls_adamw_new(run, model, .lr = 3e-5, .weight_decay = 0.01);
    ls_optim_add_group(adam, ls_state_matching(ls_parameters(model), "*.bias|*LayerNorm*"), .weight_decay = 0);
    ls_prepare(run, model, adam);
    batch b = batch_of(run, &o);
    double host = 0, loss = 0;
    time_steps(run, model, adam, &b, 1, &host, &loss);
    double first = seconds_since_start(), began_with = loss;
    time_steps(run, model, adam, &b, WARM_UP, &host, &loss);
    double best = 1e30;
    for (int attempt = 0; attempt < 3 && !ls_error(run); attempt++) {
        double ms = time_steps(run, model, adam, &b, o.steps, &host, &loss);
        if (ms < best) best = ms;
    }
    ls_memory_stats memory = ls_memory(run);
    if (!ls_error(run))
        printf("%s of %lld layers, %lld x %d%s: %.2f ms a step, host %.2f ms; first step after %.2f s; loss %.3f, "
               "then %.3f; %.2f GiB\n",
               size->name, (long long)layers, (long long)o.batch, LENGTH,
               o.unpadded ? " at most, unpadded"
               : o.padded ? ", half of it padding"
                          : "",
               best, host, first, began_with, loss, (double)memory.peak / (1 << 30));
    return ls_finish(run);
}
