/* feed_forward.c - two linear layers with an activation between them, as in every layer of a transformer.
 *
 * Layers alone keep the input of the activation for its slope, and its result for the gradient of the second weight:
 * the two largest tensors of a transformer's layer. Here only the input is kept: the pass that applies the slope reads
 * it anyway, and makes the result again. That takes a quarter off the memory of BERT's activations. */
#include "ops/op.h"

enum { X, WEIGHT_1, WEIGHT_2, BIAS_1, BIAS_2, INPUTS };
enum { SAVED_X, SAVED_WEIGHT_1, SAVED_PRE, SAVED_WEIGHT_2 };

ls_tensor *ls_feed_forward(ls_tensor *x, ls_tensor *const weights[2], ls_tensor *const biases[2],
                           ls_activation activation)
{
    ls_tensor *in[INPUTS] = {x, weights[0], weights[1], biases[0], biases[1]};
    ls_tensor *before_slope[] = {x, weights[0], biases[0]};
    /* Without a slope to compute, the result in between is all that can be kept. */
    if (!op_slope_needs_input(activation) || !ls_is_valid(x) || !ls_must_record(x->run, 3, before_slope))
        return ls_linear(ls_linear(x, weights[0], biases[0], activation), weights[1], biases[1], LS_ACT_NONE);
    ls_run *run = op_begin(LS_OP_feed_forward, 3, INPUTS, in);
    if (!run || !op_linear_fits(LS_OP_feed_forward, x, weights[0], biases[0])) return op_poison(x);
    in[X] = op_as(x, op_half_type(run, x->view.dtype));
    if (ls_failed(run)) return &run->poison;
    ls_tensor *pre = NULL, *between = op_linear(in[X], weights[0], biases[0], activation, &pre);
    if (ls_failed(run) || !op_linear_fits(LS_OP_feed_forward, between, weights[1], biases[1])) return &run->poison;
    ls_tensor *y = op_linear(between, weights[1], biases[1], LS_ACT_NONE, NULL);
    ls_attrs attrs = {.product = {.activation = activation, .compute = in[X]->view.dtype}};
    ls_node *node = NULL;
    if (ls_failed(run) || !op_record(LS_OP_feed_forward, INPUTS, in, 1, &y, &attrs, &node)) return &run->poison;
    if (node) {
        ls_save(node, ls_wants(node, WEIGHT_1) ? in[X] : NULL);
        ls_save(node, ls_wants(node, X) ? weights[0] : NULL);
        ls_save(node, pre);
        ls_save(node, weights[1]);
    }
    return y;
}

BACK(feed_forward)
{
    ls_tensor *const *saved = node->saved, *from = op_dense_rows(dy[0]), *pre = op_rows(saved[SAVED_PRE]);
    ls_attrs first = node->attrs, second = node->attrs, last = node->attrs;
    second.product.activation = last.product.activation = LS_ACT_NONE;
    if (ls_failed(dy[0]->run)) return;

    ls_tensor *between = ls_tensor_new_like(pre, pre->view.dtype);
    ls_tensor *to_second[5] = {between, NULL, op_gradient(node, BIAS_2, from, 2, &second.product.accumulate, dx)};
    if (!op_linear_grad((ls_tensor *[4]){from, NULL, saved[SAVED_WEIGHT_2]}, to_second, &second)) return;

    int32_t *accumulate = &first.product.accumulate;
    ls_tensor *to = op_gradient(node, X, from, 0, accumulate, dx), *to_first[5] = {op_rows_for(to, *accumulate & 1)};
    to_first[1] = op_gradient(node, WEIGHT_1, from, 1, accumulate, dx);
    to_first[2] = op_gradient(node, BIAS_1, from, 2, accumulate, dx);
    to_first[3] = ls_tensor_new_like(pre, pre->view.dtype);
    if (ls_wants(node, WEIGHT_2)) to_first[4] = ls_tensor_new_like(pre, pre->view.dtype);
    ls_tensor *from_first[4] = {between, op_dense_rows(saved[SAVED_X]), saved[SAVED_WEIGHT_1], pre};
    if (ls_failed(dy[0]->run) || !op_linear_grad(from_first, to_first, &first)) return;
    op_rows_written(to, to_first[0]);

    ls_tensor *to_last[5] = {NULL, op_gradient(node, WEIGHT_2, from, 1, &last.product.accumulate, dx)};
    if (to_last[1]) op_linear_grad((ls_tensor *[4]){from, to_first[4]}, to_last, &last);
}
