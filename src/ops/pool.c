/* pool.c - pooling and resizing of images. Results are laid out like their input. */
#include "ops/op.h"

static bool is_image(ls_run *run, ls_opcode op, const ls_tensor *x)
{
    if (x->view.ndim != 4) op_error(run, op, LS_ERR_SHAPE, "%s is not [N,C,H,W]", OP_TEXT(x));
    else if (!ls_dtype_is_float(x->view.dtype))
        op_error(run, op, LS_ERR_DTYPE, "%s: a floating type is needed", OP_TEXT(x));
    return !ls_failed(run);
}

/* A new [N,C,H,W], channels last if x is (or can be read so). */
static ls_tensor *image_like(ls_tensor *x, ls_dtype dtype, ls_shape shape)
{
    bool last = x->view.stride[1] == 1 && x->view.dim[1] > 1;
    return last ? op_new_channels_last(x, dtype, shape) : op_new(x, dtype, shape);
}

/* The window and the size of the result; false, with an error, if they are invalid. */
static bool pool_window(ls_run *run, ls_opcode op, const ls_tensor *x, int64_t square, const ls_pool2d_opts *geometry,
                        ls_window *window, ls_shape *shape)
{
    *window = (ls_window){.groups = 1};
    *shape = ls_view_shape(&x->view);
    for (int i = 0; i < 2; i++) {
        int64_t kernel = window->kernel[i] = ls_opts_integer(geometry->kernel_hw[i], square);
        int64_t stride = window->stride[i] =
            ls_opts_integer(geometry->stride_hw[i], ls_opts_integer(geometry->stride, kernel));
        int64_t padding = window->padding[i] = ls_opts_integer(geometry->padding_hw[i], geometry->padding);
        int64_t dilation = window->dilation[i] = geometry->dilation;
        int64_t size = x->view.dim[2 + i];
        bool ok = kernel > 0 && kernel <= INT32_MAX && stride > 0 && stride <= INT32_MAX && padding >= 0 &&
                  padding <= kernel / 2 && dilation > 0 && dilation <= INT32_MAX &&
                  size + 2 * padding > dilation * (kernel - 1);
        if (!ok) {
            op_error(run, op, LS_ERR_VALUE, "window %lld, stride %lld, padding %lld, dilation %lld on %s",
                     (long long)kernel, (long long)stride, (long long)padding, (long long)dilation, OP_TEXT(x));
            return false;
        }
        int64_t room = size + 2 * padding - dilation * (kernel - 1) - 1;
        int64_t count = (geometry->ceil_mode ? room + stride - 1 : room) / stride + 1;
        if (geometry->ceil_mode && (count - 1) * stride >= size + padding) count--; /* it must begin inside */
        shape->dim[2 + i] = count;
    }
    return true;
}

ls_tensor *ls_max_pool2d_sized(ls_tensor *x, int64_t kernel, const ls_pool2d_opts *opts, size_t opts_size)
{
    ls_pool2d_opts geometry = LS_OPTS_READ(ls_pool2d_opts, opts, opts_size);
    ls_run *run = op_begin(LS_OP_max_pool2d, 1, 1, &x);
    if (!run) return op_poison(x);
    if (!geometry.count_include_pad)
        return op_error(run, LS_OP_max_pool2d, LS_ERR_VALUE,
                        "count_include_pad is only for mean pooling; leave it out");
    ls_attrs attrs = {.pool = {.count_include_pad = 1}};
    ls_shape shape;
    if (!is_image(run, LS_OP_max_pool2d, x) ||
        !pool_window(run, LS_OP_max_pool2d, x, kernel, &geometry, &attrs.pool.window, &shape))
        return &run->poison;
    bool record = ls_must_record(run, 1, &x);
    ls_tensor *out[2] = {image_like(x, x->view.dtype, shape), record ? image_like(x, LS_I32, shape) : NULL};
    ls_node *node;
    if (!op_run(LS_OP_max_pool2d, 1, &x, 2, out, &attrs, &node)) return &run->poison;
    ls_save(node, out[1]);
    if (node) node->extra[0] = x->view.stride[1] == 1;
    return out[0];
}

static ls_tensor *pool_gradient(ls_node *node, ls_opcode op, int n_in, ls_tensor *const *in)
{
    ls_tensor *out = image_like(in[0], node->in[0].dtype, node->in[0].shape);
    return op_submit(op, n_in, in, 1, &out, &node->attrs) ? out : NULL;
}

BACK(max_pool2d)
{
    dx[0] = pool_gradient(node, LS_OP_max_pool2d_grad, 2, (ls_tensor *[]){dy[0], node->saved[0]});
}

