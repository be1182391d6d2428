/* norm.c - normalisation layers. */
#include "nn/layers.h"

#include "ops/op.h"

static void add_affine(ls_norm_layer *m, ls_shape shape, bool affine, bool bias)
{
    if (!affine) return;
    m->weight = ls_parameter_full(&m->module, "weight", 1, shape);
    if (bias) m->bias = ls_parameter_full(&m->module, "bias", 0, shape);
}

/* ---- batch ---- */

static ls_tensor *batch_norm_forward(ls_module *self, ls_tensor *const *x, int64_t n, void *user)
{
    (void)user;
    const ls_norm_layer *m = (const ls_norm_layer *)self;
    if (!ls_layer_takes(self, n, 1, 2)) return &self->object.run->poison;
    bool learns = self->training && m->running_mean;
    ls_tensor *y = m->comm && self->training
                       ? ls_batch_norm_together(m, x[0], n > 1 ? x[1] : NULL)
                       : ls_batch_norm(x[0], .weight = m->weight, .bias = m->bias, .running_mean = m->running_mean,
                                       .running_var = m->running_var, .residual = n > 1 ? x[1] : NULL,
                                       .training = self->training || !m->running_mean, .momentum = m->momentum,
                                       .epsilon = m->epsilon, .activation = m->activation);
    if (learns && y->life == LS_LIFE_LIVE && !ls_is_recomputing(y->run)) ls_counter_step(m->batches);
    return y;
}

const ls_norm_layer *ls_as_batch_norm(const ls_module *module)
{
    return module && module->forward_n == batch_norm_forward ? (const ls_norm_layer *)module : NULL;
}

ls_module *ls_batch_norm_new_sized(ls_run *run, int64_t channels, const ls_batch_norm_new_opts *given, size_t opts_size)
{
    ls_batch_norm_new_opts opts = LS_OPTS_READ(ls_batch_norm_new_opts, given, opts_size);
    ls_norm_layer *m = ls_layer_new_n(run, "BatchNorm", sizeof *m, batch_norm_forward);
    if (!m) return NULL;
    m->epsilon = opts.epsilon;
    m->momentum = opts.momentum;
    m->activation = opts.activation;
    ls_layer_says(m, "epsilon %g momentum %g activation %s", m->epsilon, m->momentum,
                  ls_activation_name(m->activation));
    add_affine(m, LS_SHAPE(channels), opts.affine, true);
    if (opts.track_running_stats) {
        m->running_mean = ls_buffer_full(&m->module, "running_mean", 0, LS_SHAPE(channels));
        m->running_var = ls_buffer_full(&m->module, "running_var", 1, LS_SHAPE(channels));
        m->batches = ls_counter(&m->module, "num_batches_tracked");
    }
    return ls_layer_done(m);
}

/* ---- layer ---- */

static ls_tensor *layer_norm_forward(ls_module *self, ls_tensor *const *x, int64_t n, void *user)
{
    (void)user;
    const ls_norm_layer *m = (const ls_norm_layer *)self;
    if (!ls_layer_takes(self, n, 1, 2)) return &self->object.run->poison;
    if (n == 1 && m->dropout > 0)
        return LS_POISON(self->object.run, LS_ERR_VALUE,
                         "LayerNorm: .dropout applies to the input that a residual is added to; "
                         "pass the residual, or use Dropout");
    return n == 1
               ? ls_layer_norm(x[0], m->weight, m->bias, m->epsilon)
               : ls_dropout_add_layer_norm(x[0], x[1], m->weight, m->bias, self->training ? m->dropout : 0, m->epsilon);
}

const ls_norm_layer *ls_as_layer_norm(const ls_module *module)
{
    return module && module->forward_n == layer_norm_forward ? (const ls_norm_layer *)module : NULL;
}

static ls_outputs add_norm(ls_module *self, ls_tensor *const *x, int64_t n, void *user)
{
    (void)n;
    const ls_norm_layer *m = ls_as_layer_norm(self);
    ls_dtype type = ls_dtype_promote(ls_dtype_of(x[0]), ls_dtype_of(x[1])); /* the type of their sum */
    ls_tensor *sum, *y;
    y = ls_dropout_add_layer_norm_sum(op_as(x[0], type), op_as(x[1], type), m->weight, m->bias, *(const double *)user,
                                      m->epsilon, &sum);
    return LS_OUTPUTS(y, sum);
}

