/* shape.c - views of the same elements, and tensors joined from parts. */
#include "ops/op.h"

/* A view of x that the caller may change, in the innermost scope; poison when out of memory. */
static ls_tensor *view_of(ls_tensor *x)
{
    ls_tensor *y = ls_alias(x);
    if (y->life == LS_LIFE_LIVE) y->view.derived = NULL;
    return y;
}

static ls_tensor *recorded(ls_opcode op, ls_tensor *x, ls_tensor *y, const int64_t *extra, int n_extra)
{
    ls_node *node;
    if (!op_record(op, 1, &x, 1, &y, NULL, &node)) return op_poison(x);
    if (node)
        for (int i = 0; i < n_extra; i++) node->extra[i] = extra[i];
    return y;
}

/* ---- reshape ---- */

/* Groups of x's dimensions are matched with groups of the new ones of equal size; within a group x must be evenly
 * spaced. */
bool op_reshape_strides(const ls_operand *x, ls_shape shape, int64_t *stride)
{
    int from = 0;
    for (int to = 0; to < shape.ndim;) {
        if (shape.dim[to] == 1) {
            stride[to++] = 1;
            continue;
        }
        while (from < x->ndim && x->dim[from] == 1) from++;
        int first_to = to, first_from = from;
        int64_t want = shape.dim[to++], have = x->dim[from++];
        while (want != have) {
            if (want < have) want *= shape.dim[to++];
            else have *= x->dim[from++];
        }
        for (int d = first_from; d + 1 < from; d++) {
            int next = d + 1;
            while (next < from && x->dim[next] == 1) next++;
            if (x->dim[d] != 1 && next < from && x->stride[d] != x->dim[next] * x->stride[next]) return false;
        }
        int64_t step = 0;
        for (int d = first_from; d < from; d++)
            if (x->dim[d] != 1) step = x->stride[d];
        for (int d = to; d-- > first_to;) {
            stride[d] = step;
            step *= shape.dim[d];
        }
    }
    return true;
}

ls_tensor *ls_reshape_shape(ls_tensor *x, ls_shape shape)
{
    ls_run *run = op_begin(LS_OP_reshape, 1, 1, &x);
    if (!run) return op_poison(x);
    int64_t numel = ls_view_numel(&x->view), known = 1;
    int open = -1, opens = 0;
    for (int d = 0; d < shape.ndim && d < LS_MAX_DIMS; d++) {
        if (shape.dim[d] == -1) open = d, opens++;
        else if (__builtin_mul_overflow(known, shape.dim[d], &known)) known = -1;
    }
    if (opens == 1 && known > 0 && numel % known == 0) shape.dim[open] = numel / known;
    if (opens > 1 || ls_shape_numel(shape) != numel)
        return op_error(run, LS_OP_reshape, LS_ERR_SHAPE, "%s has %lld elements and cannot become %s", OP_TEXT(x),
                        (long long)numel, OP_SHAPE_TEXT(shape));
    int64_t stride[LS_MAX_DIMS];
    if (numel == 0 || ls_view_contiguous(&x->view)) {
        ls_tensor *y = view_of(x);
        if (y->life != LS_LIFE_LIVE) return y;
        ls_view_set_contiguous(&y->view, shape);
        return recorded(LS_OP_reshape, x, y, NULL, 0);
    }
    if (!op_reshape_strides(&x->view, shape, stride)) return ls_reshape_shape(ls_contiguous(x), shape);
    ls_tensor *y = view_of(x);
    if (y->life != LS_LIFE_LIVE) return y;
    y->view.ndim = shape.ndim;
    for (int d = 0; d < shape.ndim; d++) {
        y->view.dim[d] = shape.dim[d];
        y->view.stride[d] = stride[d];
    }
    return recorded(LS_OP_reshape, x, y, NULL, 0);
}

BACK(reshape)
{
    dx[0] = ls_reshape_shape(dy[0], node->in[0].shape);
}

ls_tensor *ls_squeeze(ls_tensor *x, int dim)
{
    ls_run *run = op_begin(LS_OP_reshape, 1, 1, &x);
    if (!run) return op_poison(x);
    int d = op_dim(dim, x->view.ndim);
    if (d < 0 || x->view.dim[d] != 1)
        return op_error(run, LS_OP_reshape, LS_ERR_SHAPE, "squeeze: dimension %d of %s is not of size 1", dim,
                        OP_TEXT(x));
    ls_shape shape = ls_view_shape(&x->view);
    for (int e = d; e + 1 < shape.ndim; e++) shape.dim[e] = shape.dim[e + 1];
    shape.ndim--;
    return ls_reshape_shape(x, shape);
}

