/* scatter.cu - elements and slices added, or elements replaced, at positions given by an index tensor.
 *
 * Indices are sorted first, which brings together what goes to one place, in its original order: no atomics are needed,
 * and results are the same in every run. An index out of range is reported when the host next waits, and skipped. */
#include "index.cuh"
#include "order.h"

/* What numbers of a type are summed in. Whole numbers wrap around. */
template <typename T> struct sums {
    typedef T type;
};
template <> struct sums<f16> {
    typedef float type;
};
template <> struct sums<bf16> {
    typedef float type;
};
template <> struct sums<int32_t> {
    typedef uint32_t type;
};
template <> struct sums<int64_t> {
    typedef uint64_t type;
};

static int bits_for(int64_t count)
{
    int bits = 1;
    while (bits < 63 && count >> bits) bits++;
    return bits;
}

/* ---- slices ---- */

enum { CHUNK = 32 }; /* sorted slices that one block adds up */

struct slice_adding {
    const void *src;
    ls_dtype src_dtype;
    void *y;
    int64_t src_step, y_step; /* between slices */
    cuda_walk columns;        /* positions within a slice: offsets in y, in src */
    const uint64_t *row;      /* [k] ascending; `limit` and above: skipped */
    const uint32_t *slice;    /* [k] */
    int64_t k, limit, chunks;
    void *head, *tail; /* sums [chunks, columns] of rows that begin before, and that go on after, a chunk */
};

enum { AHEAD = 8 }; /* numbers that are read before the first is added */

/* v = numbers of up to AHEAD sorted slices from `first` on. */
template <typename S, typename W>
static __device__ __forceinline__ void read_slices(const slice_adding &a, int64_t first, int64_t count, int64_t at,
                                                   W (&v)[AHEAD])
{
#pragma unroll
    for (int k = 0; k < AHEAD; k++)
        if (k < count) v[k] = as<W>(((const S *)a.src)[a.slice[first + k] * a.src_step + at]);
}

template <typename W>
static __device__ __forceinline__ void read_ahead(const slice_adding &a, int64_t first, int64_t count, int64_t at,
                                                  W (&v)[AHEAD])
{
    switch (a.src_dtype) {
    case LS_F64: read_slices<double>(a, first, count, at, v); break;
    case LS_F16: read_slices<f16>(a, first, count, at, v); break;
    case LS_BF16: read_slices<bf16>(a, first, count, at, v); break;
    default: read_slices<float>(a, first, count, at, v); break;
    }
}

template <typename Y, typename W> static __device__ void add_to(const slice_adding &a, int64_t row, int64_t at, W sum)
{
    Y *y = (Y *)a.y + row * a.y_step + at;
    *y = as<Y>(as<W>(*y) + sum);
}

/* Rows that lie within a chunk are finished here; pieces of others are left for add_pieces(). */
template <typename Y, typename W> __global__ void add_chunks(slice_adding a)
{
    int64_t column = (int64_t)blockIdx.y * blockDim.x + threadIdx.x, chunk = blockIdx.x, at[2];
    if (column >= a.columns.count) return;
    walk_to(a.columns, column, at);
    int64_t first = chunk * CHUNK, end = first + CHUNK < a.k ? first + CHUNK : a.k;
    bool goes_on = chunk > 0 && a.row[first - 1] == a.row[first];
    W sum = 0;
    for (int64_t from = first; from < end; from += AHEAD) {
        W v[AHEAD];
        read_ahead(a, from, end - from, at[1], v);
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            int64_t i = from + k;
            if (i >= end) break;
            uint64_t row = a.row[i];
            if (row >= (uint64_t)a.limit) return; /* and so are all that follow */
            sum += v[k];
            bool more = i + 1 < a.k && a.row[i + 1] == row;
            if (more && i + 1 < end) continue;
            if (goes_on) ((W *)a.head)[chunk * a.columns.count + column] = sum;
            else if (more) ((W *)a.tail)[chunk * a.columns.count + column] = sum;
            else add_to<Y>(a, (int64_t)row, at[0], sum);
            goes_on = false;
            sum = 0;
        }
    }
}

/* The first chunk after `chunk` that does not begin with `row`. */
static __device__ int64_t end_of_row(const slice_adding &a, int64_t chunk, uint64_t row)
{
    int64_t low = chunk + 1, high = a.chunks;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (a.row[middle * CHUNK] == row) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Rows that begin in a chunk and go on in later ones. */
template <typename Y, typename W> __global__ void add_pieces(slice_adding a)
{
    int64_t column = (int64_t)blockIdx.y * blockDim.x + threadIdx.x, chunk = blockIdx.x, at[2];
    int64_t next = (chunk + 1) * CHUNK;
    if (column >= a.columns.count || next >= a.k) return;
    uint64_t row = a.row[next];
    bool begins_here =
        a.row[next - 1] == row && (chunk == 0 || a.row[chunk * CHUNK] != row || a.row[chunk * CHUNK - 1] != row);
    if (!begins_here || row >= (uint64_t)a.limit) return;
    walk_to(a.columns, column, at);
    W sum = ((const W *)a.tail)[chunk * a.columns.count + column];
    int64_t end = end_of_row(a, chunk, row);
#pragma unroll 8
    for (int64_t c = chunk + 1; c < end; c++) sum += ((const W *)a.head)[c * a.columns.count + column];
    add_to<Y>(a, (int64_t)row, at[0], sum);
}

__global__ void write_rows(index_source index, int64_t step, int64_t k, int64_t limit, bool skips, int64_t skipped,
                           uint64_t *row, uint32_t *slice, cuda_fault_site fault)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < k; i += (int64_t)gridDim.x * blockDim.x) {
        int64_t r = index_at(index, i * step);
        bool good = fault_unless_index(fault, r, limit) && !(skips && r == skipped);
        row[i] = (uint64_t)(good ? r : limit);
        slice[i] = (uint32_t)i;
    }
}

