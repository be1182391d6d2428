/* number.c - operators with a number in the place of a tensor, put together from those with two tensors. */
#include "ops/op.h"

#include <math.h>

/* ---- comparisons ---- */

/* Which integer stands for a number between two: x < 2.5 is x < 3, and x > 2.5 is x > 2. Exact, unlike a conversion of
 * x to a floating type. */
typedef double standing_for(double value);

/* No integer equals a number between two. */
static double no_integer(double value)
{
    return floor(value) == value ? value : NAN;
}

/* The same for numbers beyond all integers: infinity stands for them. */
static double among_integers(double value, standing_for *whole)
{
    value = whole(value);
    return op_is_whole(value) || isnan(value) ? value : copysign(INFINITY, value);
}

static ls_tensor *compared(ls_opcode op, ls_tensor *x, double value, standing_for *whole,
                           ls_tensor *(*compare)(ls_tensor *, ls_tensor *))
{
    ls_run *run = op_begin(op, 1, 1, &x);
    if (!run) return op_poison(x);
    if (!ls_dtype_is_float(x->view.dtype)) value = among_integers(value, whole);
    return compare(x, op_full(x, op_meeting_type(x, value), value, LS_SCALAR));
}

#define COMPARISON(name, whole)                                                                                        \
    ls_tensor *ls_##name##_scalar(ls_tensor *x, double value)                                                          \
    {                                                                                                                  \
        return compared(LS_OP_##name##_scalar, x, value, whole, ls_##name);                                            \
    }
COMPARISON(eq, no_integer)
COMPARISON(ne, no_integer)
COMPARISON(lt, ceil)
COMPARISON(le, floor)
COMPARISON(gt, floor)
COMPARISON(ge, ceil)

/* ---- choices ---- */

ls_tensor *ls_where_scalar(ls_tensor *condition, ls_tensor *x, double value)
{
    ls_run *run = op_begin(LS_OP_where_scalar, 2, 2, (ls_tensor *[]){condition, x});
    if (!run) return op_poison(condition ? condition : x);
    return ls_where(condition, x, op_full(x, op_meeting_type(x, value), value, LS_SCALAR));
}

ls_tensor *ls_masked_fill(ls_tensor *x, ls_tensor *mask, double value)
{
    ls_run *run = op_begin(LS_OP_masked_fill, 2, 2, (ls_tensor *[]){x, mask});
    return run ? ls_where(mask, op_number(LS_OP_masked_fill, x, value), x) : op_poison(x ? x : mask);
}

/* ---- arithmetic ---- */

ls_tensor *ls_remainder_scalar(ls_tensor *x, double value)
{
    ls_run *run = op_begin(LS_OP_remainder, 1, 1, &x);
    if (!run) return op_poison(x);
    if (value == 0 && !ls_dtype_is_float(x->view.dtype))
        return op_error(run, LS_OP_remainder, LS_ERR_VALUE,
                        "the integers %s cannot be divided by 0; of floating numbers, ls_cast(), it is NaN",
                        OP_TEXT(x));
    return ls_remainder(x, op_full(x, op_meeting_type(x, value), value, LS_SCALAR));
}

ls_tensor *ls_lerp(ls_tensor *a, ls_tensor *b, double weight)
{
    ls_run *run = op_begin(LS_OP_lerp, 2, 2, (ls_tensor *[]){a, b});
    if (!run) return op_poison(a ? a : b);
    ls_tensor *distance = ls_sub(b, a); /* from the nearer end, so that weights 0 and 1 give a and b themselves */
    if (weight < 0.5) return ls_add(a, ls_mul_scalar(distance, weight));
    return ls_sub(b, ls_mul_scalar(distance, 1 - weight));
}
