/* element.h - element types of files, and the types they are converted to.
 *
 * The names are those of safetensors, in the order in which its writer ranks them; C128 exists only in PyTorch and
 * NumPy. */
#ifndef LOCKSTEP_FORMATS_ELEMENT_H
#define LOCKSTEP_FORMATS_ELEMENT_H

#include <lockstep/base.h>

/* LS_ELEMENT(name, bits, converted type: LS_DTYPE_NONE if none holds it exactly) */
#define LS_ELEMENT_LIST(LS_ELEMENT)                                                                                    \
    LS_ELEMENT(BOOL, 8, LS_BOOL)                                                                                       \
    LS_ELEMENT(F4, 4, LS_DTYPE_NONE)                                                                                   \
    LS_ELEMENT(F6_E2M3, 6, LS_DTYPE_NONE)                                                                              \
    LS_ELEMENT(F6_E3M2, 6, LS_DTYPE_NONE)                                                                              \
    LS_ELEMENT(U8, 8, LS_U8)                                                                                           \
    LS_ELEMENT(I8, 8, LS_I8)                                                                                           \
    LS_ELEMENT(F8_E5M2, 8, LS_F32)                                                                                     \
    LS_ELEMENT(F8_E4M3, 8, LS_F32)                                                                                     \
    LS_ELEMENT(F8_E8M0, 8, LS_F32)                                                                                     \
    LS_ELEMENT(F8_E4M3FNUZ, 8, LS_F32)                                                                                 \
    LS_ELEMENT(F8_E5M2FNUZ, 8, LS_F32)                                                                                 \
    LS_ELEMENT(I16, 16, LS_I32)                                                                                        \
    LS_ELEMENT(U16, 16, LS_I32)                                                                                        \
    LS_ELEMENT(F16, 16, LS_F16)                                                                                        \
    LS_ELEMENT(BF16, 16, LS_BF16)                                                                                      \
    LS_ELEMENT(I32, 32, LS_I32)                                                                                        \
    LS_ELEMENT(U32, 32, LS_I64)                                                                                        \
    LS_ELEMENT(F32, 32, LS_F32)                                                                                        \
    LS_ELEMENT(C64, 64, LS_F32)                                                                                        \
    LS_ELEMENT(F64, 64, LS_F64)                                                                                        \
    LS_ELEMENT(I64, 64, LS_I64)                                                                                        \
    LS_ELEMENT(U64, 64, LS_I64)                                                                                        \
    LS_ELEMENT(C128, 128, LS_F64)

typedef enum ls_element {
#define LS_ELEMENT(name, bits, becomes) LS_ELEMENT_##name,
    LS_ELEMENT_LIST(LS_ELEMENT) LS_ELEMENT_COUNT
#undef LS_ELEMENT
} ls_element;

const char *ls_element_name(ls_element element);
ls_element ls_element_named(const char *name); /* LS_ELEMENT_COUNT if unknown */
int ls_element_bits(ls_element element);
ls_dtype ls_element_becomes(ls_element element);
ls_element ls_element_of(ls_dtype dtype);
/* A pair of numbers: read as one more dimension of 2. */
bool ls_element_is_complex(ls_element element);
/* Stored exactly as its converted type; others need conversion. */
bool ls_element_is_direct(ls_element element);

/* Convert `count` elements, `step` elements apart in the source (unaligned), to consecutive ones of the converted type.
 * False if a value does not fit. Not for complex types. */
bool ls_element_convert(ls_element element, const void *from, int64_t step, void *to, int64_t count);

/* Bytes of a shape; false if that overflows or is not a whole number of bytes. */
bool ls_element_bytes(ls_element element, int ndim, const int64_t *dim, uint64_t *bytes);

#endif
