/* self.c - the communicator of a process that is alone. */
#include "comm/comm.h"

#include <string.h>

static ls_status all_reduce(ls_comm *comm, void *data, int64_t count, ls_dtype dtype, ls_comm_op op, ls_message *why)
{
    (void)comm, (void)data, (void)count, (void)dtype, (void)op, (void)why;
    return LS_OK;
}

static ls_status all_gather(ls_comm *comm, const void *mine, void *all, size_t bytes, ls_message *why)
{
    (void)comm, (void)why;
    if (bytes) memcpy(all, mine, bytes);
    return LS_OK;
}

static ls_status broadcast(ls_comm *comm, void *data, size_t bytes, int from, ls_message *why)
{
    (void)comm, (void)data, (void)bytes, (void)from, (void)why;
    return LS_OK;
}

static ls_status barrier(ls_comm *comm, ls_message *why)
{
    (void)comm, (void)why;
    return LS_OK;
}

static void close_self(ls_comm *comm)
{
    (void)comm;
}

ls_comm *ls_comm_self(void)
{
    static const ls_comm_table table = {"self", all_reduce, all_gather, broadcast, barrier, close_self};
    static ls_comm self = {.table = &table, .rank = 0, .size = 1};
    return &self;
}
