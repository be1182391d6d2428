/* linear.c - layers with one table of weights: linear and embedding. */
#include <math.h>

#include "nn/module.h"

/* ---- linear ---- */

typedef struct linear {
    ls_module module;
    ls_tensor *weight, *bias; /* [out,in], [out] or NULL */
    ls_activation activation;
} linear;

static ls_tensor *linear_forward(ls_module *self, ls_tensor *x, void *user)
{
    (void)user;
    const linear *l = (const linear *)self;
    return ls_linear(x, l->weight, l->bias, l->activation);
}

ls_module *ls_linear_new_sized(ls_run *run, int64_t in, int64_t out, const ls_linear_opts *given, size_t opts_size)
{
    ls_linear_opts opts = LS_OPTS_READ(ls_linear_opts, given, opts_size);
    linear *l = ls_layer_new(run, "Linear", sizeof *l, linear_forward);
    if (!l) return NULL;
    double bound = in > 0 ? 1 / sqrt((double)in) : 0;
    l->activation = opts.activation;
    l->weight = ls_parameter_uniform(&l->module, "weight", bound, LS_SHAPE(out, in));
    if (!opts.no_bias) l->bias = ls_parameter_uniform(&l->module, "bias", bound, LS_SHAPE(out));
    if (opts.activation) ls_layer_says(l, "activation %d", (int)opts.activation);
    return ls_layer_done(l);
}

/* ---- embedding ---- */

typedef struct embedding {
    ls_module module;
    ls_tensor *weight; /* [rows,features] */
    bool has_padding;
    int64_t padding;
} embedding;

static ls_tensor *embedding_forward(ls_module *self, ls_tensor *index, void *user)
{
    (void)user;
    const embedding *e = (const embedding *)self;
    ls_run *run = self->object.run;
    ls_tensor *rows = ls_embedding(e->weight, index);
    if (!e->has_padding || !ls_grad_enabled(run) || !ls_wants_grad(e->weight)) return rows;
    /* The padding row is read like any other but gets no gradient. */
    ls_tensor *padding = ls_full_shape(run, LS_I64, (double)e->padding, LS_SCALAR);
    return ls_where(ls_unsqueeze(ls_eq(index, padding), -1), ls_detach(rows), rows);
}

ls_module *ls_embedding_new_sized(ls_run *run, int64_t rows, int64_t features, const ls_embedding_opts *given,
                                  size_t opts_size)
{
    ls_embedding_opts opts = LS_OPTS_READ(ls_embedding_opts, given, opts_size);
    embedding *e = ls_layer_new(run, "Embedding", sizeof *e, embedding_forward);
    if (!e) return NULL;
    e->has_padding = opts.padding_idx != LS_NO_ROW;
    if (e->has_padding) e->padding = opts.padding_idx < 0 ? opts.padding_idx + rows : opts.padding_idx;
    e->weight = ls_parameter(&e->module, "weight", ls_normal_shape(run, LS_F32, 0, 1, LS_SHAPE(rows, features)));
    if (e->has_padding) {
        if (e->padding < 0 || e->padding >= rows)
            ls_fail(&run->errors, LS_ERR_VALUE, "Embedding: padding_idx %lld is outside of %lld rows",
                    (long long)opts.padding_idx, (long long)rows);
        ls_mark mark = ls_scope_begin(run);
        ls_no_grad_begin(run);
        ls_init_constant(ls_select(e->weight, 0, e->padding), 0);
        ls_no_grad_end(run);
        ls_scope_end(run, mark, NULL);
    }
    return ls_layer_done(e);
}
