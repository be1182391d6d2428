/* layouts.h - operands of any type and layout for tests of device operators, read and written element by element. */
#ifndef LOCKSTEP_TESTS_LAYOUTS_H
#define LOCKSTEP_TESTS_LAYOUTS_H

#include "base/half.h"

#include <lockstep/plugin.h>

#include <stdlib.h>
#include <string.h>

typedef enum layout {
    PLAIN,    /* row-major */
    BACKWARD, /* first dimension innermost: a transposed tensor */
    GAPS,     /* row-major, but every dimension twice as far apart as needed */
    LAST,     /* dimension 1 innermost: channels-last */
    LAYOUT_COUNT
} layout;

typedef struct tensor {
    ls_operand operand;
    void *memory;
    size_t bytes;
} tensor;

/* Memory is filled with a pattern that tests can look for where nothing may be written. */
static tensor tensor_new(ls_dtype dtype, ls_shape shape, layout how)
{
    tensor t = {.operand = {.dtype = dtype, .ndim = shape.ndim}};
    int order[LS_MAX_DIMS], ndim = shape.ndim; /* innermost first */
    for (int i = 0; i < ndim; i++) order[i] = how == BACKWARD ? i : ndim - 1 - i;
    if (how == LAST && ndim > 2) {
        order[0] = 1;
        for (int i = 1, d = ndim - 1; i < ndim; d--)
            if (d != 1) order[i++] = d;
    }
    int64_t stride = how == GAPS ? 2 : 1;
    for (int i = 0; i < ndim; i++) {
        t.operand.dim[order[i]] = shape.dim[order[i]];
        t.operand.stride[order[i]] = stride;
        stride *= shape.dim[order[i]] * (how == GAPS ? 2 : 1);
    }
    t.bytes = ((size_t)stride + 1) * ls_dtype_size(dtype);
    t.memory = malloc(t.bytes);
    memset(t.memory, 0x5a, t.bytes);
    t.operand.data = t.memory;
    return t;
}

static void tensor_free(tensor *t)
{
    free(t->memory);
}

static int64_t tensor_numel(const tensor *t)
{
    int64_t n = 1;
    for (int d = 0; d < t->operand.ndim; d++) n *= t->operand.dim[d];
    return n;
}

/* Where the row-major i-th element of `shape` is in an operand that broadcasts to it. */
static int64_t offset_of(const ls_operand *o, const ls_operand *shape, int64_t i)
{
    int64_t offset = 0;
    for (int d = shape->ndim - 1; d >= 0; d--) {
        int64_t at = i % shape->dim[d];
        int own = d - (shape->ndim - o->ndim);
        if (own >= 0 && o->dim[own] != 1) offset += at * o->stride[own];
        i /= shape->dim[d];
    }
    return offset;
}

static double get_at(const ls_operand *o, int64_t offset)
{
    switch (o->dtype) {
    case LS_BOOL:
    case LS_U8: return ((uint8_t *)o->data)[offset];
    case LS_I8: return ((int8_t *)o->data)[offset];
    case LS_I32: return ((int32_t *)o->data)[offset];
    case LS_I64: return (double)((int64_t *)o->data)[offset];
    case LS_F16: return (double)ls_f16_to_f32(((uint16_t *)o->data)[offset]);
    case LS_BF16: return (double)ls_bf16_to_f32(((uint16_t *)o->data)[offset]);
    case LS_F32: return (double)((float *)o->data)[offset];
    default: return ((double *)o->data)[offset];
    }
}

static void put_at(const ls_operand *o, int64_t offset, double value)
{
    switch (o->dtype) {
    case LS_BOOL: ((uint8_t *)o->data)[offset] = value != 0; break;
    case LS_U8: ((uint8_t *)o->data)[offset] = (uint8_t)value; break;
    case LS_I8: ((int8_t *)o->data)[offset] = (int8_t)value; break;
    case LS_I32: ((int32_t *)o->data)[offset] = (int32_t)value; break;
    case LS_I64: ((int64_t *)o->data)[offset] = (int64_t)value; break;
    case LS_F16: ((uint16_t *)o->data)[offset] = ls_f16_from_f32((float)value); break;
    case LS_BF16: ((uint16_t *)o->data)[offset] = ls_bf16_from_f32((float)value); break;
    case LS_F32: ((float *)o->data)[offset] = (float)value; break;
    default: ((double *)o->data)[offset] = value; break;
    }
}

/* The row-major i-th element. */
__attribute__((unused)) static double get(const tensor *t, int64_t i)
{
    return get_at(&t->operand, offset_of(&t->operand, &t->operand, i));
}

__attribute__((unused)) static void put(const tensor *t, int64_t i, double value)
{
    put_at(&t->operand, offset_of(&t->operand, &t->operand, i), value);
}

#endif
