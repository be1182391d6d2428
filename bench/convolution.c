/* convolution.c - the convolutions of ResNet-50 at 224x224: forward, gradient of the input, gradient of the weight. */
#include "bench.h"

#include "tensor/context.h"

enum { BATCH = 8 };

typedef struct convolution {
    const char *name;
    int64_t channels, outputs, size, kernel, stride;
} convolution;

static const convolution convolutions[] = {
    {"stem 7x7", 3, 64, 224, 7, 2},          {"s1 1x1 64-64", 64, 64, 56, 1, 1},
    {"s1 3x3 64", 64, 64, 56, 3, 1},         {"s1 1x1 64-256", 64, 256, 56, 1, 1},
    {"s1 1x1 256-64", 256, 64, 56, 1, 1},    {"s2 3x3 128 /2", 128, 128, 56, 3, 2},
    {"s2 1x1 512-128", 512, 128, 28, 1, 1},  {"s2 3x3 128", 128, 128, 28, 3, 1},
    {"s2 1x1 128-512", 128, 512, 28, 1, 1},  {"s3 1x1 1024-256", 1024, 256, 14, 1, 1},
    {"s3 3x3 256", 256, 256, 14, 3, 1},      {"s3 1x1 256-1024", 256, 1024, 14, 1, 1},
    {"s4 1x1 2048-512", 2048, 512, 7, 1, 1}, {"s4 3x3 512", 512, 512, 7, 3, 1},
    {"s4 1x1 512-2048", 512, 2048, 7, 1, 1},
};

typedef enum direction { FORWARD, INPUT, WEIGHT, DIRECTIONS } direction;
static const char *const direction_names[] = {"fwd", "dgrad", "wgrad"};

typedef struct convolution_state {
    ls_run *run;
    ls_call call;
    ls_tensor *x, *w, *y;
} convolution_state;

static void convolution_call(void *arg)
{
    convolution_state *s = arg;
    ls_submit(s->run, s->x->storage->device, &s->call);
}

static void *convolution_setup(ls_run *run, const bench_item *item)
{
    static convolution_state s;
    const convolution *c = item->shape;
    s = (convolution_state){.run = run};
    s.x = ls_channels_last(ls_randn(run, item->dtype, BATCH, c->channels, c->size, c->size));
    s.w = ls_set_requires_grad(ls_randn(run, item->dtype, c->outputs, c->channels, c->kernel, c->kernel), true);
    s.y = ls_conv2d(s.x, s.w, NULL, .stride = c->stride, .padding = c->kernel / 2);
    if (ls_error(run)) return NULL;
    static const ls_opcode ops[] = {LS_OP_conv2d, LS_OP_conv2d_dinput, LS_OP_conv2d_dweight};
    direction way = (direction)item->variant;
    s.call = (ls_call){.op = ops[way], .n_in = way == FORWARD ? 3 : 2, .n_out = 1};
    ls_tensor *w = s.w;
    if (way == WEIGHT) w = ls_empty(run, LS_F32, c->outputs, c->channels, c->kernel, c->kernel); /* gradients are f32 */
    const ls_operand *x = &s.x->view, *y = &s.y->view;
    s.call.in[0] = way == FORWARD ? x : y;
    s.call.in[1] = way == WEIGHT ? x : &w->view;
    s.call.out[0] = way == FORWARD ? y : way == INPUT ? x : &w->view;
    ls_window window = {{c->kernel, c->kernel}, {c->stride, c->stride}, {c->kernel / 2, c->kernel / 2}, {1, 1}, 1};
    s.call.attrs.conv.window = window;
    s.call.attrs.conv.compute = item->dtype;
    s.call.attrs.conv.accumulate = 0;
    return &s;
}

void bench_add_convolutions(int threads)
{
    for (size_t i = 0; i < sizeof convolutions / sizeof *convolutions; i++)
        for (int half = 0; half < 2; half++)
            for (int way = FORWARD; way < DIRECTIONS; way++) {
                const convolution *c = &convolutions[i];
                if (c->channels == 3 && way == INPUT) continue; /* an image needs no gradient */
                int64_t out = (c->size + c->stride - 1) / c->stride;
                double flop = 2.0 * BATCH * (double)(out * out * c->outputs * c->channels * c->kernel * c->kernel);
                bench_item *item = bench_add(BENCH_GFLOPS, half ? BENCH_PEAK_BF16 : BENCH_PEAK_F32, threads, flop,
                                             "conv/%s/%s %s", half ? "bf16" : "f32", c->name, direction_names[way]);
                item->dtype = half ? LS_BF16 : LS_F32;
                item->shape = c;
                item->variant = way;
                item->setup = convolution_setup;
                item->call = convolution_call;
            }
}
