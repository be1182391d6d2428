/* attention.c - softmax(q k^T scale + mask) v without ever storing the scores. */
#include "ops/op.h"

#include <math.h>

ls_tensor *ls_attention_sized(ls_tensor *q, ls_tensor *k, ls_tensor *v, const ls_attention_opts *given,
                              size_t opts_size)
{
    ls_attention_opts opts = LS_OPTS_READ(ls_attention_opts, given, opts_size);
    ls_opcode op = LS_OP_attention;
    ls_run *run = op_begin(op, 3, 4, (ls_tensor *[]){q, k, v, opts.mask});
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
    if (!(opts.dropout >= 0 && opts.dropout < 1))
        return op_error(run, op, LS_ERR_VALUE, "dropout %g is not in [0, 1)", opts.dropout);
    double scale = ls_opts_real(opts.scale, 1 / sqrt((double)(a->dim[3] ? a->dim[3] : 1)));
    if (!isfinite(scale)) return op_error(run, op, LS_ERR_VALUE, "scale %g; it must be finite", scale);
    dtype = op_half_type(run, dtype);

    ls_shape scores = LS_SHAPE(a->dim[0], a->dim[1], a->dim[2], b->dim[2]), both;
    ls_tensor *mask = opts.mask;
    if (mask) {
        if (!op_broadcast(scores, ls_view_shape(&mask->view), &both) || !ls_shape_equal(both, scores))
            return op_error(run, op, LS_ERR_SHAPE, "mask %s does not broadcast to the scores %s", OP_TEXT(mask),
                            OP_SHAPE_TEXT(scores));
        if (mask->view.dtype != LS_BOOL && !ls_dtype_is_float(mask->view.dtype))
            return op_error(run, op, LS_ERR_DTYPE, "mask %s: bool (true attends) or floating (added); ls_cast() it",
                            OP_TEXT(mask));
        if (mask->node) return op_error(run, op, LS_ERR_STATE, "a mask has no gradient here; ls_detach() it");
        if (mask->view.dtype != LS_BOOL) mask = op_as(mask, dtype == LS_F64 ? LS_F64 : LS_F32);
        mask = op_expanded(mask, scores);
    }
    ls_tensor *in[4] = {op_as(q, dtype), op_as(k, dtype), op_as(v, dtype), mask};
    if (ls_failed(run)) return &run->poison;

    /* [B,H,S,D] whose memory runs B, S, H, D: what the next projection reads as rows without a copy */
    int64_t batch = a->dim[0], heads = a->dim[1], rows = a->dim[2], width = c->dim[3];
    ls_tensor *o = op_new(q, dtype, LS_SHAPE(batch, heads, rows, width));
    if (o->life != LS_LIFE_LIVE) return o;
    o->view.stride[0] = rows * heads * width;
    o->view.stride[1] = width;
    o->view.stride[2] = heads * width;
    bool record = ls_must_record(run, 3, in);
    ls_tensor *lse = record ? op_new(q, dtype == LS_F64 ? LS_F64 : LS_F32, LS_SHAPE(batch, heads, rows)) : NULL;
    ls_attrs attrs = {.attention = {.scale = scale, .dropout = opts.dropout, .causal = opts.causal}};
    ls_tensor *live = NULL;
    if (opts.dropout > 0)
        live = ls_draw(run, q->storage->device, ls_shape_numel(scores), &attrs.attention.seed, &attrs.attention.offset);
    /* What dropout kept, for the device to hand to its gradient: a bit per score in rows of whole words. */
    ls_tensor *kept = NULL;
    if (record && opts.dropout > 0) kept = op_new(q, LS_U8, LS_SHAPE(batch, heads, rows, (b->dim[2] + 63) / 64 * 8));
    ls_node *node;
    if (!op_submit_live(op, 4, in, 3, (ls_tensor *[]){o, lse, kept}, &attrs, live) ||
        !op_record(op, 3, in, 1, &o, &attrs, &node))
        return &run->poison;
    if (node) {
        for (int i = 0; i < 3; i++) ls_save(node, in[i]);
        ls_save(node, o);
        ls_save(node, lse);
        ls_save(node, mask);
        ls_save(node, kept);
        ls_save(node, live);
    }
    return o;
}

BACK(attention)
{
    ls_tensor **saved = node->saved;
    ls_tensor *in[8] = {dy[0], saved[0], saved[1], saved[2], saved[3], saved[4], saved[5], saved[6]}, *out[3];
    for (int i = 0; i < 3; i++) out[i] = ls_wants(node, i) ? ls_tensor_new_like(saved[i], saved[i]->view.dtype) : NULL;
    int first = 0;
    while (!out[first]) first++;
    const ls_operand *live = saved[7] ? &saved[7]->view : NULL;
    ls_call call = {.op = LS_OP_attention_grad, .n_in = 8, .n_out = 3, .live = live, .attrs = node->attrs};
    for (int i = 0; i < 8; i++) call.in[i] = in[i] ? &in[i]->view : NULL;
    for (int i = 0; i < 3; i++) {
        if (out[i] && out[i]->life != LS_LIFE_LIVE) return;
        call.out[i] = out[i] ? &out[i]->view : NULL;
    }
    if (!ls_submit(dy[0]->run, out[first]->storage->device, &call)) return;
    for (int i = 0; i < 3; i++) dx[i] = out[i];
}
