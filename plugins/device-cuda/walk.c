/* walk.c - reduce the shapes and strides of several operands to what a kernel needs. */
#include "walk.h"

/* n / dim = (high word of n * multiplier + n) >> shift, for n below 2^31. */
static void set_divisor(cuda_walk *w, int d)
{
    uint64_t dim = (uint64_t)w->dim[d];
    if (dim == 0 || dim > UINT64_C(1) << 31) return;                        /* nothing is divided by it */
    uint32_t shift = dim > 1 ? 64 - (uint32_t)__builtin_clzll(dim - 1) : 0; /* 2^shift >= dim */
    w->shift[d] = shift;
    w->multiplier[d] = (uint32_t)((UINT64_C(1) << 32) * ((UINT64_C(1) << shift) - dim) / dim + 1);
}

void cuda_walk_prepare(cuda_walk *w)
{
    w->is_narrow = w->count < INT64_C(1) << 31;
    for (int d = 0; d < w->ndim; d++) set_divisor(w, d);
}

cuda_walk cuda_walk_begin(void)
{
    return (cuda_walk){.count = 1, .ndim = 1, .is_narrow = 1, .dim = {1}, .multiplier = {1}};
}

/* Returns the dimension that changed; its divisor is to be set. */
static int add(cuda_walk *w, int64_t size, const int64_t *stride, int operands)
{
    int last = w->ndim - 1;
    bool is_first = last == 0 && w->dim[0] == 1, continues = !is_first;
    w->count *= size;
    if (size == 1) return last;
    for (int i = 0; continues && i < operands; i++) continues = w->stride[i][last] == size * stride[i];
    if (continues) w->dim[last] *= size;
    else w->dim[last = is_first ? 0 : w->ndim++] = size;
    for (int i = 0; i < operands; i++) w->stride[i][last] = stride[i];
    return last;
}

void cuda_walk_add(cuda_walk *w, int64_t size, const int64_t *stride, int operands)
{
    set_divisor(w, add(w, size, stride, operands));
    w->is_narrow = w->count < INT64_C(1) << 31;
}

/* ---- of operands ---- */

/* The dimensions of more than one element, outermost first; returns how many. Unless they are to be in order: largest
 * stride of the operand first, so that channels-last memory is contiguous. */
static int order_dims(const ls_operand *x, bool in_order, int order[LS_MAX_DIMS])
{
    int n = 0;
    for (int d = 0; d < x->ndim; d++) {
        if (x->dim[d] == 1) continue;
        int at = n++;
        for (; !in_order && at > 0 && x->stride[d] > x->stride[order[at - 1]]; at--) order[at] = order[at - 1];
        order[at] = d;
    }
    return n;
}

/* Operands of fewer dimensions are aligned at the last one. */
cuda_walk cuda_walk_of(const ls_operand *const *operand, int count, bool in_order)
{
    const ls_operand *shape = operand[0];
    int order[LS_MAX_DIMS], n = order_dims(shape, in_order, order);
    cuda_walk w = cuda_walk_begin();
    for (int k = 0; k < n; k++) {
        int64_t stride[CUDA_WALK_OPERANDS];
        for (int i = 0; i < count; i++) {
            const ls_operand *o = operand[i];
            int own = order[k] - (shape->ndim - o->ndim);
            stride[i] = own < 0 || o->dim[own] == 1 ? 0 : o->stride[own];
        }
        add(&w, shape->dim[order[k]], stride, count);
    }
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
