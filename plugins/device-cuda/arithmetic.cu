/* arithmetic.cu - two inputs: arithmetic, the larger and the smaller, comparisons. The CPU's definitions are in
 * src/kernels/ref/elementwise.c; integers wrap around. */
#include "map.cuh"
#include "whole.cuh"

/* As Python's %: the sign of y. fmod() is exact. */
template <typename R> static __device__ __forceinline__ R remainder_of(R x, R y)
{
    R r = fmod(x, y);
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

/* clang-format off */
MAP_REAL(add,         x + y)
MAP_REAL(sub,         x - y)
MAP_REAL(mul,         x * y)
MAP_REAL(div,         x / y)
MAP_REAL(pow,         ::pow(x, y))
MAP_REAL(maximum,     x > y || x != x ? x : y)
MAP_REAL(minimum,     x < y || x != x ? x : y)
MAP_REAL(remainder,   remainder_of(x, y))
MAP_REAL(eq,          x == y)
MAP_REAL(ne,          x != y)
MAP_REAL(lt,          x < y)
MAP_REAL(le,          x <= y)
MAP_REAL(gt,          x > y)
MAP_REAL(ge,          x >= y)
MAP_REAL(logical_and, x != 0 && y != 0)
MAP_REAL(logical_or,  x != 0 || y != 0)

MAP_WHOLE(add,         (uint64_t)x + (uint64_t)y)
MAP_WHOLE(sub,         (uint64_t)x - (uint64_t)y)
MAP_WHOLE(mul,         whole_multiply(x, y))
MAP_WHOLE(pow,         whole_power(x, y))
MAP_WHOLE(maximum,     x > y ? x : y)
MAP_WHOLE(minimum,     x < y ? x : y)
MAP_WHOLE(remainder,   whole_remainder(x, y))
MAP_WHOLE(eq,          x == y)
MAP_WHOLE(ne,          x != y)
MAP_WHOLE(lt,          x < y)
MAP_WHOLE(le,          x <= y)
MAP_WHOLE(gt,          x > y)
MAP_WHOLE(ge,          x >= y)
MAP_WHOLE(logical_and, x && y)
MAP_WHOLE(logical_or,  x || y)
/* clang-format on */

MAP_ALL(add, 2, false)
MAP_ALL(sub, 2, false)
MAP_ALL(mul, 2, false)
MAP_FLOAT(div, 2, false)
MAP_ALL(pow, 2, false)
MAP_ALL(maximum, 2, false)
MAP_ALL(minimum, 2, false)
MAP_ALL(remainder, 2, false)
MAP_ALL(eq, 2, true)
MAP_ALL(ne, 2, true)
MAP_ALL(lt, 2, true)
MAP_ALL(le, 2, true)
MAP_ALL(gt, 2, true)
MAP_ALL(ge, 2, true)
MAP_ALL(logical_and, 2, true)
MAP_ALL(logical_or, 2, true)

MAP_OPERATOR(add, 0, 0)
MAP_OPERATOR(sub, 0, 0)
MAP_OPERATOR(div, 0, 0)
MAP_OPERATOR(pow, 0, 0)
MAP_OPERATOR(maximum, 0, 0)
MAP_OPERATOR(minimum, 0, 0)
MAP_OPERATOR(remainder, 0, 0)
MAP_OPERATOR(eq, 0, 0)
MAP_OPERATOR(ne, 0, 0)
MAP_OPERATOR(lt, 0, 0)
MAP_OPERATOR(le, 0, 0)
MAP_OPERATOR(gt, 0, 0)
MAP_OPERATOR(ge, 0, 0)
MAP_OPERATOR(logical_and, 0, 0)
MAP_OPERATOR(logical_or, 0, 0)

/* ---- products ---- */

/* x *= factor, contiguous and aligned. Clipping multiplies all gradients by a number that is often 1: then nothing is
 * read or written, and the host need not wait to find out. */
static __global__ void __launch_bounds__(MAP_BLOCK) scale(void *x, const void *factor, int dtype, int64_t count)
{
    float by = load_as<float>(dtype, factor, 0);
    if (by == 1) return;
    int64_t groups = count / 8, last = groups * 8 + threadIdx.x;
    CUDA_EACH(g, groups)
    {
        float values[8];
        load8(dtype, x, g * 8, values);
        for (int k = 0; k < 8; k++) values[k] *= by;
        store8(dtype, x, g * 8, values);
    }
    if (blockIdx.x == 0 && last < count) store_as<float>(dtype, x, last, load_as<float>(dtype, x, last) * by);
}

/* Is it a product in place with one number, of f32 or a half type? */
static bool scales(const ls_operand *x, const ls_operand *factor, const ls_operand *out)
{
    bool is_one = factor->dtype == x->dtype && out->dtype == x->dtype && factor->ndim <= x->ndim;
    for (int d = 0; d < factor->ndim; d++) is_one &= factor->dim[d] == 1 || factor->stride[d] == 0;
    return is_one && cuda_is_float(x->dtype) && x->dtype != LS_F64 && x->data == out->data &&
           cuda_aligned(x->data, 16) && cuda_numel(x) == cuda_numel(out) && cuda_contiguous(x) && cuda_contiguous(out);
}

/* in: a, b  out: y; shapes broadcast to that of y */
ls_status cuda_mul(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    const ls_operand *x = call->in[0], *factor = call->in[1], *out = call->out[0];
    if (!scales(x, factor, out)) return map_run(d, stream, call, &mul_map, 0, 0, why);
    int64_t count = cuda_numel(x);
    if (count == 0) return LS_OK;
    scale<<<cuda_blocks(d, count / 8 + 1, MAP_BLOCK), MAP_BLOCK, 0, stream>>>(x->data, factor->data, x->dtype, count);
    return CUDA_LAUNCHED(why);
}
