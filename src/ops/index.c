/* index.c - elements and slices picked, or added, by index. The device detects indices out of range. */
#include "ops/op.h"

#include <stdio.h>
#include <string.h>

bool op_index_type(ls_run *run, ls_opcode op, const ls_tensor *index)
{
    if (index->view.dtype == LS_I64 || index->view.dtype == LS_I32) return true;
    op_error(run, op, LS_ERR_DTYPE, "the index is %s, not i64 or i32", OP_TEXT(index));
    return false;
}

/* Checks dimension and index; false, with an error, if one is wrong. */
static bool index_fits(ls_run *run, ls_opcode op, const ls_tensor *x, int d, const ls_tensor *index)
{
    if (d >= 0) return op_index_type(run, op, index);
    op_error(run, op, LS_ERR_SHAPE, "%s has no such dimension", OP_TEXT(x));
    return false;
}

ls_tensor *ls_take_along_dim(ls_tensor *x, int dim, ls_tensor *index)
{
    ls_tensor *in[2] = {x, index};
    ls_run *run = op_begin(LS_OP_gather, 2, 2, in);
    if (!run) return op_poison(x);
    int d = op_dim(dim, x->view.ndim);
    if (!index_fits(run, LS_OP_gather, x, d, index)) return &run->poison;
    bool ok = index->view.ndim == x->view.ndim;
    for (int e = 0; ok && e < x->view.ndim; e++) ok = e == d || index->view.dim[e] <= x->view.dim[e];
    if (!ok)
        return op_error(run, LS_OP_gather, LS_ERR_SHAPE, "index %s is larger than %s outside dimension %d",
                        OP_TEXT(index), OP_TEXT(x), d);
    ls_tensor *y = op_new(x, x->view.dtype, ls_view_shape(&index->view));
    ls_node *node;
    if (!op_run(LS_OP_gather, 2, in, 1, &y, &(ls_attrs){.axis = {.dim = d}}, &node)) return &run->poison;
    ls_save(node, index);
    return y;
}

BACK(gather)
{
    ls_tensor *zeros = op_full(dy[0], dy[0]->view.dtype, 0, node->in[0].shape);
    dx[0] = ls_scatter_add(zeros, node->attrs.axis.dim, node->saved[0], dy[0]);
}

static ls_tensor *scattered(ls_opcode op, ls_tensor *x, int dim, ls_tensor *index, ls_tensor *source)
{
    ls_run *run = op_begin(op, 3, 3, (ls_tensor *[]){x, index, source});
    if (!run) return op_poison(x);
    int d = op_dim(dim, x->view.ndim);
    if (!index_fits(run, op, x, d, index)) return &run->poison;
    bool ok = index->view.ndim == x->view.ndim && source->view.ndim == x->view.ndim;
    for (int e = 0; ok && e < x->view.ndim; e++)
        ok = (e == d || index->view.dim[e] <= x->view.dim[e]) && index->view.dim[e] <= source->view.dim[e];
    if (!ok)
        return op_error(run, op, LS_ERR_SHAPE, "index %s and source %s do not fit %s", OP_TEXT(index), OP_TEXT(source),
                        OP_TEXT(x));
    if (ls_dtype_promote(x->view.dtype, source->view.dtype) != x->view.dtype)
        return op_error(run, op, LS_ERR_DTYPE, "%s cannot hold the numbers of source %s; ls_cast() one of them",
                        OP_TEXT(x), OP_TEXT(source));
    ls_tensor *in[3] = {x, index, op_as(source, x->view.dtype)};
    ls_tensor *y = op_new(x, x->view.dtype, ls_view_shape(&x->view));
    ls_node *node;
    if (ls_failed(run) || !op_run(op, 3, in, 1, &y, &(ls_attrs){.axis = {.dim = d}}, &node)) return &run->poison;
    ls_save(node, index);
    return y;
}

ls_tensor *ls_scatter_add(ls_tensor *x, int dim, ls_tensor *index, ls_tensor *source)
{
    return scattered(LS_OP_scatter_add, x, dim, index, source);
}

ls_tensor *ls_scatter(ls_tensor *x, int dim, ls_tensor *index, ls_tensor *source)
{
    return scattered(LS_OP_scatter, x, dim, index, source);
}

