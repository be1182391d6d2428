/* nn.h - modules: layers with named parameters, and networks built from them.
 *
 * A module has parameters (trained), buffers (not trained, but part of its state), children and a forward function.
 * Names are PyTorch's: "layer1.0.conv1.weight", "bn.running_mean". Layers initialise their parameters as PyTorch does,
 * from the run's random numbers. A network of your own takes a few lines:
 *
 *     static ls_tensor *forward(ls_module *net, ls_tensor *x, void *user)
 *     {
 *         x = ls_relu(ls_forward(ls_child(net, "fc1"), x));
 *         return ls_forward(ls_child(net, "fc2"), x);
 *     }
 *
 *     ls_module *net = ls_module_new(run, "net", forward, NULL);
 *     ls_module_add(net, "fc1", ls_linear_new(run, 784, 128));
 *     ls_module_add(net, "fc2", ls_linear_new(run, 128, 10));
 *     ls_tensor *logits = ls_forward(net, images);
 *
 * Modules belong to the run and are freed with it. A constructor that fails records the error and returns NULL; every
 * function here accepts NULL and does nothing, so checking ls_error() is enough. */
#ifndef LOCKSTEP_NN_H
#define LOCKSTEP_NN_H

#include <lockstep/ops.h>
#include <lockstep/state.h>

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_module ls_module;

/* ---- Using a module ---- */

/* Run it, with one input or several: ls_forward(attention, x, mask). Intermediate tensors are freed with the module's
 * scope; the result stays. Errors carry the module's path: "net/layer3.2/conv1: conv2d: ...". */
#define ls_forward(module, ...) ls_forward_n((module), LS_ITEMS(ls_tensor *, __VA_ARGS__))
LS_API ls_tensor *ls_forward_n(ls_module *module, ls_tensor *const *inputs, int64_t count);

/* The most inputs a module can take. */
#define LS_MAX_MODULE_INPUTS 16

/* What a module returns: usually one tensor, at most LS_MAX_MODULE_OUTPUTS. Items from `count` on are NULL; after a
 * failure count is 0 and all of them are poison, so that they may be used without a check. */
#define LS_MAX_MODULE_OUTPUTS 8
typedef struct ls_outputs {
    int64_t count;
    ls_tensor *item[LS_MAX_MODULE_OUTPUTS];
} ls_outputs;

/* All outputs of a module:
 *
 *     ls_outputs out = ls_forward_all(encoder, tokens, mask);
 *     ls_tensor *sequence = out.item[0], *pooled = out.item[1];
 *
 * ls_forward() and ls_sequential_new() need modules with one output: several are an error. */
#define ls_forward_all(module, ...) ls_forward_all_n((module), LS_ITEMS(ls_tensor *, __VA_ARGS__))
LS_API ls_outputs ls_forward_all_n(ls_module *module, ls_tensor *const *inputs, int64_t count);

/* Training or evaluation mode, for the module and everything below: affects dropout and batch normalisation. New
 * modules are in training mode. */
LS_API void ls_train(ls_module *module);
LS_API void ls_eval(ls_module *module);
LS_API bool ls_is_training(const ls_module *module);

/* Stop the parameters of the module and everything below from being trained, or let them be trained again. */
LS_API void ls_freeze(ls_module *module);
LS_API void ls_unfreeze(ls_module *module);

/* Gradient checkpointing: keep no intermediate results of the module for backward, and compute them again when its
 * gradients are needed. This takes less memory and the time of one more forward pass; results and gradients stay the
 * same to the last bit, also with dropout and batch normalisation. Use it on each block of a deep network:
 *
 *     for (int i = 0; i < ls_child_count(layers); i++) ls_set_recompute(ls_child_at(layers, i), true);
 *
 * The module must compute the same from the same inputs (ls_is_recomputing() is true the second time). Its inputs,
 * parameters, buffers it reads, mode and frozen parameters must not change until ls_backward(): a change is an error.
 * Variables of the program that its forward function uses must not change either: an operator that is called
 * differently the second time is an error. Hooks of the module are called once, those of modules inside it twice.
 * Without gradients (ls_no_grad_begin) it makes no difference. */
