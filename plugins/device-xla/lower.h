/* lower.h - from recorded calls to a program: what the lowerings of operators use.
 *
 * A row of ops.def is lowered by a function xla_<name>(), which reads the values of inputs, writes StableHLO, and sets
 * the values of outputs. Views, parts of tensors and number types in memory are taken care of here: an input arrives in
 * the dimensions of the call, an output is written to wherever it lies. A row without such a function runs on the host.
 * Outputs may share memory with inputs: read all inputs before the first output is set.
 * Operand orders are documented above the CPU functions (src/device/cpu). */
#ifndef LOCKSTEP_XLA_LOWER_H
#define LOCKSTEP_XLA_LOWER_H

#include <lockstep/plugin.h>

#include "narrow.h"
#include "shlo.h"

/* An address is the number of a storage and an offset in bytes; within a recording, the number of a mention. */
enum { XLA_OFFSET_BITS = 40 };

static inline size_t xla_number(const void *address)
{
    return (size_t)((uintptr_t)address >> XLA_OFFSET_BITS);
}

static inline size_t xla_offset(const void *address)
{
    return (size_t)((uintptr_t)address & (((uintptr_t)1 << XLA_OFFSET_BITS) - 1));
}

static inline void *xla_address(size_t number, size_t offset)
{
    return (void *)(((uintptr_t)number << XLA_OFFSET_BITS) + offset);
}

/* Memory of the program: a storage that was mentioned. */
typedef struct xla_place {
    ls_dtype dtype;
    shlo_type type; /* in memory */
    shlo_dims dims;
    bool has_contents; /* when the program begins */
    bool is_argument;  /* it is read before it was written */
    int argument;      /* name of that argument */
    bool is_written;   /* by the program */
    bool is_set;
    shlo_value value; /* the whole of it at this point of the program, if is_set: in row-major order, any dimensions */
} xla_place;

typedef struct xla_lowering {
    shlo s;
    const ls_host *host;
    xla_place *places; /* [mention] */
    const ls_call *call;
    bool pads_lines;  /* the last dimension of a tensor takes room for 128 elements and more: on TPUs */
    bool is_joint;    /* a call is made by all processes together */
    bool can_fail;    /* a call has a condition that only the device can check */
    shlo_value fault; /* i32 []: 1 + the opcode of the first call whose condition was not met; 0: none */
} xla_lowering;

typedef void xla_lower_fn(xla_lowering *l, const ls_call *call);

/* A row without a function of its own runs on the host. */
#define LS_XLA_KERNEL(name) xla_lower_fn xla_##name __attribute__((weak));
#define LS_XLA_GRAD(name) LS_XLA_KERNEL(name)
#define LS_XLA_UPDATE(name) LS_XLA_KERNEL(name)
#define LS_XLA_VIEW(name)
#define LS_XLA_BUILT(name)
#define LS_XLA_COLLECTIVE(name) LS_XLA_KERNEL(name)
#define LS_OP(name, kind, policy, gradient, attributes, summary) LS_XLA_##kind(name)
#include <lockstep/ops.def>
#undef LS_OP
#undef LS_XLA_KERNEL
#undef LS_XLA_GRAD
#undef LS_XLA_UPDATE
#undef LS_XLA_VIEW
#undef LS_XLA_BUILT
#undef LS_XLA_COLLECTIVE

/* NULL: the row has no function. */
xla_lower_fn *xla_lowering_of(ls_opcode op);

/* ---- operands of the call being lowered ---- */

/* Is there such an operand? Optional ones may be missing. */
bool xla_has_in(const ls_call *call, int i);
bool xla_has_out(const ls_call *call, int i);
/* Input i as the number type that arithmetic on it uses. xla_in_as: as another. */
shlo_value xla_in(xla_lowering *l, int i);
shlo_value xla_in_as(xla_lowering *l, int i, shlo_type type);
/* Input i in its own type; booleans are i1. */
shlo_value xla_in_raw(xla_lowering *l, int i);
/* What output i holds, for those that are updated or added to; as the type arithmetic on it uses. */
shlo_value xla_old(xla_lowering *l, int i);
/* Write output i: `v` is converted to its number type, reshaped or broadcast to its dimensions. Outputs that the call
 * lacks are ignored. */