template <typename Y, typename W>
static ls_status add_slices(cuda_device *d, cudaStream_t stream, slice_adding *a, ls_message *why)
{
    size_t bytes = (size_t)(a->chunks * a->columns.count) * sizeof(W);
    ls_workspace space;
    CUDA_TRY(cuda_take(d, 2 * bytes, &space, why));
    a->head = space.address;
    a->tail = (char *)space.address + bytes;
    dim3 blocks((unsigned)a->chunks, (unsigned)((a->columns.count + 127) / 128));
    add_chunks<Y, W><<<blocks, 128, 0, stream>>>(*a);
    add_pieces<Y, W><<<blocks, 128, 0, stream>>>(*a);
    cuda_give(d, space);
    return CUDA_LAUNCHED(why);
}

ls_status cuda_index_add(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    const ls_operand *index = call->in[0], *src = call->in[1], *y = call->out[0];
    int dim = call->attrs.axis.dim;
    slice_adding a = {};
    a.src = src->data, a.src_dtype = src->dtype, a.y = y->data;
    a.src_step = src->stride[dim], a.y_step = y->stride[dim];
    a.columns = cuda_walk_begin();
    for (int i = 0; i < y->ndim; i++) {
        int64_t stride[2] = {y->stride[i], src->stride[i]};
        if (i != dim) walk_add(&a.columns, y->dim[i], stride);
    }
    a.k = index->dim[0], a.limit = y->dim[dim];
    a.chunks = (a.k + CHUNK - 1) / CHUNK;
    if (a.k == 0 || a.columns.count == 0) return LS_OK;
    if ((a.columns.count + 127) / 128 > 65535) return cuda_on_host(d, stream, call, why);
    cuda_order order;
    CUDA_TRY(cuda_order_begin(d, 1, a.k, &order, why));
    write_rows<<<cuda_blocks(d, a.k, 256), 256, 0, stream>>>(index_of(index), index->stride[0], a.k, a.limit,
                                                             call->attrs.axis.flag != 0, call->attrs.axis.k,
                                                             order.key[0], order.index[0], cuda_fault_at(d, call));
    ls_status status = cuda_order_run(d, stream, &order, bits_for(a.limit), why);
    a.row = order.key[order.at], a.slice = order.index[order.at];
    if (!status) switch (y->dtype) {
        case LS_F32:
            status = src->dtype == LS_F64 ? add_slices<float, double>(d, stream, &a, why)
                                          : add_slices<float, float>(d, stream, &a, why);
            break;
        case LS_F16: status = add_slices<f16, float>(d, stream, &a, why); break;
        case LS_BF16: status = add_slices<bf16, float>(d, stream, &a, why); break;
        default: status = add_slices<double, double>(d, stream, &a, why); break;
        }
    cuda_order_end(d, &order);
    return status;
}

/* ---- elements ---- */

struct element_job {
    const void *src;
    void *y;
    index_source index;
    cuda_walk walk; /* of index: offsets in index, src, y, and the number of the element of y, both for index 0 */
    int64_t y_step, number_step; /* along the indexed dimension */
    int64_t limit, skipped;      /* skipped: the number that sorts behind all */
    uint64_t *number;            /* [k] of elements of y */
    uint32_t *position;          /* [k] */
};

__global__ void write_numbers(element_job a, cuda_fault_site fault)
{
    CUDA_EACH(i, a.walk.count)
    {
        int64_t at[4];
        walk_to(a.walk, i, at);
        int64_t picked = index_at(a.index, at[0]);
        bool good = fault_unless_index(fault, picked, a.limit);
        a.number[i] = (uint64_t)(good ? at[3] + picked * a.number_step : a.skipped);
        a.position[i] = (uint32_t)i;
    }
}

/* The thread of the first entry of an element adds up all of them. */
template <typename T, bool either> __global__ void add_elements(element_job a)
{
    typedef typename sums<T>::type W;
    CUDA_EACH(i, a.walk.count)
    {
        uint64_t number = a.number[i];
        if (number == (uint64_t)a.skipped || (i > 0 && a.number[i - 1] == number)) continue;
        int64_t at[4];
        walk_to(a.walk, a.position[i], at);
        T *y = (T *)a.y + at[2] + index_at(a.index, at[0]) * a.y_step;
        W sum = as<W>(*y);
        for (int64_t j = i; j < a.walk.count && a.number[j] == number; j++) {
            walk_to(a.walk, a.position[j], at);
            W more = as<W>(((const T *)a.src)[at[1]]);
            sum = either ? (W)(sum != 0 || more != 0) : (W)(sum + more);
        }
        *y = as<T>(sum);
    }
}

