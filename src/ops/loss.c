/* loss.c - softmax and the losses. Losses are computed and returned in f32 (f64 for f64), whatever the logits are. */
#include "ops/op.h"

/* ---- softmax ---- */

static ls_tensor *softmax(ls_opcode op, ls_tensor *x, int dim)
{
    ls_run *run = op_begin(op, 1, 1, &x);
    if (!run) return op_poison(x);
    int d = op_dim(dim, x->view.ndim);
    if (d < 0) return op_error(run, op, LS_ERR_SHAPE, "%s has no dimension %d", OP_TEXT(x), dim);
    if (!ls_dtype_is_float(x->view.dtype))
        return op_error(run, op, LS_ERR_DTYPE, "%s: a floating type is needed", OP_TEXT(x));
    x = op_as_f32(x);
    if (ls_failed(run)) return &run->poison;
    ls_tensor *y = ls_tensor_new_like(x, x->view.dtype);
    ls_node *node;
    if (!op_run(op, 1, &x, 1, &y, &(ls_attrs){.axis = {.dim = d}}, &node)) return &run->poison;
    ls_save(node, y);
    return y;
}

ls_tensor *ls_softmax(ls_tensor *x, int dim)
{
    return softmax(LS_OP_softmax, x, dim);
}

ls_tensor *ls_log_softmax(ls_tensor *x, int dim)
{
    return softmax(LS_OP_log_softmax, x, dim);
}

BACK(softmax)
{
    dx[0] = op_activation_grad(LS_OP_softmax_grad, dy[0], node->saved[0], &node->attrs);
}

BACK(log_softmax)
{
    dx[0] = op_activation_grad(LS_OP_log_softmax_grad, dy[0], node->saved[0], &node->attrs);
}

/* ---- classes ---- */

static ls_dtype loss_type(const ls_tensor *x)
{
    return x->view.dtype == LS_F64 ? LS_F64 : LS_F32;
}

/* x [N,C,...], target [N,...], weight [C]?: true if they match. */
static bool classes_fit(ls_run *run, ls_opcode op, const ls_tensor *x, const ls_tensor *target, const ls_tensor *weight)
{
    bool ok = x->view.ndim >= 2 && target->view.ndim == x->view.ndim - 1;
    for (int d = 0; ok && d < target->view.ndim; d++) ok = target->view.dim[d] == x->view.dim[d == 0 ? 0 : d + 1];
    if (!ls_dtype_is_float(x->view.dtype))
        op_error(run, op, LS_ERR_DTYPE, "logits %s: a floating type is needed", OP_TEXT(x));
    else if (target->view.dtype != LS_I64 && target->view.dtype != LS_I32)
        op_error(run, op, LS_ERR_DTYPE, "the target is %s, not i64 or i32", OP_TEXT(target));
    else if (!ok)
        op_error(run, op, LS_ERR_SHAPE, "logits %s [N,C,...] and target %s [N,...] do not fit", OP_TEXT(x),
                 OP_TEXT(target));
    else if (weight && (weight->view.ndim != 1 || weight->view.dim[0] != x->view.dim[1]))
        op_error(run, op, LS_ERR_SHAPE, "class weights %s for logits %s", OP_TEXT(weight), OP_TEXT(x));
    return !ls_failed(run);
}

static ls_attrs loss_attrs(const ls_loss_opts *opts)
{
    return (ls_attrs){.loss = {.reduction = opts->reduction,
                               .smoothing = opts->label_smoothing,
                               .beta = opts->beta,
                               .ignore_index = opts->ignore_index,
                               .has_ignore = 1}};
}

/* Options of other losses, and values out of range, are errors: whoever gives them expects an effect. */
enum { TAKES_WEIGHT = 1, TAKES_POS_WEIGHT = 2, TAKES_SMOOTHING = 4, TAKES_IGNORE_INDEX = 8, TAKES_BETA = 16 };

