/* group.c - collectives between the chips of several processes, as operations of the program that is recorded.
 *
 * All processes compile a program with such an operation for all of their chips together, and each executes its part:
 * the programs must be the same. What was recorded before and between collectives is compared when a collective is
 * recorded, and the whole before it is executed. */
#include "group.h"

#include <stdlib.h>
#include <string.h>

#include "hash.h"

typedef struct group {
    xla_device *device;
    int size;
} group;

static ls_status group_id(void *device, char id[LS_GROUP_ID_BYTES], ls_message *why)
{
    const xla_device *d = device;
    (void)id;
    if (d->joint.count) return LS_OK;
    return xla_refuse(why, LS_ERR_UNSUPPORTED, "XLA's %s library does not connect the processes of a job",
                      d->pjrt->platform);
}

static ls_status group_open(void *device, const char id[LS_GROUP_ID_BYTES], int rank, int size, void **to,
                            ls_message *why)
{
    xla_device *d = device;
    (void)id;
    if (rank != d->joint.rank || size != d->joint.count)
        return xla_refuse(why, LS_ERR_UNSUPPORTED, "XLA connects all %d processes of the job, not %d of them",
                          d->joint.count, size);
    group *g = malloc(sizeof *g);
    if (!g) return xla_refuse(why, LS_ERR_MEMORY, "no memory for a group");
    *g = (group){d, size};
    *to = g;
    return LS_OK;
}

/* ---- calls ---- */

static bool is_float(ls_dtype dtype)
{
    return dtype == LS_F16 || dtype == LS_BF16 || dtype == LS_F32 || dtype == LS_F64;
}

/* The row of ops.def; LS_OP_COUNT: the host makes the call. Parts of different sizes have no row. */
static ls_opcode row_of(const ls_comm_call *call)
{
    bool combines = call->op != LS_REDUCE_NONE && (call->op != LS_REDUCE_MEAN || is_float(call->dtype));
    if (call->counts || call->dtype == LS_BOOL) return LS_OP_COUNT;
    switch (call->kind) {
    case LS_COMM_ALL_REDUCE: return combines ? LS_OP_all_reduce : LS_OP_COUNT;
    case LS_COMM_REDUCE_SCATTER: return combines ? LS_OP_reduce_scatter : LS_OP_COUNT;
    case LS_COMM_ALL_GATHER: return LS_OP_all_gather;
    case LS_COMM_BROADCAST: return LS_OP_broadcast;
    default: return LS_OP_COUNT;
    }
}

static ls_operand row(const void *data, ls_dtype dtype, int64_t count)
{
    return (ls_operand){.data = (void *)(uintptr_t)data, .dtype = dtype, .ndim = 1, .dim = {count}, .stride = {1}};
}

static ls_status group_run(void *handle, ls_stream *stream, const ls_comm_call *call, ls_message *why)
{
    const group *g = handle;
    ls_opcode op = row_of(call);
    (void)stream;
    if (op == LS_OP_COUNT) return LS_ERR_UNSUPPORTED;
    if (call->count == 0) return LS_OK;
    int64_t in_parts = op == LS_OP_reduce_scatter ? g->size : 1, out_parts = op == LS_OP_all_gather ? g->size : 1;
    const void *from = op == LS_OP_broadcast ? call->out : call->in;
    ls_operand in = row(from, call->dtype, call->count * in_parts);
    ls_operand out = row(call->out, call->dtype, call->count * out_parts);
    ls_call recorded = {.op = op, .n_in = 1, .n_out = 1, .in = {&in}, .out = {&out}};
    recorded.attrs.collective.op = (int32_t)call->op;
    recorded.attrs.collective.root = call->peer;
    recorded.attrs.collective.group = g->size;
    pthread_mutex_lock(&g->device->lock);
    ls_status status = xla_record(g->device, &recorded, why);
    if (!status) g->device->recording.is_joint = true;
    pthread_mutex_unlock(&g->device->lock);
    return status;
}

ls_status xla_compare_programs(const xla_device *d, const uint64_t hash[2], ls_message *why)
{
    uint64_t(*all)[2] = malloc((size_t)d->joint.count * sizeof *all);
    if (!all) return xla_refuse(why, LS_ERR_MEMORY, "no memory to compare programs");
    ls_status status = d->peers.all_gather(d->peers.user, hash, all, sizeof *all, why);
    for (int r = 1; r < d->joint.count && !status; r++)
        if (memcmp(all[r], all[0], sizeof *all) != 0)
            status = xla_refuse(
                why, LS_ERR_PEER,
                "ranks 0 and %d computed different things after a collective, but execute one program with it: read "
                "numbers (ls_item, ls_read) and make tensors in all processes",
                r);
    free(all);
    return status;
}

static ls_group_state group_state(void *handle, const ls_comm_call *call)
{
    const group *g = handle;
    xla_recording *r = &g->device->recording;
    uint64_t hash[2];
    if (row_of(call) == LS_OP_COUNT) return (ls_group_state){0};
    pthread_mutex_lock(&g->device->lock);
    if (r->hashed < r->key_bytes) { /* something came since the last collective */
        xla_hash(r->key + r->hashed, r->key_bytes - r->hashed, hash);
        r->hashed = r->key_bytes;
        r->state = xla_hash_blend(r->state ^ hash[0]);
    }
    ls_group_state state = {r->state, r->is_joint};
    pthread_mutex_unlock(&g->device->lock);
    return state;
}

/* What failed is told when a step is waited for. */
static ls_status group_error(void *handle, ls_message *why)
{
    (void)handle, (void)why;
    return LS_OK;
}

/* A program that is being executed cannot be called off: XLA ends it when a process is gone. */
static void group_abort(void *handle)
{
    (void)handle;
}

static void group_close(void *handle)
{
    free(handle);
}

const ls_group_table xla_groups = {.id = group_id,
                                   .open = group_open,
                                   .run = group_run,
                                   .error = group_error,
                                   .abort = group_abort,
                                   .close = group_close,
                                   .state = group_state};
