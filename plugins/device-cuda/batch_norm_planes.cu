/* batch_norm_planes.cu - batch normalisation where each channel is a plane of its own: [N, C, length].
 *
 * Pictures go through the network with their channels adjacent (batch_norm_pixels.cu); this is for sequences and for
 * pictures in another order. A thread works on eight neighbouring elements of a plane, one byte of the mask. */
#include "batch_norm.cuh"

enum { THREADS = BATCH_NORM_THREADS };

static int64_t bytes_of_plane(const batch_norm_data &b)
{
    return (b.length + 7) / 8;
}

/* Blocks that share a channel. */
static int sums_chunks(const cuda_device *d, const batch_norm_data &b)
{
    int64_t eights = b.rows / b.channels * bytes_of_plane(b), most = (eights + THREADS - 1) / THREADS;
    int64_t chunks = 4 * (int64_t)d->processors / b.channels + 1;
    return (int)(chunks < most ? chunks : most < 1 ? 1 : most);
}

size_t batch_norm_planes_space(const cuda_device *d, ls_dtype dtype, const batch_norm_data &b)
{
    return (size_t)sums_chunks(d, b) * (size_t)b.channels * 2 * (dtype == LS_F64 ? 8 : 4);
}

template <typename W> static __device__ W block_sum(W x, W *shared)
{
    x = warp_sum(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
    __syncthreads();
    W total = 0;
    for (int i = 0; i < THREADS / 32; i++) total += shared[i];
    return total;
}

/* One channel a block of x; those of y share it. */
template <typename T>
__global__ void __launch_bounds__(THREADS) plane_sums(batch_norm_data b, batch_norm_channels c, void *space)
{
    typedef typename wide<T>::type W;
    __shared__ W shared[THREADS / 32];
    int64_t own = blockIdx.x, bytes = (b.length + 7) / 8, eights = b.rows / b.channels * bytes;
    const T *x = (const T *)b.x, *dy = (const T *)b.dy;
    W pivot = c.backward ? (W)channel(c.mean, own, 0) : as<W>(x[own * b.length]), sum = 0, second = 0;
    for (int64_t i = (int64_t)blockIdx.y * THREADS + threadIdx.x; i < eights; i += (int64_t)gridDim.y * THREADS) {
        int64_t plane = i / bytes * b.channels + own, at = i % bytes * 8;
        unsigned bits = b.mask && c.backward ? b.mask[plane * b.mask_pitch + at / 8] : 255u;
        for (int k = 0; k < 8 && at + k < b.length; k++) {
            W away = as<W>(x[plane * b.length + at + k]) - pivot, factor = away;
            if (c.backward) factor = bits >> k & 1 ? as<W>(dy[plane * b.length + at + k]) : 0;
            sum += factor;
            second += factor * away;
        }
    }
    sum = block_sum(sum, shared);
    second = block_sum(second, shared);
    W *all = (W *)space + own * gridDim.y * 2;
    if (threadIdx.x == 0) {
        all[blockIdx.y * 2] = sum;
        all[blockIdx.y * 2 + 1] = second;
    }
    if (!last_block(own, gridDim.y) || threadIdx.x) return;
    double one = 0, two = 0;
    for (unsigned i = 0; i < gridDim.y; i++) {
        one += __ldcg(all + i * 2);
        two += __ldcg(all + i * 2 + 1);
    }
    write_channel<W>(c, read_channel(c, own), own, pivot, one, two);
}

ls_status batch_norm_planes_sums(const cuda_device *d, cudaStream_t stream, ls_dtype dtype, const batch_norm_data &b,
                                 const batch_norm_channels &c, void *space, ls_message *why)
{
    dim3 blocks((unsigned)b.channels, (unsigned)sums_chunks(d, b));
    CUDA_FLOATING(dtype, why, plane_sums<T><<<blocks, THREADS, 0, stream>>>(b, c, space));
    return CUDA_LAUNCHED(why);
}

template <typename T> __global__ void __launch_bounds__(THREADS) plane_write(batch_norm_data b, batch_norm_channels c)
{
    typedef typename wide<T>::type W;
    int64_t bytes = (b.length + 7) / 8, eights = b.rows * bytes;
    const T *x = (const T *)b.x, *residual = (const T *)b.residual, *dy = (const T *)b.dy;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < eights; i += (int64_t)gridDim.x * THREADS) {
        int64_t plane = i / bytes, at = i % bytes * 8, own = plane % b.channels, first = plane * b.length + at;
        W scale = ((const W *)c.scale)[own], shift = ((const W *)c.shift)[own];
        W slope = c.backward ? ((const W *)c.slope)[own] : 0;
        uint8_t *byte = b.mask ? b.mask + plane * b.mask_pitch + at / 8 : NULL;
        unsigned bits = c.backward && byte ? *byte : c.backward ? 255u : 0;
        for (int k = 0; k < 8 && at + k < b.length; k++) {
            if (c.backward) {
                W given = bits >> k & 1 ? as<W>(dy[first + k]) : 0, value = given * scale;
                if (c.training) value += as<W>(x[first + k]) * slope + shift;
                if (b.dx) ((T *)b.dx)[first + k] = as<T>(value);
                if (b.dresidual) ((T *)b.dresidual)[first + k] = as<T>(given);
                continue;
            }
            W value = as<W>(x[first + k]) * scale + shift;
            if (residual) value += as<W>(residual[first + k]);
            bits |= (unsigned)(value > 0) << k;
            if (b.relu && value < 0) value = 0;
            ((T *)b.y)[first + k] = as<T>(value);
        }
        if (!c.backward && byte) *byte = (uint8_t)bits;
    }
}

ls_status batch_norm_planes_write(const cuda_device *d, cudaStream_t stream, ls_dtype dtype, const batch_norm_data &b,
                                  const batch_norm_channels &c, ls_message *why)
{
    int64_t blocks = (b.rows * bytes_of_plane(b) + THREADS - 1) / THREADS, most = 8 * (int64_t)d->processors;
    CUDA_FLOATING(dtype, why, plane_write<T><<<(unsigned)(blocks < most ? blocks : most), THREADS, 0, stream>>>(b, c));
    return CUDA_LAUNCHED(why);
}
