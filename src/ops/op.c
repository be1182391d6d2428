/* op.c - the table of operators and the code they share. */
#include "ops/op.h"

#include <stdarg.h>
#include <stdio.h>

#include "tensor/not_finite.h"

/* ---- the table, from ops.def ---- */

#define ls_back_none NULL
#define ls_back_parts NULL

const ls_op_info ls_op_table[LS_OP_COUNT] = {
#define LS_OP(name, kind, policy, gradient, attributes, summary)                                                       \
    [LS_OP_##name] = {#name, LS_OP_##name, LS_KIND_##kind, LS_POLICY_##policy, ls_back_##gradient, summary},
#include <lockstep/ops.def>
#undef LS_OP
};

/* ---- checking ---- */

ls_run *op_begin(ls_opcode op, int n_required, int n_in, ls_tensor *const *in)
{
    const ls_tensor *first = NULL;
    for (int i = 0; i < n_in && !first; i++) first = in[i];
    ls_run *run = ls_run_of(first);
    if (ls_failed(run)) return NULL;
    if (run->thread != &ls_thread_here) ls_run_changes_thread(run);
    const ls_device *device = NULL;
    for (int i = 0; i < n_in; i++) {
        const ls_tensor *t = in[i];
        if (!t && i >= n_required) continue;
        if (!t || t->life != LS_LIFE_LIVE) return ls_check_live(run, t, ls_op_name(op)), NULL;
        if (!device) device = t->storage->device;
        else if (device != t->storage->device) {
            if (t->run != run)
                ls_fail(&run->errors, LS_ERR_STATE, "%s: the tensors belong to different runs", ls_op_name(op));
            else
                ls_fail(&run->errors, LS_ERR_DEVICE, "%s: tensors are on devices %s and %s; ls_to_device() moves one",
                        ls_op_name(op), device->name, t->storage->device->name);
            return NULL;
        }
    }
    return run;
}

ls_tensor *op_error(ls_run *run, ls_opcode op, ls_status code, const char *format, ...)
{
    char text[768];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return LS_POISON(run, code, "%s: %s", ls_op_name(op), text);
}

/* ---- submitting and recording ---- */

bool op_submit_live(ls_opcode op, int n_in, ls_tensor *const *in, int n_out, ls_tensor *const *out,
                    const ls_attrs *attrs, const ls_tensor *live)
{
    ls_call call;
    ls_run *run = NULL;
    ls_device *device = NULL;
    if (live && live->life != LS_LIFE_LIVE) return false;
    call.op = op;
    call.n_in = n_in;
    call.n_out = n_out;
    for (int i = 0; i < n_in; i++) call.in[i] = in[i] ? &in[i]->view : NULL;
    for (int i = 0; i < n_out; i++) {
        if (out[i] && out[i]->life != LS_LIFE_LIVE) return false;
        call.out[i] = out[i] ? &out[i]->view : NULL;
        if (!device && out[i]) {
            run = out[i]->run;
            device = out[i]->storage->device;
        }
    }
    call.live = live ? &live->view : NULL;
    if (attrs) call.attrs = *attrs;
    return ls_submit(run, device, &call);
}

bool op_draw(ls_opcode op, ls_tensor *t, double a, double b)
{
    ls_attrs attrs = {.random = {.a = a, .b = b}};
    ls_tensor *live =
        ls_draw(t->run, t->storage->device, ls_view_numel(&t->view), &attrs.random.seed, &attrs.random.offset);
    return op_submit_live(op, 0, NULL, 1, &t, &attrs, live);
}

ls_tensor *op_gradient(ls_node *node, int input, ls_tensor *like, int output, int32_t *accumulate, ls_tensor **dx)
{
    if (!ls_wants(node, input)) return NULL;
    int32_t holds = 0;
    ls_tensor *target = ls_grad_target(node, input, &holds);
    if (target) *accumulate |= holds << output;
    else target = dx[input] = op_new(like, node->in[input].dtype, node->in[input].shape);
    return target;
}

void op_channel_gradient(ls_node *node, int input, ls_tensor *dy, ls_tensor **dx)
{
    ls_attrs attrs = {.reduce = {.mask = ((1u << dy->view.ndim) - 1) & ~2u}};
    ls_tensor *out = op_gradient(node, input, dy, 0, &attrs.reduce.accumulate, dx);
    if (!out) return;
    ls_shape wide = {.ndim = dy->view.ndim};
    for (int d = 0; d < wide.ndim; d++) wide.dim[d] = d == 1 ? dy->view.dim[1] : 1;
    out = ls_reshape_shape(out, wide);
    if (!ls_failed(dy->run)) op_submit(LS_OP_sum, 1, &dy, 1, &out, &attrs);
}

/* Describes a call for messages. A conversion is named by its tensor and type: mixed precision inserts it before an
 * operator of the program, which never called a copy. */
static void describe_work(ls_opcode op, const ls_tensor *in, const ls_tensor *out, char text[2 * LS_TEXT])
{
    char operand[LS_TEXT];
    if (op == LS_OP_copy && in->view.dtype != out->view.dtype)
        snprintf(text, 2 * LS_TEXT, "cast of %.40s%s%s to %s", in->name ? in->name : "", in->name ? " " : "",
                 ls_operand_text(&in->view, operand), ls_dtype_name(out->view.dtype));
    else snprintf(text, 2 * LS_TEXT, "%s", ls_op_name(op));
}

/* With .check_finite: report the first operator whose result is not finite. Infinity that comes from infinity is
 * intended, as in a mask; so is a tensor filled with it. */
static bool result_finite(ls_run *run, ls_opcode op, int n_in, ls_tensor *const *in, ls_tensor *out)
{
    ls_not_finite found, before;
    if (run->walking || op == LS_OP_fill || !ls_find_not_finite(out, &found)) return true;
    int bad_input = 0;
    while (bad_input < n_in && !(in[bad_input] && ls_find_not_finite(in[bad_input], &before))) bad_input++;
    if (bad_input < n_in && !found.is_nan) return true;
    char work[2 * LS_TEXT], result[LS_TEXT], input[LS_TEXT + 100] = "its inputs are finite";
    if (op == LS_OP_copy && out->view.dtype == LS_F16) snprintf(input, sizeof input, "f16 holds numbers up to 65504");
    if (bad_input < n_in)
        snprintf(input, sizeof input, "its input %d, %s, was %g already at %.40s", bad_input,
                 ls_operand_text(&in[bad_input]->view, result), before.value, before.at);
    describe_work(op, in[0], out, work);
    ls_fail(&run->errors, LS_ERR_VALUE, "%s: the result, %s, is %g at %s; %s", work,
            ls_operand_text(&out->view, result), found.value, found.at, input);
    return false;
}

static bool has_gradient(int n_in, ls_tensor *const *in)
{
    for (int i = 0; i < n_in; i++)
        if (in[i] && in[i]->is_gradient) return true;
    return false;
}

bool op_record(ls_opcode op, int n_in, ls_tensor *const *in, int n_out, ls_tensor *const *out, const ls_attrs *attrs,
               ls_node **node)
{
    *node = NULL;
    ls_run *run = out[0]->run;
    if (out[0]->life != LS_LIFE_LIVE) return false;
    if (run->check_finite && !result_finite(run, op, n_in, in, out[0])) return false;
    if (!ls_op_table[op].backward) return true;
    bool of_gradient = run->gave_grad && !run->no_grad && has_gradient(n_in, in);
    if (!ls_must_record(run, n_in, in)) {
        for (int i = 0; of_gradient && i < n_out; i++)
            if (out[i]) out[i]->is_gradient = true;
        return true;
    }
    *node = ls_record(run, &ls_op_table[op], n_in, in, n_out, out);
    if (!*node) return false;
    (*node)->meets_gradient = of_gradient;
    if (attrs) (*node)->attrs = *attrs;
    return true;
}

bool op_run(ls_opcode op, int n_in, ls_tensor *const *in, int n_out, ls_tensor *const *out, const ls_attrs *attrs,
            ls_node **node)
{
    return op_submit(op, n_in, in, n_out, out, attrs) && op_record(op, n_in, in, n_out, out, attrs, node);
}

/* ---- shapes ---- */

bool op_broadcast(ls_shape a, ls_shape b, ls_shape *out)
{
    out->ndim = a.ndim > b.ndim ? a.ndim : b.ndim;
    for (int d = 1; d <= out->ndim; d++) {
        int64_t x = d <= a.ndim ? a.dim[a.ndim - d] : 1, y = d <= b.ndim ? b.dim[b.ndim - d] : 1;
        if (x != y && x != 1 && y != 1) return false;
        out->dim[out->ndim - d] = x == 1 ? y : x;
    }
    return true;
}

const ls_operand *op_expand_operand(const ls_operand *x, ls_shape shape, ls_operand *room)
{
    int lead = shape.ndim - x->ndim;
    room->data = x->data;
    room->dtype = x->dtype;
    room->derived = NULL;
    room->ndim = shape.ndim;
    for (int d = 0; d < shape.ndim; d++) {
        bool repeat = d < lead || (x->dim[d - lead] == 1 && shape.dim[d] != 1);
        room->dim[d] = shape.dim[d];
        room->stride[d] = repeat ? 0 : x->stride[d - lead];
    }
    return room;
}

ls_tensor *op_expanded(ls_tensor *x, ls_shape shape)
{
    if (ls_shape_equal(ls_view_shape(&x->view), shape)) return x;
    ls_tensor *view = ls_alias(x);
    if (view->life == LS_LIFE_LIVE) op_expand_operand(&x->view, shape, &view->view);
    return view;
}

ls_tensor *op_new_channels_last(ls_tensor *like, ls_dtype dtype, ls_shape shape)
{
    ls_tensor *t = op_new(like, dtype, shape);
    if (t->life != LS_LIFE_LIVE) return t;
    int64_t c = shape.dim[1], h = shape.dim[2], w = shape.dim[3];
    t->view.stride[0] = c * h * w;
    t->view.stride[1] = 1;
    t->view.stride[2] = c * w;
    t->view.stride[3] = c;
    return t;
}

ls_tensor *op_full(ls_tensor *like, ls_dtype dtype, double value, ls_shape shape)
{
    ls_tensor *t = op_new(like, dtype, shape);
    return t->life == LS_LIFE_LIVE && ls_raw_fill(t, value) ? t : &like->run->poison;
}

ls_tensor *op_sequence(ls_tensor *like, int64_t n, int64_t start, int64_t step)
{
    ls_tensor *t = op_new(like, LS_I64, LS_SHAPE(n));
    ls_attrs attrs = {.affine = {.scale = (double)step, .shift = (double)start}};
    return op_submit(LS_OP_arange, 0, NULL, 1, &t, &attrs) ? t : &like->run->poison;
}

bool op_dims_mask(const ls_tensor *x, ls_shape dims, uint32_t *mask)
{
    *mask = dims.ndim ? 0 : (1u << x->view.ndim) - 1;
    if (dims.ndim < 0 || dims.ndim > LS_MAX_DIMS) return false;
    for (int i = 0; i < dims.ndim; i++) {
        int d = dims.dim[i] >= -LS_MAX_DIMS && dims.dim[i] < LS_MAX_DIMS ? op_dim((int)dims.dim[i], x->view.ndim) : -1;
        if (d < 0) return false;
        *mask |= 1u << d;
    }
    return true;
}

/* ---- number types ---- */

bool op_holds(ls_dtype dtype, double value)
{
    static const struct {
        double low, high;
    } range[LS_DTYPE_COUNT] = {[LS_BOOL] = {0, 1},
                               [LS_U8] = {0, UINT8_MAX},
                               [LS_I8] = {INT8_MIN, INT8_MAX},
                               [LS_I32] = {INT32_MIN, INT32_MAX},
                               [LS_I64] = {-0x1p63, 0x1p63}};
    return ls_dtype_is_float(dtype) || (op_is_whole(value) && value >= range[dtype].low && value <= range[dtype].high);
}

bool op_must_hold(ls_opcode op, const ls_tensor *x, double value)
{
    if (op_holds(x->view.dtype, value)) return true;
    op_error(x->run, op, LS_ERR_VALUE, "%g is not a number of %s; ls_cast() it first", value, OP_TEXT(x));
    return false;
}

ls_dtype op_meeting_type(const ls_tensor *x, double value)
{
    return op_holds(x->view.dtype, value) ? x->view.dtype : op_is_whole(value) ? LS_I64 : LS_F32;
}

ls_tensor *op_number(ls_opcode op, ls_tensor *x, double value)
{
    return op_must_hold(op, x, value) ? op_full(x, x->view.dtype, value, LS_SCALAR) : &x->run->poison;
}

ls_tensor *op_as(ls_tensor *x, ls_dtype dtype)
{
    return !x || x->view.dtype == dtype ? x : ls_cast(x, dtype);
}

static ls_dtype autocast_type(const ls_run *run)
{
    return run->autocast_count ? run->autocast[run->autocast_count - 1] : LS_F32;
}

ls_dtype op_half_type(const ls_run *run, ls_dtype dtype)
{
    ls_dtype half = autocast_type(run);
    return half == LS_F32 || dtype == LS_F64 ? dtype : half;
}

ls_dtype op_wide_type(const ls_run *run, ls_dtype dtype)
{
    bool half = dtype == LS_BF16 || dtype == LS_F16;
    return half && autocast_type(run) != LS_F32 ? LS_F32 : dtype;
}

ls_tensor *op_as_f32(ls_tensor *x)
{
    return x ? op_as(x, op_wide_type(x->run, x->view.dtype)) : NULL;
}
