/* attention.cu - attention and its gradient for all types, sizes of heads up to 256, masks and layouts.
 *
 * A warp has a few rows (queries, or keys in the gradient of keys) and walks over tiles of 32 of the others: a lane per
 * other row for scores, a lane per column for sums. All arithmetic is in the wide type. */
#include "attention.h"
#include "number.cuh"

enum { WARPS = 4, ROWS = 4, BLOCK_ROWS = WARPS * ROWS, TILE = 32, MOST_DEPTH = 256, COLUMNS = MOST_DEPTH / 32 };

template <typename T> static __device__ __forceinline__ T *head_at(const attention_heads &x, int64_t b, int64_t h)
{
    return (T *)x.data + b * x.batch + h * x.head;
}

template <typename W> static __device__ __forceinline__ W minus_infinity()
{
    return -(W)INFINITY;
}

/* Number `at` of a mask of numbers. */
template <typename W> static __device__ W number_of(const attention_heads &mask, int64_t at)
{
    switch (mask.dtype) {
    case LS_F32: return (W)((const float *)mask.data)[at];
    case LS_F64: return (W)((const double *)mask.data)[at];
    case LS_F16: return as<W>(((const f16 *)mask.data)[at]);
    default: return as<W>(((const bf16 *)mask.data)[at]);
    }
}

static __device__ __forceinline__ double bounded(double bias)
{
    return bias;
}

static __device__ __forceinline__ float bounded(float bias)
{
    const float most = LS_ATTENTION_MOST_BIAS;
    if (!(fabsf(bias) > most) || isinf(bias)) return bias;
    return copysignf(most, bias);
}

/* What is added to the score of a query and a key: -infinity where the key is hidden. */
template <typename W>
static __device__ W bias_of(const attention &a, int64_t b, int64_t h, int64_t i, int64_t j, int64_t length)
{
    if (i >= a.queries || j >= a.keys || (a.lengths && (i >= length || j >= length)) || (a.causal && j > i))
        return minus_infinity<W>();
    if (!a.mask.data) return 0;
    int64_t at = b * a.mask.batch + h * a.mask.head + i * a.mask.row + j * a.mask.column;
    if (a.mask.dtype == LS_BOOL) return ((const uint8_t *)a.mask.data)[at] ? (W)0 : minus_infinity<W>();
    return bounded(number_of<W>(a.mask, at));
}

static __device__ bool is_dropped(const attention &a, int64_t b, int64_t h, int64_t i, int64_t j)
{
    if (!a.drop.below) return false;
    int64_t head = b * a.heads + h;
    if (!a.is_drawn) return drops(a.drop, (uint64_t)((head * a.queries + i) * a.keys + j));
    int64_t tile = head * ((a.keys + 63) / 64) + j / 64;
    uint32_t word = ((const uint32_t *)a.kept.data)[(tile * a.queries + i) * 2 + (j >> 2 & 1)];
    return word >> (4 * (j % 64 >> 3) + j % 4) & 1;
}

/* Rows [first, first + count) of a head to shared memory, `pitch` apart; zeros from row `limit` on. */
template <typename T, typename W>
static __device__ void load_rows(W *to, int pitch, const T *from, const attention_heads &x, int64_t first, int count,
                                 int64_t limit, int64_t columns)
{
    int all = count * (int)columns;
    for (int i = threadIdx.x; i < all; i += WARPS * 32) {
        int row = i / (int)columns, column = i % (int)columns;
        bool inside = first + row < limit;
        to[row * pitch + column] = inside ? as<W>(from[(first + row) * x.row + column * x.column]) : (W)0;
    }
}

template <typename W> static __device__ __forceinline__ W dot(const W *a, const W *b, int64_t n)
{
    W sum = 0;
    for (int i = 0; i < (int)n; i++) sum = fma(a[i], b[i], sum);
    return sum;
}

