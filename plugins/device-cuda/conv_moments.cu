/* conv_moments.cu - statistics of a convolution of single pixels, before it is computed.
 *
 * Where y = w x + b for each pixel, the mean and the variance of y over all pixels follow from those of x:
 *
 *     mean(y) = w mean(x) + b            var(y) = w cov(x) w'
 *
 * x is read once, and has fewer channels than y. The norm is then part of the product that computes y:
 *
 *     (y - mean(y)) gain + bias = (gain w) x + shift
 *
 * Kernels: moments adds up x and x x' over chunks of pixels, for squares of SLAB x SLAB channels; covariance adds up
 * the chunks; fold makes the weights and the vector of the product. Sums have a fixed order. */
#include <cuda_pipeline.h>

#include "batch_norm.cuh"
#include "conv_moments.h"
#include "mma.cuh"

enum {
    SLAB = 64, /* channels of a side of a square */
    SQUARE = SLAB * SLAB,
    WARPS = 4, /* each takes some pixels of all channels of a square */
    THREADS = 32 * WARPS,
    STEP = 16,    /* pixels of one instruction */
    PIXELS = 128, /* that are in shared memory at once, a stage */
    STAGES = 3,
    SIXTEENS = SLAB / 8, /* pieces of 16 bytes that the channels of a pixel in a slab have */
    STAGE = PIXELS * SIXTEENS,
    RESIDENT = 2, /* blocks on a processor */
};

/* ---- squares of channels ---- */

static __host__ __device__ __forceinline__ int squares_of(int channels)
{
    int slabs = channels / SLAB;
    return slabs * (slabs + 1) / 2; /* x x' is symmetric */
}

/* Slabs row <= column of a square, counted row by row. */
static __device__ __forceinline__ void place_of(int square, int channels, int *row, int *column)
{
    int slabs = channels / SLAB, r = 0;
    while (square >= slabs - r) square -= slabs - r, r++;
    *row = r, *column = r + square;
}

/* ---- moments of a chunk ---- */

/* Where a piece of 16 bytes lies: pixels one after the other, their pieces turned so that eight pixels in a column of
 * pieces are in different banks. */
static __device__ __forceinline__ int piece_at(int pixel, int piece)
{
    return pixel * SIXTEENS + (piece ^ (pixel & (SIXTEENS - 1)));
}

/* Pixels of a stage, from `first` on; zeros from `end` on. x: the slab's channels of pixel 0. */
static __device__ __forceinline__ void load_stage(uint4 *to, const uint16_t *x, int64_t first, int64_t end,
                                                  int channels)
{
#pragma unroll
    for (int i = threadIdx.x; i < STAGE; i += THREADS) {
        int pixel = i / SIXTEENS, piece = i % SIXTEENS;
        bool there = first + pixel < end;
        const uint16_t *from = x + (there ? first + pixel : 0) * channels + piece * 8;
        __pipeline_memcpy_async(to + piece_at(pixel, piece), from, 16, there ? 0 : 16);
    }
}

/* Four 8 x 8 matrices, transposed: with pixels as rows in memory, a thread gets two pixels of a channel. */
static __device__ __forceinline__ void load_matrices(const uint4 *row, uint32_t (&to)[4])
{
    uint32_t address = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address));
}

template <typename T> static __device__ __forceinline__ float sum_of_pair(uint32_t pair)
{
    union {
        uint32_t bits;
        T element[2];
    } two;
    two.bits = pair;
    return as<float>(two.element[0]) + as<float>(two.element[1]);
}

/* What a thread has of a square: accumulators of the instruction, and the sum of one channel of each eight. */
struct part {
    float product[SLAB / 16][SLAB / 8][4];
    float sum[SLAB / 8];
};

/* STEP pixels, from `pixel` on, of the channels of both sides. */
template <typename T>
static __device__ __forceinline__ void add_pixels(part *p, const uint4 *rows, const uint4 *columns, int pixel)
{
    int lane = threadIdx.x % 32, matrix = lane / 8, line = lane % 8;
    uint32_t a[SLAB / 16][4];
#pragma unroll
    for (int m = 0; m < SLAB / 16; m++) /* matrices: channels 0 and 8 of pixel 0, then of pixel 8 */
        load_matrices(rows + piece_at(pixel + matrix / 2 * 8 + line, 2 * m + matrix % 2), a[m]);
#pragma unroll
    for (int n = 0; n < SLAB / 16; n++) { /* matrices: pixels 0 and 8 of channel 0, then of channel 8 */
        uint32_t b[4];
        load_matrices(columns + piece_at(pixel + matrix % 2 * 8 + line, 2 * n + matrix / 2), b);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            p->sum[2 * n + half] += sum_of_pair<T>(b[2 * half]) + sum_of_pair<T>(b[2 * half + 1]);
#pragma unroll
            for (int m = 0; m < SLAB / 16; m++)
                multiply(p->product[m][2 * n + half], a[m], b[2 * half], b[2 * half + 1], T());
        }
    }
}

