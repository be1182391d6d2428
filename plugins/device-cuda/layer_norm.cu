/* layer_norm.cu - layer normalisation, also of residual + dropout(x) and of rows picked from tables, and gradients.
 *
 * Rows of up to 1024 elements stay in the registers of one warp from the first read to the last write; longer ones, and
 * those that are not aligned, are walked by a block.
 *
 * Of half numbers in rows of a multiple of 8, dropout keeps a bit for each element, set where it is dropped, in their
 * order: drawing again would take a third of the gradient's instructions. Others are drawn again. */
#include "columns.cuh"
#include "dropout.cuh"
#include "fault.h"
#include "row_sums.h"
#include "vector.cuh"

enum { TABLES = 3, LANE_ELEMENTS = 32, WARP_ELEMENTS = 32 * LANE_ELEMENTS, WARPS = 8 };
enum { FORWARD_WARPS = 2, FORWARD_BLOCKS = 16 }; /* of a block, and blocks on a processor: rows on their way at once */
enum { GRADE_WARPS = 4, GRADE_BLOCKS = 3 }; /* of a block, and blocks on a processor: sums of columns fill registers */

/* Rows of n elements without gaps, `pitch` elements apart. */
typedef struct row_set {
    char *data; /* NULL: absent */
    int64_t pitch;
} row_set;

template <typename T> static __device__ __forceinline__ T *row_at(const row_set &x, int64_t row)
{
    return (T *)x.data + row * x.pitch;
}

/* What is normalised: x, or residual + dropout(x), or the sum of rows that an index picks from each table. */
typedef struct source {
    row_set x, residual, table[TABLES];
    const int64_t *index[TABLES]; /* one per row */
    int64_t limit[TABLES];        /* rows of each table */
    int tables;
    dropping drop;
    cuda_fault_site fault;
} source;

typedef struct forward {
    source from;
    row_set y, sum;
    uint8_t *kept;             /* a bit per element; NULL: not wanted */
    const void *weight, *bias; /* [n] of the wide type; NULL: 1 and 0 */
    void *mean, *rstd;         /* [rows] of the wide type; NULL: not wanted */
    int64_t rows, n;
    double epsilon;
} forward;

template <typename T> static __device__ __forceinline__ typename wide<T>::type rounded(typename wide<T>::type x)
{
    return as<typename wide<T>::type>(as<T>(x));
}

/* ---- Forward, a warp per row ------------------------------------------------------------------------------------- */

/* What a kernel normalises: x, residual + x, residual + dropout(x), the sum of picked rows. */
enum kind { PLAIN, ADDED, DROPPED, PICKED };

static __device__ __forceinline__ void find_picked(const source &s, int64_t row, int64_t *picked)
{
    for (int t = 0; t < s.tables; t++) {
        picked[t] = s.index[t][row];
        if (!fault_unless_index(s.fault, picked[t], s.limit[t])) picked[t] = 0;
    }
}

template <typename T, int N>
static __device__ __forceinline__ vector<T, N> vector_at(const row_set &x, int64_t row, int column)
{
    return *(const vector<T, N> *)(row_at<const T>(x, row) + column);
}

/* v = the rows that were picked from each table, added up. */
template <typename T, int N>
static __device__ __forceinline__ void add_picked(const source &s, const int64_t *picked, int column, vector<T, N> &v)
{
    v = vector_at<T, N>(s.table[0], picked[0], column);
    for (int t = 1; t < s.tables; t++) {
        vector<T, N> more = vector_at<T, N>(s.table[t], picked[t], column);
#pragma unroll
        for (int i = 0; i < N; i += 2)
            put_two<T>(v.at + i, as<float>(v.at[i]) + as<float>(more.at[i]),
                       as<float>(v.at[i + 1]) + as<float>(more.at[i + 1]));
    }
}

/* v = residual + dropout(v), where `first` is the place of the first among all elements. Returns a bit for each, set
 * where it is dropped. */
template <typename T, int N, bool DROPS>
static __device__ __forceinline__ uint32_t add_residual(const dropping &drop, int64_t first,
                                                        const vector<T, N> &residual, vector<T, N> &v)
{
    float scale = (float)drop.scale;
    uint32_t all = 0;
#pragma unroll
    for (int k = 0; k < N; k += 4) {
        uint32_t dropped = DROPS ? drops_of_four(drop, (uint64_t)(first + k)) : 0;
        all |= dropped << k;
#pragma unroll
        for (int i = k; i < k + 4; i += 2) {
            if (DROPS) {
                put_two<T>(v.at + i, as<float>(v.at[i]) * scale, as<float>(v.at[i + 1]) * scale);
                if (dropped >> (i - k) & 1) v.at[i] = as<T>(0.0f);
                if (dropped >> (i - k) & 2) v.at[i + 1] = as<T>(0.0f);
            }
            put_two<T>(v.at + i, as<float>(v.at[i]) + as<float>(residual.at[i]),
                       as<float>(v.at[i + 1]) + as<float>(residual.at[i + 1]));
        }
    }
    return all;
}