LS_API void ls_set_recompute(ls_module *module, bool on);

/* A table of layers, output shapes (of the last forward pass, if there was one) and parameter counts. */
LS_API void ls_describe(ls_module *module, FILE *to);

/* Free a module and its children now. It must not be part of another module. */
LS_API void ls_module_free(ls_module *module);

/* ---- Hooks ----
 *
 * Functions that are called whenever a module runs, in the order in which they were added. They run in the module's
 * scope and under its path: their tensors are freed with the module's, and their errors name the module. They may add
 * and remove hooks; a new one is called from the next pass on. No hook is called after a failure. */

/* Before the forward function. inputs[0 .. count-1] may be replaced. */
typedef void ls_forward_pre_hook_fn(ls_module *module, ls_tensor **inputs, int64_t count, void *user);
/* After it, with its inputs. Outputs may be replaced; those of a prepared module are already f32. */
typedef void ls_forward_hook_fn(ls_module *module, ls_tensor *const *inputs, int64_t count, ls_outputs *outputs,
                                void *user);
/* NULL on failure. A hook is freed with its module, or earlier by ls_hook_remove(). */
LS_API ls_hook *ls_register_forward_pre_hook(ls_module *module, ls_forward_pre_hook_fn *hook, void *user);
LS_API ls_hook *ls_register_forward_hook(ls_module *module, ls_forward_hook_fn *hook, void *user);

/* ---- Making one ---- */

typedef ls_tensor *ls_forward_fn(ls_module *self, ls_tensor *x, void *user);
typedef ls_tensor *ls_forward_n_fn(ls_module *self, ls_tensor *const *inputs, int64_t count, void *user);

/* A module with your own forward function. `kind` ("Net") names it in messages and tables. `user` is passed to the
 * function, must outlive the module and may be NULL. */
LS_API ls_module *ls_module_new(ls_run *run, const char *kind, ls_forward_fn *forward, void *user);
LS_API ls_module *ls_module_new_n(ls_run *run, const char *kind, ls_forward_n_fn *forward, void *user);

/* One with several outputs; its forward function ends with
 *
 *     return LS_OUTPUTS(sequence, pooled); */
typedef ls_outputs ls_forward_all_fn(ls_module *self, ls_tensor *const *inputs, int64_t count, void *user);
LS_API ls_module *ls_module_new_all(ls_run *run, const char *kind, ls_forward_all_fn *forward, void *user);
#define LS_OUTPUTS(...) ls_outputs_n(LS_ITEMS(ls_tensor *, __VA_ARGS__))
LS_API ls_outputs ls_outputs_n(ls_tensor *const *items, int64_t count);

/* Make `child` a part of `parent` under a name without dots. Returns the child. A child may be part of several parents:
 * they share its parameters. */
LS_API ls_module *ls_module_add(ls_module *parent, const char *name, ls_module *child);
/* Make a tensor a parameter: it is kept, collects gradients and is freed with the module; or a buffer, which collects
 * none. Returns it. The same tensor may be a parameter of several modules: the first owns it. */
LS_API ls_tensor *ls_register_parameter(ls_module *module, const char *name, ls_tensor *tensor);
LS_API ls_tensor *ls_register_buffer(ls_module *module, const char *name, ls_tensor *tensor);

/* Tie weights: from now on `layer` uses the weight of `other`, and both train it. For Linear, Embedding and
 * convolutions whose weights have one shape, before an optimiser is made:
 *
 *     ls_tie(ls_child(net, "head"), ls_child(net, "tokens"));        a Linear and an Embedding, both [1000,64]
 *
 * Checkpoints of the network keep both names. Parameters of modules of your own are tied by ls_register_parameter(). */
LS_API void ls_tie(ls_module *layer, ls_module *other);

