/* product.c - matrix products: matmul, linear. Weights are used as they are, whatever type is computed in: the device
 * converts and packs them once per change. */
#include "ops/op.h"

/* c = a b in the given type; shapes fit, c exists. accumulate: c += a b. */
static bool multiply(ls_tensor *a, ls_tensor *b, ls_tensor *c, ls_dtype compute, int32_t accumulate)
{
    ls_attrs attrs = {.product = {.accumulate = accumulate, .compute = compute}};
    return op_submit(LS_OP_matmul, 2, (ls_tensor *[]){a, b}, 1, &c, &attrs);
}

/* ---- matmul ---- */

ls_tensor *ls_matmul(ls_tensor *a, ls_tensor *b)
{
    ls_run *run = op_begin(LS_OP_matmul, 2, 2, (ls_tensor *[]){a, b});
    if (!run) return op_poison(a ? a : b);
    if (a->view.ndim == 0 || b->view.ndim == 0)
        return op_error(run, LS_OP_matmul, LS_ERR_SHAPE, "%s x %s: a scalar has no matrix product", OP_TEXT(a),
                        OP_TEXT(b));
    if (a->view.ndim == 1) { /* a row vector; the row goes again */
        ls_tensor *y = ls_matmul(ls_unsqueeze(a, 0), b);
        return ls_failed(run) ? y : ls_squeeze(y, b->view.ndim == 1 ? 0 : -2);
    }
    if (b->view.ndim == 1) {
        ls_tensor *y = ls_matmul(a, ls_unsqueeze(b, 1));
        return ls_failed(run) ? y : ls_squeeze(y, -1);
    }
    int64_t m = ls_dim(a, -2), k = ls_dim(a, -1), n = ls_dim(b, -1);
    if (k != ls_dim(b, -2))
        return op_error(run, LS_OP_matmul, LS_ERR_SHAPE, "%s x %s: inner sizes %lld and %lld differ", OP_TEXT(a),
                        OP_TEXT(b), (long long)k, (long long)ls_dim(b, -2));
    ls_dtype dtype = ls_dtype_promote(a->view.dtype, b->view.dtype);
    if (!ls_dtype_is_float(dtype))
        return op_error(run, LS_OP_matmul, LS_ERR_DTYPE, "%s x %s: only floating types are multiplied", OP_TEXT(a),
                        OP_TEXT(b));
    dtype = op_half_type(run, dtype);
    ls_tensor *in[2] = {op_as(a, dtype), op_as(b, dtype)};
    if (ls_failed(run)) return &run->poison;

    ls_shape batch_a = ls_view_shape(&a->view), batch_b = ls_view_shape(&b->view), shape;
    batch_a.ndim -= 2;
    batch_b.ndim -= 2;
    if (!op_broadcast(batch_a, batch_b, &shape))
        return op_error(run, LS_OP_matmul, LS_ERR_SHAPE, "%s x %s: batch sizes do not broadcast", OP_TEXT(a),
                        OP_TEXT(b));
    int d = shape.ndim;
    shape.ndim += 2;
    ls_shape wide_a = shape, wide_b = shape;
    wide_a.dim[d] = m, wide_a.dim[d + 1] = k;
    wide_b.dim[d] = k, wide_b.dim[d + 1] = n;
    shape.dim[d] = m, shape.dim[d + 1] = n;
    ls_tensor *y = op_new(a, dtype, shape);
    if (y->life != LS_LIFE_LIVE) return y;
    ls_node *node;
    if (!multiply(op_expanded(in[0], wide_a), op_expanded(in[1], wide_b), y, dtype, 0) ||
        !op_record(LS_OP_matmul, 2, in, 1, &y, NULL, &node))
        return &run->poison;
    if (node) {
        ls_save(node, ls_wants(node, 1) ? in[0] : NULL);
        ls_save(node, ls_wants(node, 0) ? in[1] : NULL);
    }
    return y;
}

/* op of two tensors whose batch dimensions broadcast, in dy's type, without autocast. */
static ls_tensor *product_of(ls_tensor *a, ls_tensor *b)
{
    ls_autocast_begin(a->run, LS_F32);
    ls_tensor *y = ls_matmul(a, b);
    ls_autocast_end(a->run);
    return y;
}

BACK(matmul)
{
    if (ls_wants(node, 0)) dx[0] = product_of(dy[0], ls_transpose(node->saved[1], -1, -2));
    if (ls_wants(node, 1)) dx[1] = product_of(ls_transpose(node->saved[0], -1, -2), dy[0]);
}

/* ---- linear ---- */

