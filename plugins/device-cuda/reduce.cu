/* reduce.cu - sums, extremes, moments and norms over any dimensions of any strided operand.
 *
 * Dimensions are sorted by stride and merged, as on the CPU. If the innermost one is reduced, a warp or a block folds
 * the elements of one output; if it is kept, neighbouring threads fold neighbouring columns. Outputs that are few and
 * long are cut into parts, whose results are merged in order by a second kernel: no atomics, so that results are the
 * same in every run. Floating numbers are folded in f64, whole numbers in i64. */
#include <math.h>

#include "number.cuh"
#include "walk.cuh"

/* ---- what is folded ---- */

struct moments {
    double n, mean, m2;
};

/* Each fold: the type of its state, the state of no elements, one more element, two states merged (the earlier one
 * first). */
template <typename W> struct fold_sum {
    typedef W state;
    static __device__ W none()
    {
        return 0;
    }
    static __device__ void take(W &s, W x)
    {
        s += x;
    }
    static __device__ void merge(W &s, W more)
    {
        s += more;
    }
};

template <typename W> struct fold_squares {
    typedef W state;
    static __device__ W none()
    {
        return 0;
    }
    static __device__ void take(W &s, W x)
    {
        s += x * x;
    }
    static __device__ void merge(W &s, W more)
    {
        s += more;
    }
};

static __device__ __forceinline__ double lowest(double)
{
    return -INFINITY;
}
static __device__ __forceinline__ int64_t lowest(int64_t)
{
    return INT64_MIN;
}
static __device__ __forceinline__ double highest(double)
{
    return INFINITY;
}
static __device__ __forceinline__ int64_t highest(int64_t)
{
    return INT64_MAX;
}

template <typename W> struct fold_max {
    typedef W state;
    static __device__ W none()
    {
        return lowest(W());
    }
    static __device__ void take(W &s, W x)
    {
        s = x > s || x != x ? x : s;
    } /* NaN stays: nothing is above it */
    static __device__ void merge(W &s, W more)
    {
        take(s, more);
    }
};

template <typename W> struct fold_min {
    typedef W state;
    static __device__ W none()
    {
        return highest(W());
    }
    static __device__ void take(W &s, W x)
    {
        s = x < s || x != x ? x : s;
    }
    static __device__ void merge(W &s, W more)
    {
        take(s, more);
    }
};

template <typename W> struct fold_moments {
    typedef moments state;
    static __device__ moments none()
    {
        return {0, 0, 0};
    }
    static __device__ void take(moments &s, W x)
    {
        double delta = (double)x - s.mean;
        s.n += 1;
        s.mean += delta / s.n;
        s.m2 += delta * ((double)x - s.mean);
    }
    static __device__ void merge(moments &s, moments more) /* Chan's rule */
    {
        if (more.n == 0) return;
        double n = s.n + more.n, delta = more.mean - s.mean, share = more.n / n;
        s.mean += delta * share;
        s.m2 += more.m2 + delta * delta * share * s.n;
        s.n = n;
    }
};

template <typename S> __device__ __forceinline__ S from_lane(S s, int lane)
{
    return __shfl_xor_sync(0xffffffffu, s, lane);
}
template <> __device__ __forceinline__ moments from_lane(moments s, int lane)
{
    return {__shfl_xor_sync(0xffffffffu, s.n, lane), __shfl_xor_sync(0xffffffffu, s.mean, lane),
            __shfl_xor_sync(0xffffffffu, s.m2, lane)};
}

template <typename F> __device__ __forceinline__ typename F::state fold_warp(typename F::state s)
{
    for (int lane = 16; lane > 0; lane >>= 1) F::merge(s, from_lane(s, lane));
    return s;
}

/* ---- geometry ---- */

struct reduction {
    const void *x;
    void *y;
    ls_dtype x_dtype, y_dtype;
    ls_opcode op;
    int32_t correction, accumulate;
    int64_t elements;                    /* per output */
    cuda_walk kept, reduced;             /* offsets in x, in y */
    int64_t columns, column_x, column_y; /* the innermost axis, if it is kept; columns = 0: it is reduced */
    int64_t parts, part_size;
    void *partial; /* states [outputs, parts], if there are several parts */
};

