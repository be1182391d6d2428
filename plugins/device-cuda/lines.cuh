/* lines.cuh - operands seen as lines along one dimension, for operators that work along it. */
#ifndef LOCKSTEP_CUDA_LINES_CUH
#define LOCKSTEP_CUDA_LINES_CUH

#include "number.cuh"
#include "walk.cuh"

/* Lines of several operands that are walked together: where each begins, and how far apart its elements are. */
template <int operands> struct lines {
    cuda_walk begins;
    int64_t length[operands], step[operands];
};

/* Lines along `dim` of operands whose other dimensions are alike; an operand of no dimensions is one line of one
 * element. Where one of them is NULL its offsets are 0. */
template <int operands> static lines<operands> lines_along(const ls_operand *const (&x)[operands], int dim)
{
    lines<operands> l = {};
    l.begins = cuda_walk_begin();
    for (int d = 0; d < x[0]->ndim; d++) {
        int64_t stride[operands];
        for (int i = 0; i < operands; i++) stride[i] = x[i] ? x[i]->stride[d] : 0;
        if (d != dim) walk_add(&l.begins, x[0]->dim[d], stride);
    }
    for (int i = 0; i < operands; i++) {
        bool scalar = !x[i] || x[i]->ndim == 0;
        l.length[i] = scalar ? 1 : x[i]->dim[dim];
        l.step[i] = scalar ? 0 : x[i]->stride[dim];
    }
    return l;
}

#endif
