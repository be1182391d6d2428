/* create.cu - constants and sequences. */
#include <limits.h>
#include <math.h>

#include "any.cuh"
#include "walk.cuh"

enum { BLOCK = 256 };

typedef struct fill_args {
    cuda_walk walk;
    void *out;
    uint64_t bits; /* of one element */
} fill_args;

template <typename Unit> static __global__ void __launch_bounds__(BLOCK) fill_units(const __grid_constant__ fill_args a)
{
    Unit unit = (Unit)a.bits;
    CUDA_EACH(i, a.walk.count)
    {
        int64_t at[1];
        walk_to(a.walk, i, at);
        ((Unit *)a.out)[at[0]] = unit;
    }
}

/* Contiguous memory: 16 bytes at a time, then single bytes. */
static __global__ void __launch_bounds__(BLOCK) fill_bytes(uint8_t *out, uint64_t pattern, int64_t bytes)
{
    uint32_t low = (uint32_t)pattern, high = (uint32_t)(pattern >> 32);
    int64_t groups = bytes / 16;
    CUDA_EACH(g, groups)((uint4 *)out)[g] = make_uint4(low, high, low, high);
    int64_t last = groups * 16 + threadIdx.x;
    if (blockIdx.x == 0 && last < bytes) out[last] = (uint8_t)(pattern >> 8 * (threadIdx.x % 8));
}

/* The bits of a number in a type, rounded as on the CPU. */
static uint64_t bits_of(ls_dtype dtype, double value)
{
    int64_t whole = value != value ? 0 : value >= 0x1p63 ? INT64_MAX : value <= -0x1p63 ? INT64_MIN : (int64_t)value;
    float single = (float)value;
    uint32_t word;
    uint64_t bits;
    switch (dtype) {
    case LS_BOOL: return value != 0;
    case LS_U8:
    case LS_I8: return (uint8_t)whole;
    case LS_I32: return (uint32_t)whole;
    case LS_I64: return (uint64_t)whole;
    case LS_F16: return __half_as_ushort(__float2half_rn(single));
    case LS_BF16: return __bfloat16_as_ushort(__float2bfloat16_rn(single));
    case LS_F32: return memcpy(&word, &single, sizeof word), word;
    default: return memcpy(&bits, &value, sizeof bits), bits;
    }
}

/* in: none  out: y, every element attrs.affine.shift */
ls_status cuda_fill(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    const ls_operand *out = call->out[0];
    size_t size = d->host->dtype_size(out->dtype);
    fill_args a = {};
    a.walk = cuda_walk_of(&out, 1, false);
    a.out = out->data;
    a.bits = bits_of(out->dtype, call->attrs.affine.shift);
    if (a.walk.count == 0) return LS_OK;
    if (cuda_walk_is_dense(&a.walk, 0) && cuda_aligned(out->data, 16)) {
        int64_t bytes = a.walk.count * (int64_t)size;
        uint64_t pattern = a.bits;
        for (size_t have = size; have < 8; have *= 2) pattern |= pattern << 8 * have;
        fill_bytes<<<cuda_blocks(d, bytes / 16 + 1, BLOCK), BLOCK, 0, stream>>>((uint8_t *)out->data, pattern, bytes);
        return CUDA_LAUNCHED(why);
    }
    unsigned blocks = cuda_blocks(d, a.walk.count, BLOCK);
    if (size == 1) fill_units<uint8_t><<<blocks, BLOCK, 0, stream>>>(a);
    else if (size == 2) fill_units<uint16_t><<<blocks, BLOCK, 0, stream>>>(a);
    else if (size == 4) fill_units<uint32_t><<<blocks, BLOCK, 0, stream>>>(a);
    else fill_units<uint64_t><<<blocks, BLOCK, 0, stream>>>(a);
    return CUDA_LAUNCHED(why);
}

static __global__ void __launch_bounds__(BLOCK)
    count_up(const __grid_constant__ cuda_walk walk, void *out, int dtype, double start, double step)
{
    bool is_whole = dtype < LS_F16 && (double)whole_of(start) == start && (double)whole_of(step) == step;
    CUDA_EACH(i, walk.count)
    {
        int64_t at[1];
        walk_to(walk, i, at);
        if (is_whole) store_whole(dtype, out, at[0], whole_of(start) + whole_multiply(whole_of(step), i));
        else store_real(dtype, out, at[0], __dadd_rn(start, __dmul_rn(step, (double)i)));
    }
}

/* in: none  out: y; element i is attrs.affine.shift + i * attrs.affine.scale, computed in f64 (or i64, if y is an
 * integer type and both attributes are integers) */
ls_status cuda_arange(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    const ls_operand *out = call->out[0];
    cuda_walk walk = cuda_walk_of(&out, 1, true);
    if (walk.count == 0) return LS_OK;
    count_up<<<cuda_blocks(d, walk.count, BLOCK), BLOCK, 0, stream>>>(
        walk, out->data, out->dtype, call->attrs.affine.shift, call->attrs.affine.scale);
    return CUDA_LAUNCHED(why);
}
