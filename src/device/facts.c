/* facts.c - what is to be known of each operator. */
#include "device/facts.h"

const char *ls_op_name(ls_opcode op)
{
    static const char *const names[LS_OP_COUNT] = {
#define LS_OP(name, kind, policy, gradient, summary) #name,
#include <lockstep/ops.def>
#undef LS_OP
    };
    return (unsigned)op < LS_OP_COUNT ? names[op] : "?";
}

/* ---- effects ---- */

enum { FIRST = 1u << 0, SECOND = 1u << 1, THIRD = 1u << 2, FOURTH = 1u << 3, FIFTH = 1u << 4 };

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
    case LS_OP_batch_norm: /* the running statistics */
        return (ls_effects){.inputs_written = call->attrs.norm.training ? FOURTH | FIFTH : 0};
    case LS_OP_index_add:
    case LS_OP_sum_squares: return (ls_effects){.outputs_read = FIRST};
    case LS_OP_unscale:
    case LS_OP_sgd_step: return (ls_effects){.outputs_read = FIRST | SECOND};
    case LS_OP_adam_step: return (ls_effects){.outputs_read = FIRST | SECOND | THIRD};
    default: return (ls_effects){0};
    }
}

/* ---- attributes ---- */

size_t ls_op_attrs_size(ls_opcode op)
{
#define SIZE(member) return sizeof((ls_attrs *)NULL)->member
    switch (op) {
    case LS_OP_affine:
    case LS_OP_fill:
    case LS_OP_arange: SIZE(affine);
    case LS_OP_clamp:
    case LS_OP_clamp_grad: SIZE(range);
    case LS_OP_pow_scalar:
    case LS_OP_softplus:
    case LS_OP_softplus_grad:
    case LS_OP_elu:
    case LS_OP_elu_grad:
    case LS_OP_leaky_relu:
    case LS_OP_leaky_relu_grad:
    case LS_OP_unscale: SIZE(scalar);
    case LS_OP_gelu:
    case LS_OP_gelu_grad: SIZE(gelu);
    case LS_OP_uniform:
    case LS_OP_normal:
    case LS_OP_bernoulli:
    case LS_OP_dropout:
    case LS_OP_randperm: SIZE(random);
    case LS_OP_sum:
    case LS_OP_mean:
    case LS_OP_max:
    case LS_OP_min:
    case LS_OP_var:
    case LS_OP_norm: SIZE(reduce);
    case LS_OP_argmax:
    case LS_OP_argmin:
    case LS_OP_cumsum:
    case LS_OP_topk:
    case LS_OP_sort:
    case LS_OP_softmax:
    case LS_OP_softmax_grad:
    case LS_OP_log_softmax:
    case LS_OP_log_softmax_grad:
    case LS_OP_gather:
    case LS_OP_scatter_add:
    case LS_OP_index_select:
    case LS_OP_index_add: SIZE(axis);
    case LS_OP_matmul:
    case LS_OP_linear:
    case LS_OP_linear_grad: SIZE(product);
    case LS_OP_conv2d:
    case LS_OP_conv2d_norm:
    case LS_OP_conv2d_dinput:
    case LS_OP_conv2d_dweight: SIZE(conv);
    case LS_OP_max_pool2d:
    case LS_OP_max_pool2d_grad:
    case LS_OP_avg_pool2d:
    case LS_OP_avg_pool2d_grad: SIZE(pool);
    case LS_OP_interpolate:
    case LS_OP_interpolate_grad: SIZE(interpolate);
    case LS_OP_attention:
    case LS_OP_attention_grad: SIZE(attention);
    case LS_OP_batch_norm:
    case LS_OP_batch_norm_grad:
    case LS_OP_layer_norm:
    case LS_OP_layer_norm_grad:
    case LS_OP_dropout_add_layer_norm:
    case LS_OP_dropout_add_layer_norm_grad:
    case LS_OP_group_norm:
    case LS_OP_group_norm_grad: SIZE(norm);
    case LS_OP_normalize: SIZE(normalize);
    case LS_OP_cross_entropy:
    case LS_OP_cross_entropy_grad:
    case LS_OP_nll_loss:
    case LS_OP_nll_loss_grad:
    case LS_OP_mse_loss:
    case LS_OP_mse_loss_grad:
    case LS_OP_smooth_l1_loss:
    case LS_OP_smooth_l1_loss_grad:
    case LS_OP_bce_with_logits:
    case LS_OP_bce_with_logits_grad: SIZE(loss);
    case LS_OP_adam_step: SIZE(adam);
    case LS_OP_sgd_step: SIZE(sgd);
    default: return 0;
    }
#undef SIZE
}

/* ---- live values ---- */

/* Where the attributes of an operator have them. */
static int live_numbers(ls_call *call, double *at[LS_LIVE_MOST])
{
    switch (call->op) {
    case LS_OP_fill: return at[0] = &call->attrs.affine.shift, 1;
    case LS_OP_unscale: return at[0] = &call->attrs.scalar.value, 1;
    case LS_OP_sgd_step: return at[0] = &call->attrs.sgd.lr, 1;
    case LS_OP_adam_step:
        at[0] = &call->attrs.adam.lr;
        at[1] = &call->attrs.adam.bias1;
        at[2] = &call->attrs.adam.bias2;
        return 3;
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
