/* conv_norm.c - a convolution and the batch norm after it, as one operator; and a convolution with the statistics that
 * a batch norm needs, where gradients keep both operators apart.
 *
 * By running statistics, the norm is part of finishing the sums. By those of the batch it has to wait for all of them.
 * Then memory is the limit, not products, and what is saved is passes over y:
 *
 *     in general             y is written, read for the moments, read and written again
 *     gathered               the kernel gathers the moments of the sums that it stores
 *     convolved twice        the first time only for the moments; y is written once, as by running statistics */
#include "base/parallel.h"
#include "device/cpu/channels.h"
#include "device/cpu/conv.h"
#include "device/cpu/cpu.h"

/* The norm of y in place: by its own statistics, or by mean and var. */
static ls_status norm_in_place(const ls_call *call, const ls_operand *mean, const ls_operand *var, ls_message *why)
{
    const ls_operand *y = call->out[0];
    ls_call norm = {.op = LS_OP_batch_norm,
                    .n_in = 6,
                    .n_out = 6,
                    .in = {y, call->in[3], call->in[4], mean, var, call->in[7]},
                    .out = {y}};
    norm.attrs.norm.epsilon = call->attrs.conv.epsilon;
    norm.attrs.norm.activation = call->attrs.conv.activation;
    if (!mean) {
        norm.out[4] = call->out[1];
        norm.out[5] = call->out[2];
        norm.attrs.norm.momentum = call->attrs.conv.momentum;
        norm.attrs.norm.training = true;
    }
    return ls_cpu_batch_norm(&norm, why);
}

static ls_conv_finish finish_by(const ls_call *call, const ls_operand *mean, const ls_operand *var)
{
    return (ls_conv_finish){.bias = call->in[2],
                            .weight = call->in[3],
                            .shift = call->in[4],
                            .mean = mean,
                            .var = var,
                            .epsilon = call->attrs.conv.epsilon,
                            .residual = call->in[7],
                            .activation = call->attrs.conv.activation};
}

/* Is it faster to convolve twice? Saved is reading y and writing it once more; the price is reading x again, and all
 * products. It pays where x has few channels and y many. */
static bool twice_pays(const ls_call *call)
{
    const ls_operand *x = call->in[0], *y = call->out[0];
    ls_conv conv = ls_conv_of(call, x, call->in[1], y);
    const ls_gemm_kernel *kernel = ls_gemm_choose(conv.compute, -1, conv.group_o);
    int64_t points = conv.n * conv.out[0] * conv.out[1], taps = conv.window.kernel[0] * conv.window.kernel[1];
    int64_t x_bytes = conv.n * conv.in[0] * conv.in[1] * conv.c * (int64_t)ls_dtype_size(x->dtype);
    int64_t y_bytes = points * conv.o * (int64_t)ls_dtype_size(y->dtype);
    int64_t products = points * conv.o * taps * ls_gemm_round_up(conv.group_c, kernel->kr);
    return kernel->blocks && (2 * y_bytes - x_bytes) * kernel->blocks->products_per_byte > products;
}

static ls_operand vector_of(double *data, int64_t n)
{
    return (ls_operand){.data = data, .dtype = LS_F64, .ndim = 1, .dim = {n}, .stride = {1}};
}

static bool is_empty(const ls_operand *y)
{
    return y->dim[0] * y->dim[1] * y->dim[2] * y->dim[3] == 0;
}

/* What gathering moments takes. */
typedef struct gathering {
    ls_conv_moments moments; /* [O] each */
    void *memory;            /* for ls_conv_run */
} gathering;

static bool gathering_new(const ls_call *call, bool only, gathering *g)
{
    int64_t o = call->out[0]->dim[1], statistics = ls_gemm_round_up(2 * o * (int64_t)sizeof(double), 64);
    char *memory = ls_scratch((ls_worker){0, 1}, 2, (size_t)statistics + ls_conv_run_space(call));
    if (memory) *g = (gathering){{(double *)memory, (double *)memory + o, only}, memory + statistics};
    return memory;
}

/* Do channels of y vary so little that rounding may have moved all of a channel together? Then what was stored has
 * another mean than the sums, which the norm would take for signal. */
