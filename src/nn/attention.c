/* attention.c - multi-head attention and the transformer encoder layer. */
#include <math.h>

#include "nn/layers.h"

/* ---- heads ---- */

/* [B,S,E] -> [B,H,S,E/H], a view */
static ls_tensor *to_heads(ls_tensor *x, int64_t heads)
{
    ls_tensor *split = ls_reshape(x, ls_dim(x, 0), ls_dim(x, 1), heads, ls_dim(x, 2) / heads);
    return ls_permute(split, 0, 2, 1, 3);
}

ls_tensor *ls_attend(int64_t heads, ls_tensor *query, ls_tensor *key, ls_tensor *value, const ls_attention_opts *opts)
{
    ls_tensor *mixed = ls_attention_sized(to_heads(query, heads), to_heads(key, heads), to_heads(value, heads), opts,
                                          LS_OPTS_SIZE(ls_attention_opts)); /* [B,H,S,D] */
    return ls_flatten(ls_permute(mixed, 0, 2, 1, 3), 2, 3);
}

ls_attention_opts ls_attention_by(ls_tensor *mask_or_lengths, double dropout, bool causal)
{
    ls_dtype dtype = mask_or_lengths ? ls_dtype_of(mask_or_lengths) : LS_BOOL;
    bool is_mask = dtype == LS_BOOL || ls_dtype_is_float(dtype);
    return LS_OPTIONS(ls_attention_opts, .mask = is_mask ? mask_or_lengths : NULL,
                      .lengths = is_mask ? NULL : mask_or_lengths, .dropout = dropout, .causal = causal);
}

/* ---- multi-head attention ---- */

typedef struct attention {
    ls_module module;
    ls_tensor *in_weight, *in_bias; /* [3E,E]: rows of query, key, value; [3E] or NULL */
    ls_module *out_proj;
    int64_t features, heads;
    double dropout;
    bool causal;
} attention;

/* Query, key or value (part 0, 1 or 2) of x. */
static ls_tensor *project(const attention *a, ls_tensor *x, int part)
{
    int64_t begin = part * a->features, end = begin + a->features;
    ls_tensor *bias = a->in_bias ? ls_slice(a->in_bias, 0, begin, end, 1) : NULL;
    return ls_linear(x, ls_slice(a->in_weight, 0, begin, end, 1), bias, LS_ACT_NONE);
}

static bool fits(const attention *a, int n, ls_tensor *const *x)
{
    for (int i = 0; i < n; i++) {
        if (ls_ndim(x[i]) == 3 && ls_dim(x[i], 2) == a->features) continue;
        if (ls_check_live(a->module.object.run, x[i], "MultiheadAttention"))
            ls_fail(&a->module.object.run->errors, LS_ERR_SHAPE,
                    "MultiheadAttention: input %d is %s; expected [batch,length,%lld]", i,
                    ls_operand_text(&x[i]->view, (char[LS_TEXT]){0}), (long long)a->features);
        return false;
    }
    return true;
}

static ls_tensor *attention_forward(ls_module *self, ls_tensor *const *x, int64_t n, void *user)
{
    (void)user;
    const attention *a = (const attention *)self;
    ls_run *run = self->object.run;
    bool itself = n < 3; /* self-attention: query, key and value are one tensor */
    if (!ls_layer_takes(self, n, 1, 4) || !fits(a, itself ? 1 : 3, x)) return &run->poison;
    ls_tensor *mixed; /* [B,S,E] */
    double dropout = self->training ? a->dropout : 0;
    if (itself) {
        ls_tensor *qkv = ls_linear(x[0], a->in_weight, a->in_bias, LS_ACT_NONE);
        ls_attention_opts opts = ls_attention_by(n == 2 ? x[1] : NULL, dropout, a->causal);
        mixed = ls_self_attention_sized(qkv, a->heads, &opts, LS_OPTS_SIZE(ls_attention_opts));
    } else {
        ls_attention_opts opts =
            LS_OPTIONS(ls_attention_opts, .mask = n == 4 ? x[3] : NULL, .dropout = dropout, .causal = a->causal);
        mixed = ls_attend(a->heads, project(a, x[0], 0), project(a, x[1], 1), project(a, x[2], 2), &opts);
    }
    return ls_forward(a->out_proj, mixed);
}