/* Add up the parts of all warps in the first. */
static __device__ void add_warps(part *p, float *shared)
{
    enum { NUMBERS = sizeof(part) / sizeof(float) };
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float *numbers = (float *)p;
    for (int half = WARPS / 2; half; half /= 2) {
        float *there = shared + warp % half * NUMBERS * 32 + lane;
        __syncthreads();
        if (warp >= half && warp < 2 * half)
#pragma unroll
            for (int i = 0; i < NUMBERS; i++) there[i * 32] = numbers[i];
        __syncthreads();
        if (warp < half)
#pragma unroll
            for (int i = 0; i < NUMBERS; i++) numbers[i] += there[i * 32];
    }
}

/* Block (square, chunk). products: [chunks][squares][SLAB][SLAB]; sums: [chunks][channels]. */
template <typename T>
static __global__ void __launch_bounds__(THREADS, RESIDENT)
    moments(const uint16_t *x, int64_t pixels, int channels, float *products, float *sums)
{
    extern __shared__ uint4 stages[]; /* [STAGES][2][STAGE]; the second half is not used where both sides are one */
    int row, column;
    place_of((int)blockIdx.x, channels, &row, &column);
    int64_t stages_all = (pixels + PIXELS - 1) / PIXELS;
    int64_t begin = stages_all * blockIdx.y / gridDim.y, end = stages_all * (blockIdx.y + 1) / gridDim.y;
    auto fetch = [&](int64_t stage) {
        uint4 *to = stages + (stage - begin) % STAGES * 2 * STAGE;
        if (stage < end) {
            load_stage(to, x + column * SLAB, stage * PIXELS, pixels, channels);
            if (row != column) load_stage(to + STAGE, x + row * SLAB, stage * PIXELS, pixels, channels);
        }
        __pipeline_commit();
    };
    part p = {};
    for (int i = 0; i < STAGES - 1; i++) fetch(begin + i);
    for (int64_t stage = begin; stage < end; stage++) {
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
        fetch(stage + STAGES - 1); /* over the stage before, which all warps have left */
        const uint4 *columns = stages + (stage - begin) % STAGES * 2 * STAGE;
        const uint4 *rows = row == column ? columns : columns + STAGE;
        for (int pixel = threadIdx.x / 32 * STEP; pixel < PIXELS; pixel += WARPS * STEP)
            add_pixels<T>(&p, rows, columns, pixel);
    }
    __pipeline_wait_prior(0);
    add_warps(&p, (float *)stages);
    if (threadIdx.x >= 32) return;

    int lane = threadIdx.x;
    float *to = products + ((int64_t)blockIdx.y * gridDim.x + blockIdx.x) * SQUARE;
#pragma unroll
    for (int m = 0; m < SLAB / 16; m++)
#pragma unroll
        for (int n = 0; n < SLAB / 8; n++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float2 two = make_float2(p.product[m][n][2 * half], p.product[m][n][2 * half + 1]);
                *(float2 *)(to + (m * 16 + half * 8 + lane / 4) * SLAB + n * 8 + lane % 4 * 2) = two;
            }
    if (row != column) return;
#pragma unroll
    for (int n = 0; n < SLAB / 8; n++) { /* the four threads of a channel have different pixels */
        float sum = p.sum[n];
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
        if (lane % 4 == 0) sums[(int64_t)blockIdx.y * channels + row * SLAB + n * 8 + lane / 4] = sum;
    }
}

/* ---- all chunks ---- */

enum { ADDERS = 1024, TOGETHER = 128, TEAMS = ADDERS / TOGETHER, AT_ONCE = 12 };

/* Totals of TOGETHER numbers, number i by threads i, i + TOGETHER, ...: one after the other, then all teams. */
static __device__ double total_of_chunks(const float *numbers, int64_t stride, int chunks, double (*shared)[TOGETHER])
{
    int i = threadIdx.x % TOGETHER, team = threadIdx.x / TOGETHER;
    double total = 0;
    for (int chunk = team; chunk < chunks; chunk += AT_ONCE * TEAMS) {
        float some[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            int from = chunk + k * TEAMS;
            some[k] = from < chunks ? __ldcg(numbers + from * stride) : 0;
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) total += some[k];
    }
    __syncthreads();
    shared[team][i] = total;
    __syncthreads();
    total = 0;
    for (int t = 0; t < TEAMS; t++) total += shared[t][i];
    return total;
}

