/* view.c - strided views of memory as operations on whole arrays.
 *
 * Nearly every view is a box within a grid: with strides s0 > s1 > ... that divide each other, memory is an array
 * [n / s0, s0 / s1, ...], and the view begins at a corner that its offset gives and extends by its sizes. Reading it is
 * a slice and a transposition, writing it an update. The others (every third of ten, windows that overlap) are read and
 * written element by element, by index. */
#include "lower.h"

/* The dimensions of a view with more than one element, by decreasing stride, and the grid they lie in. A last dimension
 * is added if the elements are further apart than one. */
typedef struct box {
    int n;
    int dim[LS_MAX_DIMS]; /* of the view */
    shlo_dims grid, first, size;
} box;

static void sort_dims(const ls_operand *x, box *b)
{
    b->n = 0;
    for (int d = 0; d < x->ndim; d++) {
        if (x->dim[d] == 1 || x->stride[d] == 0) continue;
        int at = b->n++;
        for (; at > 0 && x->stride[b->dim[at - 1]] < x->stride[d]; at--) b->dim[at] = b->dim[at - 1];
        b->dim[at] = d;
    }
}

/* False: the view is not a box. `total` and `offset` count elements. */
static bool find_box(const ls_operand *x, int64_t total, int64_t offset, box *b)
{
    int64_t above = total;
    sort_dims(x, b);
    b->grid.n = b->first.n = b->size.n = b->n;
    for (int i = 0; i < b->n; i++) {
        int64_t stride = x->stride[b->dim[i]];
        if (i > 0 && above % stride != 0) return false;
        b->grid.at[i] = (above + stride - 1) / stride;
        b->first.at[i] = offset / stride;
        b->size.at[i] = x->dim[b->dim[i]];
        if (b->first.at[i] + b->size.at[i] > b->grid.at[i]) return false;
        offset %= stride;
        above = stride;
    }
    if (above == 1 && b->n) return true;
    b->grid.at[b->grid.n++] = above;
    b->first.at[b->first.n++] = offset;
    b->size.at[b->size.n++] = 1;
    return true;
}

static shlo_dims repeated(int64_t number, int n)
{
    shlo_dims list = {.n = n};
    for (int i = 0; i < n; i++) list.at[i] = number;
    return list;
}

/* Dimensions of a view without those that are repeated. */
static shlo_dims distinct_dims(const ls_operand *x)
{
    shlo_dims dims = xla_dims(x);
    for (int d = 0; d < x->ndim; d++)
        if (x->stride[d] == 0) dims.at[d] = 1;
    return dims;
}

/* ---- memory as one array ---- */

/* The same memory as numbers of another type: those that are narrower on the chips are widened first. */
static shlo_value retype(shlo *s, shlo_value v, ls_dtype from, ls_dtype to)
{
    shlo_type type = xla_own_type(to);
    if (xla_own_type(from) == type) return v;
    v = shlo_convert(s, v, xla_own_type(from));
    int64_t n = shlo_numel(v.dims), ratio = (int64_t)(shlo_size(type) / shlo_size(v.type));
    v = ratio > 1 ? shlo_reshape(s, v, SHLO_DIMS(n / ratio, ratio)) : shlo_flat(s, v);
    return shlo_flat(s, shlo_bitcast(s, v, type));
}

static shlo_value contents(xla_lowering *l, xla_place *p)
{
    if (p->is_set) return p->value;
    p->is_set = true;
    if (p->has_contents) {
        p->value = shlo_name(&l->s, p->type, p->dims);
        p->is_argument = true;
        p->argument = p->value.id;
    } else {
        p->value = shlo_number(&l->s, p->type, 0, p->dims);
    }
    return p->value;
}

static xla_place *place_of(xla_lowering *l, const ls_operand *x)
{
    return &l->places[xla_number(x->data)];
}

/* In elements of the library's types, whatever they are in memory. */
static int64_t element_offset(const ls_operand *x)
{
    return (int64_t)(xla_offset(x->data) / shlo_size(xla_own_type(x->dtype)));
}

/* Add elements at the end, or cut them off. */
static shlo_value resize(shlo *s, shlo_value v, int64_t n)
{
    v = shlo_flat(s, v);
    if (v.dims.at[0] == n) return v;
    shlo_value zero = shlo_number(s, v.type, 0, SHLO_SCALAR);
    return shlo_pad(s, v, zero, SHLO_DIMS(0), SHLO_DIMS(n - v.dims.at[0]), SHLO_DIMS(0));
}