ls_tensor *ls_scatter_scalar(ls_tensor *x, int dim, ls_tensor *index, double value)
{
    ls_run *run = op_begin(LS_OP_scatter, 2, 2, (ls_tensor *[]){x, index});
    if (!run) return op_poison(x);
    ls_tensor *number = op_number(LS_OP_scatter, x, value);
    return ls_failed(run) ? &run->poison : ls_scatter(x, dim, index, op_expanded(number, ls_view_shape(&index->view)));
}

/* What was written from the source. */
static ls_tensor *back_source(ls_node *node, ls_tensor *dy)
{
    ls_tensor *picked = ls_take_along_dim(dy, node->attrs.axis.dim, node->saved[0]);
    ls_shape source = node->in[2].shape; /* may be larger than the index: the rest has gradient 0 */
    if (ls_failed(dy->run) || ls_shape_equal(ls_view_shape(&picked->view), source)) return picked;
    ls_shape before = {.ndim = source.ndim}, after = {.ndim = source.ndim};
    for (int d = 0; d < source.ndim; d++) after.dim[d] = source.dim[d] - picked->view.dim[d];
    return ls_pad(picked, before, after, 0);
}

BACK(scatter_add)
{
    if (ls_wants(node, 0)) dx[0] = dy[0];
    if (ls_wants(node, 2)) dx[2] = back_source(node, dy[0]);
}

BACK(scatter) /* as in PyTorch, that of the source is right if no index occurs twice */
{
    if (ls_wants(node, 0)) dx[0] = ls_scatter_scalar(dy[0], node->attrs.axis.dim, node->saved[0], 0);
    if (ls_wants(node, 2)) dx[2] = back_source(node, dy[0]);
}

ls_tensor *ls_index_select(ls_tensor *x, int dim, ls_tensor *index)
{
    ls_tensor *in[2] = {x, index};
    ls_run *run = op_begin(LS_OP_index_select, 2, 2, in);
    if (!run) return op_poison(x);
    int d = op_dim(dim, x->view.ndim);
    if (!index_fits(run, LS_OP_index_select, x, d, index)) return &run->poison;
    if (index->view.ndim != 1)
        return op_error(run, LS_OP_index_select, LS_ERR_SHAPE, "the index is %s, not a list", OP_TEXT(index));
    ls_shape shape = ls_view_shape(&x->view);
    shape.dim[d] = index->view.dim[0];
    ls_tensor *y = op_new(x, x->view.dtype, shape);
    ls_node *node;
    if (!op_run(LS_OP_index_select, 2, in, 1, &y, &(ls_attrs){.axis = {.dim = d}}, &node)) return &run->poison;
    ls_save(node, index);
    return y;
}

/* Add slices of `source` into the gradient of an input: directly into a leaf's memory if possible. */
static ls_tensor *back_slices(ls_node *node, int input, const ls_attrs *attrs, ls_tensor *index, ls_tensor *source)
{
    int32_t accumulate;
    ls_tensor *target = ls_grad_target(node, input, &accumulate);
    ls_tensor *into = target ? target : op_new(source, source->view.dtype, node->in[input].shape);
    if (into->life != LS_LIFE_LIVE || (!(target && accumulate) && !ls_raw_fill(into, 0))) return NULL;
    ls_tensor *in[2] = {index, source};
    if (!op_submit(LS_OP_index_add, 2, in, 1, &into, attrs)) return NULL;
    return target ? NULL : into;
}

BACK(index_select)
{
    dx[0] = back_slices(node, 0, &(ls_attrs){.axis = {.dim = node->attrs.axis.dim}}, node->saved[0], dy[0]);
}

/* Is an index the same for all of the first dimension? */
static bool repeats(const ls_operand *index)
{
    return index->ndim > 1 && index->dim[0] > 1 && index->stride[0] == 0;
}

ls_tensor *op_table_gradient(ls_node *node, int input, int64_t padding, ls_tensor *index, ls_tensor *rows)
{
    if (repeats(&index->view) && rows->view.dtype == node->in[input].dtype) { /* positions: a sum is no scattering */
        index = ls_select(index, 0, 0);
        rows = ls_sum_dims(rows, LS_SHAPE(0), false);
    }
    index = ls_reshape(index, -1);
    rows = ls_reshape(rows, ls_numel(index), node->in[input].shape.dim[1]);
    ls_attrs attrs = {.axis = {.flag = padding >= 0, .k = padding}};
    return ls_failed(rows->run) ? NULL : back_slices(node, input, &attrs, index, rows);
}

