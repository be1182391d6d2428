/* activation.cuh - activations of linear layers and their slopes.
 *
 * Half types get GELU by a short formula (error of erf 1.5e-7, below their rounding): erff takes some forty
 * instructions and a branch. */
#ifndef LOCKSTEP_CUDA_ACTIVATION_CUH
#define LOCKSTEP_CUDA_ACTIVATION_CUH

#include "number.cuh"

/* The normal distribution function, and e = exp(-x^2/2) for its derivative. What is rounded does not depend on what the
 * result is added to, so that GELU and its slope are the same bits wherever they are computed. */
template <typename T> struct normal {
    static __device__ __forceinline__ float distribution(float x, float *e) /* Abramowitz and Stegun 7.1.26 */
    {
        float t, w, a = fabsf(x);
        asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(t) : "f"(fmaf(0.231641888f, a, 1.0f))); /* 0.3275911 / sqrt 2 */
        asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(w) : "f"(x * x * -0.72134752f));
        float p =
            fmaf(fmaf(fmaf(fmaf(1.061405429f, t, -1.453152027f), t, 1.421413741f), t, -0.284496736f), t, 0.254829592f);
        p *= t * w * 0.5f;
        *e = w;
        return x >= 0 ? 1 - p : p;
    }
};
template <> struct normal<float> {
    static __device__ __forceinline__ float distribution(float x, float *e)
    {
        *e = expf(-0.5f * x * x);
        return __fmul_rn(0.5f, erfcf(x * -0.707106781f));
    }
};
template <> struct normal<double> {
    static __device__ __forceinline__ double distribution(double x, double *e)
    {
        *e = exp(-0.5 * x * x);
        return __dmul_rn(0.5, erfc(x * -0.70710678118654752440));
    }
};

template <typename W> __device__ __forceinline__ W logistic(W x)
{
    return 1 / (1 + exp(-x));
}

/* gelu's tanh form is x logistic(inner) */
template <typename W> __device__ __forceinline__ W gelu_inner(W x)
{
    return (W)1.59576912160573071176 * (x + (W)0.044715 * x * x * x);
}

template <typename T, typename W> __device__ __forceinline__ W activate(int activation, W x)
{
    W e;
    switch (activation) {
    case LS_ACT_RELU: return x > 0 || x != x ? x : (W)0;
    case LS_ACT_GELU: return x * normal<T>::distribution(x, &e);
    case LS_ACT_GELU_TANH: return x * logistic(gelu_inner(x));
    case LS_ACT_SILU: return x * logistic(x);
    case LS_ACT_TANH: return tanh(x);
    case LS_ACT_SIGMOID: return logistic(x);
    default: return x;
    }
}

/* dy through an activation; saved: its result for ReLU, tanh and sigmoid, else its input. *y: its result. */
template <typename T, typename W> __device__ __forceinline__ W through(int activation, W dy, W saved, W *y)
{
    W e, s, x = saved;
    *y = saved;
    switch (activation) {
    case LS_ACT_RELU: return x > 0 ? dy : (W)0;
    case LS_ACT_GELU:
        s = normal<T>::distribution(x, &e);
        *y = x * s;
        return dy * (s + (e > 0 ? x * (W)0.39894228040143267794 * e : (W)0)); /* infinite x: 0 */
    case LS_ACT_GELU_TANH:
        s = logistic(gelu_inner(x));
        *y = x * s;
        if (fabs(x) > 30) return dy * s; /* beyond, the cube below overflows */
        return dy * (s + s * (1 - s) * x * (W)1.59576912160573071176 * (1 + (W)0.134145 * x * x));
    case LS_ACT_SILU:
        s = logistic(x);
        *y = x * s;
        return dy * (isinf(x) ? s : s * (1 + x * (1 - s)));
    case LS_ACT_TANH: return dy * (1 - x * x);
    case LS_ACT_SIGMOID: return dy * x * (1 - x);
    default: return dy;
    }
}

#endif
