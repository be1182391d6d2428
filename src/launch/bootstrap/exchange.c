/* exchange.c - select the way of exchanging data: store, PMI or PMIx. */
#include "launch/bootstrap/exchange.h"

#include "base/config.h"
#include "base/memory.h"
#include "launch/bootstrap/pmi.h"
#include "launch/bootstrap/pmix.h"
#include "launch/bootstrap/store.h"

#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

struct ls_exchange {
    ls_bootstrap by;
    ls_store *store;
    ls_pmix *pmix;
    ls_pmi pmi;
    int rank, world;
    pid_t owner; /* the process that opened it, not a fork of it */
};

/* The connection to a process manager, once opened. */
static ls_exchange *managed;

static void end_managed(void)
{
    if (!managed || managed->owner != getpid()) return;
    if (managed->by == LS_BOOTSTRAP_PMIX) ls_pmix_close(managed->pmix);
    else ls_pmi_close(&managed->pmi);
    ls_sys_free(managed);
    managed = NULL;
}

static ls_status open_store(ls_store **store, const ls_identity *who, double seconds, ls_message *why)
{
    const char *token = ls_config_text(LS_SETTING_JOB_TOKEN);
    ls_store_opts opts = {.host = who->master_addr,
                          .port = who->master_port,
                          .rank = who->rank,
                          .world = who->world,
                          .token = *token ? token : who->job,
                          .attempt = who->attempt,
                          .self = ls_process_self()};
    return ls_store_open(store, &opts, seconds, why);
}

static ls_status open_by(ls_exchange *exchange, ls_identity *who, double seconds, ls_message *why)
{
    switch (exchange->by) {
    case LS_BOOTSTRAP_STORE: return open_store(&exchange->store, who, seconds, why);
    case LS_BOOTSTRAP_PMIX: return ls_pmix_open(&exchange->pmix, &who->rank, &who->world, why);
    case LS_BOOTSTRAP_PMI1:
    case LS_BOOTSTRAP_PMI2:
        return ls_pmi_open(&exchange->pmi, exchange->by == LS_BOOTSTRAP_PMI1 ? &ls_pmi_1 : &ls_pmi_2, who->pmi_fd,
                           who->rank, who->world, seconds, why);
    case LS_BOOTSTRAP_ALONE: break;
    }
    return ls_explain(why, LS_ERR_UNSUPPORTED, "%s started one process: there are no others to find", who->source);
}

ls_status ls_exchange_open(ls_exchange **to, ls_identity *who, double seconds, ls_message *why)
{
    *to = NULL;
    if (managed && managed->owner == getpid() && managed->by == who->bootstrap) {
        who->rank = managed->rank;
        who->world = managed->world;
        *to = managed;
        return LS_OK;
    }
    ls_exchange *exchange = ls_sys_alloc(sizeof *exchange);
    if (!exchange) return ls_explain(why, LS_ERR_MEMORY, "out of memory");
    exchange->by = who->bootstrap;
    ls_status status = open_by(exchange, who, seconds, why);
    if (status) {
        ls_sys_free(exchange);
        return status;
    }
    exchange->rank = who->rank;
    exchange->world = who->world;
    exchange->owner = getpid();
    *to = exchange;
    if (exchange->by == LS_BOOTSTRAP_STORE) return LS_OK;
    managed = exchange;
    atexit(end_managed);
    return LS_OK;
}

ls_status ls_exchange_all_gather(ls_exchange *exchange, const void *mine, size_t size, void *all, double seconds,
                                 ls_message *why)
{
    switch (exchange->by) {
    case LS_BOOTSTRAP_STORE: return ls_store_all_gather(exchange->store, mine, size, all, seconds, why);
    case LS_BOOTSTRAP_PMIX: return ls_pmix_all_gather(exchange->pmix, mine, size, all, seconds, why);
    default: return ls_pmi_all_gather(&exchange->pmi, mine, size, all, seconds, why);
    }
}

bool ls_exchange_can_watch(const ls_exchange *exchange)
{
    return exchange && exchange->by == LS_BOOTSTRAP_STORE && exchange->rank == 0;
}

void ls_exchange_watch(ls_exchange *exchange, ls_claim_fn *claimed, void *user)
{
    ls_store_watch(exchange->store, claimed, user);
}

void ls_exchange_close(ls_exchange *exchange)
{
    if (!exchange || exchange == managed) return;
    ls_store_close(exchange->store);
    ls_sys_free(exchange);
}
