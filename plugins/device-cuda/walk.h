/* walk.h - the elements of several operands, one index for all: broadcast, strided, in as few dimensions as they allow.
 *
 * Kernels take a walk by value and turn an element's index into offsets (walk.cuh). */
#ifndef LOCKSTEP_CUDA_WALK_H
#define LOCKSTEP_CUDA_WALK_H

#include "cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CUDA_WALK_OPERANDS = 4 };

typedef struct cuda_walk {
    int64_t count;     /* elements; 0: nothing is to be done */
    int32_t ndim;      /* 1 at least */
    int32_t is_narrow; /* count below 2^31: offsets are computed with 32-bit divisions */
    int64_t dim[LS_MAX_DIMS];
    int64_t stride[CUDA_WALK_OPERANDS][LS_MAX_DIMS];      /* in elements; 0: broadcast */
    uint32_t multiplier[LS_MAX_DIMS], shift[LS_MAX_DIMS]; /* divide by dim (narrow walks) */
} cuda_walk;

/* Of operands that broadcast to the shape of the first, by which the walk goes. in_order: element i is the i-th in
 * row-major order; else dimensions are put into the order of the first operand's memory. */
cuda_walk cuda_walk_of(const ls_operand *const *operand, int count, bool in_order);

/* To be called after count or dim were changed. */
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

/* Blocks for so many threads of work, few enough for each to be resident: kernels go on in a loop. */
static inline unsigned cuda_blocks(const cuda_device *d, int64_t threads, int block)
{
    int64_t wanted = (threads + block - 1) / block, most = (int64_t)d->processors * (2048 / block) * 4;
    return (unsigned)(wanted < most ? wanted : most);
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
