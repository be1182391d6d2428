/* attention.c - softmax(q k^T scale + mask) v without ever storing the scores: of three tensors, or of the one tensor
 * that a projection wrote all three into. Both are the device's attention, on strided operands without copies. */
#include "ops/op.h"

#include <float.h>
#include <math.h>

/* Part `part` of rows [B,S,parts*H*D], as heads [B,H,S,D]. */
static ls_operand heads_of(const ls_operand *rows, int64_t heads, int64_t width, int part)
{
    int64_t step = rows->stride[2];
    return (ls_operand){
        .data = (char *)rows->data + part * heads * width * step * (int64_t)ls_dtype_size(rows->dtype),
        .dtype = rows->dtype,
        .ndim = 4,
        .dim = {rows->dim[0], heads, rows->dim[1], width},
        .stride = {rows->stride[0], width * step, rows->stride[1], step},
    };
}

/* f64 as f32, where a finite number stays finite: an infinite one hides a key, which a large one does not. */
static ls_tensor *narrowed(ls_tensor *mask)
{
    ls_tensor *finite = ls_lt_scalar(ls_abs(mask), INFINITY);
    return op_as(ls_where(finite, ls_clamp(mask, -FLT_MAX, FLT_MAX), mask), LS_F32);
}

/* The mask expanded to the scores in a type that devices accept; NULL if none is given, or with an error. */
static ls_tensor *usable_mask(ls_run *run, ls_opcode op, ls_tensor *mask, ls_shape scores, ls_dtype dtype)
{
    ls_shape both;
    if (!mask) return NULL;
    if (!op_broadcast(scores, ls_view_shape(&mask->view), &both) || !ls_shape_equal(both, scores))
        op_error(run, op, LS_ERR_SHAPE, "mask %s does not broadcast to the scores %s", OP_TEXT(mask),
                 OP_SHAPE_TEXT(scores));
    else if (mask->view.dtype != LS_BOOL && !ls_dtype_is_float(mask->view.dtype))
        op_error(run, op, LS_ERR_DTYPE, "mask %s must be bool (true attends) or floating (added); ls_cast() it",
                 OP_TEXT(mask));
    else if (mask->node) op_error(run, op, LS_ERR_STATE, "a mask gets no gradient; ls_detach() it");
    if (ls_failed(run)) return NULL;
    if (mask->view.dtype == LS_F64 && dtype != LS_F64) mask = narrowed(mask);
    else if (mask->view.dtype != LS_BOOL) mask = op_as(mask, dtype == LS_F64 ? LS_F64 : LS_F32);
    if (ls_failed(run)) return NULL;
    return op_expanded(mask, scores);
}

static void check_lengths(ls_run *run, ls_opcode op, const ls_tensor *lengths, ls_shape scores)
{
    if (!lengths) return;
    const ls_operand *x = &lengths->view;
    if (x->ndim != 1 || x->dim[0] != scores.dim[0] || (x->dtype != LS_I64 && x->dtype != LS_I32))
        op_error(run, op, LS_ERR_SHAPE, "lengths %s must be i64 or i32 [%lld], one number per sequence",
                 OP_TEXT(lengths), (long long)scores.dim[0]);
    else if (scores.dim[2] != scores.dim[3])
        op_error(run, op, LS_ERR_SHAPE, "lengths need as many queries as keys, not %lld and %lld; use a mask",
                 (long long)scores.dim[2], (long long)scores.dim[3]);
}

/* o [B,S,H*Dv], the layout of the next projection, from q, k and v [B,H,S,D], which are the inputs `in` or parts of
 * them. */
