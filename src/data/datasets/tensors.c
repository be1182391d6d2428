/* tensors.c - a dataset of tensors in memory: sample i is row i of each. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "data/datasets/dataset.h"

typedef struct table {
    int count;
    struct column {
        const char *rows; /* in host memory, row-major */
        size_t row_bytes;
        ls_tensor *shared; /* owner of the rows; NULL: the dataset owns a copy */
    } columns[LS_MAX_FIELDS];
} table;

static bool get(int64_t index, ls_sample *sample, void *user)
{
    const table *all = user;
    for (int i = 0; i < all->count; i++) {
        const struct column *column = &all->columns[i];
        memcpy(ls_sample_field(sample, i), column->rows + (size_t)index * column->row_bytes, column->row_bytes);
    }
    return true;
}

static void release(void *user)
{
    table *all = user;
    for (int i = 0; i < all->count; i++) {
        if (all->columns[i].shared) ls_release(all->columns[i].shared);
        else ls_sys_free((void *)(uintptr_t)all->columns[i].rows);
    }
    ls_sys_free(all);
}

/* The rows of a tensor in host memory: in place, or a copy. */
static bool column_from(ls_run *run, ls_tensor *t, struct column *column)
{
    int64_t rows = t->view.dim[0];
    size_t bytes = (size_t)ls_view_numel(&t->view) * ls_dtype_size(t->view.dtype);
    column->row_bytes = rows ? bytes / (size_t)rows : 0;
    if (ls_device_is_host(t->storage->device) && ls_view_contiguous(&t->view)) {
        column->shared = ls_alias_owned(t);
        column->rows = t->view.data;
        return column->shared != NULL;
    }
    void *copy = ls_sys_alloc(bytes ? bytes : 1);
    if (!copy) return ls_fail(&run->errors, LS_ERR_MEMORY, "tensor dataset: no memory for %zu bytes", bytes), false;
    column->rows = copy;
    return ls_read(t, copy, bytes);
}

static bool tensors_fit(ls_run *run, ls_tensor *const *tensors, int64_t count)
{
    if (!tensors || count < 1 || count > LS_MAX_FIELDS)
        return ls_fail(&run->errors, LS_ERR_VALUE, "tensor dataset: %lld tensors%s; there must be 1 to %d",
                       (long long)count, tensors ? "" : " of NULL", LS_MAX_FIELDS),
               false;
    for (int i = 0; i < count; i++) {
        char a[LS_TEXT], b[LS_TEXT];
        if (!ls_check_live(run, tensors[i], "ls_tensor_dataset_new")) return false;
        if (tensors[i]->view.ndim == 0)
            return ls_fail(&run->errors, LS_ERR_SHAPE, "tensor dataset: tensor %d is %s, a single number without rows",
                           i, ls_operand_text(&tensors[i]->view, a)),
                   false;
        if (tensors[i]->view.dim[0] == tensors[0]->view.dim[0]) continue;
        ls_fail(&run->errors, LS_ERR_SHAPE, "tensor dataset: %s and %s have different numbers of rows",
                ls_operand_text(&tensors[0]->view, a), ls_operand_text(&tensors[i]->view, b));
        return false;
    }
    return true;
}

ls_dataset *ls_tensor_dataset_new_n(ls_run *run, ls_tensor *const *tensors, int64_t count)
{
    if (ls_failed(run) || !tensors_fit(run, tensors, count)) return NULL;
    ls_field fields[LS_MAX_FIELDS] = {{0}};
    char names[LS_MAX_FIELDS][12];
    for (int i = 0; i < count; i++) {
        const ls_operand *view = &tensors[i]->view;
        snprintf(names[i], sizeof names[i], "%d", i);
        fields[i].name = tensors[i]->name ? tensors[i]->name : names[i];
        fields[i].dtype = view->dtype;
        for (int d = 1; d < view->ndim; d++) fields[i].shape[d - 1] = view->dim[d];
        if (view->dim[0] && ls_view_numel(view) == 0)
            return ls_fail(&run->errors, LS_ERR_SHAPE, "tensor dataset: %s has empty rows",
                           ls_operand_text(view, (char[LS_TEXT]){0})),
                   NULL;
    }
    ls_dataset *set = ls_dataset_begin(run, "tensor dataset", fields);
    table *all = set ? ls_sys_alloc(sizeof *all) : NULL;
    if (set && !all) ls_fail(&run->errors, LS_ERR_MEMORY, "tensor dataset: out of memory");
    if (!all) return ls_object_free(set), NULL;
    set->get = get;
    set->user = all;
    set->release = release;
    set->in_memory = true;
    set->count = tensors[0]->view.dim[0];
    bool ok = true;
    for (int i = 0; ok && i < count; i++, all->count++) ok = column_from(run, tensors[i], &all->columns[i]);
    if (ok) return set;
    ls_object_free(set);
    return NULL;
}
