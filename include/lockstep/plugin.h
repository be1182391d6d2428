/* plugin.h - what a device is: the contract between the library and the machines it trains on.
 *
 * A plug-in is a shared object that exports `ls_plugin_v1`, a function that returns a table. It includes this header
 * and nothing else of the library. The built-in CPU device stands behind the same table.
 *
 * A device is entered at operator level: an opcode, descriptions of the operands, attributes, a stream. It may run the
 * operator now (CPU), enqueue it (CUDA) or record it to compile later (XLA); nothing above can tell. Work in one stream
 * happens in the order it was submitted. Results are visible to the host only after an event or a stream has been
 * waited for. Addresses of device memory are opaque to the library: it never reads or writes through them, but it does
 * add byte offsets to them, so memory of one allocation must be contiguous. */
#ifndef LOCKSTEP_PLUGIN_H
#define LOCKSTEP_PLUGIN_H

#include <lockstep/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LS_PLUGIN_ABI 1u
#define LS_MAX_INPUTS 8
#define LS_MAX_OUTPUTS 4

/* ---- Operators ------------------------------------------------------------------------------------------------ */

typedef enum ls_opcode {
#define LS_OP(name, kind, policy, gradient, summary) LS_OP_##name,
#include <lockstep/ops.def>
#undef LS_OP
    LS_OP_COUNT
} ls_opcode;

/* Where a device may keep its own form (packed, converted) of a long-lived operand such as a weight. `version` grows
 * with every write to the operand, so a form is good while the version it was made from still stands. */
typedef struct ls_derived {
    uint64_t version;
    void *form;                  /* the device's own; NULL at first */
    void (*release)(void *form); /* set together with form; called when the operand's memory is given back */
} ls_derived;

/* One operand: a strided view of device memory. Strides count elements and may be 0 (broadcast) or negative never. */
typedef struct ls_operand {
    void *data; /* device address of element [0, ..., 0] */
    ls_dtype dtype;
    int32_t ndim;
    int64_t dim[LS_MAX_DIMS];
    int64_t stride[LS_MAX_DIMS];
    ls_derived *derived; /* NULL for temporaries */
} ls_operand;

typedef enum ls_activation {
    LS_ACT_NONE,
    LS_ACT_RELU,
    LS_ACT_GELU, /* with erf */
    LS_ACT_GELU_TANH,
    LS_ACT_SILU,
    LS_ACT_TANH,
    LS_ACT_SIGMOID,
} ls_activation;

typedef enum ls_reduction { LS_REDUCE_MEAN, LS_REDUCE_SUM, LS_REDUCE_NONE } ls_reduction;

/* Geometry of a 2-D window; index 0 is the height, 1 the width. */
typedef struct ls_window {
    int64_t kernel[2], stride[2], padding[2], dilation[2];
    int64_t groups;
} ls_window;

/* What an operator needs besides tensors. Which member is valid follows from the opcode, named above each. */
/* clang-format off */
typedef union ls_attrs {
    /* affine; fill: shift; arange: start in shift, step in scale */
    struct { double scale, shift; } affine;
    /* clamp, clamp_grad */
    struct { double low, high; } range;
    /* pow_scalar, softplus (beta), elu (alpha), leaky_relu (slope), and their gradients; unscale (factor) */
    struct { double value; } scalar;
    /* gelu, gelu_grad */
    struct { int64_t tanh; } gelu;
    /* uniform (low, high), normal (mean, deviation), bernoulli (p), dropout (p), randperm */
    struct { uint64_t seed, offset; double a, b; } random;
    /* sum .. norm: bit d set = dimension d of in[0] is reduced; outputs keep it as size 1. var: correction */
    struct { uint32_t mask; int32_t correction; } reduce;
    /* argmax, argmin, cumsum, softmax .., gather, scatter_add, index_select, index_add; sort: flag = descending;
     * topk: flag = largest */
    struct { int32_t dim; int32_t flag; int64_t k; } axis;
    /* matmul, linear: compute in this type; accumulate: out += */
    struct { int32_t accumulate; ls_activation activation; ls_dtype compute; } product;
    /* conv2d and its gradients */
    struct { ls_window window; int32_t accumulate; ls_dtype compute; } conv;
    /* max_pool2d, avg_pool2d and gradients */
    struct { ls_window window; int32_t count_include_pad; } pool;
    /* interpolate and its gradient; scale: source step, height and width */
    struct { int32_t bilinear, align_corners; double scale[2]; } interpolate;
    /* attention, attention_grad */
    struct { double scale, dropout; uint64_t seed, offset; int32_t causal; } attention;
    /* batch_norm, layer_norm, group_norm and gradients */
    struct { double epsilon, momentum; int64_t groups; int32_t training; ls_activation activation; } norm;
    /* normalize: by channel */
    struct { double mean[4], deviation[4]; } normalize;
    /* cross_entropy .. bce_with_logits and gradients */
    struct { ls_reduction reduction; double smoothing, beta; int64_t ignore_index; int32_t has_ignore; } loss;
    /* adam_step; bias: 1 - beta^t */
    struct { double lr, beta1, beta2, epsilon, weight_decay, bias1, bias2; int32_t decoupled, maximize; } adam;
    /* sgd_step */
    struct { double lr, momentum, dampening, weight_decay; int32_t nesterov, first, maximize; } sgd;
} ls_attrs;
/* clang-format on */