static bool options_sound(ls_run *run, ls_opcode op, const ls_loss_opts *o, int takes)
{
    ls_loss_opts defaults = {ls_loss_opts_defaults};
    const char *foreign = NULL;
    if (o->weight && !(takes & TAKES_WEIGHT)) foreign = "weight";
    if (o->pos_weight && !(takes & TAKES_POS_WEIGHT)) foreign = "pos_weight";
    if (o->label_smoothing != defaults.label_smoothing && !(takes & TAKES_SMOOTHING)) foreign = "label_smoothing";
    if (o->ignore_index != defaults.ignore_index && !(takes & TAKES_IGNORE_INDEX)) foreign = "ignore_index";
    if (o->beta != defaults.beta && !(takes & TAKES_BETA)) foreign = "beta";
    if (foreign) op_error(run, op, LS_ERR_VALUE, "has no option .%s; leave it out", foreign);
    else if (o->reduction != LS_REDUCE_MEAN && o->reduction != LS_REDUCE_SUM && o->reduction != LS_REDUCE_NONE)
        op_error(run, op, LS_ERR_VALUE, "reduction is %d; it must be LS_REDUCE_MEAN, LS_REDUCE_SUM or LS_REDUCE_NONE",
                 (int)o->reduction);
    else if (!(o->label_smoothing >= 0 && o->label_smoothing <= 1))
        op_error(run, op, LS_ERR_VALUE, "label smoothing %g is not in [0, 1]", o->label_smoothing);
    else if (!(o->beta >= 0 && o->beta < INFINITY))
        op_error(run, op, LS_ERR_VALUE, "beta is %g; it must be finite and not negative", o->beta);
    return !ls_failed(run);
}

static ls_shape loss_shape(const ls_tensor *per_element, ls_reduction reduction)
{
    return reduction == LS_REDUCE_NONE ? ls_view_shape(&per_element->view) : LS_SCALAR;
}

ls_tensor *ls_cross_entropy_sized(ls_tensor *logits, ls_tensor *target, const ls_loss_opts *given, size_t opts_size)
{
    ls_loss_opts opts = LS_OPTS_READ(ls_loss_opts, given, opts_size);
    ls_opcode op = LS_OP_cross_entropy;
    ls_tensor *in[3] = {logits, target, opts.weight};
    ls_run *run = op_begin(op, 2, 3, in);
    if (!run || !options_sound(run, op, &opts, TAKES_WEIGHT | TAKES_SMOOTHING | TAKES_IGNORE_INDEX) ||
        !classes_fit(run, op, logits, target, opts.weight))
        return op_poison(logits);
    ls_dtype dtype = loss_type(logits);
    in[1] = target = op_as(target, LS_I64);
    in[2] = op_as(opts.weight, dtype);
    if (ls_failed(run)) return &run->poison;
    ls_tensor *out[3] = {op_new(logits, dtype, loss_shape(target, opts.reduction)),
                         op_new(logits, dtype, ls_view_shape(&target->view)), op_new(logits, dtype, LS_SCALAR)};
    ls_attrs attrs = loss_attrs(&opts);
    ls_node *node;
    if (!op_submit(op, 3, in, 3, out, &attrs) || !op_record(op, 1, in, 1, out, &attrs, &node)) return &run->poison;
    if (node) {
        ls_save(node, logits);
        ls_save(node, target);
        ls_save(node, in[2]);
        ls_save(node, out[1]);
        ls_save(node, out[2]);
    }
    return out[0];
}

BACK(cross_entropy)
{
    ls_tensor **saved = node->saved, *in[6] = {dy[0], saved[0], saved[1], saved[2], saved[3], saved[4]};
    ls_tensor *out = ls_tensor_new_like(saved[0], saved[0]->view.dtype);
    dx[0] = op_submit(LS_OP_cross_entropy_grad, 6, in, 1, &out, &node->attrs) ? out : NULL;
}

