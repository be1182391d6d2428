/* conv.c - convolution and its transpose. Activations become channels last; weights keep their layout. */
#include "ops/op.h"

/* Kernels use 32-bit counts. */
static bool in_range(int64_t value, int64_t least)
{
    return value >= least && value <= INT32_MAX;
}

/* The window of a convolution over a weight [.., .., KH, KW]; false, with an error, if it is invalid. */
static bool conv_window(ls_run *run, ls_opcode op, const ls_tensor *weight, const ls_conv2d_opts *geometry,
                        ls_window *window)
{
    *window = (ls_window){.groups = geometry->groups};
    bool ok = window->groups > 0;
    for (int i = 0; i < 2; i++) {
        window->kernel[i] = weight->view.dim[2 + i];
        window->stride[i] = ls_opts_integer(geometry->stride_hw[i], geometry->stride);
        window->padding[i] = ls_opts_integer(geometry->padding_hw[i], geometry->padding);
        window->dilation[i] = ls_opts_integer(geometry->dilation_hw[i], geometry->dilation);
        ok = ok && in_range(window->stride[i], 1) && in_range(window->padding[i], 0) &&
             in_range(window->dilation[i], 1) && window->kernel[i] > 0;
    }
    if (!ok)
        op_error(run, op, LS_ERR_VALUE,
                 "weight %s with stride %lldx%lld, padding %lldx%lld, dilation %lldx%lld, groups %lld", OP_TEXT(weight),
                 (long long)window->stride[0], (long long)window->stride[1], (long long)window->padding[0],
                 (long long)window->padding[1], (long long)window->dilation[0], (long long)window->dilation[1],
                 (long long)window->groups);
    return ok;
}

static bool four_dims(ls_run *run, ls_opcode op, const ls_tensor *x, const ls_tensor *weight, const ls_tensor *bias,
                      int64_t out)
{
    if (x->view.ndim != 4 || weight->view.ndim != 4)
        op_error(run, op, LS_ERR_SHAPE, "%s and weight %s must have four dimensions", OP_TEXT(x), OP_TEXT(weight));
    else if (bias && (bias->view.ndim != 1 || bias->view.dim[0] != out))
        op_error(run, op, LS_ERR_SHAPE, "bias %s for %lld channels", OP_TEXT(bias), (long long)out);
    else if (!ls_dtype_is_float(x->view.dtype) || !ls_dtype_is_float(weight->view.dtype))
        op_error(run, op, LS_ERR_DTYPE, "%s and weight %s: floating types are needed", OP_TEXT(x), OP_TEXT(weight));
    else if (x->view.dtype != weight->view.dtype && !run->autocast_count)
        op_error(run, op, LS_ERR_DTYPE, "%s and weight %s differ in type; cast one or use autocast", OP_TEXT(x),
                 OP_TEXT(weight));
    return !ls_failed(run);
}

/* ---- conv2d ---- */

/* The window of a convolution and the shape of its result; false, with an error, if it is invalid. */
static bool conv_plan(ls_run *run, ls_opcode op, const ls_tensor *x, const ls_tensor *weight, const ls_tensor *bias,
                      const ls_conv2d_opts *geometry, ls_attrs *attrs, ls_shape *shape)
{
    if (!four_dims(run, op, x, weight, bias, ls_dim(weight, 0))) return false;
    if (geometry->output_padding)
        op_error(run, op, LS_ERR_VALUE, "output padding %lld is only for transposed convolutions; leave it out",
                 (long long)geometry->output_padding);
    *attrs = (ls_attrs){.conv = {.compute = op_half_type(run, x->view.dtype)}};
    ls_window *window = &attrs->conv.window;
    if (ls_failed(run) || !conv_window(run, op, weight, geometry, window)) return false;
    int64_t channels = x->view.dim[1], outputs = weight->view.dim[0];
    if (weight->view.dim[1] * window->groups != channels || outputs % window->groups)
        op_error(run, op, LS_ERR_SHAPE, "%s and weight %s with groups %lld: channels %lld and %lld differ", OP_TEXT(x),
                 OP_TEXT(weight), (long long)window->groups, (long long)channels,
                 (long long)(weight->view.dim[1] * window->groups));
    *shape = LS_SHAPE(x->view.dim[0], outputs, 0, 0);
    for (int i = 0; i < 2 && !ls_failed(run); i++) {
        int64_t reach = window->dilation[i] * (window->kernel[i] - 1) + 1;
        int64_t room = x->view.dim[2 + i] + 2 * window->padding[i] - reach;
        if (room < 0) {
            op_error(run, op, LS_ERR_SHAPE, "%s is smaller than the window of weight %s", OP_TEXT(x), OP_TEXT(weight));
            return false;
        }
        /* A stride that leaves the image is shortened: the result is the same, and workspaces grow with the stride. */
        if (window->stride[i] > room) window->stride[i] = room + 1;
        shape->dim[2 + i] = room / window->stride[i] + 1;
    }
    return !ls_failed(run);
}

