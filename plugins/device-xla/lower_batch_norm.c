/* lower_batch_norm.c - batch normalisation of [N,C,...], optionally + residual and ReLU, its gradient, and the scaling
 * of pictures. */
#include "lower.h"

static double elements_per_channel(shlo_value x)
{
    return x.dims.at[1] ? (double)(shlo_numel(x.dims) / x.dims.at[1]) : 0;
}

/* ---- the mask of ReLU: a bit per element, in rows of whole 64-bit words ---- */

/* Rows are the channels of a pixel if they are adjacent in memory, else planes. */
static bool rows_are_pixels(const ls_operand *x)
{
    return x->ndim == 2 || (x->stride[1] == 1 && x->dim[1] > 1);
}

/* Dimensions in the order in which a mask has them, channels last; and back. */
static shlo_value channels_last(shlo *s, shlo_value x)
{
    int order[SHLO_MAX_DIMS] = {0};
    for (int i = 1; i < x.dims.n; i++) order[i] = i + 1 < x.dims.n ? i + 1 : 1;
    return shlo_transpose(s, x, order);
}

static shlo_value channels_second(shlo *s, shlo_value x)
{
    int order[SHLO_MAX_DIMS] = {0};
    for (int i = 1; i < x.dims.n; i++) order[i] = i == 1 ? x.dims.n - 1 : i - 1;
    return shlo_transpose(s, x, order);
}

/* The value of each bit of a byte, ui8 [1, 1, 8]. */
static shlo_value bit_values(shlo *s)
{
    shlo_dims dims = SHLO_DIMS(1, 1, 8);
    return shlo_binary(s, "shift_left", shlo_integer(s, SHLO_U8, 1, dims), shlo_iota(s, SHLO_U8, dims, 2));
}

static void write_mask(xla_lowering *l, int i, shlo_value positive, bool pixels)
{
    if (!xla_has_out(l->call, i)) return;
    shlo *s = &l->s;
    const ls_operand *mask = l->call->out[i];
    int64_t rows = mask->dim[0], bytes = mask->dim[1];
    if (!rows || !bytes) return;
    if (pixels) positive = channels_last(s, positive);
    int64_t length = shlo_numel(positive.dims) / rows;
    shlo_value bits = shlo_convert(s, shlo_reshape(s, positive, SHLO_DIMS(rows, length)), SHLO_U8);
    shlo_value zero = shlo_integer(s, SHLO_U8, 0, SHLO_SCALAR);
    bits = shlo_pad(s, bits, zero, SHLO_DIMS(0, 0), SHLO_DIMS(0, 8 * bytes - length), SHLO_DIMS(0, 0));
    bits = shlo_mul(s, shlo_reshape(s, bits, SHLO_DIMS(rows, bytes, 8)), bit_values(s));
    xla_out(l, i, shlo_sum(s, bits, xla_dim_mask(2)));
}

/* i1, of the dimensions of x */
static shlo_value read_mask(xla_lowering *l, int i, const ls_operand *x)
{
    shlo *s = &l->s;
    bool pixels = rows_are_pixels(x);
    shlo_dims dims = xla_dims(x);
    int64_t rows = l->call->in[i]->dim[0], bytes = l->call->in[i]->dim[1];
    int64_t length = rows ? shlo_numel(dims) / rows : 0;
    shlo_value word = shlo_reshape(s, xla_in_raw(l, i), SHLO_DIMS(rows, bytes, 1));
    shlo_value bits = shlo_binary(s, "and", word, bit_values(s));
    bits = shlo_compare(s, "NE", bits, shlo_integer(s, SHLO_U8, 0, SHLO_SCALAR));
    bits = shlo_reshape(s, bits, SHLO_DIMS(rows, 8 * bytes));
    bits = shlo_slice(s, bits, SHLO_DIMS(0, 0), SHLO_DIMS(rows, length), SHLO_DIMS(1, 1));
    if (!pixels) return shlo_reshape(s, bits, dims);
    shlo_dims last = dims;
    for (int d = 1; d < dims.n; d++) last.at[d] = d + 1 < dims.n ? dims.at[d + 1] : dims.at[1];
    return channels_second(s, shlo_reshape(s, bits, last));
}

/* ---- batch normalisation ---- */

/* What a call normalises by, [1, C, 1, ...]. */
typedef struct statistics {
    shlo_value mean, var; /* the variance of the batch itself, biased */
} statistics;

static statistics of_batch(shlo *s, shlo_value x)
{
    double n = elements_per_channel(x);
    shlo_value mean = shlo_with(s, "divide", shlo_sum(s, x, xla_dims_but_channels(x)), n);
    shlo_value away = shlo_sub(s, x, mean);
    return (statistics){mean,
                        shlo_with(s, "divide", shlo_sum(s, shlo_mul(s, away, away), xla_dims_but_channels(x)), n)};
}

static shlo_value rstd_of(shlo *s, shlo_value var, double epsilon)
{
    return shlo_rsqrt(s, shlo_with(s, "add", var, epsilon));
}