static ls_tensor *avg_pool2d(ls_tensor *x, int64_t kernel, ls_pool2d_opts geometry, bool again)
{
    ls_run *run = op_begin(LS_OP_avg_pool2d, 1, 1, &x);
    if (!run) return op_poison(x);
    ls_attrs attrs = {.pool = {.count_include_pad = geometry.count_include_pad}};
    ls_shape shape;
    if (!is_image(run, LS_OP_avg_pool2d, x) ||
        !pool_window(run, LS_OP_avg_pool2d, x, kernel, &geometry, &attrs.pool.window, &shape))
        return &run->poison;
    if (attrs.pool.window.dilation[0] != 1)
        return op_error(run, LS_OP_avg_pool2d, LS_ERR_VALUE, "mean pooling has no dilation");
    ls_tensor *y = image_like(x, x->view.dtype, shape);
    ls_node *node;
    if (!op_run(LS_OP_avg_pool2d, 1, &x, 1, &y, &attrs, &node)) return &run->poison;
    if (again && x->storage->refs > 1) ls_save(node, x); /* else nobody keeps it, and it is larger than y */
    return y;
}

ls_tensor *ls_avg_pool2d_sized(ls_tensor *x, int64_t kernel, const ls_pool2d_opts *opts, size_t opts_size)
{
    return avg_pool2d(x, kernel, LS_OPTS_READ(ls_pool2d_opts, opts, opts_size), false);
}

BACK(avg_pool2d)
{
    dx[0] = pool_gradient(node, LS_OP_avg_pool2d_grad, 1, dy);
}

/* ---- mean pooling that is made again ---- */

ls_tensor *ls_avg_pool2d_again(ls_tensor *x, int64_t kernel, const ls_pool2d_opts *opts, size_t opts_size)
{
    return avg_pool2d(x, kernel, LS_OPTS_READ(ls_pool2d_opts, opts, opts_size), true);
}

bool op_comes_again(const ls_tensor *t)
{
    const ls_node *pool = t->node;
    bool is_pooled = pool && pool->op && pool->op->code == LS_OP_avg_pool2d;
    return is_pooled && pool->n_saved && !pool->replay && t->storage->version == 0;
}

ls_tensor *op_again(const ls_node *node, int input)
{
    const ls_edge *edge = &node->in[input];
    const ls_node *pool = edge->node;
    if (!pool || !pool->n_saved) return NULL;
    ls_tensor *x = pool->saved[0], *y = image_like(x, edge->dtype, edge->shape);
    return op_submit(LS_OP_avg_pool2d, 1, &x, 1, &y, &pool->attrs) ? y : NULL;
}

/* ---- pooling to a size, and resizing ---- */

ls_tensor *ls_adaptive_avg_pool2d(ls_tensor *x, int64_t height, int64_t width)
{
    ls_opcode op = LS_OP_adaptive_avg_pool2d;
    ls_run *run = op_begin(op, 1, 1, &x);
    if (!run || !is_image(run, op, x)) return op_poison(x);
    if (height < 1 || width < 1 || x->view.dim[2] < 1 || x->view.dim[3] < 1)
        return op_error(run, op, LS_ERR_VALUE, "%s to %lldx%lld", OP_TEXT(x), (long long)height, (long long)width);
    ls_tensor *y = image_like(x, x->view.dtype, LS_SHAPE(x->view.dim[0], x->view.dim[1], height, width));
    ls_node *node;
    return op_run(op, 1, &x, 1, &y, NULL, &node) ? y : &run->poison;
}

BACK(adaptive_avg_pool2d)
{
    dx[0] = pool_gradient(node, LS_OP_adaptive_avg_pool2d_grad, 1, dy);
}

ls_tensor *ls_interpolate(ls_tensor *x, int64_t height, int64_t width, ls_interpolation method)
{
    ls_opcode op = LS_OP_interpolate;
    ls_run *run = op_begin(op, 1, 1, &x);
    if (!run || !is_image(run, op, x)) return op_poison(x);
    if (height < 1 || width < 1 || x->view.dim[2] < 1 || x->view.dim[3] < 1)
        return op_error(run, op, LS_ERR_VALUE, "%s to %lldx%lld", OP_TEXT(x), (long long)height, (long long)width);
    ls_attrs attrs = {.interpolate = {.bilinear = method != LS_INTERPOLATE_NEAREST,
                                      .align_corners = method == LS_INTERPOLATE_BILINEAR_CORNERS}};
    int64_t size[2] = {height, width};
    for (int i = 0; i < 2; i++) {
        double in = (double)x->view.dim[2 + i], out = (double)size[i];
        attrs.interpolate.scale[i] = attrs.interpolate.align_corners ? (out > 1 ? (in - 1) / (out - 1) : 0) : in / out;
    }
    ls_tensor *y = image_like(x, x->view.dtype, LS_SHAPE(x->view.dim[0], x->view.dim[1], height, width));
    ls_node *node;
    return op_run(op, 1, &x, 1, &y, &attrs, &node) ? y : &run->poison;
}

BACK(interpolate)
{
    dx[0] = pool_gradient(node, LS_OP_interpolate_grad, 1, dy);
}
