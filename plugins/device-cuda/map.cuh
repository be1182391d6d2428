/* map.cuh - the kernels of maps, made from expressions.
 *
 *     MAP_REAL(add, x + y)     the expression for real numbers of type R, float or double; k0, k1: attributes
 *     MAP_WHOLE(add, x + y)    for integers, which are int64_t
 *     MAP_ALL(add, 2, false)   the map_kind `add` of two inputs, whose result is not bool; MAP_FLOAT: real numbers */
#ifndef LOCKSTEP_CUDA_MAP_CUH
#define LOCKSTEP_CUDA_MAP_CUH

#include "map.h"
#include "number.cuh"
#include "walk.cuh"

#define MAP_REAL(name, expression)                                                                                     \
    struct name##_real {                                                                                               \
        template <typename R> static __device__ __forceinline__ R of(R x, R y, R k0, R k1)                             \
        {                                                                                                              \
            (void)x, (void)y, (void)k0, (void)k1;                                                                      \
            return (R)(expression);                                                                                    \
        }                                                                                                              \
    };
#define MAP_WHOLE(name, expression)                                                                                    \
    struct name##_whole {                                                                                              \
        static __device__ __forceinline__ int64_t of(int64_t x, int64_t y, double k0, double k1)                       \
        {                                                                                                              \
            (void)x, (void)y, (void)k0, (void)k1;                                                                      \
            return (int64_t)(expression);                                                                              \
        }                                                                                                              \
    };

/* Any layout. C: the type computed in; K: the type of attributes. */
template <typename F, int inputs, typename C, typename K>
static __global__ void __launch_bounds__(MAP_BLOCK) map_strided(const __grid_constant__ map_args a)
{
    K k0 = (K)a.k0, k1 = (K)a.k1;
    CUDA_EACH(i, a.walk.count)
    {
        int64_t at[1 + inputs];
        walk_to(a.walk, i, at);
        C x = load_as<C>(a.dtype, a.x, at[1]), y = inputs > 1 ? load_as<C>(a.dtype, a.y, at[inputs]) : x;
        store_as<C>(a.out_dtype, a.out, at[0], F::of(x, y, k0, k1));
    }
}

/* Result and x without gaps, y too or repeated. */
template <typename F, int inputs>
static __global__ void __launch_bounds__(MAP_BLOCK) map_dense(const __grid_constant__ map_args a)
{
    float k0 = (float)a.k0, k1 = (float)a.k1;
    int64_t groups = a.walk.count / 8;
    CUDA_EACH(g, groups)
    {
        float x[8], y[8] = {};
        load8(a.dtype, a.x, g * 8, x);
        if (inputs > 1) {
            if (a.run > 0) {
                float one =
                    load_as<float>(a.dtype, a.y, (int64_t)((uint32_t)g / (uint32_t)a.run) * a.walk.stride[2][0]);
                for (int k = 0; k < 8; k++) y[k] = one;
            } else if (a.period < 0) {
                load8(a.dtype, a.y, g * 8, y);
            } else if (a.period == 0) {
                float one = load_as<float>(a.dtype, a.y, 0);
                for (int k = 0; k < 8; k++) y[k] = one;
            } else {
                load8(a.dtype, a.y, (int64_t)((uint32_t)g % (uint32_t)a.period) * 8, y);
            }
        }
        for (int k = 0; k < 8; k++) x[k] = F::of(x[k], y[k], k0, k1);
        store8(a.out_dtype, a.out, g * 8, x);
    }
    int64_t last = groups * 8 + threadIdx.x; /* up to seven elements; if there are any, y does not repeat */
    if (blockIdx.x == 0 && last < a.walk.count) {
        float x = load_as<float>(a.dtype, a.x, last);
        float y = inputs > 1 ? load_as<float>(a.dtype, a.y, a.period < 0 ? last : 0) : 0;
        store_as<float>(a.out_dtype, a.out, last, F::of(x, y, k0, k1));
    }
}

template <typename F, int inputs> static void launch_dense(const map_args *a, unsigned blocks, cudaStream_t stream)
{
    map_dense<F, inputs><<<blocks, MAP_BLOCK, 0, stream>>>(*a);
}

template <typename F, int inputs, typename C, typename K>
static void launch_strided(const map_args *a, unsigned blocks, cudaStream_t stream)
{
    map_strided<F, inputs, C, K><<<blocks, MAP_BLOCK, 0, stream>>>(*a);
}

#define MAP_KIND(name, inputs, gives_bool, whole)                                                                      \
    static const map_kind name##_map = {inputs,                                                                        \
                                        gives_bool,                                                                    \
                                        launch_dense<name##_real, inputs>,                                             \
                                        launch_strided<name##_real, inputs, float, float>,                             \
                                        launch_strided<name##_real, inputs, double, double>,                           \
                                        whole};
#define MAP_FLOAT(name, inputs, gives_bool) MAP_KIND(name, inputs, gives_bool, NULL)
#define MAP_ALL(name, inputs, gives_bool)                                                                              \
    MAP_KIND(name, inputs, gives_bool, (launch_strided<name##_whole, inputs, int64_t, double>))

/* The function of an operator that is a map, with attributes of the call or none. */
#define MAP_OPERATOR(name, first, second)                                                                              \
    ls_status cuda_##name(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)                   \
    {                                                                                                                  \
        return map_run(d, stream, call, &name##_map, first, second, why);                                              \
    }

#endif