static ls_tensor *attend(ls_opcode op, int n_in, ls_tensor *const *in, const ls_operand part[3],
                         const ls_attention_opts *opts, ls_node **node)
{
    ls_run *run = in[0]->run;
    const ls_operand *q = &part[0], *k = &part[1], *v = &part[2];
    int64_t batch = q->dim[0], heads = q->dim[1], rows = q->dim[2], keys = k->dim[2];
    ls_shape scores = LS_SHAPE(batch, heads, rows, keys);
    if (!(opts->dropout >= 0 && opts->dropout < 1))
        return op_error(run, op, LS_ERR_VALUE, "dropout %g is not in [0, 1)", opts->dropout);
    double scale = ls_opts_real(opts->scale, 1 / sqrt((double)(q->dim[3] ? q->dim[3] : 1)));
    if (!isfinite(scale)) return op_error(run, op, LS_ERR_VALUE, "scale is %g; it must be finite", scale);
    ls_tensor *mask = usable_mask(run, op, opts->mask, scores, q->dtype), *lengths = opts->lengths;
    check_lengths(run, op, lengths, scores);
    if (ls_failed(run)) return &run->poison;

    bool record = ls_must_record(run, n_in, in);
    ls_tensor *o = op_new(in[0], q->dtype, LS_SHAPE(batch, rows, heads * v->dim[3])), *lse = NULL, *kept = NULL;
    if (record) lse = op_new(in[0], q->dtype == LS_F64 ? LS_F64 : LS_F32, LS_SHAPE(batch, heads, rows));
    /* What dropout kept, for the device's gradient: a bit per score in rows of whole words. */
    if (record && opts->dropout > 0) kept = op_new(in[0], LS_U8, LS_SHAPE(batch, heads, rows, (keys + 63) / 64 * 8));
    if (ls_failed(run)) return &run->poison;

    ls_operand by_heads = heads_of(&o->view, heads, v->dim[3], 0);
    ls_call call = {.op = LS_OP_attention,
                    .n_in = 5,
                    .n_out = 3,
                    .in = {q, k, v, mask ? &mask->view : NULL, lengths ? &lengths->view : NULL},
                    .out = {&by_heads, lse ? &lse->view : NULL, kept ? &kept->view : NULL}};
    call.attrs.attention.scale = scale;
    call.attrs.attention.dropout = opts->dropout;
    call.attrs.attention.causal = opts->causal;
    ls_tensor *live = NULL;
    if (opts->dropout > 0)
        live = ls_draw(run, o->storage->device, ls_shape_numel(scores), &call.attrs.attention.seed,
                       &call.attrs.attention.offset);
    if (ls_failed(run)) return &run->poison;
    call.live = live ? &live->view : NULL;
    if (!ls_submit(run, o->storage->device, &call) || !op_record(op, n_in, in, 1, &o, &call.attrs, node))
        return &run->poison;
    for (int i = 0; i < n_in; i++) ls_save(*node, in[i]);
    ls_tensor *more[] = {o, lse, mask, kept, lengths, live};
    for (int i = 0; i < 6; i++) ls_save(*node, more[i]);
    return o;
}

/* Write the gradients of q, k and v (NULL: not wanted). more: what attend saved after the inputs. */
static bool write_gradients(ls_node *node, const ls_tensor *dy, const ls_operand part[3], ls_tensor *const more[6],
                            const ls_operand *const gradient[3])
{
    int64_t heads = part[0].dim[1], width = part[2].dim[3];
    ls_operand d_o = dy->view.ndim == 3 ? heads_of(&dy->view, heads, width, 0) : dy->view;
    ls_operand o = heads_of(&more[0]->view, heads, width, 0);
    ls_call call = {.op = LS_OP_attention_grad,
                    .n_in = 9,
                    .n_out = 3,
                    .in = {&d_o, &part[0], &part[1], &part[2], &o},
                    .out = {gradient[0], gradient[1], gradient[2]},
                    .live = more[5] ? &more[5]->view : NULL,
                    .attrs = node->attrs};
    for (int i = 1; i < 5; i++) call.in[4 + i] = more[i] ? &more[i]->view : NULL;
    return ls_submit(dy->run, dy->storage->device, &call);
}

/* ---- three tensors ---- */

