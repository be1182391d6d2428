/* operands.h - operands in all types and layouts, for tests of the CPU's operators.
 *
 * Elements are addressed by their row-major index, whatever the layout. Memory that belongs to no element is filled
 * with a pattern, and operand_free() checks that nobody wrote there. */
#ifndef LOCKSTEP_TESTS_OPERANDS_H
#define LOCKSTEP_TESTS_OPERANDS_H

#include "base/parallel.h"
#include "device/cpu/cpu.h"
#include "kernels/element.h"
#include "kernels/kernels.h"

#include "check.h"

#include <stdlib.h>

typedef enum placement {
    PLAIN,         /* row-major */
    REVERSED,      /* the first dimension is the fastest */
    CHANNELS_LAST, /* dimension 1 is the fastest, then row-major */
    GAPS,          /* row-major with holes */
    LAYOUTS
} placement;

typedef struct operand {
    ls_operand view;
    uint8_t *memory;
    size_t bytes;
} operand;

enum { PATTERN = 0xa5 };

static inline int64_t numel(const ls_operand *view)
{
    int64_t n = 1;
    for (int32_t d = 0; d < view->ndim; d++) n *= view->dim[d];
    return n;
}

static inline int64_t offset_of(const ls_operand *view, int64_t i)
{
    int64_t offset = 0;
    for (int32_t d = view->ndim - 1; d >= 0; d--) {
        offset += i % view->dim[d] * view->stride[d];
        i /= view->dim[d];
    }
    return offset;
}

static inline double get(const operand *o, int64_t i)
{
    return ls_get(o->view.dtype, o->view.data, offset_of(&o->view, i));
}

static inline void set(operand *o, int64_t i, double value)
{
    ls_put(o->view.dtype, o->view.data, offset_of(&o->view, i), value);
}

static inline operand operand_new(ls_dtype dtype, ls_shape shape, placement layout)
{
    operand o = {.view = {.dtype = dtype, .ndim = shape.ndim}};
    int32_t order[LS_MAX_DIMS], n = 0; /* slowest first */
    for (int32_t d = 0; d < shape.ndim; d++) {
        o.view.dim[d] = shape.dim[d];
        if (layout == REVERSED) order[n++] = shape.ndim - 1 - d;
        else if (layout != CHANNELS_LAST || d != 1) order[n++] = d;
    }
    if (layout == CHANNELS_LAST && shape.ndim > 1) order[n++] = 1;
    int64_t extent = layout == GAPS ? 2 : 1;
    for (int32_t k = n - 1; k >= 0; k--) {
        o.view.stride[order[k]] = extent;
        extent = extent * shape.dim[order[k]] + (layout == GAPS ? 1 : 0);
    }
    o.bytes = (size_t)(extent + 16) * ls_dtype_size(dtype);
    o.memory = malloc(o.bytes);
    memset(o.memory, PATTERN, o.bytes);
    o.view.data = o.memory + 8 * ls_dtype_size(dtype);
    return o;
}

static inline void operand_free(operand *o)
{
    if (!o->memory) return;
    size_t size = ls_dtype_size(o->view.dtype);
    for (int64_t i = 0; i < numel(&o->view); i++)
        memset((char *)o->view.data + (size_t)offset_of(&o->view, i) * size, PATTERN, size);
    for (size_t i = 0; i < o->bytes; i++) {
        if (o->memory[i] != PATTERN) {
            CHECK_MSG(false, "byte %zu of %zu was written, but belongs to no element", i, o->bytes);
            break;
        }
    }
    free(o->memory);
    o->memory = NULL;
}

static inline ls_shape shape_of(const operand *o)
{
    return ls_shape_make((size_t)o->view.ndim, o->view.dim);
}

static inline bool same_bits(const operand *a, const operand *b)
{
    return a->bytes == b->bytes && memcmp(a->memory, b->memory, a->bytes) == 0;
}

/* A number in [-2, 2) that depends on seed and i only. */
static inline double noise(uint64_t seed, int64_t i)
{
    uint64_t z = seed * 0x9E3779B97F4A7C15u + (uint64_t)i * 0xBF58476D1CE4E5B9u + 0x94D049BB133111EBu;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-51 - 2;
}

/* Filled with noise: [-2, 2) in floating types, small whole numbers in the others. */
static inline operand operand_noise(ls_dtype dtype, ls_shape shape, placement layout, uint64_t seed)
{
    operand o = operand_new(dtype, shape, layout);
    for (int64_t i = 0; i < numel(&o.view); i++) {
        double v = noise(seed, i);
        if (!ls_dtype_is_float(dtype))
            v = dtype == LS_BOOL ? v > 0 : dtype == LS_U8 ? floor(v * 50 + 100) : floor(v * 50);
        set(&o, i, v);
    }
    return o;
}

/* Relative error that results of a type may have. */
static inline double tolerance(ls_dtype dtype)
{
    switch (dtype) {
    case LS_F16: return 1.5e-3;
    case LS_BF16: return 1.2e-2;
    case LS_F32: return 3e-6;
    default: return 1e-12;
    }
}

static const ls_dtype float_types[] = {LS_F32, LS_F64, LS_BF16, LS_F16};
enum { FLOAT_TYPES = 4 };

/* Run a test once per ISA that this CPU runs, with one worker and with two. */
static inline void on_each_isa(void (*test)(void))
{
    for (int isa = 0; isa < LS_ISA_COUNT; isa++) {
        if (!ls_isa_usable((ls_isa)isa)) continue;
        ls_isa_cap((ls_isa)isa);
        for (int width = 1; width <= 2; width++) {
            ls_parallel_set_width(width);
            int before = check_failures_here;
            test();
            if (check_failures_here > before)
                fprintf(stderr, "  with ISA %s and %d worker(s)\n", ls_isa_name((ls_isa)isa), width);
        }
    }
    ls_isa_cap(LS_ISA_COUNT - 1);
    ls_parallel_set_width(0);
}

static inline ls_status run(const ls_call *call)
{
    ls_message why = {""};
    ls_status status = ls_cpu_run(call, &why);
    CHECK_MSG(status == LS_OK, "status %s: %s", ls_status_name(status), why.text);
    return status;
}

#endif
