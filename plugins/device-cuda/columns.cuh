/* columns.cuh - sums over the rows of a matrix: the second half of gradients of biases and of norms' weights.
 *
 * Kernels that walk over rows write the sums of each chunk of rows, [chunks, n]; these are then added up in order, so
 * that results are the same in every run. */
#ifndef LOCKSTEP_CUDA_COLUMNS_CUH
#define LOCKSTEP_CUDA_COLUMNS_CUH

#include "number.cuh"

/* Sums of chunks, once per result (dweight, dbias): part [chunks, n] -> to [n]. */
typedef struct column_sums {
    const void *part;
    void *to; /* NULL: not wanted */
    ls_dtype dtype;
    int64_t stride;
    bool accumulate;
} column_sums;

template <typename W> __device__ __forceinline__ void put_total(const column_sums &c, int64_t column, W total)
{
    int64_t at = column * c.stride;
#define PUT(T) ((T *)c.to)[at] = as<T>((W)(c.accumulate ? total + as<W>(((T *)c.to)[at]) : total))
    switch (c.dtype) {
    case LS_F16: PUT(f16); break;
    case LS_BF16: PUT(bf16); break;
    case LS_F64: PUT(double); break;
    default: PUT(float); break;
    }
#undef PUT
}

/* The blocks of add_chunks may be sent to the processors before this kernel has ended, and wait there. */
static __device__ __forceinline__ void let_sums_begin(void)
{
#if __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/* Blocks of 32 columns and 32 rows of threads; gridDim.y results. */
template <typename W>
static __global__ void __launch_bounds__(1024)
    add_chunks(column_sums first, column_sums second, int64_t chunks, int64_t n)
{
    const column_sums &c = blockIdx.y ? second : first;
    __shared__ W sums[32][33];
    int64_t column = (int64_t)blockIdx.x * 32 + threadIdx.x;
    W sum = 0;
    let_sums_begin(); /* those of the next operator, if it follows at once */
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize(); /* until everything before has ended, and its chunks are there */
#endif
    if (c.to && column < n)
        for (int64_t i = threadIdx.y; i < chunks; i += 32) sum += ((const W *)c.part)[i * n + column];
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y || !c.to || column >= n) return;
    for (int i = 1; i < 32; i++) sum += sums[i][threadIdx.x];
    put_total(c, column, sum);
}

/* Follows the kernel that writes the chunks, and, on Hopper, is sent to the processors while that one runs: it would
 * take longer to send than to run. `second` may be empty. */
template <typename W>
static void launch_add_chunks(const cuda_device *d, cudaStream_t stream, column_sums first, column_sums second,
                              int64_t chunks, int64_t n)
{
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t launch = {};
    launch.gridDim = dim3((unsigned)((n + 31) / 32), second.to ? 2 : 1);
    launch.blockDim = dim3(32, 32);
    launch.stream = stream;
    launch.attrs = &early;
    launch.numAttrs = d->architecture >= 90;
    cudaLaunchKernelEx(&launch, add_chunks<W>, first, second, chunks, n);
}

/* Into a vector, or into an operand of several dimensions without gaps. */
static inline column_sums sums_into(const ls_operand *to, const void *part, bool accumulate)
{
    column_sums c = {part, NULL, LS_F32, 1, accumulate};
    if (to) c.to = to->data, c.dtype = to->dtype, c.stride = to->ndim == 1 ? to->stride[0] : 1;
    return c;
}

#endif