ls_tensor *ls_nll_loss_sized(ls_tensor *log_probability, ls_tensor *target, const ls_loss_opts *given, size_t opts_size)
{
    ls_loss_opts opts = LS_OPTS_READ(ls_loss_opts, given, opts_size);
    ls_opcode op = LS_OP_nll_loss;
    ls_tensor *x = log_probability, *in[3] = {x, target, opts.weight};
    ls_run *run = op_begin(op, 2, 3, in);
    if (!run || !options_sound(run, op, &opts, TAKES_WEIGHT | TAKES_IGNORE_INDEX) ||
        !classes_fit(run, op, x, target, opts.weight))
        return op_poison(x);
    ls_dtype dtype = loss_type(x);
    in[1] = target = op_as(target, LS_I64);
    in[2] = op_as(opts.weight, dtype);
    if (ls_failed(run)) return &run->poison;
    ls_tensor *out[2] = {op_new(x, dtype, loss_shape(target, opts.reduction)), op_new(x, dtype, LS_SCALAR)};
    ls_attrs attrs = loss_attrs(&opts);
    ls_node *node;
    if (!op_submit(op, 3, in, 2, out, &attrs) || !op_record(op, 1, in, 1, out, &attrs, &node)) return &run->poison;
    if (node) {
        ls_save(node, target);
        ls_save(node, in[2]);
        ls_save(node, out[1]);
    }
    return out[0];
}

BACK(nll_loss)
{
    ls_tensor *in[4] = {dy[0], node->saved[0], node->saved[1], node->saved[2]};
    ls_tensor *out = op_new(dy[0], node->in[0].dtype, node->in[0].shape);
    dx[0] = op_submit(LS_OP_nll_loss_grad, 4, in, 1, &out, &node->attrs) ? out : NULL;
}

/* ---- element by element ---- */

/* Losses of x against a target of the same shape, with up to two weights broadcast to it. The target is not broadcast:
 * [N,1] against [N] would compare every sample with every other. */
static ls_tensor *elementwise_loss(ls_opcode op, ls_tensor *x, ls_tensor *target, const ls_loss_opts *opts, int takes)
{
    ls_tensor *in[4] = {x, target, opts->weight, opts->pos_weight};
    ls_run *run = op_begin(op, 2, 4, in);
    if (!run || !options_sound(run, op, opts, takes)) return op_poison(x);
    if (!op_same_shape(&x->view, &target->view))
        return op_error(run, op, LS_ERR_SHAPE,
                        "%s and target %s must have the same shape; ls_reshape() or ls_squeeze() one of them",
                        OP_TEXT(x), OP_TEXT(target));
    ls_shape shape = ls_view_shape(&x->view);
    ls_dtype dtype = ls_dtype_promote(x->view.dtype, target->view.dtype) == LS_F64 ? LS_F64 : LS_F32;
    ls_tensor *wide[4] = {0};
    for (int i = 0; i < 4; i++) {
        if (!in[i]) continue;
        ls_shape both;
        if (!op_broadcast(shape, ls_view_shape(&in[i]->view), &both) || !ls_shape_equal(both, shape))
            return op_error(run, op, LS_ERR_SHAPE, "weight %s does not broadcast to %s", OP_TEXT(in[i]), OP_TEXT(x));
        in[i] = op_as(in[i], dtype);
        if (ls_failed(run)) return &run->poison;
        wide[i] = op_expanded(in[i], shape);
    }
    if (ls_failed(run)) return &run->poison;
    ls_tensor *y = op_new(x, dtype, opts->reduction == LS_REDUCE_NONE ? shape : LS_SCALAR);
    ls_attrs attrs = loss_attrs(opts);
    ls_opcode kernel = op == LS_OP_l1_loss ? LS_OP_smooth_l1_loss : op;
    ls_node *node;
    if (!op_submit(kernel, 4, wide, 1, &y, &attrs) || !op_record(op, 2, in, 1, &y, &attrs, &node)) return &run->poison;
    if (node)
        for (int i = 0; i < 4; i++) ls_save(node, wide[i]);
    return y;
}

