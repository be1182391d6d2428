/* channels.cuh - vectors with a number for each channel, of any floating type: weights, statistics, their gradients. */
#ifndef LOCKSTEP_CUDA_CHANNELS_CUH
#define LOCKSTEP_CUDA_CHANNELS_CUH

#include "number.cuh"

/* [C] of any floating type, read and written one element at a time; data NULL: absent. */
struct channels {
    void *data;
    int32_t dtype;
    int64_t stride;
};

static inline channels channels_of(const ls_operand *vector)
{
    channels v = {NULL, LS_F32, 0};
    if (vector) v.data = vector->data, v.dtype = vector->dtype, v.stride = vector->stride[0];
    return v;
}

static __device__ __forceinline__ double channel(channels v, int64_t c, double absent)
{
    if (!v.data) return absent;
    int64_t i = c * v.stride;
    switch (v.dtype) {
    case LS_F16: return __half2float(((const f16 *)v.data)[i]);
    case LS_BF16: return __bfloat162float(((const bf16 *)v.data)[i]);
    case LS_F64: return ((const double *)v.data)[i];
    default: return ((const float *)v.data)[i];
    }
}

static __device__ __forceinline__ void set_channel(channels v, int64_t c, double value)
{
    if (!v.data) return;
    int64_t i = c * v.stride;
    switch (v.dtype) {
    case LS_F16: ((f16 *)v.data)[i] = __double2half(value); break;
    case LS_BF16: ((bf16 *)v.data)[i] = __double2bfloat16(value); break;
    case LS_F64: ((double *)v.data)[i] = value; break;
    default: ((float *)v.data)[i] = (float)value;
    }
}

#endif
