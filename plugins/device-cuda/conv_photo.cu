/* conv_photo.cu - the first convolution of networks for photos: three channels, windows of 3 x 3 at every second pixel.
 *
 * Libraries are made for many channels. Here the window of a pixel is three runs of nine numbers, adjacent in memory
 * where channels are last, and all weights fit into the registers of a warp. A block copies the lines that its rows of
 * y see to shared memory; each warp then multiplies windows of 16 pixels with the weights.
 *
 * A batch norm behind it that trains needs the statistics of the result first. It takes less time to compute the
 * result twice, once for the statistics and once to be written normalised, than to write, read and write it again. */
#include <cuda_pipeline.h>

#include "batch_norm.cuh"
#include "conv.h"
#include "eight.cuh"
#include "layout.h"
#include "mma.cuh"

enum {
    THREADS = 256,
    WARPS = THREADS / 32,
    CHANNELS = 3,
    WINDOW = 3,
    RUN = WINDOW * CHANNELS, /* numbers of a window in a line */
    ROWS = 8,                /* of y, that a block computes */
    LINES = 2 * ROWS + 1,    /* of x, that they see */
    MARGIN = 8,              /* zeros at both ends of a line in shared memory */
    PAIRS = (RUN + 1) / 2,   /* a run, with the number before it, as pairs of numbers */
    OUTPUTS = 32,            /* channels of y that a warp computes at once: four products of eight */
    MOST_GROUPS = 2,         /* of OUTPUTS */
    PIXELS = 16,             /* that it computes at once */
    MOST_SHARED = 44 << 10,  /* of the 48 KiB that every kernel may have; the totals take some */
};

enum work { PLAIN, STATISTICS, NORMED };

struct photo {
    const uint16_t *x, *w; /* [N,height,width,3], [O,3,3,3]: channels last */
    void *y;               /* [N,rows,columns,O] */
    int height, width, rows, columns;
    int bands;                  /* of ROWS rows, in an item */
    float *pivot;               /* [O]: statistics are of y less this */
    float *sums;                /* [2,O,blocks]: of that, and of its squares */
    const float *scale, *shift; /* [O] */
    bool relu;
};

/* Numbers between the starts of lines in shared memory. */
static __host__ __device__ __forceinline__ int pitch_of(int width)
{
    return width * CHANNELS + 2 * MARGIN;
}

/* Lines of an item from `top` on; what lies outside the photo is 0. */
static __device__ __forceinline__ void load_lines(const photo &p, int64_t item, int top, uint4 *lines)
{
    int pieces = pitch_of(p.width) / 8;
    const uint16_t *start = p.x + item * p.height * p.width * CHANNELS;
    for (int i = threadIdx.x; i < LINES * pieces; i += THREADS) {
        int line = i / pieces, piece = i - line * pieces, row = top + line;
        bool there = row >= 0 && row < p.height && piece > 0 && piece < pieces - 1;
        const uint16_t *from = there ? start + (int64_t)row * p.width * CHANNELS + piece * 8 - MARGIN : p.x;
        __pipeline_memcpy_async(lines + i, from, 16, there ? 0 : 16);
    }
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
}

/* The pairs of numbers that this thread has of every window, of the 16 that a product over 32 numbers takes: three runs
 * of PAIRS, and one that is not there. The first number of a run belongs to the pixel on the left. */
struct own_pairs {
    int at[4];        /* words from the first run of the window of column 0 */
    uint32_t mask[4]; /* of the bits that count */
};

/* The i-th of the four pairs of a thread. */
static __device__ __forceinline__ int pair_of(int i)
{
    return i / 2 * 8 + i % 2 * 4 + threadIdx.x % 4;
}

static __device__ __forceinline__ own_pairs pairs_of(int pitch)
{
    own_pairs own;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int pair = pair_of(i), run = pair / PAIRS, inside = pair % PAIRS;
        bool there = run < WINDOW;
        own.at[i] = there ? (run * pitch + MARGIN - CHANNELS - 1) / 2 + inside : 0;
        own.mask[i] = !there ? 0u : inside == 0 ? 0xffff0000u : 0xffffffffu;
    }
    return own;
}

/* Which channel of y column `column` of product n of a group is: so that a thread gets eight neighbours in the end. */
static __device__ __forceinline__ int channel_of(int group, int n, int column)
{
    return group * OUTPUTS + column / 2 * 8 + n * 2 + column % 2;
}

