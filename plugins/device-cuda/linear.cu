/* linear.cu - linear layers: products of cuBLASLt, which also adds the bias; activations, their slopes and the gradient
 * of the bias are passes of our own. (The library's epilogues for these were measured to cost more than the passes, and
 * its GELU is the tanh form.) */
#include "activation.cuh"
#include "columns.cuh"
#include "product.h"
#include "row_sums.h"
#include "vector.cuh"

/* ---- Forward ----------------------------------------------------------------------------------------------------- */

/* y = activation(x), n elements without gaps. ACT: the activation, or -1: given. y may be x. */
template <typename T, int ACT>
static __global__ void __launch_bounds__(256) activate_all(const T *x, T *y, int64_t n, int given)
{
    typedef typename wide<T>::type W;
    const int N = whole<T>::N;
    const int activation = ACT < 0 ? given : ACT;
    int64_t step = (int64_t)gridDim.x * 256 * N;
    for (int64_t i = ((int64_t)blockIdx.x * 256 + threadIdx.x) * N; i < n; i += step) {
        if (i + N <= n) {
            W v[N];
            load_vector<T, N>(v, x + i);
#pragma unroll
            for (int k = 0; k < N; k++) v[k] = activate<T>(activation, v[k]);
            store_vector<T, N>(y + i, v);
        } else {
            for (int64_t k = i; k < n; k++) y[k] = as<T>(activate<T>(activation, as<W>(x[k])));
        }
    }
}

static ls_status activate_operand(cuda_device *d, cudaStream_t stream, const ls_operand *x, const ls_operand *y,
                                  ls_activation activation, ls_message *why)
{
    int64_t n = cuda_numel(y), blocks = (n + 2047) / 2048, most = (int64_t)d->processors * 32;
    unsigned grid = (unsigned)(blocks < most ? blocks : most);
    CUDA_FLOATING(y->dtype, why,
                  if (activation == LS_ACT_GELU) activate_all<T, LS_ACT_GELU>
                  <<<grid, 256, 0, stream>>>((const T *)x->data, (T *)y->data, n, activation);
                  else activate_all<T, -1><<<grid, 256, 0, stream>>>((const T *)x->data, (T *)y->data, n, activation));
    return CUDA_LAUNCHED(why);
}

/* w [N,K] as [...,K,N], the same for all of the leading dimensions of x. */
static ls_operand repeated_transpose(const ls_operand *w, int ndim)
{
    ls_operand t = *w;
    t.ndim = ndim;
    for (int i = 0; i < ndim - 2; i++) t.dim[i] = 1, t.stride[i] = 0;
    t.dim[ndim - 2] = w->dim[1], t.stride[ndim - 2] = w->stride[1];
    t.dim[ndim - 1] = w->dim[0], t.stride[ndim - 1] = w->stride[0];
    return t;
}

/* [n] as [1,n]; others as they are. */
static ls_operand as_matrix(const ls_operand *x)
{
    ls_operand m = *x;
    if (x->ndim > 1) return m;
    m.ndim = 2;
    m.dim[1] = x->dim[0], m.stride[1] = x->stride[0];
    m.dim[0] = 1, m.stride[0] = x->dim[0];
    return m;
}

static bool plain(const ls_operand *x)
{
    return cuda_contiguous(x) && (uintptr_t)x->data % 16 == 0;
}

extern "C" ls_status cuda_linear(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    const ls_operand *y = call->out[0], *pre = call->n_out > 1 ? call->out[1] : NULL;
    const ls_operand *bias = call->n_in > 2 ? call->in[2] : NULL;
    ls_activation activation = call->attrs.product.activation;
    bool accumulate = call->attrs.product.accumulate & 1, active = activation != LS_ACT_NONE;
    const ls_operand *sums = pre ? pre : y;
    /* Nothing that training does: sums behind an activation, gaps in its result. */
    if ((accumulate && (active || bias || pre)) || (active && !(plain(y) && plain(sums) && sums->dtype == y->dtype)))
        return cuda_on_host(d, stream, call, why);
    ls_operand x = as_matrix(call->in[0]), out = as_matrix(sums), w = repeated_transpose(call->in[1], x.ndim);
    cuda_product p = {&x, &w, &out, bias, cuda_product_type(call), accumulate};
    CUDA_TRY(cuda_multiply(d, stream, &p, why));
    if (!cuda_numel(y)) return LS_OK;
    if (active) return activate_operand(d, stream, sums, y, activation, why);
    return pre ? cuda_convert(d, stream, pre, y, why) : LS_OK;
}

/* ---- Backward: through the activation, with the gradient of the bias --------------------------------------------- */

