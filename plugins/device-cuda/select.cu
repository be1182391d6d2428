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

/* All without gaps and aligned: 16 bytes of units at a time. */
template <typename Unit>
static __global__ void __launch_bounds__(BLOCK) choose_dense(const __grid_constant__ where_args a)
{
    enum { UNITS = 16 / sizeof(Unit) };
    struct alignas(16) units {
        Unit unit[UNITS];
    };
    struct alignas(UNITS) conditions {
        uint8_t is_true[UNITS];
    };
    int64_t groups = a.walk.count / UNITS;
    CUDA_EACH(g, groups)
    {
        conditions condition = ((const conditions *)a.condition)[g];
        units x = ((const units *)a.a)[g], y = ((const units *)a.b)[g];
        for (int k = 0; k < UNITS; k++) x.unit[k] = condition.is_true[k] ? x.unit[k] : y.unit[k];
        ((units *)a.out)[g] = x;
    }
    int64_t last = groups * UNITS + threadIdx.x;
    if (blockIdx.x == 0 && last < a.walk.count)
        ((Unit *)a.out)[last] = a.condition[last] ? ((const Unit *)a.a)[last] : ((const Unit *)a.b)[last];
}

template <typename Unit> static void launch(const cuda_device *d, cudaStream_t stream, const where_args &a)
{
    bool is_dense =
        cuda_aligned(a.out, 16) && cuda_aligned(a.condition, 16) && cuda_aligned(a.a, 16) && cuda_aligned(a.b, 16);
    for (int i = 0; i < 4; i++) is_dense &= cuda_walk_is_dense(&a.walk, i);
    int64_t groups = a.walk.count / (16 / (int64_t)sizeof(Unit)) + 1;
    if (is_dense) choose_dense<Unit><<<cuda_blocks(d, groups, BLOCK), BLOCK, 0, stream>>>(a);
    else choose<Unit><<<cuda_blocks(d, a.walk.count, BLOCK), BLOCK, 0, stream>>>(a);
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
    switch (d->host->dtype_size(dtype)) {
    case 1: launch<uint8_t>(d, stream, a); break;
    case 2: launch<uint16_t>(d, stream, a); break;
    case 4: launch<uint32_t>(d, stream, a); break;
    default: launch<uint64_t>(d, stream, a); break;
    }
    return CUDA_LAUNCHED(why);
}
