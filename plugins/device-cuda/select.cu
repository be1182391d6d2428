/* select.cu - one of two elements, by a condition. */
#include "number.cuh"
#include "walk.cuh"

enum { BLOCK = 256 };

typedef struct where_args {
    cuda_walk walk; /* y, condition, a, b */
    void *out;
    const uint8_t *condition;
    const void *a, *b;
} where_args;

template <typename Unit> static __global__ void __launch_bounds__(BLOCK) choose(const __grid_constant__ where_args a)
{
    CUDA_EACH(i, a.walk.count)
    {
        int64_t at[4];
        walk_to(a.walk, i, at);
        ((Unit *)a.out)[at[0]] = a.condition[at[1]] ? ((const Unit *)a.a)[at[2]] : ((const Unit *)a.b)[at[3]];
    }
}

/* in: condition (bool), a, b  out: y; shapes broadcast to that of y. Other types run on the host. */
ls_status cuda_where(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    const ls_operand *operand[] = {call->out[0], call->in[0], call->in[1], call->in[2]};
    ls_dtype dtype = operand[0]->dtype;
    if (operand[1]->dtype != LS_BOOL || operand[2]->dtype != dtype || operand[3]->dtype != dtype)
        return cuda_on_host(d, stream, call, why);
    where_args a = {};
    a.walk = cuda_walk_of(operand, 4, false);
    a.out = operand[0]->data, a.condition = (const uint8_t *)operand[1]->data;
    a.a = operand[2]->data, a.b = operand[3]->data;
    if (a.walk.count == 0) return LS_OK;
    unsigned blocks = cuda_blocks(d, a.walk.count, BLOCK);
    switch (d->host->dtype_size(dtype)) {
    case 1: choose<uint8_t><<<blocks, BLOCK, 0, stream>>>(a); break;
    case 2: choose<uint16_t><<<blocks, BLOCK, 0, stream>>>(a); break;
    case 4: choose<uint32_t><<<blocks, BLOCK, 0, stream>>>(a); break;
    default: choose<uint64_t><<<blocks, BLOCK, 0, stream>>>(a); break;
    }
    return CUDA_LAUNCHED(why);
}