/* What a lane normalises, rounded: everything is requested before anything is used. Vector k of a lane begins in column
 * (32 k + lane) N. */
template <typename T, int N, int VECTORS, int KIND>
static __device__ __forceinline__ void read_source(const source &s, int64_t row, int n, uint8_t *kept,
                                                   vector<T, N> (&v)[VECTORS])
{
    int first = threadIdx.x % 32 * N;
    vector<T, N> residual[VECTORS];
    int64_t picked[TABLES];
    if (KIND == PICKED) find_picked(s, row, picked);
#pragma unroll
    for (int k = 0; k < VECTORS; k++) {
        int column = first + k * 32 * N;
        if (column >= n) continue;
        if (KIND == PICKED) add_picked<T, N>(s, picked, column, v[k]);
        else v[k] = vector_at<T, N>(s.x, row, column);
        if (KIND == ADDED || KIND == DROPPED) residual[k] = vector_at<T, N>(s.residual, row, column);
    }
#pragma unroll
    for (int k = 0; k < VECTORS; k++) {
        int column = first + k * 32 * N;
        if ((KIND != ADDED && KIND != DROPPED) || column >= n) continue;
        uint32_t dropped = add_residual<T, N, KIND == DROPPED>(s.drop, row * n + column, residual[k], v[k]);
        if (KIND == DROPPED && N == 8 && kept) kept[(row * n + column) / 8] = (uint8_t)dropped;
    }
}

template <typename T, int KIND>
static __global__ void __launch_bounds__(32 * FORWARD_WARPS, sizeof(T) < 4 ? FORWARD_BLOCKS : FORWARD_BLOCKS / 2)
    normalise_warp(const __grid_constant__ forward f)
{
    const int N = whole<T>::N, VECTORS = LANE_ELEMENTS / N;
    int n = (int)f.n, lane = threadIdx.x % 32, first = lane * N;
    /* From the end: what the last operator wrote there is still in the cache. */
    int64_t row = f.rows - 1 - ((int64_t)blockIdx.x * FORWARD_WARPS + threadIdx.x / 32);
    if (row < 0) return;
    vector<T, N> v[VECTORS];
    float sum = 0, squares = 0;
    read_source<T, N, VECTORS, KIND>(f.from, row, n, f.kept, v);
#pragma unroll
    for (int k = 0; k < VECTORS; k++) {
        int column = first + k * 32 * N;
        if (column >= n) continue;
        if (f.sum.data) *(vector<T, N> *)(row_at<T>(f.sum, row) + column) = v[k];
#pragma unroll
        for (int i = 0; i < N; i++) sum += as<float>(v[k].at[i]);
    }
    float mean = warp_sum(sum) / (float)n;
#pragma unroll
    for (int k = 0; k < VECTORS; k++) {
        if (first + k * 32 * N >= n) continue;
#pragma unroll
        for (int i = 0; i < N; i++) {
            float x = as<float>(v[k].at[i]) - mean;
            squares = fmaf(x, x, squares);
        }
    }
    float rstd = 1 / sqrtf(warp_sum(squares) / (float)n + (float)f.epsilon);
    if (lane == 0 && f.mean) ((float *)f.mean)[row] = mean;
    if (lane == 0 && f.rstd) ((float *)f.rstd)[row] = rstd;
#pragma unroll
    for (int k = 0; k < VECTORS; k++) {
        int column = first + k * 32 * N;
        if (column >= n) continue;
        float y[N];
#pragma unroll
        for (int part = 0; part < N; part += 4) {
            float w[4] = {1, 1, 1, 1}, b[4] = {0, 0, 0, 0};
            if (f.weight) load_vector<float, 4>(w, (const float *)f.weight + column + part);
            if (f.bias) load_vector<float, 4>(b, (const float *)f.bias + column + part);
#pragma unroll
            for (int i = 0; i < 4; i++)
                y[part + i] = fmaf(fmaf(as<float>(v[k].at[part + i]), rstd, -mean * rstd), w[i], b[i]);
        }
        store_vector<T, N>(row_at<T>(f.y, row) + column, y);
    }
}

/* ---- Forward, a block per row ------------------------------------------------------------------------------------ */

template <typename W> static __device__ W block_total(W x)
{
    __shared__ W sums[WARPS + 1];
    __syncthreads();
    x = warp_sum(x);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = x;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < WARPS; i++) x += sums[i];
        sums[WARPS] = x;
    }
    __syncthreads();
    return sums[WARPS];
}

