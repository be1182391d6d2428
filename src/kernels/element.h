/* element.h - one element of any number type, as a double or as an integer. For the reference kernels and the rare
 * places that access single elements; if the type is a constant the switch is free. */
#ifndef LOCKSTEP_KERNELS_ELEMENT_H
#define LOCKSTEP_KERNELS_ELEMENT_H

#include "base/half.h"

#include <lockstep/base.h>

/* The type that sums and statistics of `dtype` are kept in: f64 for f64, f32 for all other floating types. */
static inline ls_dtype ls_compute_dtype(ls_dtype dtype)
{
    return dtype == LS_F64 ? LS_F64 : LS_F32;
}

static inline double ls_get(ls_dtype dtype, const void *data, int64_t i)
{
    switch (dtype) {
    case LS_BOOL:
    case LS_U8: return ((const uint8_t *)data)[i];
    case LS_I8: return ((const int8_t *)data)[i];
    case LS_I32: return ((const int32_t *)data)[i];
    case LS_I64: return (double)((const int64_t *)data)[i];
    case LS_F16: return (double)ls_f16_to_f32(((const ls_f16 *)data)[i]);
    case LS_BF16: return (double)ls_bf16_to_f32(((const ls_bf16 *)data)[i]);
    case LS_F32: return (double)((const float *)data)[i];
    default: return ((const double *)data)[i];
    }
}

static inline void ls_put(ls_dtype dtype, void *data, int64_t i, double value)
{
    switch (dtype) {
    case LS_BOOL: ((uint8_t *)data)[i] = value != 0; break;
    case LS_U8: ((uint8_t *)data)[i] = (uint8_t)value; break;
    case LS_I8: ((int8_t *)data)[i] = (int8_t)value; break;
    case LS_I32: ((int32_t *)data)[i] = (int32_t)value; break;
    case LS_I64: ((int64_t *)data)[i] = (int64_t)value; break;
    case LS_F16: ((ls_f16 *)data)[i] = ls_f16_from_f32((float)value); break;
    case LS_BF16: ((ls_bf16 *)data)[i] = ls_bf16_from_f32((float)value); break;
    case LS_F32: ((float *)data)[i] = (float)value; break;
    default: ((double *)data)[i] = value; break;
    }
}

/* The same for integer types, exact over the whole range of i64. Floating types convert. */
static inline int64_t ls_get_int(ls_dtype dtype, const void *data, int64_t i)
{
    return dtype == LS_I64 ? ((const int64_t *)data)[i] : (int64_t)ls_get(dtype, data, i);
}

static inline void ls_put_int(ls_dtype dtype, void *data, int64_t i, int64_t value)
{
    if (dtype == LS_I64) ((int64_t *)data)[i] = value;
    else if (ls_dtype_is_float(dtype)) ls_put(dtype, data, i, (double)value);
    else if (dtype == LS_BOOL) ((uint8_t *)data)[i] = value != 0;
    else if (dtype == LS_I32) ((int32_t *)data)[i] = (int32_t)value;
    else ((uint8_t *)data)[i] = (uint8_t)value;
}

/* Rows of elements: row r starts `r * pitch` elements after `data`. Absent where data is NULL. */
typedef struct ls_matrix {
    void *data;
    int64_t pitch;
} ls_matrix;

#endif