static __device__ void finish(const reduction &r, int64_t at, double value, double m2)
{
    double n = (double)r.elements;
    if (r.op == LS_OP_mean) value /= n;
    if (r.op == LS_OP_norm) value = sqrt(value);
    if (r.op == LS_OP_var) value = m2 / (n > r.correction ? n - r.correction : 0);
    switch (r.y_dtype) {
    case LS_F32: ((float *)r.y)[at] = (float)(r.accumulate ? value + ((float *)r.y)[at] : value); break;
    case LS_F64: ((double *)r.y)[at] = r.accumulate ? value + ((double *)r.y)[at] : value; break;
    case LS_F16: ((f16 *)r.y)[at] = __double2half(r.accumulate ? value + as<float>(((f16 *)r.y)[at]) : value); break;
    case LS_BF16:
        ((bf16 *)r.y)[at] = __double2bfloat16(r.accumulate ? value + as<float>(((bf16 *)r.y)[at]) : value);
        break;
    default: break;
    }
}

static __device__ void finish_state(const reduction &r, int64_t at, double s)
{
    finish(r, at, s, 0);
}
static __device__ void finish_state(const reduction &r, int64_t at, moments s)
{
    finish(r, at, s.mean, s.m2);
}
static __device__ void finish_state(const reduction &r, int64_t at, int64_t s)
{
    switch (r.y_dtype) {
    case LS_BOOL: ((uint8_t *)r.y)[at] = s != 0; break;
    case LS_U8: ((uint8_t *)r.y)[at] = (uint8_t)s; break;
    case LS_I8: ((int8_t *)r.y)[at] = (int8_t)s; break;
    case LS_I32: ((int32_t *)r.y)[at] = (int32_t)s; break;
    case LS_I64: ((int64_t *)r.y)[at] = s; break;
    default: finish(r, at, (double)s, 0); break;
    }
}

/* Element i of x in the type it is folded in. Whole numbers share one instantiation. */
struct whole {
};
template <typename T> struct source {
    typedef double wide;
    static __device__ __forceinline__ double get(const reduction &r, int64_t i)
    {
        return as<double>(((const T *)r.x)[i]);
    }
};
template <> struct source<f16> {
    typedef double wide;
    static __device__ __forceinline__ double get(const reduction &r, int64_t i)
    {
        return __half2float(((const f16 *)r.x)[i]);
    }
};
template <> struct source<bf16> {
    typedef double wide;
    static __device__ __forceinline__ double get(const reduction &r, int64_t i)
    {
        return __bfloat162float(((const bf16 *)r.x)[i]);
    }
};
template <> struct source<whole> {
    typedef int64_t wide;
    static __device__ int64_t get(const reduction &r, int64_t i)
    {
        switch (r.x_dtype) {
        case LS_I64: return ((const int64_t *)r.x)[i];
        case LS_I32: return ((const int32_t *)r.x)[i];
        case LS_I8: return ((const int8_t *)r.x)[i];
        default: return ((const uint8_t *)r.x)[i];
        }
    }
};

/* ---- the innermost axis is reduced ---- */

/* One output and part per warp (of `warps` in a block) or, with warps = 0, per block. */
template <typename T, typename F> __global__ void fold_runs(reduction r, bool by_warp)
{
    typedef typename F::state state;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    int64_t tasks = r.kept.count * r.parts;
    int64_t task = by_warp ? (int64_t)blockIdx.x * warps + warp : blockIdx.x;
    int64_t step = by_warp ? (int64_t)gridDim.x * warps : gridDim.x;
    __shared__ state shared[32];
    for (; task < tasks; task += step) {
        int64_t output = task / r.parts, part = task % r.parts, at[2], in[2];
        int64_t end = (part + 1) * r.part_size < r.elements ? (part + 1) * r.part_size : r.elements;
        walk_to(r.kept, output, at);
        state s = F::none();
        for (int64_t i = part * r.part_size + (by_warp ? lane : threadIdx.x); i < end; i += by_warp ? 32 : blockDim.x) {
            walk_to(r.reduced, i, in);
            F::take(s, source<T>::get(r, at[0] + in[0]));
        }
        s = fold_warp<F>(s);
        if (!by_warp) {
            __syncthreads(); /* of the round before */
            if (lane == 0) shared[warp] = s;
            __syncthreads();
            s = lane < warps ? shared[lane] : F::none();
            s = fold_warp<F>(s);
        }
        if (by_warp ? lane != 0 : threadIdx.x != 0) continue;
        if (r.parts > 1) ((state *)r.partial)[task] = s;
        else finish_state(r, at[1], s);
    }
}

/* ---- the innermost axis is kept ---- */

enum { COLUMN_LANES = 32, COLUMN_ROWS = 8 };
enum { ENOUGH_OUTPUTS = 1024 }; /* of a processor, to give each to a thread */

