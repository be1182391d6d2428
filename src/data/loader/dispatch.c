/* dispatch.c - batches that rank 0 reads for all: it sends every rank its rows and keeps the first. */
#include "base/memory.h"
#include "data/loader/loader.h"
#include "tensor/exchange.h"

/* What other ranks cannot compute: sizes of fields with varying samples, padded to the largest of the round. */
typedef struct announcement {
    int64_t rows; /* of each rank */
    ls_shape shape[LS_MAX_FIELDS];
} announcement;

static size_t bytes_of(const ls_field *field, ls_shape shape)
{
    return (size_t)ls_shape_numel(shape) * ls_dtype_size(field->dtype);
}

/* Rows of a batch are contiguous in memory, whatever the order of dimensions inside. */
static bool send_rows(ls_loader *loader, int i, ls_shape shape)
{
    ls_run *run = loader->object.run;
    ls_tensor **t = &loader->tensors[i];
    const void *all = NULL;
    if (loader->shard.rank == 0) {
        all = (*t)->view.data;
    } else {
        *t = ls_field_tensor(run, &loader->fields[i], shape);
        if (!*t) return false;
        ls_handle_to_scope(run, *t);
    }
    if (!ls_exchange_scatter(run, all, (*t)->view.data, bytes_of(&loader->fields[i], shape), "ls_next")) return false;
    (*t)->view.dim[0] = shape.dim[0];
    return true;
}

static bool send_index(ls_loader *loader, const ls_batch_slot *slot, int64_t rows)
{
    ls_run *run = loader->object.run;
    if (rows > loader->index_room) {
        int64_t *grown = ls_sys_realloc(loader->index, (size_t)rows * sizeof *grown);
        if (!grown) return ls_fail(&run->errors, LS_ERR_MEMORY, "loader: no memory for a batch"), false;
        loader->index = grown;
        loader->index_room = rows;
    }
    return ls_exchange_scatter(run, slot ? slot->index : NULL, loader->index, (size_t)rows * sizeof *loader->index,
                               "ls_next");
}

bool ls_dispatch_deliver(ls_loader *loader, ls_batch_slot *slot, int64_t *rows)
{
    ls_run *run = loader->object.run;
    announcement a = {0};
    if (slot) {
        if (!ls_batch_slot_deliver(run, slot, &loader->prefetcher.reading, loader->tensors)) return false;
        a.rows = slot->count / loader->shard.world;
        for (int i = 0; i < loader->set->field_count; i++) {
            a.shape[i] = ls_view_shape(&loader->tensors[i]->view);
            a.shape[i].dim[0] = a.rows;
        }
    }
    if (!ls_exchange_broadcast(run, &a, sizeof a, 0, "ls_next")) return false;
    *rows = a.rows;
    for (int i = 0; i < loader->set->field_count; i++)
        if (!send_rows(loader, i, a.shape[i])) return false;
    return send_index(loader, slot, a.rows);
}
