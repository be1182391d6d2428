/* index.cu - elements, slices and rows picked by an index tensor. An index out of range is reported when the host next
 * waits, and gives 0. */
#include "index.cuh"

/* y[p] = x[p, with index[p] along the indexed dimension]; the walk is that of y, x and index. */
template <typename T>
__global__ void pick_elements(const T *x, index_source index, T *y, cuda_walk p, int64_t limit, int64_t pick_step,
                              cuda_fault_site fault)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < p.count;
         i += (int64_t)gridDim.x * blockDim.x) {
        int64_t at[3];
        walk_to(p, i, at);
        int64_t picked = index_at(index, at[2]);
        bool good = fault_unless_index(fault, picked, limit);
        y[at[0]] = good ? x[at[1] + picked * pick_step] : T();
    }
}

enum { AHEAD = 4 }; /* elements of a lane that are read before the first is written: one at a time is slow */

/* Whole rows of `row` elements of 16 bytes, contiguous in x and y; the walk is over rows. A warp takes a row. */
__global__ void pick_rows(const uint4 *__restrict__ x, index_source index, uint4 *__restrict__ y, cuda_walk p,
                          int64_t row, int64_t limit, int64_t pick_step, cuda_fault_site fault)
{
    int lane = threadIdx.x % 32;
    int64_t warps = (int64_t)gridDim.x * (blockDim.x / 32);
    for (int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) / 32; i < p.count; i += warps) {
        int64_t at[2];
        walk_to(p, i, at);
        int64_t picked = index_at(index, at[1]);
        bool good = fault_unless_index(fault, picked, limit);
        const uint4 *from = x + (good ? picked : 0) * pick_step;
        for (int64_t j = lane; j < row; j += 32 * AHEAD) {
            uint4 read[AHEAD];
#pragma unroll
            for (int k = 0; k < AHEAD; k++)
                if (j + 32 * k < row) read[k] = good ? from[j + 32 * k] : make_uint4(0, 0, 0, 0);
#pragma unroll
            for (int k = 0; k < AHEAD; k++)
                if (j + 32 * k < row) y[at[0] + j + 32 * k] = read[k];
        }
    }
}

static ls_status pick(cuda_device *d, cudaStream_t stream, const ls_call *call, const cuda_walk &p, int64_t limit,
                      int64_t pick_step, ls_message *why)
{
    if (p.count == 0) return LS_OK;
    const ls_operand *x = call->in[0], *y = call->out[0];
    cuda_fault_site fault = cuda_fault_at(d, call);
    unsigned blocks = cuda_blocks(d, p.count, 256);
#define PICK(type)                                                                                                     \
    pick_elements<<<blocks, 256, 0, stream>>>((const type *)x->data, index_of(call->in[1]), (type *)y->data, p, limit, \
                                              pick_step, fault)
    switch (d->host->dtype_size(y->dtype)) {
    case 1: PICK(uint8_t); break;
    case 2: PICK(uint16_t); break;
    case 4: PICK(uint32_t); break;
    default: PICK(uint64_t); break;
    }
#undef PICK
    return CUDA_LAUNCHED(why);
}

ls_status cuda_gather(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    const ls_operand *x = call->in[0], *index = call->in[1], *y = call->out[0];
    int dim = call->attrs.axis.dim;
    cuda_walk p = cuda_walk_begin();
    for (int i = 0; i < y->ndim; i++) {
        int64_t stride[3] = {y->stride[i], i == dim ? 0 : x->stride[i], index->stride[i]};
        walk_add(&p, y->dim[i], stride);
    }
    return pick(d, stream, call, p, x->ndim ? x->dim[dim] : 1, x->ndim ? x->stride[dim] : 0, why);
}

ls_status cuda_index_select(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    const ls_operand *x = call->in[0], *index = call->in[1], *y = call->out[0];
    int dim = call->attrs.axis.dim;
    cuda_walk p = cuda_walk_begin();
    for (int i = 0; i < y->ndim; i++) {
        int64_t stride[3] = {y->stride[i], i == dim ? 0 : x->stride[i], i == dim ? index->stride[0] : 0};
        walk_add(&p, y->dim[i], stride);
    }
    return pick(d, stream, call, p, x->dim[dim], x->stride[dim], why);
}

/* Rows can be moved 16 bytes at a time: contiguous, and all that locates them a multiple of that. */
static bool rows_in_quads(const ls_operand *x, const ls_operand *y, int64_t per_quad)
{
    int last = y->ndim - 1;
    bool good = x->stride[1] == 1 && y->stride[last] == 1 && y->dim[last] % per_quad == 0 &&
                x->stride[0] % per_quad == 0 && ((uintptr_t)x->data | (uintptr_t)y->data) % 16 == 0;
    for (int i = 0; i < last; i++) good = good && y->stride[i] % per_quad == 0;
    return good;
}

ls_status cuda_embedding(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    const ls_operand *x = call->in[0], *index = call->in[1], *y = call->out[0];
    int last = y->ndim - 1;
    int64_t per_quad = 16 / (int64_t)d->host->dtype_size(y->dtype);
    if (rows_in_quads(x, y, per_quad)) {
        cuda_walk rows = cuda_walk_begin();
        for (int i = 0; i < last; i++) {
            int64_t stride[2] = {y->stride[i] / per_quad, index->stride[i]};
            walk_add(&rows, y->dim[i], stride);
        }
        if (rows.count == 0 || y->dim[last] == 0) return LS_OK;
        pick_rows<<<cuda_blocks(d, rows.count, 4), 128, 0, stream>>>(
            (const uint4 *)x->data, index_of(index), (uint4 *)y->data, rows, y->dim[last] / per_quad, x->dim[0],
            x->stride[0] / per_quad, cuda_fault_at(d, call));
        return CUDA_LAUNCHED(why);
    }
    cuda_walk p = cuda_walk_begin();
    for (int i = 0; i < last; i++) {
        int64_t stride[3] = {y->stride[i], 0, index->stride[i]};
        walk_add(&p, y->dim[i], stride);
    }
    int64_t stride[3] = {y->stride[last], x->stride[1], 0};
    walk_add(&p, y->dim[last], stride);
    return pick(d, stream, call, p, x->dim[0], x->stride[0], why);
}
