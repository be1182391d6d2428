/* not_finite.h - search a tensor for NaN and infinity, in runs with .check_finite. */
#ifndef LOCKSTEP_TENSOR_NOT_FINITE_H
#define LOCKSTEP_TENSOR_NOT_FINITE_H

#include <lockstep/tensor.h>

/* The first element of a tensor that is not finite. */
typedef struct ls_not_finite {
    double value;
    bool is_nan;  /* some element is NaN, perhaps not the first */
    char at[160]; /* "[0,3]" */
} ls_not_finite;
/* False if all are finite, or the type is not floating. Waits for the device. */
bool ls_find_not_finite(ls_tensor *t, ls_not_finite *found);

#endif
