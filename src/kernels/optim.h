/* optim.h - one optimiser step over contiguous arrays, in one pass; and the kernels of loss scaling and clipping. */
#ifndef LOCKSTEP_KERNELS_OPTIM_H
#define LOCKSTEP_KERNELS_OPTIM_H

#include <lockstep/plugin.h>

/* Coefficients of a step, computed once per call from ls_attrs. Operations are in the order of PyTorch. */
typedef struct ls_adam {
    double gradient_sign;    /* -1 to maximise */
    double l2_decay;         /* gradient += l2_decay * p */
    double keep;             /* p *= keep: decoupled weight decay */
    double blend1;           /* m += blend1 * (gradient - m), blend1 = 1 - beta1 */
    double beta2, blend2;    /* v = beta2 * v + blend2 * gradient^2 */
    double unbias2, epsilon; /* denominator = sqrt(v) * unbias2 + epsilon, unbias2 = 1 / sqrt(bias2) */
    double step;             /* p -= step * m / denominator */
} ls_adam;

typedef struct ls_sgd {
    double gradient_sign, l2_decay;
    double momentum, blend; /* buffer = momentum * buffer + blend * gradient */
    double lookahead;       /* Nesterov: gradient + lookahead * buffer is applied */
    double step;
    bool first; /* the buffer is not set yet: it becomes the gradient */
    bool nesterov;
} ls_sgd;

typedef struct ls_rmsprop {
    double gradient_sign, l2_decay;
    double alpha, blend; /* v = alpha * v + blend * gradient^2 */
    double epsilon;      /* direction = gradient / (sqrt(v) + epsilon); centered: v - mean^2 instead of v, where
                          * mean += blend * (gradient - mean) */
    double momentum;     /* buffer = momentum * buffer + direction, applied instead */
    double step;
} ls_rmsprop;

typedef struct ls_adagrad {
    double gradient_sign, l2_decay;
    double epsilon; /* sum += gradient^2; p -= step * gradient / (sqrt(sum) + epsilon) */
    double step;
} ls_adagrad;

ls_adam ls_adam_of(const ls_attrs *attrs);
ls_sgd ls_sgd_of(const ls_attrs *attrs);
ls_rmsprop ls_rmsprop_of(const ls_attrs *attrs);
ls_adagrad ls_adagrad_of(const ls_attrs *attrs);

/* All arrays of one type, F32 or F64. p, m, v, sum, mean and the momentum buffer (both may be NULL) are updated. */
typedef void ls_adam_fn(int64_t n, void *p, void *m, void *v, const void *g, const ls_adam *how);
typedef void ls_sgd_fn(int64_t n, void *p, void *buffer, const void *g, const ls_sgd *how);
typedef void ls_rmsprop_fn(int64_t n, void *p, void *v, void *mean, void *buffer, const void *g, const ls_rmsprop *how);
typedef void ls_adagrad_fn(int64_t n, void *p, void *sum, const void *g, const ls_adagrad *how);
/* Sum of squares, accumulated in f64. */
typedef double ls_squares_fn(int64_t n, const void *x);
/* g *= factor; true if all were finite before. */
typedef bool ls_unscale_fn(int64_t n, void *g, double factor);

typedef struct ls_optim_kernels {
    ls_adam_fn *adam[LS_DTYPE_COUNT];       /* F32, F64 */
    ls_sgd_fn *sgd[LS_DTYPE_COUNT];         /* F32, F64 */
    ls_rmsprop_fn *rmsprop[LS_DTYPE_COUNT]; /* F32, F64 */
    ls_adagrad_fn *adagrad[LS_DTYPE_COUNT]; /* F32, F64 */
    ls_squares_fn *squares[LS_DTYPE_COUNT]; /* floating types */
    ls_unscale_fn *unscale[LS_DTYPE_COUNT]; /* floating types */
} ls_optim_kernels;

const ls_optim_kernels *ls_optim_kernels_in_use(void);

/* Tables per ISA. */
extern const ls_optim_kernels ls_optim_ref, ls_optim_neon, ls_optim_neon_bf16, ls_optim_avx2, ls_optim_avx512,
    ls_optim_avx512_bf16;

#endif
