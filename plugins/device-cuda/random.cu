/* random.cu - random numbers with the same bits as on the CPU: every product and sum is rounded, as in
 * src/kernels/random.c, never fused. Element i, counted in row-major order, uses lane i % 4 of the Philox block at
 * offset + i / 4. randperm is sequential and runs on the host. */
#include <math.h>

#include "any.cuh"
#include "philox.cuh"
#include "walk.cuh"

enum { BLOCK = 256 };

static __device__ __forceinline__ float mul(float a, float b)
{
    return __fmul_rn(a, b);
}

static __device__ __forceinline__ float add(float a, float b)
{
    return __fadd_rn(a, b);
}

/* Natural logarithm of normal numbers in (0, 1]: x = 2^n (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)). */
static __device__ __forceinline__ float log_of(float x)
{
    int32_t bits = __float_as_int(x) - 0x3f3504f3;
    float n = (float)(bits >> 23), f = add(__int_as_float((bits & 0x007fffff) + 0x3f3504f3), -1.0f);
    float p = add(mul(f, -0.0785984471f), 0.128817633f);
    p = add(mul(p, f), -0.131287113f);
    p = add(mul(p, f), 0.141811714f);
    p = add(mul(p, f), -0.166245565f);
    p = add(mul(p, f), 0.200022876f);
    p = add(mul(p, f), -0.250008106f);
    p = add(mul(p, f), 0.333333164f);
    float square = mul(f, f), tail = add(mul(square, add(mul(f, p), -0.5f)), mul(n, 0x1.7f7d1cp-20f));
    return add(mul(n, 0x1.62e4p-1f), add(f, tail));
}

/* sin and cos of turn * 2 pi for turn in [0, 1): of the angle to the nearest quarter turn, then swapped and signed. */
static __device__ __forceinline__ void sine_cosine(float turn, float *sine, float *cosine)
{
    int32_t quarter = (int32_t)add(mul(turn, 4.0f), 0.5f);
    float r = mul(add(mul(turn, 4.0f), -(float)quarter), 1.57079637f), rr = mul(r, r);
    float s = add(mul(mul(add(mul(add(mul(rr, -0.000195175613f), 0.00833218079f), rr), -0.166666552f), rr), r), r);
    float c = add(mul(add(mul(add(mul(rr, 2.44394469e-05f), -0.00138873782f), rr), 0.0416666456f), mul(rr, rr)),
                  add(1.0f, -mul(0.5f, rr)));
    bool swapped = quarter & 1;
    *sine = __int_as_float(__float_as_int(swapped ? c : s) ^ (quarter & 2) << 30);
    *cosine = __int_as_float(__float_as_int(swapped ? s : c) ^ ((quarter + 1) & 2) << 30);
}

/* Two words to two standard normal numbers. */
static __device__ __forceinline__ void normal_pair(uint32_t first, uint32_t second, float *even, float *odd)
{
    float above_zero = mul((float)((int32_t)(first >> 8) + 1), 0x1p-24f), turn = mul((float)(second >> 8), 0x1p-24f);
    float radius = __fsqrt_rn(mul(log_of(above_zero), -2.0f)), sine, cosine;
    sine_cosine(turn, &sine, &cosine);
    *even = mul(radius, cosine);
    *odd = mul(radius, sine);
}

typedef struct draw_args {
    cuda_walk walk; /* in row-major order */
    void *out;
    int32_t dtype;
    int32_t is_normal;
    philox_keys keys;
    uint64_t offset;
    double shift, scale, limit; /* result = shift + scale * number, limit at most */
} draw_args;

/* Four elements per thread. */
static __global__ void __launch_bounds__(BLOCK) draw_real(const __grid_constant__ draw_args a)
{
    CUDA_EACH(block, (a.walk.count + 3) / 4)
    {
        uint4 word = philox(a.keys, a.offset + (uint64_t)block);
        float number[4];
        if (a.is_normal) {
            normal_pair(word.x, word.y, &number[0], &number[1]);
            normal_pair(word.z, word.w, &number[2], &number[3]);
        } else {
            number[0] = mul((float)(word.x >> 8), 0x1p-24f), number[1] = mul((float)(word.y >> 8), 0x1p-24f);
            number[2] = mul((float)(word.z >> 8), 0x1p-24f), number[3] = mul((float)(word.w >> 8), 0x1p-24f);
        }
#pragma unroll
        for (int k = 0; k < 4; k++) {
            int64_t i = block * 4 + k, at[1];
            if (i >= a.walk.count) break;
            walk_to(a.walk, i, at);
            if (a.dtype == LS_F64) {
                double value = __dadd_rn(a.shift, __dmul_rn(a.scale, (double)number[k]));
                ((double *)a.out)[at[0]] = fmin(value, a.limit);
            } else {
                float value = add((float)a.shift, mul((float)a.scale, number[k])), limit = (float)a.limit;
                store_as<float>(a.dtype, a.out, at[0], value < limit ? value : limit);
            }
        }
    }
}

