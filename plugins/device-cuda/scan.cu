/* scan.cu - operators that walk along one dimension in order: argmax, argmin, cumsum. A block takes a line. */
#include "lines.cuh"

/* ---- argmax, argmin ---- */

struct found {
    double number;
    int64_t whole, index;
};

/* Whether b comes before a: it is more extreme (NaN is the most), or equal and earlier. `sign` is -1 to look for the
 * least. Only one of number and whole is in use; the other is 0 in both. */
static __device__ bool beats(found b, found a)
{
    if (b.index < 0 || a.index < 0) return b.index >= 0;
    bool a_nan = a.number != a.number, b_nan = b.number != b.number;
    if (a_nan || b_nan) return a_nan && b_nan ? b.index < a.index : b_nan;
    if (b.number != a.number) return b.number > a.number;
    if (b.whole != a.whole) return b.whole > a.whole;
    return b.index < a.index;
}

static __device__ found element(const void *x, ls_dtype dtype, int64_t at, int64_t index, bool least)
{
    found f = {0, 0, index};
    switch (dtype) {
    case LS_F32: f.number = ((const float *)x)[at]; break;
    case LS_F64: f.number = ((const double *)x)[at]; break;
    case LS_F16: f.number = __half2float(((const f16 *)x)[at]); break;
    case LS_BF16: f.number = __bfloat162float(((const bf16 *)x)[at]); break;
    case LS_I64: f.whole = ((const int64_t *)x)[at]; break;
    case LS_I32: f.whole = ((const int32_t *)x)[at]; break;
    case LS_I8: f.whole = ((const int8_t *)x)[at]; break;
    default: f.whole = ((const uint8_t *)x)[at]; break;
    }
    if (least) {
        f.number = -f.number;
        f.whole = ~f.whole; /* as order is reversed, without overflow */
    }
    return f;
}

static __device__ found best_of_warp(found f)
{
    for (int lane = 16; lane > 0; lane >>= 1) {
        found other = {__shfl_xor_sync(0xffffffffu, f.number, lane), __shfl_xor_sync(0xffffffffu, f.whole, lane),
                       __shfl_xor_sync(0xffffffffu, f.index, lane)};
        if (beats(other, f)) f = other;
    }
    return f;
}

__global__ void find_extremes(const void *x, ls_dtype dtype, int64_t *y, lines<2> l, bool least)
{
    __shared__ found shared[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    for (int64_t line = blockIdx.x; line < l.begins.count; line += gridDim.x) {
        int64_t at[2];
        walk_to(l.begins, line, at);
        found best = {0, 0, -1};
        for (int64_t i = threadIdx.x; i < l.length[0]; i += blockDim.x) {
            found f = element(x, dtype, at[0] + i * l.step[0], i, least);
            if (beats(f, best)) best = f;
        }
        best = best_of_warp(best);
        __syncthreads();
        if (lane == 0) shared[warp] = best;
        __syncthreads();
        if (warp != 0) continue;
        best = lane < warps ? shared[lane] : found{0, 0, -1};
        best = best_of_warp(best);
        if (lane == 0) y[at[1]] = best.index;
    }
}

static unsigned threads_for(int64_t length)
{
    return length <= 32 ? 32 : length <= 128 ? 128 : 256;
}

static ls_status arg_extreme(cuda_device *d, cudaStream_t stream, const ls_call *call, bool least, ls_message *why)
{
    const ls_operand *const operands[2] = {call->in[0], call->out[0]};
    lines<2> l = lines_along(operands, call->attrs.axis.dim);
    if (!l.begins.count) return LS_OK;
    if (!l.length[0]) return cuda_refuse(why, LS_ERR_VALUE, "the extreme of no elements is undefined");
    find_extremes<<<cuda_blocks(d, l.begins.count, 1), threads_for(l.length[0]), 0, stream>>>(
        call->in[0]->data, call->in[0]->dtype, (int64_t *)call->out[0]->data, l, least);
    return CUDA_LAUNCHED(why);
}

ls_status cuda_argmax(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    return arg_extreme(d, stream, call, false, why);
}

ls_status cuda_argmin(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    return arg_extreme(d, stream, call, true, why);
}

/* ---- cumsum ---- */

/* The sum of this and all earlier lanes. */
template <typename W> static __device__ W scan_warp(W x)
{
    for (int distance = 1; distance < 32; distance <<= 1) {
        W before = __shfl_up_sync(0xffffffffu, x, distance);
        if (threadIdx.x % 32 >= distance) x += before;
    }
    return x;
}

/* Sums are kept in W: f64 for floating numbers, u64, which wraps around, for whole ones. */
template <typename From, typename To, typename W>
__global__ void running_sums(const From *x, To *y, lines<2> l, bool from_end)
{
    __shared__ W sums[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    int64_t n = l.length[0];
    for (int64_t line = blockIdx.x; line < l.begins.count; line += gridDim.x) {
        int64_t at[2];
        walk_to(l.begins, line, at);
        W carried = 0;
        for (int64_t first = 0; first < n; first += blockDim.x) {
            int64_t i = first + threadIdx.x, place = from_end ? n - 1 - i : i;
            W sum = scan_warp(i < n ? (W)as<typename wide<From>::type>(x[at[0] + place * l.step[0]]) : (W)0);
            __syncthreads();
            if (lane == 31) sums[warp] = sum;
            __syncthreads();
            W before = carried;
            for (int w = 0; w < warps; w++) {
                if (w < warp) before += sums[w];
                carried += sums[w];
            }
            if (i < n) y[at[1] + place * l.step[1]] = as<To>(before + sum);
        }
    }
}

ls_status cuda_cumsum(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    const ls_operand *x = call->in[0], *y = call->out[0], *const operands[2] = {x, y};
    lines<2> l = lines_along(operands, call->attrs.axis.dim);
    bool from_end = call->attrs.axis.flag != 0;
    unsigned blocks = cuda_blocks(d, l.begins.count, 1), threads = threads_for(l.length[0]);
    if (!l.begins.count || !l.length[0]) return LS_OK;
#define SUMS(from, to, w)                                                                                              \
    running_sums<from, to, w><<<blocks, threads, 0, stream>>>((const from *)x->data, (to *)y->data, l, from_end)
    if (x->dtype == LS_F32 && y->dtype == LS_F32) SUMS(float, float, double);
    else if (x->dtype == LS_F64 && y->dtype == LS_F64) SUMS(double, double, double);
    else if (x->dtype == LS_F16 && y->dtype == LS_F16) SUMS(f16, f16, double);
    else if (x->dtype == LS_BF16 && y->dtype == LS_BF16) SUMS(bf16, bf16, double);
    else if (x->dtype == LS_I64 && y->dtype == LS_I64) SUMS(int64_t, int64_t, uint64_t);
    else if (x->dtype == LS_I32 && y->dtype == LS_I64) SUMS(int32_t, int64_t, uint64_t);
    else return cuda_on_host(d, stream, call, why);
#undef SUMS
    return CUDA_LAUNCHED(why);
}