/* Block (square, part of it). mean: [channels]; cov: [channels][channels]. */
static __global__ void __launch_bounds__(ADDERS) covariance(const float *products, const float *sums, int chunks,
                                                            int channels, double count, float *mean, float *cov)
{
    __shared__ double shared[TEAMS][TOGETHER], means[TOGETHER]; /* means: of the channels of both sides */
    int row, column, i = threadIdx.x % TOGETHER;
    place_of((int)blockIdx.x, channels, &row, &column);
    int channel = i < SLAB ? row * SLAB + i : column * SLAB + i - SLAB;
    double center = total_of_chunks(sums + channel, channels, chunks, shared) / count;
    if (threadIdx.x < TOGETHER) {
        means[i] = center;
        mean[channel] = (float)center; /* by several blocks, all the same */
    }
    int at = (int)blockIdx.y * TOGETHER + i; /* in the square */
    double product =
        total_of_chunks(products + (int64_t)blockIdx.x * SQUARE + at, (int64_t)gridDim.x * SQUARE, chunks, shared);
    if (threadIdx.x >= TOGETHER) return;
    int r = at / SLAB, c = at % SLAB;
    float found = (float)(product / count - means[r] * means[SLAB + c]);
    cov[(row * SLAB + r) * channels + column * SLAB + c] = found;
    if (row != column) cov[(column * SLAB + c) * channels + row * SLAB + r] = found;
}

/* ---- weights and vector of the product ---- */

enum { FOLDERS = 256, OUTPUTS = FOLDERS / 32 /* of a block, one for each warp at last */, MOST_CHANNELS = FOLDERS };

/* Sum and sum of squares of y less its first pixel, for OUTPUTS outputs, from all pixels: slow, and seldom needed. w:
 * [channels][OUTPUTS]; each warp gets those of one output. */
template <typename T>
static __device__ void count_again(const T *x, int64_t pixels, int channels, const float (*w)[OUTPUTS],
                                   double (*shared)[2][OUTPUTS], double *pivot, double *sum, double *squares)
{
    double first[OUTPUTS] = {}, total[2][OUTPUTS] = {};
    for (int64_t pixel = -1; pixel < pixels; pixel = pixel < 0 ? threadIdx.x : pixel + FOLDERS) {
        const T *from = x + (pixel < 0 ? 0 : pixel) * channels;
        float y[OUTPUTS] = {};
        for (int i = 0; i < channels; i++)
#pragma unroll
            for (int o = 0; o < OUTPUTS; o++) y[o] += as<float>(from[i]) * w[i][o];
#pragma unroll
        for (int o = 0; o < OUTPUTS; o++) {
            if (pixel < 0) first[o] = y[o];
            else total[0][o] += y[o] - first[o], total[1][o] += (y[o] - first[o]) * (y[o] - first[o]);
        }
    }
    int warp = threadIdx.x / 32;
#pragma unroll
    for (int i = 0; i < 2 * OUTPUTS; i++) {
        double sum_of_warp = warp_sum(total[i / OUTPUTS][i % OUTPUTS]);
        if (threadIdx.x % 32 == 0) shared[warp][i / OUTPUTS][i % OUTPUTS] = sum_of_warp;
    }
    __syncthreads();
    *sum = *squares = 0;
    for (int i = 0; i < FOLDERS / 32; i++) *sum += shared[i][0][warp], *squares += shared[i][1][warp];
#pragma unroll
    for (int o = 0; o < OUTPUTS; o++)
        if (o == warp) *pivot = first[o];
}