ls_tensor *ls_unsqueeze(ls_tensor *x, int dim)
{
    ls_run *run = op_begin(LS_OP_reshape, 1, 1, &x);
    if (!run) return op_poison(x);
    int d = op_dim(dim, x->view.ndim + 1);
    if (d < 0 || x->view.ndim == LS_MAX_DIMS)
        return op_error(run, LS_OP_reshape, LS_ERR_SHAPE, "unsqueeze: no dimension %d can be added to %s", dim,
                        OP_TEXT(x));
    ls_shape shape = ls_view_shape(&x->view);
    for (int e = shape.ndim; e > d; e--) shape.dim[e] = shape.dim[e - 1];
    shape.dim[d] = 1;
    shape.ndim++;
    return ls_reshape_shape(x, shape);
}

ls_tensor *ls_flatten(ls_tensor *x, int first, int last)
{
    ls_run *run = op_begin(LS_OP_reshape, 1, 1, &x);
    if (!run) return op_poison(x);
    if (x->view.ndim == 0) return ls_reshape(x, 1);
    int a = op_dim(first, x->view.ndim), b = op_dim(last, x->view.ndim);
    if (a < 0 || b < a)
        return op_error(run, LS_OP_reshape, LS_ERR_SHAPE, "flatten: %d to %d is not a range of dimensions of %s", first,
                        last, OP_TEXT(x));
    ls_shape shape = {.ndim = x->view.ndim - (b - a)};
    for (int d = 0; d < shape.ndim; d++) shape.dim[d] = d < a ? x->view.dim[d] : d == a ? 1 : x->view.dim[d + b - a];
    for (int d = a; d <= b; d++) shape.dim[a] *= x->view.dim[d];
    return ls_reshape_shape(x, shape);
}

/* ---- permute ---- */

static ls_shape inverse_order(ls_shape order)
{
    ls_shape inverse = {.ndim = order.ndim};
    for (int d = 0; d < order.ndim; d++) inverse.dim[order.dim[d]] = d;
    return inverse;
}

ls_tensor *ls_permute_dims(ls_tensor *x, ls_shape order)
{
    ls_run *run = op_begin(LS_OP_permute, 1, 1, &x);
    if (!run) return op_poison(x);
    uint32_t seen = 0;
    bool ok = order.ndim == x->view.ndim;
    for (int d = 0; ok && d < order.ndim; d++) {
        int e = order.dim[d] >= -LS_MAX_DIMS && order.dim[d] < LS_MAX_DIMS ? op_dim((int)order.dim[d], order.ndim) : -1;
        ok = e >= 0 && !(seen >> e & 1);
        if (ok) seen |= 1u << e;
        order.dim[d] = e;
    }
    if (!ok)
        return op_error(run, LS_OP_permute, LS_ERR_SHAPE, "not a permutation of the %d dimensions of %s", x->view.ndim,
                        OP_TEXT(x));
    ls_tensor *y = view_of(x);
    if (y->life != LS_LIFE_LIVE) return y;
    int64_t packed = 0; /* three bits per dimension */
    for (int d = 0; d < order.ndim; d++) {
        y->view.dim[d] = x->view.dim[order.dim[d]];
        y->view.stride[d] = x->view.stride[order.dim[d]];
        packed |= order.dim[d] << (3 * d);
    }
    return recorded(LS_OP_permute, x, y, &packed, 1);
}

BACK(permute)
{
    ls_shape order = {.ndim = node->in[0].shape.ndim};
    for (int d = 0; d < order.ndim; d++) order.dim[d] = node->extra[0] >> (3 * d) & 7;
    dx[0] = ls_permute_dims(dy[0], inverse_order(order));
}

