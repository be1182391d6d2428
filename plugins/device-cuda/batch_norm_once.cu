/* batch_norm_once.cu - batch normalisation of batches that fit into the processors' shared memory: each number is read
 * once, where the other ways read it twice.
 *
 * Blocks are (slab of 64 channels, chunk of rows), all at work at the same time. Each copies its rows to shared memory,
 * adds them up, waits for the other blocks of its slab, adds up the sums of all of them, in a fixed order, and writes
 * its part of the result. A thread reads back only what it has copied itself. */
#include <cuda_pipeline.h>

#include "batch_norm.cuh"
#include "eight.cuh"

enum {
    THREADS = 512,
    LANES = 8, /* threads beside each other, eight channels each */
    BELOW = THREADS / LANES,
    WARPS = THREADS / 32,
    NUMBERS = LANES * 16, /* sums of a block: two of each channel */
    TEAMS = THREADS / NUMBERS,
    TOGETHER = 4, /* rows of a residual that are loaded at once */
    STAGES = 4,   /* of copying: the first is added up while the others still arrive */
    SLAB = LANES * 8,
    MOST_BYTES = 200 << 10, /* of shared memory for rows */
};

/* ---- waiting for the other blocks of a slab ---- */

/* Both are 0 between kernels. Blocks wait for each other, so all of them must be resident: there is one for each
 * processor at most, and nothing else that waits may run beside them. Operators and collectives share one stream; if
 * collectives get a stream of their own, leave them some processors here. */
static __device__ unsigned arrived[BATCH_NORM_COUNTERS], gone[BATCH_NORM_COUNTERS];

static __device__ void meet(int slab, unsigned blocks)
{
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(arrived + slab, 1);
        while (*(volatile unsigned *)(arrived + slab) < blocks) {}
        if (atomicAdd(gone + slab, 1) == blocks - 1) arrived[slab] = gone[slab] = 0; /* nobody waits any more */
        __threadfence();
    }
    __syncthreads();
}

/* ---- the kernel ---- */

