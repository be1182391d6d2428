/* batch_norm_pixels.cu - batch normalisation where the channels of a pixel are adjacent: [rows, C].
 *
 * A thread works on eight neighbouring channels, one byte of the mask, and walks down the rows. For the sums, blocks
 * are (slab of 128 bytes of channels, chunk of rows). For the result they are as wide as a row where that is possible,
 * and walk from the end to the start: what the sums read last is still in the L2 cache. */
#include "batch_norm.cuh"
#include "eight.cuh"

enum {
    THREADS = BATCH_NORM_THREADS,
    SLAB = BATCH_NORM_SLAB / 8 /* threads beside each other */,
    RESIDENT = 3 /* blocks of the second pass on a processor */
};

/* How threads share [rows, C]: `lanes` threads side by side, eight channels each, and the others below them. */
struct grid {
    int lanes, columns, chunks; /* columns, chunks: blocks beside and below each other */
};

static grid grid_for(const cuda_device *d, const batch_norm_data &b, int most_lanes, int64_t least_rows, int per_sm)
{
    int64_t eights = (b.channels + 7) / 8;
    grid g = {1, 1, 1};
    while (g.lanes < most_lanes && g.lanes < eights) g.lanes *= 2;
    g.columns = (int)((eights + g.lanes - 1) / g.lanes);
    int64_t rows_of_block = THREADS / g.lanes * least_rows;
    int64_t wanted = (int64_t)d->processors * per_sm / g.columns, most = (b.rows + rows_of_block - 1) / rows_of_block;
    int64_t chunks = wanted < most ? wanted : most;
    g.chunks = (int)(chunks < 1 ? 1 : chunks);
    return g;
}

/* The most rows that a thread has. */
static int rounds_of(grid g, const batch_norm_data &b)
{
    int64_t step = (int64_t)g.chunks * (THREADS / g.lanes);
    return (int)((b.rows + step - 1) / step);
}

/* Fewer blocks where their own sums, which the last one adds up, would take longer than the batch. */
static grid sums_grid(const cuda_device *d, ls_dtype dtype, const batch_norm_data &b)
{
    int64_t bytes = b.rows * b.channels * (int64_t)d->host->dtype_size(dtype);
    return grid_for(d, b, SLAB, 4, bytes > 20000000 ? 2 : 1);
}

/* ---- sums ---- */

enum { MOMENTS, TOTALS }; /* of x; of dy where the mask is set */

/* What other blocks wrote: past the L1 cache. */
static __device__ __forceinline__ void load_four(const float *from, float *to)
{
    float4 four = __ldcg((const float4 *)from);
    to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
}
static __device__ __forceinline__ void load_four(const double *from, double *to)
{
    for (int i = 0; i < 4; i++) to[i] = __ldcg(from + i);
}

