/* layers.h - internals of convolutions, embeddings and norms, for layers that run several of them together. */
#ifndef LOCKSTEP_NN_LAYERS_H
#define LOCKSTEP_NN_LAYERS_H

#include "nn/module.h"

typedef struct ls_conv_layer {
    ls_module module;
    ls_tensor *weight, *bias; /* [out,in/groups,KH,KW], transposed [in,out/groups,KH,KW]; [out] or NULL */
    ls_conv2d_opts geometry;
} ls_conv_layer;

typedef struct ls_embedding_layer {
    ls_module module;
    ls_tensor *weight; /* [rows,features] */
    int64_t padding;   /* a row that gets no gradient; -1: none */
} ls_embedding_layer;

typedef struct ls_norm_layer {
    ls_module module;
    ls_tensor *weight, *bias;                        /* NULL: none */
    ls_tensor *running_mean, *running_var, *batches; /* of batch norm; NULL: none */
    double epsilon, momentum, dropout;
    int64_t groups;
    ls_activation activation;
    struct ls_comm *comm; /* of batch norm: normalise by the batches of all its processes; NULL: by those of this one */
} ls_norm_layer;

/* Batch norm in training mode by the batches of all processes; residual may be NULL. */
ls_tensor *ls_batch_norm_together(const ls_norm_layer *norm, ls_tensor *x, ls_tensor *residual);

/* The module as such a layer; NULL if it is of another kind. */
const ls_conv_layer *ls_as_conv2d(const ls_module *module);
const ls_norm_layer *ls_as_batch_norm(const ls_module *module);
const ls_norm_layer *ls_as_layer_norm(const ls_module *module);

/* The name for messages: "relu". */
const char *ls_activation_name(ls_activation activation);

/* A tensor that a module hands from child to child. Begin with {.tensor = x}: the input belongs to others. */
typedef struct ls_carried {
    ls_tensor *tensor;
    bool is_unseen; /* only forward functions of the library have seen it, and they remember nothing */
} ls_carried;

/* `by` (and `with`, unless that is NULL) have computed y from the carried tensor, which is freed at once instead of at
 * the end of the scope, unless it may be known elsewhere: to the caller, or to the program, whose hooks and modules see
 * it. What the tape saved of it stays. y may be the same tensor. */
void ls_carry_on(ls_carried *carried, const ls_module *by, const ls_module *with, ls_tensor *y);

/* y = norm(conv(x)), or norm(conv(x), residual) unless that is NULL. As one operator if no gradient is needed and the
 * result in between is not either: then only rounding can differ. */
ls_tensor *ls_forward_conv_norm(ls_module *conv, ls_module *norm, ls_tensor *x, ls_tensor *residual);
bool ls_conv_norm_is_one(const ls_module *conv, const ls_module *norm, ls_tensor *x, ls_tensor *residual);
/* The same for a Sequential, whose last child may be a convolution. */
ls_tensor *ls_forward_sequential_norm(ls_module *sequential, ls_module *norm, ls_tensor *x);

/* For an AvgPool2d whose input is needed for gradients anyway: what a convolution reads of its result is made again in
 * backward, instead of being kept. Accepts NULL. */
void ls_pool_comes_again(ls_module *pool);

/* Set a row of an embedding's weight to 0: the initial value of the padding row. */
void ls_embedding_clear_row(ls_tensor *weight, int64_t row);

/* Multi-head attention of query [B,S,E], key and value [B,T,E] -> [B,S,E], without copies. */
ls_tensor *ls_attend(int64_t heads, ls_tensor *query, ls_tensor *key, ls_tensor *value, const ls_attention_opts *opts);
/* Attention options from one input of a layer: a mask, or lengths if it is of integers; NULL: neither. */
ls_attention_opts ls_attention_by(ls_tensor *mask_or_lengths, double dropout, bool causal);

/* The results of n linear layers of x, side by side in the last dimension: [..., N0 + N1 + ...]. NULL if each must be
 * run on its own, as on the host, where nothing is gained. */
ls_tensor *ls_forward_linears(int n, ls_module *const *layers, ls_tensor *x);

/* down(up(x)). Two linear layers, the first with an activation, are one operator while gradients are recorded: the
 * result in between is not kept for them, if it can be made again. */
ls_tensor *ls_forward_feed_forward(ls_module *up, ls_module *down, ls_tensor *x);
/* Are they such layers? */
bool ls_is_feed_forward(const ls_module *up, const ls_module *down);

/* Must its forward function be called on its own, because of hooks, recomputation or another precision? Then it is not
 * run as a part of a fused operation. */
static inline bool ls_is_watched(const ls_module *module)
{
    return module->hooks || module->recomputes || module->object.prepared;
}

/* norm(dropout(x, p) + residual), and the sum as second output. In one pass if the intermediate results are not needed.
 * */
ls_outputs ls_forward_add_norm(ls_module *norm, ls_tensor *x, ls_tensor *residual, double p);

/* y = norm(embeddings[0](indices[0]) + embeddings[1](indices[1]) + ...), for n embeddings. In one pass if the
 * intermediate results are not needed. */
ls_tensor *ls_forward_embeddings_norm(int n, ls_module **embeddings, ls_tensor *const *indices, ls_module *norm);

#endif