/* If the loss depends only on x - t, the target's gradient is the negative of x's. */
static void back_elementwise(ls_node *node, ls_opcode op, ls_tensor *dy, ls_tensor **dx, bool symmetric)
{
    ls_tensor *in[5] = {dy, node->saved[0], node->saved[1], node->saved[2], node->saved[3]};
    ls_tensor *out = ls_tensor_new_like(in[1], in[1]->view.dtype);
    if (!op_submit(op, 5, in, 1, &out, &node->attrs)) return;
    if (ls_wants(node, 0)) dx[0] = out;
    if (ls_wants(node, 1) && symmetric) dx[1] = ls_neg(out);
}

ls_tensor *ls_mse_loss(ls_tensor *x, ls_tensor *target, ls_reduction reduction)
{
    return elementwise_loss(LS_OP_mse_loss, x, target, &LS_OPTIONS(ls_loss_opts, .reduction = reduction), 0);
}

BACK(mse_loss)
{
    back_elementwise(node, LS_OP_mse_loss_grad, dy[0], dx, true);
}

ls_tensor *ls_l1_loss(ls_tensor *x, ls_tensor *target, ls_reduction reduction)
{
    return elementwise_loss(LS_OP_l1_loss, x, target, &LS_OPTIONS(ls_loss_opts, .reduction = reduction, .beta = 0),
                            TAKES_BETA);
}

BACK(l1_loss)
{
    back_elementwise(node, LS_OP_smooth_l1_loss_grad, dy[0], dx, true);
}

ls_tensor *ls_smooth_l1_loss_sized(ls_tensor *x, ls_tensor *target, const ls_loss_opts *given, size_t opts_size)
{
    ls_loss_opts opts = LS_OPTS_READ(ls_loss_opts, given, opts_size);
    return elementwise_loss(LS_OP_smooth_l1_loss, x, target, &opts, TAKES_BETA);
}

BACK(smooth_l1_loss)
{
    back_elementwise(node, LS_OP_smooth_l1_loss_grad, dy[0], dx, true);
}

/* Targets outside [0, 1] make a loss without a minimum. Checking all of them takes time, so only in runs with
 * .check_finite. */
static bool are_probabilities(ls_tensor *target)
{
    ls_run *run = target->run;
    if (!run->check_finite || ls_view_numel(&target->view) == 0) return true;
    ls_mark mark = ls_scope_begin(run);
    double low = ls_item(ls_min(target)), high = ls_item(ls_max(target));
    ls_scope_end(run, mark, NULL);
    if (!ls_failed(run) && !(low >= 0 && high <= 1))
        op_error(run, LS_OP_bce_with_logits, LS_ERR_VALUE,
                 "the target %s has numbers from %g to %g; probabilities must be in [0, 1]", OP_TEXT(target), low,
                 high);
    return !ls_failed(run);
}

ls_tensor *ls_bce_with_logits_sized(ls_tensor *x, ls_tensor *target, const ls_loss_opts *given, size_t opts_size)
{
    ls_loss_opts opts = LS_OPTS_READ(ls_loss_opts, given, opts_size);
    if (target && ls_is_valid(target) && target->node)
        return LS_POISON(target->run, LS_ERR_STATE, "bce_with_logits: the target gets no gradient; ls_detach() it");
    if (target && ls_is_valid(target) && !are_probabilities(target)) return &target->run->poison;
    return elementwise_loss(LS_OP_bce_with_logits, x, target, &opts, TAKES_WEIGHT | TAKES_POS_WEIGHT);
}

BACK(bce_with_logits)
{
    back_elementwise(node, LS_OP_bce_with_logits_grad, dy[0], dx, false);
}