template <typename T, bool WHOLE, int WHAT>
__global__ void __launch_bounds__(THREADS)
    pixel_sums(batch_norm_data b, batch_norm_channels c, int lanes, int rounds, void *space)
{
    typedef typename wide<T>::type W;
    enum { ROWS = WHOLE ? (WHAT == MOMENTS ? 16 : 8) / sizeof(T) : 1 }; /* loaded at once */
    __shared__ __align__(16) W shared[THREADS * 17];
    if (c.only && !c.only[blockIdx.x]) return;
    int lane = threadIdx.x % lanes, below = THREADS / lanes, chunks = gridDim.y;
    int64_t first = ((int64_t)blockIdx.x * lanes + lane) * 8, step = (int64_t)chunks * below;
    int64_t left = b.channels - first;
    int valid = left > 8 ? 8 : left > 0 ? (int)left : 0;
    const T *x = (const T *)b.x + first, *dy = (const T *)b.dy + first;
    W sum[8], second[8], pivot[8];
#pragma unroll
    for (int k = 0; k < 8; k++) {
        sum[k] = second[k] = 0;
        pivot[k] = 0;
        if (k < valid) pivot[k] = WHAT == MOMENTS ? as<W>(x[k]) : (W)channel(c.mean, first + k, 0);
    }
    int64_t row = (int64_t)blockIdx.y * below + threadIdx.x / lanes;
    for (int round = 0; round < rounds; round += ROWS, row += ROWS * step) {
        eight<T> xs[ROWS], dys[ROWS];
        unsigned bits[ROWS];
#pragma unroll
        for (int j = 0; j < ROWS; j++) {
            int64_t r = row + j * step;
            int there = r < b.rows ? valid : 0;
            xs[j].template load<WHOLE>(x + r * b.channels, there);
            if (WHAT != MOMENTS) dys[j].template load<WHOLE>(dy + r * b.channels, there);
            bits[j] = WHAT == TOTALS && b.mask && there ? b.mask[r * b.mask_pitch + first / 8] : 255u;
        }
#pragma unroll
        for (int j = 0; j < ROWS; j++) {
            if (row + j * step >= b.rows) break; /* also keeps the compiler from moving each load to its use */
#pragma unroll
            for (int k = 0; k < 8; k++) {
                W away = as<W>(xs[j].element[k]) - pivot[k], factor = away;
                if (WHAT == TOTALS) factor = bits[j] >> k & 1 ? as<W>(dys[j].element[k]) : 0;
                sum[k] += factor;
                second[k] += factor * away;
            }
        }
    }
#pragma unroll
    for (int k = 0; k < 8; k++) {
        shared[threadIdx.x * 17 + k] = sum[k];
        shared[threadIdx.x * 17 + 8 + k] = second[k];
    }
    __syncthreads();
    int numbers = lanes * 16; /* of a block: of each lane, eight sums and eight of the second kind */
    W *all = (W *)space + (int64_t)blockIdx.x * chunks * numbers, *mine = all + (int64_t)blockIdx.y * numbers;
    for (int i = threadIdx.x; i < numbers; i += THREADS) {
        W total = 0;
        for (int t = 0; t < below; t++) total += shared[(t * lanes + i / 16) * 17 + i % 16];
        mine[i] = total;
    }
    if (!last_block(blockIdx.x, gridDim.y)) return;

    int64_t channel = (int64_t)blockIdx.x * lanes * 8 + threadIdx.x; /* lanes * 8 <= 64 */
    bool finishes = threadIdx.x < lanes * 8 && channel < b.channels;
    channel_values before = {};
    if (finishes) before = read_channel(c, channel);
    /* Each thread adds up four numbers over some of the chunks, then the threads of a number meet. */
    int fours = numbers / 4, own = threadIdx.x % fours, team = threadIdx.x / fours, teams = THREADS / fours;
    double total[4] = {0, 0, 0, 0};
    for (int chunk = team; chunk < chunks; chunk += 8 * teams) {
        W part[8][4];
#pragma unroll
        for (int j = 0; j < 8; j++) {
            int from = chunk + j * teams;
            if (from < chunks) load_four(all + (int64_t)from * numbers + own * 4, part[j]);
            else part[j][0] = part[j][1] = part[j][2] = part[j][3] = 0;
        }
#pragma unroll
        for (int j = 0; j < 8; j++)
#pragma unroll
            for (int k = 0; k < 4; k++) total[k] += part[j][k];
    }
    double *totals = (double *)shared;
#pragma unroll
    for (int k = 0; k < 4; k++) totals[team * numbers + own * 4 + k] = total[k];
    __syncthreads();
    if (!finishes) return;
    double one = 0, two = 0;
    int at = threadIdx.x / 8 * 16 + threadIdx.x % 8;
    for (int t = 0; t < teams; t++) {
        one += totals[t * numbers + at];
        two += totals[t * numbers + at + 8];
    }
    double from = WHAT == MOMENTS ? (double)as<W>(((const T *)b.x)[channel]) : 0;
    write_channel<W>(c, before, channel, from, one, two);
}

size_t batch_norm_pixels_space(const cuda_device *d, ls_dtype dtype, const batch_norm_data &b)
{
    grid g = sums_grid(d, dtype, b);
    return (size_t)g.columns * g.chunks * g.lanes * 16 * (dtype == LS_F64 ? 8 : 4);
}

template <typename T, bool WHOLE>
static void launch_sums(cudaStream_t stream, grid g, const batch_norm_data &b, const batch_norm_channels &c,
                        void *space)
{
    dim3 blocks(g.columns, g.chunks);
    int rounds = rounds_of(g, b);
    if (!c.backward) pixel_sums<T, WHOLE, MOMENTS><<<blocks, THREADS, 0, stream>>>(b, c, g.lanes, rounds, space);
    else pixel_sums<T, WHOLE, TOTALS><<<blocks, THREADS, 0, stream>>>(b, c, g.lanes, rounds, space);
}