/* The last entry of an element counts. T: any type of the same size. */
template <typename T> __global__ void replace_elements(element_job a)
{
    CUDA_EACH(i, a.walk.count)
    {
        uint64_t number = a.number[i];
        if (number == (uint64_t)a.skipped || (i + 1 < a.walk.count && a.number[i + 1] == number)) continue;
        int64_t at[4];
        walk_to(a.walk, a.position[i], at);
        ((T *)a.y)[at[2] + index_at(a.index, at[0]) * a.y_step] = ((const T *)a.src)[at[1]];
    }
}

typedef void element_launch(const cuda_device *d, cudaStream_t stream, ls_dtype dtype, const element_job &a);

static void launch_adding(const cuda_device *d, cudaStream_t stream, ls_dtype dtype, const element_job &a)
{
    unsigned blocks = cuda_blocks(d, a.walk.count, 256);
    switch (dtype) {
    case LS_F32: add_elements<float, false><<<blocks, 256, 0, stream>>>(a); break;
    case LS_F64: add_elements<double, false><<<blocks, 256, 0, stream>>>(a); break;
    case LS_F16: add_elements<f16, false><<<blocks, 256, 0, stream>>>(a); break;
    case LS_BF16: add_elements<bf16, false><<<blocks, 256, 0, stream>>>(a); break;
    case LS_I64: add_elements<int64_t, false><<<blocks, 256, 0, stream>>>(a); break;
    case LS_I32: add_elements<int32_t, false><<<blocks, 256, 0, stream>>>(a); break;
    case LS_I8: add_elements<int8_t, false><<<blocks, 256, 0, stream>>>(a); break;
    case LS_U8: add_elements<uint8_t, false><<<blocks, 256, 0, stream>>>(a); break;
    default: add_elements<uint8_t, true><<<blocks, 256, 0, stream>>>(a); break;
    }
}

static void launch_replacing(const cuda_device *d, cudaStream_t stream, ls_dtype dtype, const element_job &a)
{
    unsigned blocks = cuda_blocks(d, a.walk.count, 256);
    switch (d->host->dtype_size(dtype)) {
    case 1: replace_elements<uint8_t><<<blocks, 256, 0, stream>>>(a); break;
    case 2: replace_elements<uint16_t><<<blocks, 256, 0, stream>>>(a); break;
    case 4: replace_elements<uint32_t><<<blocks, 256, 0, stream>>>(a); break;
    default: replace_elements<uint64_t><<<blocks, 256, 0, stream>>>(a); break;
    }
}

static element_job job_of(const ls_call *call)
{
    const ls_operand *index = call->in[1], *src = call->in[2], *y = call->out[0];
    int dim = call->attrs.axis.dim;
    element_job a = {};
    a.src = src->data, a.y = y->data, a.index = index_of(index);
    a.limit = y->ndim ? y->dim[dim] : 1;
    a.skipped = cuda_numel(y);
    a.walk = cuda_walk_begin();
    ls_operand numbers = cuda_dense(NULL, LS_I64, y->ndim, y->dim);
    for (int i = 0; i < y->ndim; i++) {
        bool here = i == dim;
        int64_t stride[4] = {index->stride[i], src->stride[i], here ? 0 : y->stride[i], here ? 0 : numbers.stride[i]};
        walk_add(&a.walk, index->dim[i], stride);
    }
    if (y->ndim) a.y_step = y->stride[dim], a.number_step = numbers.stride[dim];
    return a;
}

/* y = x, then the elements of src go to their places. */
static ls_status scatter(cuda_device *d, cudaStream_t stream, const ls_call *call, element_launch *launch,
                         ls_message *why)
{
    const ls_operand *x = call->in[0], *y = call->out[0];
    if (y->data != x->data) CUDA_TRY(cuda_convert(d, stream, x, y, why));
    element_job a = job_of(call);
    if (a.walk.count == 0) return LS_OK;
    cuda_order order;
    CUDA_TRY(cuda_order_begin(d, 1, a.walk.count, &order, why));
    a.number = order.key[0], a.position = order.index[0];
    write_numbers<<<cuda_blocks(d, a.walk.count, 256), 256, 0, stream>>>(a, cuda_fault_at(d, call));
    ls_status status = cuda_order_run(d, stream, &order, bits_for(a.skipped), why);
    a.number = order.key[order.at], a.position = order.index[order.at];
    if (!status) launch(d, stream, y->dtype, a);
    cuda_order_end(d, &order);
    return status ? status : CUDA_LAUNCHED(why);
}

ls_status cuda_scatter_add(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    return scatter(d, stream, call, launch_adding, why);
}

ls_status cuda_scatter(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    return scatter(d, stream, call, launch_replacing, why);
}
