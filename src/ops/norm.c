/* norm.c - batch, layer and group normalisation. Weights and statistics stay f32 when activations are half. */
#include "ops/op.h"

static ls_dtype statistics_type(const ls_tensor *x)
{
    return x->view.dtype == LS_F64 ? LS_F64 : LS_F32;
}

/* Checks an optional parameter of n elements in total. */
static bool parameter_fits(ls_run *run, ls_opcode op, const char *name, const ls_tensor *t, int64_t n,
                           const ls_tensor *x)
{
    if (!t || ls_view_numel(&t->view) == n) return true;
    op_error(run, op, LS_ERR_SHAPE, "%s %s for %s must have %lld elements", name, OP_TEXT(t), OP_TEXT(x), (long long)n);
    return false;
}

static bool is_floating(ls_run *run, ls_opcode op, const ls_tensor *x)
{
    if (!ls_dtype_is_float(x->view.dtype)) op_error(run, op, LS_ERR_DTYPE, "%s: a floating type is needed", OP_TEXT(x));
    return !ls_failed(run);
}

/* epsilon is added to a variance under a root; momentum mixes old and new statistics. */
static bool numbers_sound(ls_run *run, ls_opcode op, double epsilon, double momentum)
{
    if (!(epsilon >= 0 && epsilon < INFINITY))
        op_error(run, op, LS_ERR_VALUE, "epsilon is %g; it must be finite and not negative", epsilon);
    else if (!(momentum >= 0 && momentum <= 1))
        op_error(run, op, LS_ERR_VALUE, "momentum %g is not in [0, 1]", momentum);
    return !ls_failed(run);
}

/* ---- batch norm ---- */

/* Memory for a bit per element of x, in the rows of the device's batch_norm: the channels of a pixel if they are
 * adjacent, else planes. */
static ls_tensor *new_mask(ls_tensor *x)
{
    const ls_operand *v = &x->view;
    bool pixels = v->ndim == 2 || (v->stride[1] == 1 && v->dim[1] > 1);
    int64_t numel = ls_view_numel(v), planes = v->dim[0] * v->dim[1];
    int64_t length = pixels ? v->dim[1] : planes ? numel / planes : 0;
    return op_new(x, LS_U8, LS_SHAPE(length ? numel / length : 0, (length + 63) / 64 * 8));
}

bool ls_batch_norm_can_train(ls_run *run, ls_opcode op, ls_shape batch)
{
    if (!batch.dim[1] || ls_shape_numel(batch) != batch.dim[1]) return true;
    op_error(run, op, LS_ERR_SHAPE,
             "%s: one value per channel has no variance to train on; use more samples in a batch, or .drop_last if "
             "only the last batch has so few",
             OP_SHAPE_TEXT(batch));
    return false;
}

ls_tensor *ls_batch_norm_by(ls_tensor *x, const ls_batch_norm_opts *given, ls_tensor *const *moments)
{
    ls_batch_norm_opts opts = *given;
    ls_opcode op = LS_OP_batch_norm;
    ls_tensor *in[6] = {x, opts.weight, opts.bias, opts.running_mean, opts.running_var, opts.residual};
    ls_run *run = op_begin(op, 1, 6, in);
    if (!run || !is_floating(run, op, x) || !numbers_sound(run, op, opts.epsilon, opts.momentum)) return op_poison(x);
    if (x->view.ndim < 2 || x->view.ndim > 5)
        return op_error(run, op, LS_ERR_SHAPE, "%s is not [N,C] or [N,C,...]", OP_TEXT(x));
    int64_t channels = x->view.dim[1];
    static const char *const names[] = {"weight", "bias", "running mean", "running variance"};
    for (int i = 0; i < 4; i++)
        if (!parameter_fits(run, op, names[i], in[1 + i], channels, x)) return &run->poison;
    if (opts.residual && !ls_shape_equal(ls_view_shape(&opts.residual->view), ls_view_shape(&x->view)))
        return op_error(run, op, LS_ERR_SHAPE, "%s and residual %s", OP_TEXT(x), OP_TEXT(opts.residual));
    if (opts.activation != LS_ACT_NONE && opts.activation != LS_ACT_RELU)
        return op_error(run, op, LS_ERR_VALUE, "the activation must be LS_ACT_RELU or LS_ACT_NONE");
    if (!opts.training && (!opts.running_mean || !opts.running_var))
        return op_error(run, op, LS_ERR_STATE, "evaluation needs running statistics");
    if (opts.training && !ls_batch_norm_can_train(run, op, ls_view_shape(&x->view))) return &run->poison;
    in[5] = op_as(opts.residual, x->view.dtype);
    if (ls_failed(run)) return &run->poison;

    ls_tensor *out[6] = {ls_tensor_new_like(x, x->view.dtype)};
    bool relu = opts.activation == LS_ACT_RELU, deep = ls_must_record(run, 2, in); /* else gradients do not need x */
    if (relu && deep) out[3] = new_mask(x);
    for (int i = 1; opts.training && i < 3; i++) {
        out[i] = op_new(x, statistics_type(x), LS_SHAPE(channels));
        if (!ls_is_recomputing(run)) out[3 + i] = in[2 + i]; /* else they include this batch already */
        in[2 + i] = moments ? moments[i - 1] : NULL;
    }
    ls_attrs attrs = {.norm = {.epsilon = opts.epsilon,
                               .momentum = opts.momentum,
                               .training = opts.training,
                               .activation = opts.activation}};
    if (!op_submit(op, 6, in, 6, out, &attrs)) return &run->poison;
    for (int i = 4; i < 6; i++)
        if (out[i]) ls_written(out[i]);
    ls_node *node;
    if (!op_record(op, 6, in, 1, out, &attrs, &node)) return &run->poison;
    if (node) {
        ls_save(node, deep ? x : NULL);
        ls_save(node, deep ? out[3] : relu ? out[0] : NULL);
        ls_save(node, opts.training ? out[1] : opts.running_mean);
        ls_save(node, opts.training ? out[2] : opts.running_var);
        ls_save(node, opts.weight);
    }
    return out[0];
}

