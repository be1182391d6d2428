/* number.h - every number type as one of two classes: `whole` numbers are int64_t while computed with, `real` ones
 * double. For reference kernels that are written once per class and spelled out for all types by macros. */
#ifndef LOCKSTEP_KERNELS_REF_NUMBER_H
#define LOCKSTEP_KERNELS_REF_NUMBER_H

#include "base/half.h"

#include <lockstep/base.h>

typedef int64_t ls_whole;
typedef double ls_real;

/* Rounds towards zero; saturates; NaN becomes 0. */
static inline ls_whole ls_whole_of_real(ls_real r)
{
    if (r != r) return 0;
    return r >= 0x1p63 ? INT64_MAX : r <= -0x1p63 ? INT64_MIN : (ls_whole)r;
}

/* LS_NUMBER(dtype, class, storage type, expression that widens v, one that narrows a whole w, a real r, ...) */
#define LS_WHOLE_LIST(LS_NUMBER, ...)                                                                                  \
    LS_NUMBER(LS_BOOL, whole, uint8_t, v, w != 0, r != 0, __VA_ARGS__)                                                 \
    LS_NUMBER(LS_U8, whole, uint8_t, v, w, ls_whole_of_real(r), __VA_ARGS__)                                           \
    LS_NUMBER(LS_I8, whole, int8_t, v, w, ls_whole_of_real(r), __VA_ARGS__)                                            \
    LS_NUMBER(LS_I32, whole, int32_t, v, w, ls_whole_of_real(r), __VA_ARGS__)                                          \
    LS_NUMBER(LS_I64, whole, int64_t, v, w, ls_whole_of_real(r), __VA_ARGS__)
#define LS_REAL_LIST(LS_NUMBER, ...)                                                                                   \
    LS_NUMBER(LS_F16, real, ls_f16, ls_f16_to_f32(v), ls_f16_from_f32((float)w), ls_f16_from_f32((float)r),            \
              __VA_ARGS__)                                                                                             \
    LS_NUMBER(LS_BF16, real, ls_bf16, ls_bf16_to_f32(v), ls_bf16_from_f32((float)w), ls_bf16_from_f32((float)r),       \
              __VA_ARGS__)                                                                                             \
    LS_NUMBER(LS_F32, real, float, v, w, r, __VA_ARGS__)                                                               \
    LS_NUMBER(LS_F64, real, double, v, w, r, __VA_ARGS__)

/* type_LS_F32, get_LS_F32(v): its class; put_whole_LS_F32(w), put_real_LS_F32(r): what is stored. */
#define LS_NUMBER(dtype, class, type, get, put_whole, put_real, ...)                                                   \
    typedef type type_##dtype;                                                                                         \
    typedef ls_##class class_##dtype;                                                                                  \
    static inline class_##dtype get_##dtype(type v)                                                                    \
    {                                                                                                                  \
        return (class_##dtype)(get);                                                                                   \
    }                                                                                                                  \
    static inline type put_whole_##dtype(ls_whole w)                                                                   \
    {                                                                                                                  \
        return (type)(put_whole);                                                                                      \
    }                                                                                                                  \
    static inline type put_real_##dtype(ls_real r)                                                                     \
    {                                                                                                                  \
        return (type)(put_real);                                                                                       \
    }
LS_WHOLE_LIST(LS_NUMBER, )
LS_REAL_LIST(LS_NUMBER, )
#undef LS_NUMBER

#endif
