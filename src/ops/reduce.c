/* reduce.c - reductions: sums, extremes, variance, norm, positions; and sorting. */
#include "ops/op.h"

/* y without the reduced dimensions (unless they are kept): a view, with history. */
static ls_tensor *dropped(ls_tensor *y, uint32_t mask, bool keep)
{
    if (keep || y->life != LS_LIFE_LIVE || !mask) return y;
    ls_shape shape = {0};
    for (int d = 0; d < y->view.ndim; d++)
        if (!(mask >> d & 1)) shape.dim[shape.ndim++] = y->view.dim[d];
    return ls_reshape_shape(y, shape);
}

/* The dimensions to reduce as bits; false, with an error, if one does not exist. */
static bool reducible(ls_run *run, ls_opcode op, const ls_tensor *x, ls_shape dims, uint32_t *mask)
{
    if (op_dims_mask(x, dims, mask)) return true;
    op_error(run, op, LS_ERR_SHAPE, "%s is not a set of dimensions of %s", OP_SHAPE_TEXT(dims), OP_TEXT(x));
    return false;
}

static ls_tensor *reduced(ls_opcode op, ls_tensor *x, ls_shape dims, bool keep, int correction)
{
    ls_run *run = op_begin(op, 1, 1, &x);
    if (!run) return op_poison(x);
    bool is_float = ls_dtype_is_float(x->view.dtype);
    if (!is_float && op != LS_OP_sum && op != LS_OP_max && op != LS_OP_min) x = ls_cast(x, LS_F32);
    if (op == LS_OP_norm) x = op_as_f32(x);
    if (ls_failed(run)) return &run->poison;
    uint32_t mask;
    if (!reducible(run, op, x, dims, &mask)) return &run->poison;
    ls_shape shape = ls_view_shape(&x->view);
    int64_t count = 1;
    for (int d = 0; d < shape.ndim; d++)
        if (mask >> d & 1) count *= shape.dim[d], shape.dim[d] = 1;
    if (count == 0 && (op == LS_OP_max || op == LS_OP_min))
        return op_error(run, op, LS_ERR_SHAPE, "%s has no elements to choose from", OP_TEXT(x));
    ls_dtype dtype = x->view.dtype;
    if (op == LS_OP_sum) dtype = is_float ? op_wide_type(run, dtype) : LS_I64;
    ls_tensor *y = op_new(x, dtype, shape);
    ls_attrs attrs = {.reduce = {.mask = mask, .correction = correction}};
    ls_node *node;
    if (!op_run(op, 1, &x, 1, &y, &attrs, &node)) return &run->poison;
    if (node) {
        node->extra[0] = count;
        if (op != LS_OP_sum && op != LS_OP_mean) ls_save(node, x);
        if (op == LS_OP_max || op == LS_OP_min || op == LS_OP_norm) ls_save(node, y);
    }
    return dropped(y, mask, keep);
}

