/* elementwise.c - operators on single elements: arithmetic, comparison, functions, activations, dropout. */
#include "ops/op.h"

/* ---- copies and casts ---- */

static ls_tensor *copied(ls_tensor *x, ls_tensor *y)
{
    ls_node *node;
    if (y->life != LS_LIFE_LIVE || !ls_raw_copy(y, x) || !op_record(LS_OP_copy, 1, &x, 1, &y, NULL, &node))
        return op_poison(x);
    return y;
}

ls_tensor *ls_cast(ls_tensor *x, ls_dtype dtype)
{
    ls_run *run = op_begin(LS_OP_copy, 1, 1, &x);
    if (!run) return op_poison(x);
    if (dtype == x->view.dtype) return x;
    if (ls_dtype_size(dtype) == 0)
        return op_error(run, LS_OP_copy, LS_ERR_DTYPE, "%d is not a number type", (int)dtype);
    return copied(x, ls_tensor_new_like(x, dtype));
}

ls_tensor *ls_clone(ls_tensor *x)
{
    ls_run *run = op_begin(LS_OP_copy, 1, 1, &x);
    return run ? copied(x, ls_tensor_new_like(x, x->view.dtype)) : op_poison(x);
}

ls_tensor *ls_contiguous(ls_tensor *x)
{
    ls_run *run = op_begin(LS_OP_copy, 1, 1, &x);
    if (!run || ls_view_contiguous(&x->view)) return run ? x : op_poison(x);
    return copied(x, op_new(x, x->view.dtype, ls_view_shape(&x->view)));
}

ls_tensor *ls_channels_last(ls_tensor *x)
{
    ls_run *run = op_begin(LS_OP_copy, 1, 1, &x);
    if (!run) return op_poison(x);
    if (x->view.ndim != 4)
        return op_error(run, LS_OP_copy, LS_ERR_SHAPE, "channels last requires [N,C,H,W], not %s", OP_TEXT(x));
    ls_tensor *y = op_new_channels_last(x, x->view.dtype, ls_view_shape(&x->view));
    if (y->life != LS_LIFE_LIVE) return y;
    bool already = true;
    for (int d = 0; d < 4; d++) already &= x->view.dim[d] <= 1 || x->view.stride[d] == y->view.stride[d];
    return already ? x : copied(x, y);
}

BACK(copy)
{
    (void)node;
    dx[0] = dy[0]; /* the walk converts */
}

/* ---- two inputs ---- */

/* A result of this shape, laid out like the first dense input that has it. */
static ls_tensor *result_like(ls_tensor *a, ls_tensor *b, ls_shape shape, ls_dtype dtype)
{
    bool from_a = ls_shape_equal(ls_view_shape(&a->view), shape),
         from_b = ls_shape_equal(ls_view_shape(&b->view), shape);
    if (!from_a && !from_b) return op_new(a, dtype, shape);
    return ls_tensor_new_like_either(from_a ? a : b, from_b ? b : a, dtype);
}

typedef enum result_type { RESULT_PROMOTED, RESULT_FLOAT, RESULT_BOOL } result_type;
typedef enum saved_inputs { SAVE_NOTHING, SAVE_INPUTS, SAVE_ALL } saved_inputs;

static ls_tensor *binary(ls_opcode op, ls_tensor *a, ls_tensor *b, result_type result, saved_inputs save)
{
    ls_run *run = op_begin(op, 2, 2, (ls_tensor *[]){a, b});
    if (!run) return op_poison(a ? a : b);
    ls_dtype dtype = ls_dtype_promote(a->view.dtype, b->view.dtype);
    if (result == RESULT_FLOAT && !ls_dtype_is_float(dtype)) dtype = LS_F32;
    if (op_widens(run, op)) dtype = op_wide_type(run, dtype);
    ls_tensor *in[2] = {op_as(a, dtype), op_as(b, dtype)};
    if (ls_failed(run)) return &run->poison;
    ls_dtype made = result == RESULT_BOOL ? LS_BOOL : dtype;
    ls_call call; /* set field by field: clearing all of it would cost as much as a small addition */
    call.op = op;
    call.n_in = 2;
    call.n_out = 1;
    call.in[0] = &in[0]->view;
    call.in[1] = &in[1]->view;
    call.live = NULL;
    ls_operand left, right;
    ls_tensor *y;
    if (op_same_shape(&in[0]->view, &in[1]->view)) {
        y = ls_tensor_new_like_either(in[0], in[1], made);
    } else {
        ls_shape shape;
        if (!op_broadcast(ls_view_shape(&a->view), ls_view_shape(&b->view), &shape))
            return op_error(run, op, LS_ERR_SHAPE, "%s and %s do not broadcast", OP_TEXT(a), OP_TEXT(b));
        y = result_like(in[0], in[1], shape, made);
        call.in[0] = op_expand_operand(&in[0]->view, shape, &left);
        call.in[1] = op_expand_operand(&in[1]->view, shape, &right);
    }
    if (y->life != LS_LIFE_LIVE) return y;
    call.out[0] = &y->view;
    ls_node *node;
    if (!ls_submit(run, y->storage->device, &call) || !op_record(op, 2, in, 1, &y, NULL, &node)) return &run->poison;
    if (node && save != SAVE_NOTHING) {
        ls_save(node, in[0]);
        ls_save(node, in[1]);
        if (save == SAVE_ALL) ls_save(node, y);
    }
    return y;
}

