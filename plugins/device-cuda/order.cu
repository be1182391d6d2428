/* order.cu - stable radix sorts, by the CUB of the toolkit. */
#include "order.h"

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_segmented_radix_sort.cuh>

static size_t rounded(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

ls_status cuda_order_begin(cuda_device *d, int64_t lines, int64_t length, cuda_order *order, ls_message *why)
{
    *order = cuda_order();
    if (length > INT32_MAX || lines * length > INT32_MAX)
        return cuda_refuse(why, LS_ERR_UNSUPPORTED, "sorting is limited to 2^31 elements");
    size_t n = (size_t)(lines * length), keys = rounded(n * sizeof(uint64_t)), indices = rounded(n * sizeof(uint32_t));
    CUDA_TRY(cuda_take(d, 2 * (keys + indices) + (size_t)(lines + 1) * sizeof(int32_t), &order->space, why));
    char *memory = (char *)order->space.address;
    order->lines = lines;
    order->length = length;
    for (int i = 0; i < 2; i++) {
        order->key[i] = (uint64_t *)(void *)(memory + i * keys);
        order->index[i] = (uint32_t *)(void *)(memory + 2 * keys + i * indices);
    }
    order->begin = (int32_t *)(void *)(memory + 2 * (keys + indices));
    return LS_OK;
}

void cuda_order_end(cuda_device *d, cuda_order *order)
{
    cuda_give(d, order->space);
}

__global__ void write_begins(int32_t *begin, int32_t lines, int32_t length)
{
    for (int32_t i = blockIdx.x * blockDim.x + threadIdx.x; i <= lines; i += gridDim.x * blockDim.x)
        begin[i] = i * length;
}

static cudaError_t sort(void *space, size_t *bytes, cuda_order *order, int bits, cudaStream_t stream)
{
    cub::DoubleBuffer<uint64_t> keys(order->key[0], order->key[1]);
    cub::DoubleBuffer<uint32_t> indices(order->index[0], order->index[1]);
    int n = (int)(order->lines * order->length), lines = (int)order->lines;
    cudaError_t error;
    if (lines == 1) {
        error = cub::DeviceRadixSort::SortPairs(space, *bytes, keys, indices, n, 0, bits, stream);
    } else {
        error = cub::DeviceSegmentedRadixSort::SortPairs(space, *bytes, keys, indices, n, lines, order->begin,
                                                         order->begin + 1, 0, bits, stream);
    }
    order->at = keys.selector;
    return error;
}

ls_status cuda_order_run(cuda_device *d, cudaStream_t stream, cuda_order *order, int bits, ls_message *why)
{
    size_t bytes = 0;
    CUDA_TRY(cuda_check(sort(NULL, &bytes, order, bits, stream), "sort", why));
    ls_workspace space = {};
    CUDA_TRY(cuda_take(d, bytes, &space, why));
    if (order->lines > 1)
        write_begins<<<(unsigned)(order->lines / 128 + 1), 128, 0, stream>>>(order->begin, (int32_t)order->lines,
                                                                             (int32_t)order->length);
    ls_status status = cuda_check(sort(space.address, &bytes, order, bits, stream), "sort", why);
    cuda_give(d, space);
    return status;
}