ls_module *ls_multihead_attention_new_sized(ls_run *run, int64_t features, int64_t heads,
                                            const ls_multihead_attention_opts *given, size_t opts_size)
{
    ls_multihead_attention_opts opts = LS_OPTS_READ(ls_multihead_attention_opts, given, opts_size);
    attention *a = ls_layer_new_n(run, "MultiheadAttention", sizeof *a, attention_forward);
    if (!a) return NULL;
    a->features = features;
    a->heads = heads;
    a->dropout = opts.dropout;
    a->causal = opts.causal;
    ls_layer_says(a, "heads %lld dropout %g%s", (long long)heads, a->dropout, a->causal ? " causal" : "");
    if (heads < 1 || features < 1 || features % heads) {
        ls_fail(&run->errors, LS_ERR_VALUE, "MultiheadAttention: %lld features cannot be divided into %lld heads",
                (long long)features, (long long)heads);
        return ls_layer_done(a);
    }
    double xavier = sqrt(6.0 / (double)(features + 3 * features));
    a->in_weight = ls_parameter_uniform(&a->module, "in_proj_weight", xavier, LS_SHAPE(3 * features, features));
    if (opts.bias) a->in_bias = ls_parameter_full(&a->module, "in_proj_bias", 0, LS_SHAPE(3 * features));
    a->out_proj = ls_module_add(&a->module, "out_proj", ls_linear_new(run, features, features, .bias = opts.bias));
    if (a->out_proj && opts.bias) ls_init_constant(ls_module_tensor(a->out_proj, "bias"), 0);
    return ls_layer_done(a);
}

/* ---- transformer encoder layer ---- */

typedef struct transformer {
    ls_module module;
    ls_module *self_attn, *linear1, *linear2, *norm1, *norm2;
    double dropout;
    bool norm_first;
} transformer;

static bool drops(const transformer *t)
{
    return t->module.training && t->dropout > 0;
}

static ls_tensor *dropped(const transformer *t, ls_tensor *x)
{
    return drops(t) ? ls_dropout(x, t->dropout) : x;
}

static ls_tensor *attend(const transformer *t, ls_tensor *x, ls_tensor *mask)
{
    return mask ? ls_forward(t->self_attn, x, mask) : ls_forward(t->self_attn, x);
}

static ls_tensor *feed_forward(const transformer *t, ls_tensor *x)
{
    if (!drops(t)) return ls_forward_feed_forward(t->linear1, t->linear2, x);
    return ls_forward(t->linear2, ls_dropout(ls_forward(t->linear1, x), t->dropout));
}

static ls_tensor *transformer_forward(ls_module *self, ls_tensor *const *x, int64_t n, void *user)
{
    (void)user;
    const transformer *t = (const transformer *)self;
    if (!ls_layer_takes(self, n, 1, 2)) return &self->object.run->poison;
    ls_tensor *mask = n > 1 ? x[1] : NULL;
    if (t->norm_first) {
        ls_tensor *attended = attend(t, ls_forward(t->norm1, x[0]), mask);
        ls_outputs y = ls_forward_add_norm(t->norm2, attended, x[0], self->training ? t->dropout : 0);
        return ls_add(y.item[1], dropped(t, feed_forward(t, y.item[0])));
    }
    ls_tensor *y = ls_forward(t->norm1, attend(t, x[0], mask), x[0]);
    return ls_forward(t->norm2, feed_forward(t, y), y);
}

ls_module *ls_transformer_layer_new_sized(ls_run *run, int64_t features, int64_t heads,
                                          const ls_transformer_layer_opts *given, size_t opts_size)
{
    ls_transformer_layer_opts opts = LS_OPTS_READ(ls_transformer_layer_opts, given, opts_size);
    if (opts.feedforward < 1 && !ls_failed(run))
        ls_fail(&run->errors, LS_ERR_VALUE, "TransformerLayer: .feedforward = %lld; it must be at least 1",
                (long long)opts.feedforward);
    transformer *t = ls_layer_new_n(run, "TransformerLayer", sizeof *t, transformer_forward);
    if (!t) return NULL;
    ls_module *m = &t->module;
    t->dropout = opts.dropout;
    t->norm_first = opts.norm_first;
    ls_layer_says(t, "dropout %g%s", t->dropout, t->norm_first ? " norm_first" : "");
    t->self_attn = ls_module_add(
        m, "self_attn", ls_multihead_attention_new(run, features, heads, .dropout = t->dropout, .causal = opts.causal));
    t->linear1 =
        ls_module_add(m, "linear1", ls_linear_new(run, features, opts.feedforward, .activation = opts.activation));
    t->linear2 = ls_module_add(m, "linear2", ls_linear_new(run, opts.feedforward, features));
    double dropout = t->norm_first ? 0 : t->dropout; /* applied together with the residual and the norm */
    t->norm1 = ls_module_add(m, "norm1", ls_layer_norm_new(run, features, .epsilon = opts.epsilon, .dropout = dropout));
    t->norm2 = ls_module_add(m, "norm2", ls_layer_norm_new(run, features, .epsilon = opts.epsilon, .dropout = dropout));
    return ls_layer_done(m);
}