template <typename T>
static __device__ T source_element(const source &s, const int64_t *picked, int64_t row, int64_t n, int64_t column)
{
    typedef typename wide<T>::type W;
    if (s.tables) {
        T v = row_at<const T>(s.table[0], picked[0])[column];
        for (int t = 1; t < s.tables; t++) v = as<T>(as<W>(v) + as<W>(row_at<const T>(s.table[t], picked[t])[column]));
        return v;
    }
    T v = row_at<const T>(s.x, row)[column];
    if (!s.residual.data) return v;
    if (s.drop.below) v = drops(s.drop, (uint64_t)(row * n + column)) ? as<T>((W)0) : as<T>(as<W>(v) * (W)s.drop.scale);
    return as<T>(as<W>(v) + as<W>(row_at<const T>(s.residual, row)[column]));
}

/* y holds what is normalised until it is. */
template <typename T> static __global__ void __launch_bounds__(32 * WARPS) normalise_block(const forward f)
{
    typedef typename wide<T>::type W;
    for (int64_t row = blockIdx.x; row < f.rows; row += gridDim.x) {
        T *y = row_at<T>(f.y, row);
        int64_t picked[TABLES];
        W sum = 0, squares = 0;
        find_picked(f.from, row, picked);
        for (int64_t i = threadIdx.x; i < f.n; i += blockDim.x) {
            T v = source_element<T>(f.from, picked, row, f.n, i);
            if (f.sum.data) row_at<T>(f.sum, row)[i] = v;
            y[i] = v;
            sum += as<W>(v);
        }
        W mean = block_total(sum) / (W)f.n;
        for (int64_t i = threadIdx.x; i < f.n; i += blockDim.x) squares += (as<W>(y[i]) - mean) * (as<W>(y[i]) - mean);
        W rstd = 1 / sqrt(block_total(squares) / (W)f.n + (W)f.epsilon);
        if (threadIdx.x == 0 && f.mean) ((W *)f.mean)[row] = mean;
        if (threadIdx.x == 0 && f.rstd) ((W *)f.rstd)[row] = rstd;
        for (int64_t i = threadIdx.x; i < f.n; i += blockDim.x) {
            W w = f.weight ? ((const W *)f.weight)[i] : (W)1, b = f.bias ? ((const W *)f.bias)[i] : (W)0;
            y[i] = as<T>((as<W>(y[i]) * rstd - mean * rstd) * w + b);
        }
    }
}

/* The bits that a warp per row would have kept. */
static __global__ void keep_bits(const dropping drop, uint8_t *kept, int64_t bytes)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < bytes)
        kept[i] = (uint8_t)(drops_of_four(drop, (uint64_t)i * 8) | drops_of_four(drop, (uint64_t)i * 8 + 4) << 4);
}

/* ---- Backward ---------------------------------------------------------------------------------------------------- */

/* With xhat = (x - mean) rstd and g = dy weight: dsum = more + rstd (g - avg(g) - xhat avg(g xhat)), and dx is dsum
 * after dropout. */
typedef struct backward {
    row_set dy, x, dsum, dx;         /* dsum, dx: absent where not wanted */
    const void *mean, *rstd;         /* [rows] of the wide type */
    const void *weight;              /* [n]; NULL: 1 */
    void *dweight_part, *dbias_part; /* [chunks, n] of the wide type; NULL: not wanted */
    float *last_part;                /* the same of dx, or of dsum without one; of a warp per row only */
    int64_t rows, n, chunk;          /* rows of a chunk; of a block per row only */
    bool accumulate;                 /* dsum holds what comes from elsewhere */
    dropping drop;
    const uint8_t *kept; /* what forward kept; NULL: nothing */
} backward;