ls_tensor *ls_batch_norm_sized(ls_tensor *x, const ls_batch_norm_opts *given, size_t opts_size)
{
    ls_batch_norm_opts opts = LS_OPTS_READ(ls_batch_norm_opts, given, opts_size);
    return ls_batch_norm_by(x, &opts, NULL);
}

/* The gradient of the residual is dy where the ReLU let it through: it takes the place of dy, if nobody else needs
 * that. */
static ls_tensor *residual_gradient(ls_node *node, ls_tensor *dy, const ls_tensor *x, const ls_tensor *mask)
{
    if (!mask) return dy;
    ls_tensor *taken = ls_grad_taken(node, 0);
    return taken && ls_views_match(&x->view, &taken->view) ? taken : ls_tensor_new_like(x, dy->view.dtype);
}

BACK(batch_norm)
{
    ls_tensor *x = node->saved[0], *mask = node->saved[1];
    ls_tensor *in[6] = {dy[0], x, mask, node->saved[2], node->saved[3], node->saved[4]};
    if (!x) { /* only bias or residual: x is not needed, and y was saved instead of a mask */
        ls_tensor *y = mask, *masked = y ? op_activation_grad(LS_OP_relu_grad, dy[0], y, NULL) : dy[0];
        op_channel_gradient(node, 2, masked, dx);
        if (ls_wants(node, 5)) dx[5] = masked;
        return;
    }
    if (ls_wants(node, 0)) dx[0] = ls_tensor_new_like(x, node->in[0].dtype);
    if (ls_wants(node, 5)) dx[5] = residual_gradient(node, dy[0], x, mask);
    int32_t *accumulate = &node->attrs.norm.accumulate;
    ls_tensor *out[4] = {dx[0], op_gradient(node, 1, x, 1, accumulate, dx), op_gradient(node, 2, x, 2, accumulate, dx),
                         mask ? dx[5] : NULL};
    op_submit(LS_OP_batch_norm_grad, 6, in, 4, out, &node->attrs);
}

/* ---- layer norm ---- */

/* The checks common to all layer norms; *size: elements of a row. */
static bool layer_norm_fits(ls_run *run, ls_opcode op, const ls_tensor *x, const ls_tensor *weight,
                            const ls_tensor *bias, double epsilon, int64_t *size)
{
    if (!is_floating(run, op, x) || !numbers_sound(run, op, epsilon, 0)) return false;
    int dims = weight ? weight->view.ndim : 1;
    bool ok = dims >= 1 && x->view.ndim >= dims;
    *size = 1;
    for (int d = 1; ok && d <= dims; d++) {
        *size *= ls_dim(x, -d);
        ok = !weight || ls_dim(x, -d) == ls_dim(weight, -d);
    }
    if (ok) return parameter_fits(run, op, "bias", bias, *size, x);
    op_error(run, op, LS_ERR_SHAPE, "%s does not end in the shape of weight %s", OP_TEXT(x),
             OP_TEXT(weight ? weight : x));
    return false;
}

