/* backward.c - the walk from a loss back to the leaves.
 *
 * First, count how many gradients each reachable node will receive. Then process nodes whose gradients are complete,
 * newest first, each in a scope of its own; what a node saved is released right after it. A leaf is finished, and its
 * hook called, as soon as its last gradient has arrived. */
#include <stdio.h>
#include <string.h>

#include "autograd/replay.h"
#include "step/step.h"
#include "tensor/not_finite.h"

/* ---- counting ---- */

/* Returns a node that met a gradient, which is not the end of its history but has none; NULL if there is no such. */
static const ls_node *reach(ls_run *run, ls_node *root)
{
    const ls_node *odd = NULL;
    uint64_t walk = ++run->walk_serial;
    root->walk = walk;
    root->pending = 0;
    root->link = NULL;
    for (ls_node *stack = root; stack;) {
        ls_node *node = stack;
        stack = node->link;
        if (node->meets_gradient) odd = node;
        for (int i = 0; i < node->n_in; i++) {
            ls_node *source = node->in[i].node;
            if (!source) continue;
            if (source->walk != walk) {
                source->walk = walk;
                source->pending = 0;
                source->link = stack;
                stack = source;
            }
            source->pending++;
        }
    }
    return odd;
}

/* The queue is short (branches complete at the same time): insertion keeps it ordered, newest first. */
static void enqueue(ls_node **queue, ls_node *node)
{
    while (*queue && (*queue)->serial > node->serial) queue = &(*queue)->link;
    node->link = *queue;
    *queue = node;
}

/* ---- gradients in the shape and type of their inputs ---- */

static bool has_shape(const ls_operand *x, const ls_shape *shape)
{
    if (x->ndim != shape->ndim) return false;
    for (int d = 0; d < x->ndim; d++)
        if (x->dim[d] != shape->dim[d]) return false;
    return true;
}

/* Sum the dimensions that broadcasting repeated, and convert. In the innermost scope. */
static ls_tensor *fitted(ls_tensor *dx, const ls_edge *edge)
{
    if (!has_shape(&dx->view, &edge->shape)) {
        ls_shape have = ls_view_shape(&dx->view);
        int lead = have.ndim - edge->shape.ndim;
        uint32_t mask = 0;
        ls_shape summed = have;
        for (int d = 0; d < have.ndim; d++) {
            if (d < lead || (edge->shape.dim[d - lead] == 1 && have.dim[d] != 1)) {
                mask |= 1u << d;
                summed.dim[d] = 1;
            }
        }
        if (mask) {
            ls_tensor *sum = ls_tensor_new(dx->run, dx->storage->device, dx->view.dtype, summed);
            ls_call call = {.op = LS_OP_sum,
                            .n_in = 1,
                            .n_out = 1,
                            .in = {&dx->view},
                            .out = {&sum->view},
                            .attrs.reduce = {.mask = mask}};
            if (sum->life != LS_LIFE_LIVE || !ls_submit(dx->run, dx->storage->device, &call)) return NULL;
            dx = sum;
        }
        if (lead > 0) { /* drop the leading dimensions of size 1 */
            dx = ls_alias(dx);
            if (dx->life != LS_LIFE_LIVE) return NULL;
            dx->view.ndim = edge->shape.ndim;
            for (int d = 0; d < edge->shape.ndim; d++) {
                dx->view.dim[d] = dx->view.dim[d + lead];
                dx->view.stride[d] = dx->view.stride[d + lead];
            }
        }
    }
    if (dx->view.dtype != edge->dtype) {
        ls_tensor *converted = ls_tensor_new_like(dx, edge->dtype);
        if (converted->life != LS_LIFE_LIVE || !ls_raw_copy(converted, dx)) return NULL;
        dx = converted;
    }
    return dx;
}

/* Is the memory unshared, with one place per element (unlike an expanded gradient)? */
static bool may_write(const ls_tensor *t)
{
    return t->refs == 1 && t->storage->refs == 1 && ls_view_dense(&t->view);
}

static bool same_strides(const ls_operand *a, const ls_operand *b)
{
    for (int d = 0; d < a->ndim; d++)
        if (a->dim[d] > 1 && a->stride[d] != b->stride[d]) return false;
    return true;
}

/* A gradient arrives at an output of a node: the first is kept as it is, later ones are added. */
static bool arrive(ls_node *node, int output, ls_tensor *dx)
{
    ls_tensor **slot = &node->grad[output];
    if (!*slot) {
        *slot = ls_alias_owned(dx);
        return *slot != NULL;
    }
    if (may_write(*slot)) return ls_raw_add(*slot, *slot, dx);
    ls_tensor *sum = ls_tensor_new_like(*slot, dx->view.dtype);
    if (sum->life != LS_LIFE_LIVE || !ls_raw_add(sum, *slot, dx)) return false;
    ls_release(*slot);
    *slot = ls_alias_owned(sum);
    return *slot != NULL;
}

