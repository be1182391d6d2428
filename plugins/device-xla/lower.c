/* lower.c - from an opcode to its lowering, and the operands of the call being lowered. */
#include "lower.h"

static xla_lower_fn *const functions[LS_OP_COUNT] = {
#define LS_XLA_KERNEL(name) [LS_OP_##name] = xla_##name,
#define LS_XLA_GRAD(name) LS_XLA_KERNEL(name)
#define LS_XLA_UPDATE(name) LS_XLA_KERNEL(name)
#define LS_XLA_VIEW(name)
#define LS_XLA_BUILT(name)
#define LS_XLA_COLLECTIVE(name) LS_XLA_KERNEL(name)
#define LS_OP(name, kind, policy, gradient, attributes, summary) LS_XLA_##kind(name)
#include <lockstep/ops.def>
#undef LS_OP
};

xla_lower_fn *xla_lowering_of(ls_opcode op)
{
    return (unsigned)op < LS_OP_COUNT ? functions[op] : NULL;
}

/* ---- number types ---- */

/* Booleans are bytes on the chip as well: what the library wrote comes back as it was. */
shlo_type xla_own_type(ls_dtype dtype)
{
    switch (dtype) {
    case LS_I8: return SHLO_I8;
    case LS_I32: return SHLO_I32;
    case LS_I64: return SHLO_I64;
    case LS_F16: return SHLO_F16;
    case LS_BF16: return SHLO_BF16;
    case LS_F32: return SHLO_F32;
    case LS_F64: return SHLO_F64;
    default: return SHLO_U8;
    }
}

shlo_type xla_type_of(ls_dtype dtype)
{
    return xla_own_type(xla_narrowed(dtype));
}

shlo_type xla_compute_type(ls_dtype dtype)
{
    return dtype == LS_BOOL ? SHLO_I32 : xla_sum_type(xla_type_of(dtype));
}

shlo_dims xla_dims(const ls_operand *x)
{
    shlo_dims dims = {.n = x->ndim};
    for (int i = 0; i < x->ndim; i++) dims.at[i] = x->dim[i];
    return dims;
}

ls_dtype xla_promote(ls_dtype a, ls_dtype b)
{
    ls_dtype larger = a > b ? a : b, smaller = a > b ? b : a;
    if (larger == LS_BF16 && smaller == LS_F16) return LS_F32;
    return larger == LS_I8 && smaller == LS_U8 ? LS_I32 : larger;
}

/* ---- operands ---- */

bool xla_has_in(const ls_call *call, int i)
{
    return i < call->n_in && call->in[i];
}

bool xla_has_out(const ls_call *call, int i)
{
    return i < call->n_out && call->out[i];
}

static shlo_value read_raw(xla_lowering *l, const ls_operand *x)
{
    shlo_value v = xla_read_view(l, x);
    return x->dtype == LS_BOOL ? shlo_convert(&l->s, v, SHLO_I1) : v;
}

shlo_value xla_in_raw(xla_lowering *l, int i)
{
    return read_raw(l, l->call->in[i]);
}

shlo_value xla_in_as(xla_lowering *l, int i, shlo_type type)
{
    return shlo_convert(&l->s, xla_in_raw(l, i), type);
}

shlo_value xla_in(xla_lowering *l, int i)
{
    return xla_in_as(l, i, xla_compute_type(l->call->in[i]->dtype));
}

shlo_value xla_channels_in(xla_lowering *l, int i, shlo_value x)
{
    shlo_dims dims = x.dims;
    for (int d = 0; d < dims.n; d++) dims.at[d] = d == 1 ? x.dims.at[1] : 1;
    return shlo_reshape(&l->s, xla_in_as(l, i, x.type), dims);
}

shlo_value xla_old(xla_lowering *l, int i)
{
    const ls_operand *x = l->call->out[i];
    return shlo_convert(&l->s, read_raw(l, x), xla_compute_type(x->dtype));
}

/* Integers wrap around, also if they come from floating numbers. */
static shlo_value to_memory(shlo *s, shlo_value v, ls_dtype dtype)
{
    shlo_type type = xla_type_of(dtype);
    if (dtype == LS_BOOL) v = shlo_convert(s, v, SHLO_I1);
    else if (shlo_is_float(v.type) && !shlo_is_float(type)) v = shlo_convert(s, v, SHLO_I64);
    return shlo_convert(s, v, type);
}

void xla_out(xla_lowering *l, int i, shlo_value v)
{
    if (!xla_has_out(l->call, i)) return;
    const ls_operand *x = l->call->out[i];
    shlo_dims dims = xla_dims(x);
    if (shlo_numel(dims) == 0) return;
    v = to_memory(&l->s, v, x->dtype);
    v = shlo_numel(v.dims) == shlo_numel(dims) ? shlo_reshape(&l->s, v, dims) : shlo_stretch(&l->s, v, dims);
    xla_write_view(l, x, v);
}

void xla_out_sum(xla_lowering *l, int i, shlo_value v, int32_t accumulate)
{
    if (!xla_has_out(l->call, i)) return;
    if (accumulate >> i & 1) {
        shlo_value old = shlo_convert(&l->s, xla_old(l, i), v.type);
        v = shlo_add(&l->s, old, shlo_reshape(&l->s, v, old.dims));
    }
    xla_out(l, i, v);
}

shlo_value xla_in_range(shlo *s, shlo_value index, int64_t limit)
{
    shlo_value low = shlo_compare(s, "GE", index, shlo_integer(s, index.type, 0, SHLO_SCALAR));
    shlo_value high = shlo_compare(s, "LT", index, shlo_integer(s, index.type, limit, SHLO_SCALAR));
    return shlo_binary(s, "and", low, high);
}

void xla_require(xla_lowering *l, shlo_value condition)
{
    shlo *s = &l->s;
    shlo_value none = shlo_integer(s, SHLO_I32, 0, SHLO_SCALAR);
    shlo_value own = shlo_integer(s, SHLO_I32, 1 + (int64_t)l->call->op, SHLO_SCALAR);
    shlo_value all = condition.dims.n ? shlo_reduce(s, "and", condition, xla_all_dims(condition)) : condition;
    shlo_value fault = shlo_select(s, shlo_reshape(s, all, SHLO_SCALAR), none, own);
    if (l->can_fail) fault = shlo_select(s, shlo_compare(s, "EQ", l->fault, none), fault, l->fault);
    l->fault = fault;
    l->can_fail = true;
}

shlo_value xla_live(xla_lowering *l, int i)
{
    shlo_value all = xla_read_view(l, l->call->live);
    return shlo_reshape(&l->s, shlo_slice(&l->s, all, SHLO_DIMS(i), SHLO_DIMS(i + 1), SHLO_DIMS(1)), SHLO_SCALAR);
}