#define BINARY(name, result, save)                                                                                     \
    ls_tensor *ls_##name(ls_tensor *a, ls_tensor *b)                                                                   \
    {                                                                                                                  \
        return binary(LS_OP_##name, a, b, result, save);                                                               \
    }
BINARY(add, RESULT_PROMOTED, SAVE_NOTHING)
BINARY(sub, RESULT_PROMOTED, SAVE_NOTHING)
BINARY(mul, RESULT_PROMOTED, SAVE_INPUTS)
BINARY(div, RESULT_FLOAT, SAVE_INPUTS)
BINARY(pow, RESULT_PROMOTED, SAVE_ALL)
BINARY(maximum, RESULT_PROMOTED, SAVE_INPUTS)
BINARY(minimum, RESULT_PROMOTED, SAVE_INPUTS)
BINARY(remainder, RESULT_PROMOTED, SAVE_INPUTS)
BINARY(eq, RESULT_BOOL, SAVE_NOTHING)
BINARY(ne, RESULT_BOOL, SAVE_NOTHING)
BINARY(lt, RESULT_BOOL, SAVE_NOTHING)
BINARY(le, RESULT_BOOL, SAVE_NOTHING)
BINARY(gt, RESULT_BOOL, SAVE_NOTHING)
BINARY(ge, RESULT_BOOL, SAVE_NOTHING)
BINARY(logical_and, RESULT_BOOL, SAVE_NOTHING)
BINARY(logical_or, RESULT_BOOL, SAVE_NOTHING)

BACK(add)
{
    for (int i = 0; i < 2; i++)
        if (ls_wants(node, i)) dx[i] = dy[0];
}

BACK(sub)
{
    if (ls_wants(node, 0)) dx[0] = dy[0];
    if (ls_wants(node, 1)) dx[1] = ls_neg(dy[0]);
}

BACK(mul)
{
    for (int i = 0; i < 2; i++)
        if (ls_wants(node, i)) dx[i] = ls_mul(dy[0], node->saved[1 - i]);
}

BACK(div)
{
    ls_tensor *a = node->saved[0], *b = node->saved[1], *quotient = ls_div(dy[0], b);
    if (ls_wants(node, 0)) dx[0] = quotient;
    if (ls_wants(node, 1)) dx[1] = ls_neg(ls_mul(quotient, ls_div(a, b)));
}

BACK(pow)
{
    ls_tensor *a = node->saved[0], *b = node->saved[1], *y = node->saved[2];
    if (ls_wants(node, 0)) /* b a^(b-1), and 0 where b is 0 */
        dx[0] = ls_mul(dy[0], ls_where(ls_logical_not(b), ls_mul(y, b), ls_mul(b, ls_pow(a, ls_add_scalar(b, -1)))));
    if (ls_wants(node, 1)) /* y log(a), and 0 where a is 0 */
        dx[1] = ls_mul(dy[0], ls_where(ls_logical_not(a), ls_mul_scalar(y, 0), ls_mul(y, ls_log(a))));
}

/* The gradient goes to the chosen input; where both are equal each gets half. */
static void back_extreme(ls_node *node, ls_tensor *dy, ls_tensor **dx, ls_tensor *(*wins)(ls_tensor *, ls_tensor *))
{
    ls_tensor *a = node->saved[0], *b = node->saved[1];
    ls_tensor *half = ls_mul_scalar(ls_cast(ls_eq(a, b), dy->view.dtype), 0.5);
    for (int i = 0; i < 2; i++) {
        if (!ls_wants(node, i)) continue;
        ls_tensor *won = ls_cast(wins(node->saved[i], node->saved[1 - i]), dy->view.dtype);
        dx[i] = ls_mul(dy, ls_add(won, half));
    }
}

BACK(maximum)
{
    back_extreme(node, dy[0], dx, ls_gt);
}

BACK(minimum)
{
    back_extreme(node, dy[0], dx, ls_lt);
}

BACK(remainder) /* of a - b floor(a / b) */
{
    ls_tensor *a = node->saved[0], *b = node->saved[1];
    if (ls_wants(node, 0)) dx[0] = dy[0];
    if (ls_wants(node, 1)) dx[1] = ls_neg(ls_mul(dy[0], ls_floor(ls_div(a, b))));
}

ls_tensor *ls_where(ls_tensor *condition, ls_tensor *a, ls_tensor *b)
{
    ls_run *run = op_begin(LS_OP_where, 3, 3, (ls_tensor *[]){condition, a, b});
    if (!run) return op_poison(condition ? condition : a);
    ls_dtype dtype = ls_dtype_promote(a->view.dtype, b->view.dtype);
    ls_tensor *in[3] = {op_as(condition, LS_BOOL), op_as(a, dtype), op_as(b, dtype)};
    if (ls_failed(run)) return &run->poison;
    ls_shape shape;
    if (!op_broadcast(ls_view_shape(&a->view), ls_view_shape(&b->view), &shape) ||
        !op_broadcast(shape, ls_view_shape(&condition->view), &shape))
        return op_error(run, LS_OP_where, LS_ERR_SHAPE, "condition %s, %s and %s do not broadcast", OP_TEXT(condition),
                        OP_TEXT(a), OP_TEXT(b));
    ls_tensor *y = result_like(in[1], in[2], shape, dtype);
    ls_tensor *wide[3] = {op_expanded(in[0], shape), op_expanded(in[1], shape), op_expanded(in[2], shape)};
    ls_node *node;
    if (!op_submit(LS_OP_where, 3, wide, 1, &y, NULL) || !op_record(LS_OP_where, 3, in, 1, &y, NULL, &node))
        return &run->poison;
    ls_save(node, in[0]);
    return y;
}

BACK(where)
{
    ls_tensor *zero = op_full(dy[0], dy[0]->view.dtype, 0, LS_SCALAR);
    if (ls_wants(node, 1)) dx[1] = ls_where(node->saved[0], dy[0], zero);
    if (ls_wants(node, 2)) dx[2] = ls_where(node->saved[0], zero, dy[0]);
}

/* ---- one input ---- */

typedef enum saved_value { KEEP_NONE, KEEP_INPUT, KEEP_OUTPUT } saved_value;

static ls_tensor *unary(ls_opcode op, ls_tensor *x, const ls_attrs *attrs, bool needs_float, ls_dtype result,
                        saved_value keep)
{
    ls_run *run = op_begin(op, 1, 1, &x);
    if (!run) return op_poison(x);
    if (needs_float && !ls_dtype_is_float(x->view.dtype)) {
        x = ls_cast(x, LS_F32);
        if (ls_failed(run)) return &run->poison;
    }
    if (op_widens(run, op)) {
        x = op_as_f32(x);
        if (ls_failed(run)) return &run->poison;
    }
    ls_tensor *y = ls_tensor_new_like(x, result ? result : x->view.dtype);
    ls_node *node;
    if (!op_run(op, 1, &x, 1, &y, attrs, &node)) return &run->poison;
    if (keep == KEEP_INPUT) ls_save(node, x);
    if (keep == KEEP_OUTPUT) ls_save(node, y);
    return y;
}

#define UNARY(name, needs_float, result, keep)                                                                         \
    ls_tensor *ls_##name(ls_tensor *x)                                                                                 \
    {                                                                                                                  \
        return unary(LS_OP_##name, x, NULL, needs_float, result, keep);                                                \
    }
UNARY(neg, false, 0, KEEP_NONE)
UNARY(abs, false, 0, KEEP_INPUT)
UNARY(sign, false, 0, KEEP_NONE)
UNARY(exp, true, 0, KEEP_OUTPUT)
UNARY(log, true, 0, KEEP_INPUT)
UNARY(sqrt, true, 0, KEEP_OUTPUT)
UNARY(rsqrt, true, 0, KEEP_OUTPUT)
UNARY(square, false, 0, KEEP_INPUT)
UNARY(reciprocal, true, 0, KEEP_OUTPUT)
UNARY(sin, true, 0, KEEP_INPUT)
UNARY(cos, true, 0, KEEP_INPUT)
UNARY(erf, true, 0, KEEP_INPUT)
UNARY(floor, true, 0, KEEP_NONE)
UNARY(ceil, true, 0, KEEP_NONE)
UNARY(logical_not, false, LS_BOOL, KEEP_NONE)
UNARY(isfinite, false, LS_BOOL, KEEP_NONE)
UNARY(relu, false, 0, KEEP_OUTPUT)
UNARY(silu, true, 0, KEEP_INPUT)
UNARY(sigmoid, true, 0, KEEP_OUTPUT)
UNARY(tanh, true, 0, KEEP_OUTPUT)

BACK(neg)
{
    (void)node;
    dx[0] = ls_neg(dy[0]);
}

BACK(abs)
{
    dx[0] = ls_mul(dy[0], ls_sign(node->saved[0]));
}

BACK(exp)
{
    dx[0] = ls_mul(dy[0], node->saved[0]);
}

BACK(log)
{
    dx[0] = ls_div(dy[0], node->saved[0]);
}

BACK(sqrt)
{
    dx[0] = ls_div(ls_mul_scalar(dy[0], 0.5), node->saved[0]);
}

BACK(rsqrt) /* -y^3 / 2 */
{
    ls_tensor *y = node->saved[0];
    dx[0] = ls_mul(ls_mul_scalar(dy[0], -0.5), ls_mul(ls_square(y), y));
}

BACK(square)
{
    dx[0] = ls_mul(ls_mul_scalar(dy[0], 2), node->saved[0]);
}

BACK(reciprocal)
{
    dx[0] = ls_neg(ls_mul(dy[0], ls_square(node->saved[0])));
}

BACK(sin)
{
    dx[0] = ls_mul(dy[0], ls_cos(node->saved[0]));
}

BACK(cos)
{
    dx[0] = ls_neg(ls_mul(dy[0], ls_sin(node->saved[0])));
}

BACK(erf) /* 2 / sqrt(pi) exp(-x^2) */
{
    dx[0] = ls_mul(dy[0], ls_mul_scalar(ls_exp(ls_neg(ls_square(node->saved[0]))), 1.1283791670955125739));
}

/* ---- one input and numbers ---- */

ls_tensor *ls_affine(ls_tensor *x, double scale, double shift)
{
    bool whole = op_is_whole(scale) && op_is_whole(shift);
    return unary(LS_OP_affine, x, &(ls_attrs){.affine = {.scale = scale, .shift = shift}}, !whole, 0, KEEP_NONE);
}

ls_tensor *ls_add_scalar(ls_tensor *x, double value)
{
    return ls_affine(x, 1, value);
}

ls_tensor *ls_mul_scalar(ls_tensor *x, double value)
{
    return ls_affine(x, value, 0);
}

BACK(affine)
{
    double scale = node->attrs.affine.scale;
    dx[0] = scale == 1 ? dy[0] : ls_mul_scalar(dy[0], scale);
}

ls_tensor *ls_pow_scalar(ls_tensor *x, double exponent)
{
    return unary(LS_OP_pow_scalar, x, &(ls_attrs){.scalar = {exponent}}, true, 0, KEEP_INPUT);
}

BACK(pow_scalar)
{
    double e = node->attrs.scalar.value;
    dx[0] = e == 0 ? ls_mul_scalar(dy[0], 0) : ls_mul(ls_mul_scalar(dy[0], e), ls_pow_scalar(node->saved[0], e - 1));
}

ls_tensor *ls_clamp(ls_tensor *x, double low, double high)
{
    return unary(LS_OP_clamp, x, &(ls_attrs){.range = {low, high}}, false, 0, KEEP_INPUT);
}

/* ---- activations ---- */

static ls_tensor *gelu(ls_tensor *x, bool use_tanh)
{
    return unary(LS_OP_gelu, x, &(ls_attrs){.gelu = {use_tanh}}, true, 0, KEEP_INPUT);
}

ls_tensor *ls_gelu(ls_tensor *x)
{
    return gelu(x, false);
}

ls_tensor *ls_gelu_tanh(ls_tensor *x)
{
    return gelu(x, true);
}

/* An activation with a parameter, which must be finite, and above 0 for softplus, which divides by it. */
static ls_tensor *shaped(ls_opcode op, ls_tensor *x, const char *name, double value)
{
    bool divides = op == LS_OP_softplus;
    if (x && x->life == LS_LIFE_LIVE && !(isfinite(value) && (value > 0 || !divides)))
        return op_error(x->run, op, LS_ERR_VALUE, "%s is %g; it must be finite%s", name, value,
                        divides ? " and above 0" : "");
    return unary(op, x, &(ls_attrs){.scalar = {value}}, true, 0, KEEP_INPUT);
}

ls_tensor *ls_softplus(ls_tensor *x, double beta)
{
    return shaped(LS_OP_softplus, x, "beta", beta);
}

ls_tensor *ls_elu(ls_tensor *x, double alpha)
{
    return shaped(LS_OP_elu, x, "alpha", alpha);
}

ls_tensor *ls_leaky_relu(ls_tensor *x, double slope)
{
    return shaped(LS_OP_leaky_relu, x, "slope", slope);
}

/* dx = name_grad(dy, saved by forward), one call of the device. */
ls_tensor *op_activation_grad(ls_opcode op, ls_tensor *dy, ls_tensor *saved, const ls_attrs *attrs)
{
    ls_tensor *dx = ls_tensor_new_like(saved, dy->view.dtype);
    return op_submit(op, 2, (ls_tensor *[]){dy, saved}, 1, &dx, attrs) ? dx : &dy->run->poison;
}

#define BACK_ACTIVATION(name)                                                                                          \
    BACK(name)                                                                                                         \
    {                                                                                                                  \
        dx[0] = op_activation_grad(LS_OP_##name##_grad, dy[0], node->saved[0], &node->attrs);                          \
    }
BACK_ACTIVATION(relu)
BACK_ACTIVATION(gelu)
BACK_ACTIVATION(silu)
BACK_ACTIVATION(sigmoid)
BACK_ACTIVATION(tanh)
BACK_ACTIVATION(softplus)
BACK_ACTIVATION(elu)
BACK_ACTIVATION(leaky_relu)
BACK_ACTIVATION(clamp)

/* ---- dropout ---- */

ls_tensor *ls_dropout(ls_tensor *x, double p)
{
    ls_run *run = op_begin(LS_OP_dropout, 1, 1, &x);
    if (!run) return op_poison(x);
    if (!(p >= 0 && p <= 1)) return op_error(run, LS_OP_dropout, LS_ERR_VALUE, "probability %g is not in [0, 1]", p);
    if (p == 0) return x;
    ls_attrs attrs = {.random = {.a = p}};
    ls_tensor *live =
        ls_draw(run, x->storage->device, ls_view_numel(&x->view), &attrs.random.seed, &attrs.random.offset);
    if (!ls_dtype_is_float(x->view.dtype)) x = ls_cast(x, LS_F32);
    if (ls_failed(run)) return &run->poison;
    ls_tensor *y = ls_tensor_new_like(x, x->view.dtype), *kept = NULL;
    if (y->life != LS_LIFE_LIVE) return y;
    /* A bit per element, in whole groups of 256, for the device's gradient. */
    if (ls_must_record(run, 1, &x) && ls_view_contiguous(&x->view) && ls_view_contiguous(&y->view))
        kept = op_new(x, LS_U8, LS_SHAPE((ls_view_numel(&x->view) + 255) / 256 * 32));
    ls_node *node;
    if (!op_submit_live(LS_OP_dropout, 1, &x, 2, (ls_tensor *[]){y, kept}, &attrs, live) ||
        !op_record(LS_OP_dropout, 1, &x, 1, &y, &attrs, &node))
        return &run->poison;
    if (node) {
        ls_save(node, kept);
        ls_save(node, live);
    }
    return y;
}

BACK(dropout) /* the saved mask, or the same mask drawn again from the same counters: as the device prefers */
{
    ls_tensor *out = ls_tensor_new_like(dy[0], dy[0]->view.dtype), *in[2] = {dy[0], node->saved[0]};
    bool ok = op_submit_live(LS_OP_dropout, 2, in, 1, &out, &node->attrs, node->saved[1]);
    dx[0] = ok ? out : &dy[0]->run->poison;
}
