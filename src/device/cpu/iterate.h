/* iterate.h - walk operands of any layout together, piece by piece, as contiguous arrays of the types a kernel needs.
 *
 * Operands are broadcast against the first one, which is the first output. Dimensions that are adjacent in all operands
 * are merged; the rest is cut into pieces. If an operand is contiguous over a piece and has the right type, the body
 * gets its own memory; else a copy in a buffer in L1, written back afterwards for outputs. */
#ifndef LOCKSTEP_DEVICE_CPU_ITERATE_H
#define LOCKSTEP_DEVICE_CPU_ITERATE_H

#include <lockstep/plugin.h>

#define LS_ITERATE_OPERANDS 8

typedef struct ls_iteration {
    int count, outputs; /* operands; the first `outputs` of them are written */
    const ls_operand *operand[LS_ITERATE_OPERANDS];
    ls_dtype as[LS_ITERATE_OPERANDS]; /* type the body needs; LS_DTYPE_NONE: unchanged */
    bool updates;                     /* outputs are read as well as written */
    bool in_order;                    /* pieces follow each other in row-major order, `first` is the row-major index */
    int64_t grain;                    /* elements from which on a second thread pays off; 0: one thread */
} ls_iteration;

/* n elements, n > 0, at p[0], p[1], ...; `first` counts the elements before them in the order of the walk. Runs on
 * several threads at once. */
typedef void ls_iteration_body(void *arg, int64_t first, int64_t n, void *const *p);

void ls_iterate(const ls_iteration *walk, ls_iteration_body *body, void *arg);

/* The dimensions left to walk, outermost first, at least one: those of size 1 are dropped, those adjacent in all
 * operands merged. Sorted by the strides of the first operand unless `in_order`. Strides are in bytes, 0 if an operand
 * is broadcast. */
typedef struct ls_layout {
    int ndim;
    int64_t count; /* elements */
    int64_t dim[LS_MAX_DIMS];
    int64_t stride[LS_ITERATE_OPERANDS][LS_MAX_DIMS];
} ls_layout;

ls_layout ls_layout_of(const ls_operand *const *operand, int count, bool in_order);

/* The grain for a body that takes about this many nanoseconds per 1,000 elements. */
int64_t ls_grain(int64_t cost);

/* True if all operands have the shape of the first and are contiguous and row-major. Cheap. */
bool ls_all_contiguous(const ls_operand *const *operand, int count);

#endif
