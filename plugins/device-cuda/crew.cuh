/* crew.cuh - lines shared out to crews of threads: a warp each, or a block each where lines are long and few. */
#ifndef LOCKSTEP_CUDA_CREW_CUH
#define LOCKSTEP_CUDA_CREW_CUH

#include "lines.cuh"

/* Sum and maximum over a crew; every thread gets the result. All threads of a block call them together. */
template <bool by_block, typename W> static __device__ W crew_sum(W x)
{
    x = warp_sum(x);
    if (!by_block) return x;
    __shared__ W shared[32];
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
    __syncthreads();
    return warp_sum(threadIdx.x % 32 < blockDim.x / 32 ? shared[threadIdx.x % 32] : (W)0);
}

template <bool by_block, typename W> static __device__ W crew_max(W x)
{
    x = warp_max(x);
    if (!by_block) return x;
    __shared__ W shared[32];
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
    __syncthreads();
    return warp_max(threadIdx.x % 32 < blockDim.x / 32 ? shared[threadIdx.x % 32] : -(W)INFINITY);
}

/* For each line of this crew: `index` is the thread's number in its crew of `size`. */
#define EACH_LINE(l)                                                                                                   \
    int index = by_block ? threadIdx.x : threadIdx.x % 32, size = by_block ? blockDim.x : 32;                          \
    int64_t line = by_block ? blockIdx.x : (int64_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;                 \
    int64_t lines_apart = by_block ? gridDim.x : (int64_t)gridDim.x * (blockDim.x / 32);                               \
    for (; line < l.begins.count; line += lines_apart)

static __device__ __forceinline__ float exponential(float x)
{
    return expf(x);
}
static __device__ __forceinline__ double exponential(double x)
{
    return exp(x);
}
static __device__ __forceinline__ float logarithm(float x)
{
    return logf(x);
}
static __device__ __forceinline__ double logarithm(double x)
{
    return log(x);
}

/* A block per line where a warp would take long and lines are few. */
static inline bool line_needs_block(const cuda_device *d, int64_t lines, int64_t length)
{
    return length > 1024 || (length > 256 && lines < d->processors * 8);
}

static inline unsigned blocks_of(const cuda_device *d, int64_t lines, bool by_block)
{
    return by_block ? cuda_blocks(d, lines, 1) : cuda_blocks(d, lines, 4);
}

#endif