/* One operator to run. Operand order of each opcode is written above its CPU kernel (src/device/cpu/). A pointer may be
 * NULL where an operand is optional. The call and its operands are valid only until `run` returns: a device that
 * enqueues copies what it needs. */
typedef struct ls_call {
    ls_opcode op;
    int32_t n_in, n_out;
    const ls_operand *in[LS_MAX_INPUTS];
    const ls_operand *out[LS_MAX_OUTPUTS];
    ls_attrs attrs;
} ls_call;

/* Where a failing call says why, in words for the user: "index 7 at [3] is out of range for 5 rows". */
typedef struct ls_message {
    char text[256];
} ls_message;

/* ---- What the library offers a plug-in ------------------------------------------------------------------------ */

typedef struct ls_host {
    uint32_t abi, size;
    const char *(*op_name)(ls_opcode op);
    /* Run an operator here and now on the host's CPU, on operands in host memory. For operators a device lacks. */
    ls_status (*run_on_cpu)(const ls_call *call, ls_message *why);
    void (*log)(const char *text);
} ls_host;

/* ---- What a plug-in offers the library ------------------------------------------------------------------------ */

typedef struct ls_stream ls_stream; /* the device's own; opaque here */
typedef struct ls_event ls_event;

typedef enum ls_copy_kind { LS_COPY_TO_DEVICE, LS_COPY_TO_HOST, LS_COPY_ON_DEVICE } ls_copy_kind;

typedef struct ls_device_table {
    uint32_t abi, size; /* LS_PLUGIN_ABI, sizeof(ls_device_table) */
    const char *name;   /* "cpu", "cuda", ... */

    /* How many such devices are usable here; 0 when the hardware or its driver is missing. */
    int (*count)(void);
    ls_status (*open)(const ls_host *host, int index, void **device, ls_message *why);
    void (*close)(void *device);

    /* Memory, aligned to 64 bytes at least; release happens after all work submitted before it. Slow: the library
     * caches what it got. host_* is memory that copies to and from the device run fast from (pinned); optional, plain
     * memory is used where NULL. */
    ls_status (*alloc)(void *device, size_t bytes, void **address);
    void (*release)(void *device, void *address, size_t bytes);
    ls_status (*host_alloc)(void *device, size_t bytes, void **memory); /* (optional) */
    void (*host_release)(void *device, void *memory, size_t bytes);     /* (optional) */

    /* Streams and events. A device without asynchrony leaves them all NULL: every call is complete when it returns. */
    ls_status (*stream_create)(void *device, ls_stream **stream);
    void (*stream_destroy)(void *device, ls_stream *stream);
    ls_status (*stream_sync)(void *device, ls_stream *stream, ls_message *why); /* also reports what failed before */
    ls_status (*event_create)(void *device, ls_event **event);
    void (*event_destroy)(void *device, ls_event *event);
    ls_status (*event_record)(void *device, ls_event *event, ls_stream *stream);
    ls_status (*event_wait)(void *device, ls_event *event, ls_stream *stream); /* the stream waits, not the host */
    bool (*event_done)(void *device, ls_event *event);
    ls_status (*event_sync)(void *device, ls_event *event, ls_message *why);

    /* Bytes between host and device, in stream order. Host memory must stay valid until the copy is complete. */
    ls_status (*copy)(void *device, ls_stream *stream, void *to, const void *from, size_t bytes, ls_copy_kind kind,
                      ls_message *why);

    /* Operators, in stream order. LS_ERR_UNSUPPORTED when this device lacks it. */
    ls_status (*run)(void *device, ls_stream *stream, const ls_call *call, ls_message *why);
} ls_device_table;

/* The symbol a plug-in exports: const ls_device_table *ls_plugin_v1(const ls_host *host); */
typedef const ls_device_table *ls_plugin_entry(const ls_host *host);

#ifdef __cplusplus
}
#endif
#endif
