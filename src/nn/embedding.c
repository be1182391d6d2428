/* embedding.c - rows of a table selected by index, and the layer norm of a sum of such rows. */
#include "nn/layers.h"

#include "ops/op.h"

static ls_tensor *embedding_forward(ls_module *self, ls_tensor *index, void *user)
{
    (void)user;
    const ls_embedding_layer *e = (const ls_embedding_layer *)self;
    return ls_embedding_padded(e->weight, index, e->padding);
}

static const ls_embedding_layer *as_embedding(const ls_module *module)
{
    return module && module->forward == embedding_forward ? (const ls_embedding_layer *)module : NULL;
}

void ls_embedding_clear_row(ls_tensor *weight, int64_t row)
{
    ls_run *run = weight->run;
    ls_mark mark = ls_scope_begin(run);
    ls_no_grad_begin(run);
    ls_init_constant(ls_select(weight, 0, row), 0);
    ls_no_grad_end(run);
    ls_scope_end(run, mark, NULL);
}

static ls_module *embedding_new(ls_run *run, int64_t rows, int64_t features, bool blank, const ls_embedding_opts *given,
                                size_t opts_size)
{
    ls_embedding_opts opts = LS_OPTS_READ(ls_embedding_opts, given, opts_size);
    ls_embedding_layer *e = ls_layer_new(run, "Embedding", sizeof *e, embedding_forward);
    if (!e) return NULL;
    e->module.has_weight = true;
    bool has_padding = opts.padding_idx != LS_NO_ROW;
    e->padding = !has_padding ? -1 : opts.padding_idx < 0 ? opts.padding_idx + rows : opts.padding_idx;
    e->weight = ls_parameter_blank(&e->module, "weight", LS_SHAPE(rows, features));
    if (!blank) ls_init_normal(e->weight, 0, 1);
    if (has_padding && (e->padding < 0 || e->padding >= rows))
        ls_fail(&run->errors, LS_ERR_VALUE, "Embedding: padding_idx %lld is outside the %lld rows",
                (long long)opts.padding_idx, (long long)rows);
    else if (has_padding && !blank) ls_embedding_clear_row(e->weight, e->padding);
    return ls_layer_done(e);
}

ls_module *ls_embedding_new_sized(ls_run *run, int64_t rows, int64_t features, const ls_embedding_opts *opts,
                                  size_t opts_size)
{
    return embedding_new(run, rows, features, false, opts, opts_size);
}

ls_module *ls_embedding_blank_sized(ls_run *run, int64_t rows, int64_t features, const ls_embedding_opts *opts,
                                    size_t opts_size)
{
    return embedding_new(run, rows, features, true, opts, opts_size);
}

/* ---- layer norm of a sum of embeddings ---- */

static bool norm_is_one_pass(int n, ls_module *const *embeddings, const ls_module *norm)
{
    const ls_norm_layer *l = ls_as_layer_norm(norm);
    bool one = l && !ls_is_watched(norm) && n >= 1 && n <= LS_MAX_EMBEDDING_TABLES && !ls_failed(norm->object.run);
    const ls_tensor *first = NULL;
    for (int i = 0; one && i < n; i++) {
        const ls_embedding_layer *e = as_embedding(embeddings[i]);
        if (!first && e) first = e->weight;
        one = e && !ls_is_watched(embeddings[i]) && ls_dim(e->weight, 1) == ls_dim(first, 1) &&
              ls_dtype_of(e->weight) == ls_dtype_of(first);
    }
    return one && l->dropout == 0 && (!l->weight || ls_ndim(l->weight) == 1);
}

static ls_outputs norm_of_embeddings(ls_module *self, ls_tensor *const *indices, int64_t n, void *user)
{
    const ls_norm_layer *norm = ls_as_layer_norm(self);
    ls_module *const *embeddings = user;
    ls_tensor *tables[LS_MAX_EMBEDDING_TABLES];
    ls_embedding_layer_norm_opts opts =
        LS_OPTIONS(ls_embedding_layer_norm_opts, .weight = norm->weight, .bias = norm->bias, .epsilon = norm->epsilon);
    for (int i = 0; i < n; i++) {
        const ls_embedding_layer *e = as_embedding(embeddings[i]);
        tables[i] = e->weight;
        if (e->padding >= 0) opts.padding_idx[i] = e->padding;
    }
    size_t size = LS_OPTS_SIZE(ls_embedding_layer_norm_opts);
    return LS_OUTPUTS(ls_embedding_layer_norm_sized(tables, indices, n, &opts, size));
}

ls_tensor *ls_forward_embeddings_norm(int n, ls_module **embeddings, ls_tensor *const *indices, ls_module *norm)
{
    if (norm_is_one_pass(n, embeddings, norm)) {
        ls_outputs y = ls_forward_as(norm, norm_of_embeddings, indices, n, embeddings);
        for (int i = 0; i < n; i++) ls_forwarded_with(embeddings[i], norm, 0);
        return y.item[0];
    }
    ls_tensor *sum = ls_forward(embeddings[0], indices[0]);
    for (int i = 1; i < n; i++) sum = ls_add(sum, ls_forward(embeddings[i], indices[i]));
    return ls_forward(norm, sum);
}