static bool leaf_alloc(ls_leaf *leaf, const ls_tensor *like)
{
    if (leaf->grad) return true;
    ls_tensor *room = ls_tensor_new_like(like, like->view.dtype);
    if (room->life != LS_LIFE_LIVE) return false;
    leaf->grad = ls_alias_owned(room);
    return leaf->grad != NULL;
}

ls_tensor *ls_leaf_room(ls_tensor *t)
{
    ls_leaf *leaf = t->node->leaf;
    if (t->run->debt.pay) ls_debt_pay(t->run);
    ls_mark mark = ls_scope_begin(t->run);
    bool ok = leaf_alloc(leaf, t);
    ls_scope_end(t->run, mark, NULL);
    return ok ? leaf->grad : NULL;
}

/* The current walk starts a new gradient. */
static void leaf_begins(ls_leaf *leaf)
{
    leaf->holds = true;
    leaf->since = leaf->tensor->run->walk_serial;
}

/* `takeable`: dx has no other owner, so its memory may become the gradient's. */
static bool leaf_arrive(ls_leaf *leaf, ls_tensor *dx, bool takeable)
{
    if (!leaf->tensor) return true; /* its handle is gone: nobody can read it */
    if (leaf->holds) return ls_raw_add(leaf->grad, leaf->grad, dx);
    leaf_begins(leaf);
    if (!leaf->grad && takeable && same_strides(&dx->view, &leaf->tensor->view)) {
        leaf->grad = ls_alias_owned(dx);
        return leaf->grad != NULL;
    }
    return leaf_alloc(leaf, leaf->tensor) && ls_raw_copy(leaf->grad, dx);
}

ls_tensor *ls_grad_target(ls_node *node, int input, int32_t *accumulate)
{
    const ls_edge *edge = &node->in[input];
    ls_leaf *leaf = edge->node->leaf;
    for (int i = 0; i < input; i++)
        if (node->in[i].node == edge->node && node->in[i].output == edge->output) return NULL;
    if (!leaf) {
        ls_tensor *sum = edge->node->grad[edge->output];
        if (!sum || !may_write(sum)) return NULL;
        *accumulate = 1;
        return sum;
    }
    if (!leaf->tensor || !leaf_alloc(leaf, leaf->tensor)) return NULL;
    *accumulate = leaf->holds;
    if (!leaf->holds) leaf_begins(leaf);
    return leaf->grad;
}

ls_tensor *ls_grad_taken(ls_node *node, int output)
{
    ls_tensor *dy = node->grad[output];
    return dy && may_write(dy) ? dy : NULL;
}

/* ---- the walk ---- */

static void leaf_finished(ls_run *run, ls_leaf *leaf)
{
    bool complete = leaf->holds && leaf->tensor;
    if (complete && leaf->hook && !ls_failed(run)) leaf->hook(leaf->tensor, leaf->hook_user);
    if (complete && leaf->watch && !ls_failed(run)) leaf->watch(leaf->tensor, leaf->watch_user);
}

static bool saved_untouched(ls_run *run, const ls_node *node)
{
    for (int i = 0; i < node->n_saved; i++) {
        const ls_tensor *t = node->saved[i];
        if (!t || t->storage->version == node->saved_version[i]) continue;
        ls_fail(&run->errors, LS_ERR_STATE,
                "backward of %s: tensor %s%s%s%s, which it needs, was modified in place after the forward pass",
                node->op->name, t->name ? "\"" : "", t->name ? t->name : "", t->name ? "\" " : "",
                ls_operand_text(&t->view, (char[LS_TEXT]){0}));
        return false;
    }
    return true;
}

static void release_gradients(ls_node *node)
{
    for (int i = 0; i < node->n_out; i++) {
        ls_release(node->grad[i]);
        node->grad[i] = NULL;
    }
}

/* With .check_finite: name the first gradient that is NaN, or infinite at a parameter. Infinities in between may still
 * be masked, like that of a square root before ReLU. A loss scaler expects some, and handles them. */