ls_outputs ls_forward_add_norm(ls_module *norm, ls_tensor *x, ls_tensor *residual, double p)
{
    if (ls_as_layer_norm(norm) && !ls_is_watched(norm) && ls_is_valid(x) && ls_is_valid(residual)) {
        ls_outputs both = ls_forward_as(norm, add_norm, (ls_tensor *[]){x, residual}, 2, &p);
        norm->output_count = both.item[0]->life == LS_LIFE_LIVE;
        return both;
    }
    ls_tensor *sum = ls_add(p > 0 ? ls_dropout(x, p) : x, residual);
    return LS_OUTPUTS(ls_forward(norm, sum), sum);
}

ls_module *ls_layer_norm_new_shape_sized(ls_run *run, ls_shape shape, const ls_layer_norm_opts *given, size_t opts_size)
{
    ls_layer_norm_opts opts = LS_OPTS_READ(ls_layer_norm_opts, given, opts_size);
    ls_norm_layer *m = ls_layer_new_n(run, "LayerNorm", sizeof *m, layer_norm_forward);
    if (!m) return NULL;
    m->epsilon = opts.epsilon;
    m->dropout = opts.dropout;
    if (m->dropout > 0) ls_layer_says(m, "epsilon %g dropout %g", m->epsilon, m->dropout);
    else ls_layer_says(m, "epsilon %g", m->epsilon);
    if (!(opts.dropout >= 0 && opts.dropout <= 1))
        ls_fail(&run->errors, LS_ERR_VALUE, "LayerNorm: .dropout = %g is not in [0, 1]", opts.dropout);
    if (!opts.affine && shape.ndim != 1)
        ls_fail(&run->errors, LS_ERR_UNSUPPORTED, "LayerNorm without weight works over one dimension, not %d",
                shape.ndim);
    add_affine(m, shape, opts.affine, opts.bias);
    return ls_layer_done(m);
}

ls_module *ls_layer_norm_new_sized(ls_run *run, int64_t features, const ls_layer_norm_opts *opts, size_t opts_size)
{
    return ls_layer_norm_new_shape_sized(run, LS_SHAPE(features), opts, opts_size);
}

/* ---- group ---- */

static ls_tensor *group_norm_forward(ls_module *self, ls_tensor *x, void *user)
{
    (void)user;
    const ls_norm_layer *m = (const ls_norm_layer *)self;
    return ls_group_norm(x, m->groups, m->weight, m->bias, m->epsilon);
}

ls_module *ls_group_norm_new_sized(ls_run *run, int64_t groups, int64_t channels, const ls_group_norm_opts *given,
                                   size_t opts_size)
{
    ls_group_norm_opts opts = LS_OPTS_READ(ls_group_norm_opts, given, opts_size);
    ls_norm_layer *m = ls_layer_new(run, "GroupNorm", sizeof *m, group_norm_forward);
    if (!m) return NULL;
    m->groups = groups;
    m->epsilon = opts.epsilon;
    ls_layer_says(m, "groups %lld epsilon %g", (long long)groups, m->epsilon);
    if (groups < 1 || channels % groups)
        ls_fail(&run->errors, LS_ERR_VALUE, "GroupNorm: %lld channels cannot be divided into %lld groups",
                (long long)channels, (long long)groups);
    else add_affine(m, LS_SHAPE(channels), opts.affine, true);
    return ls_layer_done(m);
}

/* ---- root mean square ---- */

static ls_tensor *rms_norm_forward(ls_module *self, ls_tensor *x, void *user)
{
    (void)user;
    const ls_norm_layer *m = (const ls_norm_layer *)self;
    return ls_rms_norm(x, m->weight, m->epsilon);
}

ls_module *ls_rms_norm_new_sized(ls_run *run, int64_t features, const ls_rms_norm_opts *given, size_t opts_size)
{
    ls_rms_norm_opts opts = LS_OPTS_READ(ls_rms_norm_opts, given, opts_size);
    ls_norm_layer *m = ls_layer_new(run, "RMSNorm", sizeof *m, rms_norm_forward);
    if (!m) return NULL;
    m->epsilon = opts.epsilon;
    ls_layer_says(m, "epsilon %g", m->epsilon);
    if (features < 1)
        ls_fail(&run->errors, LS_ERR_VALUE, "RMSNorm: %lld features; there must be at least 1", (long long)features);
    else add_affine(m, LS_SHAPE(features), opts.affine, false);
    return ls_layer_done(m);
}
