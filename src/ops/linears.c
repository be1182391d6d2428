/* linears.c - several linear layers of one input, such as the query, key and value of attention: their results lie side
 * by side in one tensor.
 *
 * An optimiser places the parameters of a group one behind the other, and so their gradients and half copies. Where
 * weights lie so, they are one matrix to the device, and one large product is faster than several: three of 1024
 * columns take the time of four on a GPU. Elsewhere each weight has its own product. */
#include "ops/op.h"

/* ---- tensors that lie one behind the other ---- */

static const ls_storage *whole_of(const ls_tensor *t)
{
    return t->storage->whole ? t->storage->whole : t->storage;
}

/* What a product in the type `compute` (none: any) reads of a weight or a bias: its half copy, or itself. */
static ls_operand read_as(const ls_tensor *t, ls_dtype compute)
{
    ls_operand x = t->view;
    const ls_derived *derived = x.derived;
    if (x.dtype != compute && derived && derived->half && derived->half_dtype == compute &&
        derived->half_version == derived->version) {
        x.data = derived->half;
        x.dtype = compute;
    }
    x.derived = NULL;
    return x;
}

/* On the host, packed forms of a weight are kept with it: they would be made again for each call on several. */
static bool has_forms(const ls_tensor *t)
{
    return t->view.derived && ls_device_is_host(t->storage->device);
}

/* Tensors [N0,...], [N1,...] one behind the other, as one [N0 + N1,...] in the innermost scope. NULL if they do not lie
 * so, if one is missing, or with an error. */
static ls_tensor *joined(int n, ls_tensor *const *parts, ls_dtype compute)
{
    ls_operand all = {0};
    for (int i = 0; i < n; i++) {
        if (!parts[i] || has_forms(parts[i]) || whole_of(parts[i]) != whole_of(parts[0])) return NULL;
        ls_operand x = read_as(parts[i], compute);
        size_t before = i ? (size_t)ls_view_numel(&all) * ls_dtype_size(all.dtype) : 0;
        if (!ls_view_contiguous(&x) || (i && (x.dtype != all.dtype || x.data != (char *)all.data + before)))
            return NULL;
        if (i) all.dim[0] += x.dim[0];
        else all = x;
    }
    ls_tensor *t = ls_alias(parts[0]);
    if (!ls_is_valid(t)) return NULL;
    t->view = all;
    return t;
}

static bool has_none(int n, ls_tensor *const *parts)
{
    for (int i = 0; i < n; i++)
        if (parts[i]) return false;
    return true;
}

/* ---- forward ---- */

/* y = x weight^T + bias; without history */
static bool multiply(ls_tensor *x, ls_tensor *weight, ls_tensor *bias, ls_tensor *y, const ls_attrs *attrs)
{
    return op_submit(LS_OP_linear, 3, (ls_tensor *[]){x, weight, bias}, 1, &y, attrs);
}

/* Columns [begin, begin + width) of y, without history. */
static ls_tensor *columns(ls_tensor *y, int64_t begin, int64_t width)
{
    ls_tensor *part = ls_alias(y);
    if (!ls_is_valid(part)) return part;
    int last = y->view.ndim - 1;
    part->view.dim[last] = width;
    part->view.data = (char *)y->view.data + begin * y->view.stride[last] * (int64_t)ls_dtype_size(y->view.dtype);
    return part;
}

static bool multiply_all(ls_tensor *x, int n, ls_tensor *const *weights, ls_tensor *const *biases, ls_tensor *y,
                         const ls_attrs *attrs)
{
    ls_dtype compute = attrs->product.compute;
    bool plain = has_none(n, biases);
    ls_tensor *weight = joined(n, weights, compute), *bias = weight && !plain ? joined(n, biases, compute) : NULL;
    if (weight && (plain || bias)) return multiply(x, weight, bias, y, attrs);
    for (int64_t i = 0, begin = 0; i < n && !ls_failed(x->run); begin += weights[i++]->view.dim[0])
        if (!multiply(x, weights[i], biases[i], columns(y, begin, weights[i]->view.dim[0]), attrs)) return false;
    return !ls_failed(x->run);
}