/* Rows go to warps so that all blocks get equally many; each block's sums are one chunk. */
template <typename T, bool KEPT>
static __global__ void __launch_bounds__(32 * GRADE_WARPS, GRADE_BLOCKS) grade_warp(const backward b)
{
    const int N = whole<T>::N, VECTORS = LANE_ELEMENTS / N;
    static_assert(!KEPT || N == 8, "the bits of a vector are a byte");
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    let_sums_begin();
    float dweight[VECTORS][N], dbias[VECTORS][N];
    /* Sums of the last gradient, four of a lane side by side: registers have no room for more. */
    __shared__ float4 last[GRADE_WARPS][WARP_ELEMENTS / 4];
    float4 *mine = last[warp] + lane;
#pragma unroll
    for (int k = 0; k < VECTORS; k++) {
#pragma unroll
        for (int i = 0; i < N; i++) dweight[k][i] = dbias[k][i] = 0;
#pragma unroll
        for (int part = 0; part < N / 4; part++) mine[(k * N / 4 + part) * 32] = make_float4(0, 0, 0, 0);
    }
    int64_t step = (int64_t)gridDim.x * GRADE_WARPS;
    for (int64_t row = (int64_t)warp * gridDim.x + blockIdx.x; row < b.rows; row += step) {
        vector<T, N> dy[VECTORS], x[VECTORS];
        uint32_t kept[VECTORS];
#pragma unroll
        for (int k = 0; k < VECTORS; k++) {
            int64_t column = (k * 32 + lane) * N;
            if (column >= b.n) continue;
            if (KEPT) kept[k] = b.kept[(row * b.n + column) / 8];
            dy[k] = *(const vector<T, N> *)(row_at<const T>(b.dy, row) + column);
            x[k] = *(const vector<T, N> *)(row_at<const T>(b.x, row) + column);
        }
        float mean = ((const float *)b.mean)[row], rstd = ((const float *)b.rstd)[row], shift = -mean * rstd;
        float sum = 0, dot = 0;
#pragma unroll
        for (int k = 0; k < VECTORS; k++) {
            int64_t column = (k * 32 + lane) * N;
            if (column >= b.n) continue;
#pragma unroll
            for (int part = 0; part < N; part += 4) {
                float w[4] = {1, 1, 1, 1};
                if (b.weight) load_vector<float, 4>(w, (const float *)b.weight + column + part);
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    float d = as<float>(dy[k].at[part + i]), xhat = fmaf(as<float>(x[k].at[part + i]), rstd, shift);
                    dweight[k][part + i] = fmaf(d, xhat, dweight[k][part + i]);
                    dbias[k][part + i] += d;
                    sum = fmaf(d, w[i], sum);
                    dot = fmaf(d * w[i], xhat, dot);
                }
            }
        }
        if (!b.dsum.data && !b.dx.data) continue;
        float along = -rstd * rstd * warp_sum(dot) / (float)b.n;
        float constant = -rstd * warp_sum(sum) / (float)b.n - along * mean;
#pragma unroll
        for (int k = 0; k < VECTORS; k++) {
            int64_t column = (k * 32 + lane) * N;
            if (column >= b.n) continue;
            float v[N];
#pragma unroll
            for (int part = 0; part < N; part += 4) {
                float w[4] = {1, 1, 1, 1};
                if (b.weight) load_vector<float, 4>(w, (const float *)b.weight + column + part);
#pragma unroll
                for (int i = 0; i < 4; i++)
                    v[part + i] = fmaf(as<float>(dy[k].at[part + i]) * w[i], rstd,
                                       fmaf(as<float>(x[k].at[part + i]), along, constant));
            }
            if (b.accumulate) {
                float more[N];
                load_vector<T, N>(more, row_at<const T>(b.dsum, row) + column);
#pragma unroll
                for (int i = 0; i < N; i++) v[i] += more[i];
            }
            vector<T, N> d;
#pragma unroll
            for (int i = 0; i < N; i += 2) put_two<T>(d.at + i, v[i], v[i + 1]);
            if (b.dsum.data) *(vector<T, N> *)(row_at<T>(b.dsum, row) + column) = d;
            if (b.dx.data && b.drop.below) {
                float scale = (float)b.drop.scale;
#pragma unroll
                for (int part = 0; part < N; part += 4) {
                    uint32_t dropped =
                        KEPT ? kept[k] >> part : drops_of_four(b.drop, (uint64_t)(row * b.n + column + part));
#pragma unroll
                    for (int i = 0; i < 4; i += 2)
                        put_two<T>(d.at + part + i, dropped >> i & 1 ? 0.0f : as<float>(d.at[part + i]) * scale,
                                   dropped >> i & 2 ? 0.0f : as<float>(d.at[part + i + 1]) * scale);
                }
            }
            if (b.dx.data) *(vector<T, N> *)(row_at<T>(b.dx, row) + column) = d;
            if (!b.last_part) continue;
#pragma unroll
            for (int part = 0; part < N / 4; part++) {
                float4 *sum = mine + (k * N / 4 + part) * 32, four = *sum;
                const T *from = d.at + part * 4;
                *sum = make_float4(four.x + as<float>(from[0]), four.y + as<float>(from[1]),
                                   four.z + as<float>(from[2]), four.w + as<float>(from[3]));
            }
        }
    }
    /* The warps' sums, added one warp after the other. */
    __shared__ float total[2][WARP_ELEMENTS];
    for (int turn = 0; turn < GRADE_WARPS; turn++) {
        __syncthreads();
        if (warp != turn) continue;
#pragma unroll
        for (int k = 0; k < VECTORS; k++)
#pragma unroll
            for (int i = 0; i < N; i++) {
                int at = (k * N + i) * 32 + lane;
                total[0][at] = dweight[k][i] + (turn ? total[0][at] : 0);
                total[1][at] = dbias[k][i] + (turn ? total[1][at] : 0);
            }
    }
    __syncthreads();
    for (int column = threadIdx.x; column < b.n; column += 32 * GRADE_WARPS) {
        int at = (column / (32 * N) * N + column % N) * 32 + column / N % 32;
        if (b.dweight_part) ((float *)b.dweight_part)[blockIdx.x * b.n + column] = total[0][at];
        if (b.dbias_part) ((float *)b.dbias_part)[blockIdx.x * b.n + column] = total[1][at];
        if (!b.last_part) continue;
        int place = (column / (32 * N) * (N / 4) + column % N / 4) * 128 + column / N % 32 * 4 + column % 4;
        float sum = 0;
        for (int i = 0; i < GRADE_WARPS; i++) sum += ((const float *)last[i])[place];
        b.last_part[blockIdx.x * b.n + column] = sum;
    }
}