static __device__ __forceinline__ int64_t shorter(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- Forward ----------------------------------------------------------------------------------------------------- */

/* Block (x, y, z): queries, heads, batch. Shared: a tile of keys, then of values; the block's queries. */
template <typename T> static __global__ void __launch_bounds__(WARPS * 32) attend(const attention a)
{
    typedef typename wide<T>::type W;
    extern __shared__ double shared_memory[];
    int64_t b = blockIdx.z, h = blockIdx.y, length = length_of(a, b), key_head = h * a.key_heads / a.heads;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32,
        deep = (int)(a.depth > a.value_depth ? a.depth : a.value_depth);
    int pitch = deep + 1;
    W *tile = (W *)shared_memory, *query = tile + TILE * pitch + warp * ROWS * a.depth;
    int64_t first = (int64_t)blockIdx.x * BLOCK_ROWS, mine = first + warp * ROWS;
    load_rows<T, W>(tile + TILE * pitch, (int)a.depth, head_at<const T>(a.q, b, h), a.q, first, BLOCK_ROWS,
                    shorter(a.queries, length), a.depth);
    W sum[ROWS][COLUMNS], largest[ROWS], total[ROWS], p[ROWS];
    for (int r = 0; r < ROWS; r++) {
        largest[r] = minus_infinity<W>();
        total[r] = 0;
        for (int c = 0; c < COLUMNS; c++) sum[r][c] = 0;
    }
    int64_t keys = shorter(a.keys, length);
    if (a.causal) keys = shorter(keys, first + BLOCK_ROWS);
    for (int64_t key = 0; key < keys; key += TILE) {
        __syncthreads();
        load_rows<T, W>(tile, pitch, head_at<const T>(a.k, b, key_head), a.k, key, TILE, keys, a.depth);
        __syncthreads();
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            int64_t i = mine + r, j = key + lane;
            W score = dot(query + r * a.depth, tile + lane * pitch, a.depth) * (W)a.scale;
            W bias = bias_of<W>(a, b, h, i, j, length);
            score = bias == minus_infinity<W>() ? bias : score + bias;
            W most = warp_max(score), before = largest[r];
            if (before > most) most = before;
            largest[r] = most;
            W base = most == minus_infinity<W>() ? (W)0 : most, again = exp(before - base);
            W weight = score == minus_infinity<W>() ? (W)0 : exp(score - base);
            total[r] = total[r] * again + warp_sum(weight);
            for (int c = 0; c < COLUMNS; c++) sum[r][c] *= again;
            p[r] = weight != 0 && is_dropped(a, b, h, i, j) ? (W)0 : weight * (W)a.drop.scale;
        }
        __syncthreads();
        load_rows<T, W>(tile, pitch, head_at<const T>(a.v, b, key_head), a.v, key, TILE, keys, a.value_depth);
        __syncthreads();
        for (int k = 0; k < TILE; k++)
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                W weight = __shfl_sync(0xffffffffu, p[r], k);
#pragma unroll
                for (int c = 0; c < COLUMNS; c++)
                    if (c * 32 + lane < a.value_depth)
                        sum[r][c] = fma(weight, tile[k * pitch + c * 32 + lane], sum[r][c]);
            }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        int64_t i = mine + r;
        if (i >= a.queries) continue;
        T *o = head_at<T>(a.o, b, h) + i * a.o.row;
        W factor = total[r] == 0 ? (W)0 : 1 / total[r];
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
            if (c * 32 + lane < a.value_depth) o[(c * 32 + lane) * a.o.column] = as<T>(sum[r][c] * factor);
        if (lane == 0 && a.lse.data)
            head_at<W>(a.lse, b, h)[i * a.lse.row] = total[r] == 0 ? minus_infinity<W>() : largest[r] + log(total[r]);
    }
}

/* ---- Backward ---------------------------------------------------------------------------------------------------- */

