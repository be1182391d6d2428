/* numpy.h - what .npy files and pickled arrays have in common. */
#ifndef LOCKSTEP_FORMATS_NUMPY_H
#define LOCKSTEP_FORMATS_NUMPY_H

#include "formats/archive.h"

/* "<f4", "f4", "|b1": LS_ELEMENT_COUNT for what is not read, big-endian numbers among it. */
ls_element ls_numpy_element(const char *text, size_t length);
/* Strides of an array whose first dimension is the closest, of a size that was checked. NULL (and an error)
 * when memory is out. */
const int64_t *ls_fortran_strides(ls_archive *archive, int ndim, const int64_t *dim);

#endif
