/* module.h - the inside of a module, and what layers are made with.
 *
 * A layer is a struct that begins with an ls_module and holds what its forward function needs. Parameters and buffers
 * are handles kept by the run; children are objects of the run like their parents,
 * so freeing the run needs no order. */
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
    bool owned;   /* not kept any longer when the module goes; a parameter of another module stays that one's */
    bool on_host; /* a counter: does not follow the model to its device */
} ls_module_member;

typedef struct ls_branch {
    char *name;
    ls_module *module;
} ls_branch;

struct ls_module {
    ls_object object;
    char *kind;
    char says[96];     /* settings that no parameter shows: "p 0.1"; see ls_layer_says */
    const char *name;  /* that of its first parent's branch; NULL without one */
    ls_module *parent; /* the first */

    ls_forward_fn *forward; /* one of the three is set; none in a list */
    ls_forward_n_fn *forward_n;
    ls_forward_all_fn *forward_all;
    void *user;
    bool training;
    bool recomputes;        /* see ls_set_recompute() */
    int running;            /* forward passes that have not ended: more than one where it is run inside itself */
    bool in_full_precision; /* it ran outside of all others, not prepared, although the run has mixed precision */

    struct ls_module_hook *hooks; /* in the order they are called in; NULL: there is none */
    uint64_t hook_serial;         /* of the latest */

    int member_count, member_capacity;
    ls_module_member *members;
    int child_count, child_capacity;
    ls_branch *children;

    char *config;     /* the text of config.json, saved with the weights; NULL: it has none */
    const char *site; /* where it was in the last forward pass (tensor/site.h) */
    int output_count; /* of the last forward pass; 0: there was none, or it failed */
    ls_shape output[LS_MAX_MODULE_OUTPUTS];

    ls_state *parameters, *state; /* lists handed out; NULL until asked for */
    const char **report;          /* names in the report of the last load */
};

/* A layer of `size` bytes, zero behind the module, with one input, with several, or with several outputs as well. NULL
 * when the run has failed or memory is out. */
void *ls_layer_new(ls_run *run, const char *kind, size_t size, ls_forward_fn *forward);
void *ls_layer_new_n(ls_run *run, const char *kind, size_t size, ls_forward_n_fn *forward);
void *ls_layer_new_all(ls_run *run, const char *kind, size_t size, ls_forward_all_fn *forward);
/* The end of a constructor: the module. When something failed since ls_layer_new(): NULL, and the module is freed with
 * all that was made after it, which are its parts and known to nobody else. Accepts NULL. */
ls_module *ls_layer_done(void *layer);

/* What changes the layer's numbers and is not in the names and shapes of its parameters, in words: a training that goes
 * on with another layer is told. Accepts NULL. */
LS_PRINTF(2, 3) void ls_layer_says(void *layer, const char *format, ...);

/* hooks.c: call those before the forward function, which may replace inputs (the result is `inputs`, filled), and
 * those after it; let all of them go. */
ls_tensor *const *ls_hooks_before(ls_module *module, ls_tensor *const *given, int64_t n,
                                  ls_tensor *inputs[LS_MAX_MODULE_INPUTS]);
void ls_hooks_after(ls_module *module, ls_tensor *const *inputs, int64_t n, ls_outputs *outputs);
void ls_hooks_free(ls_module *module);

/* Did a backward pass leave a gradient at a parameter of it or of its children? */
bool ls_module_has_gradients(const ls_module *module);

/* Run another function as the forward function of a module: in its scope, on its path. */
ls_outputs ls_forward_as(ls_module *module, ls_forward_all_fn *forward, ls_tensor *const *inputs, int64_t n,
                         void *user);

/* Is a number of inputs right? Records an error where it is not. */
bool ls_layer_takes(const ls_module *module, int64_t n, int least, int most);

/* Parameters as layers make them: f32, uniform in [-bound, bound), one value, or for the caller to fill. */
ls_tensor *ls_parameter_uniform(ls_module *module, const char *name, double bound, ls_shape shape);
ls_tensor *ls_parameter_full(ls_module *module, const char *name, double value, ls_shape shape);
ls_tensor *ls_parameter_blank(ls_module *module, const char *name, ls_shape shape);

/* A buffer that the host counts in: an i64, 0 at first, in host memory whatever the device of the run, so that counting
 * submits nothing and waits for nothing. */
ls_tensor *ls_counter(ls_module *module, const char *name);
void ls_counter_step(ls_tensor *counter);

/* Layers whose weights are for the caller to fill: a convolution without bias, a linear layer whose bias is 0, an
 * embedding, of which the row of padding is the caller's as well. */
#define ls_linear_blank(run, in, ...) LS_CALL_3(ls_linear_blank, ls_linear_opts, run, in, __VA_ARGS__, )
ls_module *ls_linear_blank_sized(ls_run *run, int64_t in, int64_t out, const ls_linear_opts *opts, size_t opts_size);
#define ls_embedding_blank(run, rows, ...) LS_CALL_3(ls_embedding_blank, ls_embedding_opts, run, rows, __VA_ARGS__, )
ls_module *ls_embedding_blank_sized(ls_run *run, int64_t rows, int64_t features, const ls_embedding_opts *opts,
                                    size_t opts_size);
#define ls_conv2d_blank(run, in, out, ...) LS_CALL_4(ls_conv2d_blank, ls_conv2d_new_opts, run, in, out, __VA_ARGS__, )
ls_module *ls_conv2d_blank_sized(ls_run *run, int64_t in, int64_t out, int64_t kernel, const ls_conv2d_new_opts *opts,
                                 size_t opts_size);

/* Call `visit` for every parameter and buffer below, in PyTorch's order, with its dotted path.
 * Stops when it is false. */
typedef bool ls_visit_fn(void *user, const char *path, const ls_module_member *member);
bool ls_module_visit(const ls_module *module, ls_visit_fn *visit, void *user);

#endif