/* delta [B,H,queries] = sum of do o over a row. */
template <typename T>
static __global__ void __launch_bounds__(256) row_products(const attention a, typename wide<T>::type *delta)
{
    typedef typename wide<T>::type W;
    int64_t row = (int64_t)blockIdx.x * 8 + threadIdx.x / 32, all = a.batch * a.heads * a.queries;
    int lane = threadIdx.x % 32;
    if (row >= all) return;
    int64_t i = row % a.queries, h = row / a.queries % a.heads, b = row / a.queries / a.heads;
    W sum = 0;
    if (i < length_of(a, b))
        for (int64_t c = lane; c < a.value_depth; c += 32)
            sum += as<W>(head_at<const T>(a.o, b, h)[i * a.o.row + c * a.o.column]) *
                   as<W>(head_at<const T>(a.d_o, b, h)[i * a.d_o.row + c * a.d_o.column]);
    sum = warp_sum(sum);
    if (lane == 0) delta[row] = sum;
}

/* The weight of a score before dropout, and the gradient of the score. */
template <typename W> struct graded {
    W weight, kept, dscore;
};

template <typename W>
static __device__ graded<W> grade_score(const attention &a, int64_t b, int64_t h, int64_t i, int64_t j, int64_t length,
                                        W product, W dweight, W lse, W delta)
{
    graded<W> g = {0, 0, 0};
    W bias = bias_of<W>(a, b, h, i, j, length);
    if (bias == minus_infinity<W>() || lse == minus_infinity<W>()) return g;
    g.weight = exp(product * (W)a.scale + bias - lse);
    W keep = is_dropped(a, b, h, i, j) ? (W)0 : (W)a.drop.scale;
    g.kept = g.weight * keep;
    g.dscore = g.weight * (dweight * keep - delta) * (W)a.scale;
    return g;
}

/* Block (x, y, z): queries, heads, batch. Shared: tiles of keys and values; the block's rows of q and do. */
template <typename T>
static __global__ void __launch_bounds__(WARPS * 32)
    grade_queries(const attention a, const typename wide<T>::type *delta)
{
    typedef typename wide<T>::type W;
    extern __shared__ double shared_memory[];
    int64_t b = blockIdx.z, h = blockIdx.y, length = length_of(a, b), key_head = h * a.key_heads / a.heads;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, k_pitch = (int)a.depth + 1, v_pitch = (int)a.value_depth + 1;
    W *k = (W *)shared_memory, *v = k + TILE * k_pitch, *q = v + TILE * v_pitch, *d_o = q + BLOCK_ROWS * a.depth;
    int64_t first = (int64_t)blockIdx.x * BLOCK_ROWS, mine = first + warp * ROWS, limit = shorter(a.queries, length);
    load_rows<T, W>(q, (int)a.depth, head_at<const T>(a.q, b, h), a.q, first, BLOCK_ROWS, limit, a.depth);
    load_rows<T, W>(d_o, (int)a.value_depth, head_at<const T>(a.d_o, b, h), a.d_o, first, BLOCK_ROWS, limit,
                    a.value_depth);
    W sum[ROWS][COLUMNS], lse[ROWS], row_delta[ROWS], dscore[ROWS];
    for (int r = 0; r < ROWS; r++) {
        bool inside = mine + r < limit;
        lse[r] = inside ? head_at<const W>(a.lse, b, h)[(mine + r) * a.lse.row] : minus_infinity<W>();
        row_delta[r] = inside ? delta[(b * a.heads + h) * a.queries + mine + r] : (W)0;
        for (int c = 0; c < COLUMNS; c++) sum[r][c] = 0;
    }
    int64_t keys = shorter(a.keys, length);
    if (a.causal) keys = shorter(keys, first + BLOCK_ROWS);
    for (int64_t key = 0; key < keys; key += TILE) {
        __syncthreads();
        load_rows<T, W>(k, k_pitch, head_at<const T>(a.k, b, key_head), a.k, key, TILE, keys, a.depth);
        load_rows<T, W>(v, v_pitch, head_at<const T>(a.v, b, key_head), a.v, key, TILE, keys, a.value_depth);
        __syncthreads();
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            W product = dot(q + (warp * ROWS + r) * a.depth, k + lane * k_pitch, a.depth);
            W dweight = dot(d_o + (warp * ROWS + r) * a.value_depth, v + lane * v_pitch, a.value_depth);
            dscore[r] =
                grade_score(a, b, h, mine + r, key + lane, length, product, dweight, lse[r], row_delta[r]).dscore;
        }
        for (int j = 0; j < TILE; j++)
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                W g = __shfl_sync(0xffffffffu, dscore[r], j);
#pragma unroll
                for (int c = 0; c < COLUMNS; c++)
                    if (c * 32 + lane < a.depth) sum[r][c] = fma(g, k[j * k_pitch + c * 32 + lane], sum[r][c]);
            }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        if (mine + r >= a.queries) continue;
        T *dq = head_at<T>(a.dq, b, h) + (mine + r) * a.dq.row;
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
            if (c * 32 + lane < a.depth) dq[(c * 32 + lane) * a.dq.column] = as<T>(sum[r][c]);
    }
}