/* Move a running statistic, output i, towards that of the batch. */
static void move_running(xla_lowering *l, int i, shlo_value now, double momentum)
{
    if (!xla_has_out(l->call, i)) return;
    shlo *s = &l->s;
    shlo_value old = xla_old(l, i);
    shlo_value fresh = shlo_convert(s, shlo_reshape(s, now, old.dims), old.type);
    xla_out(l, i, shlo_add(s, shlo_with(s, "multiply", old, 1 - momentum), shlo_with(s, "multiply", fresh, momentum)));
}

xla_normed xla_norm_channels(xla_lowering *l, shlo_value x, const xla_batch_normed *how)
{
    shlo *s = &l->s;
    int in = how->first;
    statistics by;
    if (how->training) by = of_batch(s, x);
    else by = (statistics){xla_channels_in(l, in + 2, x), xla_channels_in(l, in + 3, x)};
    shlo_value rstd = rstd_of(s, by.var, how->epsilon), gain = rstd;
    if (xla_has_in(l->call, in)) gain = shlo_mul(s, rstd, xla_channels_in(l, in, x));
    shlo_value y = shlo_mul(s, shlo_sub(s, x, by.mean), gain);
    if (xla_has_in(l->call, in + 1)) y = shlo_add(s, y, xla_channels_in(l, in + 1, x));
    if (xla_has_in(l->call, in + 4)) y = shlo_add(s, y, xla_in_as(l, in + 4, y.type));
    if (how->training) {
        double n = elements_per_channel(x);
        move_running(l, how->running, by.mean, how->momentum);
        shlo_value unbiased = shlo_with(s, "multiply", by.var, n > 1 ? n / (n - 1) : n);
        move_running(l, how->running + 1, unbiased, how->momentum);
    }
    return (xla_normed){y, by.mean, rstd};
}

/* in: x, weight?, bias?, mean?, var?, residual?
 * out: y, save_mean?, save_rstd?, mask?, running_mean?, running_var? */
void xla_batch_norm(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    xla_batch_normed how = {1, 4, call->attrs.norm.epsilon, call->attrs.norm.momentum, call->attrs.norm.training};
    xla_normed done = xla_norm_channels(l, xla_in(l, 0), &how);
    xla_out(l, 0, xla_activate(s, call->attrs.norm.activation, done.y));
    write_mask(l, 3, shlo_compare_with(s, "GT", done.y, 0), rows_are_pixels(call->in[0]));
    if (!how.training) return;
    xla_out(l, 1, done.mean);
    xla_out(l, 2, done.rstd);
}

/* in: dy, x, mask?, mean, rstd (not in training: variance), weight?  out: dx?, dweight?, dbias?, dresidual? */
void xla_batch_norm_grad(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    bool training = call->attrs.norm.training;
    shlo_value d = xla_in(l, 0), x = xla_in(l, 1), mean = xla_channels_in(l, 3, x), rstd = xla_channels_in(l, 4, x);
    if (!training) rstd = rstd_of(s, rstd, call->attrs.norm.epsilon);
    if (xla_has_in(call, 2)) d = shlo_select(s, read_mask(l, 2, call->in[1]), d, shlo_number(s, d.type, 0, d.dims));
    shlo_value hat = shlo_mul(s, shlo_sub(s, x, mean), rstd), gain = rstd, inner = d;
    shlo_value dweight = shlo_sum(s, shlo_mul(s, d, hat), xla_dims_but_channels(x));
    shlo_value dbias = shlo_sum(s, d, xla_dims_but_channels(x));
    if (xla_has_in(call, 5)) gain = shlo_mul(s, rstd, xla_channels_in(l, 5, x));
    if (training) {
        double n = elements_per_channel(x);
        shlo_value along = shlo_mul(s, hat, shlo_with(s, "divide", dweight, n));
        inner = shlo_sub(s, shlo_sub(s, d, shlo_with(s, "divide", dbias, n)), along);
    }
    shlo_value dx = shlo_mul(s, inner, gain);
    xla_out(l, 0, dx);
    xla_out_sum(l, 1, dweight, call->attrs.norm.accumulate);
    xla_out_sum(l, 2, dbias, call->attrs.norm.accumulate);
    xla_out(l, 3, d);
}

/* ---- pictures ---- */

/* One number per channel, [1, C, 1, 1]. */
static shlo_value by_channel(shlo *s, shlo_value x, const double numbers[4])
{
    shlo_value parts[4];
    int channels = (int)x.dims.at[1];
    for (int c = 0; c < channels; c++) parts[c] = shlo_number(s, x.type, numbers[c], SHLO_DIMS(1, 1, 1, 1));
    return shlo_concat(s, parts, channels, 1);
}

/* in: x [N,C,H,W], floating or bytes, which count as x / 255  out: y = (x - mean) / std */
void xla_normalize(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    shlo_value x = xla_in_as(l, 0, call->in[0]->dtype == LS_F64 ? SHLO_F64 : SHLO_F32);
    if (call->in[0]->dtype == LS_U8) x = shlo_div(s, x, shlo_number(s, x.type, 255, SHLO_SCALAR));
    x = shlo_sub(s, x, by_channel(s, x, call->attrs.normalize.mean));
    xla_out(l, 0, shlo_div(s, x, by_channel(s, x, call->attrs.normalize.std)));
}
