/* sort.cu - sort and topk along one dimension.
 *
 * Each element becomes an unsigned key in the wanted order and travels with its position, as on the CPU; values are
 * copied from the input by position. NaN counts as greater than every number and as equal to other NaN; -0 equals 0. */
#include "lines.cuh"
#include "order.h"

static __device__ uint64_t key_of(float f)
{
    uint32_t bits = __float_as_uint(f + 0.0f);
    bits ^= (0u - (bits >> 31)) | 0x80000000u; /* negative: flip all bits, which reverses their order; else the sign */
    return f != f ? UINT32_MAX : bits;
}

static __device__ uint64_t key_of(double f)
{
    uint64_t bits = (uint64_t)__double_as_longlong(f + 0.0);
    bits ^= (0ull - (bits >> 63)) | 1ull << 63;
    return f != f ? UINT64_MAX : bits;
}

static __device__ uint64_t key_at(const void *x, ls_dtype dtype, int64_t at)
{
    switch (dtype) {
    case LS_F32: return key_of(((const float *)x)[at]);
    case LS_F64: return key_of(((const double *)x)[at]);
    case LS_F16: return key_of(__half2float(((const f16 *)x)[at]));
    case LS_BF16: return key_of(__bfloat162float(((const bf16 *)x)[at]));
    case LS_I64: return (uint64_t)((const int64_t *)x)[at] ^ 1ull << 63;
    case LS_I32: return (uint32_t)((const int32_t *)x)[at] ^ 0x80000000u;
    case LS_I8: return (uint8_t)((const int8_t *)x)[at] ^ 0x80u;
    default: return ((const uint8_t *)x)[at];
    }
}

static int key_bits(ls_dtype dtype)
{
    switch (dtype) {
    case LS_F64:
    case LS_I64: return 64;
    case LS_F32:
    case LS_F16:
    case LS_BF16:
    case LS_I32: return 32;
    default: return 8;
    }
}

__global__ void write_keys(const void *x, ls_dtype dtype, lines<3> l, uint64_t flip, uint64_t *key, uint32_t *index)
{
    int64_t n = l.begins.count * l.length[0];
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x) {
        int64_t line = i / l.length[0], place = i % l.length[0], at[3];
        walk_to(l.begins, line, at);
        key[i] = key_at(x, dtype, at[0] + place * l.step[0]) ^ flip;
        index[i] = (uint32_t)place;
    }
}

/* The first `length[1]` elements of each sorted line. */
template <typename T>
__global__ void write_sorted(const T *x, T *values, int64_t *indices, lines<3> l, const uint32_t *index)
{
    int64_t n = l.begins.count * l.length[1];
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x) {
        int64_t line = i / l.length[1], place = i % l.length[1], at[3];
        walk_to(l.begins, line, at);
        int64_t from = index[line * l.length[0] + place];
        values[at[1] + place * l.step[1]] = x[at[0] + from * l.step[0]];
        indices[at[2] + place * l.step[2]] = from;
    }
}

static ls_status write_result(cuda_device *d, cudaStream_t stream, const ls_call *call, const lines<3> &l,
                              const uint32_t *index, ls_message *why)
{
    const ls_operand *x = call->in[0], *values = call->out[0];
    int64_t *indices = (int64_t *)call->out[1]->data;
    unsigned blocks = cuda_blocks(d, l.begins.count * l.length[1], 256);
#define WRITE(type)                                                                                                    \
    write_sorted<<<blocks, 256, 0, stream>>>((const type *)x->data, (type *)values->data, indices, l, index)
    switch (d->host->dtype_size(x->dtype)) {
    case 1: WRITE(uint8_t); break;
    case 2: WRITE(uint16_t); break;
    case 4: WRITE(uint32_t); break;
    default: WRITE(uint64_t); break;
    }
#undef WRITE
    return CUDA_LAUNCHED(why);
}

static ls_status order_along(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    const ls_operand *x = call->in[0], *const operands[3] = {x, call->out[0], call->out[1]};
    lines<3> l = lines_along(operands, call->attrs.axis.dim);
    if (!l.begins.count || !l.length[0] || !l.length[1]) return LS_OK;
    int bits = key_bits(x->dtype);
    uint64_t flip = !call->attrs.axis.flag ? 0 : bits == 64 ? UINT64_MAX : (1ull << bits) - 1;
    cuda_order order;
    CUDA_TRY(cuda_order_begin(d, l.begins.count, l.length[0], &order, why));
    write_keys<<<cuda_blocks(d, l.begins.count * l.length[0], 256), 256, 0, stream>>>(x->data, x->dtype, l, flip,
                                                                                      order.key[0], order.index[0]);
    ls_status status = cuda_order_run(d, stream, &order, bits, why);
    if (!status) status = write_result(d, stream, call, l, order.index[order.at], why);
    cuda_order_end(d, &order);
    return status;
}

ls_status cuda_sort(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    return order_along(d, stream, call, why);
}

ls_status cuda_topk(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    return order_along(d, stream, call, why);
}
