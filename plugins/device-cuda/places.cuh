/* places.cuh - a set of positions, and where each lies in the memory of several operands.
 *
 * The host adds the dimensions that a kernel walks, outermost first; those of size 1 are dropped, and neighbours that
 * are contiguous in every operand are merged. Kernels number positions row-major. Offsets and strides count elements.
 * A set of places without dimensions has one position, at offset 0. */
#ifndef LOCKSTEP_CUDA_PLACES_CUH
#define LOCKSTEP_CUDA_PLACES_CUH

#include "number.cuh"

template <int operands> struct places {
    int32_t ndim;
    int64_t count;
    int64_t dim[LS_MAX_DIMS];
    int64_t stride[LS_MAX_DIMS][operands];
};

template <int operands> static void places_add(places<operands> *p, int64_t size, const int64_t (&stride)[operands])
{
    p->count *= size;
    if (size == 1) return;
    int last = p->ndim - 1;
    bool joins = last >= 0;
    for (int i = 0; joins && i < operands; i++) joins = p->stride[last][i] == size * stride[i];
    if (joins) p->dim[last] *= size;
    else p->dim[last = p->ndim++] = size;
    for (int i = 0; i < operands; i++) p->stride[last][i] = stride[i];
}

template <int operands> static places<operands> places_begin(void)
{
    places<operands> p = {};
    p.count = 1;
    return p;
}

/* Offsets of position `at`. Divides in 32 bits where all positions have numbers below 2^31. */
template <int operands>
static __device__ __forceinline__ void places_find(const places<operands> &p, int64_t at, int64_t (&offset)[operands])
{
#pragma unroll
    for (int i = 0; i < operands; i++) offset[i] = 0;
    if (p.count <= INT32_MAX) {
        uint32_t left = (uint32_t)at;
        for (int d = p.ndim - 1; d > 0; d--) {
            uint32_t size = (uint32_t)p.dim[d], outer = left / size, here = left - outer * size;
#pragma unroll
            for (int i = 0; i < operands; i++) offset[i] += here * p.stride[d][i];
            left = outer;
        }
        at = left;
    } else {
        for (int d = p.ndim - 1; d > 0; d--) {
            int64_t outer = at / p.dim[d], here = at - outer * p.dim[d];
#pragma unroll
            for (int i = 0; i < operands; i++) offset[i] += here * p.stride[d][i];
            at = outer;
        }
    }
    if (p.ndim)
#pragma unroll
        for (int i = 0; i < operands; i++) offset[i] += at * p.stride[0][i];
}

/* Blocks of `threads` for n positions when each thread strides over the grid: enough to fill the device. */
static inline unsigned grid_for(const cuda_device *d, int64_t n, int threads)
{
    int64_t wanted = (n + threads - 1) / threads, most = (int64_t)d->processors * (2048 / threads) * 4;
    return (unsigned)(wanted < 1 ? 1 : wanted < most ? wanted : most);
}

#endif
