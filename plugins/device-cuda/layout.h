/* layout.h - operands in the memory order and number type that a kernel or a library wants.
 *
 * An operand that has them is used directly. Other inputs are converted into scratch memory first; other outputs are
 * written to scratch memory and converted afterwards. */
#ifndef LOCKSTEP_CUDA_LAYOUT_H
#define LOCKSTEP_CUDA_LAYOUT_H

#include "cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cuda_order {
    CUDA_ROW_MAJOR,
    CUDA_CHANNELS_LAST, /* dimension 1 is the innermost in memory, the others keep their order */
} cuda_order;

/* Does it have this order, without gaps? Strides of dimensions of size 1 do not count. */
bool cuda_has_order(const ls_operand *x, cuda_order order);
/* An operand of that order over some memory. */
ls_operand cuda_ordered(void *data, ls_dtype dtype, cuda_order order, int ndim, const int64_t *dim);

/* An operand as it is wanted: `view`, over its own memory or over scratch memory. Begin with {0}. */
typedef struct cuda_form {
    ls_operand view;
    ls_workspace space;
} cuda_form;

/* Of an input: with its values. A good half copy of a weight (ls_derived.half) is taken where that is the type. The
 * converted form of a weight that does not change is kept from call to call: always ask for the same order. */
ls_status cuda_form_in(cuda_device *d, cudaStream_t stream, const ls_operand *x, ls_dtype dtype, cuda_order order,
                       cuda_form *form, ls_message *why);
/* Of an output: to be written. */
ls_status cuda_form_out(cuda_device *d, const ls_operand *y, ls_dtype dtype, cuda_order order, cuda_form *form,
                        ls_message *why);
/* The same, but never its own memory: for what is added to the output later. */
ls_status cuda_form_apart(cuda_device *d, const ls_operand *y, ls_dtype dtype, cuda_order order, cuda_form *form,
                          ls_message *why);
/* Convert what was written to scratch memory into the output; nothing to do if it was written there directly. */
ls_status cuda_form_store(cuda_device *d, cudaStream_t stream, const cuda_form *form, const ls_operand *y,
                          ls_message *why);
/* Give back the scratch memory. */
void cuda_form_end(cuda_device *d, cuda_form *form);

#ifdef __cplusplus
}
#endif
#endif
