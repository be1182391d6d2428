/* layers.h - convolutions, embeddings and norms as others see them that run one with the other. */
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
    int64_t padding;   /* the row that is read like any other but gets no gradient; -1: none */
} ls_embedding_layer;

typedef struct ls_norm_layer {
    ls_module module;
    ls_tensor *weight, *bias;                        /* NULL without */
    ls_tensor *running_mean, *running_var, *batches; /* batch norm; NULL without */
    double epsilon, momentum, dropout;
    int64_t groups;
    ls_activation activation;
} ls_norm_layer;

/* The module as such a layer; NULL where it is none. */
const ls_conv_layer *ls_as_conv2d(const ls_module *module);
const ls_norm_layer *ls_as_batch_norm(const ls_module *module);
const ls_norm_layer *ls_as_layer_norm(const ls_module *module);

/* "relu", for messages. */
const char *ls_activation_name(ls_activation activation);

/* y = norm(conv(x)), or norm(conv(x), residual) unless that is NULL. In one pass where nothing but rounding can tell:
 * the norm is in evaluation and no gradient will be asked for. */
ls_tensor *ls_forward_conv_norm(ls_module *conv, ls_module *norm, ls_tensor *x, ls_tensor *residual);
bool ls_conv_norm_is_one_pass(const ls_module *conv, const ls_module *norm, ls_tensor *x, ls_tensor *residual);
/* The same for a Sequential in place of the convolution: the last of its children may be one. */
ls_tensor *ls_forward_sequential_norm(ls_module *sequential, ls_module *norm, ls_tensor *x);

/* Set a row of an embedding's weight to 0, as that of padding starts. */
void ls_embedding_clear_row(ls_tensor *weight, int64_t row);

/* Attention between the heads of query [B,S,E], key and value [B,T,E], -> [B,S,E]. Nothing is copied on the way. */
ls_tensor *ls_attend(int64_t heads, ls_tensor *query, ls_tensor *key, ls_tensor *value, const ls_attention_opts *opts);
/* Its options with what layers take as one input: a mask, or, where it is integers, lengths; NULL: neither. */
ls_attention_opts ls_attention_by(ls_tensor *mask_or_lengths, double dropout, bool causal);

/* Is there something to do before or after its forward function: hooks, computing again, another precision? Then it is
 * not run as a part of something else. */
static inline bool ls_is_watched(const ls_module *module)
{
    return module->hooks || module->recomputes || module->object.prepared;
}

/* norm(dropout(x, p) + residual), and the sum as second output. In one pass where nobody wants to see what is in
 * between. */
ls_outputs ls_forward_add_norm(ls_module *norm, ls_tensor *x, ls_tensor *residual, double p);

/* y = norm(embeddings[0](indices[0]) + embeddings[1](indices[1]) + ...), with n of them. In one pass where nobody wants
 * to see what is in between. */
ls_tensor *ls_forward_embeddings_norm(int n, ls_module **embeddings, ls_tensor *const *indices, ls_module *norm);

#endif
