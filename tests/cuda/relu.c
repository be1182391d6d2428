/* relu.c - which of cuBLASLt's algorithms a product with a ReLU takes: one that leaves NaN as it is, and of those the
 * fastest.
 *
 * The library and the GPU are pretended, in memory of the host. */
#include <cublasLt.h>
#include <stdlib.h>

#include "../../plugins/device-cuda/choices.h"
#include "../../plugins/device-cuda/product.h"
#include "check.h"

enum { M = 64, N = 64, K = 1 << 18, ALGORITHMS = 4, TRIED_AT = 64 };

static struct {
    bool keeps_nan[ALGORITHMS];
    float ms[ALGORITHMS];
    bool has_no_memory, has_failing_sets;
    int known; /* the choice of an earlier program */
} world;

static struct {
    int questions; /* products with a bias of NaN */
    int used;      /* the algorithm of the last product */
    int kept;      /* the choice for later programs */
    cudaError_t pending;
} seen;

/* ---- the library, pretended ---- */

static const uint16_t *bias;

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    *handle = (cublasLtHandle_t)&world;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    (void)handle;
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    (void)status;
    return "pretended";
}

size_t cublasLtGetVersion(void)
{
    return 1;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    *preference = (cublasLtMatmulPreference_t)&world;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    (void)preference;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t what, const void *value,
                                                    size_t size)
{
    (void)preference, (void)what, (void)value, (void)size;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t pitch)
{
    (void)type, (void)rows, (void)columns, (void)pitch;
    *layout = (cublasLtMatrixLayout_t)&world;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    (void)layout;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t what,
                                                const void *value, size_t size)
{
    (void)layout, (void)what, (void)value, (void)size;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *operation, cublasComputeType_t type, cudaDataType scale)
{
    (void)type, (void)scale;
    *operation = (cublasLtMatmulDesc_t)&world;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation)
{
    (void)operation;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t what,
                                              const void *value, size_t size)
{
    (void)operation;
    if (what == CUBLASLT_MATMUL_DESC_BIAS_POINTER) memcpy(&bias, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t found[], int *count)
{
    (void)handle, (void)operation, (void)a, (void)b, (void)c, (void)d, (void)preference;
    *count = most < ALGORITHMS ? most : ALGORITHMS;
    for (int i = 0; i < *count; i++) {
        found[i] = (cublasLtMatmulHeuristicResult_t){.state = CUBLAS_STATUS_SUCCESS};
        found[i].algo.data[0] = (uint64_t)i;
    }
    return CUBLAS_STATUS_SUCCESS;
}

/* The result is NaN or 0, as the bias is and the ReLU leaves it. */
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
                              const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                              size_t bytes, cudaStream_t stream)
{
    (void)handle, (void)operation, (void)alpha, (void)a, (void)a_layout, (void)b, (void)b_layout, (void)beta, (void)c;
    (void)c_layout, (void)d_layout, (void)workspace, (void)bytes, (void)stream;
    seen.used = (int)algorithm->data[0];
    bool is_nan = bias[0] == 0xffff;
    seen.questions += is_nan;
    memset(d, is_nan && world.keeps_nan[seen.used] ? 0xff : 0, M * N * sizeof *bias);
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- the GPU, pretended ---- */

static cudaError_t fail_if(bool fails)
{
    if (fails) seen.pending = cudaErrorInvalidValue;
    return fails ? cudaErrorInvalidValue : cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    if (!world.has_failing_sets) memset(memory, value, bytes);
    return fail_if(world.has_failing_sets);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    (void)kind, (void)stream;
    memcpy(to, from, bytes);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    (void)stream;
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = seen.pending;
    seen.pending = cudaSuccess;
    return error;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    *event = (cudaEvent_t)&world;
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    (void)event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    (void)event, (void)stream;
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    (void)event;
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end)
{
    (void)begin, (void)end;
    *ms = world.ms[seen.used];
    return cudaSuccess;
}

/* ---- the plug-in around it ---- */

ls_status cuda_refuse(ls_message *why, ls_status status, const char *format, ...)
{
    (void)why, (void)format;
    return status;
}

ls_status cuda_product_plain(cudaStream_t stream, const blas_product *p, ls_message *why)
{
    (void)stream, (void)p, (void)why;
    CHECK_MSG(false, "the library was not asked");
    return LS_OK;
}

cuda_choices *cuda_open_choices(const cuda_device *d, const char *library, size_t version)
{
    (void)d, (void)library, (void)version;
    return (cuda_choices *)&world;
}

void cuda_choices_close(cuda_choices *choices)
{
    (void)choices;
}

int cuda_choices_find(const cuda_choices *choices, const void *key, size_t size)
{
    (void)choices, (void)key, (void)size;
    return world.known;
}

void cuda_choices_keep(cuda_choices *choices, const void *key, size_t size, int chosen)
{
    (void)choices, (void)key, (void)size;
    seen.kept = chosen;
}

static ls_status take(ls_owner *owner, size_t bytes, ls_workspace *space)
{
    (void)owner;
    if (world.has_no_memory) return LS_ERR_MEMORY;
    space->address = space->block = malloc(bytes);
    return LS_OK;
}

static void give(ls_owner *owner, ls_workspace space)
{
    (void)owner;
    free(space.block);
}

/* ---- tests ---- */

static const ls_host host = {.take = take, .give = give};
static cuda_device device;

/* Another program, whose algorithms leave NaN as it is, or not. */
static void begin(bool first, bool second, bool third, bool fourth)
{
    cuda_blas_free(device.blas);
    device = (cuda_device){.host = &host};
    memset(&world, 0, sizeof world), memset(&seen, 0, sizeof seen);
    const bool keeps[ALGORITHMS] = {first, second, third, fourth};
    for (int i = 0; i < ALGORITHMS; i++) world.keeps_nan[i] = keeps[i], world.ms[i] = 1;
    world.known = seen.kept = CUDA_CHOICE_UNKNOWN;
}

static ls_status multiply(void)
{
    static uint16_t out[M * N], zeros[M];
    blas_product p = {.m = M,
                      .n = N,
                      .k = K,
                      .batch = 1,
                      .type = LS_F16,
                      .out_type = LS_F16,
                      .a = {.data = out, .pitch = M},
                      .b = {.data = out, .pitch = K},
                      .out = {.data = out, .pitch = M},
                      .bias = zeros,
                      .relu = true};
    return cuda_blas_run(&device, NULL, &p, NULL);
}

static void a_relu_that_keeps_nan_is_asked_once(void)
{
    begin(true, true, true, true);
    for (int i = 0; i < 3; i++) CHECK(multiply() == LS_OK && seen.used == 0);
    CHECK(seen.questions == 1);
}

static void one_that_loses_nan_gives_way_to_another(void)
{
    begin(false, false, true, true);
    for (int i = 0; i < 3; i++) CHECK(multiply() == LS_OK && seen.used == 2);
    CHECK(seen.questions == 3);
}

static void if_all_lose_nan_the_caller_is_told(void)
{
    begin(false, false, false, false);
    for (int i = 0; i < 3; i++) CHECK(multiply() == LS_ERR_UNSUPPORTED);
    CHECK(seen.questions == ALGORITHMS);
}

static void a_question_that_failed_is_asked_again(void)
{
    begin(true, true, true, true);
    world.has_no_memory = true;
    for (int i = 0; i < 2; i++) CHECK(multiply() == LS_ERR_UNSUPPORTED);
    world.has_no_memory = false, world.has_failing_sets = true;
    CHECK(multiply() == LS_ERR_UNSUPPORTED);
    CHECK(seen.pending == cudaSuccess); /* the next operator is not blamed for it */
    world.has_failing_sets = false;
    CHECK(multiply() == LS_OK && seen.used == 0);
    CHECK(seen.questions == 1);
}

static void the_choice_of_an_earlier_program_is_asked(void)
{
    begin(true, false, true, true);
    world.known = 2;
    CHECK(multiply() == LS_OK && seen.used == 2);
    CHECK(seen.questions == 1);
    begin(true, false, true, true);
    world.known = 1;
    CHECK(multiply() == LS_OK && seen.used == 0);
    CHECK(seen.questions == 2);
}

static void the_fastest_that_keeps_nan_is_kept(void)
{
    begin(false, true, false, true);
    world.ms[2] = 0.25f, world.ms[3] = 0.5f;
    for (int i = 1; i < TRIED_AT; i++) CHECK(multiply() == LS_OK && seen.used == 1);
    for (int i = 0; i < 2; i++) CHECK(multiply() == LS_OK && seen.used == 3);
    CHECK(seen.kept == 3);
    begin(false, true, true, true); /* one that is not the library's first stays where others are no faster */
    for (int i = 0; i < TRIED_AT; i++) CHECK(multiply() == LS_OK && seen.used == 1);
    CHECK(seen.kept == 1);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(a_relu_that_keeps_nan_is_asked_once);
    CHECK_RUN(one_that_loses_nan_gives_way_to_another);
    CHECK_RUN(if_all_lose_nan_the_caller_is_told);
    CHECK_RUN(a_question_that_failed_is_asked_again);
    CHECK_RUN(the_choice_of_an_earlier_program_is_asked);
    CHECK_RUN(the_fastest_that_keeps_nan_is_kept);
    cuda_blas_free(device.blas);
    return check_done();
}