static bool whole(const batch_norm_data &b)
{
    const void *all[] = {b.x, b.dy, b.residual, b.y, b.dx, b.dresidual};
    for (const void *address : all)
        if (!can_load_eight(address)) return false;
    return b.channels % 8 == 0;
}

ls_status batch_norm_pixels_sums(const cuda_device *d, cudaStream_t stream, ls_dtype dtype, const batch_norm_data &b,
                                 const batch_norm_channels &c, void *space, ls_message *why)
{
    grid g = sums_grid(d, dtype, b);
    bool fast = whole(b);
    switch (dtype) {
    case LS_F16: (fast ? launch_sums<f16, true> : launch_sums<f16, false>)(stream, g, b, c, space); break;
    case LS_BF16: (fast ? launch_sums<bf16, true> : launch_sums<bf16, false>)(stream, g, b, c, space); break;
    case LS_F32: (fast ? launch_sums<float, true> : launch_sums<float, false>)(stream, g, b, c, space); break;
    default: launch_sums<double, false>(stream, g, b, c, space);
    }
    return CUDA_LAUNCHED(why);
}

/* ---- results ---- */

/* The rows of a thread are `step` apart; `rounds` is the most that any has. Several are loaded before one is used. */
template <typename T, bool WHOLE, bool RESIDUAL>
__global__ void __launch_bounds__(THREADS, WHOLE ? RESIDENT : 1)
    pixel_forward(batch_norm_data b, batch_norm_channels c, int lanes, int rounds)
{
    typedef typename wide<T>::type W;
    enum { ROWS = WHOLE ? 8 / sizeof(T) : 1 };
    int64_t first = ((int64_t)blockIdx.x * lanes + threadIdx.x % lanes) * 8, left = b.channels - first;
    if (left <= 0) return;
    int valid = left > 8 ? 8 : (int)left, below = THREADS / lanes;
    W scale[8], shift[8];
#pragma unroll
    for (int k = 0; k < 8; k++) {
        scale[k] = k < valid ? ((const W *)c.scale)[first + k] : 0;
        shift[k] = k < valid ? ((const W *)c.shift)[first + k] : 0;
    }
    const T *x = (const T *)b.x, *residual = (const T *)b.residual;
    T *y = (T *)b.y;
    uint8_t *mask = b.mask;
    bool relu = b.relu;
    int64_t start = (int64_t)blockIdx.y * below + threadIdx.x / lanes, step = (int64_t)gridDim.y * below;
    int own = start + (rounds - 1) * step < b.rows ? rounds : rounds - 1; /* rows of this thread */
    int64_t at = (start + (own - 1) * step) * b.channels + first, up = step * b.channels;
    int64_t bits_at = (start + (own - 1) * step) * b.mask_pitch + first / 8, bits_up = step * b.mask_pitch;
    for (int left_rows = own; left_rows > 0; left_rows -= ROWS, at -= ROWS * up, bits_at -= ROWS * bits_up) {
        eight<T> in[ROWS], more[ROWS];
#pragma unroll
        for (int j = 0; j < ROWS; j++) {
            int there = j < left_rows ? valid : 0;
            in[j].template load<WHOLE>(x + at - j * up, there);
            if (RESIDUAL) more[j].template load<WHOLE>(residual + at - j * up, there);
        }
#pragma unroll
        for (int j = 0; j < ROWS; j++) {
            if (j >= left_rows) break;
            eight<T> out;
            unsigned bits = 0;
#pragma unroll
            for (int k = 0; k < 8; k++) {
                W value = as<W>(in[j].element[k]) * scale[k] + shift[k];
                if (RESIDUAL) value += as<W>(more[j].element[k]);
                bits |= (unsigned)(value > 0) << k;
                out.element[k] = as<T>(relu && value < 0 ? 0 : value); /* NaN stays */
            }
            out.template store<WHOLE>(y + at - j * up, valid);
            if (mask) mask[bits_at - j * bits_up] = (uint8_t)bits;
        }
    }
}

