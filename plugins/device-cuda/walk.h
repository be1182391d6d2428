/* walk.h - one index for the elements of several operands, broadcast and strided, with as few dimensions as possible.
 *
 * Kernels take a walk by value and compute the offsets of an element from its index (walk.cuh). */
#ifndef LOCKSTEP_CUDA_WALK_H
#define LOCKSTEP_CUDA_WALK_H

#include "cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CUDA_WALK_OPERANDS = 6 };

typedef struct cuda_walk {
    int64_t count;     /* number of elements */
    int32_t ndim;      /* 1 at least */
    int32_t is_narrow; /* count below 2^31: offsets are computed with 32-bit divisions */
    int64_t dim[LS_MAX_DIMS];
    int64_t stride[CUDA_WALK_OPERANDS][LS_MAX_DIMS];      /* in elements; 0: broadcast */
    uint32_t multiplier[LS_MAX_DIMS], shift[LS_MAX_DIMS]; /* divide by dim (narrow walks) */
} cuda_walk;

/* Operands broadcast to the shape of the first. in_order: element i is the i-th in row-major order; else dimensions are
 * sorted by the memory order of the first operand. */
cuda_walk cuda_walk_of(const ls_operand *const *operand, int count, bool in_order);

/* Built by hand: a walk over one element, at offset 0 of every operand; then dimensions are added, outermost first. One
 * of size 1 is left out, and one that continues the last in every operand is merged with it. */
cuda_walk cuda_walk_begin(void);
void cuda_walk_add(cuda_walk *walk, int64_t size, const int64_t *stride, int operands);

/* Call after changing count or dim. */
void cuda_walk_prepare(cuda_walk *walk);

/* Is element i of this operand at offset i? */
static inline bool cuda_walk_is_dense(const cuda_walk *walk, int operand)
{
    return walk->ndim == 1 && (walk->stride[operand][0] == 1 || walk->count == 1);
}

static inline bool cuda_aligned(const void *address, size_t bytes)
{
    return (uintptr_t)address % bytes == 0;
}

/* Number of blocks for so many threads of work, one at least, limited to what the device can hold: kernels loop over
 * the rest. */
static inline unsigned cuda_blocks(const cuda_device *d, int64_t threads, int block)
{
    int64_t wanted = (threads + block - 1) / block, most = (int64_t)d->processors * (2048 / block) * 4;
    return (unsigned)(wanted < 1 ? 1 : wanted < most ? wanted : most);
}

/* The type that two types are computed in: include/lockstep/base.h, LS_DTYPE_LIST. */
ls_dtype cuda_promote(ls_dtype a, ls_dtype b);
static inline bool cuda_is_float(ls_dtype dtype)
{
    return dtype >= LS_F16;
}

#ifdef __cplusplus
}
#endif
#endif