/* Block (x, y, z): keys, key heads, batch; all query heads of a key head in turn. Shared: tiles of q and do; the
 * block's rows of k and v. */
template <typename T>
static __global__ void __launch_bounds__(WARPS * 32) grade_keys(const attention a, const typename wide<T>::type *delta)
{
    typedef typename wide<T>::type W;
    extern __shared__ double shared_memory[];
    int64_t b = blockIdx.z, key_head = blockIdx.y, length = length_of(a, b), group = a.heads / a.key_heads;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, q_pitch = (int)a.depth + 1, o_pitch = (int)a.value_depth + 1;
    W *q = (W *)shared_memory, *d_o = q + TILE * q_pitch, *k = d_o + TILE * o_pitch, *v = k + BLOCK_ROWS * a.depth;
    int64_t first = (int64_t)blockIdx.x * BLOCK_ROWS, mine = first + warp * ROWS, limit = shorter(a.keys, length);
    load_rows<T, W>(k, (int)a.depth, head_at<const T>(a.k, b, key_head), a.k, first, BLOCK_ROWS, limit, a.depth);
    load_rows<T, W>(v, (int)a.value_depth, head_at<const T>(a.v, b, key_head), a.v, first, BLOCK_ROWS, limit,
                    a.value_depth);
    W dk[ROWS][COLUMNS], dv[ROWS][COLUMNS];
    graded<W> g[ROWS];
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) dk[r][c] = dv[r][c] = 0;
    int64_t queries = shorter(a.queries, length), begin = a.causal ? first / TILE * TILE : 0;
    for (int64_t h = key_head * group; h < (key_head + 1) * group && first < limit; h++)
        for (int64_t query = begin; query < queries; query += TILE) {
            int64_t i = query + lane;
            __syncthreads();
            load_rows<T, W>(q, q_pitch, head_at<const T>(a.q, b, h), a.q, query, TILE, queries, a.depth);
            load_rows<T, W>(d_o, o_pitch, head_at<const T>(a.d_o, b, h), a.d_o, query, TILE, queries, a.value_depth);
            __syncthreads();
            W lse = i < queries ? head_at<const W>(a.lse, b, h)[i * a.lse.row] : minus_infinity<W>();
            W row_delta = i < queries ? delta[(b * a.heads + h) * a.queries + i] : (W)0;
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                W product = dot(k + (warp * ROWS + r) * a.depth, q + lane * q_pitch, a.depth);
                W dweight = dot(v + (warp * ROWS + r) * a.value_depth, d_o + lane * o_pitch, a.value_depth);
                g[r] = grade_score(a, b, h, i, mine + r, length, product, dweight, lse, row_delta);
            }
            for (int j = 0; j < TILE; j++)
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    W weight = __shfl_sync(0xffffffffu, g[r].kept, j),
                      dscore = __shfl_sync(0xffffffffu, g[r].dscore, j);
