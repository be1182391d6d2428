/* arrange.c - elements in another order, repeated or cut off, put together from views, copies and choices. */
#include "ops/op.h"

ls_tensor *ls_flip_dims(ls_tensor *x, ls_shape dims)
{
    ls_run *run = op_begin(LS_OP_flip, 1, 1, &x);
    if (!run) return op_poison(x);
    uint32_t mask;
    if (!op_dims_mask(x, dims, &mask))
        return op_error(run, LS_OP_flip, LS_ERR_SHAPE, "%s is not a set of dimensions of %s", OP_SHAPE_TEXT(dims),
                        OP_TEXT(x));
    for (int d = 0; mask >> d && !ls_failed(run); d++) {
        if (!(mask >> d & 1)) continue;
        int64_t size = x->view.dim[d];
        x = ls_index_select(x, d, op_sequence(x, size, size - 1, -1));
    }
    return ls_failed(run) ? &run->poison : x;
}

ls_tensor *ls_roll(ls_tensor *x, int64_t shift, int dim)
{
    ls_run *run = op_begin(LS_OP_roll, 1, 1, &x);
    if (!run) return op_poison(x);
    int d = op_dim(dim, x->view.ndim);
    if (d < 0) return op_error(run, LS_OP_roll, LS_ERR_SHAPE, "%s has no dimension %d", OP_TEXT(x), dim);
    int64_t size = x->view.dim[d], front = size ? (shift % size + size) % size : 0;
    if (front == 0) return x;
    return ls_concat(d, ls_slice(x, d, size - front, size, 1), ls_slice(x, d, 0, size - front, 1));
}

ls_tensor *ls_repeat_shape(ls_tensor *x, ls_shape times)
{
    ls_run *run = op_begin(LS_OP_repeat, 1, 1, &x);
    if (!run) return op_poison(x);
    int lead = times.ndim - x->view.ndim;
    bool ok = lead >= 0 && times.ndim <= LS_MAX_DIMS;
    ls_shape shape = {.ndim = ok ? times.ndim : 0};
    for (int d = 0; d < shape.ndim; d++) {
        shape.dim[d] = d < lead ? 1 : x->view.dim[d - lead];
        ok = ok && times.dim[d] >= 0;
    }
    ls_shape result = shape;
    for (int d = 0; ok && d < shape.ndim; d++) ok = !__builtin_mul_overflow(shape.dim[d], times.dim[d], &result.dim[d]);
    if (!ok || ls_shape_numel(result) < 0)
        return op_error(run, LS_OP_repeat, LS_ERR_SHAPE, "%s cannot be repeated %s times", OP_TEXT(x),
                        OP_SHAPE_TEXT(times));
    for (int d = shape.ndim - 1; d >= 0; d--) { /* from the inside: [before, 1, rest] to [before, times, rest] */
        if (times.dim[d] == 1) continue;
        int64_t before = 1, rest = 1;
        for (int e = 0; e < d; e++) before *= shape.dim[e];
        for (int e = d; e < shape.ndim; e++) rest *= e == d ? shape.dim[e] : result.dim[e];
        x = ls_reshape(ls_expand(ls_reshape(x, before, 1, rest), before, times.dim[d], rest), before * times.dim[d],
                       rest);
    }
    return ls_reshape_shape(x, result);
}

/* x where row + diagonal and column compare as they should, else 0. */
static ls_tensor *triangle(ls_opcode op, ls_tensor *x, int64_t diagonal, ls_tensor *(*keeps)(ls_tensor *, ls_tensor *))
{
    ls_run *run = op_begin(op, 1, 1, &x);
    if (!run) return op_poison(x);
    int n = x->view.ndim;
    if (n < 2) return op_error(run, op, LS_ERR_SHAPE, "%s is not a matrix or a batch of them", OP_TEXT(x));
    int64_t rows = x->view.dim[n - 2], columns = x->view.dim[n - 1];
    /* Diagonals outside the matrix are all alike. */
    diagonal = diagonal < -rows ? -rows : diagonal > columns ? columns : diagonal;
    ls_tensor *row = ls_unsqueeze(op_sequence(x, rows, diagonal, 1), 1), *column = op_sequence(x, columns, 0, 1);
    return ls_where_scalar(keeps(row, column), x, 0);
}

ls_tensor *ls_tril(ls_tensor *x, int64_t diagonal)
{
    return triangle(LS_OP_tril, x, diagonal, ls_ge);
}

ls_tensor *ls_triu(ls_tensor *x, int64_t diagonal)
{
    return triangle(LS_OP_triu, x, diagonal, ls_le);
}