/* ---- Looking inside ---- */

LS_API const char *ls_module_kind(const ls_module *module);
LS_API const char *ls_module_name(const ls_module *module); /* in its parent; "" without a parent */
LS_API ls_run *ls_module_run(const ls_module *module);
LS_API int64_t ls_child_count(const ls_module *module);
LS_API ls_module *ls_child_at(const ls_module *module, int64_t i);
/* By name or dotted path, "layer1.0.conv1"; an unknown path is an error. */
LS_API ls_module *ls_child(const ls_module *module, const char *path);
/* A parameter or buffer of the module or below, by dotted path; an unknown path is an error. */
LS_API ls_tensor *ls_module_tensor(const ls_module *module, const char *path);
/* Numbers in all parameters below; a shared parameter counts once. */
LS_API int64_t ls_parameter_count(ls_module *module);
LS_API int64_t ls_trainable_count(ls_module *module);

/* ---- State ---- */

/* All parameters of the module, and all parameters and buffers, with dotted names in PyTorch's order. The module owns
 * the lists; the next call updates them. */
LS_API ls_state *ls_parameters(ls_module *module);
LS_API ls_state *ls_state_dict(ls_module *module);

typedef struct ls_load_state_dict_opts {
    bool partial LS_DEFAULT(false);         /* ignore names present on one side only */
    bool skip_mismatched LS_DEFAULT(false); /* leave out entries of another shape instead of failing */
    const char *optional LS_DEFAULT(NULL);  /* apply both only to the module's names that match: "*.extra|fc.*" */
    ls_options_end _ LS_DEFAULT({});
} ls_load_state_dict_opts;
#define ls_load_state_dict_opts_defaults .partial = false

/* What a load did. The arrays are the module's, valid until its next load; unexpected names are those of the list. */
typedef struct ls_load_report {
    int64_t loaded, missing_count, unexpected_count, mismatched_count;
    const char *const *missing;    /* in the module, not in the list */
    const char *const *unexpected; /* in the list, not in the module */
    const char *const *mismatched; /* of another shape */
} ls_load_report;

/* Copy the numbers of a list into the tensors of the same name, converting type and device. After an error the module
 * is unchanged. A list that has none of the module's names is an error, even with .partial. A list may lack
 * "num_batches_tracked" of batch normalisation, which then keeps its value: older files of PyTorch do not have it. */
#define ls_load_state_dict(module, ...) LS_CALL_2(ls_load_state_dict, ls_load_state_dict_opts, module, __VA_ARGS__, )
LS_API ls_load_report ls_load_state_dict_sized(ls_module *module, const ls_state *state,
                                               const ls_load_state_dict_opts *opts, size_t opts_size);

/* Convert all floating parameters; their gradients are dropped. Buffers stay as they are. */
LS_API void ls_module_cast(ls_module *module, ls_dtype dtype);

/* ---- Layers ---- */

/* x [...,in] -> [...,out]. weight [out,in], bias [out] */
typedef struct ls_linear_opts {
    bool bias LS_DEFAULT(true);
    ls_activation activation LS_DEFAULT(LS_ACT_NONE); /* fused, applied last */
    ls_options_end _ LS_DEFAULT({});
} ls_linear_opts;
#define ls_linear_opts_defaults .bias = true
#define ls_linear_new(run, in, ...) LS_CALL_3(ls_linear_new, ls_linear_opts, run, in, __VA_ARGS__, )
LS_API ls_module *ls_linear_new_sized(ls_run *run, int64_t in, int64_t out, const ls_linear_opts *opts,
                                      size_t opts_size);

/* x [N,in,H,W] -> [N,out,OH,OW]. weight [out,in/groups,kernel,kernel], bias [out]; transposed: weight
 * [in,out/groups,kernel,kernel]. A number given in an _hw pair overrides the single one. */