template <typename T> static __global__ void __launch_bounds__(32 * WARPS) grade_block(const backward b)
{
    typedef typename wide<T>::type W;
    const W *weight = (const W *)b.weight;
    for (int64_t row = blockIdx.x; row < b.rows; row += gridDim.x) {
        const T *dy = row_at<const T>(b.dy, row), *x = row_at<const T>(b.x, row);
        W mean = ((const W *)b.mean)[row], rstd = ((const W *)b.rstd)[row], sum = 0, dot = 0;
        for (int64_t i = threadIdx.x; i < b.n; i += blockDim.x) {
            W g = as<W>(dy[i]) * (weight ? weight[i] : (W)1);
            sum += g;
            dot += g * (as<W>(x[i]) * rstd - mean * rstd);
        }
        sum = block_total(sum) / (W)b.n;
        dot = block_total(dot) / (W)b.n;
        for (int64_t i = threadIdx.x; i < b.n; i += blockDim.x) {
            W g = as<W>(dy[i]) * (weight ? weight[i] : (W)1), xhat = (as<W>(x[i]) - mean) * rstd;
            W v = rstd * (g - sum - xhat * dot);
            if (b.accumulate) v += as<W>(row_at<const T>(b.dsum, row)[i]);
            if (b.dsum.data) row_at<T>(b.dsum, row)[i] = as<T>(v);
            if (!b.dx.data) continue;
            bool dropped = b.drop.below && drops(b.drop, (uint64_t)(row * b.n + i));
            W scale = b.drop.below ? (W)b.drop.scale : (W)1;
            row_at<T>(b.dx, row)[i] = dropped ? as<T>((W)0) : as<T>(rounded<T>(v) * scale);
        }
    }
}

/* Sums over the rows of one chunk: block (x, y), 32 columns and WARPS rows at a time. */
template <typename T> static __global__ void __launch_bounds__(32 * WARPS) grade_columns(const backward b)
{
    typedef typename wide<T>::type W;
    __shared__ W sums[2][WARPS][33];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int64_t column = (int64_t)blockIdx.x * 32 + lane, begin = (int64_t)blockIdx.y * b.chunk;
    int64_t end = begin + b.chunk < b.rows ? begin + b.chunk : b.rows;
    W dweight = 0, dbias = 0;
    for (int64_t row = begin + warp; row < end && column < b.n; row += WARPS) {
        W d = as<W>(row_at<const T>(b.dy, row)[column]), x = as<W>(row_at<const T>(b.x, row)[column]);
        dweight += d * (x - ((const W *)b.mean)[row]) * ((const W *)b.rstd)[row];
        dbias += d;
    }
    sums[0][warp][lane] = dweight;
    sums[1][warp][lane] = dbias;
    __syncthreads();
    if (warp || column >= b.n) return;
    for (int i = 1; i < WARPS; i++) dweight += sums[0][i][lane], dbias += sums[1][i][lane];
    ((W *)b.dweight_part)[blockIdx.y * b.n + column] = dweight;
    ((W *)b.dbias_part)[blockIdx.y * b.n + column] = dbias;
}

/* ---- Operands ---------------------------------------------------------------------------------------------------- */

/* x as rows of its last n elements; false where they have gaps, or are not equally far apart. */
static bool find_rows(const ls_operand *x, int64_t n, row_set *to)
{
    to->data = x ? (char *)x->data : NULL;
    to->pitch = n;
    if (!x) return true;
    int i = x->ndim - 1;
    int64_t expected = 1;
    for (; i >= 0 && (expected < n || x->dim[i] == 1); i--) {
        if (x->dim[i] != 1 && x->stride[i] != expected) return false;
        expected *= x->dim[i];
    }
    bool first = true;
    for (; i >= 0; i--) {
        if (x->dim[i] == 1) continue;
        if (first) to->pitch = expected = x->stride[i];
        else if (x->stride[i] != expected) return false;
        first = false;
        expected *= x->dim[i];
    }
    return true;
}

template <typename T> static bool is_aligned(const row_set *x, int64_t n)
{
    return fits_vectors<T, whole<T>::N>(x->data, n, x->pitch);
}

/* Vectors of the size n in the wide type, kept until the call is submitted. */
typedef struct coefficients {
    int count;
    ls_workspace space[2];
} coefficients;