template <typename T, typename F> __global__ void fold_columns(reduction r)
{
    typedef typename F::state state;
    __shared__ state shared[COLUMN_ROWS][COLUMN_LANES];
    int64_t chunks = (r.columns + COLUMN_LANES - 1) / COLUMN_LANES, tasks = r.kept.count * chunks * r.parts;
    for (int64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
        int64_t chunk = task % chunks, part = task / chunks % r.parts, output = task / chunks / r.parts, at[2], in[2];
        int64_t column = chunk * COLUMN_LANES + threadIdx.x;
        int64_t end = (part + 1) * r.part_size < r.elements ? (part + 1) * r.part_size : r.elements;
        walk_to(r.kept, output, at);
        state s = F::none();
        if (column < r.columns)
            for (int64_t i = part * r.part_size + threadIdx.y; i < end; i += COLUMN_ROWS) {
                walk_to(r.reduced, i, in);
                F::take(s, source<T>::get(r, at[0] + in[0] + column * r.column_x));
            }
        __syncthreads();
        shared[threadIdx.y][threadIdx.x] = s;
        __syncthreads();
        if (threadIdx.y != 0 || column >= r.columns) continue;
        for (int row = 1; row < COLUMN_ROWS; row++) F::merge(s, shared[row][threadIdx.x]);
        if (r.parts > 1) ((state *)r.partial)[(output * r.columns + column) * r.parts + part] = s;
        else finish_state(r, at[1] + column * r.column_y, s);
    }
}

/* Many outputs, of elements that are equally far apart: a thread for each. */
template <typename T, typename F> __global__ void __launch_bounds__(256) fold_many(reduction r, int64_t step)
{
    CUDA_EACH(i, r.kept.count * r.columns)
    {
        int64_t column = i % r.columns, at[2];
        walk_to(r.kept, i / r.columns, at);
        int64_t from = at[0] + column * r.column_x;
        typename F::state s = F::none();
#pragma unroll 8
        for (int64_t e = 0; e < r.elements; e++) F::take(s, source<T>::get(r, from + e * step));
        finish_state(r, at[1] + column * r.column_y, s);
    }
}

template <typename F> __global__ void merge_parts(reduction r)
{
    typedef typename F::state state;
    int64_t columns = r.columns ? r.columns : 1, outputs = r.kept.count * columns;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < outputs;
         i += (int64_t)gridDim.x * blockDim.x) {
        const state *partial = (const state *)r.partial + i * r.parts;
        state s = partial[0];
        for (int64_t part = 1; part < r.parts; part++) F::merge(s, partial[part]);
        int64_t at[2];
        walk_to(r.kept, i / columns, at);
        finish_state(r, at[1] + i % columns * r.column_y, s);
    }
}

/* ---- the host's side ---- */

typedef struct axis {
    int64_t size, x, y;
    bool reduced;
} axis;

/* Outermost first: by decreasing stride of x, broadcast axes before all others. */
static bool is_outer(const axis *a, const axis *b)
{
    if (a->x == 0 || b->x == 0) return a->x == 0 && b->x != 0;
    return a->x > b->x;
}

static void set_axes(reduction *r, const ls_operand *x, const ls_operand *y, uint32_t mask)
{
    axis axes[LS_MAX_DIMS];
    int n = 0;
    for (int d = 0; d < x->ndim; d++) {
        if (x->dim[d] == 1) continue;
        axis a = {x->dim[d], x->stride[d], y->stride[d], (mask >> d & 1) != 0};
        int at = n++;
        for (; at > 0 && is_outer(&a, &axes[at - 1]); at--) axes[at] = axes[at - 1];
        axes[at] = a;
    }
    r->kept = r->reduced = cuda_walk_begin();
    bool kept_inside = n && !axes[n - 1].reduced;
    if (kept_inside && axes[n - 1].size) {
        r->columns = axes[n - 1].size, r->column_x = axes[n - 1].x, r->column_y = axes[n - 1].y;
        n--;
    }
    for (int d = 0; d < n; d++) {
        int64_t kept[2] = {axes[d].x, axes[d].y}, reduced[2] = {axes[d].x, 0};
        if (axes[d].reduced) walk_add(&r->reduced, axes[d].size, reduced);
        else walk_add(&r->kept, axes[d].size, kept);
    }
    r->elements = r->reduced.count;
}

/* As many parts per output as it takes to fill the device, of at least `least` elements. */
static void set_parts(const cuda_device *d, reduction *r, int64_t blocks, int64_t least)
{
    int64_t wanted = blocks ? (int64_t)d->processors * 8 / blocks : 1, most = (r->elements + least - 1) / least;
    r->parts = wanted < most ? wanted : most;
    if (r->parts < 1) r->parts = 1;
    r->part_size = (r->elements + r->parts - 1) / r->parts;
    if (r->part_size < 1) r->part_size = 1;
    r->parts = r->elements ? (r->elements + r->part_size - 1) / r->part_size : 1;
}

