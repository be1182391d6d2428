/* not_finite.c - search a tensor for NaN and infinity. */
#include "tensor/not_finite.h"

#include <math.h>
#include <stdio.h>

#include "base/half.h"
#include "base/memory.h"
#include "tensor/context.h"

static double value_at(ls_dtype dtype, const char *data, int64_t i)
{
    switch (dtype) {
    case LS_F16: return (double)ls_f16_to_f32(((const ls_f16 *)(const void *)data)[i]);
    case LS_BF16: return (double)ls_bf16_to_f32(((const ls_bf16 *)(const void *)data)[i]);
    case LS_F32: return (double)((const float *)(const void *)data)[i];
    default: return ((const double *)(const void *)data)[i];
    }
}

/* "[0,3]": the position of an element with this row-major index. */
static void name_place(const ls_operand *x, int64_t i, char *to, size_t size)
{
    int64_t index[LS_MAX_DIMS];
    for (int d = x->ndim - 1; d >= 0; d--) {
        index[d] = i % x->dim[d];
        i /= x->dim[d];
    }
    size_t used = (size_t)snprintf(to, size, "[");
    for (int d = 0; d < x->ndim && used < size; d++)
        used += (size_t)snprintf(to + used, size - used, "%s%lld", d ? "," : "", (long long)index[d]);
    if (used < size) snprintf(to + used, size - used, "]");
}

bool ls_find_not_finite(ls_tensor *t, ls_not_finite *found)
{
    ls_dtype dtype = t->view.dtype;
    int64_t n = ls_view_numel(&t->view);
    if (!ls_dtype_is_float(dtype) || n == 0) return false;
    size_t bytes = (size_t)n * ls_dtype_size(dtype);
    char *data = ls_sys_alloc(bytes);
    if (!data || !ls_read(t, data, bytes)) return ls_sys_free(data), false;
    int64_t first = -1;
    bool is_nan = false;
    for (int64_t i = 0; i < n && !is_nan; i++) {
        double value = value_at(dtype, data, i);
        if (isfinite(value)) continue;
        if (first < 0) first = i;
        is_nan = isnan(value);
    }
    if (first >= 0) {
        *found = (ls_not_finite){.value = value_at(dtype, data, first), .is_nan = is_nan};
        name_place(&t->view, first, found->at, sizeof found->at);
    }
    ls_sys_free(data);
    return first >= 0;
}
