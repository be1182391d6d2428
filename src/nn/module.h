/* module.h - the internals of a module, and helpers for layers.
 *
 * A layer is a struct that begins with an ls_module and holds what its forward function needs. Parameters and buffers
 * are handles kept by the run; children are objects of the run like their parents, so the run can free them in any
 * order. */
#ifndef LOCKSTEP_NN_MODULE_H
#define LOCKSTEP_NN_MODULE_H

#include <lockstep/nn.h>

#include "base/memory.h"
#include "base/opts.h"
#include "tensor/state.h"

typedef struct ls_module_member {
    char *name;
    ls_tensor *tensor; /* one reference */
    bool is_buffer;
    bool owned;   /* released with the module; false: a parameter of another module */
    bool on_host; /* a counter: stays on the host */
} ls_module_member;

typedef struct ls_branch {
    char *name;
    ls_module *module;
} ls_branch;

struct ls_module {
    ls_object object;
    char *kind;
    char says[96];     /* settings not visible in parameters: "p 0.1"; see ls_layer_says */
    const char *name;  /* in its first parent; NULL: no parent */
    ls_module *parent; /* the first */

    ls_forward_fn *forward; /* one of the three is set; none for a list */
    ls_forward_n_fn *forward_n;
    ls_forward_all_fn *forward_all;
    void *user;
    bool is_programs; /* its forward function is the program's, which may remember the tensors it sees */
    bool training;
    bool recomputes;        /* see ls_set_recompute() */
    bool has_weight;        /* the layer is an ls_weighted_layer */
    int running;            /* unfinished forward passes: more than one if it runs inside itself */
    bool in_full_precision; /* it ran unprepared, outside prepared modules, although the run has mixed precision */

    struct ls_module_hook *hooks; /* in calling order; NULL: none */
    uint64_t hook_serial;         /* of the latest */

    int member_count, member_capacity;
    ls_module_member *members;
    int child_count, child_capacity;
    ls_branch *children;

    char *config;     /* the text of config.json, saved with the weights; NULL: none */
    const char *site; /* its path in the last forward pass (tensor/site.h) */
    int output_count; /* of the last forward pass; 0: none, or it failed */
    ls_shape output[LS_MAX_MODULE_OUTPUTS];

    ls_state *parameters, *state; /* lists returned to the program; NULL until requested */
    const char **report;          /* names in the report of the last load */
};

/* What layers with a weight that can be tied begin with. */
typedef struct ls_weighted_layer {
    ls_module module;
    ls_tensor *weight;
} ls_weighted_layer;

/* A layer of `size` bytes, zero after the module, with one input, with several, or with several inputs and outputs.
 * NULL if the run has failed or memory is out. */
void *ls_layer_new(ls_run *run, const char *kind, size_t size, ls_forward_fn *forward);
void *ls_layer_new_n(ls_run *run, const char *kind, size_t size, ls_forward_n_fn *forward);
void *ls_layer_new_all(ls_run *run, const char *kind, size_t size, ls_forward_all_fn *forward);
/* The end of a constructor: returns the module. If something failed since ls_layer_new(): NULL, and the module is freed
 * with everything created after it, which are its parts. Accepts NULL. */
ls_module *ls_layer_done(void *layer);

/* Describe settings that change the layer's results and are not visible in names and shapes of its parameters: a
 * resumed training reports a difference. Accepts NULL. */
LS_PRINTF(2, 3) void ls_layer_says(void *layer, const char *format, ...);

/* hooks.c: call the hooks before the forward function, which may replace inputs (the result is `inputs`, filled), and
 * those after it; free all of them. */
ls_tensor *const *ls_hooks_before(ls_module *module, ls_tensor *const *given, int64_t n,
                                  ls_tensor *inputs[LS_MAX_MODULE_INPUTS]);
void ls_hooks_after(ls_module *module, ls_tensor *const *inputs, int64_t n, ls_outputs *outputs);
void ls_hooks_free(ls_module *module);

/* Does a parameter of it or of its children have a gradient? */
bool ls_module_has_gradients(const ls_module *module);

/* Run another function as the forward function of a module: in its scope, on its path. */
ls_outputs ls_forward_as(ls_module *module, ls_forward_all_fn *forward, ls_tensor *const *inputs, int64_t n,
                         void *user);
/* A module that ran as a part of another in such a pass has an output of the same shape, but for its last size if
 * `features` is not 0. */
static inline void ls_forwarded_with(ls_module *part, const ls_module *ran, int64_t features)
{
    part->output_count = ran->output_count;
    part->output[0] = ran->output[0];
    if (features && part->output_count) part->output[0].dim[part->output[0].ndim - 1] = features;
}

/* Is the number of inputs valid? Records an error if not. */
bool ls_layer_takes(const ls_module *module, int64_t n, int least, int most);

/* Parameters and buffers of layers: f32, uniform in [-bound, bound), constant, or filled by the caller. */
ls_tensor *ls_parameter_uniform(ls_module *module, const char *name, double bound, ls_shape shape);
ls_tensor *ls_parameter_full(ls_module *module, const char *name, double value, ls_shape shape);
ls_tensor *ls_parameter_blank(ls_module *module, const char *name, ls_shape shape);
ls_tensor *ls_buffer_full(ls_module *module, const char *name, double value, ls_shape shape);

/* A counter buffer: an i64, initially 0, in host memory whatever the run's device, so that counting submits nothing and
 * waits for nothing. */
ls_tensor *ls_counter(ls_module *module, const char *name);
void ls_counter_step(ls_tensor *counter);

/* Layers whose weights the caller fills: a convolution without bias, a linear layer with bias 0, an embedding including
 * its padding row. */
#define ls_linear_blank(run, in, ...) LS_CALL_3(ls_linear_blank, ls_linear_opts, run, in, __VA_ARGS__, )
ls_module *ls_linear_blank_sized(ls_run *run, int64_t in, int64_t out, const ls_linear_opts *opts, size_t opts_size);
#define ls_embedding_blank(run, rows, ...) LS_CALL_3(ls_embedding_blank, ls_embedding_opts, run, rows, __VA_ARGS__, )
ls_module *ls_embedding_blank_sized(ls_run *run, int64_t rows, int64_t features, const ls_embedding_opts *opts,
                                    size_t opts_size);
#define ls_conv2d_blank(run, in, out, ...) LS_CALL_4(ls_conv2d_blank, ls_conv2d_new_opts, run, in, out, __VA_ARGS__, )
ls_module *ls_conv2d_blank_sized(ls_run *run, int64_t in, int64_t out, int64_t kernel, const ls_conv2d_new_opts *opts,
                                 size_t opts_size);

/* Call `visit` for every parameter and buffer of the module and its children, in PyTorch's order, with its dotted path.
 * Stops when it returns false. */
typedef bool ls_visit_fn(void *user, const char *path, const ls_module_member *member);
bool ls_module_visit(const ls_module *module, ls_visit_fn *visit, void *user);

#endif