typedef struct ls_conv2d_new_opts {
    int64_t stride LS_DEFAULT(1), padding LS_DEFAULT(0), dilation LS_DEFAULT(1), groups LS_DEFAULT(1);
    int64_t kernel_hw[2] LS_DEFAULT({LS_AUTO, LS_AUTO}), stride_hw[2] LS_DEFAULT({LS_AUTO, LS_AUTO});
    int64_t padding_hw[2] LS_DEFAULT({LS_AUTO, LS_AUTO}), dilation_hw[2] LS_DEFAULT({LS_AUTO, LS_AUTO});
    int64_t output_padding LS_DEFAULT(0); /* transposed only */
    bool bias LS_DEFAULT(true);
    ls_options_end _ LS_DEFAULT({});
} ls_conv2d_new_opts;
#define ls_conv2d_new_opts_defaults                                                                                    \
    .stride = 1, .dilation = 1, .groups = 1, .bias = true, .kernel_hw = {LS_AUTO, LS_AUTO},                            \
    .stride_hw = {LS_AUTO, LS_AUTO}, .padding_hw = {LS_AUTO, LS_AUTO}, .dilation_hw = {LS_AUTO, LS_AUTO}
#define ls_conv2d_new(run, in, out, ...) LS_CALL_4(ls_conv2d_new, ls_conv2d_new_opts, run, in, out, __VA_ARGS__, )
LS_API ls_module *ls_conv2d_new_sized(ls_run *run, int64_t in, int64_t out, int64_t kernel,
                                      const ls_conv2d_new_opts *opts, size_t opts_size);
#define ls_conv_transpose2d_new(run, in, out, ...)                                                                     \
    LS_CALL_4(ls_conv_transpose2d_new, ls_conv2d_new_opts, run, in, out, __VA_ARGS__, )
LS_API ls_module *ls_conv_transpose2d_new_sized(ls_run *run, int64_t in, int64_t out, int64_t kernel,
                                                const ls_conv2d_new_opts *opts, size_t opts_size);

/* x [N,in,L] -> [N,out,OL]. weight [out,in/groups,kernel], bias [out] */
typedef struct ls_conv1d_new_opts {
    int64_t stride LS_DEFAULT(1), padding LS_DEFAULT(0), dilation LS_DEFAULT(1), groups LS_DEFAULT(1);
    bool bias LS_DEFAULT(true);
    ls_options_end _ LS_DEFAULT({});
} ls_conv1d_new_opts;
#define ls_conv1d_new_opts_defaults .stride = 1, .dilation = 1, .groups = 1, .bias = true
#define ls_conv1d_new(run, in, out, ...) LS_CALL_4(ls_conv1d_new, ls_conv1d_new_opts, run, in, out, __VA_ARGS__, )
LS_API ls_module *ls_conv1d_new_sized(ls_run *run, int64_t in, int64_t out, int64_t kernel,
                                      const ls_conv1d_new_opts *opts, size_t opts_size);

/* x [N,C] or [N,C,...], like x. weight, bias, running_mean, running_var [C], num_batches_tracked (i64). A second input
 * is added before the activation: ls_forward(bn, x, shortcut). */
typedef struct ls_batch_norm_new_opts {
    double epsilon LS_DEFAULT(1e-5), momentum LS_DEFAULT(0.1);
    bool affine LS_DEFAULT(true);                     /* with weight and bias */
    bool track_running_stats LS_DEFAULT(true);        /* false: always use the statistics of the batch */
    ls_activation activation LS_DEFAULT(LS_ACT_NONE); /* LS_ACT_NONE or LS_ACT_RELU */
    ls_options_end _ LS_DEFAULT({});
} ls_batch_norm_new_opts;
#define ls_batch_norm_new_opts_defaults .epsilon = 1e-5, .momentum = 0.1, .affine = true, .track_running_stats = true
#define ls_batch_norm_new(run, ...) LS_CALL_2(ls_batch_norm_new, ls_batch_norm_new_opts, run, __VA_ARGS__, )
LS_API ls_module *ls_batch_norm_new_sized(ls_run *run, int64_t channels, const ls_batch_norm_new_opts *opts,
                                          size_t opts_size);

