/* plugin.h - devices: the contract between the library and the hardware it trains on.
 *
 * A plug-in is a shared object that exports `ls_plugin_v2`, a function that returns a table. It includes this header
 * and nothing else of the library. The built-in CPU device uses the same table.
 *
 * A device is entered at operator level: an opcode, descriptions of the operands, attributes, a stream. It may run the
 * operator now (CPU), enqueue it (CUDA) or record it to compile later (XLA); callers cannot tell. Work in one stream
 * happens in the order it was submitted. Results are visible to the host only after waiting for an event or a stream.
 * Addresses of device memory are opaque to the library: it never reads or writes through them, but it does
 * add byte offsets to them, so memory of one allocation must be contiguous.
 *
 * If several processes train together, a second thread copies gradients to and from the host, converts them (`run` of
 * `copy`) and waits for the stream, while the first keeps submitting work: these entries must be safe to call so.
 *
 * A device that records needs three more things: what a call reads and writes (ls_effects), when memory is freed
 * (LS_TRAIT_STORAGES), and which numbers change from step to step (ls_call.live). */
#ifndef LOCKSTEP_PLUGIN_H
#define LOCKSTEP_PLUGIN_H

#include <lockstep/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LS_PLUGIN_ABI 2u
#define LS_MAX_INPUTS 9
#define LS_MAX_OUTPUTS 6

/* ---- Operators ------------------------------------------------------------------------------------------------ */

typedef enum ls_opcode {
#define LS_OP(name, kind, policy, gradient, attributes, summary) LS_OP_##name,
#include <lockstep/ops.def>
#undef LS_OP
    LS_OP_COUNT
} ls_opcode;

/* The list of operators this header was compiled with. A plug-in with another list would run wrong operators, since
 * opcodes are positions in it: the library compares the lists and names the first difference. */
#define LS_OP(name, kind, policy, gradient, attributes, summary) #name " "
static const char ls_operators[] =
#include <lockstep/ops.def>
    ;
#undef LS_OP

/* Where a device may keep its own form (packed, converted) of a long-lived operand such as a weight. `version` grows
 * with every write to the operand, so a form is valid while the version it was made from is current. */
typedef struct ls_derived {
    uint64_t version;
    void *form;                  /* owned by the device; NULL at first */
    void (*release)(void *form); /* set together with form; called when the operand's memory is freed */
    /* Owned by the library, if the device asked for it (LS_TRAIT_HALF_COPY): the operand in half precision, with the
     * same strides, valid while half_version equals version. NULL: there is none. */
    void *half;
    ls_dtype half_dtype;
    uint64_t half_version;
    struct ls_derived *next; /* owned by the library: that of another operand with the same memory */
} ls_derived;

/* One operand: a strided view of device memory. Strides count elements; 0 means broadcast; never negative. */
typedef struct ls_operand {
    void *data; /* device address of element [0, ..., 0] */
    ls_dtype dtype;
    int32_t ndim;
    int64_t dim[LS_MAX_DIMS];
    int64_t stride[LS_MAX_DIMS];
    ls_derived *derived; /* NULL for temporaries */
} ls_operand;

/* Geometry of a 2-D window; index 0 is the height, 1 the width. */
typedef struct ls_window {
    int64_t kernel[2], stride[2], padding[2], dilation[2];
    int64_t groups;
} ls_window;

/* Attention in f32: finite values of a mask count as no more than this. A key with -1e9 is as good as hidden beside
 * others, but where a query has only such keys, sums with numbers that large would lose its scores, and overflow. */
#define LS_ATTENTION_MOST_BIAS 16384