static ls_status coefficient(cuda_device *d, cudaStream_t stream, const ls_operand *x, int64_t n, ls_dtype wide_type,
                             coefficients *kept, const void **to, ls_message *why)
{
    *to = x ? x->data : NULL;
    if (!x || (x->dtype == wide_type && cuda_contiguous(x) && (uintptr_t)x->data % 16 == 0)) return LS_OK;
    ls_workspace *space = &kept->space[kept->count];
    CUDA_TRY(cuda_take(d, (size_t)n * d->host->dtype_size(wide_type), space, why));
    kept->count++;
    ls_operand copy = cuda_dense(space->address, wide_type, x->ndim, x->dim);
    *to = copy.data;
    return cuda_convert(d, stream, x, &copy, why);
}

static void give_coefficients(cuda_device *d, coefficients *kept)
{
    for (int i = 0; i < kept->count; i++) cuda_give(d, kept->space[i]);
}

static ls_dtype wide_type_of(ls_dtype dtype)
{
    return dtype == LS_F64 ? LS_F64 : LS_F32;
}

static void *data_of(const ls_operand *x)
{
    return x ? x->data : NULL;
}

/* Statistics [2, rows]: mean, then rstd. */
static void *statistics_row(const ls_operand *x, int row)
{
    return x ? (char *)x->data + (size_t)(row * x->dim[1]) * (x->dtype == LS_F64 ? 8 : 4) : NULL;
}

/* ---- Forward operators ------------------------------------------------------------------------------------------- */

template <typename T> static bool warp_can(const forward &f)
{
    bool fits = sizeof(T) < 8 && f.n <= WARP_ELEMENTS && is_aligned<T>(&f.y, f.n) && is_aligned<T>(&f.sum, f.n) &&
                is_aligned<T>(&f.from.x, f.n) && is_aligned<T>(&f.from.residual, f.n);
    for (int t = 0; t < f.from.tables; t++) fits = fits && is_aligned<T>(&f.from.table[t], f.n);
    return fits;
}

template <typename T> struct on_warps {
    static void forward_rows(cudaStream_t stream, const forward &f)
    {
        unsigned blocks = (unsigned)((f.rows + FORWARD_WARPS - 1) / FORWARD_WARPS);
        if (f.from.tables) normalise_warp<T, PICKED><<<blocks, 32 * FORWARD_WARPS, 0, stream>>>(f);
        else if (!f.from.residual.data) normalise_warp<T, PLAIN><<<blocks, 32 * FORWARD_WARPS, 0, stream>>>(f);
        else if (!f.from.drop.below) normalise_warp<T, ADDED><<<blocks, 32 * FORWARD_WARPS, 0, stream>>>(f);
        else normalise_warp<T, DROPPED><<<blocks, 32 * FORWARD_WARPS, 0, stream>>>(f);
    }
    static void backward_rows(cudaStream_t stream, const backward &b, unsigned blocks)
    {
        if (b.kept) grade_warp<T, sizeof(T) == 2><<<blocks, 32 * GRADE_WARPS, 0, stream>>>(b);
        else grade_warp<T, false><<<blocks, 32 * GRADE_WARPS, 0, stream>>>(b);
    }
};
template <> struct on_warps<double> { /* too wide for a warp's registers */
    static void forward_rows(cudaStream_t, const forward &)
    {
    }
    static void backward_rows(cudaStream_t, const backward &, unsigned)
    {
    }
};

static unsigned row_blocks(const cuda_device *d, int64_t rows)
{
    int64_t most = (int64_t)d->processors * 32;
    return (unsigned)(rows < most ? rows : most);
}

/* Everything but weight and bias is in f; its y, sum and inputs are those of the call. */
static ls_status normalise(cuda_device *d, cudaStream_t stream, const ls_call *call, const ls_operand *const *vectors,
                           forward *f, ls_message *why)
{
    const ls_operand *y = call->out[0];
    f->n = call->attrs.norm.groups;
    f->rows = f->n ? cuda_numel(y) / f->n : 0;
    f->epsilon = call->attrs.norm.epsilon;
    if (!f->rows) return LS_OK;
    coefficients kept = {};
    ls_dtype type = wide_type_of(y->dtype);
    ls_status status = coefficient(d, stream, vectors[0], f->n, type, &kept, &f->weight, why);
    if (!status) status = coefficient(d, stream, vectors[1], f->n, type, &kept, &f->bias, why);
    if (!status) {
        bool warps = false;
        CUDA_FLOATING(y->dtype, why, warps = warp_can<T>(*f); if (warps) on_warps<T>::forward_rows(stream, *f);
                      else normalise_block<T><<<row_blocks(d, f->rows), 32 * WARPS, 0, stream>>>(*f));
        int64_t bytes = f->rows * f->n / 8;
        if (f->kept && !warps)
            keep_bits<<<(unsigned)((bytes + 255) / 256), 256, 0, stream>>>(f->from.drop, f->kept, bytes);
        status = CUDA_LAUNCHED(why);
    }
    give_coefficients(d, &kept);
    return status;
}