/* Over the last dimension of that many features; or over several: ls_layer_norm_new_shape(run, LS_SHAPE(7, 7)). The
 * output is like x; weight and bias have that shape. A second input is added first, in training after .dropout of x:
 * ls_forward(norm, x, residual). */
typedef struct ls_layer_norm_opts {
    double epsilon LS_DEFAULT(1e-5);
    bool affine LS_DEFAULT(true), bias LS_DEFAULT(true);
    double dropout LS_DEFAULT(0); /* of x, before the residual is added; the residual is then required */
    ls_options_end _ LS_DEFAULT({});
} ls_layer_norm_opts;
#define ls_layer_norm_opts_defaults .epsilon = 1e-5, .affine = true, .bias = true
#define ls_layer_norm_new(run, ...) LS_CALL_2(ls_layer_norm_new, ls_layer_norm_opts, run, __VA_ARGS__, )
LS_API ls_module *ls_layer_norm_new_sized(ls_run *run, int64_t features, const ls_layer_norm_opts *opts,
                                          size_t opts_size);
#define ls_layer_norm_new_shape(run, ...) LS_CALL_2(ls_layer_norm_new_shape, ls_layer_norm_opts, run, __VA_ARGS__, )
LS_API ls_module *ls_layer_norm_new_shape_sized(ls_run *run, ls_shape shape, const ls_layer_norm_opts *opts,
                                                size_t opts_size);

/* Over the last dimension of that many features. weight [features] */
typedef struct ls_rms_norm_opts {
    double epsilon LS_DEFAULT(1.1920928955078125e-07); /* the resolution of f32 */
    bool affine LS_DEFAULT(true);                      /* with weight */
    ls_options_end _ LS_DEFAULT({});
} ls_rms_norm_opts;
#define ls_rms_norm_opts_defaults .epsilon = 1.1920928955078125e-07, .affine = true
#define ls_rms_norm_new(run, ...) LS_CALL_2(ls_rms_norm_new, ls_rms_norm_opts, run, __VA_ARGS__, )
LS_API ls_module *ls_rms_norm_new_sized(ls_run *run, int64_t features, const ls_rms_norm_opts *opts, size_t opts_size);

/* x [N,C,...], channels in `groups` equal parts. weight, bias [C] */
typedef struct ls_group_norm_opts {
    double epsilon LS_DEFAULT(1e-5);
    bool affine LS_DEFAULT(true);
    ls_options_end _ LS_DEFAULT({});
} ls_group_norm_opts;
#define ls_group_norm_opts_defaults .epsilon = 1e-5, .affine = true
#define ls_group_norm_new(run, groups, ...) LS_CALL_3(ls_group_norm_new, ls_group_norm_opts, run, groups, __VA_ARGS__, )
LS_API ls_module *ls_group_norm_new_sized(ls_run *run, int64_t groups, int64_t channels, const ls_group_norm_opts *opts,
                                          size_t opts_size);

/* index [...] (i64 or i32) -> [...,features]. weight [rows,features] */
typedef struct ls_embedding_opts {
    int64_t padding_idx LS_DEFAULT(LS_NO_ROW); /* this row (negative: from the end) is zero and gets no gradient */
    ls_options_end _ LS_DEFAULT({});
} ls_embedding_opts;
#define ls_embedding_opts_defaults .padding_idx = LS_NO_ROW
#define ls_embedding_new(run, rows, ...) LS_CALL_3(ls_embedding_new, ls_embedding_opts, run, rows, __VA_ARGS__, )
LS_API ls_module *ls_embedding_new_sized(ls_run *run, int64_t rows, int64_t features, const ls_embedding_opts *opts,
                                         size_t opts_size);

/* ---- Layers without parameters ---- */