static int64_t rows_of(const ls_tensor *x, int64_t size)
{
    return size ? ls_view_numel(&x->view) / size : 0;
}

ls_tensor *ls_layer_norm(ls_tensor *x, ls_tensor *weight, ls_tensor *bias, double epsilon)
{
    ls_opcode op = LS_OP_layer_norm;
    ls_tensor *in[3] = {x, weight, bias};
    int64_t size;
    ls_run *run = op_begin(op, 1, 3, in);
    if (!run || !layer_norm_fits(run, op, x, weight, bias, epsilon, &size)) return op_poison(x);
    ls_shape rows = LS_SHAPE(rows_of(x, size));
    ls_tensor *out[3] = {op_new(x, x->view.dtype, ls_view_shape(&x->view)), op_new(x, statistics_type(x), rows),
                         op_new(x, statistics_type(x), rows)};
    ls_attrs attrs = {.norm = {.epsilon = epsilon, .groups = size}};
    ls_node *node;
    if (!op_submit(op, 3, in, 3, out, &attrs) || !op_record(op, 3, in, 1, out, &attrs, &node)) return &run->poison;
    if (node) {
        ls_save(node, x);
        ls_save(node, out[1]);
        ls_save(node, out[2]);
        ls_save(node, weight);
    }
    return out[0];
}

BACK(layer_norm)
{
    ls_tensor *x = node->saved[0];
    ls_tensor *in[5] = {dy[0], x, node->saved[1], node->saved[2], node->saved[3]};
    ls_tensor *out[3];
    for (int i = 0; i < 3; i++) out[i] = op_gradient(node, i, x, i, &node->attrs.norm.accumulate, dx);
    op_submit(LS_OP_layer_norm_grad, 5, in, 3, out, &node->attrs);
}

ls_tensor *ls_dropout_add_layer_norm_sum(ls_tensor *x, ls_tensor *residual, ls_tensor *weight, ls_tensor *bias,
                                         double p, double epsilon, ls_tensor **sum)
{
    ls_opcode op = LS_OP_dropout_add_layer_norm;
    ls_tensor *in[4] = {x, residual, weight, bias};
    int64_t size, numel;
    ls_run *run = op_begin(op, 2, 4, in);
    if (sum) *sum = op_poison(x ? x : residual);
    if (!run || !layer_norm_fits(run, op, x, weight, bias, epsilon, &size)) return op_poison(x ? x : residual);
    if (!(p >= 0 && p <= 1)) return op_error(run, op, LS_ERR_VALUE, "probability %g is not in [0, 1]", p);
    if (!op_same_shape(&x->view, &residual->view))
        return op_error(run, op, LS_ERR_SHAPE, "%s and residual %s", OP_TEXT(x), OP_TEXT(residual));
    in[1] = op_as(residual, x->view.dtype);
    if (ls_failed(run)) return &run->poison;
    if (!ls_device_supports(x->storage->device, op)) {
        ls_tensor *added = ls_add(p > 0 ? ls_dropout(x, p) : x, in[1]);
        if (sum) *sum = added;
        return ls_layer_norm(added, weight, bias, epsilon);
    }

    ls_attrs attrs = {.norm = {.epsilon = epsilon, .groups = size, .dropout = p}};
    ls_shape shape = ls_view_shape(&x->view);
    bool record = ls_must_record(run, 4, in);
    ls_tensor *out[4] = {op_new(x, x->view.dtype, shape)};
    if (record || sum) out[1] = op_new(x, x->view.dtype, shape);
    if (record) out[2] = op_new(x, statistics_type(x), LS_SHAPE(2, rows_of(x, size)));
    numel = ls_shape_numel(shape);
    ls_tensor *live = NULL;
    if (p > 0) live = ls_draw(run, x->storage->device, numel, &attrs.norm.seed, &attrs.norm.offset);
    /* A bit per element, in whole groups of 256, for the device's gradient. */
    if (p > 0 && record && ls_view_contiguous(&x->view) && ls_view_contiguous(&in[1]->view))
        out[3] = op_new(x, LS_U8, LS_SHAPE((numel + 255) / 256 * 32));
    ls_node *node;
    if (!op_submit_live(op, 4, in, 4, out, &attrs, live) || !op_record(op, 4, in, sum ? 2 : 1, out, &attrs, &node))
        return &run->poison;
    if (sum) *sum = out[1];
    if (node) {
        ls_save(node, out[1]);
        ls_save(node, out[2]);
        ls_save(node, weight);
        ls_save(node, out[3]);
        ls_save(node, live);
    }
    return out[0];
}

