/* tensors.h - small strided tensors for tests of the CPU's operators: made, filled, read as double. */
#ifndef LOCKSTEP_TESTS_DEVICE_TENSORS_H
#define LOCKSTEP_TESTS_DEVICE_TENSORS_H

#include "base/half.h"

#include <lockstep/plugin.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const ls_dtype tensor_types[] = {LS_F32, LS_BF16, LS_F16, LS_F64};

typedef struct tensor {
    ls_operand view;
    void *memory; /* for free() */
} tensor;

static uint32_t tensor_random_state = 1;

/* Multiples of 1/32 in [-2, 2): exact in every type. */
__attribute__((unused)) static double tensor_random(void)
{
    tensor_random_state = tensor_random_state * 1664525u + 1013904223u;
    return ((int)(tensor_random_state >> 25) - 64) / 32.0;
}

__attribute__((unused)) static double tensor_get(const ls_operand *x, int64_t at)
{
    switch (x->dtype) {
    case LS_F64: return ((const double *)x->data)[at];
    case LS_BF16: return ls_bf16_to_f32(((const ls_bf16 *)x->data)[at]);
    case LS_F16: return ls_f16_to_f32(((const ls_f16 *)x->data)[at]);
    default: return ((const float *)x->data)[at];
    }
}

__attribute__((unused)) static void tensor_set(const ls_operand *x, int64_t at, double value)
{
    switch (x->dtype) {
    case LS_F64: ((double *)x->data)[at] = value; break;
    case LS_BF16: ((ls_bf16 *)x->data)[at] = ls_bf16_from_f32((float)value); break;
    case LS_F16: ((ls_f16 *)x->data)[at] = ls_f16_from_f32((float)value); break;
    default: ((float *)x->data)[at] = (float)value;
    }
}

/* The element at an index of four numbers; dimensions beyond ndim are ignored. */
__attribute__((unused)) static int64_t tensor_at(const ls_operand *x, int64_t i, int64_t j, int64_t k, int64_t l)
{
    int64_t index[] = {i, j, k, l}, at = 0;
    for (int d = 0; d < x->ndim; d++) at += index[d] * x->stride[d];
    return at;
}

/* A tensor of random numbers whose memory order is `order` (outermost first, a permutation of the dimensions), with
 * `gap` unused elements after each innermost one. The memory is exactly as large as needed. */
__attribute__((unused)) static tensor tensor_new(ls_dtype dtype, int ndim, const int64_t *dim, const int *order,
                                                 int gap)
{
    tensor t = {.view = {.dtype = dtype, .ndim = ndim}};
    int64_t stride = 1 + gap, last = 0;
    for (int i = ndim - 1; i >= 0; i--) {
        int d = order[i];
        t.view.dim[d] = dim[d];
        t.view.stride[d] = stride;
        last += (dim[d] - 1) * stride;
        stride *= dim[d];
    }
    t.memory = t.view.data = calloc((size_t)(stride ? last + 1 : 1), ls_dtype_size(dtype));
    if (stride)
        for (int64_t i = 0; i <= last; i++) tensor_set(&t.view, i, tensor_random());
    return t;
}

__attribute__((unused)) static void tensor_free(tensor *t)
{
    free(t->memory);
}

#endif
