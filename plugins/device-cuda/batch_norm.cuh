/* batch_norm.cuh - what the two ways through memory of batch normalisation share: statistics to coefficients.
 *
 * Both directions read the batch twice. The first pass leaves two sums per channel and block; the last block of a
 * channel adds them up, in a fixed order, and turns them into the coefficients of the second pass:
 *
 *     forward    y  = x scale + shift [+ residual], then ReLU
 *     backward   dx = d scale + x slope + shift,    d = dy where the ReLU let x through */
#ifndef LOCKSTEP_CUDA_BATCH_NORM_CUH
#define LOCKSTEP_CUDA_BATCH_NORM_CUH

#include "channels.cuh"

/* Everything about channels. */
struct batch_norm_channels {
    bool backward, training;
    int32_t accumulate;
    double count, epsilon, momentum;  /* count: elements of a channel */
    channels weight, bias, mean, var; /* backward: mean and rstd (var where not training) */
    channels save_mean, save_rstd, running_mean, running_var, dweight, dbias;
    void *scale, *slope, *shift; /* [C], of the compute type */
    const int *only;             /* of each BATCH_NORM_SLAB channels: are they to be summed up? NULL: all are */
};

/* What was in the vectors of a channel before; loaded early, all at once. */
struct channel_values {
    double weight, bias, mean, var, running_mean, running_var, dweight, dbias;
};

static __device__ __forceinline__ channel_values read_channel(const batch_norm_channels &b, int64_t c)
{
    channel_values v;
    v.weight = channel(b.weight, c, 1), v.bias = channel(b.bias, c, 0);
    v.mean = channel(b.mean, c, 0), v.var = channel(b.var, c, 1);
    v.running_mean = channel(b.running_mean, c, 0), v.running_var = channel(b.running_var, c, 0);
    v.dweight = b.accumulate & 2 ? channel(b.dweight, c, 0) : 0;
    v.dbias = b.accumulate & 4 ? channel(b.dbias, c, 0) : 0;
    return v;
}

/* What the second pass does with the numbers of a channel. */
template <typename W> struct coefficients {
    W scale, slope, shift;
};

/* Forward, from the mean and the sum of squared deviations; without training they are not used. `keep`: statistics are
 * written as well, which exactly one thread must do. */
template <typename W>
__device__ coefficients<W> finish_forward(const batch_norm_channels &b, const channel_values &v, int64_t c, double mean,
                                          double m2, bool keep)
{
    double center = b.training ? mean : v.mean, var = b.training ? m2 / b.count : v.var;
    double rstd = 1 / sqrt(var + b.epsilon), gain = rstd * v.weight;
    if (b.training && keep) {
        set_channel(b.save_mean, c, center);
        set_channel(b.save_rstd, c, rstd);
        double unbiased = m2 / (b.count > 1 ? b.count - 1 : 1), old = 1 - b.momentum;
        set_channel(b.running_mean, c, old * v.running_mean + b.momentum * center);
        set_channel(b.running_var, c, old * v.running_var + b.momentum * unbiased);
    }
    return {(W)gain, 0, (W)(v.bias - center * gain)};
}

/* Backward, from the totals of d and of d (x - mean). */
template <typename W>
__device__ coefficients<W> finish_backward(const batch_norm_channels &b, const channel_values &v, int64_t c, double sum,
                                           double dot, bool keep)
{
    double rstd = b.training ? v.var : 1 / sqrt(v.var + b.epsilon), gain = rstd * v.weight, slope = 0, shift = 0;
    if (b.training) {
        slope = -gain * rstd * rstd * dot / b.count;
        shift = -gain * sum / b.count - slope * v.mean;
    }
    if (keep) {
        set_channel(b.dweight, c, dot * rstd + v.dweight);
        set_channel(b.dbias, c, sum + v.dbias);
    }
    return {(W)gain, (W)slope, (W)shift};
}

/* From the two sums of a channel. Forward they are of x - pivot and of its square: the pivot, an element of the
 * channel, preserves the digits that subtracting large squares would lose. */