/* back: of ls_move_rows(), else NULL. */
static ls_tensor *pick_rows(ls_tensor *table, ls_tensor *index, int64_t padding, ls_tensor *back)
{
    ls_tensor *in[2] = {table, index};
    ls_run *run = op_begin(LS_OP_embedding, 2, 2, in);
    if (!run) return op_poison(table);
    if (table->view.ndim != 2 || index->view.ndim >= LS_MAX_DIMS)
        return op_error(run, LS_OP_embedding, LS_ERR_SHAPE,
                        "table %s must be [rows,width], and index %s have fewer than %d dimensions", OP_TEXT(table),
                        OP_TEXT(index), LS_MAX_DIMS);
    if (!index_fits(run, LS_OP_embedding, table, 0, index)) return &run->poison;
    ls_shape shape = ls_view_shape(&index->view);
    shape.dim[shape.ndim++] = table->view.dim[1];
    ls_tensor *y = op_new(table, table->view.dtype, shape);
    ls_node *node;
    if (!op_run(LS_OP_embedding, 2, in, 1, &y, NULL, &node)) return &run->poison;
    ls_save(node, index);
    ls_save(node, back);
    if (node) node->extra[0] = padding;
    return y;
}

ls_tensor *ls_embedding(ls_tensor *table, ls_tensor *index)
{
    return pick_rows(table, index, -1, NULL);
}

ls_tensor *ls_embedding_padded(ls_tensor *table, ls_tensor *index, int64_t padding)
{
    return pick_rows(table, index, padding, NULL);
}

ls_tensor *ls_move_rows(ls_tensor *x, ls_tensor *index, ls_tensor *back)
{
    return pick_rows(x, index, -1, back);
}

BACK(embedding)
{
    ls_tensor *back = node->saved[1];
    if (back) dx[0] = ls_embedding(ls_reshape(dy[0], -1, ls_dim(dy[0], -1)), ls_reshape(back, -1));
    else dx[0] = op_table_gradient(node, 0, node->extra[0], node->saved[0], dy[0]);
}

/* ---- indices as numbers ---- */

/* [...,count] of zeros, with 1 added at every index: the device finds indices out of range, now or later, and its
 * message begins with the operator `op`, as with the path of a module. */
static ls_tensor *marked(ls_opcode op, ls_tensor *index, ls_shape zeros)
{
    ls_run *run = index->run;
    ls_tensor *one = op_full(index, LS_I64, 1, LS_SCALAR), *none = op_full(index, LS_I64, 0, zeros);
    if (ls_failed(run)) return &run->poison;
    char *path = run->errors.path;
    const char *site = run->site;
    size_t end = strlen(path);
    snprintf(path + end, sizeof run->errors.path - end, "%s%s", end ? ": " : "", ls_op_name(op));
    run->site = ls_site_here(run, NULL);
    ls_tensor *y = ls_scatter_add(none, -1, index, op_expanded(one, ls_view_shape(&index->view)));
    path[end] = '\0';
    run->site = site;
    return y;
}

ls_tensor *ls_one_hot(ls_tensor *index, int64_t classes)
{
    ls_run *run = op_begin(LS_OP_one_hot, 1, 1, &index);
    if (!run || !op_index_type(run, LS_OP_one_hot, index)) return op_poison(index);
    ls_shape shape = ls_view_shape(&index->view);
    if (classes < 1 || shape.ndim == LS_MAX_DIMS)
        return op_error(run, LS_OP_one_hot, LS_ERR_VALUE,
                        "%lld classes of %s: there must be at least 1, and fewer than "
                        "%d dimensions",
                        (long long)classes, OP_TEXT(index), LS_MAX_DIMS);
    shape.dim[shape.ndim++] = classes;
    index = ls_unsqueeze(index, -1);
    return ls_failed(run) ? &run->poison : marked(LS_OP_one_hot, index, shape);
}

ls_tensor *ls_bincount(ls_tensor *x, int64_t bins)
{
    ls_run *run = op_begin(LS_OP_bincount, 1, 1, &x);
    if (!run || !op_index_type(run, LS_OP_bincount, x)) return op_poison(x);
    if (bins < 0) return op_error(run, LS_OP_bincount, LS_ERR_VALUE, "%lld bins", (long long)bins);
    x = ls_reshape(x, -1);
    return ls_failed(run) ? &run->poison : marked(LS_OP_bincount, x, LS_SHAPE(bins));
}
