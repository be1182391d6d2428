/* blas.c - cuBLASLt: descriptions of products and the algorithms chosen for them, kept from call to call.
 *
 * Asking for an algorithm takes tens of microseconds, a product with everything prepared ten: so plans are kept in a
 * table by all that the choice depends on. The library's first proposal is within some 10 % of its best: large products
 * that come again and again try several. The fastest is kept in a file, and later programs use it from the start: one
 * that goes on with a training computes the same bits. */
#include "choices.h"
#include "product.h"

#include <cublasLt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_WORKSPACE ((size_t)64 << 20)
#define MOST_PLANS 3072 /* batches of ever new lengths make ever new plans: then all are made again */
#define SLOTS 4096      /* a power of two */

#define TRIED_AFTER 64 /* uses: batches of ever new lengths never get there */
#define TRIED_WORK 1e9 /* multiplications that are worth it */
#define PROPOSALS 12
#define TRIES 4

/* All that a plan depends on, without gaps so that keys compare as bytes. */
typedef struct plan_key {
    int64_t m, n, k, batch;
    int64_t a_pitch, b_pitch, out_pitch, a_stride, b_stride, out_stride;
    int32_t type, out_type;
    int32_t alignment; /* of all addresses, 16 at most */
    uint8_t a_transposed, b_transposed;
    uint8_t adds, ends; /* one of each enum below */
} plan_key;

enum { ADDS_NOTHING, ADDS_TO_OUT, ADDS_RESIDUAL };
enum { ENDS_PLAIN, ENDS_WITH_BIAS, ENDS_WITH_RELU };

/* Does the ReLU of a plan leave NaN as it is? */
typedef enum nan_answer { NAN_UNKNOWN, NAN_KEPT, NAN_LOST } nan_answer;

typedef struct plan {
    plan_key key;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, out;
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace;
    int proposal;    /* of the library's: which one the algorithm is */
    bool is_refused; /* the library cannot do it */
    bool is_chosen;  /* nothing is left to be tried */
    nan_answer nan;
    int uses;
} plan;

struct cuda_blas {
    cublasLtHandle_t handle;
    cublasLtMatmulPreference_t preference;
    cuda_choices *choices; /* among the library's proposals */
    int count;
    plan *slot[SLOTS]; /* by hash, the next free one after a collision */
};

static ls_status check(cublasStatus_t status, const char *what, ls_message *why)
{
    if (status == CUBLAS_STATUS_SUCCESS) return LS_OK;
    ls_status meaning = status == CUBLAS_STATUS_ALLOC_FAILED ? LS_ERR_MEMORY : LS_ERR_DEVICE;
    return cuda_refuse(why, meaning, "cuBLASLt: %s: %s", what, cublasLtGetStatusString(status));
}

/* It is not for this library; another product may be. */
static bool is_refusal(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
}

/* ---- Plans ------------------------------------------------------------------------------------------------------- */

static void plan_free(plan *p)
{
    if (!p) return;
    if (p->a) cublasLtMatrixLayoutDestroy(p->a);
    if (p->b) cublasLtMatrixLayoutDestroy(p->b);
    if (p->out) cublasLtMatrixLayoutDestroy(p->out);
    if (p->operation) cublasLtMatmulDescDestroy(p->operation);
    free(p);
}

static void forget_plans(cuda_blas *blas)
{
    for (int i = 0; i < SLOTS; i++) plan_free(blas->slot[i]);
    memset(blas->slot, 0, sizeof blas->slot);
    blas->count = 0;
}

void cuda_blas_free(cuda_blas *blas)
{
    if (!blas) return;
    forget_plans(blas);
    if (blas->preference) cublasLtMatmulPreferenceDestroy(blas->preference);
    if (blas->handle) cublasLtDestroy(blas->handle);
    cuda_choices_close(blas->choices);
    free(blas);
}

static ls_status blas_new(const cuda_device *d, cuda_blas **to, ls_message *why)
{
    cuda_blas *blas = calloc(1, sizeof *blas);
    if (blas) blas->choices = cuda_open_choices(d, "cublaslt", cublasLtGetVersion());
    if (!blas || !blas->choices) {
        free(blas);
        return cuda_refuse(why, LS_ERR_MEMORY, "no memory for the plans of matrix products");
    }
    size_t most = MOST_WORKSPACE;
    cublasStatus_t status = cublasLtCreate(&blas->handle);
    if (!status) status = cublasLtMatmulPreferenceCreate(&blas->preference);
    if (!status)
        status = cublasLtMatmulPreferenceSetAttribute(blas->preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most,
                                                      sizeof most);
    if (status) cuda_blas_free(blas);
    else *to = blas;
    return check(status, "cannot start", why);
}

