/* dnn.h - convolutions by cuDNN: plans made once for each geometry and kept.
 *
 * dnn_plan.c describes a convolution to cuDNN and asks it for engines; dnn.c keeps the plans and runs them; dnn_sums.c
 * lets a convolution add up its result for the batch norm behind it. */
#ifndef LOCKSTEP_CUDA_DNN_H
#define LOCKSTEP_CUDA_DNN_H

#include "choices.h"
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
    int64_t alignment; /* of the addresses of x, w and y: 16, or less */
    int64_t sums;      /* 1: forward, y and its squares are also added up by channel, in f32 */
} dnn_conv;

/* Operands of a plan; the last two where it has sums. */
enum { DNN_X, DNN_W, DNN_Y, DNN_SUM, DNN_SQUARES, DNN_OPERANDS };

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
/* The addresses that a plan is executed with. NULL on failure. */
cudnnBackendDescriptor_t dnn_pack(const dnn_conv *conv, void *const address[DNN_OPERANDS], void *workspace);

/* ---- dnn.c ---- */

enum { DNN_SLOTS = 1024, DNN_MOST_PLANS = 768, DNN_PACKS = 12, DNN_MOST_SUMS = 8192 /* channels */ };

/* Addresses as cuDNN takes them. Making such a pack costs as much as an execution, and training comes back to the same
 * addresses step after step. */
typedef struct dnn_kept_pack {
    void *address[DNN_OPERANDS + 1]; /* with the workspace */
    cudnnBackendDescriptor_t descriptor;
} dnn_kept_pack;

typedef struct dnn_plan {
    dnn_conv conv;
    dnn_graph graph;
    int chosen; /* of the graph's plans; -1: there is none */
    dnn_kept_pack packs[DNN_PACKS];
    int next_pack; /* to be replaced */
    /* ---- dnn_sums.c ---- */
    bool is_normed; /* the last result of this plan went through a batch norm */
    int pays;       /* of a plan with sums: is it worth it? -1: not known */
} dnn_plan;

struct cuda_dnn {
    cudnnHandle_t handle;
    cudaStream_t stream;   /* of the handle */
    cuda_choices *choices; /* among cuDNN's guesses */
    int count;
    dnn_plan *slot[DNN_SLOTS]; /* by hash, the next free one after a collision */
    float *sums;               /* [2, DNN_MOST_SUMS], of the last convolution that has them; NULL until needed */
    struct {
        dnn_plan *plan; /* the one without sums; NULL: there was no convolution */
        const void *y;
        uint64_t call;
        bool has_sums;
    } last; /* forward convolution */
};

/* The plan for a convolution, made on first use; *plan NULL: cuDNN cannot do it. address: those of the call, which may
 * be used to compare engines: what is computed gets written. */
ls_status dnn_find(cuda_device *d, cudaStream_t stream, const dnn_conv *conv, void *const address[DNN_OPERANDS],
                   dnn_plan **plan, ls_message *why);
ls_status dnn_run(cuda_device *d, cudaStream_t stream, dnn_plan *plan, void *const address[DNN_OPERANDS],
                  ls_message *why);
/* Milliseconds of the plan's run, of the proposal `which`; negative: it failed. */
float dnn_time(cuda_device *d, cudaStream_t stream, dnn_plan *plan, int which, void *const address[DNN_OPERANDS]);
/* A choice about a convolution, kept for the next program; CUDA_CHOICE_UNKNOWN. */
typedef enum dnn_question { DNN_WHICH_ENGINE, DNN_DO_SUMS_PAY } dnn_question;
int dnn_choice(const cuda_device *d, dnn_question question, const dnn_conv *conv);
void dnn_keep_choice(cuda_device *d, dnn_question question, const dnn_conv *conv, int chosen);

/* ---- dnn_sums.c ---- */

/* Run a forward convolution whose result is written without gaps and final; with sums if that is worthwhile. */
ls_status dnn_run_for_norm(cuda_device *d, cudaStream_t stream, dnn_plan *plan, void *const address[DNN_OPERANDS],
                           ls_message *why);
/* A forward convolution begins: the sums of the one before it are not those of its result. */
void dnn_forget_sums(cuda_device *d);

#ifdef __cplusplus
}
#endif
#endif
