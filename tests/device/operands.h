/* operands.h - operands in all types and layouts, for tests of the CPU operators, on every ISA.
 *
 * Elements are addressed by their row-major index, whatever the layout, or by their position in memory. Memory that
 * belongs to no element is filled with a pattern: operand_free() checks that it was not written, and the address
 * sanitizer detects reads before the first element or after the last. */
#ifndef LOCKSTEP_TESTS_OPERANDS_H
#define LOCKSTEP_TESTS_OPERANDS_H

#include "base/guard.h"
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

enum { PATTERN = 0xa5, MARGIN = 8 }; /* elements before the first and after the last */

static const ls_dtype float_types[] = {LS_F32, LS_F64, LS_BF16, LS_F16};
enum { FLOAT_TYPES = 4 };
#define EACH_DTYPE(d) for (ls_dtype d = LS_BOOL; d < LS_DTYPE_COUNT; d++)

/* ---- Elements ---------------------------------------------------------------------------------------------------- */

static inline int64_t numel(const ls_operand *view)
{
    int64_t n = 1;
    for (int32_t d = 0; d < view->ndim; d++) n *= view->dim[d];
    return n;
}

/* Offset of the row-major i-th element of `shape` in a view that broadcasts to it. */
static inline int64_t broadcast_offset(const ls_operand *view, const ls_operand *shape, int64_t i)
{
    int64_t offset = 0;
    for (int32_t d = shape->ndim - 1, own = view->ndim - 1; own >= 0; d--, own--) {
        if (view->dim[own] != 1) offset += i % shape->dim[d] * view->stride[own];
        i /= shape->dim[d];
    }
    return offset;
}

static inline int64_t offset_of(const ls_operand *view, int64_t i)
{
    return broadcast_offset(view, view, i);
}

/* Offset of the element with these four indices; those beyond ndim are ignored. */
static inline int64_t offset_at(const ls_operand *view, int64_t i, int64_t j, int64_t k, int64_t l)
{
    int64_t index[] = {i, j, k, l}, offset = 0;
    for (int32_t d = 0; d < view->ndim; d++) offset += index[d] * view->stride[d];
    return offset;
}

static inline double get_at(const ls_operand *view, int64_t offset)
{
    return ls_get(view->dtype, view->data, offset);
}

static inline void set_at(const ls_operand *view, int64_t offset, double value)
{
    ls_put(view->dtype, view->data, offset, value);
}

static inline double get(const operand *o, int64_t i)
{
    return get_at(&o->view, offset_of(&o->view, i));
}

static inline void set(const operand *o, int64_t i, double value)
{
    set_at(&o->view, offset_of(&o->view, i), value);
}

/* ---- Made and freed ---------------------------------------------------------------------------------------------- */

/* In memory the dimensions follow each other in `order`, slowest first; elements of the fastest are `step` apart, and
 * each dimension ends with a gap of `gap` elements. */
static inline operand operand_ordered(ls_dtype dtype, ls_shape shape, const int32_t *order, int64_t step, int64_t gap)
{
    operand o = {.view = {.dtype = dtype, .ndim = shape.ndim}};
    int64_t extent = step, last = 0;
    for (int32_t k = shape.ndim - 1; k >= 0; k--) {
        int32_t d = order[k];
        o.view.dim[d] = shape.dim[d];
        o.view.stride[d] = extent;
        last += (shape.dim[d] - 1) * extent;
        extent = extent * shape.dim[d] + gap;
    }
    size_t size = ls_dtype_size(dtype), used = numel(&o.view) ? (size_t)(last + 1) * size : 0;
    o.bytes = used + 2 * MARGIN * size;
    o.memory = malloc(o.bytes);
    memset(o.memory, PATTERN, o.bytes);
    o.view.data = o.memory + MARGIN * size;
    ls_guard_close(o.memory, MARGIN * size);
    ls_guard_close(o.memory + MARGIN * size + used, MARGIN * size);
    return o;
}

static inline operand operand_new(ls_dtype dtype, ls_shape shape, placement layout)
{
    int32_t order[LS_MAX_DIMS] = {0}, n = 0;
    for (int32_t d = 0; d < shape.ndim; d++) {
        if (layout == REVERSED) order[n++] = shape.ndim - 1 - d;
        else if (layout != CHANNELS_LAST || d != 1) order[n++] = d;
    }
    if (layout == CHANNELS_LAST && shape.ndim > 1) order[n++] = 1;
    return layout == GAPS ? operand_ordered(dtype, shape, order, 2, 1) : operand_ordered(dtype, shape, order, 1, 0);
}