template <typename T, bool BACK>
__global__ void __launch_bounds__(THREADS, 1)
    pixel_once(batch_norm_data b, batch_norm_channels c, float *space, int rounds)
{
    extern __shared__ uint4 tile[]; /* [rounds][THREADS] of x, and of dy; then [rounds][BELOW] words of the mask */
    __shared__ float sums[WARPS][NUMBERS];
    __shared__ double totals[TEAMS][NUMBERS];
    __shared__ coefficients<float> coefficient[SLAB];
    int lane = threadIdx.x % LANES, below = threadIdx.x / LANES, chunks = gridDim.y, slab = (int)blockIdx.x;
    int64_t first = ((int64_t)slab * LANES + lane) * 8, row = (int64_t)blockIdx.y * rounds * BELOW + below;
    int64_t left = (b.rows - row + BELOW - 1) / BELOW;
    int own_rows = row >= b.rows ? 0 : left < rounds ? (int)left : rounds;
    uint4 *xs = tile + threadIdx.x, *dys = xs + rounds * THREADS;
    uint64_t *masks = (uint64_t *)(tile + 2 * rounds * THREADS) + below;
    bool masked = BACK && b.mask;
    const T *x = (const T *)b.x + row * b.channels + first, *dy = (const T *)b.dy + row * b.channels + first;
    const uint8_t *mask = b.mask + row * b.mask_pitch + slab * LANES;

    for (int stage = 0; stage < STAGES; stage++) {
        for (int j = rounds * stage / STAGES; j < min(own_rows, rounds * (stage + 1) / STAGES); j++) {
            int64_t down = (int64_t)j * BELOW;
            __pipeline_memcpy_async(xs + j * THREADS, x + down * b.channels, 16);
            if (BACK) __pipeline_memcpy_async(dys + j * THREADS, dy + down * b.channels, 16);
            if (masked && lane == 0) __pipeline_memcpy_async(masks + j * BELOW, mask + down * b.mask_pitch, 8);
        }
        __pipeline_commit();
    }

    channel_values before = {};
    if (threadIdx.x < SLAB) before = read_channel(c, (int64_t)slab * SLAB + threadIdx.x);
    float sum[8], second[8], pivot[8];
#pragma unroll
    for (int k = 0; k < 8; k++) {
        sum[k] = second[k] = 0;
        pivot[k] = BACK ? (float)channel(c.mean, first + k, 0) : as<float>(((const T *)b.x)[first + k]);
    }
#pragma unroll
    for (int stage = 0; stage < STAGES; stage++) {
        __pipeline_wait_prior(STAGES - 1 - stage);
        if (BACK) __syncwarp(); /* one of the eight threads of a row copies its mask */
#pragma unroll 2
        for (int j = rounds * stage / STAGES; j < min(own_rows, rounds * (stage + 1) / STAGES); j++) {
            eight<T> in, given;
            in.part[0] = xs[j * THREADS];
            if (BACK) given.part[0] = dys[j * THREADS];
            unsigned bits = masked ? ((const uint8_t *)(masks + j * BELOW))[lane] : 255u;
#pragma unroll
            for (int k = 0; k < 8; k++) {
                float away = as<float>(in.element[k]) - pivot[k], factor = away;
                if (BACK) factor = bits >> k & 1 ? as<float>(given.element[k]) : 0;
                sum[k] += factor;
                second[k] += factor * away;
            }
        }
    }

    /* The four rows of a warp, then its warps, then all blocks. */
#pragma unroll
    for (int k = 0; k < 8; k++) {
        for (int apart = LANES; apart < 32; apart *= 2) {
            sum[k] += __shfl_xor_sync(0xffffffffu, sum[k], apart);
            second[k] += __shfl_xor_sync(0xffffffffu, second[k], apart);
        }
        if (threadIdx.x % 32 < LANES) {
            sums[threadIdx.x / 32][lane * 16 + k] = sum[k];
            sums[threadIdx.x / 32][lane * 16 + 8 + k] = second[k];
        }
    }
    __syncthreads();
    float *all = space + (int64_t)slab * chunks * NUMBERS;
    if (threadIdx.x < NUMBERS) {
        float total = 0;
        for (int w = 0; w < WARPS; w++) total += sums[w][threadIdx.x];
        all[(int64_t)blockIdx.y * NUMBERS + threadIdx.x] = total;
    }
    meet(slab, gridDim.y);

    int own = threadIdx.x % NUMBERS, team = threadIdx.x / NUMBERS;
    double total = 0;
    for (int chunk = team; chunk < chunks; chunk += 8 * TEAMS) {
        float part[8];
#pragma unroll
        for (int j = 0; j < 8; j++) {
            int from = chunk + j * TEAMS;
            part[j] = from < chunks ? __ldcg(all + (int64_t)from * NUMBERS + own) : 0;
        }
#pragma unroll
        for (int j = 0; j < 8; j++) total += part[j];
    }
    totals[team][own] = total;
    __syncthreads();
    if (threadIdx.x < SLAB) {
        double one = 0, two = 0;
        int at = threadIdx.x / 8 * 16 + threadIdx.x % 8;
        for (int t = 0; t < TEAMS; t++) one += totals[t][at], two += totals[t][at + 8];
        int64_t channel_of = (int64_t)slab * SLAB + threadIdx.x;
        double from = BACK ? 0 : (double)as<float>(((const T *)b.x)[channel_of]);
        coefficient[threadIdx.x] = finish_channel<float>(c, before, channel_of, from, one, two, blockIdx.y == 0);
    }
    __syncthreads();

    float scale[8], slope[8], shift[8];
#pragma unroll
    for (int k = 0; k < 8; k++) {
        coefficients<float> found = coefficient[lane * 8 + k];
        scale[k] = found.scale, slope[k] = found.slope, shift[k] = found.shift;
    }
    int64_t start = row * b.channels + first;
    const T *residual = b.residual ? (const T *)b.residual + start : NULL;
    T *dresidual = b.dresidual ? (T *)b.dresidual + start : NULL, *y = (T *)(BACK ? b.dx : b.y) + start;
    uint8_t *mask_to = b.mask ? b.mask + row * b.mask_pitch + first / 8 : NULL;
    bool relu = b.relu;
    for (int j = 0; j < own_rows; j += TOGETHER) {
        eight<T> more[TOGETHER];
#pragma unroll
        for (int u = 0; u < TOGETHER; u++)
            if (!BACK && residual)
                more[u].template load<true>(residual + (int64_t)(j + u) * BELOW * b.channels, j + u < own_rows);
#pragma unroll
        for (int u = 0; u < TOGETHER; u++) {
            if (j + u >= own_rows) break;
            int64_t down = (int64_t)(j + u) * BELOW;
            eight<T> in, given, out;
            in.part[0] = xs[(j + u) * THREADS];
            if (BACK) {
                given.part[0] = dys[(j + u) * THREADS];
                unsigned bits = masked ? ((const uint8_t *)(masks + (j + u) * BELOW))[lane] : 255u;
#pragma unroll
                for (int k = 0; k < 8; k++) {
                    if (!(bits >> k & 1)) given.element[k] = as<T>(0.0f);
                    out.element[k] = as<T>(as<float>(given.element[k]) * scale[k] +
                                           (as<float>(in.element[k]) * slope[k] + shift[k]));
                }
                if (dresidual) given.template store<true>(dresidual + down * b.channels, 8);
            } else {
                unsigned bits = 0;
#pragma unroll
                for (int k = 0; k < 8; k++) {
                    float value = as<float>(in.element[k]) * scale[k] + shift[k];
                    if (residual) value += as<float>(more[u].element[k]);
                    bits |= (unsigned)(value > 0) << k;
                    out.element[k] = as<T>(relu && value < 0 ? 0 : value); /* NaN stays */
                }
                if (mask_to) mask_to[down * b.mask_pitch] = (uint8_t)bits;
            }
            out.template store<true>(y + down * b.channels, 8);
        }
    }
}