static bool gradients_finite(ls_run *run, const ls_node *node, ls_tensor *const *dx)
{
    for (int i = 0; i < node->n_in; i++) {
        const ls_node *source = node->in[i].node;
        if (!source) continue;
        const ls_leaf *leaf = source->leaf;
        ls_tensor *there = !leaf ? source->grad[node->in[i].output] : leaf->holds ? leaf->grad : NULL;
        ls_tensor *gradient = dx[i] ? dx[i] : there;
        ls_not_finite found;
        if (!ls_is_valid(gradient) || !ls_find_not_finite(gradient, &found)) continue;
        if (!leaf && !found.is_nan) continue;
        char path[sizeof run->errors.path], input[32];
        memcpy(path, run->errors.path, sizeof path);
        snprintf(run->errors.path, sizeof run->errors.path, "%s", node->site ? node->site : "");
        snprintf(input, sizeof input, "its input %d", i);
        ls_fail(&run->errors, LS_ERR_VALUE, "backward of %s: the gradient of %s, %s, is %g at %s", node->op->name,
                leaf && leaf->tensor && leaf->tensor->name ? leaf->tensor->name : input,
                ls_operand_text(&gradient->view, (char[LS_TEXT]){0}), found.value, found.at);
        memcpy(run->errors.path, path, sizeof path);
        return false;
    }
    return true;
}

static bool process(ls_run *run, ls_node *node)
{
    if (node->walked) {
        ls_fail(&run->errors, LS_ERR_STATE,
                "backward of %s: this graph was used before; a forward pass allows one backward "
                "pass, so add the losses and call ls_backward on the sum",
                node->op->name);
        return false;
    }
    if (node->replay && node->n_saved && !ls_replay_fill(node->replay)) return false;
    if (!saved_untouched(run, node)) return false;

    ls_tensor *few[LS_INLINE_INPUTS] = {0};
    ls_tensor **dx = few;
    bool arrived = false;
    for (int i = 0; i < node->n_out; i++) arrived |= node->grad[i] != NULL;
    if (node->n_in > LS_INLINE_INPUTS) {
        dx = ls_sys_alloc((size_t)node->n_in * sizeof *dx);
        if (!dx) return ls_fail(&run->errors, LS_ERR_MEMORY, "backward of %s: no memory", node->op->name), false;
    }
    run->site = node->site;
    if (arrived) node->op->backward(node, node->grad, dx);
    if (run->check_finite && !run->step->scaler && !ls_failed(run)) gradients_finite(run, node, dx);
    for (int i = 0; i < node->n_saved; i++) ls_release(node->saved[i]);
    node->n_saved = 0;
    node->walked = true;

    for (int i = 0; i < node->n_in && !ls_failed(run); i++) {
        if (!dx[i] || !node->in[i].node || dx[i]->life != LS_LIFE_LIVE) continue;
        const ls_edge *edge = &node->in[i];
        ls_tensor *fit = fitted(dx[i], edge);
        if (!fit) break;
        bool shared = false; /* dx[i] is also the gradient of a later input */
        for (int j = i + 1; j < node->n_in; j++) shared |= dx[j] == dx[i];
        if (edge->node->leaf) leaf_arrive(edge->node->leaf, fit, !shared && may_write(fit));
        else arrive(edge->node, edge->output, fit);
    }
    release_gradients(node);
    if (dx != few) ls_sys_free(dx);
    return !ls_failed(run);
}

bool ls_walk_back(ls_run *run, ls_tensor *from, ls_tensor *seed)
{
    ls_node *root = from->node;
    ls_debt_pay(run);
    const ls_node *odd = reach(run, root);
    if (odd) {
        ls_fail(&run->errors, LS_ERR_UNSUPPORTED,
                "ls_backward: the loss depends on %s of a gradient (ls_grad()), which has no history: gradients of "
                "gradients are not supported yet; ls_detach() the gradient if it is meant as a constant",
                odd->op->name);
        return false;
    }
    const char *outside = run->site;
    run->no_grad++;
    run->walking = true;
    ls_mark outer = ls_scope_begin(run);
    if (!seed) {
        seed = ls_tensor_new_like(from, from->view.dtype);
        if (seed->life == LS_LIFE_LIVE) ls_raw_fill(seed, 1);
    }
    bool ok = !ls_failed(run) && (root->leaf ? leaf_arrive(root->leaf, seed, false) : arrive(root, from->output, seed));
    if (root->leaf) leaf_finished(run, root->leaf);

    ls_node *queue = root->leaf ? NULL : root;
    root->link = NULL;
    while (queue) {
        ls_node *node = queue;
        queue = node->link;
        if (ok) {
            ls_mark mark = ls_scope_begin(run);
            ok = process(run, node);
            ls_scope_end(run, mark, NULL);
        }
        /* After a failure the walk continues only to free all gradients. */
        if (!ok) release_gradients(node);
        for (int i = 0; i < node->n_in; i++) {
            ls_node *source = node->in[i].node;
            if (!source || --source->pending > 0) continue;
            if (source->leaf) leaf_finished(run, source->leaf);
            else enqueue(&queue, source);
        }
    }
    ls_scope_end(run, outer, NULL);
    run->walking = false;
    run->no_grad--;
    run->site = outside;
    return ok;
}
