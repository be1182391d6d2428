/* product.c - matrix products: matmul, linear. Weights are passed in their own type, whatever type is computed in: the
 * device converts and packs them once per change. */
#include "ops/op.h"

/* c = a b in the given type; shapes have been checked, c is allocated. accumulate: c += a b. */
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
    if (a->view.ndim == 1) { /* a row vector; the row is removed afterwards */
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
        return op_error(run, LS_OP_matmul, LS_ERR_DTYPE, "%s x %s: floating types are needed", OP_TEXT(a), OP_TEXT(b));
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

/* a b with broadcast batch dimensions, in their type, without autocast. */
static ls_tensor *product_of(ls_tensor *a, ls_tensor *b)
{
    ls_autocast_begin(a->run, LS_F32);
    ls_tensor *y = ls_matmul(a, b);
    ls_autocast_end(a->run);
    return y;
}

/* The gradient of an input is a b: summed by the walk if the input was broadcast, else written to its destination. */
static void factor_gradient(ls_node *node, int input, ls_tensor *a, ls_tensor *b, ls_tensor **dx)
{
    if (ls_failed(a->run)) return;
    const ls_shape *shape = &node->in[input].shape;
    bool whole = a->view.ndim == shape->ndim && b->view.ndim == shape->ndim;
    for (int d = 0; whole && d < shape->ndim - 2; d++)
        whole = a->view.dim[d] == shape->dim[d] && b->view.dim[d] == shape->dim[d];
    if (!whole) {
        dx[input] = product_of(a, b);
        return;
    }
    int32_t accumulate = 0;
    ls_tensor *out = op_gradient(node, input, a, 0, &accumulate, dx);
    multiply(a, b, out, a->view.dtype, accumulate);
}

BACK(matmul)
{
    if (ls_wants(node, 0)) factor_gradient(node, 0, dy[0], ls_transpose(node->saved[1], -1, -2), dx);
    if (ls_wants(node, 1)) factor_gradient(node, 1, ls_transpose(node->saved[0], -1, -2), dy[0], dx);
}

/* ---- linear ---- */

bool op_linear_fits(ls_opcode op, ls_tensor *x, ls_tensor *weight, ls_tensor *bias)
{
    ls_run *run = x->run;
    ls_dtype type = x->view.dtype, of_weight = weight->view.dtype;
    if (x->view.ndim < 1 || weight->view.ndim != 2 || ls_dim(x, -1) != weight->view.dim[1])
        op_error(run, op, LS_ERR_SHAPE, "%s and weight %s: %lld inputs, but the weight has %lld", OP_TEXT(x),
                 OP_TEXT(weight), (long long)ls_dim(x, -1), (long long)ls_dim(weight, 1));
    else if (bias && (bias->view.ndim != 1 || bias->view.dim[0] != weight->view.dim[0]))
        op_error(run, op, LS_ERR_SHAPE, "weight %s and bias %s", OP_TEXT(weight), OP_TEXT(bias));
    else if (!ls_dtype_is_float(type) || !ls_dtype_is_float(of_weight))
        op_error(run, op, LS_ERR_DTYPE, "%s and weight %s: floating types are needed", OP_TEXT(x), OP_TEXT(weight));
    else if (type != of_weight && op_half_type(run, type) == type && !run->autocast_count)
        op_error(run, op, LS_ERR_DTYPE, "%s and weight %s differ in type; cast one or use autocast", OP_TEXT(x),
                 OP_TEXT(weight));
    else return true;
    return false;
}

ls_tensor *op_linear(ls_tensor *x, ls_tensor *weight, ls_tensor *bias, ls_activation activation, ls_tensor **pre)
{
    ls_dtype dtype = x->view.dtype;
    ls_shape shape = ls_view_shape(&x->view);
    shape.dim[shape.ndim - 1] = weight->view.dim[0];
    op_multiplies(weight);
    op_multiplies(bias);
    ls_tensor *out[2] = {op_new(x, dtype, shape), pre ? op_new(x, dtype, shape) : NULL};
    ls_attrs attrs = {.product = {.activation = activation, .compute = dtype}};
    if (!op_submit(LS_OP_linear, 3, (ls_tensor *[]){x, weight, bias}, 2, out, &attrs)) return &x->run->poison;
    if (pre) *pre = out[1];
    return out[0];
}

ls_tensor *ls_linear(ls_tensor *x, ls_tensor *weight, ls_tensor *bias, ls_activation activation)
{
    ls_run *run = op_begin(LS_OP_linear, 2, 3, (ls_tensor *[]){x, weight, bias});
    if (!run) return op_poison(x ? x : weight);
    if (!op_linear_fits(LS_OP_linear, x, weight, bias)) return &run->poison;
    ls_tensor *in[3] = {op_as(x, op_half_type(run, x->view.dtype)), weight, bias}, *pre = NULL;
    if (ls_failed(run)) return &run->poison;
    bool keep_pre = op_slope_needs_input(activation) && ls_must_record(run, 3, in);
    ls_tensor *y = op_linear(in[0], weight, bias, activation, keep_pre ? &pre : NULL);
    ls_attrs attrs = {.product = {.activation = activation, .compute = in[0]->view.dtype}};
    ls_node *node = NULL;
    if (ls_failed(run) || !op_record(LS_OP_linear, 3, in, 1, &y, &attrs, &node)) return &run->poison;
    if (node) {
        ls_save(node, ls_wants(node, 1) ? in[0] : NULL);
        ls_save(node, ls_wants(node, 0) ? weight : NULL);
        ls_save(node, keep_pre ? pre : activation != LS_ACT_NONE ? y : NULL);
    }
    return y;
}

static ls_shape shape_of_rows(const ls_tensor *x)
{
    int64_t rows = 1;
    for (int d = 0; d < x->view.ndim - 1; d++) rows *= x->view.dim[d];
    return LS_SHAPE(rows, ls_dim(x, -1));
}

ls_tensor *op_rows(ls_tensor *x)
{
    return x ? ls_reshape_shape(x, shape_of_rows(x)) : NULL;
}

ls_tensor *op_rows_for(ls_tensor *to, bool holds)
{
    int64_t stride[LS_MAX_DIMS];
    if (!to || holds || ls_view_contiguous(&to->view) || !ls_view_numel(&to->view)) return op_rows(to);
    ls_shape shape = shape_of_rows(to);
    return op_reshape_strides(&to->view, shape, stride) ? op_rows(to) : op_new(to, to->view.dtype, shape);
}

ls_tensor *op_dense_rows(ls_tensor *x)
{
    ls_tensor *rows = op_rows(x);
    return !rows || rows->life != LS_LIFE_LIVE || rows->view.stride[1] == 1 ? rows : ls_contiguous(rows);
}

void op_rows_written(ls_tensor *to, ls_tensor *rows)
{
    if (to && rows->storage != to->storage) ls_raw_copy(to, ls_reshape_shape(rows, ls_view_shape(&to->view)));
}

/* The gradient operator of an activation, and its attributes. */
static ls_opcode slope_of(ls_activation activation, ls_attrs *attrs)
{
    attrs->gelu.tanh = activation == LS_ACT_GELU_TANH;
    switch (activation) {
    case LS_ACT_GELU:
    case LS_ACT_GELU_TANH: return LS_OP_gelu_grad;
    case LS_ACT_SILU: return LS_OP_silu_grad;
    case LS_ACT_TANH: return LS_OP_tanh_grad;
    case LS_ACT_SIGMOID: return LS_OP_sigmoid_grad;
    default: return LS_OP_relu_grad;
    }
}

/* linear_grad for a device that lacks it: the gradient of the activation, then two products and a sum. */
static bool linear_grad_composed(ls_tensor *const *in, ls_tensor *const *out, const ls_attrs *attrs)
{
    ls_tensor *d = in[0];
    ls_activation activation = attrs->product.activation;
    int32_t accumulate = attrs->product.accumulate;
    ls_dtype compute = attrs->product.compute;
    if (out[3]) {
        ls_attrs slope = {0};
        ls_opcode op = slope_of(activation, &slope), again = activation == LS_ACT_SILU ? LS_OP_silu : LS_OP_gelu;
        d = out[3];
        if (!op_submit(op, 2, (ls_tensor *[]){in[0], in[3]}, 1, &d, &slope)) return false;
        if (out[4] && !op_submit(again, 1, &in[3], 1, &out[4], &slope)) return false;
    }
    if (out[0] && !multiply(d, in[2], out[0], compute, accumulate & 1)) return false;
    if (out[1] && !multiply(ls_transpose(d, 0, 1), in[1], out[1], compute, accumulate >> 1 & 1)) return false;
    if (!out[2]) return true;
    ls_attrs sum = {.reduce = {.mask = 1, .accumulate = accumulate >> 2 & 1}};
    ls_tensor *db = ls_reshape(out[2], 1, -1);
    return !ls_failed(d->run) && op_submit(LS_OP_sum, 1, &d, 1, &db, &sum);
}

bool op_linear_grad(ls_tensor *const in[4], ls_tensor *const out[5], const ls_attrs *attrs)
{
    return ls_device_supports(in[0]->storage->device, LS_OP_linear_grad)
               ? op_submit(LS_OP_linear_grad, 4, in, 5, out, attrs)
               : linear_grad_composed(in, out, attrs);
}

BACK(linear)
{
    ls_attrs attrs = node->attrs;
    int32_t *accumulate = &attrs.product.accumulate;
    ls_tensor *in[4] = {op_dense_rows(dy[0]), op_dense_rows(node->saved[0]), node->saved[1], op_rows(node->saved[2])};
    ls_tensor *to = op_gradient(node, 0, dy[0], 0, accumulate, dx), *out[5] = {op_rows_for(to, *accumulate & 1)};
    for (int i = 1; i < 3; i++) out[i] = op_gradient(node, i, dy[0], i, accumulate, dx);
    if (ls_failed(dy[0]->run)) return;
    if (in[3]) out[3] = ls_tensor_new_like(in[0], in[0]->view.dtype);
    if (op_linear_grad(in, out, &attrs)) op_rows_written(to, out[0]);
}