/* A thread has a channel of x, a column of cov; where there are fewer channels than threads, several share its rows. */
template <typename T>
static __global__ void __launch_bounds__(FOLDERS)
    fold(const T *x, const T *weights, int channels, int outputs, const float *mean, const float *cov,
         batch_norm_channels c, struct channels bias, T *folded, T *vector)
{
    __shared__ __align__(16) float w[MOST_CHANNELS][OUTPUTS];
    __shared__ float part[OUTPUTS][FOLDERS], scale[OUTPUTS];
    int first = (int)blockIdx.x * OUTPUTS, j = threadIdx.x % channels, team = threadIdx.x / channels;
    int teams = FOLDERS / channels, own = min(OUTPUTS, outputs - first);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, output = first + warp;
    channel_values before = {};
    double added = 0;
    if (warp < own) before = read_channel(c, output), added = channel(bias, output, 0);
    for (int i = threadIdx.x; i < OUTPUTS * channels; i += FOLDERS)
        w[i % channels][i / channels] = i < own * channels ? as<float>(weights[(int64_t)first * channels + i]) : 0;
    __syncthreads();
    float sum[OUTPUTS] = {};
#pragma unroll 16
    for (int i = team * channels / teams; i < (team + 1) * channels / teams; i++) {
        float both = __ldg(cov + i * channels + j);
        float4 low = *(const float4 *)w[i], high = *(const float4 *)(w[i] + 4);
        sum[0] += low.x * both, sum[1] += low.y * both, sum[2] += low.z * both, sum[3] += low.w * both;
        sum[4] += high.x * both, sum[5] += high.y * both, sum[6] += high.z * both, sum[7] += high.w * both;
    }
#pragma unroll
    for (int o = 0; o < OUTPUTS; o++) part[o][threadIdx.x] = sum[o] * w[j][o];
    __syncthreads();
    double var = 0, center = 0;
    for (int i = lane; i < FOLDERS; i += 32) var += part[warp][i];
    for (int i = lane; i < channels; i += 32) center += (double)w[i][warp] * mean[i];
    var = warp_sum(var), center = warp_sum(center);
    double m2 = var * c.count; /* NaN stays */
    if (__syncthreads_or(has_lost_digits(center, var))) {
        __shared__ double shared[FOLDERS / 32][2][OUTPUTS];
        double pivot, sum, squares;
        count_again(x, (int64_t)c.count, channels, w, shared, &pivot, &sum, &squares);
        center = pivot + sum / c.count, m2 = squares - sum * sum / c.count;
    }
    if (lane == 0 && warp < own) {
        coefficients<double> found = finish_forward<double>(c, before, output, center + added, m2 < 0 ? 0 : m2, true);
        vector[output] = as<T>((float)(found.shift + added * found.scale));
        scale[warp] = (float)found.scale;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < own * channels; i += FOLDERS)
        folded[(int64_t)first * channels + i] = as<T>(w[i % channels][i / channels] * scale[i / channels]);
}

/* ---- the whole ---- */

extern "C" bool conv_moments_fit(ls_dtype dtype, int64_t pixels, int64_t channels)
{
    bool half = dtype == LS_F16 || dtype == LS_BF16;
    return half && pixels > 0 && channels > 0 && channels % SLAB == 0 && MOST_CHANNELS % channels == 0;
}

static int chunks_for(const cuda_device *d, int64_t pixels, int channels)
{
    int64_t stages = (pixels + PIXELS - 1) / PIXELS, most = (int64_t)RESIDENT * d->processors / squares_of(channels);
    return (int)(stages < most ? stages : most > 0 ? most : 1);
}

template <typename T>
static ls_status launch(cuda_device *d, cudaStream_t stream, const conv_moments *m, const batch_norm_channels &c,
                        float *space, ls_message *why)
{
    int channels = (int)m->channels, outputs = (int)m->outputs, squares = squares_of(channels);
    int chunks = chunks_for(d, m->pixels, channels);
    float *products = space, *sums = products + (int64_t)chunks * squares * SQUARE;
    float *mean = sums + (int64_t)chunks * channels, *cov = mean + channels;
    size_t bytes = STAGES * 2 * STAGE * sizeof(uint4);
    CUDA_TRY(cuda_check(cudaFuncSetAttribute(moments<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
                        "shared memory", why));
    moments<T><<<dim3(squares, chunks), THREADS, bytes, stream>>>((const uint16_t *)m->x, m->pixels, channels, products,
                                                                  sums);
    covariance<<<dim3(squares, SQUARE / TOGETHER), ADDERS, 0, stream>>>(products, sums, chunks, channels,
                                                                        (double)m->pixels, mean, cov);
    fold<T><<<(outputs + OUTPUTS - 1) / OUTPUTS, FOLDERS, 0, stream>>>((const T *)m->x, (const T *)m->weights, channels,
                                                                       outputs, mean, cov, c, channels_of(m->bias),
                                                                       (T *)m->folded, (T *)m->vector);
    return CUDA_LAUNCHED(why);
}

extern "C" ls_status conv_moments_fold(cuda_device *d, cudaStream_t stream, const conv_moments *m, ls_message *why)
{
    int channels = (int)m->channels, chunks = chunks_for(d, m->pixels, channels);
    size_t numbers =
        (size_t)chunks * (size_t)(squares_of(channels) * SQUARE + channels) + (size_t)channels * (size_t)(channels + 1);
    batch_norm_channels c = {};
    c.training = true, c.count = (double)m->pixels, c.epsilon = m->epsilon, c.momentum = m->momentum;
    c.weight = channels_of(m->gain), c.bias = channels_of(m->shift);
    c.running_mean = channels_of(m->running_mean), c.running_var = channels_of(m->running_var);
    ls_workspace space = {};
    CUDA_TRY(cuda_take(d, numbers * sizeof(float), &space, why));
    ls_status status = (m->dtype == LS_F16 ? launch<f16> : launch<bf16>)(d, stream, m, c, (float *)space.address, why);
    cuda_give(d, space);
    return status;
}