#pragma unroll
                    for (int c = 0; c < COLUMNS; c++) {
                        int column = c * 32 + lane;
                        if (column < a.depth) dk[r][c] = fma(dscore, q[j * q_pitch + column], dk[r][c]);
                        if (column < a.value_depth) dv[r][c] = fma(weight, d_o[j * o_pitch + column], dv[r][c]);
                    }
                }
        }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        if (mine + r >= a.keys) continue;
        T *to_k = head_at<T>(a.dk, b, key_head) + (mine + r) * a.dk.row;
        T *to_v = head_at<T>(a.dv, b, key_head) + (mine + r) * a.dv.row;
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
            int column = c * 32 + lane;
            if (a.dk.data && column < a.depth) to_k[column * a.dk.column] = as<T>(dk[r][c]);
            if (a.dv.data && column < a.value_depth) to_v[column * a.dv.column] = as<T>(dv[r][c]);
        }
    }
}

/* ---- Launching --------------------------------------------------------------------------------------------------- */

static size_t forward_bytes(const attention *a, size_t number)
{
    int64_t deep = a->depth > a->value_depth ? a->depth : a->value_depth;
    return (size_t)(TILE * (deep + 1) + BLOCK_ROWS * a->depth) * number;
}

static size_t backward_bytes(const attention *a, size_t number)
{
    return (size_t)((TILE + BLOCK_ROWS) * (a->depth + a->value_depth) + 2 * TILE) * number;
}

/* Shared memory beyond 48 KiB must be asked for. */
template <typename Kernel> static ls_status allow(Kernel *kernel, size_t bytes, ls_message *why)
{
    if (bytes <= 48 << 10) return LS_OK;
    return cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes),
                      "attention: shared memory", why);
}

static unsigned row_blocks(int64_t rows)
{
    return (unsigned)((rows + BLOCK_ROWS - 1) / BLOCK_ROWS);
}

template <typename T> static ls_status run_forward(cudaStream_t stream, const attention *a, ls_message *why)
{
    size_t bytes = forward_bytes(a, sizeof(typename wide<T>::type));
    CUDA_TRY(allow(attend<T>, bytes, why));
    attend<T><<<dim3(row_blocks(a->queries), (unsigned)a->heads, (unsigned)a->batch), WARPS * 32, bytes, stream>>>(*a);
    return CUDA_LAUNCHED(why);
}

template <typename T>
static ls_status run_backward(cuda_device *d, cudaStream_t stream, const attention *a, ls_message *why)
{
    typedef typename wide<T>::type W;
    size_t bytes = backward_bytes(a, sizeof(W));
    int64_t rows = a->batch * a->heads * a->queries;
    CUDA_TRY(allow(grade_queries<T>, bytes, why));
    CUDA_TRY(allow(grade_keys<T>, bytes, why));
    ls_workspace space = {};
    CUDA_TRY(cuda_take(d, (size_t)rows * sizeof(W), &space, why));
    W *delta = (W *)space.address;
    if (rows) row_products<T><<<(unsigned)((rows + 7) / 8), 256, 0, stream>>>(*a, delta);
    dim3 by_queries(row_blocks(a->queries), (unsigned)a->heads, (unsigned)a->batch);
    dim3 by_keys(row_blocks(a->keys), (unsigned)a->key_heads, (unsigned)a->batch);
    if (a->dq.data && rows) grade_queries<T><<<by_queries, WARPS * 32, bytes, stream>>>(*a, delta);
    if ((a->dk.data || a->dv.data) && by_keys.x) grade_keys<T><<<by_keys, WARPS * 32, bytes, stream>>>(*a, delta);
    cuda_give(d, space);
    return CUDA_LAUNCHED(why);
}

/* ---- The operators ----------------------------------------------------------------------------------------------- */

