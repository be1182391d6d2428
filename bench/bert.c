/* bert.c - training steps of BERT for question answering, 12 x 384 words: forward, backward, AdamW. Of BERT-base two
 * layers: they are enough to know the others. */
#include "bench.h"

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

static void *step_setup(ls_run *run, const bench_item *item)
{
    static bert_state s;
    s = (bert_state){.run = run, .dtype = item->dtype};
    s.model = ls_bert_for_question_answering_new(run, NULL, .num_hidden_layers = LAYERS, .unpad = true);
    s.adamw = ls_adamw_new(run, s.model, .lr = 3e-5);
    s.ids = ls_cast(ls_uniform_shape(run, LS_F32, 1000, 30000, LS_SHAPE(BATCH, LENGTH)), LS_I64);
    s.lengths = ls_full(run, LS_I64, item->variant == HALF_PADDING ? LENGTH / 2 : LENGTH, BATCH);
    s.starts = ls_arange(run, LS_I64, BATCH, 1, 3);
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