template <typename T, typename F>
static ls_status launch(cuda_device *d, cudaStream_t stream, reduction *r, ls_message *why)
{
    int64_t columns = r->columns ? r->columns : 1, outputs = r->kept.count * columns;
    int64_t chunks = (columns + COLUMN_LANES - 1) / COLUMN_LANES;
    if (outputs == 0) return LS_OK;
    set_parts(d, r, r->kept.count * (r->columns ? chunks : 1), r->columns ? 256 : 4096);
    ls_workspace space = {};
    if (r->parts > 1) CUDA_TRY(cuda_take(d, (size_t)(outputs * r->parts) * sizeof(typename F::state), &space, why));
    r->partial = space.address;
    int64_t tasks = r->kept.count * r->parts, most = (int64_t)d->processors * 32;
    if (r->columns && r->parts == 1 && r->reduced.ndim == 1 && outputs >= (int64_t)d->processors * ENOUGH_OUTPUTS) {
        fold_many<T, F><<<cuda_blocks(d, outputs, 256), 256, 0, stream>>>(*r, r->reduced.stride[0][0]);
    } else if (r->columns) {
        tasks *= chunks;
        fold_columns<T, F><<<(unsigned)(tasks < most ? tasks : most), dim3(COLUMN_LANES, COLUMN_ROWS), 0, stream>>>(*r);
    } else {
        bool by_warp = r->part_size <= 512;
        int64_t blocks = by_warp ? (tasks + 7) / 8 : tasks;
        fold_runs<T, F><<<(unsigned)(blocks < most ? blocks : most), 256, 0, stream>>>(*r, by_warp);
    }
    if (r->parts > 1) merge_parts<F><<<cuda_blocks(d, outputs, 128), 128, 0, stream>>>(*r);
    cuda_give(d, space);
    return CUDA_LAUNCHED(why);
}

static reduction begin(const ls_call *call)
{
    reduction r = {};
    const ls_operand *x = call->in[0], *y = call->out[0];
    r.x = x->data, r.y = y->data, r.x_dtype = x->dtype, r.y_dtype = y->dtype;
    r.op = call->op;
    r.correction = call->attrs.reduce.correction;
    r.accumulate = call->op == LS_OP_sum && call->attrs.reduce.accumulate;
    set_axes(&r, x, y, call->attrs.reduce.mask);
    return r;
}

#define FLOATS(fold)                                                                                                   \
    case LS_F32: return launch<float, fold<double>>(d, stream, &r, why);                                               \
    case LS_F64: return launch<double, fold<double>>(d, stream, &r, why);                                              \
    case LS_F16: return launch<f16, fold<double>>(d, stream, &r, why);                                                 \
    case LS_BF16: return launch<bf16, fold<double>>(d, stream, &r, why);

static ls_status refuse_nothing(const reduction *r, const char *what, ls_message *why)
{
    int64_t outputs = r->kept.count * (r->columns ? r->columns : 1);
    if (outputs == 0 || r->elements > 0) return LS_OK;
    return cuda_refuse(why, LS_ERR_VALUE, "the %s of no elements is undefined", what);
}

ls_status cuda_sum(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    reduction r = begin(call);
    switch (r.x_dtype) {
        FLOATS(fold_sum)
    default: return launch<whole, fold_sum<int64_t>>(d, stream, &r, why);
    }
}

ls_status cuda_mean(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    return cuda_sum(d, stream, call, why);
}

ls_status cuda_max(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    reduction r = begin(call);
    CUDA_TRY(refuse_nothing(&r, "maximum", why));
    switch (r.x_dtype) {
        FLOATS(fold_max)
    default: return launch<whole, fold_max<int64_t>>(d, stream, &r, why);
    }
}

ls_status cuda_min(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    reduction r = begin(call);
    CUDA_TRY(refuse_nothing(&r, "minimum", why));
    switch (r.x_dtype) {
        FLOATS(fold_min)
    default: return launch<whole, fold_min<int64_t>>(d, stream, &r, why);
    }
}

ls_status cuda_var(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    reduction r = begin(call);
    switch (r.x_dtype) {
        FLOATS(fold_moments)
    default: return cuda_refuse(why, LS_ERR_UNSUPPORTED, "var needs a floating type");
    }
}

ls_status cuda_norm(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    reduction r = begin(call);
    switch (r.x_dtype) {
        FLOATS(fold_squares)
    default: return cuda_refuse(why, LS_ERR_UNSUPPORTED, "norm needs a floating type");
    }
}