ls_tensor *ls_transpose(ls_tensor *x, int a, int b)
{
    ls_run *run = op_begin(LS_OP_permute, 1, 1, &x);
    if (!run) return op_poison(x);
    int from = op_dim(a, x->view.ndim), to = op_dim(b, x->view.ndim);
    if (from < 0 || to < 0)
        return op_error(run, LS_OP_permute, LS_ERR_SHAPE, "transpose: dimensions %d and %d of %s do not exist", a, b,
                        OP_TEXT(x));
    ls_shape order = {.ndim = x->view.ndim};
    for (int d = 0; d < order.ndim; d++) order.dim[d] = d == from ? to : d == to ? from : d;
    return ls_permute_dims(x, order);
}

/* ---- expand ---- */

ls_tensor *ls_expand_shape(ls_tensor *x, ls_shape shape)
{
    ls_run *run = op_begin(LS_OP_expand, 1, 1, &x);
    if (!run) return op_poison(x);
    int lead = shape.ndim - x->view.ndim;
    bool ok = lead >= 0 && shape.ndim <= LS_MAX_DIMS;
    for (int d = 0; ok && d < shape.ndim; d++) {
        int64_t have = d < lead ? 1 : x->view.dim[d - lead];
        if (shape.dim[d] == -1) shape.dim[d] = have, ok = d >= lead;
        ok = ok && shape.dim[d] >= 0 && (have == 1 || have == shape.dim[d]);
    }
    if (!ok)
        return op_error(run, LS_OP_expand, LS_ERR_SHAPE, "%s does not expand to %s", OP_TEXT(x), OP_SHAPE_TEXT(shape));
    ls_tensor *y = view_of(x);
    if (y->life != LS_LIFE_LIVE) return y;
    op_expand_operand(&x->view, shape, &y->view);
    return recorded(LS_OP_expand, x, y, NULL, 0);
}

BACK(expand)
{
    (void)node;
    dx[0] = dy[0]; /* the walk sums over repeated elements */
}

/* ---- slices ---- */

static void *address_at(const ls_operand *x, int d, int64_t index)
{
    return x->data ? (char *)x->data + index * x->stride[d] * (int64_t)ls_dtype_size(x->dtype) : NULL;
}

/* A slice of a view: no checks, no history. */
static ls_tensor *sliced(ls_tensor *x, int d, int64_t begin, int64_t count, int64_t step)
{
    ls_tensor *y = view_of(x);
    if (y->life != LS_LIFE_LIVE) return y;
    y->view.data = count ? address_at(&x->view, d, begin) : x->view.data;
    y->view.dim[d] = count;
    y->view.stride[d] *= step;
    return y;
}

ls_tensor *ls_slice(ls_tensor *x, int dim, int64_t begin, int64_t end, int64_t step)
{
    ls_run *run = op_begin(LS_OP_slice, 1, 1, &x);
    if (!run) return op_poison(x);
    int d = op_dim(dim, x->view.ndim);
    if (d < 0) return op_error(run, LS_OP_slice, LS_ERR_SHAPE, "%s has no dimension %d", OP_TEXT(x), dim);
    if (step < 1) return op_error(run, LS_OP_slice, LS_ERR_VALUE, "step %lld is not positive", (long long)step);
    int64_t size = x->view.dim[d];
    if (begin < 0) begin += size;
    if (end < 0) end += size;
    begin = begin < 0 ? 0 : begin > size ? size : begin;
    end = end > size ? size : end < begin ? begin : end;
    int64_t count = (end - begin + step - 1) / step;
    return recorded(LS_OP_slice, x, sliced(x, d, begin, count, step), (int64_t[]){d, begin, step}, 3);
}

BACK(slice)
{
    ls_tensor *whole = op_new(dy[0], dy[0]->view.dtype, node->in[0].shape);
    if (whole->life != LS_LIFE_LIVE || !ls_raw_fill(whole, 0)) return;
    int d = (int)node->extra[0];
    ls_tensor *part = sliced(whole, d, node->extra[1], dy[0]->view.dim[d], node->extra[2]);
    if (part->life == LS_LIFE_LIVE && ls_raw_copy(part, dy[0])) dx[0] = whole;
}

ls_tensor *ls_select(ls_tensor *x, int dim, int64_t index)
{
    ls_run *run = op_begin(LS_OP_slice, 1, 1, &x);
    if (!run) return op_poison(x);
    int d = op_dim(dim, x->view.ndim);
    int64_t at = d >= 0 && index < 0 ? index + x->view.dim[d] : index;
    if (d < 0 || at < 0 || at >= x->view.dim[d])
        return op_error(run, LS_OP_slice, LS_ERR_VALUE, "no position %lld in dimension %d of %s", (long long)index, dim,
                        OP_TEXT(x));
    return ls_squeeze(ls_slice(x, d, at, at + 1, 1), d);
}

