/* buffers.c - running statistics and other buffers are sent once per pass, all together, while gradients are computed.
 *
 * The forward pass has set them, so they can be sent before backward begins. The device packs them into one piece of
 * memory: however many there are, one call sends them. Counters kept in host memory beside a device are not sent: every
 * process counts the same passes. */
#include "parallel/inside.h"

enum { LINE = 64 }; /* each starts on a cache line of the packed memory */

static size_t room_of(const ls_reducer *p, const ls_tensor *t)
{
    if (t->storage->device != p->device) return 0;
    size_t bytes = (size_t)ls_view_numel(&t->view) * ls_dtype_size(t->view.dtype);
    return (bytes + LINE - 1) / LINE * LINE;
}

void ls_buffers_unpack(ls_reducer *p)
{
    ls_release(p->packed);
    p->packed = NULL;
}

static bool make_room(ls_reducer *p)
{
    int64_t bytes = 0;
    if (p->packed) return true;
    for (int i = 0; i < p->buffer_count; i++) bytes += (int64_t)room_of(p, p->buffers[i]);
    ls_mark mark = ls_scope_begin(p->run);
    ls_tensor *t = ls_tensor_new(p->run, p->device, LS_U8, LS_SHAPE(bytes));
    if (ls_is_valid(t)) p->packed = ls_alias_owned(t);
    ls_scope_end(p->run, mark, NULL);
    return p->packed != NULL;
}

/* Copy every buffer to its place in the packed memory, or back. */
static bool copy_all(ls_reducer *p, bool to_packed)
{
    char *at = p->packed->view.data;
    for (int i = 0; i < p->buffer_count; at += room_of(p, p->buffers[i++])) {
        ls_tensor *t = p->buffers[i];
        if (t->storage->device != p->device) continue;
        ls_operand place = {.data = at, .dtype = t->view.dtype};
        ls_view_set_contiguous(&place, ls_view_shape(&t->view));
        ls_call call = {.op = LS_OP_copy, .n_in = 1, .n_out = 1};
        call.in[0] = to_packed ? &t->view : &place;
        call.out[0] = to_packed ? &place : &t->view;
        if (!ls_submit(p->run, p->device, &call)) return false;
        if (!to_packed) ls_written(t);
    }
    return true;
}

static ls_status broadcast(ls_comm *comm, ls_comm_request *request, ls_message *why)
{
    const ls_reducer *p = request->user;
    ls_comm_call call = {.kind = LS_COMM_BROADCAST,
                         .dtype = LS_U8,
                         .count = ls_view_numel(&p->packed->view),
                         .out = p->packed->view.data,
                         .peer = p->source,
                         .site = "buffers of modules"};
    return ls_comm_run_on(comm, p->device, &call, why);
}

/* Does this process pack buffers, or unpack them? */
static bool takes_part(ls_reducer *p, bool packs)
{
    return (ls_reducer_comm(p)->rank == p->source) == packs || ls_device_records(p->device);
}

bool ls_buffers_start(ls_reducer *p)
{
    if (!p->buffer_count) return true;
    if (!make_room(p) || (takes_part(p, true) && !copy_all(p, true))) return false;
    p->sending = (ls_comm_request){.work = broadcast, .user = p};
    ls_comm_start(p->queue, &p->sending);
    return true;
}

bool ls_buffers_wait(ls_reducer *p)
{
    ls_message why = {{0}};
    if (!p->sending.work) return true;
    bool ok = ls_reducer_check(p, ls_comm_wait(p->queue, &p->sending, &why), &why, "ls_backward");
    p->sending.work = NULL;
    return ok && (!takes_part(p, false) || copy_all(p, false));
}
