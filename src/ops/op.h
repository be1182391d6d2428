/* op.h - building blocks of every operator's function: check the inputs, make the outputs, submit the call,
 * record the node.
 *
 *     ls_tensor *ls_relu(ls_tensor *x)
 *     {
 *         ls_run *run = op_begin(LS_OP_relu, 1, 1, &x);
 *         if (!run) return op_poison(x);
 *         ls_tensor *y = ls_tensor_new_like(x, x->view.dtype);
 *         ls_node *node;
 *         if (!op_run(LS_OP_relu, 1, &x, 1, &y, NULL, &node)) return &run->poison;
 *         ls_save(node, y);
 *         return y;
 *     }
 *
 * Backward functions use the same public operators: recording is off while they run. */
#ifndef LOCKSTEP_OPS_OP_H
#define LOCKSTEP_OPS_OP_H

#include <lockstep/ops.h>

#include "autograd/tape.h"
#include "base/opts.h"
#include "tensor/live.h"

extern const ls_op_info ls_op_table[LS_OP_COUNT];

/* All gradients, ls_back_<gradient>, named in ops.def. "none" and "parts" are declared under an unused name. */
#define ls_back_none ls_back_unused
#define ls_back_parts ls_back_unused
#define LS_OP(name, kind, policy, gradient, attributes, summary) extern ls_backward_fn ls_back_##gradient;
#include <lockstep/ops.def>
#undef LS_OP
#undef ls_back_none
#undef ls_back_parts

#define BACK(name) void ls_back_##name(ls_node *node, ls_tensor *const *dy, ls_tensor **dx)

/* The run, if the operator can proceed: no failure so far, inputs live (those from n_required on may be NULL) and all
 * on one device. Else NULL, with the reason recorded. */
ls_run *op_begin(ls_opcode op, int n_required, int n_in, ls_tensor *const *in);
static inline ls_tensor *op_poison(const ls_tensor *t)
{
    return &ls_run_of(t)->poison;
}

/* Submit; on success record a node if a gradient is wanted: *node is the new node, or NULL. attrs may be NULL. False
 * (outputs may be poison, or the device failed): return poison. */
bool op_run(ls_opcode op, int n_in, ls_tensor *const *in, int n_out, ls_tensor *const *out, const ls_attrs *attrs,
            ls_node **node);
/* Its two halves, for operators that submit other calls than their own, or none (views). */
bool op_submit_live(ls_opcode op, int n_in, ls_tensor *const *in, int n_out, ls_tensor *const *out,
                    const ls_attrs *attrs, const ls_tensor *live); /* of ls_draw(); NULL is accepted */
static inline bool op_submit(ls_opcode op, int n_in, ls_tensor *const *in, int n_out, ls_tensor *const *out,
                             const ls_attrs *attrs)
{
    return op_submit_live(op, n_in, in, n_out, out, attrs, NULL);
}
/* Fill a tensor with the run's next random numbers; op: uniform, normal, ... with its numbers a and b. */
bool op_draw(ls_opcode op, ls_tensor *t, double a, double b);
bool op_record(ls_opcode op, int n_in, ls_tensor *const *in, int n_out, ls_tensor *const *out, const ls_attrs *attrs,
               ls_node **node);

/* Memory for the gradient of an input, as output `output` of a backward call: NULL if it is not wanted; the memory that
 * collects it, with bit `output` of *accumulate set if that already has a value; else new memory, row-major, on the
 * device of `like`, which becomes dx[input]. */
ls_tensor *op_gradient(ls_node *node, int input, ls_tensor *like, int output, int32_t *accumulate, ls_tensor **dx);
/* The gradient of a vector [C] that was added to [N,C,...], if it is wanted: sums of dy, in the vector's type. */
void op_channel_gradient(ls_node *node, int input, ls_tensor *dy, ls_tensor **dx);

/* Record an error in the operator's name and return poison. */
LS_PRINTF(4, 5) ls_tensor *op_error(ls_run *run, ls_opcode op, ls_status code, const char *format, ...);

/* Text of a tensor for messages, valid until the end of the enclosing block. */
#define OP_TEXT(t) ls_operand_text(&(t)->view, (char[LS_TEXT]){0})
#define OP_SHAPE_TEXT(shape) ls_shape_text((shape), (char[LS_TEXT]){0})

/* A dimension counted from the end or the start, as 0 .. ndim-1; -1 if out of range. */
static inline int op_dim(int dim, int ndim)
{
    if (dim < 0) dim += ndim;
    return dim >= 0 && dim < ndim ? dim : -1;
}
/* A set of dimensions of x as bits; no dimensions given (ndim 0) means all. False if one does not exist. */
bool op_dims_mask(const ls_tensor *x, ls_shape dims, uint32_t *mask);

