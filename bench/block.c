/* block.c - parts of real networks, forward and backward: attention, a BERT-base encoder layer, ResNet-50 bottlenecks;
 * and the overhead of a single operator. Backward starts from a given gradient, as PyTorch's does beside it. */
#include "bench.h"
#include "chain.h"

#include "autograd/tape.h"

/* ---- attention 12 x 12 x 384 x 64 with dropout ---- */

enum { BATCH = 12, HEADS = 12, LENGTH = 384, WIDTH = 64 };

typedef struct block_state {
    ls_run *run;
    ls_module *net;
    ls_tensor *x[3], *dy;
    ls_dtype dtype;
} block_state;

/* A leaf whose gradient takes over the memory of what is computed, as it does in PyTorch after `x.grad = None`. */
static ls_tensor *fresh_leaf(ls_tensor *x)
{
    return ls_set_requires_grad(ls_detach(x), true);
}

static void attention_call(void *arg)
{
    block_state *s = arg;
    ls_mark mark = ls_scope_begin(s->run);
    ls_tensor *x[3];
    for (int i = 0; i < 3; i++) x[i] = fresh_leaf(s->x[i]);
    ls_walk_back(s->run, ls_attention(x[0], x[1], x[2], .dropout = 0.1), s->dy);
    ls_scope_end(s->run, mark, NULL);
}

static void *attention_setup(ls_run *run, const bench_item *item)
{
    static block_state s;
    s = (block_state){.run = run};
    for (int i = 0; i < 3; i++) s.x[i] = ls_randn(run, item->dtype, BATCH, HEADS, LENGTH, WIDTH);
    s.dy = ls_randn(run, item->dtype, BATCH, HEADS, LENGTH, WIDTH);
    return &s;
}

/* The same on the output of one projection; the second half of every sequence is padding. */
static void self_attention_call(void *arg)
{
    block_state *s = arg;
    ls_mark mark = ls_scope_begin(s->run);
    ls_tensor *x = fresh_leaf(s->x[0]);
    ls_walk_back(s->run, ls_self_attention(x, HEADS, .lengths = s->x[1], .dropout = 0.1), s->dy);
    ls_scope_end(s->run, mark, NULL);
}

static void *self_attention_setup(ls_run *run, const bench_item *item)
{
    static block_state s;
    s = (block_state){.run = run};
    s.x[0] = ls_randn(run, item->dtype, BATCH, LENGTH, 3 * HEADS * WIDTH);
    s.x[1] = ls_full(run, LS_I64, LENGTH / 2, BATCH);
    s.dy = ls_randn(run, item->dtype, BATCH, LENGTH, HEADS * WIDTH);
    return &s;
}

/* ---- blocks of modules ---- */

static void block_call(void *arg)
{
    block_state *s = arg;
    ls_mark mark = ls_scope_begin(s->run);
    if (s->dtype == LS_BF16) ls_autocast_begin(s->run, LS_BF16);
    ls_tensor *y = ls_forward(s->net, fresh_leaf(s->x[0]));
    if (s->dtype == LS_BF16) ls_autocast_end(s->run);
    ls_walk_back(s->run, y, ls_cast(s->dy, ls_dtype_of(y)));
    ls_state *parameters = ls_parameters(s->net);
    for (int64_t i = 0; i < ls_state_count(parameters); i++) ls_clear_grad(ls_state_tensor(parameters, i));
    ls_scope_end(s->run, mark, NULL);
}

static void *encoder_setup(ls_run *run, const bench_item *item)
{
    static block_state s;
    s = (block_state){.run = run, .dtype = item->dtype};
    s.net = ls_transformer_layer_new(run, 768, 12, .feedforward = 3072, .dropout = 0.1, .activation = LS_ACT_GELU);
    s.x[0] = ls_randn(run, item->dtype, BATCH, LENGTH, 768);
    s.dy = ls_randn(run, item->dtype, BATCH, LENGTH, 768);
    return &s;
}