extern "C" ls_status cuda_layer_norm(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    forward f = {};
    int64_t n = call->attrs.norm.groups;
    if (!find_rows(call->in[0], n, &f.from.x) || !find_rows(call->out[0], n, &f.y))
        return cuda_on_host(d, stream, call, why);
    f.mean = data_of(call->out[1]), f.rstd = data_of(call->out[2]);
    return normalise(d, stream, call, call->in + 1, &f, why);
}

/* The bits of dropout, where forward and gradient keep them; NULL elsewhere. */
static uint8_t *kept_bits(const ls_operand *kept, const dropping *drop, ls_dtype dtype, int64_t n)
{
    bool keeps = kept && drop->below && (dtype == LS_F16 || dtype == LS_BF16) && n % 8 == 0;
    return keeps ? (uint8_t *)kept->data : NULL;
}

extern "C" ls_status cuda_dropout_add_layer_norm(cuda_device *d, cudaStream_t stream, const ls_call *call,
                                                 ls_message *why)
{
    forward f = {};
    int64_t n = call->attrs.norm.groups;
    if (!find_rows(call->in[0], n, &f.from.x) || !find_rows(call->in[1], n, &f.from.residual) ||
        !find_rows(call->out[0], n, &f.y) || !find_rows(call->out[1], n, &f.sum))
        return cuda_on_host(d, stream, call, why);
    f.from.drop = dropping_of(call->attrs.norm.dropout, call->attrs.norm.seed, call->attrs.norm.offset);
    f.kept = kept_bits(call->n_out > 3 ? call->out[3] : NULL, &f.from.drop, call->out[0]->dtype, n);
    f.mean = statistics_row(call->out[2], 0), f.rstd = statistics_row(call->out[2], 1);
    return normalise(d, stream, call, call->in + 2, &f, why);
}

/* An index as i64 without gaps: itself or a copy. */
static ls_status plain_index(cuda_device *d, cudaStream_t stream, const ls_operand *x, ls_workspace *space,
                             const int64_t **to, ls_message *why)
{
    *to = (const int64_t *)x->data;
    if (x->dtype == LS_I64 && cuda_contiguous(x)) return LS_OK;
    CUDA_TRY(cuda_take(d, (size_t)cuda_numel(x) * sizeof(int64_t), space, why));
    ls_operand copy = cuda_dense(space->address, LS_I64, x->ndim, x->dim);
    *to = (const int64_t *)copy.data;
    return cuda_convert(d, stream, x, &copy, why);
}

static ls_status pick_and_normalise(cuda_device *d, cudaStream_t stream, const ls_call *call, forward *f,
                                    ls_workspace *space, ls_message *why)
{
    for (int t = 0; t < f->from.tables; t++)
        CUDA_TRY(plain_index(d, stream, call->in[2 * t + 1], &space[t], &f->from.index[t], why));
    return normalise(d, stream, call, call->in + 2 * TABLES, f, why);
}

extern "C" ls_status cuda_embedding_layer_norm(cuda_device *d, cudaStream_t stream, const ls_call *call,
                                               ls_message *why)
{
    forward f = {};
    ls_workspace space[TABLES] = {};
    int64_t n = call->attrs.norm.groups;
    bool fits = find_rows(call->out[0], n, &f.y) && find_rows(call->out[1], n, &f.sum);
    for (int t = 0; t < TABLES && call->in[2 * t]; t++) {
        fits = fits && find_rows(call->in[2 * t], n, &f.from.table[t]) && call->in[2 * t]->dim[0] > 0;
        f.from.limit[t] = call->in[2 * t]->dim[0];
        f.from.tables = t + 1;
    }
    if (!fits) return cuda_on_host(d, stream, call, why);
    f.from.fault = cuda_fault_at(d, call);
    f.mean = data_of(call->out[2]), f.rstd = data_of(call->out[3]);
    ls_status status = pick_and_normalise(d, stream, call, &f, space, why);
    for (int t = 0; t < TABLES; t++) cuda_give(d, space[t]);
    return status;
}

/* ---- Backward operators ------------------------------------------------------------------------------------------ */

template <typename T> static bool warp_can(const backward &b)
{
    return sizeof(T) < 8 && b.n <= WARP_ELEMENTS && is_aligned<T>(&b.dy, b.n) && is_aligned<T>(&b.x, b.n) &&
           is_aligned<T>(&b.dsum, b.n) && is_aligned<T>(&b.dx, b.n);
}

/* Memory for sums of the gradient of x, dx, or dsum without dropout: x is what a linear layer wrote. */
static float *sums_for_linear(cuda_device *d, cudaStream_t stream, const ls_call *call, const backward &b,
                              int64_t chunks)
{
    const row_set *last = b.dx.data ? &b.dx : &b.dsum;
    cuda_row_sums of = {last->data, call->in[0]->dtype, b.rows, b.n};
    bool leaves = call->op == LS_OP_dropout_add_layer_norm_grad && last->data && last->pitch == b.n;
    return leaves ? cuda_leave_sums(d, stream, of, chunks) : NULL;
}

