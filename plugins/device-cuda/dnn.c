/* dnn.c - cuDNN: the handle, and plans kept by what they depend on.
 *
 * cuDNN guesses which engine is fastest for a convolution. The first of its guesses are timed on the operands of the
 * first call, unless results must be the same in every run, and the fastest is kept for the next program. */
#include "dnn.h"
#include "choices.h"

#include <stdlib.h>
#include <string.h>

enum { GUESSES = 4, TIMED_RUNS = 3 };

static ls_status check(cudnnStatus_t status, const char *what, ls_message *why)
{
    if (status == CUDNN_STATUS_SUCCESS) return LS_OK;
    char last[256] = "";
    cudnnGetLastErrorString(last, sizeof last);
    ls_status meaning = status == CUDNN_STATUS_ALLOC_FAILED ? LS_ERR_MEMORY : LS_ERR_DEVICE;
    return cuda_refuse(why, meaning, "cuDNN: %s: %s %s", what, cudnnGetErrorString(status), last);
}

static void plan_free(dnn_plan *plan)
{
    for (int i = 0; i < DNN_PACKS; i++)
        if (plan->packs[i].descriptor) cudnnBackendDestroyDescriptor(plan->packs[i].descriptor);
    dnn_graph_end(&plan->graph);
    free(plan);
}

static void forget_plans(cuda_dnn *dnn)
{
    for (int i = 0; i < DNN_SLOTS; i++) {
        if (!dnn->slot[i]) continue;
        plan_free(dnn->slot[i]);
        dnn->slot[i] = NULL;
    }
    dnn->count = 0;
    dnn->last.plan = NULL;
}

void cuda_dnn_free(cuda_dnn *dnn)
{
    if (!dnn) return;
    forget_plans(dnn);
    if (dnn->sums) cudaFree(dnn->sums);
    cuda_choices_close(dnn->choices);
    if (dnn->handle) cudnnDestroy(dnn->handle);
    free(dnn);
}

/* The handle, set to a stream. */
static ls_status begin(cuda_device *d, cudaStream_t stream, ls_message *why)
{
    if (!d->dnn) {
        cuda_dnn *dnn = calloc(1, sizeof *dnn);
        if (!dnn) return cuda_refuse(why, LS_ERR_MEMORY, "no memory for the plans of convolutions");
        dnn->choices = cuda_open_choices(d, "cudnn", cudnnGetVersion());
        ls_status status = dnn->choices ? LS_OK : cuda_refuse(why, LS_ERR_MEMORY, "no memory for choices of engines");
        if (status == LS_OK) status = check(cudnnCreate(&dnn->handle), "start", why);
        if (status == LS_OK) status = check(cudnnSetStream(dnn->handle, stream), "stream", why);
        if (status != LS_OK) {
            cuda_dnn_free(dnn);
            return status;
        }
        dnn->stream = stream;
        d->dnn = dnn;
    }
    if (d->dnn->stream == stream) return LS_OK;
    d->dnn->stream = stream;
    return check(cudnnSetStream(d->dnn->handle, stream), "stream", why);
}

/* The pack for these addresses, kept from an earlier call or made now; NULL on failure. */
static cudnnBackendDescriptor_t pack_for(dnn_plan *plan, void *const address[DNN_OPERANDS], void *workspace)
{
    void *wanted[DNN_OPERANDS + 1] = {address[DNN_X], address[DNN_W], address[DNN_Y]};
    if (plan->conv.sums) wanted[DNN_SUM] = address[DNN_SUM], wanted[DNN_SQUARES] = address[DNN_SQUARES];
    wanted[DNN_OPERANDS] = workspace;
    for (int i = 0; i < DNN_PACKS; i++)
        if (memcmp(plan->packs[i].address, wanted, sizeof wanted) == 0) return plan->packs[i].descriptor;
    dnn_kept_pack *replaced = &plan->packs[plan->next_pack];
    plan->next_pack = (plan->next_pack + 1) % DNN_PACKS;
    if (replaced->descriptor) cudnnBackendDestroyDescriptor(replaced->descriptor);
    replaced->descriptor = dnn_pack(&plan->conv, address, workspace);
    if (replaced->descriptor) memcpy(replaced->address, wanted, sizeof wanted);
    else memset(replaced->address, 0, sizeof replaced->address);
    return replaced->descriptor;
}

static ls_status execute(cuda_device *d, dnn_plan *plan, int which, void *const address[DNN_OPERANDS], ls_message *why)
{
    ls_workspace space = {0};
    int64_t bytes = plan->graph.workspace[which];
    if (bytes) CUDA_TRY(cuda_take(d, (size_t)bytes, &space, why));
    cudnnBackendDescriptor_t made = pack_for(plan, address, space.address);
    cudnnStatus_t status = CUDNN_STATUS_ALLOC_FAILED;
    if (made) status = cudnnBackendExecute(d->dnn->handle, plan->graph.plan[which], made);
    cuda_give(d, space);
    return check(status, "convolution", why);
}

/* ---- choice of an engine ---- */