#define REDUCTION(name)                                                                                                \
    ls_tensor *ls_##name(ls_tensor *x)                                                                                 \
    {                                                                                                                  \
        return reduced(LS_OP_##name, x, LS_SCALAR, false, 0);                                                          \
    }                                                                                                                  \
    ls_tensor *ls_##name##_dim(ls_tensor *x, int dim, bool keep)                                                       \
    {                                                                                                                  \
        return reduced(LS_OP_##name, x, LS_DIMS(dim), keep, 0);                                                        \
    }
#define REDUCTION_DIMS(name)                                                                                           \
    ls_tensor *ls_##name##_dims(ls_tensor *x, ls_shape dims, bool keep)                                                \
    {                                                                                                                  \
        return reduced(LS_OP_##name, x, dims, keep, 0);                                                                \
    }
REDUCTION(sum)
REDUCTION(mean)
REDUCTION(max)
REDUCTION(min)
REDUCTION_DIMS(sum)
REDUCTION_DIMS(mean)
REDUCTION_DIMS(norm)

ls_tensor *ls_norm(ls_tensor *x)
{
    return reduced(LS_OP_norm, x, LS_SCALAR, false, 0);
}

ls_tensor *ls_var(ls_tensor *x, int correction)
{
    return reduced(LS_OP_var, x, LS_SCALAR, false, correction);
}

ls_tensor *ls_var_dims(ls_tensor *x, ls_shape dims, int correction, bool keep)
{
    return reduced(LS_OP_var, x, dims, keep, correction);
}

/* ---- put together from those ---- */

static ls_tensor *log_sum_exp(ls_tensor *x, ls_shape dims, bool keep)
{
    ls_opcode op = LS_OP_logsumexp;
    ls_run *run = op_begin(op, 1, 1, &x);
    uint32_t mask;
    if (!run || !reducible(run, op, x, dims, &mask)) return op_poison(x);
    if (ls_view_numel(&x->view) == 0) return op_error(run, op, LS_ERR_SHAPE, "%s has no elements to add", OP_TEXT(x));
    ls_dtype dtype = ls_dtype_is_float(x->view.dtype) ? op_wide_type(run, x->view.dtype) : LS_F32;
    x = op_as(x, x->view.dtype == LS_F64 ? LS_F64 : LS_F32);
    if (ls_failed(run)) return &run->poison;
    /* The largest is taken out, so that exp() does not overflow; unless it is infinite: then the result is. */
    ls_tensor *top = ls_detach(reduced(LS_OP_max, x, dims, true, 0));
    top = ls_where_scalar(ls_isfinite(top), top, 0);
    ls_tensor *sum = reduced(LS_OP_sum, ls_exp(ls_sub(x, top)), dims, true, 0);
    return dropped(ls_cast(ls_add(ls_log(sum), top), dtype), mask, keep);
}

ls_tensor *ls_logsumexp(ls_tensor *x)
{
    return log_sum_exp(x, LS_SCALAR, false);
}

ls_tensor *ls_logsumexp_dim(ls_tensor *x, int dim, bool keep)
{
    return log_sum_exp(x, LS_DIMS(dim), keep);
}

/* Counts what decides: elements that hold for any, those that do not for all. */
static ls_tensor *decided(ls_opcode op, ls_tensor *x, ls_shape dims, bool keep)
{
    ls_run *run = op_begin(op, 1, 1, &x);
    uint32_t mask;
    if (!run || !reducible(run, op, x, dims, &mask)) return op_poison(x);
    bool all = op == LS_OP_all;
    ls_tensor *count = reduced(LS_OP_sum, all ? ls_eq_scalar(x, 0) : ls_ne_scalar(x, 0), dims, keep, 0);
    return all ? ls_eq_scalar(count, 0) : ls_ne_scalar(count, 0);
}

#define DECISION(name)                                                                                                 \
    ls_tensor *ls_##name(ls_tensor *x)                                                                                 \
    {                                                                                                                  \
        return decided(LS_OP_##name, x, LS_SCALAR, false);                                                             \
    }                                                                                                                  \
    ls_tensor *ls_##name##_dim(ls_tensor *x, int dim, bool keep)                                                       \
    {                                                                                                                  \
        return decided(LS_OP_##name, x, LS_DIMS(dim), keep);                                                           \
    }
DECISION(any)
DECISION(all)

/* ---- gradients ---- */

BACK(sum)
{
    dx[0] = op_expanded(op_as(dy[0], node->in[0].dtype), node->in[0].shape);
}

BACK(mean)
{
    dx[0] = op_expanded(ls_mul_scalar(dy[0], 1.0 / (double)node->extra[0]), node->in[0].shape);
}

/* Divided evenly among the elements that equal the extreme one. */
static ls_tensor *back_chosen(ls_node *node, ls_tensor *dy)
{
    ls_tensor *x = node->saved[0], *y = node->saved[1];
    ls_tensor *chosen = ls_cast(ls_eq(x, y), dy->view.dtype);
    ls_shape dims = {0};
    for (int d = 0; d < x->view.ndim; d++)
        if (node->attrs.reduce.mask >> d & 1) dims.dim[dims.ndim++] = d;
    if (dims.ndim == 0) return dy; /* a scalar, or nothing was reduced */
    return ls_mul(chosen, ls_div(dy, ls_sum_dims(chosen, dims, true)));
}

BACK(max)
{
    dx[0] = back_chosen(node, dy[0]);
}

BACK(min)
{
    dx[0] = back_chosen(node, dy[0]);
}

BACK(var) /* 2 (x - mean) / (n - correction) */
{
    ls_tensor *x = node->saved[0];
    ls_shape dims = {0};
    for (int d = 0; d < x->view.ndim; d++)
        if (node->attrs.reduce.mask >> d & 1) dims.dim[dims.ndim++] = d;
    double n = (double)(node->extra[0] - node->attrs.reduce.correction);
    ls_tensor *centred = dims.ndim ? ls_sub(x, ls_mean_dims(x, dims, true)) : ls_sub(x, x);
    dx[0] = ls_mul(centred, ls_mul_scalar(dy[0], 2 / n));
}

BACK(norm) /* x / |x|, 0 where the norm is 0 */
{
    ls_tensor *x = node->saved[0], *y = node->saved[1];
    ls_tensor *unit = ls_div(x, y), *zero = op_full(x, x->view.dtype, 0, LS_SCALAR);
    dx[0] = ls_mul(dy[0], ls_where(ls_eq(y, zero), zero, unit));
}

/* ---- along one dimension ---- */

static ls_tensor *position(ls_opcode op, ls_tensor *x, int dim, bool keep)
{
    ls_run *run = op_begin(op, 1, 1, &x);
    if (!run) return op_poison(x);
    int d = op_dim(dim, x->view.ndim);
    if (d < 0 || x->view.dim[d] == 0)
        return op_error(run, op, LS_ERR_SHAPE, "dimension %d of %s has no elements to choose from", dim, OP_TEXT(x));
    ls_shape shape = ls_view_shape(&x->view);
    shape.dim[d] = 1;
    ls_tensor *y = op_new(x, LS_I64, shape);
    ls_node *node;
    if (!op_run(op, 1, &x, 1, &y, &(ls_attrs){.axis = {.dim = d}}, &node)) return &run->poison;
    return dropped(y, 1u << d, keep);
}

ls_tensor *ls_argmax(ls_tensor *x)
{
    return position(LS_OP_argmax, x, -1, false);
}

ls_tensor *ls_argmax_dim(ls_tensor *x, int dim, bool keep)
{
    return position(LS_OP_argmax, x, dim, keep);
}

ls_tensor *ls_argmin_dim(ls_tensor *x, int dim, bool keep)
{
    return position(LS_OP_argmin, x, dim, keep);
}

ls_tensor *ls_cumsum(ls_tensor *x, int dim)
{
    ls_run *run = op_begin(LS_OP_cumsum, 1, 1, &x);
    if (!run) return op_poison(x);
    int d = op_dim(dim, x->view.ndim);
    if (d < 0) return op_error(run, LS_OP_cumsum, LS_ERR_SHAPE, "%s has no dimension %d", OP_TEXT(x), dim);
    x = op_as_f32(x);
    if (ls_failed(run)) return &run->poison;
    ls_tensor *y = op_new(x, ls_dtype_is_float(x->view.dtype) ? x->view.dtype : LS_I64, ls_view_shape(&x->view));
    ls_node *node;
    return op_run(LS_OP_cumsum, 1, &x, 1, &y, &(ls_attrs){.axis = {.dim = d}}, &node) ? y : &run->poison;
}

BACK(cumsum) /* the sum from here to the end */
{
    ls_attrs attrs = node->attrs;
    attrs.axis.flag = true;
    ls_tensor *out = ls_tensor_new_like(dy[0], dy[0]->view.dtype);
    dx[0] = op_submit(LS_OP_cumsum, 1, dy, 1, &out, &attrs) ? out : NULL;
}

static ls_tensor *ordered(ls_opcode op, ls_tensor *x, int dim, int64_t k, bool flag, ls_tensor **indices)
{
    ls_run *run = op_begin(op, 1, 1, &x);
    if (indices) *indices = op_poison(x);
    if (!run) return op_poison(x);
    int d = op_dim(dim, x->view.ndim);
    if (d < 0) return op_error(run, op, LS_ERR_SHAPE, "%s has no dimension %d", OP_TEXT(x), dim);
    if (op == LS_OP_topk && (k < 0 || k > x->view.dim[d]))
        return op_error(run, op, LS_ERR_VALUE, "k is %lld, dimension %d of %s has %lld elements", (long long)k, d,
                        OP_TEXT(x), (long long)x->view.dim[d]);
    ls_shape shape = ls_view_shape(&x->view);
    if (op == LS_OP_topk) shape.dim[d] = k;
    ls_tensor *out[2] = {op_new(x, x->view.dtype, shape), op_new(x, LS_I64, shape)};
    ls_attrs attrs = {.axis = {.dim = d, .flag = flag, .k = k}};
    ls_node *node;
    if (!op_run(op, 1, &x, 2, out, &attrs, &node)) return &run->poison;
    ls_save(node, out[1]);
    if (indices) *indices = out[1];
    return out[0];
}

ls_tensor *ls_topk(ls_tensor *x, int64_t k, int dim, bool largest, ls_tensor **indices)
{
    return ordered(LS_OP_topk, x, dim, k, largest, indices);
}

ls_tensor *ls_sort(ls_tensor *x, int dim, bool descending, ls_tensor **indices)
{
    return ordered(LS_OP_sort, x, dim, 0, descending, indices);
}

static ls_tensor *back_ordered(ls_node *node, ls_tensor *dy)
{
    ls_tensor *zeros = op_full(dy, dy->view.dtype, 0, node->in[0].shape);
    return ls_scatter_add(zeros, node->attrs.axis.dim, node->saved[0], dy);
}

BACK(topk)
{
    dx[0] = back_ordered(node, dy[0]);
}

BACK(sort)
{
    dx[0] = back_ordered(node, dy[0]);
}