ls_tensor *ls_conv2d_moments(ls_tensor *x, ls_tensor *weight, ls_tensor *bias, const ls_conv2d_opts *geometry,
                             ls_tensor **moments)
{
    ls_run *run = op_begin(LS_OP_conv2d, 2, 3, (ls_tensor *[]){x, weight, bias});
    if (!run) return op_poison(x ? x : weight);
    ls_attrs attrs;
    ls_shape shape;
    if (!conv_plan(run, LS_OP_conv2d, x, weight, bias, geometry, &attrs, &shape)) return &run->poison;
    ls_dtype dtype = attrs.conv.compute;
    ls_tensor *in[3] = {op_as(x, dtype), weight, bias};
    if (ls_failed(run)) return &run->poison;
    op_multiplies(weight);
    op_multiplies(bias);
    ls_tensor *out[3] = {op_new_channels_last(x, dtype, shape)};
    for (int i = 0; moments && i < 2; i++) out[1 + i] = moments[i] = op_new(x, LS_F64, LS_SHAPE(shape.dim[1]));
    ls_node *node;
    if (!op_submit(LS_OP_conv2d, 3, in, moments ? 3 : 1, out, &attrs)) return &run->poison;
    if (!op_record(LS_OP_conv2d, 3, in, 1, out, &attrs, &node)) return &run->poison;
    if (node) {
        ls_save(node, ls_wants(node, 1) && !op_comes_again(in[0]) ? in[0] : NULL);
        ls_save(node, ls_wants(node, 0) ? weight : NULL);
    }
    return out[0];
}

ls_tensor *ls_conv2d_sized(ls_tensor *x, ls_tensor *weight, ls_tensor *bias, const ls_conv2d_opts *opts,
                           size_t opts_size)
{
    ls_conv2d_opts geometry = LS_OPTS_READ(ls_conv2d_opts, opts, opts_size);
    return ls_conv2d_moments(x, weight, bias, &geometry, NULL);
}

ls_tensor *ls_conv2d_norm(ls_tensor *x, ls_tensor *weight, ls_tensor *bias, const ls_conv2d_opts *geometry,
                          const ls_batch_norm_opts *norm)
{
    ls_opcode op = LS_OP_conv2d_norm;
    ls_tensor *in[8] = {
        x, weight, bias, norm->weight, norm->bias, norm->running_mean, norm->running_var, norm->residual};
    ls_run *run = op_begin(op, 2, 8, in);
    if (!run) return op_poison(x ? x : weight);
    ls_attrs attrs;
    ls_shape shape;
    if (!conv_plan(run, op, x, weight, bias, geometry, &attrs, &shape)) return &run->poison;
    for (int i = 3; i < 7; i++)
        if (in[i] && ls_view_numel(&in[i]->view) != shape.dim[1])
            return op_error(run, op, LS_ERR_SHAPE, "norm %s for weight %s: %lld elements are needed", OP_TEXT(in[i]),
                            OP_TEXT(weight), (long long)shape.dim[1]);
    if (in[7] && !ls_shape_equal(ls_view_shape(&in[7]->view), shape))
        return op_error(run, op, LS_ERR_SHAPE, "%s and residual %s", OP_SHAPE_TEXT(shape), OP_TEXT(in[7]));
    if (norm->training && !ls_batch_norm_can_train(run, op, shape)) return &run->poison;
    attrs.conv.epsilon = norm->epsilon;
    attrs.conv.momentum = norm->momentum;
    attrs.conv.training = norm->training;
    attrs.conv.activation = norm->activation;
    ls_dtype dtype = attrs.conv.compute;
    in[0] = op_as(x, dtype);
    in[7] = op_as(in[7], dtype);
    if (ls_failed(run)) return &run->poison;
    ls_tensor *out[3] = {op_new_channels_last(x, dtype, shape)};
    for (int i = 1; norm->training && i < 3; i++) {
        if (!ls_is_recomputing(run)) out[i] = in[4 + i]; /* else they include this batch already */
        in[4 + i] = NULL;
    }
    ls_node *none;
    if (!op_submit(op, 8, in, norm->training ? 3 : 1, out, &attrs)) return &run->poison;
    for (int i = 1; i < 3; i++)
        if (out[i]) ls_written(out[i]);
    return op_record(op, 8, in, 1, out, &attrs, &none) ? out[0] : &run->poison;
}

