/* bert.c - training steps of BERT for question answering, 12 x 384 tokens: forward, backward, AdamW. As an item, two
 * layers of BERT-base, from which the rest can be extrapolated; as a program, any size and any number of processes. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 12, LENGTH = 384, LAYERS = 2 };
enum { FULL, HALF_PADDING, VARIANTS };

typedef struct bert_state {
    ls_run *run;
    ls_module *model;
    ls_optim *adamw;
    ls_tensor *ids, *lengths, *starts;
    ls_dtype dtype;
} bert_state;

static void step_call(void *arg)
{
    bert_state *s = arg;
    ls_mark mark = ls_scope_begin(s->run);
    ls_autocast_begin(s->run, s->dtype);
    ls_outputs out = ls_forward_all(s->model, s->ids, s->lengths);
    ls_tensor *loss = ls_bert_span_loss(out.item[0], out.item[1], s->starts, s->starts);
    ls_autocast_end(s->run);
    ls_backward(s->run, loss);
    ls_step(s->adamw);
    ls_zero_grad(s->adamw);
    ls_scope_end(s->run, mark, NULL);
}

/* The optimiser and a batch for the model of `s`: sequences [B,length], of which lengths [B] count. */
static void add_batch(bert_state *s, ls_tensor *lengths, int64_t length)
{
    int64_t batch = ls_dim(lengths, 0);
    s->adamw = ls_adamw_new(s->run, s->model, .lr = 3e-5);
    s->ids = ls_cast(ls_uniform_shape(s->run, LS_F32, 1000, 30000, LS_SHAPE(batch, length)), LS_I64);
    s->lengths = lengths;
    s->starts = ls_arange(s->run, LS_I64, batch, 1, 3);
}

static void *step_setup(ls_run *run, const bench_item *item)
{
    static bert_state s;
    s = (bert_state){.run = run, .dtype = item->dtype};
    s.model = ls_bert_for_question_answering_new(run, NULL, .num_hidden_layers = LAYERS, .unpad = true);
    add_batch(&s, ls_full(run, LS_I64, item->variant == HALF_PADDING ? LENGTH / 2 : LENGTH, BATCH), LENGTH);
    return &s;
}

void bench_add_berts(int threads)
{
    static const char *const names[VARIANTS] = {"step", "step, half padding"};
    for (int half = 0; half < 2; half++)
        for (int variant = 0; variant < VARIANTS; variant++) {
            ls_dtype dtype = half ? LS_BF16 : LS_F32;
            bench_item *item =
                bench_add(BENCH_MS, BENCH_PEAK_NONE, threads, 1, "model/%s/bert-base of %d layers %dx%d %s",
                          ls_dtype_name(dtype), LAYERS, BATCH, LENGTH, names[variant]);
            item->dtype = dtype;
            item->variant = variant;
            item->setup = step_setup;
            item->call = step_call;
        }
}

/* ---- the program ---- */

/* Every world-th number of "73,97,112", from the rank-th on. */
static ls_tensor *own_lengths(ls_run *run, char *text)
{
    int64_t own[64], count = 0, number = 0;
    for (char *word = strtok(text, ","); word && count < 64; word = strtok(NULL, ","))
        if (number++ % ls_world_size(run) == ls_rank(run)) own[count++] = strtoll(word, NULL, 10);
    return ls_from(run, LS_I64, LS_SHAPE(count), own);
}

/* Peak memory of this process, in MiB. */
static double peak_memory(void)
{
    double kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    for (char line[256]; status && fgets(line, sizeof line, status);)
        if (strncmp(line, "VmHWM:", 6) == 0) kib = strtod(line + 6, NULL);
    if (status) fclose(status);
    return kib / 1024;
}

int bench_train_bert(char **arguments)
{
    bool large = strcmp(arguments[0], "large") == 0, half = strcmp(arguments[2], "bf16") == 0;
    bool unpad = strcmp(arguments[3], "unpadded") == 0;
    int64_t layers = strtoll(arguments[1], NULL, 10);
    int steps = atoi(arguments[5]);
    bert_state s = {.run = ls_init(NULL, NULL, .seed = 1), .dtype = half ? LS_BF16 : LS_F32};
    s.model = ls_bert_for_question_answering_new(
        s.run, NULL, .num_hidden_layers = layers, .unpad = unpad, .hidden_size = large ? 1024 : 768,
        .num_attention_heads = large ? 16 : 12, .intermediate_size = large ? 4096 : 3072);
    ls_tensor *lengths = own_lengths(s.run, arguments[4]);
    add_batch(&s, lengths, unpad ? (int64_t)ls_item(ls_max(lengths)) : LENGTH);
    ls_prepare(s.run, s.model, s.adamw);
    double best = 1e30;
    for (int step = 0; step <= steps && !ls_error(s.run); step++) {
        double began = bench_now();
        step_call(&s);
        double taken = bench_now() - began;
        if (step > 0 && taken < best) best = taken;
    }
    if (ls_is_main(s.run) && !ls_error(s.run)) printf("%.6g %.6g\n", 1e3 * best, peak_memory());
    return ls_finish(s.run);
}
