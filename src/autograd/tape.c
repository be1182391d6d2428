/* tape.c - nodes and leaves: create, link, free. */
#include "autograd/tape.h"

#include <string.h>

#include "autograd/replay.h"
#include "base/memory.h"
#include "step/step.h"

/* ---- nodes ---- */

static void node_clear_saved(ls_node *node)
{
    for (int i = 0; i < node->n_saved; i++) ls_release(node->saved[i]);
    node->n_saved = 0;
}

void ls_node_release(ls_run *run, ls_node *node)
{
    /* A long chain must not recurse once per node: nodes to free are queued in a list. */
    if (--node->refs > 0) return;
    ls_node *list = node;
    node->link = NULL;
    while (list) {
        ls_node *dead = list;
        list = dead->link;
        node_clear_saved(dead);
        if (dead->replay) ls_replay_leave(dead);
        for (int i = 0; i < dead->n_out; i++) ls_release(dead->grad[i]);
        for (int i = 0; i < dead->n_in; i++) {
            ls_node *source = dead->in[i].node;
            if (source && --source->refs == 0) {
                source->link = list;
                list = source;
            }
        }
        if (dead->leaf) {
            ls_leaf *leaf = dead->leaf;
            ls_release(leaf->grad);
            if (leaf->derived.release) leaf->derived.release(leaf->derived.form);
            ls_slab_give(&run->leaves, leaf);
        } else {
            if (dead->in != dead->inline_in) ls_sys_free(dead->in);
            ls_slab_give(&run->nodes, dead);
        }
    }
}

static void node_init(ls_run *run, ls_node *node)
{
    node->op = NULL;
    node->leaf = NULL;
    node->site = run->site;
    node->serial = ++run->node_serial;
    node->refs = 1;
    node->n_in = node->n_out = node->n_saved = 0;
    node->walked = node->meets_gradient = false;
    node->walk = 0;
    node->replay = NULL;
    node->in = node->inline_in;
}

ls_node *ls_node_blank(ls_run *run)
{
    ls_node *node = ls_slab_take(&run->nodes);
    if (!node) return ls_fail(&run->errors, LS_ERR_MEMORY, "no memory for the tape"), NULL;
    node_init(run, node);
    return node;
}

bool ls_must_record(const ls_run *run, int n_in, ls_tensor *const *in)
{
    if (run->no_grad) return false;
    for (int i = 0; i < n_in; i++)
        if (in[i] && in[i]->node) return true;
    return false;
}

ls_node *ls_record(ls_run *run, const ls_op_info *op, int n_in, ls_tensor *const *in, int n_out, ls_tensor *const *out)
{
    ls_node *node = ls_slab_take(&run->nodes);
    if (!node) return ls_fail(&run->errors, LS_ERR_MEMORY, "%s: no memory for the tape", op->name), NULL;
    node_init(run, node);
    if (n_in > LS_INLINE_INPUTS) {
        node->in = ls_sys_alloc((size_t)n_in * sizeof *node->in);
        if (!node->in) {
            node->in = node->inline_in;
            ls_node_release(run, node);
            return ls_fail(&run->errors, LS_ERR_MEMORY, "%s: no memory for the tape", op->name), NULL;
        }
    }
    node->op = op;
    node->n_in = n_in;
    for (int i = 0; i < n_in; i++) {
        ls_edge *edge = &node->in[i];
        edge->node = in[i] ? in[i]->node : NULL;
        if (!edge->node) continue;
        edge->node->refs++;
        edge->output = in[i]->output;
        edge->dtype = in[i]->view.dtype;
        edge->shape.ndim = in[i]->view.ndim;
        for (int d = 0; d < in[i]->view.ndim; d++) edge->shape.dim[d] = in[i]->view.dim[d];
    }
    node->n_out = n_out;
    for (int i = 0; i < n_out; i++) {
        node->grad[i] = NULL;
        if (!out[i] || !ls_dtype_is_float(out[i]->view.dtype)) continue;
        out[i]->node = node;
        out[i]->output = i;
        node->refs++;
    }
    node->refs--; /* now held by the outputs */
    if (run->replays.now) {
        node->replay = run->replays.now;
        ls_replay_record(node, in);
    }
    return node;
}

void ls_save(ls_node *node, ls_tensor *t)
{
    if (!node) return;
    if (node->replay) {
        ls_replay_save(node, t);
        return;
    }
    int slot = node->n_saved;
    node->saved[slot] = t ? ls_alias_owned(t) : NULL;
    node->saved_version[slot] = t ? t->storage->version : 0;
    node->n_saved++;
}

