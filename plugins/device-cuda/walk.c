/* walk.c - reduce the shapes and strides of several operands to what a kernel needs. */
#include "walk.h"

/* Dimensions of more than one element; operands of fewer dimensions are aligned at the last one. */
static void take_dims(cuda_walk *w, const ls_operand *const *operand, int count)
{
    const ls_operand *shape = operand[0];
    for (int d = 0; d < shape->ndim; d++) {
        w->count *= shape->dim[d];
        if (shape->dim[d] == 1) continue;
        w->dim[w->ndim] = shape->dim[d];
        for (int i = 0; i < count; i++) {
            const ls_operand *o = operand[i];
            int own = d - (shape->ndim - o->ndim);
            w->stride[i][w->ndim] = own < 0 || o->dim[own] == 1 ? 0 : o->stride[own];
        }
        w->ndim++;
    }
}

static void swap(int64_t *a, int64_t *b)
{
    int64_t kept = *a;
    *a = *b;
    *b = kept;
}

/* Largest stride of the first operand first: channels-last memory becomes contiguous. */
static void sort_dims(cuda_walk *w, int count)
{
    for (int end = 1; end < w->ndim; end++)
        for (int d = end; d > 0 && w->stride[0][d] > w->stride[0][d - 1]; d--) {
            swap(&w->dim[d], &w->dim[d - 1]);
            for (int i = 0; i < count; i++) swap(&w->stride[i][d], &w->stride[i][d - 1]);
        }
}

static void merge_dims(cuda_walk *w, int count)
{
    int last = 0; /* dimensions 0 .. last are done */
    for (int d = 1; d < w->ndim; d++) {
        bool alike = true;
        for (int i = 0; i < count && alike; i++) alike = w->stride[i][last] == w->stride[i][d] * w->dim[d];
        if (alike) w->dim[last] *= w->dim[d];
        else w->dim[++last] = w->dim[d];
        for (int i = 0; i < count; i++) w->stride[i][last] = w->stride[i][d];
    }
    w->ndim = last + 1;
}

/* n / dim = (high word of n * multiplier + n) >> shift, for n below 2^31. */
void cuda_walk_prepare(cuda_walk *w)
{
    w->is_narrow = w->count < INT64_C(1) << 31;
    for (int d = 0; w->is_narrow && d < w->ndim; d++) {
        uint64_t dim = (uint64_t)w->dim[d];
        uint32_t shift = 0;
        while (UINT64_C(1) << shift < dim) shift++;
        w->shift[d] = shift;
        w->multiplier[d] = (uint32_t)((UINT64_C(1) << 32) * ((UINT64_C(1) << shift) - dim) / dim + 1);
    }
}

cuda_walk cuda_walk_of(const ls_operand *const *operand, int count, bool in_order)
{
    cuda_walk w = {.count = 1};
    take_dims(&w, operand, count);
    if (w.count == 0) return (cuda_walk){.ndim = 1};
    if (w.ndim == 0) { /* a single element */
        w.ndim = 1;
        w.dim[0] = 1;
    }
    if (!in_order) sort_dims(&w, count);
    merge_dims(&w, count);
    cuda_walk_prepare(&w);
    return w;
}

ls_dtype cuda_promote(ls_dtype a, ls_dtype b)
{
    ls_dtype low = a < b ? a : b, high = a < b ? b : a;
    if (low == LS_F16 && high == LS_BF16) return LS_F32;
    if (low == LS_U8 && high == LS_I8) return LS_I32;
    return high;
}