/* A ResNet bottleneck: 1x1, 3x3, 1x1, each with batch norm, the shortcut added before the last ReLU. */
static ls_tensor *bottleneck_forward(ls_module *net, ls_tensor *x, void *user)
{
    (void)user;
    ls_tensor *y = ls_forward(ls_child(net, "bn1"), ls_forward(ls_child(net, "conv1"), x));
    y = ls_forward(ls_child(net, "bn2"), ls_forward(ls_child(net, "conv2"), y));
    return ls_forward(ls_child(net, "bn3"), ls_forward(ls_child(net, "conv3"), y), x);
}

static void *bottleneck_setup(ls_run *run, const bench_item *item)
{
    static block_state s;
    int64_t width = 64 << item->variant, size = 56 >> item->variant;
    s = (block_state){.run = run, .dtype = item->dtype};
    s.net = ls_module_new(run, "Bottleneck", bottleneck_forward, NULL);
    ls_module_add(s.net, "conv1", ls_conv2d_new(run, 4 * width, width, 1, .bias = false));
    ls_module_add(s.net, "bn1", ls_batch_norm_new(run, width, .activation = LS_ACT_RELU));
    ls_module_add(s.net, "conv2", ls_conv2d_new(run, width, width, 3, .padding = 1, .bias = false));
    ls_module_add(s.net, "bn2", ls_batch_norm_new(run, width, .activation = LS_ACT_RELU));
    ls_module_add(s.net, "conv3", ls_conv2d_new(run, width, 4 * width, 1, .bias = false));
    ls_module_add(s.net, "bn3", ls_batch_norm_new(run, 4 * width, .activation = LS_ACT_RELU));
    s.x[0] = ls_channels_last(ls_randn(run, item->dtype, 16, 4 * width, size, size));
    s.dy = ls_channels_last(ls_randn(run, item->dtype, 16, 4 * width, size, size));
    return &s;
}

void bench_add_blocks(int threads)
{
    for (int half = 0; half < 2; half++) {
        ls_dtype dtype = half ? LS_BF16 : LS_F32;
        const char *type = ls_dtype_name(dtype);
        /* two products forward, five backward (scores are recomputed) */
        double flop = 14.0 * BATCH * HEADS * LENGTH * (double)LENGTH * WIDTH;
        bench_item *item = bench_add(BENCH_GFLOPS, half ? BENCH_PEAK_BF16 : BENCH_PEAK_F32, threads, flop,
                                     "attention/%s/12x12x384x64 dropout", type);
        item->dtype = dtype;
        item->setup = attention_setup;
        item->call = attention_call;
        item = bench_add(BENCH_GFLOPS, half ? BENCH_PEAK_BF16 : BENCH_PEAK_F32, threads, flop / 4,
                         "attention/%s/12x12x384x64 half padding", type);
        item->dtype = dtype;
        item->setup = self_attention_setup;
        item->call = self_attention_call;
        item = bench_add(BENCH_MS, BENCH_PEAK_NONE, threads, 1, "block/%s/bert-base encoder layer", type);
        item->dtype = dtype;
        item->setup = encoder_setup;
        item->call = block_call;
        for (int stage = 0; stage < 4; stage++) {
            item = bench_add(BENCH_MS, BENCH_PEAK_NONE, threads, 1, "block/%s/resnet50 bottleneck %d", type, stage + 1);
            item->dtype = dtype;
            item->variant = stage;
            item->setup = bottleneck_setup;
            item->call = block_call;
        }
    }
}

/* ---- operator overhead ---- */

static void chain_call(void *arg)
{
    const chain *c = arg;
    ls_mark mark = ls_scope_begin(c->run);
    chain_step(c);
    ls_clear_grad(c->x);
    ls_scope_end(c->run, mark, NULL);
}

static void *chain_setup(ls_run *run, const bench_item *item)
{
    static chain c;
    (void)item;
    c = chain_new(run);
    return &c;
}

void bench_add_overheads(void)
{
    bench_item *item =
        bench_add(BENCH_NS, BENCH_PEAK_NONE, 1, CHAIN, "overhead/f32/1000 additions of 16, forward and backward");
    item->setup = chain_setup;
    item->call = chain_call;
}