/* ---- launch ---- */

struct shares {
    int slabs, chunks, rounds; /* rounds: rows of a thread */
};

static shares shares_of(const cuda_device *d, const batch_norm_data &b)
{
    shares s = {(int)(b.channels / SLAB), 1, 1};
    if (s.slabs < 1 || s.slabs > d->processors) return s;
    int64_t sweeps = (b.rows + BELOW - 1) / BELOW, most = d->processors / s.slabs;
    s.rounds = (int)((sweeps + most - 1) / most);
    s.chunks = (int)((sweeps + s.rounds - 1) / s.rounds);
    return s;
}

static size_t bytes_of(const shares &s, bool backward)
{
    return (size_t)s.rounds * (backward ? THREADS * 32 + BELOW * 8 : THREADS * 16);
}

bool batch_norm_once_fits(const cuda_device *d, ls_dtype dtype, const batch_norm_data &b, const batch_norm_channels &c)
{
    const void *all[] = {b.x, b.dy, b.residual, b.y, b.dx, b.dresidual};
    if ((dtype != LS_F16 && dtype != LS_BF16) || !c.training || (c.backward && !b.dx)) return false;
    if (b.channels % SLAB || b.channels / SLAB > d->processors || b.rows > INT32_MAX) return false;
    for (const void *address : all)
        if (!can_load_eight(address)) return false;
    return d->architecture >= 90 && bytes_of(shares_of(d, b), c.backward) <= MOST_BYTES;
}

size_t batch_norm_once_space(const cuda_device *d, const batch_norm_data &b)
{
    shares s = shares_of(d, b);
    return (size_t)s.slabs * (size_t)s.chunks * NUMBERS * sizeof(float);
}

template <typename T, bool BACK>
static ls_status launch(cudaStream_t stream, const shares &s, const batch_norm_data &b, const batch_norm_channels &c,
                        void *space, ls_message *why)
{
    size_t bytes = bytes_of(s, BACK);
    CUDA_TRY(
        cuda_check(cudaFuncSetAttribute(pixel_once<T, BACK>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
                   "shared memory of batch norm", why));
    dim3 blocks((unsigned)s.slabs, (unsigned)s.chunks);
    pixel_once<T, BACK><<<blocks, THREADS, bytes, stream>>>(b, c, (float *)space, s.rounds);
    return CUDA_LAUNCHED(why);
}

ls_status batch_norm_once(const cuda_device *d, cudaStream_t stream, ls_dtype dtype, const batch_norm_data &b,
                          const batch_norm_channels &c, void *space, ls_message *why)
{
    shares s = shares_of(d, b);
    if (dtype == LS_F16) return (c.backward ? launch<f16, true> : launch<f16, false>)(stream, s, b, c, space, why);
    return (c.backward ? launch<bf16, true> : launch<bf16, false>)(stream, s, b, c, space, why);
}
