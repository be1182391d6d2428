/* activation.cu - activations and their gradients, with the CPU's definitions (src/kernels/ref/elementwise.c). In
 * gradients x is dy; y is what the row of ops.def says, the output or the input of the activation. */
#include "map.cuh"

template <typename R> static __device__ __forceinline__ R sigmoid_of(R x)
{
    return R(1) / (R(1) + ::exp(-x));
}

template <typename R> static __device__ __forceinline__ R normal_cdf(R x)
{
    return R(0.5) * ::erfc(-x * R(0.70710678118654752440));
}

/* gelu's tanh form is x sigmoid(inner(x)), with inner(x) = 2 sqrt(2 / pi) (x + 0.044715 x^3). */
template <typename R> static __device__ __forceinline__ R inner(R x)
{
    return R(1.59576912160573071176) * (x + R(0.044715) * x * x * x);
}

template <typename R> static __device__ __forceinline__ R inner_slope(R x)
{
    return R(1.59576912160573071176) * (R(1) + R(3 * 0.044715) * x * x);
}

template <typename R> static __device__ __forceinline__ R gelu_slope(R x)
{
    return normal_cdf(x) + (isinf(x) ? R(0) : x * ::exp(R(-0.5) * x * x) * R(0.39894228040143267794));
}

template <typename R> static __device__ __forceinline__ R gelu_tanh_slope(R x)
{
    R s = sigmoid_of(inner(x));
    return s + (::fabs(x) > 30 ? R(0) : s * sigmoid_of(-inner(x)) * x * inner_slope(x));
}

template <typename R> static __device__ __forceinline__ R silu_slope(R x)
{
    return sigmoid_of(x) * (R(1) + (isinf(x) ? R(0) : x * sigmoid_of(-x)));
}

template <typename R> static __device__ __forceinline__ R softplus_of(R x)
{
    return (x > 0 ? x : R(0)) + ::log1p(::exp(-::fabs(x)));
}

/* clang-format off */
MAP_REAL(relu,            x > 0 || x != x ? x : R(0))
MAP_REAL(gelu,            x * normal_cdf(x))
MAP_REAL(gelu_tanh,       x * sigmoid_of(inner(x)))
MAP_REAL(silu,            x * sigmoid_of(x))
MAP_REAL(sigmoid,         sigmoid_of(x))
MAP_REAL(tanh,            ::tanh(x))
MAP_REAL(softplus,        softplus_of(x * k0) / k0)
MAP_REAL(elu,             x > 0 ? x : k0 * ::expm1(x))
MAP_REAL(leaky_relu,      x > 0 ? x : k0 * x)
MAP_REAL(relu_grad,       y > 0 ? x : R(0))
MAP_REAL(sigmoid_grad,    x * y * (R(1) - y))
MAP_REAL(tanh_grad,       x * (R(1) - y * y))
MAP_REAL(gelu_grad,       x * gelu_slope(y))
MAP_REAL(gelu_tanh_grad,  x * gelu_tanh_slope(y))
MAP_REAL(silu_grad,       x * silu_slope(y))
MAP_REAL(softplus_grad,   x * sigmoid_of(y * k0))
MAP_REAL(elu_grad,        y > 0 ? x : x * k0 * ::exp(y))
MAP_REAL(leaky_relu_grad, y > 0 ? x : x * k0)
MAP_REAL(clamp_grad,      y >= k0 && y <= k1 ? x : R(0))
MAP_WHOLE(relu,           x > 0 ? x : 0)
/* clang-format on */

MAP_ALL(relu, 1, false)
MAP_FLOAT(gelu, 1, false)
MAP_FLOAT(gelu_tanh, 1, false)
MAP_FLOAT(silu, 1, false)
MAP_FLOAT(sigmoid, 1, false)
MAP_FLOAT(tanh, 1, false)
MAP_FLOAT(softplus, 1, false)
MAP_FLOAT(elu, 1, false)
MAP_FLOAT(leaky_relu, 1, false)
MAP_FLOAT(relu_grad, 2, false)
MAP_FLOAT(sigmoid_grad, 2, false)
MAP_FLOAT(tanh_grad, 2, false)
MAP_FLOAT(gelu_grad, 2, false)
MAP_FLOAT(gelu_tanh_grad, 2, false)
MAP_FLOAT(silu_grad, 2, false)
MAP_FLOAT(softplus_grad, 2, false)
MAP_FLOAT(elu_grad, 2, false)
MAP_FLOAT(leaky_relu_grad, 2, false)
MAP_FLOAT(clamp_grad, 2, false)

MAP_OPERATOR(relu, 0, 0)
MAP_OPERATOR(silu, 0, 0)
MAP_OPERATOR(sigmoid, 0, 0)
MAP_OPERATOR(tanh, 0, 0)
MAP_OPERATOR(softplus, call->attrs.scalar.value, 0)
MAP_OPERATOR(elu, call->attrs.scalar.value, 0)
MAP_OPERATOR(leaky_relu, call->attrs.scalar.value, 0)
MAP_OPERATOR(relu_grad, 0, 0)
MAP_OPERATOR(sigmoid_grad, 0, 0)
MAP_OPERATOR(tanh_grad, 0, 0)
MAP_OPERATOR(silu_grad, 0, 0)
MAP_OPERATOR(softplus_grad, call->attrs.scalar.value, 0)
MAP_OPERATOR(elu_grad, call->attrs.scalar.value, 0)
MAP_OPERATOR(leaky_relu_grad, call->attrs.scalar.value, 0)
MAP_OPERATOR(clamp_grad, call->attrs.range.low, call->attrs.range.high)

ls_status cuda_gelu(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    return map_run(d, stream, call, call->attrs.gelu.tanh ? &gelu_tanh_map : &gelu_map, 0, 0, why);
}

ls_status cuda_gelu_grad(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    return map_run(d, stream, call, call->attrs.gelu.tanh ? &gelu_tanh_grad_map : &gelu_grad_map, 0, 0, why);
}
