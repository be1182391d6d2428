/* pictures.h - running operators on pictures [N,C,H,W] in tests. */
#ifndef LOCKSTEP_TESTS_DEVICE_PICTURES_H
#define LOCKSTEP_TESTS_DEVICE_PICTURES_H

#include "operands.h"

static inline int64_t pixel(const operand *x, int64_t plane, int64_t h, int64_t w)
{
    return (plane * x->view.dim[2] + h) * x->view.dim[3] + w;
}

static inline void run_op(ls_opcode op, ls_attrs attrs, const operand *a, const operand *b, operand *y, operand *z)
{
    ls_call call = {.op = op, .n_in = b ? 2 : 1, .n_out = z ? 2 : 1, .attrs = attrs};
    call.in[0] = &a->view;
    call.in[1] = b ? &b->view : NULL;
    call.out[0] = &y->view;
    call.out[1] = z ? &z->view : NULL;
    run(&call);
}

/* got[i] is want[i] in the type of got. Frees want. */
static inline void check_picture(const operand *got, double *want)
{
    for (int64_t i = 0; i < numel(&got->view); i++) CHECK_NEAR(get(got, i), want[i], tolerance(got->view.dtype));
    free(want);
}

static inline double *zeros(const operand *x)
{
    return calloc((size_t)numel(&x->view) + 1, sizeof(double));
}

#endif
