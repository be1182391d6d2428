/* tape.h - the record of operators for backward. Knows no operator: a node points to a description (ls_op_info) with
 * the function to call.
 *
 * An operator makes a node if one of its inputs wants gradients. The node holds references to the nodes of its inputs,
 * and aliases (without history) of the tensors that backward needs. It is freed with its last reference: from handles
 * of its outputs and from nodes that consumed them. So a graph that is never walked is freed with its handles. */
#ifndef LOCKSTEP_AUTOGRAD_TAPE_H
#define LOCKSTEP_AUTOGRAD_TAPE_H

#include "tensor/context.h"

enum {
    LS_MAX_SAVED = 9,
    LS_NODE_OUTPUTS = 4,  /* of which gradients come back */
    LS_INLINE_INPUTS = 6, /* no layer has more: a node should touch few cache lines */
};

/* Compute the gradients dx of a node's inputs from those of its outputs. dy[i] is NULL if no gradient arrived (never
 * all). Set dx[i] for every input with ls_wants(node, i), in the input's shape or the broadcast one (the walk sums and
 * converts). A NULL dx[i] means zero, or that ls_grad_target() was written. Runs in a scope of its own with recording
 * off. */
typedef void ls_backward_fn(ls_node *node, ls_tensor *const *dy, ls_tensor **dx);

typedef enum ls_op_kind {
    LS_KIND_KERNEL,
    LS_KIND_VIEW,
    LS_KIND_BUILT,
    LS_KIND_GRAD,
    LS_KIND_UPDATE,
    LS_KIND_COLLECTIVE,
} ls_op_kind;
typedef enum ls_op_policy { LS_POLICY_SAME, LS_POLICY_HALF, LS_POLICY_F32, LS_POLICY_WIDEST } ls_op_policy;

typedef struct ls_op_info {
    const char *name;
    ls_opcode code;
    ls_op_kind kind;
    ls_op_policy policy;
    ls_backward_fn *backward; /* NULL: not differentiable */
    const char *summary;
} ls_op_info;

/* Destination of a gradient: output `output` of `node`, whose value had this type and shape. */
typedef struct ls_edge {
    ls_node *node; /* NULL: this input wants no gradient */
    int32_t output;
    ls_dtype dtype;
    ls_shape shape;
} ls_edge;

typedef struct ls_leaf ls_leaf;

struct ls_node {
    const ls_op_info *op; /* NULL for a leaf */
    ls_leaf *leaf;        /* NULL for an operator */
    const char *site;     /* the module that made it (tensor/site.h); may be NULL */
    uint64_t serial;      /* increases with every node: later is closer to the loss */
    int32_t refs;
    int32_t n_in, n_out, n_saved;
    bool walked;         /* backward has used it: saved tensors are freed */
    bool meets_gradient; /* an input is what ls_grad() returned, or was computed from it */
    int32_t place;       /* index in its replay; -1: none */
    ls_replay *replay;   /* recomputes its saved tensors; NULL: they are kept */

    /* of the walk in progress */
    uint64_t walk;
    int32_t pending; /* gradients still to arrive */
    ls_node *link;   /* in the counting stack, then in the queue of ready nodes */

    ls_edge *in; /* [n_in]; the first few inline, more (concat) on the heap */
    ls_tensor *grad[LS_NODE_OUTPUTS];
    ls_edge inline_in[LS_INLINE_INPUTS];
    ls_attrs attrs;   /* of the operator's call */
    int64_t extra[4]; /* small values for the operator's backward */
    ls_tensor *saved[LS_MAX_SAVED];
    uint64_t saved_version[LS_MAX_SAVED];
};

/* A leaf of the graph: a tensor that accumulates its gradient. */
struct ls_leaf {
    ls_node node;
    ls_tensor *tensor; /* not owned; NULL once its handle is freed */
    ls_tensor *grad;   /* owned; NULL until allocated */
    bool holds;        /* grad has a value (otherwise the memory is only reserved) */
    uint64_t since;    /* the first walk that contributed to it */
    bool multiplied;   /* a product has read it in its own type: the device may want a half copy */
    ls_derived derived;
    ls_grad_hook_fn *hook; /* set by the program */
    void *hook_user;
    ls_grad_hook_fn *watch; /* set by the library, called after `hook` */
    void *watch_user;
};

/* ---- Recording ---- */

/* True if an operator on these inputs must record a node. NULL inputs are skipped. */
bool ls_must_record(const ls_run *run, int n_in, ls_tensor *const *in);
/* Create the node of an operator and attach it to its outputs. NULL (and an error): out of memory. */
ls_node *ls_record(ls_run *run, const ls_op_info *op, int n_in, ls_tensor *const *in, int n_out, ls_tensor *const *out);
/* Save a tensor for backward in the next free slot; it may be NULL. */
void ls_save(ls_node *node, ls_tensor *t);

/* A node without operator, inputs and outputs, with one reference: its tensor wants a gradient, but is never walked. */
ls_node *ls_node_blank(ls_run *run);

/* ---- In a backward function ---- */

static inline bool ls_wants(const ls_node *node, int input)
{
    return input < node->n_in && node->in[input].node != NULL;
}

/* Memory into which the gradient of this input, in the input's type and shape, may be written (*accumulate == 0) or
 * added (1) directly: that of a leaf, or the sum of earlier contributions. Dense, in any order of dimensions. NULL if
 * there is none, or if an earlier input is the same tensor: a call writes each place once. After writing, leave
 * dx[input] NULL. */
ls_tensor *ls_grad_target(ls_node *node, int input, int32_t *accumulate);

/* The gradient of an output, dy[output], if its memory has no other owner: it may be overwritten and become that of an
 * input. Else NULL. */
ls_tensor *ls_grad_taken(ls_node *node, int output);

/* ---- Gradients of leaves, for reducing them over processes ----
 *
 * The tensor must be a leaf that collects gradients. */

/* Call `watch` when the gradient is complete in a backward pass; NULL: stop. */
void ls_leaf_watch(ls_tensor *t, ls_grad_hook_fn *watch, void *user);
/* Is the memory of the gradient a part of what the program holds (ls_set_grad_memory)? */
bool ls_leaf_grad_is_part(ls_tensor *t);
/* Give the gradient the memory of `home`, shaped like the leaf, with the value and the handles that show it. */
void ls_leaf_move_grad(ls_tensor *t, ls_tensor *home);
/* Memory of the gradient, with or without a value. Owned by the leaf; NULL (and an error): out of memory. */
ls_tensor *ls_leaf_room(ls_tensor *t);
bool ls_leaf_holds(const ls_tensor *t); /* does it have a value? */
/* The gradient of a leaf, for the library's own use: ls_grad() marks what it returns as a gradient. */
ls_tensor *ls_leaf_grad(ls_tensor *t);
void ls_leaf_hold(ls_tensor *t); /* the memory now holds its value */

/* ---- Walking ---- */

/* From a tensor with gradient `seed` (same shape; NULL: one element, 1). */
bool ls_walk_back(ls_run *run, ls_tensor *from, ls_tensor *seed);

#endif