/* What an operator needs besides tensors. The opcodes that use a member are named above it. `accumulate` is a mask: bit
 * k set = the result is added to the contents of out[k], in the type computed in, and rounded once. */
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
    /* uniform (low, high), normal (mean, std), bernoulli (p), dropout (p), randperm */
    struct { uint64_t seed, offset; double a, b; } random;
    /* sum .. norm: bit d set = dimension d of in[0] is reduced; outputs keep it as size 1. var: correction. sum of
     * floating numbers: accumulate */
    struct { uint32_t mask; int32_t correction; int32_t accumulate; } reduce;
    /* argmax, argmin, cumsum, softmax .., gather, scatter_add, scatter, index_select; index_add: flag = slices with
     * index k are left out; sort: flag = descending; topk: flag = largest */
    struct { int32_t dim; int32_t flag; int64_t k; } axis;
    /* matmul, linear, linear_grad: compute in this type */
    struct { int32_t accumulate; ls_activation activation; ls_dtype compute; } product;
    /* conv2d and its gradients; conv2d_norm: from epsilon on, as in norm */
    struct {
        ls_window window; int32_t accumulate; ls_dtype compute;
        double epsilon, momentum; int32_t training; ls_activation activation;
    } conv;
    /* max_pool2d, avg_pool2d and gradients */
    struct { ls_window window; int32_t count_include_pad; } pool;
    /* interpolate and its gradient; scale: source step, height and width */
    struct { int32_t bilinear, align_corners; double scale[2]; } interpolate;
    /* attention, attention_grad */
    struct { double scale, dropout; uint64_t seed, offset; int32_t causal; } attention;
    /* batch_norm .. group_norm (dropout_add_layer_norm: dropout = p); gradients accumulate dweight, dbias,
     * those of layer norms also the gradient of the normalised input */
    struct {
        double epsilon, momentum; int64_t groups; int32_t training, accumulate; ls_activation activation;
        uint64_t seed, offset; double dropout;
    } norm;
    /* normalize: by channel */
    struct { double mean[4], std[4]; } normalize;
    /* cross_entropy .. bce_with_logits and gradients */
    struct { ls_reduction reduction; double smoothing, beta; int64_t ignore_index; int32_t has_ignore; } loss;
    /* adam_step; bias: 1 - beta^t */
    struct { double lr, beta1, beta2, epsilon, weight_decay, bias1, bias2; int32_t decoupled, maximize; } adam;
    /* sgd_step */
    struct { double lr, momentum, dampening, weight_decay; int32_t nesterov, first, maximize; } sgd;
    /* rmsprop_step, centered_rmsprop_step */
    struct { double lr, alpha, epsilon, weight_decay, momentum; int32_t maximize; } rmsprop;
    /* adagrad_step; lr: of this step, after its decay */
    struct { double lr, epsilon, weight_decay; int32_t maximize; } adagrad;
    /* all_reduce .. broadcast: which ls_reduction, from which rank, number of the communicator among the run's */
    struct { int32_t op, root, group; } collective;
} ls_attrs;
/* clang-format on */

/* One operator to run. The operand order of each opcode is written above its CPU kernel (src/device/cpu/). Pointers of
 * optional operands may be NULL. The call and its operands are valid only until `run` returns: a device that
 * enqueues copies what it needs. */
typedef struct ls_call {
    ls_opcode op;
    int32_t n_in, n_out;
    const ls_operand *in[LS_MAX_INPUTS];
    const ls_operand *out[LS_MAX_OUTPUTS];
    /* Numbers that change from step to step, in device memory, contiguous; NULL: attrs has them all. Only devices with
     * LS_TRAIT_LIVE_VALUES get them, so that the calls of one step equal those of the next. They replace members of
     * attrs, which are then 0:
     *   operators that draw   u64 [2]: seed, and the base of attrs' offset (uniform .. randperm, dropout, ...)
     *   adam_step             f64 [4]: lr, bias1, bias2, beta1
     *   sgd_step, rmsprop_step, centered_rmsprop_step   f64 [2]: lr, momentum
     *   adagrad_step          f64 [1]: lr
     *   unscale               f64 [1]: value
     *   fill                  f64 [1]: shift */
    const ls_operand *live;
    const char *site; /* the module that made the call, "bert/encoder.3", or NULL; valid while the device is open */
    ls_attrs attrs;   /* not set for opcodes without attributes */
} ls_call;

/* What a call does to its operands beyond reading inputs, which it never writes, and overwriting outputs. Bit i stands
 * for out[i]: an output that is read is updated in place. */
typedef struct ls_effects {
    uint32_t outputs_read;
} ls_effects;

/* ---- What the library offers a plug-in ------------------------------------------------------------------------ */

