/* map.h - operators that compute each element from the elements at the same place of one or two inputs.
 *
 * A map is a pair of expressions, one for real and one for whole numbers (map.cuh); map.cu chooses the kernel. The
 * number types are looked at while a kernel runs, not compiled in: every thread takes the same branch, and one kernel
 * per expression and class of numbers is all there is to compile. */
#ifndef LOCKSTEP_CUDA_MAP_H
#define LOCKSTEP_CUDA_MAP_H

#include "walk.h"

typedef struct map_args {
    cuda_walk walk; /* result, x, y */
    void *out;
    const void *x, *y;
    int32_t out_dtype, dtype; /* of the result: dtype or bool; of x and y */
    double k0, k1;            /* attributes */
    /* Of the kernel for dense operands: groups of 8 elements after which y repeats; -1: never, 0: y is one element. */
    int64_t period;
} map_args;

typedef void map_launch(const map_args *args, unsigned blocks, cudaStream_t stream);

typedef struct map_kind {
    int inputs;
    bool gives_bool;
    map_launch *dense;                /* f32 and half types, eight elements at a time */
    map_launch *real, *twice, *whole; /* any layout: f32 and half types, f64, integers (NULL: not supported) */
} map_kind;

enum { MAP_BLOCK = 256 };

/* Enqueue a map. Types that differ are converted: inputs to their common type, the result to that of the output. */
ls_status map_run(cuda_device *d, cudaStream_t stream, const ls_call *call, const map_kind *kind, double k0, double k1,
                  ls_message *why);

#endif
