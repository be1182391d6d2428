/* dropout.cu - dropout, with the same bits as on the CPU. */
#include "number.cuh"
#include "philox.cuh"
#include "walk.cuh"

enum { BLOCK = 256 };

typedef struct dropout_args {
    cuda_walk walk; /* y, x, in row-major order */
    void *out;
    const void *x;
    int32_t dtype;
    uint32_t threshold;
    philox_keys keys;
    uint64_t offset;
    double scale;
} dropout_args;

/* Contiguous; eight elements per thread. */
static __global__ void __launch_bounds__(BLOCK) drop_dense(const __grid_constant__ dropout_args a)
{
    float scale = (float)a.scale;
    int64_t groups = a.walk.count / 8;
    CUDA_EACH(g, groups)
    {
        float x[8];
        load8(a.dtype, a.x, g * 8, x);
        uint4 low = philox(a.keys, a.offset + (uint64_t)g * 2), high = philox(a.keys, a.offset + (uint64_t)g * 2 + 1);
        uint32_t word[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
        for (int k = 0; k < 8; k++) x[k] = word[k] >> 8 >= a.threshold ? x[k] * scale : 0.0f;
        store8(a.dtype, a.out, g * 8, x);
    }
    int64_t last = groups * 8 + threadIdx.x;
    if (blockIdx.x == 0 && last < a.walk.count) {
        uint4 block = philox(a.keys, a.offset + (uint64_t)last / 4);
        uint32_t word = last % 4 == 0 ? block.x : last % 4 == 1 ? block.y : last % 4 == 2 ? block.z : block.w;
        float x = load_as<float>(a.dtype, a.x, last);
        store_as<float>(a.dtype, a.out, last, word >> 8 >= a.threshold ? x * scale : 0.0f);
    }
}

/* Any layout; four elements per thread. */
template <typename C>
static __global__ void __launch_bounds__(BLOCK) drop_strided(const __grid_constant__ dropout_args a)
{
    C scale = (C)a.scale;
    CUDA_EACH(block, (a.walk.count + 3) / 4)
    {
        uint4 drawn = philox(a.keys, a.offset + (uint64_t)block);
        uint32_t word[4] = {drawn.x, drawn.y, drawn.z, drawn.w};
#pragma unroll
        for (int k = 0; k < 4; k++) {
            int64_t i = block * 4 + k, at[2];
            if (i >= a.walk.count) break;
            walk_to(a.walk, i, at);
            C x = load_as<C>(a.dtype, a.x, at[1]);
            store_as<C>(a.dtype, a.out, at[0], word[k] >> 8 >= a.threshold ? x * scale : (C)0);
        }
    }
}

/* in: x, kept? out: y, same shape, kept? Element i is kept if its uniform number is at least p. The gradient is this
 * operator applied to dy with the same seed and offset. `kept` is not used: drawing again is faster than
 * reading it. */
ls_status cuda_dropout(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    const ls_operand *operand[] = {call->out[0], call->in[0]};
    if (operand[0]->dtype != operand[1]->dtype) return cuda_on_host(d, stream, call, why);
    dropout_args a = {};
    a.walk = cuda_walk_of(operand, 2, true);
    a.out = operand[0]->data, a.x = operand[1]->data, a.dtype = operand[0]->dtype;
    a.keys = philox_keys_of(call->attrs.random.seed), a.offset = call->attrs.random.offset;
    a.threshold = philox_threshold(call->attrs.random.a);
    a.scale = 1 / (1 - call->attrs.random.a);
    if (!cuda_is_float(operand[0]->dtype))
        return cuda_refuse(why, LS_ERR_DTYPE, "dropout supports floating types only");
    if (a.walk.count == 0) return LS_OK;
    bool is_dense = cuda_walk_is_dense(&a.walk, 0) && cuda_walk_is_dense(&a.walk, 1) && cuda_aligned(a.out, 16) &&
                    cuda_aligned(a.x, 16);
    unsigned blocks = cuda_blocks(d, (a.walk.count + 3) / 4, BLOCK);
    if (a.dtype == LS_F64) drop_strided<double><<<blocks, BLOCK, 0, stream>>>(a);
    else if (is_dense) drop_dense<<<cuda_blocks(d, a.walk.count / 8 + 1, BLOCK), BLOCK, 0, stream>>>(a);
    else drop_strided<float><<<blocks, BLOCK, 0, stream>>>(a);
    return CUDA_LAUNCHED(why);
}
