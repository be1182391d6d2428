/* lacking.c - a device that lacks operators which others can do the work of: they are not called, and results and
 * gradients are the same but for rounding. */
#include <lockstep.h>

#include "check.h"
#include "ops/op.h"
#include "tensor/context.h"

static ls_run *run;
static int calls[LS_OP_COUNT];
static const ls_opcode lacked[] = {LS_OP_linear_grad, LS_OP_dropout_add_layer_norm, LS_OP_embedding_layer_norm};
enum { LACKED = sizeof lacked / sizeof *lacked };

static ls_status counting_run(void *device, ls_stream *stream, const ls_call *call, ls_message *why)
{
    calls[call->op]++;
    return ls_cpu_device.run(device, stream, call, why);
}

static bool supports(void *device, ls_opcode op)
{
    (void)device;
    bool has = true;
    for (int i = 0; i < LACKED; i++) has &= op != lacked[i];
    return has;
}

enum { MOST_INPUTS = 5 };

typedef struct outcome {
    ls_tensor *y, *gradient[MOST_INPUTS];
} outcome;

typedef ls_tensor *function(ls_tensor **in);

/* Twice forward and back, so that gradients also meet what is there already. */
static outcome outcome_of(function *f, ls_tensor **in, bool lacking)
{
    outcome o;
    memset(calls, 0, sizeof calls);
    run->device->table.run = counting_run;
    run->device->table.supports = lacking ? supports : NULL;
    ls_set_seed(run, 5);
    for (int i = 0; i < 2; i++) {
        o.y = f(in);
        ls_backward(run, ls_sum(ls_mul(o.y, ls_detach(ls_cos(o.y)))));
    }
    run->device->table.run = ls_cpu_device.run;
    run->device->table.supports = NULL;
    for (int i = 0; i < MOST_INPUTS; i++) {
        bool differentiable = in[i] && ls_requires_grad(in[i]);
        o.gradient[i] = differentiable ? ls_clone(ls_grad(in[i])) : NULL;
        if (differentiable) ls_clear_grad(in[i]);
    }
    return o;
}

static double difference(ls_tensor *a, ls_tensor *b)
{
    double scale = 1 + ls_item(ls_max(ls_abs(ls_cast(a, LS_F64))));
    return ls_item(ls_max(ls_abs(ls_sub(ls_cast(a, LS_F64), ls_cast(b, LS_F64))))) / scale;
}

static void check_same(function *f, ls_tensor **in, ls_opcode op, double limit)
{
    outcome whole = outcome_of(f, in, false);
    CHECK_MSG(calls[op] > 0, "%s is not called", ls_op_name(op));
    outcome parts = outcome_of(f, in, true);
    for (int i = 0; i < LACKED; i++)
        CHECK_MSG(calls[lacked[i]] == 0, "%s is called on a device without it", ls_op_name(lacked[i]));
    double off = difference(whole.y, parts.y);
    CHECK_MSG(off <= limit, "%s: result %g off", ls_op_name(op), off);
    for (int i = 0; i < MOST_INPUTS; i++) {
        if (!whole.gradient[i]) continue;
        off = difference(whole.gradient[i], parts.gradient[i]);
        CHECK_MSG(off <= limit, "%s: gradient %d %g off", ls_op_name(op), i, off);
    }
}

static ls_tensor *leaf(ls_dtype dtype, ls_shape shape)
{
    return ls_set_requires_grad(ls_detach(ls_cast(ls_normal_shape(run, LS_F32, 0.5, 1, shape), dtype)), true);
}

static ls_activation activation;

static ls_tensor *linear(ls_tensor **in)
{
    return ls_linear(in[0], in[1], in[2], activation);
}

static void gradients_of_linear(void)
{
    static const ls_activation all[] = {LS_ACT_NONE, LS_ACT_RELU, LS_ACT_GELU,   LS_ACT_GELU_TANH,
                                        LS_ACT_SILU, LS_ACT_TANH, LS_ACT_SIGMOID};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        activation = all[i];
        ls_tensor *in[MOST_INPUTS] = {leaf(LS_F32, LS_SHAPE(2, 5, 17)), leaf(LS_F32, LS_SHAPE(13, 17)),
                                      leaf(LS_F32, LS_SHAPE(13))};
        check_same(linear, in, LS_OP_linear_grad, 1e-5);
        ls_autocast_begin(run, LS_BF16);
        check_same(linear, in, LS_OP_linear_grad, 0.02);
        ls_autocast_end(run);
    }
}

static ls_tensor *feed_forward(ls_tensor **in)
{
    return ls_feed_forward(in[0], (ls_tensor *[]){in[1], in[3]}, (ls_tensor *[]){in[2], in[4]}, activation);
}

static void gradients_of_feed_forward(void)
{
    static const ls_activation all[] = {LS_ACT_GELU, LS_ACT_GELU_TANH, LS_ACT_SILU};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        activation = all[i];
        ls_tensor *in[MOST_INPUTS] = {leaf(LS_F32, LS_SHAPE(2, 5, 17)), leaf(LS_F32, LS_SHAPE(13, 17)),
                                      leaf(LS_F32, LS_SHAPE(13)), leaf(LS_F32, LS_SHAPE(7, 13)),
                                      leaf(LS_F32, LS_SHAPE(7))};
        check_same(feed_forward, in, LS_OP_linear_grad, 1e-5);
    }
}

static ls_tensor *dropped(ls_tensor **in)
{
    return ls_dropout_add_layer_norm(in[0], in[1], in[2], in[3], 0.25, 1e-5);
}

static ls_tensor *added(ls_tensor **in)
{
    return ls_add_layer_norm(in[0], in[1], in[2], in[3], 1e-5);
}

static void dropout_and_norm(void)
{
    ls_tensor *in[MOST_INPUTS] = {leaf(LS_F32, LS_SHAPE(6, 40)), leaf(LS_F32, LS_SHAPE(6, 40)),
                                  leaf(LS_F32, LS_SHAPE(40)), leaf(LS_F32, LS_SHAPE(40))};
    check_same(dropped, in, LS_OP_dropout_add_layer_norm, 1e-6);
    check_same(added, in, LS_OP_dropout_add_layer_norm, 1e-6);
}

static ls_tensor *embedded(ls_tensor **in)
{
    ls_tensor *index[] = {ls_from(run, LS_I64, LS_SHAPE(2, 3), (int64_t[]){0, 6, 3, 6, 1, 0}),
                          ls_arange(run, LS_I64, 3, 0, 1)};
    return ls_embedding_layer_norm(in, index, 2, .weight = in[2], .bias = in[3], .padding_idx = {6, LS_NO_ROW});
}

static void embedding_and_norm(void)
{
    ls_tensor *in[MOST_INPUTS] = {leaf(LS_F32, LS_SHAPE(7, 40)), leaf(LS_F32, LS_SHAPE(3, 40)),
                                  leaf(LS_F32, LS_SHAPE(40)), leaf(LS_F32, LS_SHAPE(40))};
    check_same(embedded, in, LS_OP_embedding_layer_norm, 1e-6);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    run = ls_init(NULL, NULL, .seed = 1);
    CHECK_RUN(gradients_of_linear);
    CHECK_RUN(gradients_of_feed_forward);
    CHECK_RUN(dropout_and_norm);
    CHECK_RUN(embedding_and_norm);
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
    ls_finish(run);
    return check_done();
}
