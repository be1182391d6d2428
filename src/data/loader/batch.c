/* batch.c - access to a batch: its tensors by name. */
#include <string.h>

#include "base/nearest.h"
#include "data/loader/loader.h"

static ls_tensor *tensor_called(const ls_loader *loader, const char *name, int otherwise)
{
    for (int i = 0; i < loader->set->field_count; i++)
        if (strcmp(loader->fields[i].name, name) == 0) return loader->tensors[i];
    return otherwise < loader->set->field_count ? loader->tensors[otherwise] : NULL;
}

void ls_batch_name_tensors(ls_batch *batch)
{
    batch->image = tensor_called(batch->loader, "image", 0);
    batch->label = tensor_called(batch->loader, "label", 1);
}

static int field_called(const ls_batch *batch, const char *name, const char *who)
{
    const ls_loader *loader = batch ? batch->loader : NULL;
    if (!name) name = "";
    if (!loader || !batch->count) {
        ls_run *run = loader ? loader->object.run : ls_run_of(NULL);
        ls_fail(&run->errors, LS_ERR_STATE, "%s: \"%s\" of a batch that was not filled by ls_next()", who, name);
        return -1;
    }
    for (int i = 0; i < batch->count; i++)
        if (strcmp(loader->fields[i].name, name) == 0) return i;
    ls_nearest nearest = ls_nearest_to(name, strlen(name));
    for (int i = 0; i < batch->count; i++) ls_nearest_try(&nearest, loader->fields[i].name);
    char names[300];
    ls_fail(&loader->object.run->errors, LS_ERR_VALUE, "%s: the %s has no field \"%s\"; it has %s", who,
            loader->set->kind, name, ls_nearest_names(&nearest, names, sizeof names));
    return -1;
}

ls_tensor *ls_batch_field(const ls_batch *batch, const char *name)
{
    int i = field_called(batch, name, "ls_batch_field");
    if (i >= 0) return batch->tensor[i];
    return &(batch && batch->loader ? batch->loader->object.run : ls_run_of(NULL))->poison;
}

void ls_batch_set_field(ls_batch *batch, const char *name, ls_tensor *tensor)
{
    int i = field_called(batch, name, "ls_batch_set_field");
    if (i < 0) return;
    batch->loader->tensors[i] = tensor;
    ls_batch_name_tensors(batch);
}

ls_shape ls_batch_sample_shape(const ls_batch *batch, const char *name, int64_t sample)
{
    const ls_loader *loader = batch ? batch->loader : NULL;
    int i = field_called(batch, name, "ls_batch_sample_shape");
    if (i >= 0 && !loader->has_batch && ls_loader_dispatches(loader) && sample >= 0 && sample < batch->size) {
        ls_shape padded = ls_view_shape(&loader->tensors[i]->view), row = {.ndim = padded.ndim - 1};
        for (int d = 0; d < row.ndim; d++) row.dim[d] = padded.dim[d + 1];
        return row; /* a rank that did not read it only knows its size in the batch */
    }
    if (i < 0 || !loader->has_batch || sample < 0 || sample >= batch->size) return ls_shape_n(NULL, 0);
    const ls_batch_slot *slot = &loader->prefetcher.slots[loader->prefetcher.begin % loader->prefetcher.slot_count];
    return loader->prefetcher.reading.bytes[i] ? ls_field_shape(&loader->fields[i]) : slot->cells[i][sample].shape;
}
