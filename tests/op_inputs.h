/* op_inputs.h - the inputs of the cases in op_cases.h: numbers, and their layouts in memory. */
#ifndef LOCKSTEP_TESTS_OP_INPUTS_H
#define LOCKSTEP_TESTS_OP_INPUTS_H

#include "op_cases.h"

typedef enum layout { PLAIN, GAPS, TURNED, REPEATED, LAYOUT_COUNT } layout;

/* The numbers of a case's inputs. */
typedef struct inputs {
    int n;
    double *values[CASE_INPUTS];
} inputs;

inputs inputs_make(const op_case *c, layout how);
void inputs_free(inputs *all);
/* The tensor of an input: row-major, every second element of a wider one, or with its memory in reversed dimension
 * order. REPEATED: one slice of dimension 0 repeated by a stride of 0. */
ls_tensor *make_input(ls_run *run, const case_input *in, ls_dtype dtype, layout how, const double *values);

/* sum of output x fixed weights: a loss that sees every output element differently */
ls_tensor *weighted_sum(ls_run *run, ls_tensor *y);
bool is_differentiable(const op_case *c);

#endif
