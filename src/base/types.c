/* types.c - names, sizes and rules of the types in base.h. */
#include <lockstep/base.h>

#include <string.h>

#include "base/list.h"

const char *ls_status_name(ls_status status)
{
    switch (status) {
#define LS_STATUS(symbol, value, text)                                                                                 \
    case symbol: return #symbol;
        LS_STATUS_LIST(LS_STATUS)
#undef LS_STATUS
    }
    return "LS_ERR_?";
}

const char *ls_status_text(ls_status status)
{
    switch (status) {
#define LS_STATUS(symbol, value, text)                                                                                 \
    case symbol: return text;
        LS_STATUS_LIST(LS_STATUS)
#undef LS_STATUS
    }
    return "unknown status";
}

typedef struct dtype_row {
    const char *name;
    size_t bytes;
    bool is_float;
} dtype_row;

static const dtype_row dtype_rows[LS_DTYPE_COUNT] = {
#define LS_DTYPE(symbol, name, bytes, is_float) [symbol] = {name, bytes, is_float},
    LS_DTYPE(LS_DTYPE_NONE, "none", 0, false) LS_DTYPE_LIST(LS_DTYPE)
#undef LS_DTYPE
};

static const dtype_row *dtype_row_of(ls_dtype dtype)
{
    return &dtype_rows[(unsigned)dtype < LS_DTYPE_COUNT ? dtype : LS_DTYPE_NONE];
}

const char *ls_dtype_name(ls_dtype dtype)
{
    return dtype_row_of(dtype)->name;
}

size_t ls_dtype_size(ls_dtype dtype)
{
    return dtype_row_of(dtype)->bytes;
}

bool ls_dtype_is_float(ls_dtype dtype)
{
    return dtype_row_of(dtype)->is_float;
}

ls_dtype ls_dtype_promote(ls_dtype a, ls_dtype b)
{
    ls_dtype low = a < b ? a : b, high = a < b ? b : a;
    if (low == LS_F16 && high == LS_BF16) return LS_F32;
    if (low == LS_U8 && high == LS_I8) return LS_I32;
    return high;
}

ls_shape ls_shape_n(const int64_t *sizes, int64_t count)
{
    /* An invalid list, or one of more than LS_MAX_DIMS sizes, gives an invalid ndim, which ls_shape_numel rejects. */
    if (!ls_is_list(sizes, count)) return (ls_shape){.ndim = -1};
    if (count > LS_MAX_DIMS) return (ls_shape){.ndim = count < INT32_MAX ? (int32_t)count : INT32_MAX};
    ls_shape shape = {.ndim = (int32_t)count};
    if (count) memcpy(shape.dim, sizes, (size_t)count * sizeof *sizes);
    return shape;
}

bool ls_shape_equal(ls_shape a, ls_shape b)
{
    if (a.ndim < 0 || a.ndim > LS_MAX_DIMS) return false; /* it has no sizes to compare */
    return a.ndim == b.ndim && memcmp(a.dim, b.dim, (size_t)a.ndim * sizeof *a.dim) == 0;
}

int64_t ls_shape_numel(ls_shape shape)
{
    if (shape.ndim < 0 || shape.ndim > LS_MAX_DIMS) return -1;
    int64_t numel = 1;
    bool empty = false, overflow = false;
    for (int d = 0; d < shape.ndim; d++) {
        if (shape.dim[d] < 0) return -1;
        if (shape.dim[d] == 0) empty = true;
        else overflow |= __builtin_mul_overflow(numel, shape.dim[d], &numel);
    }
    return empty ? 0 : overflow ? -1 : numel;
}
