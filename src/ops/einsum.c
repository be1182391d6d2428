/* einsum.c - sums of products by an equation: operands are multiplied one after the other, each time as a batch of
 * matrices or element by element, and an index is summed over as soon as nothing else needs it. */
#include <string.h>

#include "ops/op.h"

/* Indices are numbered: letters, then the dimensions that "..." stands for, of which the last one is the last of every
 * operand. A set of them is a mask. */
enum { LETTERS = 52, INDICES = LETTERS + LS_MAX_DIMS };

typedef struct indices {
    int count;
    uint8_t index[LS_MAX_DIMS];
} indices;

typedef struct term {
    ls_tensor *tensor;
    indices dims; /* one for each of its dimensions */
} term;

typedef struct equation {
    ls_run *run;
    const char *text;
    int64_t size[INDICES]; /* of each index; 0: not seen */
    bool seen[INDICES];
    indices result;
} equation;

static uint64_t mask_of(const indices *list)
{
    uint64_t mask = 0;
    for (int i = 0; i < list->count; i++) mask |= UINT64_C(1) << list->index[i];
    return mask;
}

static bool holds(uint64_t mask, int index)
{
    return mask >> index & 1;
}

/* The indices of a list that are in the mask, in the order of the list. */
static indices chosen(const indices *list, uint64_t mask)
{
    indices some = {0};
    for (int i = 0; i < list->count; i++)
        if (holds(mask, list->index[i])) some.index[some.count++] = list->index[i];
    return some;
}

static indices joined(indices a, const indices *b)
{
    for (int i = 0; i < b->count && a.count < LS_MAX_DIMS; i++) a.index[a.count++] = b->index[i];
    return a;
}

/* ---- reading ---- */

static int letter_number(char c)
{
    return c >= 'a' && c <= 'z' ? c - 'a' : c >= 'A' && c <= 'Z' ? c - 'A' + 26 : -1;
}

/* Read the indices of an operand or of the result up to `end`; `dots` is how many "..." stands for, -1: the rest of
 * `room` dimensions. False, with an error, if the text is not a list of indices. */
static bool read_indices(const equation *e, const char *at, const char *end, int dots, int room, indices *list)
{
    int letters = 0, spreads = 0;
    for (const char *c = at; c < end; c++) letters += letter_number(*c) >= 0;
    for (const char *c = at; end - c >= 3; c++) spreads += memcmp(c, "...", 3) == 0;
    if (dots < 0) dots = room - letters;
    if (spreads > 1)
        return op_error(e->run, LS_OP_einsum, LS_ERR_VALUE,
                        "%s: \"...\" can occur once in \"%.*s\": it stands for all dimensions without a letter",
                        e->text, (int)(end - at), at),
               false;
    if (letters + (spreads && dots > 0 ? dots : 0) > LS_MAX_DIMS)
        return op_error(e->run, LS_OP_einsum, LS_ERR_VALUE, "%s: \"%.*s\" has more than %d indices", e->text,
                        (int)(end - at), at, LS_MAX_DIMS),
               false;
    for (*list = (indices){0}; at < end; at++) {
        int number = letter_number(*at);
        if (*at == ' ') continue;
        if (number >= 0 && holds(mask_of(list), number))
            return op_error(e->run, LS_OP_einsum, LS_ERR_UNSUPPORTED,
                            "%s: index %c occurs twice in one place; diagonals are not supported", e->text, *at),
                   false;
        if (number >= 0) list->index[list->count++] = (uint8_t)number;
        bool spread = end - at >= 3 && memcmp(at, "...", 3) == 0;
        for (int i = 0; spread && i < dots; i++) list->index[list->count++] = (uint8_t)(INDICES - dots + i);
        if (spread) at += 2;
        else if (number < 0)
            return op_error(e->run, LS_OP_einsum, LS_ERR_VALUE, "%s: \"%.*s\" is not a list of letters", e->text,
                            (int)(end - at), at),
                   false;
    }
    return true;
}

