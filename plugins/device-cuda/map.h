/* map.h - operators that compute each element from the elements at the same position of one or two inputs.
 *
 * A map is a pair of expressions, one for real numbers and one for integers (map.cuh); map.cu chooses the kernel. The
 * number types are arguments of the kernel, not template parameters: all threads take the same branch, and only one
 * kernel per expression and class of numbers has to be compiled. */
#ifndef LOCKSTEP_CUDA_MAP_H
#define LOCKSTEP_CUDA_MAP_H

#include "walk.h"

typedef struct map_args {
    cuda_walk walk; /* result, x, y */
    void *out;
    const void *x, *y;
    int32_t out_dtype, dtype; /* of the result: dtype or bool; of x and y */
    double k0, k1;            /* attributes */
    /* For the dense kernel: number of groups of 8 elements after which y repeats; -1: never, 0: y is one element. */
    int64_t period;
    int64_t run; /* likewise: groups of 8 elements that share one element of y; 0: not so */
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