ls_tensor *ls_linear(ls_tensor *x, ls_tensor *weight, ls_tensor *bias, ls_activation activation)
{
    ls_run *run = op_begin(LS_OP_linear, 2, 3, (ls_tensor *[]){x, weight, bias});
    if (!run) return op_poison(x ? x : weight);
    if (x->view.ndim < 1 || weight->view.ndim != 2 || ls_dim(x, -1) != weight->view.dim[1])
        return op_error(run, LS_OP_linear, LS_ERR_SHAPE, "%s and weight %s: %lld inputs where the weight has %lld",
                        OP_TEXT(x), OP_TEXT(weight), (long long)ls_dim(x, -1), (long long)ls_dim(weight, 1));
    if (bias && (bias->view.ndim != 1 || bias->view.dim[0] != weight->view.dim[0]))
        return op_error(run, LS_OP_linear, LS_ERR_SHAPE, "weight %s and bias %s", OP_TEXT(weight), OP_TEXT(bias));
    if (!ls_dtype_is_float(x->view.dtype) || !ls_dtype_is_float(weight->view.dtype))
        return op_error(run, LS_OP_linear, LS_ERR_DTYPE, "%s and weight %s: floating types are needed", OP_TEXT(x),
                        OP_TEXT(weight));
    ls_dtype dtype = op_half_type(run, x->view.dtype);
    if (dtype == x->view.dtype && dtype != weight->view.dtype && !run->autocast_count)
        return op_error(run, LS_OP_linear, LS_ERR_DTYPE, "%s and weight %s differ in type; cast one or use autocast",
                        OP_TEXT(x), OP_TEXT(weight));
    ls_tensor *in[3] = {op_as(x, dtype), weight, bias};
    if (ls_failed(run)) return &run->poison;
    ls_shape shape = ls_view_shape(&x->view);
    shape.dim[shape.ndim - 1] = weight->view.dim[0];

    bool record = ls_must_record(run, 3, in);
    bool keep_pre =
        record && (activation == LS_ACT_GELU || activation == LS_ACT_GELU_TANH || activation == LS_ACT_SILU);
    ls_tensor *y = op_new(x, dtype, shape), *pre = keep_pre ? op_new(x, dtype, shape) : NULL;
    ls_attrs attrs = {.product = {.activation = activation, .compute = dtype}};
    ls_node *node = NULL;
    if (!op_submit(LS_OP_linear, 3, in, 2, (ls_tensor *[]){y, pre}, &attrs)) return &run->poison;
    if (!op_record(LS_OP_linear, 3, in, 1, &y, &attrs, &node)) return &run->poison;
    if (node) {
        ls_save(node, ls_wants(node, 1) ? in[0] : NULL);
        ls_save(node, ls_wants(node, 0) ? weight : NULL);
        ls_save(node, keep_pre ? pre : activation != LS_ACT_NONE ? y : NULL);
    }
    return y;
}

/* dy before the activation. */
static ls_tensor *before_activation(ls_activation activation, ls_tensor *dy, ls_tensor *saved)
{
    switch (activation) {
    case LS_ACT_NONE: return dy;
    case LS_ACT_RELU: return op_activation_grad(LS_OP_relu_grad, dy, saved, NULL);
    case LS_ACT_GELU: return op_activation_grad(LS_OP_gelu_grad, dy, saved, &(ls_attrs){.gelu = {0}});
    case LS_ACT_GELU_TANH: return op_activation_grad(LS_OP_gelu_grad, dy, saved, &(ls_attrs){.gelu = {1}});
    case LS_ACT_SILU: return op_activation_grad(LS_OP_silu_grad, dy, saved, NULL);
    case LS_ACT_TANH: return op_activation_grad(LS_OP_tanh_grad, dy, saved, NULL);
    case LS_ACT_SIGMOID: return op_activation_grad(LS_OP_sigmoid_grad, dy, saved, NULL);
    }
    return dy;
}

BACK(linear)
{
    ls_tensor *x = node->saved[0], *weight = node->saved[1], *d = dy[0];
    ls_run *run = d->run;
    ls_dtype compute = node->attrs.product.compute;
    d = before_activation(node->attrs.product.activation, d, node->saved[2]);
    int64_t n = ls_dim(d, -1);
    d = ls_reshape(ls_contiguous(d), -1, n); /* [M,N] */
    if (ls_failed(run)) return;
    if (ls_wants(node, 0)) {
        ls_shape flat = LS_SHAPE(ls_dim(d, 0), weight->view.dim[1]);
        ls_tensor *out = op_new(d, node->in[0].dtype, flat);
        if (out->life != LS_LIFE_LIVE || !multiply(d, weight, out, compute, 0)) return;
        dx[0] = ls_reshape_shape(out, node->in[0].shape);
    }
    if (ls_wants(node, 1)) { /* dW = d^T x, straight into the gradient's memory where there is one */
        int32_t accumulate = 0;
        ls_tensor *target = ls_grad_target(node, 1, &accumulate);
        ls_tensor *out = target ? target : op_new(d, node->in[1].dtype, node->in[1].shape);
        ls_tensor *rows = ls_reshape(x, -1, ls_dim(x, -1));
        if (ls_failed(run) || !multiply(ls_transpose(d, 0, 1), rows, out, compute, accumulate)) return;
        if (!target) dx[1] = out;
    }
    if (ls_wants(node, 2)) { /* summed in the bias' own type: no rounding to half in between */
        ls_tensor *out = op_new(d, node->in[2].dtype, LS_SHAPE(1, n));
        if (!op_submit(LS_OP_sum, 1, &d, 1, &out, &(ls_attrs){.reduce = {.mask = 1}})) return;
        dx[2] = ls_reshape(out, n);
    }
}
