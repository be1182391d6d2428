/* layout.c - operands in the memory order and number type that is wanted. */
#include "layout.h"

#include <stdlib.h>

ls_operand cuda_ordered(void *data, ls_dtype dtype, cuda_order order, int ndim, const int64_t *dim)
{
    ls_operand x = cuda_dense(data, dtype, ndim, dim);
    if (order == CUDA_ROW_MAJOR || ndim < 2) return x;
    int64_t stride = dim[1];
    x.stride[1] = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        if (i == 1) continue;
        x.stride[i] = stride;
        stride *= dim[i];
    }
    return x;
}

bool cuda_has_order(const ls_operand *x, cuda_order order)
{
    ls_operand wanted = cuda_ordered(x->data, x->dtype, order, x->ndim, x->dim);
    for (int i = 0; i < x->ndim; i++)
        if (x->dim[i] != 1 && x->stride[i] != wanted.stride[i]) return false;
    return true;
}

/* The half copy that the optimiser wrote, where it is of this type and still good. */
static ls_operand half_or_self(const ls_operand *x, ls_dtype dtype)
{
    const ls_derived *derived = x->derived;
    ls_operand view = *x;
    if (derived && derived->half && derived->half_dtype == dtype && derived->half_version == derived->version) {
        view.data = derived->half;
        view.dtype = dtype;
    }
    return view;
}

/* ---- weights that do not change ---- */

/* A frozen weight is never written, so no optimiser keeps a half copy of it. The device does, once it has been used a
 * few times without a change; one that is trained gets there only if its steps are very long. */
enum { UNCHANGED_USES = 8 };

typedef struct kept {
    uint64_t version;
    int64_t uses; /* of this version */
    int device;
    ls_operand view; /* data NULL: not kept yet */
} kept;

static void kept_release(void *form)
{
    kept *k = form;
    if (k->view.data && cudaSetDevice(k->device) == cudaSuccess) cudaFree(k->view.data);
    free(k);
}

/* What is kept of this weight; NULL: nothing is to be. */
static kept *kept_of(const cuda_device *d, cudaStream_t stream, ls_derived *derived, ls_dtype dtype)
{
    if (!derived) return NULL;
    kept *k = derived->form;
    if (!k) {
        k = calloc(1, sizeof *k);
        if (!k) return NULL;
        k->device = d->index;
        derived->form = k;
        derived->release = kept_release;
    }
    if (k->version != derived->version || (k->view.data && k->view.dtype != dtype)) {
        if (k->view.data) cudaFreeAsync(k->view.data, stream);
        k->view.data = NULL;
        k->version = derived->version;
        k->uses = 0;
    }
    return ++k->uses < UNCHANGED_USES ? NULL : k;
}

/* ---- forms ---- */

ls_status cuda_form_in(cuda_device *d, cudaStream_t stream, const ls_operand *x, ls_dtype dtype, cuda_order order,
                       cuda_form *form, ls_message *why)
{
    ls_operand from = x->dtype == dtype ? *x : half_or_self(x, dtype);
    form->view = from;
    if (from.dtype == dtype && cuda_has_order(&from, order)) return LS_OK;
    size_t bytes = (size_t)cuda_numel(x) * d->host->dtype_size(dtype);
    kept *k = kept_of(d, stream, x->derived, dtype);
    if (k && k->view.data) {
        form->view = k->view;
        return LS_OK;
    }
    void *memory = NULL;
    if (k && cudaMallocAsync(&memory, bytes, stream) == cudaSuccess) {
        k->view = cuda_ordered(memory, dtype, order, x->ndim, x->dim);
        form->view = k->view;
    } else {
        CUDA_TRY(cuda_take(d, bytes, &form->space, why));
        form->view = cuda_ordered(form->space.address, dtype, order, x->ndim, x->dim);
    }
    return cuda_convert(d, stream, &from, &form->view, why);
}

ls_status cuda_form_apart(cuda_device *d, const ls_operand *y, ls_dtype dtype, cuda_order order, cuda_form *form,
                          ls_message *why)
{
    CUDA_TRY(cuda_take(d, (size_t)cuda_numel(y) * d->host->dtype_size(dtype), &form->space, why));
    form->view = cuda_ordered(form->space.address, dtype, order, y->ndim, y->dim);
    return LS_OK;
}

ls_status cuda_form_out(cuda_device *d, const ls_operand *y, ls_dtype dtype, cuda_order order, cuda_form *form,
                        ls_message *why)
{
    form->view = *y;
    bool good = y->dtype == dtype && cuda_has_order(y, order);
    return good ? LS_OK : cuda_form_apart(d, y, dtype, order, form, why);
}

ls_status cuda_form_store(cuda_device *d, cudaStream_t stream, const cuda_form *form, const ls_operand *y,
                          ls_message *why)
{
    return form->view.data == y->data ? LS_OK : cuda_convert(d, stream, &form->view, y, why);
}

void cuda_form_end(cuda_device *d, cuda_form *form)
{
    cuda_give(d, form->space);
    form->space = (ls_workspace){0};
}
