/* element.c - conversion of the element types of files. */
#include "formats/element.h"

#include <math.h>
#include <string.h>

#include "base/half.h"

static const struct {
    const char *name;
    int bits;
    ls_dtype becomes;
} elements[] = {
#define LS_ELEMENT(name, bits, becomes) [LS_ELEMENT_##name] = {#name, bits, becomes},
    LS_ELEMENT_LIST(LS_ELEMENT)
#undef LS_ELEMENT
};

const char *ls_element_name(ls_element element)
{
    return elements[element].name;
}

ls_element ls_element_named(const char *name)
{
    int i = 0;
    while (i < LS_ELEMENT_COUNT && strcmp(name, elements[i].name) != 0) i++;
    return (ls_element)i;
}

int ls_element_bits(ls_element element)
{
    return elements[element].bits;
}

ls_dtype ls_element_becomes(ls_element element)
{
    return elements[element].becomes;
}

ls_element ls_element_of(ls_dtype dtype)
{
    int i = 0;
    while (i < LS_ELEMENT_COUNT && (elements[i].becomes != dtype || !ls_element_is_direct((ls_element)i))) i++;
    return (ls_element)i;
}

bool ls_element_is_complex(ls_element element)
{
    return element == LS_ELEMENT_C64 || element == LS_ELEMENT_C128;
}

bool ls_element_is_direct(ls_element element)
{
    switch (element) {
    case LS_ELEMENT_BOOL:
    case LS_ELEMENT_U8:
    case LS_ELEMENT_I8:
    case LS_ELEMENT_F16:
    case LS_ELEMENT_BF16:
    case LS_ELEMENT_I32:
    case LS_ELEMENT_F32:
    case LS_ELEMENT_F64:
    case LS_ELEMENT_I64: return true;
    default: return false;
    }
}

bool ls_element_bytes(ls_element element, int ndim, const int64_t *dim, uint64_t *bytes)
{
    uint64_t bits = (uint64_t)ls_element_bits(element);
    bool empty = false;
    for (int d = 0; d < ndim; d++) {
        if (dim[d] < 0) return false;
        if (dim[d] == 0) empty = true;
        else if (__builtin_mul_overflow(bits, (uint64_t)dim[d], &bits)) return false;
    }
    *bytes = empty ? 0 : bits / 8;
    return empty || bits % 8 == 0;
}

/* ---- eight bits ---- */

/* Layout of an 8-bit float. Without infinities the largest exponent is used for ordinary numbers. */
typedef struct small_float {
    int mantissa_bits, bias;
    bool has_infinity;  /* and NaNs above it, as in IEEE */
    bool unsigned_zero; /* 0x80 is the only NaN; otherwise NaN has all bits set but the sign */
} small_float;

static float small_float_value(const small_float *form, uint8_t bits)
{
    int mantissa_bits = form->mantissa_bits, exponent = (bits & 0x7f) >> mantissa_bits;
    int mantissa = bits & ((1 << mantissa_bits) - 1), top = 0x7f >> mantissa_bits;
    float sign = bits & 0x80 ? -1.0f : 1.0f;
    if (form->has_infinity && exponent == top) return mantissa ? NAN : sign * INFINITY;
    if (form->unsigned_zero ? bits == 0x80 : !form->has_infinity && (bits & 0x7f) == 0x7f) return NAN;
    int fraction = exponent ? mantissa + (1 << mantissa_bits) : mantissa;
    return sign * ldexpf((float)fraction, (exponent ? exponent : 1) - form->bias - mantissa_bits);
}

/* The 256 values of a type of eight bits. */
static void small_float_table(ls_element element, float table[256])
{
    static const small_float e5m2 = {2, 15, true, false}, e4m3 = {3, 7, false, false};
    static const small_float e4m3fnuz = {3, 8, false, true}, e5m2fnuz = {2, 16, false, true};
    const small_float *form = element == LS_ELEMENT_F8_E5M2       ? &e5m2
                              : element == LS_ELEMENT_F8_E4M3     ? &e4m3
                              : element == LS_ELEMENT_F8_E4M3FNUZ ? &e4m3fnuz
                                                                  : &e5m2fnuz;
    for (int i = 0; i < 256; i++) {
        if (element == LS_ELEMENT_F8_E8M0) table[i] = i == 255 ? NAN : ldexpf(1, i - 127); /* an exponent alone */
        else table[i] = small_float_value(form, (uint8_t)i);
    }
}

/* ---- all ---- */

bool ls_element_convert(ls_element element, const void *source, int64_t step, void *target, int64_t count)
{
    const char *from = source;
    size_t size = (size_t)ls_element_bits(element) / 8;
    if (ls_element_is_direct(element) && step == 1 && element != LS_ELEMENT_BOOL) {
        if (count) memcpy(target, source, (size_t)count * size);
        return true;
    }
    bool fits = true;
    size_t stride = (size_t)step * size;
/* memcpy, since sources may be unaligned. */
#define CONVERT(from_type, to_type, expression)                                                                        \
    for (int64_t i = 0; i < count; i++, from += stride) {                                                              \
        from_type x;                                                                                                   \
        memcpy(&x, from, sizeof x);                                                                                    \
        ((to_type *)target)[i] = (to_type)(expression);                                                                \
    }                                                                                                                  \
    break
    float table[256];
    switch (element) {
    case LS_ELEMENT_BOOL: CONVERT(uint8_t, uint8_t, x != 0);
    case LS_ELEMENT_U8:
    case LS_ELEMENT_I8: CONVERT(uint8_t, uint8_t, x);
    case LS_ELEMENT_F16:
    case LS_ELEMENT_BF16: CONVERT(uint16_t, uint16_t, x);
    case LS_ELEMENT_I32:
    case LS_ELEMENT_F32: CONVERT(uint32_t, uint32_t, x);
    case LS_ELEMENT_I64:
    case LS_ELEMENT_F64: CONVERT(uint64_t, uint64_t, x);
    case LS_ELEMENT_I16: CONVERT(int16_t, int32_t, x);
    case LS_ELEMENT_U16: CONVERT(uint16_t, int32_t, x);
    case LS_ELEMENT_U32: CONVERT(uint32_t, int64_t, x);
    case LS_ELEMENT_U64: CONVERT(uint64_t, int64_t, (fits = fits && x <= INT64_MAX, x));
    case LS_ELEMENT_F8_E5M2:
    case LS_ELEMENT_F8_E4M3:
    case LS_ELEMENT_F8_E8M0:
    case LS_ELEMENT_F8_E4M3FNUZ:
    case LS_ELEMENT_F8_E5M2FNUZ: small_float_table(element, table); CONVERT(uint8_t, float, table[x]);
    case LS_ELEMENT_F4:
    case LS_ELEMENT_F6_E2M3:
    case LS_ELEMENT_F6_E3M2:
    case LS_ELEMENT_C64:
    case LS_ELEMENT_C128:
    case LS_ELEMENT_COUNT: return false;
    }
#undef CONVERT
    return fits;
}