static attention_heads heads_of(const ls_operand *x)
{
    attention_heads h = {};
    if (!x) return h;
    h.data = x->data, h.dtype = x->dtype;
    h.batch = x->stride[0], h.head = x->stride[1], h.row = x->stride[2];
    h.column = x->ndim > 3 ? x->stride[3] : 0;
    return h;
}

static attention attention_of(const cuda_device *d, const ls_call *call, const ls_operand *q, const ls_operand *k,
                              const ls_operand *v, const ls_operand *mask, const ls_operand *lengths)
{
    attention a = {};
    a.batch = q->dim[0], a.heads = q->dim[1], a.key_heads = k->dim[1];
    a.queries = q->dim[2], a.keys = k->dim[2], a.depth = q->dim[3], a.value_depth = v->dim[3];
    a.scale = call->attrs.attention.scale;
    a.causal = call->attrs.attention.causal != 0;
    a.drop = dropping_of(call->attrs.attention.dropout, call->attrs.attention.seed, call->attrs.attention.offset);
    a.q = heads_of(q), a.k = heads_of(k), a.v = heads_of(v), a.mask = heads_of(mask);
    a.fault = cuda_fault_at(d, call);
    if (lengths) {
        a.lengths = lengths->data;
        a.lengths_stride = lengths->stride[0];
        a.lengths_i64 = lengths->dtype == LS_I64;
    }
    return a;
}

/* Does a call fit these kernels? */
static bool is_usual(const attention *a, ls_dtype dtype)
{
    bool same = a->k.dtype == dtype && a->v.dtype == dtype && a->o.dtype == dtype;
    return same && a->depth <= MOST_DEPTH && a->value_depth <= MOST_DEPTH && a->depth > 0 && a->value_depth > 0 &&
           a->key_heads > 0 && a->heads <= 65535 && a->batch <= 65535;
}

static const ls_operand *input(const ls_call *call, int i)
{
    return i < call->n_in ? call->in[i] : NULL;
}

static const ls_operand *output(const ls_call *call, int i)
{
    return i < call->n_out ? call->out[i] : NULL;
}

extern "C" ls_status cuda_attention(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    const ls_operand *q = call->in[0];
    attention a = attention_of(d, call, q, call->in[1], call->in[2], input(call, 3), input(call, 4));
    a.o = heads_of(call->out[0]), a.lse = heads_of(output(call, 1)), a.kept = heads_of(output(call, 2));
    if (!is_usual(&a, q->dtype)) return cuda_on_host(d, stream, call, why);
    if (!a.batch || !a.heads || !a.queries) return LS_OK;
    if (cuda_attention_is_fast(d, &a, false)) return cuda_attention_fast(d, stream, &a, why);
    CUDA_FLOATING(q->dtype, why, CUDA_TRY(run_forward<T>(stream, &a, why)));
    return LS_OK;
}

extern "C" ls_status cuda_attention_grad(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    const ls_operand *q = call->in[1];
    attention a = attention_of(d, call, q, call->in[2], call->in[3], input(call, 6), input(call, 8));
    a.d_o = heads_of(call->in[0]), a.o = heads_of(call->in[4]), a.lse = heads_of(call->in[5]);
    a.kept = heads_of(input(call, 7));
    a.dq = heads_of(output(call, 0)), a.dk = heads_of(output(call, 1)), a.dv = heads_of(output(call, 2));
    if (!is_usual(&a, q->dtype)) return cuda_on_host(d, stream, call, why);
    if (!a.batch || !a.heads) return LS_OK;
    if (cuda_attention_is_fast(d, &a, true)) return cuda_attention_fast_grad(d, stream, &a, why);
    a.is_drawn = a.kept.data && cuda_attention_is_fast(d, &a, false);
    CUDA_FLOATING(q->dtype, why, CUDA_TRY(run_backward<T>(d, stream, &a, why)));
    return LS_OK;
}
