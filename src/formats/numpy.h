/* numpy.h - shared by .npy files and pickled arrays. */
#ifndef LOCKSTEP_FORMATS_NUMPY_H
#define LOCKSTEP_FORMATS_NUMPY_H

#include "formats/archive.h"

/* "<f4", "f4", "|b1": LS_ELEMENT_COUNT if unsupported, which includes big-endian types. */
ls_element ls_numpy_element(const char *text, size_t length);
/* Strides of an array in Fortran order (first dimension fastest), whose size was checked. NULL (and an error): out of
 * memory. */
const int64_t *ls_fortran_strides(ls_archive *archive, int ndim, const int64_t *dim);

#endif
