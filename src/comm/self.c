/* self.c - the communicator of a process that is alone: what it gathers is its own. */
#include "comm/comm.h"

#include <string.h>

static ls_status run(ls_comm *comm, const ls_comm_call *call, ls_message *why)
{
    (void)comm, (void)why;
    size_t bytes = (size_t)call->count * ls_dtype_size(call->dtype);
    if (call->kind == LS_COMM_ALL_TO_ALL && call->counts) bytes = (size_t)call->counts[0] * ls_dtype_size(call->dtype);
    if (call->in && call->out && call->in != call->out && bytes) memmove(call->out, call->in, bytes);
    return LS_OK;
}

static ls_comm *split(ls_comm *comm, int colour, int key, ls_message *why)
{
    (void)colour, (void)key, (void)why;
    return comm;
}

/* There is nobody to share with, so nobody ever asks. */
static void *share(ls_comm *comm, size_t bytes, ls_message *why)
{
    (void)comm, (void)bytes;
    strcpy(why->text, "a process that is alone shares no memory");
    return NULL;
}

static void ignore(ls_comm *comm, const char *reason)
{
    (void)comm, (void)reason;
}

static void do_nothing(ls_comm *comm)
{
    (void)comm;
}

ls_comm *ls_comm_self(void)
{
    static const ls_comm_table table = {"self", run, split, share, ignore, do_nothing, do_nothing, do_nothing};
    static ls_comm self = {.table = &table, .rank = 0, .size = 1};
    return &self;
}
