/* lower_conv.c - convolutions and their gradients, each as one convolution.
 *
 * Tensors are [N,C,H,W] and weights [O,C/g,KH,KW] whatever their order in memory, which transpositions express and the
 * compiler moves to where they cost least. Operands are rounded to the type that the call computes in; sums are f32, or
 * f64. */
#include "lower.h"

static shlo_type operand_type(const ls_call *call)
{
    ls_dtype asked = call->attrs.conv.compute;
    return xla_type_of(asked == LS_DTYPE_NONE ? call->in[0]->dtype : asked);
}

/* in: x, w, b?  y = the convolution, [N,O,OH,OW], before it is rounded */
static shlo_value convolve(xla_lowering *l, const ls_call *call)
{
    const ls_window *w = &call->attrs.conv.window;
    shlo_type type = operand_type(call);
    shlo_conv how = {.layout = "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]", .groups = w->groups, .batch_groups = 1};
    for (int i = 0; i < 2; i++) {
        how.stride[i] = w->stride[i];
        how.before[i] = how.after[i] = w->padding[i];
        how.spread[i] = 1;
        how.dilation[i] = w->dilation[i];
    }
    shlo_value y = shlo_convolve(&l->s, xla_in_as(l, 0, type), xla_in_as(l, 1, type), &how,
                                 (shlo_value){.type = xla_sum_type(type), .dims = xla_dims(call->out[0])});
    if (!xla_has_in(call, 2)) return y;
    shlo_value b = xla_in_as(l, 2, y.type);
    return shlo_add(&l->s, y, shlo_reshape(&l->s, b, SHLO_DIMS(b.dims.at[0], 1, 1)));
}

void xla_conv2d(xla_lowering *l, const ls_call *call)
{
    xla_out_sum(l, 0, convolve(l, call), call->attrs.conv.accumulate);
}

/* in: x, w, b?, weight?, bias?, mean?, var?, residual?  out: y, running_mean?, running_var?
 * By statistics of the batch y is rounded before it is normalised, as a batch norm of its own would see it. */
void xla_conv2d_norm(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    xla_batch_normed how = {3, 1, call->attrs.conv.epsilon, call->attrs.conv.momentum, call->attrs.conv.training};
    shlo_value y = convolve(l, call);
    if (how.training) y = shlo_convert(s, shlo_convert(s, y, xla_type_of(call->out[0]->dtype)), y.type);
    y = xla_norm_channels(l, y, &how).y;
    xla_out(l, 0, xla_activate(s, call->attrs.conv.activation, y));
}

/* in: dy [N,O,OH,OW], w [O,C/g,KH,KW]  out: dx [N,C,H,W]: dy with gaps of the stride, times the weights reversed */
void xla_conv2d_dinput(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    const ls_window *w = &call->attrs.conv.window;
    shlo_type type = operand_type(call);
    shlo_dims out = xla_dims(call->out[0]);
    shlo_value dy = xla_in_as(l, 0, type), weight = shlo_reverse(s, xla_in_as(l, 1, type), 1u << 2 | 1u << 3);
    shlo_conv how = {.layout = "[b, f, 0, 1]x[i, o, 0, 1]->[b, f, 0, 1]", .groups = w->groups, .batch_groups = 1};
    for (int i = 0; i < 2; i++) {
        int64_t reach = w->dilation[i] * (weight.dims.at[2 + i] - 1);
        how.stride[i] = 1;
        how.before[i] = reach - w->padding[i];
        how.after[i] = out.at[2 + i] - 1 - (dy.dims.at[2 + i] - 1) * w->stride[i] + w->padding[i];
        how.spread[i] = w->stride[i];
        how.dilation[i] = w->dilation[i];
    }
    if (w->groups > 1) { /* [g, O/g, C/g, ...] to [O/g, g C/g, ...] */
        int64_t g = w->groups, o = weight.dims.at[0] / g, c = weight.dims.at[1];
        int64_t kh = weight.dims.at[2], kw = weight.dims.at[3];
        weight = shlo_transpose(s, shlo_reshape(s, weight, SHLO_DIMS(g, o, c, kh, kw)), (int[]){1, 0, 2, 3, 4});
        weight = shlo_reshape(s, weight, SHLO_DIMS(o, g * c, kh, kw));
    }
    shlo_value dx = shlo_convolve(s, dy, weight, &how, (shlo_value){.type = xla_sum_type(type), .dims = out});
    xla_out_sum(l, 0, dx, call->attrs.conv.accumulate);
}

/* in: dy [N,O,OH,OW], x [N,C,H,W]  out: dw [O,C/g,KH,KW]: x times dy, with images in the place of channels */
void xla_conv2d_dweight(xla_lowering *l, const ls_call *call)
{
    const ls_window *w = &call->attrs.conv.window;
    shlo_type type = operand_type(call);
    shlo_dims out = xla_dims(call->out[0]);
    shlo_value dy = xla_in_as(l, 0, type), x = xla_in_as(l, 1, type);
    shlo_conv how = {.layout = "[f, b, 0, 1]x[i, o, 0, 1]->[f, b, 0, 1]", .groups = 1, .batch_groups = w->groups};
    for (int i = 0; i < 2; i++) {
        int64_t reach = w->dilation[i] * (out.at[2 + i] - 1);
        how.stride[i] = w->dilation[i];
        how.before[i] = w->padding[i];
        how.after[i] = reach + w->stride[i] * (dy.dims.at[2 + i] - 1) + 1 - x.dims.at[2 + i] - w->padding[i];
        how.spread[i] = 1;
        how.dilation[i] = w->stride[i];
    }
    shlo_value dw = shlo_convolve(&l->s, x, dy, &how, (shlo_value){.type = xla_sum_type(type), .dims = out});
    xla_out_sum(l, 0, dw, call->attrs.conv.accumulate);
}