/* Of some runs, with events to measure by. */
static float time_of(cuda_device *d, cudaStream_t stream, dnn_plan *plan, int which, void *const address[DNN_OPERANDS],
                     cudaEvent_t begun, cudaEvent_t ended)
{
    ls_message unused;
    float elapsed = -1;
    bool ok = execute(d, plan, which, address, &unused) == LS_OK; /* loads the kernel */
    ok = ok && cudaEventRecord(begun, stream) == cudaSuccess;
    for (int i = 0; ok && i < TIMED_RUNS; i++) ok = execute(d, plan, which, address, &unused) == LS_OK;
    ok = ok && cudaEventRecord(ended, stream) == cudaSuccess && cudaEventSynchronize(ended) == cudaSuccess &&
         cudaEventElapsedTime(&elapsed, begun, ended) == cudaSuccess;
    return ok ? elapsed / TIMED_RUNS : -1;
}

float dnn_time(cuda_device *d, cudaStream_t stream, dnn_plan *plan, int which, void *const address[DNN_OPERANDS])
{
    cudaEvent_t begun = NULL, ended = NULL;
    float elapsed = -1;
    if (cudaEventCreate(&begun) == cudaSuccess && cudaEventCreate(&ended) == cudaSuccess)
        elapsed = time_of(d, stream, plan, which, address, begun, ended);
    if (begun) cudaEventDestroy(begun);
    if (ended) cudaEventDestroy(ended);
    (void)cudaGetLastError(); /* else the next operator is blamed for what went wrong */
    return elapsed;
}

static int fastest(cuda_device *d, cudaStream_t stream, dnn_plan *plan, void *const address[DNN_OPERANDS])
{
    int best = 0;
    float least = -1;
    for (int i = 0; i < plan->graph.plan_count; i++) {
        float elapsed = dnn_time(d, stream, plan, i, address);
        if (elapsed < 0 || (least >= 0 && elapsed >= least)) continue;
        least = elapsed;
        best = i;
    }
    return best;
}

/* All that a choice depends on; no gaps. */
typedef struct choice_key {
    dnn_conv conv;
    int64_t tf32, question;
} choice_key;

static choice_key key_of(const cuda_device *d, dnn_question question, const dnn_conv *conv)
{
    return (choice_key){.conv = *conv, .tf32 = d->tf32, .question = (int64_t)question};
}

int dnn_choice(const cuda_device *d, dnn_question question, const dnn_conv *conv)
{
    choice_key key = key_of(d, question, conv);
    return cuda_choices_find(d->dnn->choices, &key, sizeof key);
}

void dnn_keep_choice(cuda_device *d, dnn_question question, const dnn_conv *conv, int chosen)
{
    choice_key key = key_of(d, question, conv);
    cuda_choices_keep(d->dnn->choices, &key, sizeof key, chosen);
}

/* With the plan that was the fastest in an earlier program, else with several. */
static void make_graph(cuda_device *d, dnn_plan *plan)
{
    dnn_rules rules = {.tf32 = d->tf32, .deterministic = d->deterministic, .most = d->deterministic ? 1 : GUESSES};
    rules.only = d->deterministic ? CUDA_CHOICE_UNKNOWN : dnn_choice(d, DNN_WHICH_ENGINE, &plan->conv);
    dnn_graph_make(d->dnn->handle, &plan->conv, rules, &plan->graph);
    if (plan->graph.plan_count || rules.only < 0) return;
    dnn_graph_end(&plan->graph);
    rules.only = -1;
    dnn_graph_make(d->dnn->handle, &plan->conv, rules, &plan->graph);
}

static ls_status plan_new(cuda_device *d, cudaStream_t stream, const dnn_conv *conv, void *const address[DNN_OPERANDS],
                          dnn_plan **made, ls_message *why)
{
    dnn_plan *plan = calloc(1, sizeof *plan);
    if (!plan) return cuda_refuse(why, LS_ERR_MEMORY, "no memory for the plan of a convolution");
    plan->conv = *conv;
    plan->pays = CUDA_CHOICE_UNKNOWN;
    make_graph(d, plan);
    plan->chosen = plan->graph.plan_count - 1;
    if (plan->graph.plan_count > 1) {
        plan->chosen = fastest(d, stream, plan, address);
        dnn_keep_choice(d, DNN_WHICH_ENGINE, conv, plan->graph.number[plan->chosen]);
    }
    *made = plan;
    return LS_OK;
}

/* ---- plans ---- */

/* FNV-1a */
static uint64_t hash_of(const dnn_conv *conv)
{
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < sizeof *conv; i++) hash = (hash ^ ((const unsigned char *)conv)[i]) * 1099511628211u;
    return hash;
}

ls_status dnn_find(cuda_device *d, cudaStream_t stream, const dnn_conv *conv, void *const address[DNN_OPERANDS],
                   dnn_plan **plan, ls_message *why)
{
    CUDA_TRY(begin(d, stream, why));
    cuda_dnn *dnn = d->dnn;
    if (dnn->count >= DNN_MOST_PLANS) forget_plans(dnn); /* sizes that keep changing */
    size_t at = (size_t)(hash_of(conv) % DNN_SLOTS);
    while (dnn->slot[at] && memcmp(&dnn->slot[at]->conv, conv, sizeof *conv) != 0) at = (at + 1) % DNN_SLOTS;
    if (!dnn->slot[at]) {
        CUDA_TRY(plan_new(d, stream, conv, address, &dnn->slot[at], why));
        dnn->count++;
    }
    *plan = dnn->slot[at]->chosen < 0 ? NULL : dnn->slot[at];
    return LS_OK;
}

ls_status dnn_run(cuda_device *d, cudaStream_t stream, dnn_plan *plan, void *const address[DNN_OPERANDS],
                  ls_message *why)
{
    CUDA_TRY(begin(d, stream, why));
    return execute(d, plan, plan->chosen, address, why);
}
