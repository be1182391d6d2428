/* self.c - the communicator of a single process: results are copies of its own data. */
#include "comm/comm.h"

#include <string.h>

#include "base/memory.h"

typedef struct piece {
    struct piece *next;
    void *memory;
    size_t bytes;
} piece;

typedef struct alone {
    ls_comm comm;
    piece *pieces; /* memory handed out by share */
} alone;

static ls_status run(ls_comm *comm, const ls_comm_call *call, ls_message *why)
{
    (void)comm, (void)why;
    size_t bytes = (size_t)call->count * ls_dtype_size(call->dtype);
    if (call->kind == LS_COMM_ALL_TO_ALL && call->counts) bytes = (size_t)call->counts[0] * ls_dtype_size(call->dtype);
    if (call->in && call->out && call->in != call->out && bytes) memmove(call->out, call->in, bytes);
    return LS_OK;
}

static const ls_comm_table table;

static ls_comm *split(ls_comm *comm, int colour, int key, ls_message *why)
{
    (void)comm, (void)colour, (void)key;
    alone *another = ls_sys_alloc(sizeof *another);
    if (!another) return ls_message_set(why, "no memory for a communicator"), NULL;
    another->comm = (ls_comm){.table = &table, .rank = 0, .size = 1};
    return &another->comm;
}

static void *share(ls_comm *comm, size_t bytes, ls_message *why)
{
    alone *self = (alone *)comm;
    piece *p = comm == ls_comm_self() ? NULL : ls_sys_alloc(sizeof *p);
    void *memory = p ? ls_sys_map(bytes ? bytes : 1) : NULL;
    if (!memory) {
        ls_message_set(why, "no memory for %zu bytes", bytes);
        ls_sys_free(p);
        return NULL;
    }
    *p = (piece){self->pieces, memory, bytes ? bytes : 1};
    self->pieces = p;
    return memory;
}

static void ignore(ls_comm *comm, const char *reason)
{
    (void)comm, (void)reason;
}

static void do_nothing(ls_comm *comm)
{
    (void)comm;
}

static void close_self(ls_comm *comm)
{
    alone *self = (alone *)comm;
    if (comm == ls_comm_self()) return;
    for (piece *p = self->pieces, *next; p; p = next) {
        next = p->next;
        ls_sys_unmap(p->memory, p->bytes);
        ls_sys_free(p);
    }
    ls_sys_free(self);
}

static const ls_comm_table table = {"self", run, split, share, ignore, do_nothing, do_nothing, close_self, NULL};

ls_comm *ls_comm_self(void)
{
    static ls_comm self = {.table = &table, .rank = 0, .size = 1};
    return &self;
}