ls_tensor *ls_dropout_add_layer_norm(ls_tensor *x, ls_tensor *residual, ls_tensor *weight, ls_tensor *bias, double p,
                                     double epsilon)
{
    return ls_dropout_add_layer_norm_sum(x, residual, weight, bias, p, epsilon, NULL);
}

ls_tensor *ls_add_layer_norm(ls_tensor *x, ls_tensor *residual, ls_tensor *weight, ls_tensor *bias, double epsilon)
{
    return ls_dropout_add_layer_norm(x, residual, weight, bias, 0, epsilon);
}

/* Memory for the gradient of the sum, output 1 of the gradient's call, which becomes that of the residual: the gradient
 * that arrived for the sum itself, to be added to; or, unless the gradient of x is computed from it, the memory that
 * collects the residual's gradient. */
static ls_tensor *sum_gradient(ls_node *node, ls_tensor *came_back, ls_tensor *sum, ls_tensor **dx)
{
    int32_t *accumulate = &node->attrs.norm.accumulate;
    if (!came_back && !ls_wants(node, 0)) return op_gradient(node, 1, sum, 1, accumulate, dx);
    ls_tensor *target = came_back ? ls_grad_taken(node, 1) : NULL;
    if (came_back) *accumulate |= 1 << 1;
    if (!target) {
        target = op_new(sum, sum->view.dtype, ls_view_shape(&sum->view));
        if (came_back && target->life == LS_LIFE_LIVE) ls_raw_copy(target, came_back);
    }
    if (ls_wants(node, 1)) dx[1] = target;
    return target;
}

BACK(dropout_add_layer_norm)
{
    ls_tensor *sum = node->saved[0], *came_back = node->n_out > 1 ? dy[1] : NULL;
    ls_tensor *in[5] = {dy[0], sum, node->saved[1], node->saved[2], node->saved[3]}, *out[4] = {NULL};
    ls_shape shape = ls_view_shape(&sum->view);
    bool drops = node->attrs.norm.dropout > 0, to_x = ls_wants(node, 0);
    if (!dy[0]) in[0] = op_full(sum, sum->view.dtype, 0, shape); /* only the sum was used */
    if (to_x && drops) out[0] = dx[0] = op_new(sum, sum->view.dtype, shape);
    if (ls_wants(node, 1) || (to_x && !drops) || came_back) /* without dropout both gradients are the same */
        out[1] = sum_gradient(node, came_back, sum, dx);
    for (int i = 2; i < 4; i++) out[i] = op_gradient(node, i, sum, i, &node->attrs.norm.accumulate, dx);
    if (ls_failed(sum->run)) return;
    op_submit_live(LS_OP_dropout_add_layer_norm_grad, 5, in, 4, out, &node->attrs, node->saved[4]);
    if (to_x && !drops) dx[0] = out[1];
}

/* ---- embedding and layer norm ---- */

enum { TABLES = LS_MAX_EMBEDDING_TABLES, WEIGHT = 2 * TABLES, BIAS, EMBEDDING_INPUTS };

/* Checks the tables and indices at the start of `in`, and the rows without a gradient, which it converts to count from
 * the start (-1: none); *shape: that of the sum of rows. */
static bool tables_fit(ls_run *run, ls_opcode op, int n, ls_tensor *const *in, int64_t *padding, ls_shape *shape)
{
    *shape = ls_view_shape(&in[1]->view);
    for (int i = 0; i < n; i++) {
        const ls_tensor *table = in[2 * i], *index = in[2 * i + 1];
        const ls_operand *t = &table->view, *first = &in[0]->view;
        if (t->ndim != 2 || t->dim[1] != first->dim[1] || t->dtype != first->dtype)
            op_error(run, op, t->dtype != first->dtype ? LS_ERR_DTYPE : LS_ERR_SHAPE,
                     "table %d is %s, the first %s: all must be [rows,width] of one width and type", i, OP_TEXT(table),
                     OP_TEXT(in[0]));
        else if (!is_floating(run, op, table) || !op_index_type(run, op, index)) return false;
        else if (!op_broadcast(*shape, ls_view_shape(&index->view), shape) || shape->ndim >= LS_MAX_DIMS)
            op_error(run, op, LS_ERR_SHAPE,
                     "index %d is %s, the first %s: they must broadcast to fewer than %d dimensions", i, OP_TEXT(index),
                     OP_TEXT(in[1]), LS_MAX_DIMS);
        else if (padding[i] != LS_NO_ROW && (padding[i] < -t->dim[0] || padding[i] >= t->dim[0]))
            op_error(run, op, LS_ERR_VALUE, "padding_idx %lld is out of range for %lld rows", (long long)padding[i],
                     (long long)t->dim[0]);
        if (ls_failed(run)) return false;
        padding[i] = padding[i] == LS_NO_ROW ? -1 : padding[i] + (padding[i] < 0 ? t->dim[0] : 0);
    }
    shape->dim[shape->ndim++] = in[0]->view.dim[1];
    return true;
}