static cudaDataType_t library_type(int32_t dtype)
{
    switch (dtype) {
    case LS_F64: return CUDA_R_64F;
    case LS_F16: return CUDA_R_16F;
    case LS_BF16: return CUDA_R_16BF;
    default: return CUDA_R_32F;
    }
}

static cublasStatus_t describe_matrix(cublasLtMatrixLayout_t *to, int32_t dtype, int64_t rows, int64_t columns,
                                      int64_t pitch, int64_t batch, int64_t batch_stride)
{
    cublasStatus_t status =
        cublasLtMatrixLayoutCreate(to, library_type(dtype), (uint64_t)rows, (uint64_t)columns, pitch);
    int32_t count = (int32_t)batch;
    if (!status && batch > 1)
        status = cublasLtMatrixLayoutSetAttribute(*to, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
    if (!status && batch > 1)
        status = cublasLtMatrixLayoutSetAttribute(*to, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &batch_stride,
                                                  sizeof batch_stride);
    return status;
}

static cublasStatus_t describe_operation(plan *p, bool tf32)
{
    const plan_key *key = &p->key;
    bool wide = key->type == LS_F64;
    cublasComputeType_t compute = wide                          ? CUBLAS_COMPUTE_64F
                                  : tf32 && key->type == LS_F32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                                : CUBLAS_COMPUTE_32F;
    cublasOperation_t a = key->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t b = key->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    static const cublasLtEpilogue_t ends[] = {[ENDS_PLAIN] = CUBLASLT_EPILOGUE_DEFAULT,
                                              [ENDS_WITH_BIAS] = CUBLASLT_EPILOGUE_BIAS,
                                              [ENDS_WITH_RELU] = CUBLASLT_EPILOGUE_RELU_BIAS};
    cublasLtEpilogue_t end = ends[key->ends];
    cublasStatus_t status = cublasLtMatmulDescCreate(&p->operation, compute, wide ? CUDA_R_64F : CUDA_R_32F);
    if (!status) status = cublasLtMatmulDescSetAttribute(p->operation, CUBLASLT_MATMUL_DESC_TRANSA, &a, sizeof a);
    if (!status) status = cublasLtMatmulDescSetAttribute(p->operation, CUBLASLT_MATMUL_DESC_TRANSB, &b, sizeof b);
    if (!status) status = cublasLtMatmulDescSetAttribute(p->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &end, sizeof end);
    return status;
}

static cublasStatus_t describe(plan *p, bool tf32)
{
    const plan_key *key = &p->key;
    int64_t m = key->m, n = key->n, k = key->k;
    bool at = key->a_transposed, bt = key->b_transposed;
    cublasStatus_t status = describe_operation(p, tf32);
    if (!status)
        status = describe_matrix(&p->a, key->type, at ? k : m, at ? m : k, key->a_pitch, key->batch, key->a_stride);
    if (!status)
        status = describe_matrix(&p->b, key->type, bt ? n : k, bt ? k : n, key->b_pitch, key->batch, key->b_stride);
    if (!status) status = describe_matrix(&p->out, key->out_type, m, n, key->out_pitch, key->batch, key->out_stride);
    return status;
}

static cublasStatus_t set_alignment(cublasLtMatmulPreference_t preference, uint32_t bytes)
{
    static const cublasLtMatmulPreferenceAttributes_t of[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    for (size_t i = 0; i < sizeof of / sizeof *of && !status; i++)
        status = cublasLtMatmulPreferenceSetAttribute(preference, of[i], &bytes, sizeof bytes);
    return status;
}

typedef struct proposals {
    cublasLtMatmulHeuristicResult_t found[PROPOSALS];
    int count;
} proposals;

/* The library's proposals for a plan, the best first: `most` or fewer. */
static cublasStatus_t propose(cuda_blas *blas, const plan *p, int most, proposals *all)
{
    cublasStatus_t status = set_alignment(blas->preference, (uint32_t)p->key.alignment);
    all->count = 0;
    if (!status)
        status = cublasLtMatmulAlgoGetHeuristic(blas->handle, p->operation, p->a, p->b, p->out, p->out,
                                                blas->preference, most, all->found, &all->count);
    return !status && !all->count ? CUBLAS_STATUS_NOT_SUPPORTED : status;
}

/* Let a plan have one of them; false, and it stays as it is: there is none of this number. */
static bool take_proposal(plan *p, const proposals *all, int number)
{
    if (number < 0 || number >= all->count || all->found[number].state != CUBLAS_STATUS_SUCCESS) return false;
    p->algorithm = all->found[number].algo;
    p->workspace = all->found[number].workspaceSize;
    p->proposal = number;
    return true;
}

static ls_status plan_new(cuda_device *d, const plan_key *key, const void *bias, plan **to, ls_message *why)
{
    plan *p = calloc(1, sizeof *p);
    if (!p) return cuda_refuse(why, LS_ERR_MEMORY, "no memory for the plan of a matrix product");
    p->key = *key;
    proposals first;
    cublasStatus_t status = describe(p, d->tf32);
    if (!status && bias)
        status = cublasLtMatmulDescSetAttribute(p->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    if (!status) status = propose(d->blas, p, 1, &first);
    if (!status && !take_proposal(p, &first, 0)) status = CUBLAS_STATUS_NOT_SUPPORTED;
    p->is_refused = is_refusal(status);
    if (status && !p->is_refused) {
        plan_free(p);
        return check(status, "no algorithm for a product", why);
    }
    *to = p;
    return LS_OK;
}

/* ---- The table --------------------------------------------------------------------------------------------------- */

static uint64_t hash_of(const plan_key *key)
{
    const unsigned char *byte = (const unsigned char *)key;
    uint64_t word, hash = 0x9E3779B97F4A7C15u;
    for (size_t i = 0; i + sizeof word <= sizeof *key; i += sizeof word) {
        memcpy(&word, byte + i, sizeof word);
        hash = (hash ^ word) * 0xD6E8FEB86659FD93u;
        hash ^= hash >> 32;
    }
    return hash;
}

static ls_status plan_for(cuda_device *d, const plan_key *key, const void *bias, plan **to, ls_message *why)
{
    if (!d->blas) CUDA_TRY(blas_new(d, &d->blas, why));
    cuda_blas *blas = d->blas;
    if (blas->count >= MOST_PLANS) forget_plans(blas);
    uint64_t i = hash_of(key) % SLOTS;
    for (; blas->slot[i]; i = (i + 1) % SLOTS)
        if (!memcmp(&blas->slot[i]->key, key, sizeof *key)) {
            *to = blas->slot[i];
            return LS_OK;
        }
    CUDA_TRY(plan_new(d, key, bias, &blas->slot[i], why));
    blas->count++;
    *to = blas->slot[i];
    return LS_OK;
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

static int32_t alignment_of(const blas_product *p)
{
    uintptr_t bits = (uintptr_t)p->a.data | (uintptr_t)p->b.data | (uintptr_t)p->out.data | (uintptr_t)p->bias |
                     (uintptr_t)p->residual | 16;
    return (int32_t)(bits & (0 - bits));
}

static plan_key key_of(const blas_product *p)
{
    return (plan_key){.m = p->m,
                      .n = p->n,
                      .k = p->k,
                      .batch = p->batch,
                      .a_pitch = p->a.pitch,
                      .b_pitch = p->b.pitch,
                      .out_pitch = p->out.pitch,
                      .a_stride = p->a.batch_stride,
                      .b_stride = p->b.batch_stride,
                      .out_stride = p->out.batch_stride,
                      .type = (int32_t)p->type,
                      .out_type = (int32_t)p->out_type,
                      .alignment = alignment_of(p),
                      .a_transposed = p->a.transposed,
                      .b_transposed = p->b.transposed,
                      .adds = p->residual     ? ADDS_RESIDUAL
                              : p->accumulate ? ADDS_TO_OUT
                                              : ADDS_NOTHING,
                      .ends = p->relu   ? ENDS_WITH_RELU
                              : p->bias ? ENDS_WITH_BIAS
                                        : ENDS_PLAIN};
}

static cublasStatus_t multiply(cuda_device *d, cudaStream_t stream, const blas_product *p, const plan *with,
                               void *workspace)
{
    const void *added = p->residual ? p->residual : p->out.data;
    const float one = 1, old = p->residual || p->accumulate ? 1 : 0;
    const double wide_one = 1, wide_old = (double)old;
    bool wide = p->type == LS_F64;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (p->bias)
        status = cublasLtMatmulDescSetAttribute(with->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p->bias,
                                                sizeof p->bias);
    if (status) return status;
    return cublasLtMatmul(d->blas->handle, with->operation, wide ? (const void *)&wide_one : &one, p->a.data, with->a,
                          p->b.data, with->b, wide ? (const void *)&wide_old : &old, added, with->out, p->out.data,
                          with->out, &with->algorithm, workspace, with->workspace, stream);
}

#define WORKSPACE_ALIGNMENT 256 /* what the library wants; it refuses others */

/* One product with a workspace of its own. */
static ls_status run_once(cuda_device *d, cudaStream_t stream, const blas_product *p, const plan *with,
                          cublasStatus_t *status, ls_message *why)
{
    ls_workspace space = {0};
    if (with->workspace) CUDA_TRY(cuda_take(d, with->workspace + WORKSPACE_ALIGNMENT, &space, why));
    uintptr_t begin = ((uintptr_t)space.address + WORKSPACE_ALIGNMENT - 1) / WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT;
    *status = multiply(d, stream, p, with, space.address ? (void *)begin : NULL);
    cuda_give(d, space);
    return LS_OK;
}

/* ---- NaN --------------------------------------------------------------------------------------------------------- */

/* What is looked at of a result: the first and the last numbers. */
#define LOOKED_AT 32

static bool is_nan(ls_dtype dtype, uint16_t half)
{
    return (half & 0x7fff) > (dtype == LS_F16 ? 0x7c00 : 0x7f80);
}

/* The library says of its ReLU that it is max(x, 0), and nothing about NaN. It has many kernels, so each is asked: all
 * of a result is NaN if the bias is. The result is written, and the host waits. NAN_UNKNOWN: it could not be asked. */
static nan_answer ask_for_nan(cuda_device *d, cudaStream_t stream, const blas_product *p, const plan *with)
{
    uint16_t seen[2 * LOOKED_AT];
    size_t some = p->m < LOOKED_AT ? (size_t)p->m : LOOKED_AT, bytes = some * sizeof *seen;
    const uint16_t *first = p->out.data, *last = first + (p->batch - 1) * p->out.batch_stride;
    last += (p->n - 1) * p->out.pitch + p->m - (int64_t)some;
    blas_product asked = *p;
    ls_workspace space = {0};
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    bool answered = cuda_take(d, (size_t)p->m * sizeof *seen, &space, NULL) == LS_OK;
    asked.bias = space.address;
    answered = answered && cudaMemsetAsync(space.address, 0xff, (size_t)p->m * sizeof *seen, stream) == cudaSuccess &&
               run_once(d, stream, &asked, with, &status, NULL) == LS_OK && !status &&
               cudaMemcpyAsync(seen, first, bytes, cudaMemcpyDeviceToHost, stream) == cudaSuccess &&
               cudaMemcpyAsync(seen + some, last, bytes, cudaMemcpyDeviceToHost, stream) == cudaSuccess &&
               cudaStreamSynchronize(stream) == cudaSuccess;
    cuda_give(d, space);
    if (!answered) {
        (void)cudaGetLastError(); /* else the next operator is blamed for what went wrong */
        return NAN_UNKNOWN;
    }
    for (size_t i = 0; i < 2 * some; i++)
        if (!is_nan(p->out_type, seen[i])) return NAN_LOST;
    return NAN_KEPT;
}

/* Ask the algorithm of a plan, and if it loses NaN, let the plan have the first proposal that does not. */
static void keep_nan(cuda_device *d, cudaStream_t stream, const blas_product *p, plan *with)
{
    proposals all;
    plan other = *with;
    with->nan = ask_for_nan(d, stream, p, with);
    if (with->nan != NAN_LOST || propose(d->blas, with, PROPOSALS, &all)) return;
    for (int i = 0; i < all.count && with->nan == NAN_LOST; i++) {
        if (i == with->proposal || !take_proposal(&other, &all, i)) continue;
        other.nan = ask_for_nan(d, stream, p, &other);
        if (other.nan == NAN_KEPT) *with = other;
    }
}

/* ---- Trying ------------------------------------------------------------------------------------------------------ */

/* Milliseconds of some products as `with` would do them; infinite if it cannot. The host waits. */
static float time_of(cuda_device *d, cudaStream_t stream, const blas_product *p, const plan *with, cudaEvent_t event[2])
{
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    float ms = 0;
    bool ok = true;
    for (int i = 0; i <= TRIES && ok; i++) { /* the first is not counted */
        ok = run_once(d, stream, p, with, &status, NULL) == LS_OK && !status;
        if (i == 0) ok = ok && cudaEventRecord(event[0], stream) == cudaSuccess;
    }
    ok = ok && cudaEventRecord(event[1], stream) == cudaSuccess && cudaEventSynchronize(event[1]) == cudaSuccess &&
         cudaEventElapsedTime(&ms, event[0], event[1]) == cudaSuccess;
    return ok ? ms : INFINITY;
}

static int try_proposals(cuda_device *d, cudaStream_t stream, const blas_product *p, const plan *with,
                         const proposals *all, cudaEvent_t event[2])
{
    float best = time_of(d, stream, p, with, event) * 0.98f; /* no change for nothing */
    plan other = *with;
    int fastest = with->proposal;
    for (int i = 0; i < all->count; i++) {
        if (i == with->proposal || !take_proposal(&other, all, i)) continue;
        float ms = time_of(d, stream, p, &other, event);
        if (ms >= best || (p->relu && ask_for_nan(d, stream, p, &other) != NAN_KEPT)) continue;
        best = ms;
        fastest = i;
    }
    return fastest;
}

/* The number of the fastest proposal; CUDA_CHOICE_UNKNOWN: they could not be tried, which does not matter. The product
 * is computed several times, into scratch memory if it is added to what is there. */
static int find_fastest(cuda_device *d, cudaStream_t stream, const blas_product *p, const plan *with,
                        const proposals *all)
{
    int fastest = CUDA_CHOICE_UNKNOWN;
    blas_product tried = *p;
    ls_workspace space = {0};
    cudaEvent_t event[2] = {NULL, NULL};
    if (p->accumulate) {
        int64_t elements = (p->batch - 1) * p->out.batch_stride + p->n * p->out.pitch;
        tried.out.data =
            cuda_take(d, (size_t)elements * d->host->dtype_size(p->out_type), &space, NULL) ? NULL : space.address;
    }
    if (tried.out.data && cudaDeviceSynchronize() == cudaSuccess && cudaEventCreate(&event[0]) == cudaSuccess &&
        cudaEventCreate(&event[1]) == cudaSuccess)
        fastest = try_proposals(d, stream, &tried, with, all, event);
    for (int i = 0; i < 2; i++)
        if (event[i]) cudaEventDestroy(event[i]);
    cuda_give(d, space);
    (void)cudaGetLastError(); /* else the next operator is blamed for what went wrong */
    return fastest;
}

static bool is_worth_trying(const cuda_device *d, const blas_product *p)
{
    return !d->deterministic && (double)p->m * (double)p->n * (double)p->k * (double)p->batch >= TRIED_WORK;
}

/* What a choice is kept for. */
typedef struct question {
    plan_key key;
    int64_t tf32;
} question;

/* Let a plan have the algorithm that an earlier program found to be the fastest. */
static void recall(cuda_device *d, plan *with)
{
    question about = {with->key, d->tf32};
    proposals all;
    int chosen = cuda_choices_find(d->blas->choices, &about, sizeof about);
    if (chosen == CUDA_CHOICE_UNKNOWN) return;
    with->is_chosen = true;
    if (!propose(d->blas, with, PROPOSALS, &all)) take_proposal(with, &all, chosen);
}

/* Find out which algorithm is the fastest, for this program and later ones. */
static void choose(cuda_device *d, cudaStream_t stream, const blas_product *p, plan *with)
{
    question about = {with->key, d->tf32};
    proposals all;
    with->is_chosen = true;
    if (propose(d->blas, with, PROPOSALS, &all)) return;
    int fastest = find_fastest(d, stream, p, with, &all);
    cuda_choices_keep(d->blas->choices, &about, sizeof about, fastest);
    take_proposal(with, &all, fastest);
}

ls_status cuda_blas_run(cuda_device *d, cudaStream_t stream, const blas_product *p, ls_message *why)
{
    plan_key key = key_of(p);
    plan *with = NULL;
    CUDA_TRY(plan_for(d, &key, p->bias, &with, why));
    if (with->is_refused) return cuda_product_plain(stream, p, why);
    if (with->uses == 0 && is_worth_trying(d, p)) recall(d, with);
    if (with->uses < TRIED_AFTER) with->uses++;
    if (p->relu && with->nan == NAN_UNKNOWN) keep_nan(d, stream, p, with);
    if (p->relu && with->nan != NAN_KEPT) return LS_ERR_UNSUPPORTED;
    if (with->uses == TRIED_AFTER && !with->is_chosen && is_worth_trying(d, p)) choose(d, stream, p, with);
    cublasStatus_t status;
    CUDA_TRY(run_once(d, stream, p, with, &status, why));
    with->is_refused = is_refusal(status);
    return with->is_refused ? cuda_product_plain(stream, p, why) : check(status, "product", why);
}