void ls_chunk(ls_tensor *x, int dim, ls_tensor **out, int64_t count)
{
    ls_run *run = op_begin(LS_OP_split, 1, 1, &x);
    int d = run ? op_dim(dim, x->view.ndim) : -1;
    if (run && !out) op_error(run, LS_OP_split, LS_ERR_VALUE, "the array of %lld parts is NULL", (long long)count);
    else if (run && (d < 0 || count < 1 || x->view.dim[d] % count != 0))
        op_error(run, LS_OP_split, LS_ERR_SHAPE, "dimension %d of %s does not split into %lld equal parts", dim,
                 OP_TEXT(x), (long long)count);
    if (!run || ls_failed(run)) {
        for (int64_t i = 0; out && i < count; i++) out[i] = op_poison(x);
        return;
    }
    int64_t size = x->view.dim[d] / count;
    if (count > LS_NODE_OUTPUTS) {
        for (int64_t i = 0; i < count; i++) out[i] = ls_slice(x, d, i * size, (i + 1) * size, 1);
        return;
    }
    for (int64_t i = 0; i < count; i++) out[i] = sliced(x, d, i * size, size, 1);
    ls_node *node;
    if (ls_failed(run) || !op_record(LS_OP_split, 1, &x, (int)count, out, NULL, &node)) return;
    if (node) node->extra[0] = d;
}

BACK(split) /* the parts' gradients side by side; a part without one is zero */
{
    int d = (int)node->extra[0];
    ls_tensor *any = NULL;
    for (int i = 0; i < node->n_out; i++) any = dy[i] ? dy[i] : any;
    ls_tensor *whole = op_new(any, any->view.dtype, node->in[0].shape);
    if (whole->life != LS_LIFE_LIVE) return;
    int64_t size = node->in[0].shape.dim[d] / node->n_out;
    for (int i = 0; i < node->n_out; i++) {
        ls_tensor *part = sliced(whole, d, i * size, size, 1);
        if (part->life != LS_LIFE_LIVE || !(dy[i] ? ls_raw_copy(part, dy[i]) : ls_raw_fill(part, 0))) return;
    }
    dx[0] = whole;
}

/* ---- joining ---- */

ls_tensor *ls_concat_n(int dim, ls_tensor *const *tensors, int64_t count)
{
    int n = (int)count;
    if (n < 1 || !tensors) return LS_POISON(ls_run_of(NULL), LS_ERR_VALUE, "concat: no tensors given");
    ls_run *run = op_begin(LS_OP_concat, n, n, tensors);
    if (!run) return op_poison(tensors[0]);
    const ls_tensor *first = tensors[0];
    int d = op_dim(dim, first->view.ndim);
    if (d < 0) return op_error(run, LS_OP_concat, LS_ERR_SHAPE, "%s has no dimension %d", OP_TEXT(first), dim);
    ls_shape shape = ls_view_shape(&first->view);
    ls_dtype dtype = first->view.dtype;
    for (int i = 1; i < n; i++) {
        const ls_tensor *t = tensors[i];
        bool fits = t->view.ndim == shape.ndim;
        for (int e = 0; fits && e < shape.ndim; e++) fits = e == d || t->view.dim[e] == shape.dim[e];
        if (!fits)
            return op_error(run, LS_OP_concat, LS_ERR_SHAPE, "%s and %s (tensor %d) differ outside dimension %d",
                            OP_TEXT(first), OP_TEXT(t), i, d);
        shape.dim[d] += t->view.dim[d];
        dtype = ls_dtype_promote(dtype, t->view.dtype);
    }
    ls_tensor *y = op_new(tensors[0], dtype, shape);
    if (y->life != LS_LIFE_LIVE) return y;
    ls_mark mark = ls_scope_begin(run);
    for (int64_t i = 0, at = 0; i < n && !ls_failed(run); at += tensors[i++]->view.dim[d]) {
        ls_tensor *part = sliced(y, d, at, tensors[i]->view.dim[d], 1);
        if (part->life == LS_LIFE_LIVE) ls_raw_copy(part, tensors[i]);
    }
    ls_scope_end(run, mark, NULL);
    ls_node *node;
    if (ls_failed(run) || !op_record(LS_OP_concat, n, tensors, 1, &y, NULL, &node)) return &run->poison;
    if (node) {
        node->extra[0] = d;
        for (int i = 0; i < n; i++)
            node->in[i].shape = ls_view_shape(&tensors[i]->view); /* also for inputs without gradient */
    }
    return y;
}