static inline void operand_free(operand *o)
{
    if (!o->memory) return;
    size_t size = ls_dtype_size(o->view.dtype);
    ls_guard_open(o->memory, o->bytes);
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
    return ls_shape_n(o->view.dim, o->view.ndim);
}

static inline bool same_bits(const operand *a, const operand *b)
{
    size_t margin = MARGIN * ls_dtype_size(a->view.dtype);
    return a->bytes == b->bytes && memcmp(a->view.data, b->view.data, a->bytes - 2 * margin) == 0;
}

/* A number in [-2, 2) that depends only on seed and i. */
static inline double noise(uint64_t seed, int64_t i)
{
    uint64_t z = seed * 0x9E3779B97F4A7C15u + (uint64_t)i * 0xBF58476D1CE4E5B9u + 0x94D049BB133111EBu;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-51 - 2;
}

/* Filled with noise: [-2, 2) in floating types, small integers in the others. */
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

/* The same as a multiple of 1/32: exact in every floating type. */
static inline double coarse_noise(uint64_t seed, int64_t i)
{
    return floor(noise(seed, i) * 32) / 32;
}

/* Filled with coarse noise, each operand with its own. */
static inline operand operand_coarse(ls_dtype dtype, ls_shape shape, const int32_t *order, int64_t step)
{
    static uint64_t seed;
    operand o = operand_ordered(dtype, shape, order, step, 0);
    seed++;
    for (int64_t i = 0; i < numel(&o.view); i++) set(&o, i, coarse_noise(seed, i));
    return o;
}

/* Relative error allowed for results of a type. */
static inline double tolerance(ls_dtype dtype)
{
    switch (dtype) {
    case LS_F16: return 1.5e-3;
    case LS_BF16: return 1.2e-2;
    case LS_F32: return 3e-6;
    default: return 1e-12;
    }
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

static inline ls_status run(const ls_call *call)
{
    ls_message why = {""};
    ls_status status = ls_cpu_run(call, &why);
    CHECK_MSG(status == LS_OK, "status %s: %s", ls_status_name(status), why.text);
    return status;
}

/* The ISAs that this CPU runs, one after the other. */
#define EACH_ISA(isa)                                                                                                  \
    for (ls_isa isa = LS_ISA_REF; isa < LS_ISA_COUNT; isa++)                                                           \
        if (ls_isa_usable(isa) && (ls_isa_cap(isa), true))

/* From now on the ISA in use has these kernels of a family (a pointer to its table; NULL: none); those that it had. */
static inline const void *offer_kernels(ls_family *family, const void *table)
{
    ls_isa isa = ls_isa_in_use();
    const void *before = family->offers[isa];
    family->offers[isa] = table;
    family->ready[isa] = false;
    return before;
}

static inline void lift_caps(void)
{
    ls_isa_cap(LS_ISA_COUNT - 1);
    ls_parallel_set_width(0);
}

static void (*test_on_isas)(void);
static bool test_is_slow;

static inline void run_on_isas(void)
{
    lift_caps();
    ls_isa best = ls_isa_in_use();
    bool quick = getenv("CHECK_QUICK") != NULL;
    EACH_ISA(isa) for (int width = quick ? 2 : 1; width <= 2; width++)
    {
        if (quick && test_is_slow && isa != best) continue;
        ls_parallel_set_width(width);
        int before = check_failures_here;
        test_on_isas();
        if (check_failures_here > before) fprintf(stderr, "  with ISA %s and %d worker(s)\n", ls_isa_name(isa), width);
    }
    lift_caps();
}

/* CHECK_RUN on every ISA, with one worker and with two. Where CHECK_QUICK is set: with two; and SLOW tests, which take
 * more than a second, on the best ISA only. */
#define CHECK_RUN_ISAS(test) (test_on_isas = (test), test_is_slow = false, check_one(#test, run_on_isas))
#define CHECK_RUN_ISAS_SLOW(test) (test_on_isas = (test), test_is_slow = true, check_one(#test, run_on_isas))

#endif