LS_API ls_module *ls_identity_new(ls_run *run);
LS_API ls_module *ls_relu_new(ls_run *run);
LS_API ls_module *ls_gelu_new(ls_run *run);
LS_API ls_module *ls_gelu_tanh_new(ls_run *run);
LS_API ls_module *ls_silu_new(ls_run *run);
LS_API ls_module *ls_sigmoid_new(ls_run *run);
LS_API ls_module *ls_tanh_new(ls_run *run);
LS_API ls_module *ls_softplus_new(ls_run *run, double beta);
LS_API ls_module *ls_elu_new(ls_run *run, double alpha);
LS_API ls_module *ls_leaky_relu_new(ls_run *run, double slope);
LS_API ls_module *ls_softmax_new(ls_run *run, int dim);
LS_API ls_module *ls_log_softmax_new(ls_run *run, int dim);
LS_API ls_module *ls_dropout_new(ls_run *run, double p); /* does nothing in evaluation */
LS_API ls_module *ls_flatten_new(ls_run *run);           /* [N,...] -> [N,-1] */
LS_API ls_module *ls_upsample_new(ls_run *run, int64_t factor, ls_interpolation method);
LS_API ls_module *ls_adaptive_avg_pool2d_new(ls_run *run, int64_t height, int64_t width);

/* Options as in ls_max_pool2d. */
#define ls_max_pool2d_new(run, ...) LS_CALL_2(ls_max_pool2d_new, ls_pool2d_opts, run, __VA_ARGS__, )
LS_API ls_module *ls_max_pool2d_new_sized(ls_run *run, int64_t kernel, const ls_pool2d_opts *opts, size_t opts_size);
#define ls_avg_pool2d_new(run, ...) LS_CALL_2(ls_avg_pool2d_new, ls_pool2d_opts, run, __VA_ARGS__, )
LS_API ls_module *ls_avg_pool2d_new_sized(ls_run *run, int64_t kernel, const ls_pool2d_opts *opts, size_t opts_size);

/* ---- Attention, batch first ---- */

/* Inputs: x [B,S,E]; x and mask; x and integer lengths [B]; query, key, value; or those and mask. mask and lengths are
 * as in ls_attention. in_proj_weight [3E,E], in_proj_bias [3E], out_proj.weight [E,E], out_proj.bias [E] */
typedef struct ls_multihead_attention_opts {
    double dropout LS_DEFAULT(0);
    bool bias LS_DEFAULT(true), causal LS_DEFAULT(false);
    ls_options_end _ LS_DEFAULT({});
} ls_multihead_attention_opts;
#define ls_multihead_attention_opts_defaults .bias = true
#define ls_multihead_attention_new(run, features, ...)                                                                 \
    LS_CALL_3(ls_multihead_attention_new, ls_multihead_attention_opts, run, features, __VA_ARGS__, )
LS_API ls_module *ls_multihead_attention_new_sized(ls_run *run, int64_t features, int64_t heads,
                                                   const ls_multihead_attention_opts *opts, size_t opts_size);

/* One layer of a transformer encoder, x [B,S,E], x and mask, or x and lengths: self_attn, linear1, linear2, norm1,
 * norm2. */
typedef struct ls_transformer_layer_opts {
    int64_t feedforward LS_DEFAULT(2048);
    double dropout LS_DEFAULT(0.1), epsilon LS_DEFAULT(1e-5);
    ls_activation activation LS_DEFAULT(LS_ACT_RELU);
    bool norm_first LS_DEFAULT(false), causal LS_DEFAULT(false);
    ls_options_end _ LS_DEFAULT({});
} ls_transformer_layer_opts;
#define ls_transformer_layer_opts_defaults                                                                             \
    .feedforward = 2048, .dropout = 0.1, .epsilon = 1e-5, .activation = LS_ACT_RELU
#define ls_transformer_layer_new(run, features, ...)                                                                   \
    LS_CALL_3(ls_transformer_layer_new, ls_transformer_layer_opts, run, features, __VA_ARGS__, )
