/* pass.c - memory-bound operators: minimum bytes moved, compared with the machine's copy rate.
 *
 * Bytes count each tensor that must be read or written once; batch norm needs its statistics first and so reads
 * twice. */
#include "bench.h"

#include "tensor/context.h"

typedef enum pass { LAYER_NORM, SOFTMAX, GELU, BATCH_NORM, CROSS_ENTROPY, PASSES } pass;
static const char *const pass_names[] = {"layer norm", "softmax", "gelu", "batch norm", "cross entropy"};
/* Passes over the tensor: forward, backward. */
static const double pass_counts[][2] = {{2, 3}, {2, 3}, {2, 3}, {3, 5}, {1, 2}};

typedef struct pass_state {
    ls_run *run;
    ls_call call;
    ls_tensor *t[8];
} pass_state;

static void pass_call(void *arg)
{
    pass_state *s = arg;
    ls_submit(s->run, s->t[0]->storage->device, &s->call);
}

/* One forward pass fills what the gradient reads; then the single call is repeated. */
static void *pass_setup(ls_run *run, const bench_item *item)
{
    static pass_state s;
    bool back = item->variant >= PASSES;
    pass what = (pass)(item->variant % PASSES);
    ls_dtype dtype = item->dtype;
    bool image = what == BATCH_NORM, logits = what == CROSS_ENTROPY;
    int64_t rows = 64 << 10, width = 768; /* 100 or 200 MB: larger than any cache */
    s = (pass_state){.run = run};
    ls_tensor *x = image    ? ls_channels_last(ls_randn(run, dtype, 64, 256, 56, 56))
                   : logits ? ls_randn(run, dtype, 1600, 30522)
                            : ls_randn(run, dtype, rows, width);
    int64_t features = image ? 256 : width, n = ls_dim(x, 0);
    ls_tensor *weight = ls_ones(run, LS_F32, features), *bias = ls_zeros(run, LS_F32, features);
    ls_tensor *y = ls_tensor_new_like(x, dtype), *dy = back && !logits ? ls_clone(x) : NULL;
    ls_tensor *mean = ls_zeros(run, LS_F32, image ? features : n), *rstd = ls_ones(run, LS_F32, image ? features : n);
    ls_tensor *target = logits ? ls_arange(run, LS_I64, n, 0, 1) : NULL;
    ls_tensor *loss = ls_full_shape(run, LS_F32, 1, LS_SCALAR),
              *total = ls_full_shape(run, LS_F32, (double)n, LS_SCALAR);
    if (ls_error(run)) return NULL;
#define V(t) ((t) ? &(t)->view : NULL)
    ls_call *c = &s.call;
    switch (what) {
    case LAYER_NORM:
        *c = back ? (ls_call){.op = LS_OP_layer_norm_grad,
                              .n_in = 5,
                              .n_out = 3,
                              .in = {V(dy), V(x), V(mean), V(rstd), V(weight)},
                              .out = {V(y), V(weight), V(bias)}}
                  : (ls_call){.op = LS_OP_layer_norm,
                              .n_in = 3,
                              .n_out = 3,
                              .in = {V(x), V(weight), V(bias)},
                              .out = {V(y), V(mean), V(rstd)}};
        c->attrs.norm.epsilon = 1e-5;
        c->attrs.norm.groups = width;
        break;
    case SOFTMAX:
        *c = back ? (ls_call){.op = LS_OP_softmax_grad, .n_in = 2, .n_out = 1, .in = {V(dy), V(x)}, .out = {V(y)}}
                  : (ls_call){.op = LS_OP_softmax, .n_in = 1, .n_out = 1, .in = {V(x)}, .out = {V(y)}};
        c->attrs.axis.dim = 1;
        break;
    case GELU:
        *c = back ? (ls_call){.op = LS_OP_gelu_grad, .n_in = 2, .n_out = 1, .in = {V(dy), V(x)}, .out = {V(y)}}
                  : (ls_call){.op = LS_OP_gelu, .n_in = 1, .n_out = 1, .in = {V(x)}, .out = {V(y)}};
        c->attrs.gelu.tanh = 0;
        break;
    case BATCH_NORM:
        *c = back ? (ls_call){.op = LS_OP_batch_norm_grad,
                              .n_in = 6,
                              .n_out = 4,
                              .in = {V(dy), V(x), NULL, V(mean), V(rstd), V(weight)},
                              .out = {V(y), V(weight), V(bias), NULL}}
                  : (ls_call){.op = LS_OP_batch_norm,
                              .n_in = 6,
                              .n_out = 3,
                              .in = {V(x), V(weight), V(bias), NULL, NULL, NULL},
                              .out = {V(y), V(mean), V(rstd)}};
        c->attrs.norm.epsilon = 1e-5;
        c->attrs.norm.training = 1;
        c->attrs.norm.activation = LS_ACT_NONE;
        break;
    case CROSS_ENTROPY:
        *c = back ? (ls_call){.op = LS_OP_cross_entropy_grad,
                              .n_in = 6,
                              .n_out = 1,
                              .in = {V(loss), V(x), V(target), NULL, V(mean), V(total)},
                              .out = {V(y)}}
                  : (ls_call){.op = LS_OP_cross_entropy,
                              .n_in = 3,
                              .n_out = 3,
                              .in = {V(x), V(target), NULL},
                              .out = {V(loss), V(mean), V(total)}};
        c->attrs.loss.reduction = LS_REDUCE_MEAN;
        c->attrs.loss.smoothing = 0;
        c->attrs.loss.has_ignore = 0;
        break;
    case PASSES: return NULL;
    }
#undef V
    s.t[0] = x;
    return &s;
}

