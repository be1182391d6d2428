/* values.c - make parameters and buffers equal in all processes: before training, and after some ended earlier. */
#include <string.h>

#include "base/memory.h"
#include "parallel/inside.h"

static size_t bytes_of(const ls_tensor *t)
{
    return (size_t)ls_view_numel(&t->view) * ls_dtype_size(t->view.dtype);
}

/* Does the host memory hold these bytes already? Then it is not written, so that it stays shared (copy-on-write) with
 * the process that launched this one. */
static bool holds(const ls_tensor *t, const char *bytes)
{
    return ls_device_is_host(t->storage->device) && ls_view_contiguous(&t->view) && bytes_of(t) &&
           memcmp(t->view.data, bytes, bytes_of(t)) == 0;
}

/* Through one buffer, so that many small tensors cost one call. */
static bool send_packed(ls_reducer *p, ls_tensor *const *tensors, int count, char *packed, size_t bytes, int from,
                        const char *site)
{
    ls_comm *comm = ls_reducer_comm(p);
    ls_message why = {{0}};
    char *at = packed;
    for (int i = 0; comm->rank == from && i < count; at += bytes_of(tensors[i++]))
        if (!ls_read(tensors[i], at, bytes_of(tensors[i]))) return false;
    if (!ls_reducer_check(p, ls_comm_broadcast(comm, packed, bytes, from, site, &why), &why, site)) return false;
    at = packed;
    for (int i = 0; comm->rank != from && i < count; at += bytes_of(tensors[i++]))
        if (!holds(tensors[i], at) && !ls_write(tensors[i], at, bytes_of(tensors[i]))) return false;
    return true;
}

bool ls_reducer_send(ls_reducer *p, ls_tensor *const *tensors, int count, int from, const char *site)
{
    enum { PIECE = 16 << 20 };
    for (int first = 0, end; first < count; first = end) {
        size_t bytes = 0;
        for (end = first; end < count && (end == first || bytes + bytes_of(tensors[end]) <= PIECE); end++)
            bytes += bytes_of(tensors[end]);
        char *packed = ls_sys_alloc(bytes + 1);
        if (!packed) return ls_fail(&p->run->errors, LS_ERR_MEMORY, "%s: no memory for %zu bytes", site, bytes), false;
        bool ok = send_packed(p, tensors + first, end - first, packed, bytes, from, site);
        ls_sys_free(packed);
        if (!ok) return false;
    }
    return true;
}

bool ls_reducer_send_all(ls_reducer *p)
{
    for (int i = 0; i < p->slot_count; i++)
        if (!ls_reducer_send(p, &p->slots[i]->tensor, 1, p->source, "ls_join_uneven_inputs")) return false;
    for (int i = 0; i < p->buffer_count; i++) /* counters of processes that ended earlier */
        if (p->buffers[i]->storage->device != p->device &&
            !ls_reducer_send(p, &p->buffers[i], 1, p->source, "ls_join_uneven_inputs"))
            return false;
    return ls_buffers_start(p) && ls_buffers_wait(p);
}