static ls_tensor *embed_in_steps(int n, ls_tensor *const *in, const int64_t *padding, double epsilon)
{
    ls_tensor *sum = ls_embedding_padded(in[0], in[1], padding[0]);
    for (int i = 1; i < n; i++) sum = ls_add(sum, ls_embedding_padded(in[2 * i], in[2 * i + 1], padding[i]));
    return ls_layer_norm(sum, in[WEIGHT], in[BIAS], epsilon);
}

ls_tensor *ls_embedding_layer_norm_sized(ls_tensor *const *tables, ls_tensor *const *indices, int64_t count,
                                         const ls_embedding_layer_norm_opts *given, size_t opts_size)
{
    ls_embedding_layer_norm_opts opts = LS_OPTS_READ(ls_embedding_layer_norm_opts, given, opts_size);
    int n = (int)count;
    ls_opcode op = LS_OP_embedding_layer_norm;
    if (n < 1 || n > TABLES)
        return op_error(ls_run_of(NULL), op, LS_ERR_VALUE, "%d tables; 1 to %d are supported", n, TABLES);
    ls_tensor *in[EMBEDDING_INPUTS] = {NULL};
    for (int i = 0; i < n; i++) {
        in[2 * i] = tables[i];
        in[2 * i + 1] = indices[i];
    }
    in[WEIGHT] = opts.weight;
    in[BIAS] = opts.bias;
    ls_run *run = op_begin(op, 2 * n, EMBEDDING_INPUTS, in);
    ls_shape shape;
    if (!run || !numbers_sound(run, op, opts.epsilon, 0) || !tables_fit(run, op, n, in, opts.padding_idx, &shape) ||
        !parameter_fits(run, op, "weight", opts.weight, in[0]->view.dim[1], in[0]) ||
        !parameter_fits(run, op, "bias", opts.bias, in[0]->view.dim[1], in[0]))
        return op_poison(in[0]);
    if (!ls_device_supports(in[0]->storage->device, op)) return embed_in_steps(n, in, opts.padding_idx, opts.epsilon);

    ls_shape rows = shape;
    rows.ndim--;
    ls_tensor *operands[EMBEDDING_INPUTS], *out[4] = {op_new(in[0], in[0]->view.dtype, shape)};
    for (int i = 0; i < EMBEDDING_INPUTS; i++) operands[i] = i < 2 * n && i % 2 ? op_expanded(in[i], rows) : in[i];
    if (ls_must_record(run, EMBEDDING_INPUTS, in)) {
        out[1] = op_new(in[0], in[0]->view.dtype, shape);
        for (int i = 2; i < 4; i++) out[i] = op_new(in[0], statistics_type(in[0]), LS_SHAPE(ls_shape_numel(rows)));
    }
    ls_attrs attrs = {.norm = {.epsilon = opts.epsilon, .groups = in[0]->view.dim[1]}};
    ls_node *node;
    if (ls_failed(run) || !op_submit(op, EMBEDDING_INPUTS, operands, 4, out, &attrs) ||
        !op_record(op, EMBEDDING_INPUTS, in, 1, out, &attrs, &node))
        return &run->poison;
    if (node) {
        for (int i = 1; i < 4; i++) ls_save(node, out[i]);
        ls_save(node, opts.weight);
        for (int i = 0; i < n; i++) {
            ls_save(node, operands[2 * i + 1]);
            node->extra[i] = opts.padding_idx[i];
        }
    }
    return out[0];
}

