/* values.cu - see values.h. */
#include "values.h"

struct values {
    unsigned char byte[LS_VALUES_BYTES];
};

static __global__ void put_values(unsigned char *to, values from, unsigned bytes)
{
    unsigned i = threadIdx.x;
    if (i < bytes) to[i] = from.byte[i];
}

ls_status cuda_put_values(cudaStream_t stream, void *to, const void *from, size_t bytes, ls_message *why)
{
    if (bytes > LS_VALUES_BYTES) return cuda_refuse(why, LS_ERR_INTERNAL, "%zu bytes are too many values", bytes);
    values taken;
    memcpy(taken.byte, from, bytes);
    put_values<<<1, LS_VALUES_BYTES, 0, stream>>>((unsigned char *)to, taken, (unsigned)bytes);
    return CUDA_LAUNCHED(why);
}

cudaError_t cuda_has_code(void)
{
    cudaFuncAttributes attributes;
    return cudaFuncGetAttributes(&attributes, put_values);
}