/* ---- conv1d ---- */

/* As a convolution of images of height 1. */
ls_tensor *ls_conv1d_sized(ls_tensor *x, ls_tensor *weight, ls_tensor *bias, const ls_conv1d_opts *given,
                           size_t opts_size)
{
    ls_conv1d_opts opts = LS_OPTS_READ(ls_conv1d_opts, given, opts_size);
    ls_run *run = op_begin(LS_OP_conv1d, 2, 3, (ls_tensor *[]){x, weight, bias});
    if (!run) return op_poison(x ? x : weight);
    if (x->view.ndim != 3 || weight->view.ndim != 3)
        return op_error(run, LS_OP_conv1d, LS_ERR_SHAPE, "%s and weight %s must have three dimensions", OP_TEXT(x),
                        OP_TEXT(weight));
    ls_conv2d_opts geometry = {.stride_hw = {1, opts.stride},
                               .padding_hw = {0, opts.padding},
                               .dilation_hw = {1, opts.dilation},
                               .groups = opts.groups};
    ls_tensor *y =
        ls_conv2d_sized(ls_unsqueeze(x, 2), ls_unsqueeze(weight, 2), bias, &geometry, LS_OPTS_SIZE(ls_conv2d_opts));
    return ls_failed(run) ? &run->poison : ls_squeeze(y, 2);
}

/* ---- gradients ---- */

/* Gradient of the input, if it is wanted, by the opposite operator. */
static void input_gradient(ls_node *node, ls_opcode op, ls_tensor *dy, ls_tensor *weight, ls_tensor **dx)
{
    if (!ls_wants(node, 0)) return;
    ls_attrs attrs = node->attrs;
    ls_tensor *out = ls_grad_target(node, 0, &attrs.conv.accumulate);
    if (!out) out = dx[0] = op_new_channels_last(dy, node->in[0].dtype, node->in[0].shape);
    op_submit(op, 2, (ls_tensor *[]){dy, weight}, 1, &out, &attrs);
}

/* Gradient of the weight, if it is wanted. The operands have their roles in a plain convolution. */
static void weight_gradient(ls_node *node, ls_tensor *dy, ls_tensor *x, ls_tensor **dx)
{
    ls_attrs attrs = node->attrs;
    ls_tensor *out = op_gradient(node, 1, dy, 0, &attrs.conv.accumulate, dx);
    if (out) op_submit(LS_OP_conv2d_dweight, 2, (ls_tensor *[]){dy, x}, 1, &out, &attrs);
}

BACK(conv2d)
{
    ls_tensor *x = node->saved[0], *weight = node->saved[1];
    input_gradient(node, LS_OP_conv2d_dinput, dy[0], weight, dx);
    if (!x && ls_wants(node, 1)) x = op_again(node, 0);
    if (x) weight_gradient(node, dy[0], x, dx);
    op_channel_gradient(node, 2, dy[0], dx);
}

/* ---- the transpose: forward is the gradient of a convolution for its input, and vice versa ---- */