typedef struct slopes {
    const void *dy, *saved;
    void *d, *y, *part; /* NULL: not wanted. part [chunks, n]: sums of rows */
    int64_t dy_pitch, saved_pitch, d_pitch, y_pitch;
    int64_t rows, n, chunk; /* rows of a chunk */
    int activation;
} slopes;

enum { ACROSS = 32, DOWN = 8, AHEAD = 4 }; /* threads of a block; rows read before the first is used */
enum { SLOPE_BLOCKS = 3 };                 /* of a processor at once */

/* d = dy through the activation, and its sums over rows. Block (x, y): 32 vectors of N columns, one chunk of rows.
 * ACT: the activation, -1: given, LS_ACT_NONE: only sums. AGAIN: and y, the activation's result. */
template <typename T, int N, int ACT, bool AGAIN>
static __global__ void __launch_bounds__(ACROSS *DOWN, SLOPE_BLOCKS) slope_rows(const slopes s)
{
    typedef typename wide<T>::type W;
    const int activation = ACT < 0 ? s.activation : ACT;
    let_sums_begin();
    __shared__ W shared[DOWN][ACROSS * N + 1];
    int64_t column = ((int64_t)blockIdx.x * ACROSS + threadIdx.x) * N;
    int64_t begin = (int64_t)blockIdx.y * s.chunk, end = begin + s.chunk < s.rows ? begin + s.chunk : s.rows;
    W sum[N];
#pragma unroll
    for (int i = 0; i < N; i++) sum[i] = 0;
    if (column < s.n) {
        const T *dy = (const T *)s.dy + column, *saved = (const T *)s.saved + column;
        T *d = (T *)s.d + column, *y = (T *)s.y + column;
        for (int64_t row = begin + threadIdx.y; row < end; row += DOWN * AHEAD) {
            vector<T, N> g[AHEAD], x[AHEAD];
#pragma unroll
            for (int u = 0; u < AHEAD; u++) {
                int64_t r = row + u * DOWN < end ? row + u * DOWN : row;
                g[u] = *(const vector<T, N> *)(dy + r * s.dy_pitch);
                if (ACT != LS_ACT_NONE) x[u] = *(const vector<T, N> *)(saved + r * s.saved_pitch);
            }
#pragma unroll
            for (int u = 0; u < AHEAD; u++) {
                if (row + u * DOWN >= end) break;
                W v[N], again[N];
#pragma unroll
                for (int i = 0; i < N; i++) {
                    v[i] = as<W>(g[u].at[i]);
                    if (ACT != LS_ACT_NONE) v[i] = through<T>(activation, v[i], as<W>(x[u].at[i]), &again[i]);
                    sum[i] += v[i];
                }
                if (ACT == LS_ACT_NONE) continue;
                store_vector<T, N>(d + (row + u * DOWN) * s.d_pitch, v);
                if (AGAIN) store_vector<T, N>(y + (row + u * DOWN) * s.y_pitch, again);
            }
        }
    }
    if (!s.part) return;
#pragma unroll
    for (int i = 0; i < N; i++) shared[threadIdx.y][threadIdx.x * N + i] = sum[i];
    __syncthreads();
    for (int i = threadIdx.y * ACROSS + threadIdx.x; i < ACROSS * N; i += ACROSS * DOWN) {
        int64_t at = (int64_t)blockIdx.x * ACROSS * N + i;
        if (at >= s.n) break;
        W total = 0;
#pragma unroll
        for (int k = 0; k < DOWN; k++) total += shared[k][i];
        ((W *)s.part)[blockIdx.y * s.n + at] = total;
    }
}

template <typename T, int N, bool AGAIN>
static void launch_activation(cudaStream_t stream, const slopes &s, dim3 grid, dim3 block)
{
    if (s.activation == LS_ACT_GELU && N > 1) slope_rows<T, N, LS_ACT_GELU, AGAIN><<<grid, block, 0, stream>>>(s);
    else slope_rows<T, N, -1, AGAIN><<<grid, block, 0, stream>>>(s);
}

template <typename T, int N> static void launch_slopes(cudaStream_t stream, const slopes &s, dim3 grid)
{
    dim3 block(ACROSS, DOWN);
    if (s.activation == LS_ACT_NONE) slope_rows<T, N, LS_ACT_NONE, false><<<grid, block, 0, stream>>>(s);
    else if (s.y) launch_activation<T, N, true>(stream, s, grid, block);
    else launch_activation<T, N, false>(stream, s, grid, block);
}

/* Rows of a chunk, so that all blocks run at once. */
static int64_t chunk_rows(const cuda_device *d, int64_t rows, int64_t slabs)
{
    int64_t chunks = (int64_t)d->processors * SLOPE_BLOCKS / slabs, most = (rows + DOWN * AHEAD - 1) / (DOWN * AHEAD);
    chunks = chunks < 1 ? 1 : chunks > most ? most : chunks;
    if (chunks > 65535) chunks = 65535;
    return (rows + chunks - 1) / chunks;
}

