/* exchange.c - call the communicator, record its failures. */
#include "run/exchange.h"

static bool check(ls_run *run, ls_status status, const ls_message *why, const char *who)
{
    if (status == LS_OK) return true;
    ls_fail(&run->errors, status, "%s: %s", who, why->text);
    return false;
}

bool ls_exchange_all(ls_run *run, const void *mine, void *all, size_t bytes, const char *who)
{
    ls_comm *comm = run->session->comm;
    ls_message why = {{0}};
    return check(run, ls_comm_all_gather(comm, mine, all, bytes, who, &why), &why, who);
}

bool ls_exchange_gather(ls_run *run, const void *mine, void *all, size_t bytes, const char *who)
{
    ls_message why = {{0}};
    ls_comm_call call = {
        .kind = LS_COMM_GATHER, .dtype = LS_U8, .count = (int64_t)bytes, .in = mine, .out = all, .site = who};
    return check(run, ls_comm_run(run->session->comm, &call, &why), &why, who);
}

bool ls_exchange_reduce(ls_run *run, void *data, int64_t count, ls_dtype dtype, ls_comm_op op, const char *who)
{
    ls_comm *comm = run->session->comm;
    ls_message why = {{0}};
    return check(run, ls_comm_all_reduce(comm, data, count, dtype, op, who, &why), &why, who);
}

bool ls_exchange_broadcast(ls_run *run, void *data, size_t bytes, int from, const char *who)
{
    ls_comm *comm = run->session->comm;
    ls_message why = {{0}};
    return check(run, ls_comm_broadcast(comm, data, bytes, from, who, &why), &why, who);
}

bool ls_exchange_barrier(ls_run *run, const char *who)
{
    ls_comm *comm = run->session->comm;
    ls_message why = {{0}};
    return check(run, ls_comm_barrier(comm, who, &why), &why, who);
}

static bool broadcast_of_main(ls_run *run, void *data, size_t bytes, const char *who)
{
    return ls_exchange_broadcast(run, data, bytes, 0, who);
}

static bool scatter_of_main(ls_run *run, const void *all, void *mine, size_t bytes, const char *who)
{
    ls_message why = {{0}};
    ls_comm_call call = {
        .kind = LS_COMM_SCATTER, .dtype = LS_U8, .count = (int64_t)bytes, .in = all, .out = mine, .site = who};
    return check(run, ls_comm_run(run->session->comm, &call, &why), &why, who);
}

const ls_exchange_table ls_exchange_of_main = {broadcast_of_main, scatter_of_main};

bool ls_exchange_any(ls_run *run, bool mine, bool *any, const char *who)
{
    int32_t flag = mine;
    bool ok = ls_exchange_reduce(run, &flag, 1, LS_I32, LS_COMM_MAX, who);
    *any = flag != 0;
    return ok;
}
