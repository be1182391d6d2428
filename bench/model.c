/* model.c - whole training steps of a network: normalise, forward, backward, Adam; and its evaluation. */
#include "bench.h"

enum { BATCH = 64, SIZE = 224, CLASSES = 37 };
enum { TRAINED, FROZEN, EVALUATION, VARIANTS };

typedef struct model_state {
    ls_run *run;
    ls_module *net;
    ls_optim *adam;
    ls_tensor *image, *label;
    ls_dtype dtype;
} model_state;

static void step_call(void *arg)
{
    model_state *s = arg;
    ls_mark mark = ls_scope_begin(s->run);
    ls_autocast_begin(s->run, s->dtype);
    ls_tensor *loss = ls_cross_entropy(ls_forward(s->net, ls_imagenet_normalize(s->image)), s->label);
    ls_autocast_end(s->run);
    ls_backward(s->run, loss);
    ls_step(s->adam);
    ls_zero_grad(s->adam);
    ls_scope_end(s->run, mark, NULL);
}

static void eval_call(void *arg)
{
    model_state *s = arg;
    ls_mark mark = ls_scope_begin(s->run);
    ls_eval(s->net);
    ls_no_grad_begin(s->run);
    ls_autocast_begin(s->run, s->dtype);
    ls_forward(s->net, ls_imagenet_normalize(s->image));
    ls_autocast_end(s->run);
    ls_no_grad_end(s->run);
    ls_scope_end(s->run, mark, NULL);
}

static void *step_setup(ls_run *run, const bench_item *item)
{
    static model_state s;
    s = (model_state){.run = run, .dtype = item->dtype};
    s.net = ls_resnet_new(run, "resnet50d", .classes = CLASSES);
    if (item->variant == FROZEN) {
        ls_freeze(s.net);
        ls_unfreeze(ls_classifier(s.net));
    }
    s.adam = ls_adam_new(run, s.net, .lr = 1e-3);
    s.image = ls_channels_last(ls_rand(run, LS_F32, BATCH, 3, SIZE, SIZE));
    s.label = ls_cast(ls_arange(run, LS_F32, BATCH, 0, 0.5), LS_I64);
    return &s;
}

void bench_add_models(int threads)
{
    static const char *const names[VARIANTS] = {"step", "step frozen", "evaluation"};
    for (int half = 0; half < 2; half++)
        for (int variant = 0; variant < VARIANTS; variant++) {
            ls_dtype dtype = half ? LS_BF16 : LS_F32;
            bench_item *item = bench_add(BENCH_MS, BENCH_PEAK_NONE, threads, 1, "model/%s/resnet50d %dx%d %s",
                                         ls_dtype_name(dtype), BATCH, SIZE, names[variant]);
            item->dtype = dtype;
            item->variant = variant;
            item->setup = step_setup;
            item->call = variant == EVALUATION ? eval_call : step_call;
        }
}