ls_tensor *ls_linears(ls_tensor *x, int n, ls_tensor *const *weights, ls_tensor *const *biases)
{
    ls_tensor *in[1 + 2 * LS_MAX_LINEARS] = {x}; /* then weights, then biases */
    for (int i = 0; i < n; i++) in[1 + i] = weights[i], in[1 + n + i] = biases[i];
    ls_run *run = op_begin(LS_OP_linears, 1 + n, 1 + 2 * n, in);
    if (!run) return op_poison(x);
    ls_dtype dtype = op_half_type(run, x->view.dtype);
    ls_shape shape = ls_view_shape(&x->view);
    int64_t width = 0;
    for (int i = 0; i < n; width += weights[i++]->view.dim[0]) {
        if (!op_linear_fits(LS_OP_linears, x, weights[i], biases[i])) return &run->poison;
        op_multiplies(weights[i]);
        op_multiplies(biases[i]);
    }
    shape.dim[shape.ndim - 1] = width;
    in[0] = op_as(x, dtype);
    ls_tensor *y = op_new(x, dtype, shape);
    ls_attrs attrs = {.product = {.compute = dtype}};
    ls_node *node = NULL;
    if (ls_failed(run) || !multiply_all(in[0], n, weights, biases, y, &attrs)) return &run->poison;
    if (!op_record(LS_OP_linears, 1 + 2 * n, in, 1, &y, &attrs, &node)) return &run->poison;
    if (node) {
        bool weighs = false;
        for (int i = 0; i < n; i++) weighs |= ls_wants(node, 1 + i);
        node->extra[0] = n;
        ls_save(node, weighs ? in[0] : NULL);
        for (int i = 0; i < n; i++) ls_save(node, ls_wants(node, 0) ? weights[i] : NULL);
        for (int i = 0; i < n; i++) node->extra[1 + i] = weights[i]->view.dim[0];
    }
    return y;
}

/* ---- backward ---- */

/* One gradient for several tensors that lie one behind the other, or that are all not wanted. */
typedef struct together {
    ls_tensor *all;
    bool possible, accumulate;
} together;

static together gradient_of(int n, ls_tensor *const *parts, int32_t accumulate)
{
    int32_t every = (1 << n) - 1;
    if (has_none(n, parts)) return (together){.possible = true};
    ls_tensor *all = accumulate == 0 || accumulate == every ? joined(n, parts, LS_DTYPE_NONE) : NULL;
    return (together){all, all != NULL, accumulate != 0};
}

/* From dy and x [rows, ...]. dx, dweights and dbiases are NULL where not wanted; `accumulate`: bit 0 for dx, then those
 * of dweights, then of dbiases. */
static bool grade(const ls_node *node, ls_tensor *dy, ls_tensor *x, ls_tensor *dx, ls_tensor *const *dweights,
                  ls_tensor *const *dbiases, int32_t accumulate)
{
    int n = (int)node->extra[0];
    int32_t every = (1 << n) - 1, of_weights = accumulate >> 1 & every, of_biases = accumulate >> (1 + n) & every;
    ls_attrs attrs = node->attrs;
    ls_tensor *weight = dx ? joined(n, node->saved + 1, attrs.product.compute) : NULL;
    together w = gradient_of(n, dweights, of_weights), b = gradient_of(n, dbiases, of_biases);
    if ((weight || !dx) && w.possible && b.possible && !ls_failed(dy->run)) {
        attrs.product.accumulate = (accumulate & 1) | w.accumulate << 1 | b.accumulate << 2;
        return op_linear_grad((ls_tensor *[]){dy, x, weight, NULL}, (ls_tensor *[5]){dx, w.all, b.all}, &attrs);
    }
    int64_t end = dy->view.dim[1];
    for (int i = n - 1; i >= 0 && !ls_failed(dy->run); end -= node->extra[1 + i--]) {
        ls_tensor *part = columns(dy, end - node->extra[1 + i], node->extra[1 + i]);
        bool adds = (accumulate & 1) || i < n - 1;
        attrs.product.accumulate = adds | (of_weights >> i & 1) << 1 | (of_biases >> i & 1) << 2;
        if (!op_linear_grad((ls_tensor *[]){part, x, node->saved[1 + i], NULL},
                            (ls_tensor *[5]){dx, dweights[i], dbiases[i]}, &attrs))
            return false;
    }
    return !ls_failed(dy->run);
}

BACK(linears)
{
    ls_run *run = dy[0]->run;
    int n = (int)node->extra[0];
    int32_t accumulate = 0;
    ls_tensor *from = op_dense_rows(dy[0]), *x = op_dense_rows(node->saved[0]);
    ls_tensor *to = op_gradient(node, 0, dy[0], 0, &accumulate, dx), *rows = op_rows_for(to, accumulate & 1);
    ls_tensor *gradients[2 * LS_MAX_LINEARS];
    for (int i = 0; i < 2 * n; i++) gradients[i] = op_gradient(node, 1 + i, dy[0], 1 + i, &accumulate, dx);
    if (!ls_failed(run) && grade(node, from, x, rows, gradients, gradients + n, accumulate)) op_rows_written(to, rows);
}