ls_tensor *ls_attention_sized(ls_tensor *q, ls_tensor *k, ls_tensor *v, const ls_attention_opts *given,
                              size_t opts_size)
{
    ls_attention_opts opts = LS_OPTS_READ(ls_attention_opts, given, opts_size);
    ls_opcode op = LS_OP_attention;
    ls_run *run = op_begin(op, 3, 5, (ls_tensor *[]){q, k, v, opts.mask, opts.lengths});
    if (!run) return op_poison(q ? q : k);
    const ls_operand *a = &q->view, *b = &k->view, *c = &v->view;
    bool ok = a->ndim == 4 && b->ndim == 4 && c->ndim == 4 && a->dim[0] == b->dim[0] && a->dim[0] == c->dim[0] &&
              b->dim[1] > 0 && b->dim[1] == c->dim[1] && a->dim[1] % b->dim[1] == 0 && b->dim[2] == c->dim[2] &&
              a->dim[3] == b->dim[3];
    if (!ok)
        return op_error(run, op, LS_ERR_SHAPE, "q %s, k %s and v %s do not fit", OP_TEXT(q), OP_TEXT(k), OP_TEXT(v));
    ls_dtype dtype = ls_dtype_promote(ls_dtype_promote(a->dtype, b->dtype), c->dtype);
    if (!ls_dtype_is_float(dtype))
        return op_error(run, op, LS_ERR_DTYPE, "q %s: a floating type is needed", OP_TEXT(q));
    dtype = op_half_type(run, dtype);
    ls_tensor *in[3] = {op_as(q, dtype), op_as(k, dtype), op_as(v, dtype)};
    if (ls_failed(run)) return &run->poison;
    ls_node *node;
    ls_tensor *o = attend(op, 3, in, (ls_operand[]){in[0]->view, in[1]->view, in[2]->view}, &opts, &node);
    if (o->life == LS_LIFE_LIVE) o->view = heads_of(&o->view, a->dim[1], c->dim[3], 0);
    return o;
}

BACK(attention)
{
    ls_tensor *const *saved = node->saved, *out[3];
    const ls_operand part[3] = {saved[0]->view, saved[1]->view, saved[2]->view};
    const ls_operand *gradient[3] = {NULL, NULL, NULL};
    for (int i = 0; i < 3; i++) {
        out[i] = ls_wants(node, i) ? ls_tensor_new_like(saved[i], saved[i]->view.dtype) : NULL;
        if (out[i] && out[i]->life != LS_LIFE_LIVE) return;
        if (out[i]) gradient[i] = &out[i]->view;
    }
    if (!write_gradients(node, dy[0], part, saved + 3, gradient)) return;
    for (int i = 0; i < 3; i++) dx[i] = out[i];
}

/* ---- one tensor that holds all three ---- */

ls_tensor *ls_self_attention_sized(ls_tensor *qkv, int64_t heads, const ls_attention_opts *given, size_t opts_size)
{
    ls_attention_opts opts = LS_OPTS_READ(ls_attention_opts, given, opts_size);
    ls_opcode op = LS_OP_self_attention;
    ls_run *run = op_begin(op, 1, 3, (ls_tensor *[]){qkv, opts.mask, opts.lengths});
    if (!run) return op_poison(qkv);
    if (qkv->view.ndim != 3 || heads < 1 || qkv->view.dim[2] % (3 * heads))
        return op_error(run, op, LS_ERR_SHAPE, "%s is not [B,S,3*H*D] with %lld heads", OP_TEXT(qkv), (long long)heads);
    if (!ls_dtype_is_float(qkv->view.dtype))
        return op_error(run, op, LS_ERR_DTYPE, "%s: a floating type is needed", OP_TEXT(qkv));
    ls_tensor *in = op_as(qkv, op_half_type(run, qkv->view.dtype));
    if (ls_failed(run)) return &run->poison;
    ls_operand part[3];
    for (int i = 0; i < 3; i++) part[i] = heads_of(&in->view, heads, qkv->view.dim[2] / (3 * heads), i);
    ls_node *node;
    ls_tensor *o = attend(op, 1, &in, part, &opts, &node);
    if (o->life == LS_LIFE_LIVE && node) node->extra[0] = heads;
    return o;
}

BACK(self_attention)
{
    ls_tensor *const *saved = node->saved;
    ls_tensor *out = op_new(dy[0], saved[0]->view.dtype, node->in[0].shape);
    if (out->life != LS_LIFE_LIVE) return;
    ls_operand part[3], gradient[3];
    int64_t heads = node->extra[0], width = out->view.dim[2] / (3 * heads);
    for (int i = 0; i < 3; i++) {
        part[i] = heads_of(&saved[0]->view, heads, width, i);
        gradient[i] = heads_of(&out->view, heads, width, i);
    }
    const ls_operand *const to[3] = {&gradient[0], &gradient[1], &gradient[2]};
    if (write_gradients(node, dy[0], part, saved + 1, to)) dx[0] = out;
}
