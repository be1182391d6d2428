/* facts.c - properties of each operator. */
#include "device/facts.h"

/* For messages and profiles: rows called otherwise than the function of a program have the function's name. */
const char *ls_op_name(ls_opcode op)
{
    static const char *const names[LS_OP_COUNT] = {
#define LS_OP(name, kind, policy, gradient, attributes, summary) #name,
#include <lockstep/ops.def>
#undef LS_OP
    };
    if (op == LS_OP_fill) return "full";
    if (op == LS_OP_gather) return "take_along_dim";
    return (unsigned)op < LS_OP_COUNT ? names[op] : "?";
}

/* ---- effects ---- */

enum { FIRST = 1u << 0, SECOND = 1u << 1, THIRD = 1u << 2, FOURTH = 1u << 3, FIFTH = 1u << 4, SIXTH = 1u << 5 };

ls_effects ls_op_effects(const ls_call *call)
{
    switch (call->op) {
    case LS_OP_matmul:
    case LS_OP_linear:
    case LS_OP_linear_grad: return (ls_effects){.outputs_read = (uint32_t)call->attrs.product.accumulate};
    case LS_OP_conv2d:
    case LS_OP_conv2d_dinput:
    case LS_OP_conv2d_dweight: return (ls_effects){.outputs_read = (uint32_t)call->attrs.conv.accumulate};
    case LS_OP_sum: return (ls_effects){.outputs_read = (uint32_t)call->attrs.reduce.accumulate};
    case LS_OP_batch_norm_grad:
    case LS_OP_layer_norm_grad:
    case LS_OP_dropout_add_layer_norm_grad:
    case LS_OP_group_norm_grad: return (ls_effects){.outputs_read = (uint32_t)call->attrs.norm.accumulate};
    case LS_OP_conv2d_norm: /* running statistics */ return (ls_effects){.outputs_read = SECOND | THIRD};
    case LS_OP_batch_norm: /* the same */ return (ls_effects){.outputs_read = FIFTH | SIXTH};
    case LS_OP_index_add:
    case LS_OP_sum_squares: return (ls_effects){.outputs_read = FIRST};
    case LS_OP_unscale:
    case LS_OP_adagrad_step:
    case LS_OP_sgd_step: return (ls_effects){.outputs_read = FIRST | SECOND};
    case LS_OP_rmsprop_step:
    case LS_OP_adam_step: return (ls_effects){.outputs_read = FIRST | SECOND | THIRD};
    case LS_OP_centered_rmsprop_step: return (ls_effects){.outputs_read = FIRST | SECOND | THIRD | FOURTH};
    default: return (ls_effects){0};
    }
}

/* ---- attributes ---- */

#define BYTES(member) BYTES_##member = sizeof((ls_attrs *)NULL)->member
enum {
    BYTES_none,
    BYTES(affine),
    BYTES(range),
    BYTES(scalar),
    BYTES(gelu),
    BYTES(random),
    BYTES(reduce),
    BYTES(axis),
    BYTES(product),
    BYTES(conv),
    BYTES(pool),
    BYTES(interpolate),
    BYTES(attention),
    BYTES(norm),
    BYTES(normalize),
    BYTES(loss),
    BYTES(adam),
    BYTES(sgd),
    BYTES(rmsprop),
    BYTES(adagrad),
    BYTES(collective),
};

size_t ls_op_attrs_size(ls_opcode op)
{
    static const uint8_t bytes[LS_OP_COUNT] = {
#define LS_OP(name, kind, policy, gradient, attributes, summary) BYTES_##attributes,
#include <lockstep/ops.def>
#undef LS_OP
    };
    return (unsigned)op < LS_OP_COUNT ? bytes[op] : 0;
}

/* ---- live values ---- */

/* Pointers to the live values in an operator's attributes. */
static int live_numbers(ls_call *call, double *at[LS_LIVE_MOST])
{
    switch (call->op) {
    case LS_OP_fill: return at[0] = &call->attrs.affine.shift, 1;
    case LS_OP_unscale: return at[0] = &call->attrs.scalar.value, 1;
    case LS_OP_sgd_step: return at[0] = &call->attrs.sgd.lr, at[1] = &call->attrs.sgd.momentum, 2;
    case LS_OP_centered_rmsprop_step:
    case LS_OP_rmsprop_step: return at[0] = &call->attrs.rmsprop.lr, at[1] = &call->attrs.rmsprop.momentum, 2;
    case LS_OP_adagrad_step: return at[0] = &call->attrs.adagrad.lr, 1;
    case LS_OP_adam_step:
        at[0] = &call->attrs.adam.lr;
        at[1] = &call->attrs.adam.bias1;
        at[2] = &call->attrs.adam.bias2;
        at[3] = &call->attrs.adam.beta1;
        return 4;
    default: return 0;
    }
}

int ls_call_take_live(ls_call *call, double number[LS_LIVE_MOST])
{
    double *at[LS_LIVE_MOST];
    int count = live_numbers(call, at);
    for (int i = 0; i < count; i++) {
        number[i] = *at[i];
        *at[i] = 0;
    }
    return count;
}

void ls_call_settle(ls_call *call)
{
    double *at[LS_LIVE_MOST];
    int count = live_numbers(call, at);
    for (int i = 0; i < count; i++) *at[i] = ((const double *)call->live->data)[i];
    if (count) return;
    const uint64_t *drawn = call->live->data;
    uint64_t *seed, *offset;
    switch (call->op) {
    case LS_OP_attention:
    case LS_OP_attention_grad: seed = &call->attrs.attention.seed, offset = &call->attrs.attention.offset; break;
    case LS_OP_dropout_add_layer_norm:
    case LS_OP_dropout_add_layer_norm_grad: seed = &call->attrs.norm.seed, offset = &call->attrs.norm.offset; break;
    default: seed = &call->attrs.random.seed, offset = &call->attrs.random.offset;
    }
    *seed = drawn[0];
    *offset += drawn[1];
}
