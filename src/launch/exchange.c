/* exchange.c - one of the two protocols. */
#include "launch/exchange.h"

#include "base/memory.h"
#include "launch/pmi1.h"
#include "launch/pmix.h"

#include <stdio.h>

struct ls_exchange {
    ls_pmix *pmix; /* NULL: PMI-1 */
    ls_pmi1 pmi1;
};

ls_status ls_exchange_open(ls_exchange **to, ls_identity *who, double seconds, ls_message *why)
{
    *to = NULL;
    bool by_pmi1 = who->bootstrap == LS_BOOTSTRAP_PMI1 && who->pmi_fd >= 0;
    if (!by_pmi1 && who->bootstrap != LS_BOOTSTRAP_PMIX) {
        snprintf(why->text, sizeof why->text, "%s offers neither PMI-1 (PMI_FD) nor PMIx", who->source);
        return LS_ERR_UNSUPPORTED;
    }
    ls_exchange *exchange = ls_sys_alloc(sizeof *exchange);
    if (!exchange) {
        snprintf(why->text, sizeof why->text, "out of memory");
        return LS_ERR_MEMORY;
    }
    ls_status status = by_pmi1 ? ls_pmi1_open(&exchange->pmi1, who->pmi_fd, who->rank, who->world, seconds, why)
                               : ls_pmix_open(&exchange->pmix, &who->rank, &who->world, why);
    if (status) ls_sys_free(exchange);
    else *to = exchange;
    return status;
}

ls_status ls_exchange_all_gather(ls_exchange *exchange, const void *mine, size_t size, void *all, double seconds,
                                 ls_message *why)
{
    return exchange->pmix ? ls_pmix_all_gather(exchange->pmix, mine, size, all, seconds, why)
                          : ls_pmi1_all_gather(&exchange->pmi1, mine, size, all, seconds, why);
}

void ls_exchange_close(ls_exchange *exchange)
{
    if (!exchange) return;
    if (exchange->pmix) ls_pmix_close(exchange->pmix);
    else ls_pmi1_close(&exchange->pmi1);
    ls_sys_free(exchange);
}