/* Weights as the right side of the products: of each, four pairs. */
template <int GROUPS> struct weights {
    uint32_t pair[GROUPS][4][4];

    __device__ __forceinline__ void load(const uint16_t *w)
    {
#pragma unroll
        for (int i = 0; i < GROUPS * 16; i++) {
            int pair_index = pair_of(i % 4), run = pair_index / PAIRS, first = pair_index % PAIRS * 2 - 1;
            const uint16_t *from =
                w + (channel_of(i / 16, i / 4 % 4, threadIdx.x % 32 / 4) * WINDOW + run) * RUN + first;
            uint32_t low = run < WINDOW && first >= 0 ? from[0] : 0, high = run < WINDOW ? from[1] : 0;
            pair[i / 16][i / 4 % 4][i % 4] = high << 16 | low;
        }
    }
};

/* What a thread has of PIXELS pixels: rows 0 and 1 are its two pixels, eight channels of each group. */
template <int GROUPS> struct results {
    float sum[GROUPS][4][4];

    /* words: where the window of column 0 begins; column: of the two pixels. */
    template <typename T>
    __device__ __forceinline__ void compute(const uint32_t *words, const own_pairs &own, const int (&column)[2],
                                            const weights<GROUPS> &w)
    {
        uint32_t a[2][4];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            int pair = i / 2, pixel = i % 2; /* in the order of the instruction */
            a[pair / 2][pair % 2 * 2 + pixel] = words[own.at[pair] + column[pixel] * CHANNELS] & own.mask[pair];
        }
#pragma unroll
        for (int i = 0; i < GROUPS * 4; i++) {
            float(&to)[4] = sum[i / 4][i % 4];
            to[0] = to[1] = to[2] = to[3] = 0;
            multiply(to, a[0], w.pair[i / 4][i % 4][0], w.pair[i / 4][i % 4][1], T());
            multiply(to, a[1], w.pair[i / 4][i % 4][2], w.pair[i / 4][i % 4][3], T());
        }
    }
    /* Channel k of the thread's eight in a group. */
    __device__ __forceinline__ float of(int pixel, int group, int k) const
    {
        return sum[group][k / 2][pixel * 2 + k % 2];
    }
};

/* The totals of a block, [2, outputs], from those of its threads: always in the same order. */
template <int GROUPS> static __device__ __forceinline__ void write_totals(const photo &p, float (&total)[2][GROUPS * 8])
{
    __shared__ float of_warp[WARPS][2][GROUPS * OUTPUTS];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int i = 0; i < 2 * GROUPS * 8; i++) {
        int what = i / (GROUPS * 8), k = i % (GROUPS * 8);
        float sum = total[what][k];
        for (int apart = 4; apart < 32; apart *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, apart);
        if (lane < 4) of_warp[warp][what][k / 8 * OUTPUTS + lane * 8 + k % 8] = sum;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 2 * GROUPS * OUTPUTS; i += THREADS) {
        float sum = 0;
        for (int w = 0; w < WARPS; w++) sum += of_warp[w][i / (GROUPS * OUTPUTS)][i % (GROUPS * OUTPUTS)];
        p.sums[(int64_t)i * gridDim.x + blockIdx.x] = sum;
    }
}