LS_API ls_module *ls_transformer_layer_new_sized(ls_run *run, int64_t features, int64_t heads,
                                                 const ls_transformer_layer_opts *opts, size_t opts_size);

/* ---- Averages of parameters ----
 *
 *     ls_ema *ema = ls_ema_new(model, .decay = 0.999);
 *     ls_register_for_checkpointing(run, "ema", .tensors = ls_ema_state(ema));
 *     ...
 *     if (ls_step(adam)) ls_ema_update(ema);
 *     ...
 *     ls_ema_apply(ema) { accuracy = evaluate(model); }     the model has the averages inside the block
 *
 * It belongs to the run and is freed with it. */
typedef struct ls_ema ls_ema;
typedef struct ls_ema_opts {
    double decay LS_DEFAULT(0.999); /* an update keeps this part of the average */
    ls_options_end _ LS_DEFAULT({});
} ls_ema_opts;
#define ls_ema_opts_defaults .decay = 0.999
/* Averages of all floating parameters, which begin as the parameters are now. */
#define ls_ema_new(...) LS_CALL_1(ls_ema_new, ls_ema_opts, __VA_ARGS__, )
LS_API ls_ema *ls_ema_new_sized(ls_module *module, const ls_ema_opts *opts, size_t opts_size);
/* average = decay * average + (1 - decay) * parameter */
LS_API void ls_ema_update(ls_ema *ema);
/* The averages, by the names of the parameters; owned by the EMA. */
LS_API ls_state *ls_ema_state(ls_ema *ema);
/* Exchange parameters and averages, and exchange them again. Leave the block with `continue`, not with `break` or
 * `return`. */
#define ls_ema_apply(ema) LS_MARKED_(ls_ema_apply_begin(ema), ls_ema_apply_end(ema), __LINE__)
LS_API bool ls_ema_apply_begin(ls_ema *ema); /* true */
LS_API bool ls_ema_apply_end(ls_ema *ema);   /* false */
LS_API void ls_ema_free(ls_ema *ema);        /* inside the block, the model keeps the averages */

/* ---- Containers ---- */

/* One after the other; children are named "0", "1", ... */
#define ls_sequential_new(run, ...) ls_sequential_new_n((run), LS_ITEMS(ls_module *, __VA_ARGS__))
LS_API ls_module *ls_sequential_new_n(ls_run *run, ls_module *const *modules, int64_t count);
/* Children "0", "1", ... for a parent's forward function to use; a list has no forward function. count may be 0. */
#define ls_module_list_new(run, ...) ls_module_list_new_n((run), LS_ITEMS(ls_module *, __VA_ARGS__))
LS_API ls_module *ls_module_list_new_n(ls_run *run, ls_module *const *modules, int64_t count);
/* Append to either of them. Returns the child. */
LS_API ls_module *ls_module_append(ls_module *list, ls_module *child);

/* ---- Initialisers: fill a tensor in place ---- */

/* Fans are those of a weight [out,in,...]: in and out times the size of the rest. */
typedef enum ls_fan { LS_FAN_IN, LS_FAN_OUT } ls_fan;
#define LS_GAIN_RELU 1.4142135623730951

LS_API void ls_init_constant(ls_tensor *t, double value);
LS_API void ls_init_uniform(ls_tensor *t, double low, double high);
LS_API void ls_init_normal(ls_tensor *t, double mean, double std);
LS_API void ls_init_trunc_normal(ls_tensor *t, double mean, double std, double low, double high);
LS_API void ls_init_kaiming_uniform(ls_tensor *t, double gain, ls_fan fan); /* PyTorch's a: gain sqrt(2 / (1 + a^2)) */
LS_API void ls_init_kaiming_normal(ls_tensor *t, double gain, ls_fan fan);
LS_API void ls_init_xavier_uniform(ls_tensor *t, double gain);
LS_API void ls_init_xavier_normal(ls_tensor *t, double gain);

#ifdef __cplusplus
}
#endif
#endif
