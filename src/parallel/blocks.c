/* blocks.c - memory in which gradients and parameters are reduced and gathered in place. */
#include "base/memory.h"
#include "parallel/inside.h"

/* Memory owned by the communicator, as a tensor. */
static ls_tensor *in_shared_memory(ls_reducer *p, ls_dtype dtype, int64_t numel)
{
    ls_run *run = p->run;
    ls_message why = {{0}};
    ls_comm *comm = ls_reducer_comm(p);
    void *base = comm->table->share(comm, (size_t)numel * ls_dtype_size(dtype), &why);
    if (!base) return LS_POISON(run, LS_ERR_MEMORY, "ls_prepare: %s", why.text);
    ls_storage *storage = ls_storage_wrap(run, p->device, NULL, NULL);
    if (!storage) return &run->poison;
    ls_tensor *t = ls_tensor_over(run, storage, base, dtype, LS_SHAPE(numel));
    ls_storage_release(run, storage);
    return t;
}

ls_tensor *ls_shared_tensor(ls_reducer *p, ls_dtype dtype, int64_t numel)
{
    if (ls_device_is_host(p->device)) return in_shared_memory(p, dtype, numel);
    ls_tensor *t = ls_tensor_new(p->run, p->device, dtype, LS_SHAPE(numel));
    return ls_is_valid(t) && ls_raw_fill(t, 0) ? t : &p->run->poison;
}

ls_tensor *ls_reducer_block(ls_reducer *p, int64_t numel)
{
    ls_gradient_block *grown = ls_sys_realloc(p->blocks, (size_t)(p->block_count + 1) * sizeof *grown);
    if (!grown) return LS_POISON(p->run, LS_ERR_MEMORY, "no memory for gradients");
    p->blocks = grown;
    ls_tensor *block = ls_shared_tensor(p, LS_F32, numel);
    if (ls_is_valid(block))
        p->blocks[p->block_count++] = (ls_gradient_block){block->view.data, (size_t)numel * sizeof(float)};
    return block;
}

ls_tensor *ls_reducer_parameters(ls_reducer *p, int64_t numel)
{
    return ls_shared_tensor(p, LS_F32, numel);
}