BACK(concat)
{
    int d = (int)node->extra[0];
    int64_t at = 0;
    for (int i = 0; i < node->n_in; i++) {
        int64_t size = node->in[i].shape.dim[d];
        if (ls_wants(node, i)) dx[i] = sliced(dy[0], d, at, size, 1);
        at += size;
    }
}

ls_tensor *ls_stack_n(int dim, ls_tensor *const *tensors, int64_t count)
{
    int n = (int)count;
    if (n < 1 || !tensors) return LS_POISON(ls_run_of(NULL), LS_ERR_VALUE, "stack: no tensors given");
    ls_run *run = op_begin(LS_OP_stack, n, n, tensors);
    if (!run) return op_poison(tensors[0]);
    int d = op_dim(dim, tensors[0]->view.ndim + 1);
    if (d < 0)
        return op_error(run, LS_OP_stack, LS_ERR_SHAPE, "%s: no dimension %d can be added", OP_TEXT(tensors[0]), dim);
    ls_tensor **wide = ls_sys_alloc((size_t)n * sizeof *wide);
    if (!wide) return op_error(run, LS_OP_stack, LS_ERR_MEMORY, "no memory");
    for (int i = 0; i < n; i++) wide[i] = ls_unsqueeze(tensors[i], d);
    ls_tensor *y = ls_concat_n(d, wide, n);
    ls_sys_free(wide);
    return y;
}

/* ---- pad ---- */

/* The inner part of a padded tensor, for the elements of x. */
static ls_tensor *inner(ls_tensor *y, const int64_t *before, ls_shape size)
{
    for (int d = 0; d < size.ndim && y->life == LS_LIFE_LIVE; d++) y = sliced(y, d, before[d], size.dim[d], 1);
    return y;
}

ls_tensor *ls_pad(ls_tensor *x, ls_shape before, ls_shape after, double value)
{
    ls_run *run = op_begin(LS_OP_pad, 1, 1, &x);
    if (!run) return op_poison(x);
    bool ok = before.ndim == x->view.ndim && after.ndim == x->view.ndim;
    ls_shape shape = ls_view_shape(&x->view);
    for (int d = 0; ok && d < shape.ndim; d++) {
        ok = before.dim[d] >= 0 && after.dim[d] >= 0 && before.dim[d] < 1 << 15;
        shape.dim[d] += before.dim[d] + after.dim[d];
    }
    if (!ok)
        return op_error(run, LS_OP_pad, LS_ERR_SHAPE, "padding %s before and %s after does not fit %s",
                        OP_SHAPE_TEXT(before), OP_SHAPE_TEXT(after), OP_TEXT(x));
    if (!op_must_hold(LS_OP_pad, x, value)) return &run->poison;
    ls_tensor *y = op_new(x, x->view.dtype, shape);
    if (y->life != LS_LIFE_LIVE || !ls_raw_fill(y, value)) return &run->poison;
    ls_mark mark = ls_scope_begin(run);
    ls_tensor *part = inner(y, before.dim, ls_view_shape(&x->view));
    bool copied = part->life == LS_LIFE_LIVE && ls_raw_copy(part, x);
    ls_scope_end(run, mark, NULL);
    ls_node *node;
    if (!copied || !op_record(LS_OP_pad, 1, &x, 1, &y, NULL, &node)) return &run->poison;
    if (node) { /* sixteen bits per dimension */
        node->extra[0] = node->extra[1] = 0;
        for (int d = 0; d < shape.ndim; d++) node->extra[d / 4] |= before.dim[d] << (16 * (d % 4));
    }
    return y;
}

BACK(pad)
{
    int64_t before[LS_MAX_DIMS];
    for (int d = 0; d < LS_MAX_DIMS; d++) before[d] = node->extra[d / 4] >> (16 * (d % 4)) & 0xffff;
    dx[0] = inner(dy[0], before, node->in[0].shape);
}
