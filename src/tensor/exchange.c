/* exchange.c - call the run's communicator, record its failures. */
#include "tensor/exchange.h"

static bool call(ls_run *run, ls_comm_call c, const char *who)
{
    ls_message why = {{0}};
    c.site = who;
    ls_status status = ls_comm_run(run->comm, &c, &why);
    if (status) ls_fail(&run->errors, status, "%s: %s", who, why.text);
    return status == LS_OK;
}

bool ls_exchange_all(ls_run *run, const void *mine, void *all, size_t bytes, const char *who)
{
    return call(
        run,
        (ls_comm_call){.kind = LS_COMM_ALL_GATHER, .dtype = LS_U8, .count = (int64_t)bytes, .in = mine, .out = all},
        who);
}

bool ls_exchange_scatter(ls_run *run, const void *all, void *mine, size_t bytes, const char *who)
{
    return call(
        run, (ls_comm_call){.kind = LS_COMM_SCATTER, .dtype = LS_U8, .count = (int64_t)bytes, .in = all, .out = mine},
        who);
}

bool ls_exchange_reduce(ls_run *run, void *data, int64_t count, ls_dtype dtype, ls_reduction op, const char *who)
{
    return call(
        run,
        (ls_comm_call){.kind = LS_COMM_ALL_REDUCE, .dtype = dtype, .op = op, .count = count, .in = data, .out = data},
        who);
}

bool ls_exchange_broadcast(ls_run *run, void *data, size_t bytes, int from, const char *who)
{
    return call(
        run,
        (ls_comm_call){.kind = LS_COMM_BROADCAST, .dtype = LS_U8, .count = (int64_t)bytes, .out = data, .peer = from},
        who);
}

bool ls_exchange_barrier(ls_run *run, const char *who)
{
    return call(run, (ls_comm_call){.kind = LS_COMM_BARRIER, .dtype = LS_U8}, who);
}

bool ls_exchange_any(ls_run *run, bool mine, bool *any, const char *who)
{
    int32_t flag = mine;
    bool ok = ls_exchange_reduce(run, &flag, 1, LS_I32, LS_REDUCE_MAX, who);
    *any = flag != 0;
    return ok;
}

void ls_report_failure(ls_run *run)
{
    if (!ls_failed(run) || (run->tolerates_out_of_memory && run->errors.code == LS_ERR_MEMORY)) return;
    run->comm->table->abort(run->comm, run->errors.message);
}