ls_tensor *ls_conv_transpose2d_sized(ls_tensor *x, ls_tensor *weight, ls_tensor *bias, const ls_conv2d_opts *opts,
                                     size_t opts_size)
{
    ls_conv2d_opts geometry = LS_OPTS_READ(ls_conv2d_opts, opts, opts_size);
    ls_opcode op = LS_OP_conv_transpose2d;
    ls_run *run = op_begin(op, 2, 3, (ls_tensor *[]){x, weight, bias});
    if (!run) return op_poison(x ? x : weight);
    int64_t groups = geometry.groups, outputs = ls_dim(weight, 1) * groups;
    if (!four_dims(run, op, x, weight, bias, outputs)) return &run->poison;
    ls_attrs attrs = {.conv = {.compute = op_half_type(run, x->view.dtype)}};
    ls_window *window = &attrs.conv.window;
    if (!conv_window(run, op, weight, &geometry, window)) return &run->poison;
    if (weight->view.dim[0] != x->view.dim[1] || x->view.dim[1] % groups)
        return op_error(run, op, LS_ERR_SHAPE, "%s and weight %s with groups %lld: channels %lld and %lld differ",
                        OP_TEXT(x), OP_TEXT(weight), (long long)groups, (long long)x->view.dim[1],
                        (long long)weight->view.dim[0]);
    ls_shape shape = LS_SHAPE(x->view.dim[0], outputs, 0, 0);
    for (int i = 0; i < 2; i++) {
        if (geometry.output_padding < 0 ||
            (geometry.output_padding >= window->stride[i] && geometry.output_padding >= window->dilation[i]))
            return op_error(run, op, LS_ERR_VALUE, "output padding %lld must be smaller than stride or dilation",
                            (long long)geometry.output_padding);
        shape.dim[2 + i] = (x->view.dim[2 + i] - 1) * window->stride[i] - 2 * window->padding[i] +
                           window->dilation[i] * (window->kernel[i] - 1) + geometry.output_padding + 1;
        if (x->view.dim[2 + i] == 1 && window->stride[i] > geometry.output_padding)
            window->stride[i] = geometry.output_padding + 1; /* one pixel: the stride does not matter */
        if (shape.dim[2 + i] < 1)
            return op_error(run, op, LS_ERR_SHAPE, "%s and weight %s: the result is empty", OP_TEXT(x),
                            OP_TEXT(weight));
    }
    ls_dtype dtype = attrs.conv.compute;
    ls_tensor *in[3] = {op_as(x, dtype), weight, bias};
    if (ls_failed(run)) return &run->poison;
    op_multiplies(weight);
    op_multiplies(bias);
    ls_tensor *y = op_new_channels_last(x, dtype, shape);
    if (!op_submit(LS_OP_conv2d_dinput, 2, in, 1, &y, &attrs)) return &run->poison;
    if (bias) {
        ls_operand wide = bias->view; /* [O] as [1,O,1,1], repeated */
        wide.ndim = 4;
        for (int d = 0; d < 4; d++) {
            wide.dim[d] = shape.dim[d];
            wide.stride[d] = d == 1 ? bias->view.stride[0] : 0;
        }
        ls_tensor *same = bias;
        if (bias->view.dtype != dtype) {
            ls_no_grad_begin(run);
            same = ls_cast(bias, dtype);
            ls_no_grad_end(run);
            if (ls_failed(run)) return &run->poison;
            wide.dtype = dtype;
            wide.stride[1] = same->view.stride[0];
        }
        wide.data = same->view.data;
        ls_call call = {.op = LS_OP_add, .n_in = 2, .n_out = 1, .in = {&y->view, &wide}, .out = {&y->view}};
        if (!ls_submit(run, y->storage->device, &call)) return &run->poison;
    }
    ls_node *node;
    if (!op_record(op, 3, in, 1, &y, &attrs, &node)) return &run->poison;
    if (node) {
        ls_save(node, ls_wants(node, 1) ? in[0] : NULL);
        ls_save(node, ls_wants(node, 0) ? weight : NULL);
    }
    return y;
}

BACK(conv_transpose2d)
{
    ls_tensor *x = node->saved[0], *weight = node->saved[1];
    input_gradient(node, LS_OP_conv2d, dy[0], weight, dx);
    weight_gradient(node, x, dy[0], dx); /* roles of input and output swap */
    op_channel_gradient(node, 2, dy[0], dx);
}