/* ---- leaves ---- */

static ls_leaf *leaf_of(const ls_tensor *t)
{
    return t->is_leaf ? t->node->leaf : NULL;
}

/* Frozen weights are still used in products: the leaf, with the device's packed forms, is kept until it is needed
 * again. */
static void leaf_freeze(ls_tensor *t)
{
    t->node->leaf->holds = false;
    t->frozen_leaf = t->node;
}

static ls_tensor *leaf_unfreeze(ls_tensor *t)
{
    ls_leaf *leaf = t->frozen_leaf->leaf;
    const ls_tensor *grad = leaf->grad;
    if (grad && (grad->view.dtype != t->view.dtype || grad->storage->device != t->storage->device)) {
        /* the tensor was cast or moved in the meantime */
        ls_release(leaf->grad);
        leaf->grad = NULL;
    }
    t->node = t->frozen_leaf;
    t->frozen_leaf = NULL;
    t->is_leaf = true;
    return t;
}

ls_tensor *ls_set_requires_grad(ls_tensor *t, bool on)
{
    ls_run *run = ls_run_of(t);
    if (!ls_check_live(run, t, "ls_set_requires_grad")) return &run->poison;
    if (!on) {
        if (t->is_leaf) leaf_freeze(t);
        else if (t->node) ls_node_release(run, t->node);
        t->node = NULL;
        t->is_leaf = false;
        return t;
    }
    t->is_gradient = false;
    if (t->is_leaf) return t;
    if (t->frozen_leaf) return leaf_unfreeze(t);
    if (t->node)
        return LS_POISON(run, LS_ERR_STATE,
                         "ls_set_requires_grad: this tensor was computed from others; ls_detach() it first");
    if (!ls_dtype_is_float(t->view.dtype))
        return LS_POISON(run, LS_ERR_DTYPE, "ls_set_requires_grad: %s has no gradient, only floating types do",
                         ls_operand_text(&t->view, (char[LS_TEXT]){0}));
    ls_leaf *leaf = ls_slab_take(&run->leaves);
    if (!leaf) return LS_POISON(run, LS_ERR_MEMORY, "ls_set_requires_grad: no memory");
    node_init(run, &leaf->node);
    leaf->node.leaf = leaf;
    leaf->tensor = t;
    leaf->grad = NULL;
    leaf->holds = false;
    leaf->hook = leaf->watch = NULL;
    leaf->derived = (ls_derived){.version = 1};
    t->node = &leaf->node;
    t->output = 0;
    t->is_leaf = true;
    t->view.derived = &leaf->derived;
    ls_storage_enter(t->storage, &leaf->derived);
    return t;
}

void ls_leaf_forget(ls_node *node)
{
    ls_storage_leave(node->leaf->tensor->storage, &node->leaf->derived);
    node->leaf->tensor = NULL;
}

bool ls_requires_grad(const ls_tensor *t)
{
    return ls_is_valid(t) && t->node;
}

ls_tensor *ls_leaf_grad(ls_tensor *t)
{
    ls_run *run = ls_run_of(t);
    if (ls_failed(run) || !ls_check_live(run, t, "ls_grad")) return NULL;
    if (run->debt.pay) ls_debt_pay(run);
    ls_leaf *leaf = leaf_of(t);
    return leaf && leaf->holds ? ls_alias(leaf->grad) : NULL;
}

ls_tensor *ls_grad(ls_tensor *t)
{
    ls_tensor *gradient = ls_leaf_grad(t);
    if (gradient && gradient->life == LS_LIFE_LIVE) gradient->is_gradient = gradient->run->gave_grad = true;
    return gradient;
}

void ls_clear_grad(ls_tensor *t)
{
    ls_run *run = ls_run_of(t);
    if (ls_failed(run) || !ls_check_live(run, t, "ls_clear_grad")) return;
    ls_leaf *leaf = leaf_of(t);
    if (leaf) leaf->holds = false;
}

