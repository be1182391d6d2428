/* cuda.h - internals of the CUDA device, shared by its files.
 *
 * The path of a call: plugin.c (the table of plugin.h) -> ops.c (opcode to function) -> one function per row of
 * ops.def, which chooses kernels by type and layout and enqueues them in a stream. Files with kernels end in .cu, files
 * that only call libraries in .c. Operand orders are documented above the CPU functions (src/device/cpu). */
#ifndef LOCKSTEP_DEVICE_CUDA_H
#define LOCKSTEP_DEVICE_CUDA_H

#include <cuda_runtime_api.h>
#include <lockstep/plugin.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cuda_blas cuda_blas;           /* cuBLASLt: handle and chosen algorithms (blas.c) */
typedef struct cuda_dnn cuda_dnn;             /* cuDNN: handle and plans (dnn.c) */
typedef struct cuda_fault cuda_fault;         /* data that kernels could not use (fault.h) */
typedef struct cuda_recent cuda_recent;       /* the operators submitted last (recent.c) */
typedef struct cuda_profile cuda_profile;     /* how long operators take (profile.h) */
typedef struct cuda_left_sums cuda_left_sums; /* for gradients of biases (row_sums.h) */

typedef struct cuda_device {
    const ls_host *host;
    ls_owner *owner;
    int index;            /* CUDA's ordinal */
    int processors;       /* streaming multiprocessors */
    int architecture;     /* 90 is compute capability 9.0 */
    bool deterministic;   /* no result may depend on the order in which blocks run */
    bool tf32;            /* f32 products may round their inputs to 10 bits */
    bool blocking;        /* wait after every operator: LOCKSTEP_CUDA_BLOCKING */
    bool report_waits;    /* log every wait of the host: LOCKSTEP_CUDA_WAITS */
    cudaStream_t compute; /* the first stream, where operators run; NULL before it is made */
    cuda_fault *fault;
    cuda_recent *recent;
    cuda_profile *profile;      /* NULL unless LOCKSTEP_CUDA_PROFILE is set */
    cuda_blas *blas;            /* made by the first product */
    cuda_dnn *dnn;              /* made by the first convolution */
    cuda_left_sums *left_sums;  /* made by the first operator that leaves some */
    bool host_ran[LS_OP_COUNT]; /* operators that ran on the host, for want of a kernel */
    uint64_t host_calls;        /* how often that was */
    uint64_t calls;             /* operators, copies and collectives so far: cuda_count_call() */
} cuda_device;

/* Enqueue one operator, or report why not. Scratch memory comes from cuda_take(). */
typedef ls_status cuda_op(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why);

/* A row without a function of its own runs on the host. */
#define LS_CUDA_KERNEL(name) cuda_op cuda_##name __attribute__((weak));
#define LS_CUDA_GRAD(name) LS_CUDA_KERNEL(name)
#define LS_CUDA_UPDATE(name) LS_CUDA_KERNEL(name)
#define LS_CUDA_VIEW(name)
#define LS_CUDA_BUILT(name)
#define LS_CUDA_COLLECTIVE(name)
#define LS_OP(name, kind, policy, gradient, attributes, summary) LS_CUDA_##kind(name)
#include <lockstep/ops.def>
#undef LS_OP
#undef LS_CUDA_KERNEL
#undef LS_CUDA_GRAD
#undef LS_CUDA_UPDATE
#undef LS_CUDA_VIEW
#undef LS_CUDA_BUILT
#undef LS_CUDA_COLLECTIVE

/* Everything that may change what an operator wrote is counted; two threads may submit. */
static inline void cuda_count_call(cuda_device *d)
{
    __atomic_fetch_add(&d->calls, 1, __ATOMIC_RELAXED);
}
static inline uint64_t cuda_calls(const cuda_device *d)
{
    return __atomic_load_n(&d->calls, __ATOMIC_RELAXED);
}

ls_status cuda_run(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why);
/* Does the operator have a function? */
bool cuda_has(ls_opcode op);
/* Run a call on the host's CPU: operands are copied there and back, and the host waits. For rare operators. */
cuda_op cuda_on_host;

/* ---- failures (error.c) ---- */

/* Fill in the reason of a CUDA error and return the status it means; LS_OK for cudaSuccess. `why` may be NULL. */
ls_status cuda_check(cudaError_t error, const char *what, ls_message *why);
ls_status cuda_refuse(ls_message *why, ls_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The status of all launches since the last check. Does not wait. */
#define CUDA_LAUNCHED(why) cuda_check(cudaGetLastError(), "kernel launch", (why))
/* Return the status from the calling function unless it is LS_OK. */
#define CUDA_TRY(expression)                                                                                           \
    do {                                                                                                               \
        ls_status try_status = (expression);                                                                           \
        if (try_status != LS_OK) return try_status;                                                                    \
    } while (0)

/* ---- the thread, and waiting for the device (stream.c) ---- */

/* Make this device the calling thread's: every entry of the table begins so, since any thread may call. */
ls_status cuda_enter(const cuda_device *d, ls_message *why);

/* Wait for everything submitted to the stream; reports what failed since, with the operator it belongs to where that
 * is known. `reason` is what LOCKSTEP_CUDA_WAITS shows. */
ls_status cuda_wait(cuda_device *d, cudaStream_t stream, const char *reason, ls_message *why);

/* ---- scratch memory of one call, for the compute stream ---- */

static inline ls_status cuda_take(cuda_device *d, size_t bytes, ls_workspace *space, ls_message *why)
{
    ls_status status = d->host->take(d->owner, bytes ? bytes : 1, space);
    return status ? cuda_refuse(why, status, "no scratch memory of %zu bytes on the device", bytes) : LS_OK;
}

static inline void cuda_give(cuda_device *d, ls_workspace space)
{
    if (space.block) d->host->give(d->owner, space);
}

/* ---- operands ---- */

static inline int64_t cuda_numel(const ls_operand *x)
{
    int64_t n = 1;
    for (int i = 0; i < x->ndim; i++) n *= x->dim[i];
    return n;
}

/* Row-major without gaps; dimensions of size 1 may have any stride. */
static inline bool cuda_contiguous(const ls_operand *x)
{
    int64_t expected = 1;
    for (int i = x->ndim - 1; i >= 0; i--) {
        if (x->dim[i] != 1 && x->stride[i] != expected) return false;
        expected *= x->dim[i];
    }
    return true;
}

/* A row-major operand over some memory. */
static inline ls_operand cuda_dense(void *data, ls_dtype dtype, int ndim, const int64_t *dim)
{
    ls_operand x;
    memset(&x, 0, sizeof x);
    x.data = data, x.dtype = dtype, x.ndim = ndim;
    int64_t stride = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        x.dim[i] = dim[i], x.stride[i] = stride;
        stride *= dim[i];
    }
    return x;
}

/* Copy with conversion of type and layout: the row `copy`. */
ls_status cuda_convert(cuda_device *d, cudaStream_t stream, const ls_operand *from, const ls_operand *to,
                       ls_message *why);

/* ---- libraries ---- */

void cuda_blas_free(cuda_blas *blas) __attribute__((weak));
void cuda_dnn_free(cuda_dnn *dnn) __attribute__((weak));
/* Sums of x and of its squares by channel, f32 on the device, if the convolution that wrote x in this call or the one
 * before it left them there. To be asked by a batch norm that needs them, so that they are there the next time. */
bool cuda_conv_sums(cuda_device *d, const ls_operand *x, const float *sums[2]) __attribute__((weak));

#ifdef __cplusplus
}
#endif
#endif