/* ---- AdamW over one flat buffer ---- */

enum { PARAMETERS = 32 << 20 };

static void *adam_setup(ls_run *run, const bench_item *item)
{
    (void)item;
    static pass_state s;
    s = (pass_state){.run = run};
    for (int i = 0; i < 4; i++) s.t[i] = ls_full(run, LS_F32, 0.5, PARAMETERS);
    if (ls_error(run)) return NULL;
    s.call = (ls_call){.op = LS_OP_adam_step,
                       .n_in = 1,
                       .n_out = 3,
                       .in = {&s.t[1]->view},
                       .out = {&s.t[0]->view, &s.t[2]->view, &s.t[3]->view}};
    s.call.attrs.adam.lr = 1e-3;
    s.call.attrs.adam.beta1 = 0.9;
    s.call.attrs.adam.beta2 = 0.999;
    s.call.attrs.adam.epsilon = 1e-8;
    s.call.attrs.adam.weight_decay = 0.01;
    s.call.attrs.adam.bias1 = 0.1;
    s.call.attrs.adam.bias2 = 0.001;
    s.call.attrs.adam.decoupled = 1;
    s.call.attrs.adam.maximize = 0;
    return &s;
}

void bench_add_passes(int threads)
{
    for (int half = 0; half < 2; half++)
        for (int what = 0; what < PASSES; what++)
            for (int back = 0; back < 2; back++) {
                double numel = what == BATCH_NORM      ? 64.0 * 256 * 56 * 56
                               : what == CROSS_ENTROPY ? 1600.0 * 30522
                                                       : 65536.0 * 768;
                bench_item *item =
                    bench_add(BENCH_GBS, BENCH_PEAK_MEMORY, threads, numel * (half ? 2 : 4) * pass_counts[what][back],
                              "pass/%s/%s %s", half ? "bf16" : "f32", pass_names[what], back ? "bwd" : "fwd");
                item->dtype = half ? LS_BF16 : LS_F32;
                item->variant = what + (back ? PASSES : 0);
                item->setup = pass_setup;
                item->call = pass_call;
            }
    bench_item *item = bench_add(BENCH_GBS, BENCH_PEAK_MEMORY, threads, 28.0 * PARAMETERS, "pass/f32/adamw");
    item->setup = adam_setup;
    item->call = pass_call;
}