/* A block for each band of each item. */
template <typename T, int GROUPS, int WORK>
static __global__ void __launch_bounds__(THREADS, GROUPS == 1 ? 3 : 2) convolve(const __grid_constant__ photo p)
{
    extern __shared__ uint4 lines[];
    int lane = threadIdx.x % 32, pitch = pitch_of(p.width), first = (int)(blockIdx.x % p.bands) * ROWS;
    int64_t item = blockIdx.x / p.bands;
    weights<GROUPS> w;
    w.load(p.w);
    float scale[GROUPS * 8], shift[GROUPS * 8], pivot[GROUPS * 8], total[2][GROUPS * 8] = {};
#pragma unroll
    for (int k = 0; k < GROUPS * 8; k++) {
        int channel = k / 8 * OUTPUTS + lane % 4 * 8 + k % 8;
        if (WORK == STATISTICS) pivot[k] = p.pivot[channel];
        if (WORK == NORMED) scale[k] = p.scale[channel], shift[k] = p.shift[channel];
    }
    load_lines(p, item, 2 * first - 1, lines);
    own_pairs own = pairs_of(pitch);
    int across = (p.columns + PIXELS - 1) / PIXELS, count = min(ROWS, p.rows - first) * across;
    for (int i = threadIdx.x / 32; i < count; i += WARPS) {
        int row = i / across, start = (i - row * across) * PIXELS + lane / 4, column[2];
        for (int pixel = 0; pixel < 2; pixel++) column[pixel] = min(start + pixel * 8, p.columns - 1);
        results<GROUPS> found;
        found.template compute<T>((const uint32_t *)lines + row * pitch, own, column, w);
#pragma unroll
        for (int pixel = 0; pixel < 2; pixel++) {
            if (start + pixel * 8 >= p.columns) continue;
            T *y = (T *)p.y + ((item * p.rows + first + row) * p.columns + column[pixel]) * (GROUPS * OUTPUTS);
#pragma unroll
            for (int group = 0; group < GROUPS; group++) {
                eight<T> out;
#pragma unroll
                for (int k = 0; k < 8; k++) {
                    float value = found.of(pixel, group, k);
                    if (WORK == STATISTICS) {
                        float away = value - pivot[group * 8 + k];
                        total[0][group * 8 + k] += away, total[1][group * 8 + k] += away * away;
                    }
                    if (WORK == NORMED) value = value * scale[group * 8 + k] + shift[group * 8 + k];
                    if (WORK == NORMED && p.relu && value < 0) value = 0; /* NaN stays */
                    out.element[k] = as<T>(value);
                }
                if (WORK != STATISTICS) out.template store<true>(y + group * OUTPUTS + lane % 4 * 8, 8);
            }
        }
    }
    if (WORK == STATISTICS) write_totals<GROUPS>(p, total);
}

/* Of each channel, y of a pixel in the middle of the first photo: without it, the digits of a variance far below the
 * square of the mean would be lost. A thread for each channel. */
template <typename T>
static __global__ void __launch_bounds__(MOST_GROUPS *OUTPUTS) find_pivots(const __grid_constant__ photo p)
{
    const T *x = (const T *)p.x, *w = (const T *)p.w + threadIdx.x * WINDOW * RUN;
    int top = p.rows / 2 * 2 - 1, left = (p.columns / 2 * 2 - 1) * CHANNELS, width = p.width * CHANNELS;
    float sum = 0;
    for (int i = 0; i < WINDOW * RUN; i++) {
        int line = top + i / RUN, at = left + i % RUN;
        if (line >= 0 && line < p.height && at >= 0 && at < width)
            sum += as<float>(x[(int64_t)line * width + at]) * as<float>(w[i]);
    }
    p.pivot[threadIdx.x] = sum;
}

/* The coefficients of a channel from the sums of all blocks; a block of threads for each channel. The sums are without
 * the bias of the convolution. */
static __global__ void __launch_bounds__(THREADS)
    finish(const float *pivot, const float *sums, int64_t blocks, batch_norm_channels c, channels bias)
{
    __shared__ double part[2][WARPS];
    int64_t channel_index = blockIdx.x;
    double total[2] = {0, 0};
    for (int what = 0; what < 2; what++) {
        const float *own = sums + (what * (int64_t)gridDim.x + channel_index) * blocks;
        for (int64_t i = threadIdx.x; i < blocks; i += THREADS) total[what] += own[i];
        total[what] = warp_sum(total[what]);
        if (threadIdx.x % 32 == 0) part[what][threadIdx.x / 32] = total[what];
    }
    __syncthreads();
    if (threadIdx.x > 0) return;
    total[0] = total[1] = 0;
    for (int w = 0; w < WARPS; w++) total[0] += part[0][w], total[1] += part[1][w];
    double added = channel(bias, channel_index, 0);
    write_channel<float>(c, read_channel(c, channel_index), channel_index, pivot[channel_index] + added, total[0],
                         total[1]);
    ((float *)c.shift)[channel_index] += (float)added * ((const float *)c.scale)[channel_index];
}

/* ---- launches ---- */