void xla_out(xla_lowering *l, int i, shlo_value v);
/* The same, added to what it holds if bit i of `accumulate` is set. */
void xla_out_sum(xla_lowering *l, int i, shlo_value v, int32_t accumulate);
/* The call fails unless `condition`, i1, holds everywhere: the host reports it when the program has ended. */
void xla_require(xla_lowering *l, shlo_value condition);
/* The same for indices: 0 <= index < limit. */
shlo_value xla_in_range(shlo *s, shlo_value index, int64_t limit);

/* Number i of ls_call.live, a scalar in its own type. */
shlo_value xla_live(xla_lowering *l, int i);

/* The number type of an array: as the library knows it; in memory, where it may be narrower (narrow.h); and the one
 * that arithmetic on it uses: i32 for bool, f32 for half types. */
shlo_type xla_own_type(ls_dtype dtype);
shlo_type xla_type_of(ls_dtype dtype);
shlo_type xla_compute_type(ls_dtype dtype);
/* The type that products of such operands are added in. */
static inline shlo_type xla_sum_type(shlo_type operand)
{
    return operand == SHLO_F16 || operand == SHLO_BF16 ? SHLO_F32 : operand;
}

/* The type that arithmetic on both uses. */
ls_dtype xla_promote(ls_dtype a, ls_dtype b);
shlo_dims xla_dims(const ls_operand *x);
/* The mask of one dimension, of all, of the last k. */
static inline uint32_t xla_dim_mask(int dim)
{
    return 1u << dim;
}

static inline uint32_t xla_last_dims(int ndim, int k)
{
    return ((1u << k) - 1) << (ndim - k);
}

static inline uint32_t xla_all_dims(shlo_value x)
{
    return xla_last_dims(x.dims.n, x.dims.n);
}

/* Of [N,C,...], all but the channels. */
static inline uint32_t xla_dims_but_channels(shlo_value x)
{
    return xla_all_dims(x) & ~xla_dim_mask(1);
}

/* Input i, a vector over the channels of x [N,C,...], as [1,C,1,...] and of its type. */
shlo_value xla_channels_in(xla_lowering *l, int i, shlo_value x);

/* ---- activations (lower_activation.c) ---- */

shlo_value xla_activate(shlo *s, ls_activation activation, shlo_value x);
/* dy times the slope, computed from the output for ReLU, tanh and sigmoid, else from the input. */
shlo_value xla_activate_grad(shlo *s, ls_activation activation, shlo_value dy, shlo_value saved);

/* ---- batch normalisation (lower_batch_norm.c) ---- */

/* How a call normalises x [N,C,...]: its inputs from `first` on are weight?, bias?, mean?, var?, residual?, its outputs
 * from `running` on running_mean?, running_var?, which move in training. */
typedef struct xla_batch_normed {
    int first, running;
    double epsilon, momentum;
    bool training;
} xla_batch_normed;

typedef struct xla_normed {
    shlo_value y;          /* before an activation */
    shlo_value mean, rstd; /* [1,C,1,...] */
} xla_normed;
xla_normed xla_norm_channels(xla_lowering *l, shlo_value x, const xla_batch_normed *how);

/* ---- views (view.c) ---- */

/* An operand of the recording as a value of its number type and dimensions. */
shlo_value xla_read_view(xla_lowering *l, const ls_operand *x);
/* Write `v`, of the operand's number type and dimensions, to where it lies. */
void xla_write_view(xla_lowering *l, const ls_operand *x, shlo_value v);

#endif