template <typename W>
__device__ coefficients<W> finish_channel(const batch_norm_channels &b, const channel_values &v, int64_t c,
                                          double pivot, double first, double second, bool keep)
{
    if (b.backward) return finish_backward<W>(b, v, c, first, second, keep);
    double m2 = second - first * first / b.count; /* rounding may have made it negative; NaN stays */
    return finish_forward<W>(b, v, c, pivot + first / b.count, m2 < 0 ? 0 : m2, keep);
}

/* The same, and the coefficients are written for the second pass. */
template <typename W>
__device__ void write_channel(const batch_norm_channels &b, const channel_values &v, int64_t c, double pivot,
                              double first, double second)
{
    coefficients<W> found = finish_channel<W>(b, v, c, pivot, first, second, true);
    ((W *)b.scale)[c] = found.scale;
    ((W *)b.slope)[c] = found.slope;
    ((W *)b.shift)[c] = found.shift;
}

/* Has the variance too few digits left, as the difference between the mean of squares, added up in f32, and the square
 * of the mean? False for NaN. */
static __device__ __forceinline__ bool has_lost_digits(double mean, double var)
{
    return var * 1000 < mean * mean;
}

/* ---- the batch ---- */

/* Operands are dense and of one type. Rows of the mask are whole 64-bit words. */
struct batch_norm_data {
    const void *x, *dy, *residual;
    void *y, *dx, *dresidual;
    uint8_t *mask; /* forward: written; backward: read. NULL: there is none */
    int64_t mask_pitch;
    int64_t channels, rows, length; /* rows of `length` elements: pixels of all channels, or planes of one */
    bool relu;
};

/* The last block of each group of channels is found by counting; every kernel leaves the counters at 0. There is one
 * compute stream, so no two kernels use them at once. Where groups have several blocks, there are no more of them than
 * a GPU runs blocks at once; those with one block need no counter, and may be any number. */
enum { BATCH_NORM_COUNTERS = 16384, BATCH_NORM_THREADS = 256, BATCH_NORM_SLAB = 64 };
static __device__ unsigned batch_norm_blocks_done[BATCH_NORM_COUNTERS];

/* Call by all threads of a block after it has written its sums: true for the last of `blocks`. */
static __device__ __forceinline__ bool last_block(int64_t counter, unsigned blocks)
{
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = blocks == 1 || atomicAdd(batch_norm_blocks_done + counter, 1) == blocks - 1;
        if (last && blocks > 1) batch_norm_blocks_done[counter] = 0;
    }
    __syncthreads();
    __threadfence();
    return last;
}

/* batch_norm_once.cu: both passes in one, for batches that the processors can hold in their shared memory. */
bool batch_norm_once_fits(const cuda_device *d, ls_dtype dtype, const batch_norm_data &b, const batch_norm_channels &c);
size_t batch_norm_once_space(const cuda_device *d, const batch_norm_data &b);
ls_status batch_norm_once(const cuda_device *d, cudaStream_t stream, ls_dtype dtype, const batch_norm_data &b,
                          const batch_norm_channels &c, void *space, ls_message *why);

/* ---- the ways: sums into coefficients, then the result. c.only is for pixels ---- */

/* Scratch memory that the sums of a batch need. */
size_t batch_norm_pixels_space(const cuda_device *d, ls_dtype dtype, const batch_norm_data &b);
ls_status batch_norm_pixels_sums(const cuda_device *d, cudaStream_t stream, ls_dtype dtype, const batch_norm_data &b,
                                 const batch_norm_channels &c, void *space, ls_message *why);
ls_status batch_norm_pixels_write(const cuda_device *d, cudaStream_t stream, ls_dtype dtype, const batch_norm_data &b,
                                  const batch_norm_channels &c, ls_message *why);
size_t batch_norm_planes_space(const cuda_device *d, ls_dtype dtype, const batch_norm_data &b);
ls_status batch_norm_planes_sums(const cuda_device *d, cudaStream_t stream, ls_dtype dtype, const batch_norm_data &b,
                                 const batch_norm_channels &c, void *space, ls_message *why);
ls_status batch_norm_planes_write(const cuda_device *d, cudaStream_t stream, ls_dtype dtype, const batch_norm_data &b,
                                  const batch_norm_channels &c, ls_message *why);

#endif