static __global__ void __launch_bounds__(BLOCK) draw_bernoulli(const __grid_constant__ draw_args a, uint32_t threshold)
{
    CUDA_EACH(block, (a.walk.count + 3) / 4)
    {
        uint4 drawn = philox(a.keys, a.offset + (uint64_t)block);
        uint32_t word[4] = {drawn.x, drawn.y, drawn.z, drawn.w};
#pragma unroll
        for (int k = 0; k < 4; k++) {
            int64_t i = block * 4 + k, at[1];
            if (i >= a.walk.count) break;
            walk_to(a.walk, i, at);
            store_whole(a.dtype, a.out, at[0], word[k] >> 8 < threshold);
        }
    }
}

static draw_args draw_of(const ls_call *call)
{
    draw_args a = {};
    a.walk = cuda_walk_of(&call->out[0], 1, true);
    a.out = call->out[0]->data;
    a.dtype = call->out[0]->dtype;
    a.keys = philox_keys_of(call->attrs.random.seed);
    a.offset = call->attrs.random.offset;
    return a;
}

static ls_status launch_real(const cuda_device *d, cudaStream_t stream, const draw_args *a, ls_message *why)
{
    if (a->walk.count == 0) return LS_OK;
    draw_real<<<cuda_blocks(d, (a->walk.count + 3) / 4, BLOCK), BLOCK, 0, stream>>>(*a);
    return CUDA_LAUNCHED(why);
}

/* The largest value of the type below `high`: rounding must not reach the open end of an interval. */
static double largest_below(ls_dtype dtype, double high)
{
    float single = (float)high;
    if (dtype == LS_F64) return nextafter(high, -INFINITY);
    if (dtype == LS_F32) return (double)((double)single < high ? single : nextafterf(single, -INFINITY));
    bool is_f16 = dtype == LS_F16;
    uint16_t half =
        is_f16 ? __half_as_ushort(__float2half_rn(single)) : __bfloat16_as_ushort(__float2bfloat16_rn(single));
    for (int tries = 0;; tries++) {
        double value =
            (double)(is_f16 ? __half2float(__ushort_as_half(half)) : __bfloat162float(__ushort_as_bfloat16(half)));
        if (value < high || tries == 1) return value;
        half = half & 0x8000u ? (uint16_t)(half + 1u) : half ? (uint16_t)(half - 1u) : (uint16_t)0x8001u;
    }
}

/* in: none  out: y, floating; uniform in [attrs.random.a, attrs.random.b) with 24 random bits */
ls_status cuda_uniform(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    ls_dtype dtype = call->out[0]->dtype;
    double low = call->attrs.random.a, high = call->attrs.random.b;
    if (!cuda_is_float(dtype)) return cuda_refuse(why, LS_ERR_DTYPE, "uniform supports floating types only");
    draw_args a = draw_of(call);
    a.shift = low;
    a.scale = high - low;
    a.limit = low < high ? largest_below(dtype, high) : high;
    return launch_real(d, stream, &a, why);
}

/* in: none  out: y, floating; normal with mean attrs.random.a and std attrs.random.b */
ls_status cuda_normal(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    if (!cuda_is_float(call->out[0]->dtype))
        return cuda_refuse(why, LS_ERR_DTYPE, "normal supports floating types only");
    draw_args a = draw_of(call);
    a.is_normal = 1;
    a.shift = call->attrs.random.a;
    a.scale = call->attrs.random.b;
    a.limit = INFINITY;
    return launch_real(d, stream, &a, why);
}

/* in: none  out: y, any type; 1 with probability attrs.random.a, else 0 */
ls_status cuda_bernoulli(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    draw_args a = draw_of(call);
    if (a.walk.count == 0) return LS_OK;
    draw_bernoulli<<<cuda_blocks(d, (a.walk.count + 3) / 4, BLOCK), BLOCK, 0, stream>>>(
        a, philox_threshold(call->attrs.random.a));
    return CUDA_LAUNCHED(why);
}