typedef struct ls_owner ls_owner; /* the library's side of an open device; opaque to the plug-in */
typedef struct ls_workspace {
    void *address;
    void *block; /* private to the library */
} ls_workspace;

typedef struct ls_host {
    uint32_t abi, size;
    const char *operators; /* ls_operators of the library */
    const char *(*op_name)(ls_opcode op);
    size_t (*dtype_size)(ls_dtype dtype); /* bytes of an element */
    ls_effects (*effects)(const ls_call *call);
    size_t (*attrs_size)(ls_opcode op); /* bytes of ls_call.attrs that this opcode sets; 0: none */
    /* Run an operator here and now on the host's CPU, on operands in host memory. For operators a device lacks. */
    ls_status (*run_on_cpu)(const ls_call *call, ls_message *why);
    void (*log)(const char *text);
    /* Put "module: operator: " in front of a reason: for failures reported later, by stream_sync and event_sync; those
     * reported by `run` get it from the library. `site` and `op` are those of the call. */
    void (*blame)(const char *site, ls_opcode op, ls_message *why);
    /* Scratch memory for the work of the compute stream, from the same cache as tensors, so that it is counted and
     * freed with theirs. Memory passed to `give` may be reused at once, by work submitted later. LS_ERR_MEMORY when
     * there is no more. Call them only inside `run`. */
    ls_status (*take)(ls_owner *owner, size_t bytes, ls_workspace *workspace);
    void (*give)(ls_owner *owner, ls_workspace workspace);
} ls_host;

/* ---- What a plug-in offers the library ------------------------------------------------------------------------ */

typedef struct ls_stream ls_stream; /* defined by the device; opaque here */
typedef struct ls_event ls_event;

typedef enum ls_copy_kind {
    LS_COPY_TO_DEVICE,
    LS_COPY_TO_HOST,
    LS_COPY_ON_DEVICE,
    LS_COPY_VALUES, /* to the device, at most LS_VALUES_BYTES, read during the call: the host memory may then change */
    LS_COPY_BATCH,  /* to the device, samples of a batch: only with LS_TRAIT_BATCHES, others get LS_COPY_TO_DEVICE */
} ls_copy_kind;
#define LS_VALUES_BYTES 256

/* How a device differs from others. */
enum {
    LS_TRAIT_HOST = 1u << 0,        /* addresses are host addresses, and every call is complete when it returns */
    LS_TRAIT_STORAGES = 1u << 1,    /* alloc and release are called once per tensor's memory: nothing is cached */
    LS_TRAIT_LIVE_VALUES = 1u << 2, /* numbers that change from step to step come as operands: ls_call.live */
    LS_TRAIT_SCATTERED = 1u << 3,   /* parameters keep their own memory: optimisers do not lay them out in blocks */
    LS_TRAIT_HALF_COPY = 1u << 4,   /* with mixed precision, optimiser steps write half copies: ls_derived.half */
    LS_TRAIT_KRSC = 1u << 5,        /* weights of convolutions have their input channels last in memory */
    LS_TRAIT_STEP_FACTOR = 1u << 6, /* optimiser steps take a factor of the gradient: clipping needs no pass */
    LS_TRAIT_BATCHES = 1u << 7, /* batches of a loader are told from other uploads, and may be divided: LS_COPY_BATCH */
    LS_TRAIT_MOMENTS = 1u << 8, /* conv2d also gives mean and variance of its result, and batch_norm takes them */
};

/* Positions in a training loop. Work submitted before a mark need not wait for work after it. */
typedef enum ls_mark_kind {
    LS_MARK_STEP_BEGINS, /* the loop is about to get a batch */
    LS_MARK_STEP_ENDED,  /* an optimiser has made its step */
} ls_mark_kind;

/* Processes of a job that open their devices together, so that these can reach each other without the host. All make
 * the same calls of all_gather in the same order, until they close the device: `all` gets the bytes of each rank. */
typedef struct ls_peers {
    int32_t rank, size;
    bool is_local;    /* all are on this host */
    const char *host; /* where the others reach that of rank 0; "": unknown */
    void *user;
    ls_status (*all_gather)(void *user, const void *mine, void *all, size_t bytes, ls_message *why);
} ls_peers;