/* Record the sizes of an operand's indices; a size of 1 is broadcast. */
static bool sizes_agree(equation *e, const term *x)
{
    const ls_operand *view = &x->tensor->view;
    if (x->dims.count != view->ndim)
        return op_error(e->run, LS_OP_einsum, LS_ERR_SHAPE, "%s: the number of indices is %d for %s", e->text,
                        x->dims.count, OP_TEXT(x->tensor)),
               false;
    for (int d = 0; d < view->ndim; d++) {
        int index = x->dims.index[d];
        if (!e->seen[index] || e->size[index] == 1) e->size[index] = view->dim[d];
        else if (view->dim[d] != 1 && view->dim[d] != e->size[index])
            return op_error(e->run, LS_OP_einsum, LS_ERR_SHAPE, "%s: dimension %d of %s is of size %lld elsewhere",
                            e->text, d, OP_TEXT(x->tensor), (long long)e->size[index]),
                   false;
        e->seen[index] = true;
    }
    return true;
}

/* What is after "->", or all dimensions of "..." and the letters that occur once, in alphabetical order. */
static bool read_result(equation *e, const char *arrow, const term *terms, int64_t count)
{
    int often[INDICES] = {0}, dots = 0;
    for (int64_t i = 0; i < count; i++)
        for (int d = 0; d < terms[i].dims.count; d++) often[terms[i].dims.index[d]]++;
    for (int i = LETTERS; i < INDICES; i++) dots += often[i] > 0;
    if (arrow) {
        if (!read_indices(e, arrow + 2, arrow + strlen(arrow), dots, 0, &e->result)) return false;
        for (int i = 0; i < e->result.count; i++)
            if (!often[e->result.index[i]])
                return op_error(e->run, LS_OP_einsum, LS_ERR_VALUE, "%s: the result has an index that no operand has",
                                e->text),
                       false;
        return true;
    }
    for (int i = INDICES - dots; i < INDICES; i++) e->result.index[e->result.count++] = (uint8_t)i;
    static const char sorted[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    for (int i = 0; i < LETTERS; i++) {
        int number = letter_number(sorted[i]);
        if (often[number] != 1) continue;
        if (e->result.count == LS_MAX_DIMS)
            return op_error(e->run, LS_OP_einsum, LS_ERR_SHAPE, "%s: the result has more than %d dimensions", e->text,
                            LS_MAX_DIMS),
                   false;
        e->result.index[e->result.count++] = (uint8_t)number;
    }
    return true;
}

/* ---- computing ---- */

static ls_tensor *in_order(const term *x, const indices *order)
{
    ls_shape dims = {.ndim = order->count};
    for (int i = 0; i < order->count; i++)
        for (int d = 0; d < x->dims.count; d++)
            if (x->dims.index[d] == order->index[i]) dims.dim[i] = d;
    return ls_permute_dims(x->tensor, dims);
}

static void sum_over(term *x, uint64_t gone)
{
    ls_shape dims = {0};
    for (int d = 0; d < x->dims.count; d++)
        if (holds(gone, x->dims.index[d])) dims.dim[dims.ndim++] = d;
    if (dims.ndim) x->tensor = ls_sum_dims(x->tensor, dims, false);
    x->dims = chosen(&x->dims, ~gone);
}

static int64_t product_of(const equation *e, const indices *list)
{
    int64_t n = 1;
    for (int i = 0; i < list->count; i++) n *= e->size[list->index[i]];
    return n;
}

static ls_shape shape_of(const equation *e, const indices *list)
{
    ls_shape shape = {.ndim = list->count};
    for (int i = 0; i < list->count; i++) shape.dim[i] = e->size[list->index[i]];
    return shape;
}

/* The tensor with its dimensions in this order, all of full size. */
static ls_tensor *full_size(const equation *e, const term *x, indices order)
{
    return ls_expand_shape(in_order(x, &order), shape_of(e, &order));
}

/* Without indices to sum over: dimensions that one of them lacks have size 1. */
static ls_tensor *multiplied(const term *x, const indices *all)
{
    indices own = chosen(all, mask_of(&x->dims));
    ls_tensor *t = in_order(x, &own);
    for (int i = 0; i < all->count; i++)
        if (!holds(mask_of(&x->dims), all->index[i])) t = ls_unsqueeze(t, i);
    return t;
}

/* a := a times b, summed over indices that are not needed any more. */
static bool multiply(const equation *e, term *a, term b, uint64_t needed)
{
    uint64_t in_a = mask_of(&a->dims), in_b = mask_of(&b.dims);
    sum_over(a, in_a & ~in_b & ~needed);
    sum_over(&b, in_b & ~in_a & ~needed);
    indices batch = chosen(&a->dims, in_b & needed), rows = chosen(&a->dims, ~in_b);
    indices summed = chosen(&a->dims, in_b & ~needed), columns = chosen(&b.dims, ~in_a);
    if (batch.count + rows.count + columns.count > LS_MAX_DIMS)
        return op_error(e->run, LS_OP_einsum, LS_ERR_SHAPE, "%s: a product of two operands has more than %d dimensions",
                        e->text, LS_MAX_DIMS),
               false;
    indices left = joined(batch, &rows), right = joined(batch, &summed), all = joined(left, &columns);
    if (!summed.count) {
        a->tensor = ls_mul(multiplied(a, &all), multiplied(&b, &all));
    } else if (!ls_dtype_is_float(ls_dtype_promote(a->tensor->view.dtype, b.tensor->view.dtype))) {
        op_error(e->run, LS_OP_einsum, LS_ERR_DTYPE,
                 "%s: products of integers, %s and %s, cannot be summed; ls_cast() one of them to a floating type",
                 e->text, OP_TEXT(a->tensor), OP_TEXT(b.tensor));
    } else {
        int64_t n = product_of(e, &batch), m = product_of(e, &rows), k = product_of(e, &summed);
        ls_tensor *x = full_size(e, a, joined(left, &summed)), *y = full_size(e, &b, joined(right, &columns));
        x = batch.count ? ls_reshape(x, n, m, k) : ls_reshape(x, m, k);
        y = batch.count ? ls_reshape(y, n, k, product_of(e, &columns)) : ls_reshape(y, k, product_of(e, &columns));
        a->tensor = ls_reshape_shape(ls_matmul(x, y), shape_of(e, &all));
    }
    a->dims = all;
    return !ls_failed(e->run);
}

static ls_tensor *computed(const equation *e, const term *terms, int64_t count)
{
    term whole = terms[0];
    for (int64_t i = 1; i < count; i++) {
        uint64_t needed = mask_of(&e->result);
        for (int64_t k = i + 1; k < count; k++) needed |= mask_of(&terms[k].dims);
        if (!multiply(e, &whole, terms[i], needed)) return &e->run->poison;
    }
    sum_over(&whole, ~mask_of(&e->result));
    return in_order(&whole, &e->result);
}

/* The operands' indices, separated by commas; false, with an error, if they do not fit the tensors. */
static bool read_operands(equation *e, const char *end, ls_tensor *const *tensors, int64_t count, term *terms)
{
    const char *at = e->text;
    int64_t listed = 1;
    for (const char *c = at; c < end; c++) listed += *c == ',';
    if (listed != count)
        return op_error(e->run, LS_OP_einsum, LS_ERR_VALUE, "%s is for %lld operands, and %lld were given", e->text,
                        (long long)listed, (long long)count),
               false;
    for (int64_t i = 0; i < count; i++) {
        const char *comma = memchr(at, ',', (size_t)(end - at)), *stop = comma ? comma : end;
        terms[i].tensor = tensors[i];
        if (!read_indices(e, at, stop, -1, tensors[i]->view.ndim, &terms[i].dims) || !sizes_agree(e, &terms[i]))
            return false;
        at = stop + 1;
    }
    return true;
}

ls_tensor *ls_einsum_n(const char *text, ls_tensor *const *tensors, int64_t count)
{
    if (!text || !tensors || count < 1)
        return LS_POISON(ls_run_of(NULL), LS_ERR_VALUE, "einsum: an equation and tensors are needed");
    ls_run *run = op_begin(LS_OP_einsum, (int)count, (int)count, tensors);
    if (!run) return op_poison(tensors[0]);
    term *terms = ls_sys_alloc((size_t)count * sizeof *terms);
    if (!terms) return op_error(run, LS_OP_einsum, LS_ERR_MEMORY, "no memory");
    equation e = {.run = run, .text = text};
    const char *arrow = strstr(text, "->"), *end = arrow ? arrow : text + strlen(text);
    bool ok = read_operands(&e, end, tensors, count, terms) && read_result(&e, arrow, terms, count);
    ls_tensor *result = ok ? computed(&e, terms, count) : &run->poison;
    ls_sys_free(terms);
    return ls_failed(run) ? &run->poison : result;
}