static inline bool op_same_shape(const ls_operand *a, const ls_operand *b)
{
    if (a->ndim != b->ndim) return false;
    for (int d = 0; d < a->ndim; d++)
        if (a->dim[d] != b->dim[d]) return false;
    return true;
}

/* The shape two shapes broadcast to; false if they do not. */
bool op_broadcast(ls_shape a, ls_shape b, ls_shape *out);
/* A view of x expanded to a shape it broadcasts to (no history); x itself if it has that shape. */
ls_tensor *op_expanded(ls_tensor *x, ls_shape shape);

/* The same for an operand: into *room, which is returned. */
const ls_operand *op_expand_operand(const ls_operand *x, ls_shape shape, ls_operand *room);

/* dx of an activation from dy and the tensor its forward saved, by the device's *_grad operator. */
ls_tensor *op_activation_grad(ls_opcode op, ls_tensor *dy, ls_tensor *saved, const ls_attrs *attrs);

/* x cast to a type, with history, for autocast and promotion; x itself if it has that type. NULL stays NULL. */
ls_tensor *op_as(ls_tensor *x, ls_dtype dtype);
/* The type a HALF operator computes in, given its inputs': the autocast type,
 * unless that is off or the input's is f64. */
ls_dtype op_half_type(const ls_run *run, ls_dtype dtype);
/* F32 policy: half types become f32 inside an autocast scope. op_wide_type(): only the type, for kernels that read one
 * type and write another. */
ls_tensor *op_as_f32(ls_tensor *x);
ls_dtype op_wide_type(const ls_run *run, ls_dtype dtype);
/* Does the row have that policy, and is there a scope? For functions shared by several rows. */
static inline bool op_widens(const ls_run *run, ls_opcode op)
{
    return run->autocast_count && ls_op_table[op].policy == LS_POLICY_F32;
}

/* ls_batch_norm of ls_conv2d in one call, without a gradient. In evaluation it is one pass, rounded once. */
ls_tensor *ls_conv2d_norm(ls_tensor *x, ls_tensor *weight, ls_tensor *bias, const ls_conv2d_opts *geometry,
                          const ls_batch_norm_opts *norm);

/* ls_conv2d that also fills moments[2], mean and (biased) variance of each channel of the result, [O] in f64; and
 * ls_batch_norm in training that is given them. Both on a device with LS_TRAIT_MOMENTS, or with NULL instead. */
ls_tensor *ls_conv2d_moments(ls_tensor *x, ls_tensor *weight, ls_tensor *bias, const ls_conv2d_opts *geometry,
                             ls_tensor **moments);
ls_tensor *ls_batch_norm_by(ls_tensor *x, const ls_batch_norm_opts *opts, ls_tensor *const *moments);

/* A weight or bias (NULL: none) is an input of a product that leaves its conversion to the device. */
static inline void op_multiplies(const ls_tensor *t)
{
    if (t && t->node && t->node->leaf) t->node->leaf->multiplied = true;
}

/* Can x, weight and bias (may be NULL) be multiplied? If not, records an error. */
bool op_linear_fits(ls_opcode op, ls_tensor *x, ls_tensor *weight, ls_tensor *bias);
/* ls_linear() without history, of inputs that fit, x in the type that is computed in. pre: NULL, or room for what the
 * activation is applied to. */
ls_tensor *op_linear(ls_tensor *x, ls_tensor *weight, ls_tensor *bias, ls_activation activation, ls_tensor **pre);
/* Is the slope of the activation computed from its input? Else from its result. */
static inline bool op_slope_needs_input(ls_activation activation)
{
    return activation == LS_ACT_GELU || activation == LS_ACT_GELU_TANH || activation == LS_ACT_SILU;
}
/* The gradients of a linear layer by the device's linear_grad, or by other operators if it lacks that. in: dy and x
 * [rows, ...], weight, what the activation saved; out: those of x, weight and bias, dy before the activation, and the
 * result of the activation again, if it saved its input. */
bool op_linear_grad(ls_tensor *const in[4], ls_tensor *const out[5], const ls_attrs *attrs);
/* Strides that give `shape`, of as many elements, over those of x without moving them; false if there are none. */
bool op_reshape_strides(const ls_operand *x, ls_shape shape, int64_t *stride);
/* [..., n] as [rows, n], a view if possible, else a copy. NULL for NULL. */
ls_tensor *op_rows(ls_tensor *x);
/* The same with adjacent elements in a row. */
ls_tensor *op_dense_rows(ls_tensor *x);
/* The same for a gradient that is about to be written; `holds`: it is added to what is there. Else nothing is copied,
 * since nothing is there yet. */
