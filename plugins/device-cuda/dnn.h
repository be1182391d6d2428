/* dnn.h - convolutions by cuDNN: plans made once for each geometry and kept.
 *
 * dnn_plan.c describes a convolution to cuDNN and asks it for engines; dnn.c keeps the plans and runs them. */
#ifndef LOCKSTEP_CUDA_DNN_H
#define LOCKSTEP_CUDA_DNN_H

#include "cuda.h"

#include <cudnn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Which of x, w and y is computed from the other two. */
typedef enum dnn_pass { DNN_FORWARD, DNN_DINPUT, DNN_DWEIGHT } dnn_pass;

/* All that a plan depends on, without gaps so that two compare as bytes: x [n,c,in], w [o,c/groups,kernel] and
 * y [n,o,out], each with its channels last in memory and of `dtype` (f16, bf16, f32); sums are in f32. */
typedef struct dnn_conv {
    int64_t n, c, o, in[2], out[2];
    ls_window window;
    int32_t pass, dtype;
    int64_t alignment; /* of all three addresses: 16, or less */
} dnn_conv;

/* ---- dnn_plan.c ---- */

enum { DNN_DESCRIPTORS = 96, DNN_CANDIDATES = 8 };

/* Descriptors of one convolution, which live as long as its plans, and plans for it, best guess first. */
typedef struct dnn_graph {
    cudnnBackendDescriptor_t made[DNN_DESCRIPTORS];
    int made_count;
    cudnnStatus_t status; /* of the first call that failed */
    cudnnBackendDescriptor_t plan[DNN_CANDIDATES];
    int64_t workspace[DNN_CANDIDATES];
    int number[DNN_CANDIDATES]; /* of the proposal, counted from the best guess; -1: of last resort */
    int plan_count;
} dnn_graph;

/* How engines may compute, and which are wanted. */
typedef struct dnn_rules {
    bool tf32, deterministic;
    int most; /* plans */
    int only; /* the proposal of this number; -1: any */
} dnn_rules;

/* None where cuDNN has no engine. Call dnn_graph_end() in any case. */
void dnn_graph_make(cudnnHandle_t handle, const dnn_conv *conv, dnn_rules rules, dnn_graph *graph);
void dnn_graph_end(dnn_graph *graph);
/* The addresses that a plan is executed with: x, w, y. NULL on failure. */
cudnnBackendDescriptor_t dnn_pack(void *const address[3], void *workspace);

/* ---- dnn.c ---- */

typedef struct dnn_plan dnn_plan;

/* The plan for a convolution, made on first use; *plan NULL: cuDNN cannot do it. address: x, w, y of the call, which
 * may be used to compare engines: the one that is computed gets written. */
ls_status dnn_find(cuda_device *d, cudaStream_t stream, const dnn_conv *conv, void *const address[3], dnn_plan **plan,
                   ls_message *why);
ls_status dnn_run(cuda_device *d, cudaStream_t stream, dnn_plan *plan, void *const address[3], ls_message *why);

#ifdef __cplusplus
}
#endif
#endif