static shlo_value to_grid(shlo *s, shlo_value memory, const box *b)
{
    int64_t n = shlo_numel(b->grid);
    if (shlo_numel(memory.dims) != n) memory = resize(s, memory, n);
    return shlo_reshape(s, memory, b->grid);
}

/* Where each distinct element of the view is in memory. */
static shlo_value element_places(shlo *s, const ls_operand *x, int64_t offset)
{
    shlo_dims dims = distinct_dims(x);
    shlo_value index = shlo_integer(s, SHLO_I64, offset, dims);
    for (int d = 0; d < dims.n; d++) {
        if (dims.at[d] == 1) continue;
        shlo_value step = shlo_integer(s, SHLO_I64, x->stride[d], SHLO_SCALAR);
        index = shlo_add(s, index, shlo_mul(s, shlo_iota(s, SHLO_I64, dims, d), step));
    }
    return index;
}

/* ---- reading ---- */

static shlo_value read_box(shlo *s, shlo_value memory, const ls_operand *x, const box *b)
{
    shlo_dims limit = b->first, dims = {.n = b->n};
    for (int i = 0; i < limit.n; i++) limit.at[i] += b->size.at[i];
    shlo_value v = shlo_slice(s, to_grid(s, memory, b), b->first, limit, repeated(1, limit.n));
    int order[LS_MAX_DIMS], place[LS_MAX_DIMS], kept = 0;
    for (int i = 0; i < b->n; i++) {
        dims.at[i] = b->size.at[i];
        place[b->dim[i]] = i;
    }
    for (int d = 0; d < x->ndim; d++)
        if (x->dim[d] != 1 && x->stride[d] != 0) order[kept++] = place[d];
    return shlo_reshape(s, shlo_transpose(s, shlo_reshape(s, v, dims), order), distinct_dims(x));
}

shlo_value xla_read_view(xla_lowering *l, const ls_operand *x)
{
    shlo *s = &l->s;
    xla_place *p;
    shlo_dims dims = xla_dims(x);
    if (shlo_numel(dims) == 0) return shlo_stretch(s, shlo_number(s, xla_type_of(x->dtype), 0, SHLO_SCALAR), dims);
    p = place_of(l, x);
    shlo_value memory = retype(s, contents(l, p), p->dtype, x->dtype), v;
    int64_t offset = element_offset(x);
    box b;
    if (find_box(x, shlo_numel(memory.dims), offset, &b)) v = read_box(s, memory, x, &b);
    else v = shlo_take(s, shlo_flat(s, memory), element_places(s, x, offset), 0);
    return shlo_stretch(s, v, dims);
}

/* ---- writing ---- */

static shlo_value write_box(shlo *s, shlo_value memory, const ls_operand *x, const box *b, shlo_value v)
{
    shlo_dims dims = {.n = 0};
    int order[LS_MAX_DIMS], place[LS_MAX_DIMS];
    for (int d = 0; d < x->ndim; d++) {
        if (x->dim[d] == 1) continue;
        place[d] = dims.n;
        dims.at[dims.n++] = x->dim[d];
    }
    for (int i = 0; i < b->n; i++) order[i] = place[b->dim[i]];
    v = shlo_reshape(s, shlo_transpose(s, shlo_reshape(s, v, dims), order), b->size);
    if (shlo_same_dims(b->size, b->grid)) return v;
    int64_t n = shlo_numel(memory.dims);
    v = shlo_update(s, to_grid(s, memory, b), v, b->first);
    return shlo_numel(b->grid) == n ? v : resize(s, v, n);
}

void xla_write_view(xla_lowering *l, const ls_operand *x, shlo_value v)
{
    shlo *s = &l->s;
    xla_place *p = place_of(l, x);
    shlo_type own = xla_own_type(x->dtype), other = xla_own_type(p->dtype);
    int64_t total = shlo_numel(p->dims) * (int64_t)shlo_size(other) / (int64_t)shlo_size(own);
    int64_t offset = element_offset(x);
    box b;
    v = shlo_convert(s, v, own == other ? p->type : own);
    bool is_box = find_box(x, total, offset, &b);
    bool fills = is_box && shlo_same_dims(b.size, b.grid) && shlo_numel(b.grid) == total;
    shlo_value memory = {.type = v.type,
                         .dims = SHLO_DIMS(total)}; /* a view that fills it does not need its contents */
    if (!fills) memory = retype(s, contents(l, p), p->dtype, x->dtype);
    if (is_box) memory = write_box(s, memory, x, &b, v);
    else memory = shlo_put(s, shlo_flat(s, memory), element_places(s, x, offset), v, 0, NULL);
    p->value = shlo_convert(s, retype(s, memory, x->dtype, p->dtype), p->type);
    p->is_set = p->is_written = true;
}