ls_tensor *op_rows_for(ls_tensor *to, bool holds);
/* A gradient was written to rows = op_rows_for(to): put it where it belongs if they are a copy. Both may be NULL. */
void op_rows_written(ls_tensor *to, ls_tensor *rows);

enum { LS_MAX_LINEARS = 3 };
/* ls_linear() without activation, by n weights (and biases, each may be NULL), the results side by side: [..., N0 + N1
 * + ...]. Weights that lie one behind the other in memory are one matrix to the device. */
ls_tensor *ls_linears(ls_tensor *x, int n, ls_tensor *const *weights, ls_tensor *const *biases);

/* ls_linear(ls_linear(x, weights[0], biases[0], activation), weights[1], biases[1], LS_ACT_NONE), but the result of the
 * first is not kept for the gradient if it can be made again from what the activation keeps. Biases may be NULL. */
ls_tensor *ls_feed_forward(ls_tensor *x, ls_tensor *const weights[2], ls_tensor *const biases[2],
                           ls_activation activation);

/* ls_avg_pool2d() whose result is not kept for the gradients of a convolution: it is made again from x, if the memory
 * of that is kept for others anyway. */
ls_tensor *ls_avg_pool2d_again(ls_tensor *x, int64_t kernel, const ls_pool2d_opts *opts, size_t opts_size);
/* Is t such a result, unchanged? Then an operator that reads it need not save it: */
bool op_comes_again(const ls_tensor *t);
/* In backward, an input that was not saved therefore. NULL if a walk before has used up what it is made from: this one
 * fails when it gets there. */
ls_tensor *op_again(const ls_node *node, int input);

/* May a norm train on this batch [N,C,...]? One value per channel has no variance: that is an error. */
bool ls_batch_norm_can_train(ls_run *run, ls_opcode op, ls_shape batch);

/* ls_dropout_add_layer_norm(); *sum is its input to the normalisation. Both have gradients. sum may be NULL. */
ls_tensor *ls_dropout_add_layer_norm_sum(ls_tensor *x, ls_tensor *residual, ls_tensor *weight, ls_tensor *bias,
                                         double p, double epsilon, ls_tensor **sum);

/* ls_embedding(), but row `padding` of the table gets no gradient; -1: every row does. */
ls_tensor *ls_embedding_padded(ls_tensor *table, ls_tensor *index, int64_t padding);
/* Rows of x [R,D] by index: [...,D]. Row r of the gradient of x is row back[r] of the result's: gathered, where that of
 * ls_embedding() is a sum. Right if the index only moves rows: index[back[r]] == r for each r that counts. */
ls_tensor *ls_move_rows(ls_tensor *x, ls_tensor *index, ls_tensor *back);
/* In a backward function: the gradient of a table [V,D] (input `input`), whose rows at `index` got the gradients `rows`
 * [...,D]. Returns dx; NULL if it was written to its destination, or with an error. */
ls_tensor *op_table_gradient(ls_node *node, int input, int64_t padding, ls_tensor *index, ls_tensor *rows);
/* Is it i64 or i32? If not, records an error. */
bool op_index_type(ls_run *run, ls_opcode op, const ls_tensor *index);

/* A new [N,C,H,W] tensor with memory in the order N, H, W, C. */
ls_tensor *op_new_channels_last(ls_tensor *like, ls_dtype dtype, ls_shape shape);

/* A new tensor on the device of another. */
static inline ls_tensor *op_new(ls_tensor *like, ls_dtype dtype, ls_shape shape)
{
    return ls_tensor_new(like->run, like->storage->device, dtype, shape);
}
/* The same, with every element set to a value; and the i64 numbers start, start + step, ... */
ls_tensor *op_full(ls_tensor *like, ls_dtype dtype, double value, ls_shape shape);
ls_tensor *op_sequence(ls_tensor *like, int64_t n, int64_t start, int64_t step);

/* Is it a whole number that integer arithmetic can use? */
static inline bool op_is_whole(double value)
{
    return value >= -0x1p63 && value < 0x1p63 && value == (double)(int64_t)value;
}
/* Does the type have this number, or, if it is a floating type, one near it? */
bool op_holds(ls_dtype dtype, double value);
/* The same of the type of x; records an error if not. */
bool op_must_hold(ls_opcode op, const ls_tensor *x, double value);
/* The type in which x meets a number: its own, unless it is of integers that cannot hold the number. */
ls_dtype op_meeting_type(const ls_tensor *x, double value);
/* The number in the type of x, [], for operators whose result has that type. Poison, with an error, if x cannot hold
 * it. */
ls_tensor *op_number(ls_opcode op, ls_tensor *x, double value);

#endif
