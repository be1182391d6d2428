/* iterate.h - walk operands of any layout together, piece by piece, as contiguous arrays of the types a kernel wants.
 *
 * Operands are broadcast against the first one, which is the first output. Dimensions that lie alike in all operands
 * are merged; what is left is cut into pieces. Where an operand is contiguous over a piece, and of the wanted type, the
 * body gets its own memory; else a copy in a buffer of the first level of cache,
 * written back afterwards for outputs. */
#ifndef LOCKSTEP_DEVICE_CPU_ITERATE_H
#define LOCKSTEP_DEVICE_CPU_ITERATE_H

#include <lockstep/plugin.h>

#define LS_ITERATE_OPERANDS 8

typedef struct ls_iteration {
    int count, outputs; /* operands; the first `outputs` of them are written */
    const ls_operand *operand[LS_ITERATE_OPERANDS];
    ls_dtype as[LS_ITERATE_OPERANDS]; /* type the body wants; LS_DTYPE_NONE: as it is */
    bool updates;                     /* outputs are read as well as written */
    bool in_order;                    /* pieces follow each other in row-major order, `first` is the row-major index */
    int64_t grain;                    /* elements from which on a second thread pays; 0: one thread */
} ls_iteration;

/* n elements, n > 0, at p[0], p[1], ...; `first` counts the elements before them in the order of the walk. Runs on
 * several threads at once. */
typedef void ls_iteration_body(void *arg, int64_t first, int64_t n, void *const *p);

void ls_iterate(const ls_iteration *walk, ls_iteration_body *body, void *arg);

/* The dimensions that are left to walk, outermost first: those of size 1 dropped, those that lie alike in all operands
 * merged, at least one. Sorted by the strides of the first operand unless `in_order`. Strides are in bytes, 0 where an
 * operand is broadcast. */
typedef struct ls_layout {
    int ndim;
    int64_t count; /* elements */
    int64_t dim[LS_MAX_DIMS];
    int64_t stride[LS_ITERATE_OPERANDS][LS_MAX_DIMS];
} ls_layout;

ls_layout ls_layout_of(const ls_operand *const *operand, int count, bool in_order);

/* The grain for a body that takes about this many nanoseconds per 1,000 elements. */
int64_t ls_grain(int64_t cost);

/* True when all operands have the shape of the first, are contiguous and row-major. Cheap. */
bool ls_all_contiguous(const ls_operand *const *operand, int count);

#endif