template <typename T>
static ls_status run_slopes(cuda_device *d, cudaStream_t stream, slopes s, const ls_operand *db, bool accumulate,
                            ls_message *why)
{
    typedef typename wide<T>::type W;
    const int N = sizeof(T) == 8 ? 1 : whole<T>::N;
    bool vectors = fits_vectors<T, N>(s.dy, s.n, s.dy_pitch) && fits_vectors<T, N>(s.saved, s.n, s.saved_pitch) &&
                   fits_vectors<T, N>(s.d, s.n, s.d_pitch) && fits_vectors<T, N>(s.y, s.n, s.y_pitch);
    int64_t width = ACROSS * (vectors ? N : 1), slabs = (s.n + width - 1) / width;
    s.chunk = chunk_rows(d, s.rows, slabs);
    dim3 grid((unsigned)slabs, (unsigned)((s.rows + s.chunk - 1) / s.chunk));
    ls_workspace space = {};
    if (db) CUDA_TRY(cuda_take(d, (size_t)(grid.y * s.n) * sizeof(W), &space, why));
    s.part = space.address;
    if (vectors) launch_slopes<T, N>(stream, s, grid);
    else launch_slopes<T, 1>(stream, s, grid);
    if (db)
        launch_add_chunks<W>(d, stream, sums_into(db, s.part, accumulate), sums_into(NULL, NULL, false), grid.y, s.n);
    cuda_give(d, space);
    return CUDA_LAUNCHED(why);
}

/* d = dy through the activation, where there is one, db, and the activation's result if it is wanted again. */
static ls_status before_activation(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    const ls_operand *dy = call->in[0], *saved = call->in[3], *to = call->out[3], *db = call->out[2];
    const ls_operand *y = call->n_out > 4 ? call->out[4] : NULL;
    slopes s = {};
    s.activation = call->attrs.product.activation;
    s.dy = dy->data, s.dy_pitch = dy->stride[0];
    s.rows = dy->dim[0], s.n = dy->dim[1];
    if (s.activation != LS_ACT_NONE) {
        s.saved = saved->data, s.saved_pitch = saved->stride[0];
        s.d = to->data, s.d_pitch = to->stride[0];
        if (y) s.y = y->data, s.y_pitch = y->stride[0];
    }
    CUDA_FLOATING(dy->dtype, why, CUDA_TRY(run_slopes<T>(d, stream, s, db, call->attrs.product.accumulate & 4, why)));
    return LS_OK;
}

/* Without an activation: from sums that the operator before has left, or by a pass. */
static ls_status bias_gradient(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    const ls_operand *dy = call->in[0], *db = call->out[2];
    int64_t chunks;
    const float *part = cuda_find_sums(d, stream, dy, &chunks);
    if (!part) return before_activation(d, stream, call, why);
    launch_add_chunks<float>(d, stream, sums_into(db, part, call->attrs.product.accumulate & 4),
                             sums_into(NULL, NULL, false), chunks, dy->dim[1]);
    return CUDA_LAUNCHED(why);
}

static ls_operand transpose_of(const ls_operand *x)
{
    ls_operand t = *x;
    t.dim[0] = x->dim[1], t.dim[1] = x->dim[0];
    t.stride[0] = x->stride[1], t.stride[1] = x->stride[0];
    return t;
}

/* Nothing to sum or to multiply: rare enough for the host. */
static bool is_empty(const ls_operand *dy)
{
    return dy->dim[0] == 0 || dy->dim[1] == 0;
}

extern "C" ls_status cuda_linear_grad(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    const ls_operand *dy = call->in[0], *x = call->in[1], *w = call->in[2];
    int32_t accumulate = call->attrs.product.accumulate;
    bool active = call->attrs.product.activation != LS_ACT_NONE;
    if (is_empty(dy)) return cuda_on_host(d, stream, call, why);
    if (active) CUDA_TRY(before_activation(d, stream, call, why));
    else if (call->out[2]) CUDA_TRY(bias_gradient(d, stream, call, why));
    if (active) dy = call->out[3];
    ls_dtype compute = cuda_product_type(call);
    ls_operand across = transpose_of(dy);
    cuda_product dx = {dy, w, call->out[0], NULL, compute, (bool)(accumulate & 1)};
    cuda_product dw = {&across, x, call->out[1], NULL, compute, (bool)(accumulate & 2)};
    if (call->out[0]) CUDA_TRY(cuda_multiply(d, stream, &dx, why));
    return call->out[1] ? cuda_multiply(d, stream, &dw, why) : LS_OK;
}