void ls_set_grad_memory(ls_tensor *t, ls_tensor *home)
{
    ls_run *run = ls_run_of(t);
    if (ls_failed(run) || !ls_check_live(run, t, "ls_set_grad_memory") ||
        !ls_check_live(run, home, "ls_set_grad_memory"))
        return;
    ls_debt_pay(run);
    ls_leaf *leaf = leaf_of(t);
    char a[LS_TEXT], b[LS_TEXT];
    if (!leaf)
        ls_fail(&run->errors, LS_ERR_STATE, "ls_set_grad_memory: the tensor is not a leaf that collects gradients");
    else if (home->view.dtype != t->view.dtype || !ls_shape_equal(ls_view_shape(&home->view), ls_view_shape(&t->view)))
        ls_fail(&run->errors, LS_ERR_SHAPE, "ls_set_grad_memory: %s cannot hold the gradient of %s",
                ls_operand_text(&home->view, a), ls_operand_text(&t->view, b));
    else if (home->storage->device != t->storage->device)
        ls_fail(&run->errors, LS_ERR_DEVICE, "ls_set_grad_memory: gradient on %s, leaf on %s",
                home->storage->device->name, t->storage->device->name);
    else {
        ls_tensor *alias = ls_alias_owned(home);
        if (!alias) return;
        if (leaf->holds) ls_raw_copy(alias, leaf->grad);
        ls_release(leaf->grad);
        leaf->grad = alias;
    }
}

void ls_leaf_move_grad(ls_tensor *t, ls_tensor *home)
{
    ls_tensor *grad = leaf_of(t)->grad;
    /* A part of a block is the place of another optimiser's, which finds out that it was left. */
    if (!grad || grad->storage->whole || !ls_views_match(&grad->view, &home->view)) {
        ls_set_grad_memory(t, home);
        return;
    }
    ls_debt_pay(t->run);
    if (!leaf_of(t)->holds || ls_raw_copy(home, grad)) ls_move(grad, home);
}

bool ls_leaf_grad_is_part(ls_tensor *t)
{
    const ls_tensor *grad = leaf_of(t)->grad;
    return grad && ls_is_part(grad);
}

void ls_register_grad_hook(ls_tensor *t, ls_grad_hook_fn *hook, void *user)
{
    ls_run *run = ls_run_of(t);
    if (ls_failed(run) || !ls_check_live(run, t, "ls_register_grad_hook")) return;
    ls_leaf *leaf = leaf_of(t);
    if (!leaf) {
        ls_fail(&run->errors, LS_ERR_STATE, "ls_register_grad_hook: the tensor is not a leaf that collects gradients");
        return;
    }
    leaf->hook = hook;
    leaf->hook_user = user;
}

void ls_leaf_watch(ls_tensor *t, ls_grad_hook_fn *watch, void *user)
{
    ls_node *node = t->is_leaf ? t->node : t->frozen_leaf; /* a frozen one may be unfrozen */
    if (!node) return;
    node->leaf->watch = watch;
    node->leaf->watch_user = user;
}

bool ls_leaf_multiplied(const ls_tensor *t)
{
    return t->node && t->node->leaf && t->node->leaf->multiplied;
}

bool ls_leaf_watched(const ls_tensor *t)
{
    return leaf_of(t)->watch != NULL;
}

bool ls_leaf_holds(const ls_tensor *t)
{
    return leaf_of(t)->holds;
}

/* Other processes may have added their gradients at any time of the group. */
void ls_leaf_hold(ls_tensor *t)
{
    ls_leaf *leaf = leaf_of(t);
    uint64_t first = t->run->step->accumulation.first_walk;
    if (!leaf->holds && leaf->node.walk < first) leaf->node.walk = first;
    if (!leaf->holds) leaf->since = t->run->walk_serial;
    leaf->holds = true;
}

uint64_t ls_leaf_walk(const ls_tensor *t)
{
    const ls_leaf *leaf = leaf_of(t);
    return leaf ? leaf->node.walk : 0;
}

uint64_t ls_leaf_since(const ls_tensor *t)
{
    const ls_leaf *leaf = leaf_of(t);
    return leaf && leaf->holds ? leaf->since : 0;
}

ls_tensor *ls_detach(ls_tensor *t)
{
    ls_run *run = ls_run_of(t);
    if (ls_failed(run) || !ls_check_live(run, t, "ls_detach")) return &run->poison;
    ls_tensor *alias = ls_alias(t);
    if (alias->life == LS_LIFE_LIVE) alias->view.derived = NULL;
    return alias;
}

/* ---- recording on and off ---- */

bool ls_no_grad_begin(ls_run *run)
{
    run->no_grad++;
    return true;
}

bool ls_no_grad_end(ls_run *run)
{
    if (run->no_grad > 0) run->no_grad--;
    else ls_fail(&run->errors, LS_ERR_STATE, "ls_no_grad_end without ls_no_grad_begin");
    return false;
}

bool ls_is_grad_enabled(const ls_run *run)
{
    return run->no_grad == 0;
}