typedef struct vector_gradients {
    const ls_operand *dweight, *dbias;
    bool accumulate_dweight, accumulate_dbias;
} vector_gradients;

template <typename T>
static ls_status grade_rows(cuda_device *d, cudaStream_t stream, const ls_call *call, backward b,
                            const vector_gradients *to, ls_message *why)
{
    typedef typename wide<T>::type W;
    bool sums = to->dweight || to->dbias, warps = warp_can<T>(b);
    int64_t chunks = (int64_t)d->processors * GRADE_BLOCKS, groups = (b.rows + GRADE_WARPS - 1) / GRADE_WARPS;
    if (chunks > groups) chunks = groups;
    b.chunk = (b.rows + chunks - 1) / chunks;
    if (!warps) chunks = (b.rows + b.chunk - 1) / b.chunk;
    ls_workspace space = {};
    if (sums) {
        CUDA_TRY(cuda_take(d, (size_t)(2 * chunks * b.n) * sizeof(W), &space, why));
        b.dweight_part = space.address;
        b.dbias_part = (W *)space.address + chunks * b.n;
    }
    if (warps) b.last_part = sums_for_linear(d, stream, call, b, chunks);
    if (warps) on_warps<T>::backward_rows(stream, b, (unsigned)chunks);
    else if (b.dsum.data || b.dx.data) grade_block<T><<<row_blocks(d, b.rows), 32 * WARPS, 0, stream>>>(b);
    if (!warps && sums)
        grade_columns<T><<<dim3((unsigned)((b.n + 31) / 32), (unsigned)chunks), 32 * WARPS, 0, stream>>>(b);
    if (sums)
        launch_add_chunks<W>(d, stream, sums_into(to->dweight, b.dweight_part, to->accumulate_dweight),
                             sums_into(to->dbias, b.dbias_part, to->accumulate_dbias), chunks, b.n);
    cuda_give(d, space);
    return CUDA_LAUNCHED(why);
}

static bool is_plain_vector(const ls_operand *x)
{
    return !x || cuda_contiguous(x);
}

/* Rows, statistics and dropout are in b. */
static ls_status differentiate(cuda_device *d, cudaStream_t stream, const ls_call *call, const ls_operand *weight,
                               backward *b, const vector_gradients *to, ls_message *why)
{
    const ls_operand *dy = call->in[0];
    b->n = call->attrs.norm.groups;
    b->rows = b->n ? cuda_numel(dy) / b->n : 0;
    if (!b->rows || !is_plain_vector(to->dweight) || !is_plain_vector(to->dbias))
        return cuda_on_host(d, stream, call, why);
    coefficients kept = {};
    ls_status status = coefficient(d, stream, weight, b->n, wide_type_of(dy->dtype), &kept, &b->weight, why);
    if (!status) CUDA_FLOATING(dy->dtype, why, status = grade_rows<T>(d, stream, call, *b, to, why));
    give_coefficients(d, &kept);
    return status;
}

extern "C" ls_status cuda_layer_norm_grad(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    backward b = {};
    int64_t n = call->attrs.norm.groups;
    int32_t accumulate = call->attrs.norm.accumulate;
    if (!find_rows(call->in[0], n, &b.dy) || !find_rows(call->in[1], n, &b.x) || !find_rows(call->out[0], n, &b.dsum))
        return cuda_on_host(d, stream, call, why);
    b.mean = call->in[2]->data, b.rstd = call->in[3]->data;
    b.accumulate = b.dsum.data && (accumulate & 1);
    vector_gradients to = {call->out[1], call->out[2], (bool)(accumulate & 2), (bool)(accumulate & 4)};
    return differentiate(d, stream, call, call->in[4], &b, &to, why);
}

extern "C" ls_status cuda_dropout_add_layer_norm_grad(cuda_device *d, cudaStream_t stream, const ls_call *call,
                                                      ls_message *why)
{
    backward b = {};
    int64_t n = call->attrs.norm.groups;
    int32_t accumulate = call->attrs.norm.accumulate;
    if (!find_rows(call->in[0], n, &b.dy) || !find_rows(call->in[1], n, &b.x) || !find_rows(call->out[0], n, &b.dx) ||
        !find_rows(call->out[1], n, &b.dsum))
        return cuda_on_host(d, stream, call, why);
    b.mean = statistics_row(call->in[2], 0), b.rstd = statistics_row(call->in[2], 1);
    b.drop = dropping_of(call->attrs.norm.dropout, call->attrs.norm.seed, call->attrs.norm.offset);
    b.kept = kept_bits(call->n_in > 4 ? call->in[4] : NULL, &b.drop, call->in[0]->dtype, n);
    b.accumulate = b.dsum.data && (accumulate & 2);
    vector_gradients to = {call->out[2], call->out[3], (bool)(accumulate & 4), (bool)(accumulate & 8)};
    return differentiate(d, stream, call, call->in[3], &b, &to, why);
}