BACK(embedding_layer_norm)
{
    ls_tensor *const *saved = node->saved, *sum = saved[0];
    ls_tensor *in[5] = {dy[0], sum, saved[1], saved[2], saved[3]}, *out[3] = {NULL};
    for (int i = 0; i < TABLES; i++)
        if (ls_wants(node, 2 * i) && !out[0]) out[0] = op_new(sum, sum->view.dtype, ls_view_shape(&sum->view));
    for (int i = 1; i < 3; i++) out[i] = op_gradient(node, WEIGHT + i - 1, sum, i, &node->attrs.norm.accumulate, dx);
    if (!op_submit(LS_OP_layer_norm_grad, 5, in, 3, out, &node->attrs)) return;
    for (int i = 0; i < TABLES; i++)
        if (ls_wants(node, 2 * i)) dx[2 * i] = op_table_gradient(node, 2 * i, node->extra[i], saved[4 + i], out[0]);
}

/* ---- group norm ---- */

ls_tensor *ls_group_norm(ls_tensor *x, int64_t groups, ls_tensor *weight, ls_tensor *bias, double epsilon)
{
    ls_opcode op = LS_OP_group_norm;
    ls_tensor *in[3] = {x, weight, bias};
    ls_run *run = op_begin(op, 1, 3, in);
    if (!run || !is_floating(run, op, x) || !numbers_sound(run, op, epsilon, 0)) return op_poison(x);
    if (x->view.ndim < 2 || groups < 1 || x->view.dim[1] % groups)
        return op_error(run, op, LS_ERR_SHAPE, "channels of %s do not split into %lld groups", OP_TEXT(x),
                        (long long)groups);
    if (!parameter_fits(run, op, "weight", weight, x->view.dim[1], x) ||
        !parameter_fits(run, op, "bias", bias, x->view.dim[1], x))
        return &run->poison;
    ls_shape stats = LS_SHAPE(x->view.dim[0], groups);
    ls_tensor *out[3] = {ls_tensor_new_like(x, x->view.dtype), op_new(x, statistics_type(x), stats),
                         op_new(x, statistics_type(x), stats)};
    ls_attrs attrs = {.norm = {.epsilon = epsilon, .groups = groups}};
    ls_node *node;
    if (!op_submit(op, 3, in, 3, out, &attrs) || !op_record(op, 3, in, 1, out, &attrs, &node)) return &run->poison;
    if (node) {
        ls_save(node, x);
        ls_save(node, out[1]);
        ls_save(node, out[2]);
        ls_save(node, weight);
    }
    return out[0];
}

BACK(group_norm)
{
    ls_tensor *x = node->saved[0];
    ls_tensor *in[5] = {dy[0], x, node->saved[1], node->saved[2], node->saved[3]};
    if (ls_wants(node, 0)) dx[0] = ls_tensor_new_like(x, x->view.dtype);
    int32_t *accumulate = &node->attrs.norm.accumulate;
    ls_tensor *out[3] = {dx[0], op_gradient(node, 1, x, 1, accumulate, dx), op_gradient(node, 2, x, 2, accumulate, dx)};
    op_submit(LS_OP_group_norm_grad, 5, in, 3, out, &node->attrs);
}

/* ---- root mean square ---- */

/* Half types are computed in f32 and rounded once. */
ls_tensor *ls_rms_norm(ls_tensor *x, ls_tensor *weight, double epsilon)
{
    ls_opcode op = LS_OP_rms_norm;
    ls_run *run = op_begin(op, 1, 2, (ls_tensor *[]){x, weight});
    if (!run || !is_floating(run, op, x) || !numbers_sound(run, op, epsilon, 0)) return op_poison(x);
    int n = x->view.ndim, over = weight ? weight->view.ndim : 1;
    bool fits = over >= 1 && over <= n;
    for (int d = 0; fits && weight && d < over; d++) fits = weight->view.dim[d] == x->view.dim[n - over + d];
    if (!fits)
        return op_error(run, op, LS_ERR_SHAPE, "weight %s does not have the last dimensions of %s",
                        weight ? OP_TEXT(weight) : "(none)", OP_TEXT(x));
    ls_shape dims = {.ndim = over};
    for (int d = 0; d < over; d++) dims.dim[d] = n - over + d;
    ls_dtype dtype = x->view.dtype;
    ls_tensor *wide = op_as(x, statistics_type(x));
    ls_tensor *square = ls_mean_dims(ls_square(wide), dims, true);
    ls_tensor *y = ls_mul(wide, ls_rsqrt(ls_add_scalar(square, epsilon)));
    if (weight) y = ls_mul(y, op_as(weight, statistics_type(x)));
    return ls_cast(y, dtype);
}
