/* comm.c - collective calls: their names, and the checks made before any rank communicates. */
#include "comm/comm.h"

#include "base/spans.h"

const char *ls_comm_kind_name(ls_comm_kind kind)
{
    static const char *const names[] = {
#define LS_COMM_KIND(symbol, name) name,
        LS_COMM_KIND_LIST(LS_COMM_KIND)
#undef LS_COMM_KIND
    };
    return (unsigned)kind < LS_COMM_KIND_COUNT ? names[kind] : "?";
}

const char *ls_comm_op_name(ls_reduction op)
{
    static const char *const names[] = {"sum", "mean", "max", "min", "prod"};
    return (unsigned)op < LS_REDUCE_NONE ? names[op] : "?";
}

bool ls_comm_reduces(ls_comm_kind kind)
{
    return kind == LS_COMM_ALL_REDUCE || kind == LS_COMM_REDUCE || kind == LS_COMM_REDUCE_SCATTER;
}

static bool has_peer(ls_comm_kind kind)
{
    return kind == LS_COMM_REDUCE || kind == LS_COMM_BROADCAST || kind == LS_COMM_GATHER || kind == LS_COMM_SCATTER ||
           kind == LS_COMM_SEND || kind == LS_COMM_RECEIVE;
}

/* The first negative count; 0 if there is none. */
static int64_t negative_count(const int64_t *counts, int size)
{
    for (int r = 0; counts && r < size; r++)
        if (counts[r] < 0) return counts[r];
    return 0;
}

static bool has_root(ls_comm_kind kind)
{
    return kind == LS_COMM_REDUCE || kind == LS_COMM_GATHER || kind == LS_COMM_SCATTER;
}

void ls_comm_elements(const ls_comm *comm, const ls_comm_call *call, int64_t *in, int64_t *out)
{
    bool root = !has_root(call->kind) || call->peer == comm->rank;
    int64_t parts = ls_comm_offset(call, comm->size), one = call->count;
    *in = *out = one;
    switch (call->kind) {
    case LS_COMM_BARRIER: *in = *out = 0; break;
    case LS_COMM_REDUCE: *out = root ? one : 0; break;
    case LS_COMM_ALL_GATHER:
    case LS_COMM_GATHER: *out = root ? parts : 0; break;
    case LS_COMM_SCATTER: *in = root ? parts : 0; break;
    case LS_COMM_REDUCE_SCATTER: *in = parts; break;
    case LS_COMM_ALL_TO_ALL:
        *in = parts;
        *out = ls_comm_offset(&(ls_comm_call){.count = one, .counts = call->out_counts}, comm->size);
        break;
    case LS_COMM_BROADCAST:
    case LS_COMM_RECEIVE: *in = 0; break;
    case LS_COMM_SEND: *out = 0; break;
    default: break;
    }
}

ls_status ls_comm_run(ls_comm *comm, const ls_comm_call *call, ls_message *why)
{
    const char *name = ls_comm_kind_name(call->kind);
    if (call->count < 0 || !ls_dtype_size(call->dtype) || (unsigned)call->kind >= LS_COMM_KIND_COUNT ||
        (unsigned)call->op >= LS_REDUCE_NONE)
        return ls_explain(why, LS_ERR_VALUE, "%s: %lld elements of type %s", name, (long long)call->count,
                          ls_dtype_name(call->dtype));
    int64_t wrong = negative_count(call->counts, comm->size);
    if (!wrong) wrong = negative_count(call->out_counts, comm->size);
    if (wrong) return ls_explain(why, LS_ERR_VALUE, "%s: a part has %lld elements", name, (long long)wrong);
    bool to_itself = (call->kind == LS_COMM_SEND || call->kind == LS_COMM_RECEIVE) &&
                     call->peer == comm->rank; /* would wait forever */
    if (has_peer(call->kind) && (call->peer < 0 || call->peer >= comm->size || to_itself))
        return ls_explain(why, LS_ERR_VALUE, "%s: rank %d of %d cannot use rank %d as its peer", name, comm->rank,
                          comm->size, call->peer);
    if (ls_comm_reduces(call->kind) && call->op == LS_REDUCE_MEAN && !ls_dtype_is_float(call->dtype))
        return ls_explain(why, LS_ERR_DTYPE, "%s: the mean of %s needs a floating type", name,
                          ls_dtype_name(call->dtype));
    int64_t began = comm->size > 1 ? ls_spans_clock() : 0;
    ls_status status = comm->table->run(comm, call, why);
    ls_spans_add(LS_SPAN_COLLECTIVE, name, NULL, began);
    return status;
}