static bool rounding_counts(const ls_operand *y, const ls_operand *mean, const ls_operand *var)
{
    double unit = y->dtype == LS_BF16 ? 0x1p-8 : y->dtype == LS_F16 ? 0x1p-11 : 0x1p-24;
    for (int64_t o = 0; o < y->dim[1]; o++) {
        double least = 16 * unit * ls_channel_get(mean, o, 0);
        if (ls_channel_get(var, o, 0) < least * least) return true;
    }
    return false;
}

ls_status ls_conv_with_moments(const ls_call *call, ls_message *why)
{
    const ls_operand *y = call->out[0], *mean = call->out[1], *var = call->out[2];
    ls_conv_finish plain = {.bias = call->n_in > 2 ? call->in[2] : NULL};
    if (is_empty(y) || !ls_conv_gathers(call)) {
        ls_status status = ls_conv_finished(call, &plain, why);
        return status == LS_OK ? ls_batch_moments(y, mean, var, why) : status;
    }
    gathering g;
    if (!gathering_new(call, false, &g)) return ls_conv_out_of_memory(why);
    ls_status status = ls_conv_run(call, &plain, &g.moments, g.memory, why);
    double elements = (double)(y->dim[0] * y->dim[2] * y->dim[3]);
    for (int64_t o = 0; status == LS_OK && o < y->dim[1]; o++) {
        ls_channel_set(mean, o, g.moments.mean[o] + ls_channel_get(plain.bias, o, 0));
        ls_channel_set(var, o, g.moments.m2[o] / elements);
    }
    return status == LS_OK && rounding_counts(y, mean, var) ? ls_batch_moments(y, mean, var, why) : status;
}

/* Turn the moments of the sums into mean and variance of the convolution, and move the running statistics. */
static void use_moments(const ls_call *call, double *mean, double *m2)
{
    const ls_operand *y = call->out[0];
    int64_t elements = y->dim[0] * y->dim[2] * y->dim[3];
    ls_running running = {call->out[1], call->out[2], call->attrs.conv.momentum};
    for (int64_t o = 0; o < y->dim[1]; o++) {
        mean[o] += ls_channel_get(call->in[2], o, 0);
        ls_running_move(&running, o, mean[o], m2[o], elements);
        m2[o] /= (double)elements;
    }
}

static ls_status norm_by_batch(const ls_call *call, ls_message *why)
{
    const ls_operand *y = call->out[0];
    ls_conv_finish plain = {.bias = call->in[2]};
    if (is_empty(y) || !ls_conv_gathers(call)) {
        ls_status status = ls_conv_finished(call, &plain, why);
        return status == LS_OK ? norm_in_place(call, NULL, NULL, why) : status;
    }
    gathering g;
    if (!gathering_new(call, twice_pays(call), &g)) return ls_conv_out_of_memory(why);
    ls_status status = ls_conv_run(call, &plain, &g.moments, g.memory, why);
    if (status != LS_OK) return status;
    use_moments(call, g.moments.mean, g.moments.m2);
    ls_operand mean = vector_of(g.moments.mean, y->dim[1]), var = vector_of(g.moments.m2, y->dim[1]);
    if (!g.moments.only) return norm_in_place(call, &mean, &var, why);
    ls_conv_finish finish = finish_by(call, &mean, &var);
    return ls_conv_run(call, &finish, NULL, g.memory, why);
}

/* in: x [N,C,H,W], w [O,C/g,KH,KW], b [O]?, weight [O]?, bias [O]?, mean [O]?, var [O]?, residual (as y)?
 * out: y [N,O,OH,OW], running_mean [O]?, running_var [O]?
 * y = conv2d(x, w, b), normalised as batch_norm does, + residual, then attrs.conv.activation, LS_ACT_RELU or
 * LS_ACT_NONE. attrs.conv: as in conv2d, without accumulate; and as in batch_norm. With attrs.conv.training the
 * statistics are those of the batch, mean and var are absent, and the running statistics move. Otherwise mean and var
 * are given, y is rounded once, and it is the only output. */
ls_status ls_cpu_conv2d_norm(const ls_call *call, ls_message *why)
{
    if (call->attrs.conv.training) return norm_by_batch(call, why);
    ls_conv_finish finish = finish_by(call, call->in[5], call->in[6]);
    return ls_conv_finished(call, &finish, why);
}