template <typename T, bool WHOLE>
__global__ void __launch_bounds__(THREADS, WHOLE ? RESIDENT : 1)
    pixel_backward(batch_norm_data b, batch_norm_channels c, int lanes, int rounds)
{
    typedef typename wide<T>::type W;
    enum { ROWS = WHOLE ? 2 : 1 };
    int64_t first = ((int64_t)blockIdx.x * lanes + threadIdx.x % lanes) * 8, left = b.channels - first;
    if (left <= 0) return;
    int valid = left > 8 ? 8 : (int)left, below = THREADS / lanes;
    W scale[8], slope[8], shift[8];
#pragma unroll
    for (int k = 0; k < 8; k++) {
        scale[k] = k < valid ? ((const W *)c.scale)[first + k] : 0;
        slope[k] = k < valid ? ((const W *)c.slope)[first + k] : 0;
        shift[k] = k < valid ? ((const W *)c.shift)[first + k] : 0;
    }
    const T *x = (const T *)b.x, *dy = (const T *)b.dy;
    T *dx = (T *)b.dx, *dresidual = (T *)b.dresidual;
    const uint8_t *mask = b.mask;
    bool training = c.training;
    int64_t start = (int64_t)blockIdx.y * below + threadIdx.x / lanes, step = (int64_t)gridDim.y * below;
    int own = start + (rounds - 1) * step < b.rows ? rounds : rounds - 1; /* rows of this thread */
    int64_t at = (start + (own - 1) * step) * b.channels + first, up = step * b.channels;
    int64_t bits_at = (start + (own - 1) * step) * b.mask_pitch + first / 8, bits_up = step * b.mask_pitch;
    for (int left_rows = own; left_rows > 0; left_rows -= ROWS, at -= ROWS * up, bits_at -= ROWS * bits_up) {
        eight<T> in[ROWS], given[ROWS];
        unsigned bits[ROWS];
#pragma unroll
        for (int j = 0; j < ROWS; j++) {
            int there = j < left_rows ? valid : 0;
            given[j].template load<WHOLE>(dy + at - j * up, there);
            in[j].template load<WHOLE>(x + at - j * up, training ? there : 0); /* else constants do without x */
            bits[j] = mask && there ? mask[bits_at - j * bits_up] : 255u;
        }
#pragma unroll
        for (int j = 0; j < ROWS; j++) {
            if (j >= left_rows) break;
            eight<T> out;
#pragma unroll
            for (int k = 0; k < 8; k++) {
                if (!(bits[j] >> k & 1)) given[j].element[k] = as<T>(0.0f);
                out.element[k] =
                    as<T>(as<W>(given[j].element[k]) * scale[k] + (as<W>(in[j].element[k]) * slope[k] + shift[k]));
            }
            if (dx) out.template store<WHOLE>(dx + at - j * up, valid);
            if (dresidual) given[j].template store<WHOLE>(dresidual + at - j * up, valid);
        }
    }
}

template <typename T, bool WHOLE>
static void launch_write(cudaStream_t stream, grid g, const batch_norm_data &b, const batch_norm_channels &c)
{
    dim3 blocks(g.columns, g.chunks);
    int rounds = rounds_of(g, b);
    if (c.backward) pixel_backward<T, WHOLE><<<blocks, THREADS, 0, stream>>>(b, c, g.lanes, rounds);
    else if (b.residual) pixel_forward<T, WHOLE, true><<<blocks, THREADS, 0, stream>>>(b, c, g.lanes, rounds);
    else pixel_forward<T, WHOLE, false><<<blocks, THREADS, 0, stream>>>(b, c, g.lanes, rounds);
}

ls_status batch_norm_pixels_write(const cuda_device *d, cudaStream_t stream, ls_dtype dtype, const batch_norm_data &b,
                                  const batch_norm_channels &c, ls_message *why)
{
    grid g = grid_for(d, b, THREADS, 4, RESIDENT);
    bool fast = whole(b);
    switch (dtype) {
    case LS_F16: (fast ? launch_write<f16, true> : launch_write<f16, false>)(stream, g, b, c); break;
    case LS_BF16: (fast ? launch_write<bf16, true> : launch_write<bf16, false>)(stream, g, b, c); break;
    case LS_F32: (fast ? launch_write<float, true> : launch_write<float, false>)(stream, g, b, c); break;
    default: launch_write<double, false>(stream, g, b, c);
    }
    return CUDA_LAUNCHED(why);
}