extern "C" bool conv_photo_fits(const dnn_conv *conv)
{
    const ls_window &k = conv->window;
    for (int i = 0; i < 2; i++)
        if (k.kernel[i] != WINDOW || k.stride[i] != 2 || k.padding[i] != 1 || k.dilation[i] != 1) return false;
    bool half = conv->dtype == LS_F16 || conv->dtype == LS_BF16;
    bool outputs = conv->o == OUTPUTS || conv->o == MOST_GROUPS * OUTPUTS;
    int64_t blocks = conv->n * ((conv->out[0] + ROWS - 1) / ROWS);
    return half && outputs && conv->pass == DNN_FORWARD && k.groups == 1 && conv->c == CHANNELS && conv->in[0] > 0 &&
           conv->in[1] > 0 && conv->in[1] % 8 == 0 && LINES * pitch_of((int)conv->in[1]) * 2 <= MOST_SHARED &&
           conv->in[0] < INT32_MAX / 4 && blocks > 0 && blocks < INT32_MAX;
}

static photo photo_of(const dnn_conv *conv, void *const address[DNN_OPERANDS])
{
    photo p = {};
    p.x = (const uint16_t *)address[DNN_X], p.w = (const uint16_t *)address[DNN_W], p.y = address[DNN_Y];
    p.height = (int)conv->in[0], p.width = (int)conv->in[1];
    p.rows = (int)conv->out[0], p.columns = (int)conv->out[1];
    p.bands = (p.rows + ROWS - 1) / ROWS;
    return p;
}

template <int WORK> static void launch(cudaStream_t stream, const dnn_conv *conv, const photo &p)
{
    unsigned blocks = (unsigned)(conv->n * p.bands);
    size_t bytes = (size_t)(LINES * pitch_of(p.width)) * 2;
    bool narrow = conv->o == OUTPUTS;
    if (conv->dtype == LS_F16 && narrow) convolve<f16, 1, WORK><<<blocks, THREADS, bytes, stream>>>(p);
    else if (conv->dtype == LS_F16) convolve<f16, MOST_GROUPS, WORK><<<blocks, THREADS, bytes, stream>>>(p);
    else if (narrow) convolve<bf16, 1, WORK><<<blocks, THREADS, bytes, stream>>>(p);
    else convolve<bf16, MOST_GROUPS, WORK><<<blocks, THREADS, bytes, stream>>>(p);
}

extern "C" ls_status conv_photo(cudaStream_t stream, const dnn_conv *conv, void *const address[DNN_OPERANDS],
                                ls_message *why)
{
    launch<PLAIN>(stream, conv, photo_of(conv, address));
    return CUDA_LAUNCHED(why);
}

extern "C" ls_status conv_photo_norm(cuda_device *d, cudaStream_t stream, const dnn_conv *conv,
                                     void *const address[DNN_OPERANDS], const ls_call *call, ls_message *why)
{
    photo p = photo_of(conv, address);
    size_t blocks = (size_t)conv->n * (size_t)p.bands, outputs = (size_t)conv->o;
    ls_workspace space = {};
    CUDA_TRY(cuda_take(d, (2 * outputs * blocks + 4 * outputs) * sizeof(float), &space, why));
    p.sums = (float *)space.address;
    p.pivot = p.sums + 2 * outputs * blocks;
    float *coefficient = p.pivot + outputs;
    batch_norm_channels c = {};
    c.training = true, c.count = (double)(conv->n * conv->out[0] * conv->out[1]);
    c.epsilon = call->attrs.conv.epsilon, c.momentum = call->attrs.conv.momentum;
    c.weight = channels_of(call->in[3]), c.bias = channels_of(call->in[4]);
    c.running_mean = channels_of(call->out[1]), c.running_var = channels_of(call->out[2]);
    c.scale = coefficient, c.slope = coefficient + outputs, c.shift = coefficient + 2 * outputs;
    p.scale = (const float *)c.scale, p.shift = (const float *)c.shift;
    p.relu = call->attrs.conv.activation == LS_ACT_RELU;
    (conv->dtype == LS_F16 ? find_pivots<f16> : find_pivots<bf16>)<<<1, (unsigned)outputs, 0, stream>>>(p);
    launch<STATISTICS>(stream, conv, p);
    finish<<<(unsigned)outputs, THREADS, 0, stream>>>(p.pivot, p.sums, (int64_t)blocks, c, channels_of(call->in[2]));
    launch<NORMED>(stream, conv, p);
    cuda_give(d, space);
    return CUDA_LAUNCHED(why);
}