/* How a device is opened. */
typedef struct ls_device_open_args {
    uint32_t size;
    int32_t index;         /* which of count() */
    ls_owner *owner;       /* for ls_host.take and give */
    const ls_peers *peers; /* to be copied: valid until open() returns; NULL: this process opens the device alone */
} ls_device_open_args;

typedef struct ls_device_table {
    uint32_t abi, size;    /* LS_PLUGIN_ABI, sizeof(ls_device_table): entries beyond a plug-in's size count as NULL */
    uint32_t call_size;    /* sizeof(ls_call) */
    uint32_t traits;       /* LS_TRAIT_... */
    const char *operators; /* ls_operators */
    const char *name;      /* "cpu", "cuda", ... */

    /* How many such devices are usable here; 0 when the hardware or its driver is missing. Must not start a driver that
     * a later fork would break. */
    int (*count)(void);
    ls_status (*open)(const ls_host *host, const ls_device_open_args *args, void **device, ls_message *why);
    void (*close)(void *device);

    /* Memory, aligned to at least 64 bytes; release takes effect after all work submitted before it. May be slow: the
     * library caches memory. host_* is host memory that makes copies fast (pinned); optional, the library uses plain
     * memory if NULL. */
    ls_status (*alloc)(void *device, size_t bytes, void **address);
    void (*release)(void *device, void *address, size_t bytes);
    ls_status (*host_alloc)(void *device, size_t bytes, void **memory); /* (optional) */
    void (*host_release)(void *device, void *memory, size_t bytes);     /* (optional) */

    /* Streams and events. A device without asynchrony leaves them all NULL: every call is complete when it returns. One
     * that postpones operators, but copies to and from the host at once, has stream_sync alone, and is given NULL for a
     * stream. */
    ls_status (*stream_create)(void *device, ls_stream **stream);
    void (*stream_destroy)(void *device, ls_stream *stream);
    ls_status (*stream_sync)(void *device, ls_stream *stream, ls_message *why); /* also reports what failed before */
    ls_status (*event_create)(void *device, ls_event **event);
    void (*event_destroy)(void *device, ls_event *event); /* also while submitted work has not reached it */
    ls_status (*event_record)(void *device, ls_event *event, ls_stream *stream);
    ls_status (*event_wait)(void *device, ls_event *event, ls_stream *stream); /* the stream waits, not the host */
    bool (*event_done)(void *device, ls_event *event);
    ls_status (*event_sync)(void *device, ls_event *event, ls_message *why);

    /* Bytes between host and device, in stream order. Host memory must stay valid until the copy is complete. */
    ls_status (*copy)(void *device, ls_stream *stream, void *to, const void *from, size_t bytes, ls_copy_kind kind,
                      ls_message *why);

    /* Operators, in stream order. LS_ERR_UNSUPPORTED when this device lacks it. */
    ls_status (*run)(void *device, ls_stream *stream, const ls_call *call, ls_message *why);

    /* ---- optional entries: NULL if a device does not need them ---- */

    /* Can it run this operator? NULL: all of them. Asked only about operators that others can replace: conv2d_norm,
     * embedding_layer_norm, linear_grad, dropout_add_layer_norm (it and its gradient, or neither), and normalize for
     * photos. Any other missing operator fails when it is called. */
    bool (*supports)(void *device, ls_opcode op);
    ls_status (*mark)(void *device, ls_stream *stream, ls_mark_kind mark, ls_message *why);
    const struct ls_group_table *group; /* collectives of its own: <lockstep/group.h> */
} ls_device_table;

/* The beginning of a plug-in's table. */
#define LS_DEVICE_TABLE                                                                                                \
    .abi = LS_PLUGIN_ABI, .size = sizeof(ls_device_table), .call_size = sizeof(ls_call), .operators = ls_operators

/* The symbol a plug-in exports: const ls_device_table *ls_plugin_v2(const ls_host *host); */
typedef const ls_device_table *ls_plugin_entry(const ls_host *host);

#ifdef __cplusplus
}
#endif
#endif
