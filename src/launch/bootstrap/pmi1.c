/* pmi1.c - the commands of PMI-1: "cmd=put kvsname=K key=k value=v", one per line. */
#include "launch/bootstrap/pmi.h"

#include <stdlib.h>
#include <string.h>

static ls_status hello(ls_pmi *pmi, int64_t end, ls_message *why)
{
    char value[sizeof pmi->text];
    ls_status status =
        ls_pmi_ask(pmi, "response_to_init", NULL, NULL, end, why, "cmd=init pmi_version=1 pmi_subversion=1\n");
    if (!status) status = ls_pmi_ask(pmi, "maxes", "vallen_max", value, end, why, "cmd=get_maxes\n");
    if (!status) pmi->value_most = atoi(value);
    if (!status) status = ls_pmi_ask(pmi, "my_kvsname", "kvsname", value, end, why, "cmd=get_my_kvsname\n");
    if (status) return status;
    if (pmi->value_most < 8 || strlen(value) >= sizeof pmi->space)
        return ls_explain(why, LS_ERR_PEER, "PMI: unusable limits: values of %d characters, a name of %zu",
                          pmi->value_most, strlen(value));
    strcpy(pmi->space, value);
    return LS_OK;
}

static ls_status put(ls_pmi *pmi, const char *key, const char *value, int64_t end, ls_message *why)
{
    return ls_pmi_ask(pmi, "put_result", NULL, NULL, end, why, "cmd=put kvsname=%s key=%s value=%s\n", pmi->space, key,
                      value);
}

static ls_status fence(ls_pmi *pmi, int64_t end, ls_message *why)
{
    return ls_pmi_ask(pmi, "barrier_out", NULL, NULL, end, why, "cmd=barrier_in\n");
}

static ls_status get(ls_pmi *pmi, const char *key, char *value, int64_t end, ls_message *why)
{
    return ls_pmi_ask(pmi, "get_result", "value", value, end, why, "cmd=get kvsname=%s key=%s\n", pmi->space, key);
}

static ls_status goodbye(ls_pmi *pmi, int64_t end, ls_message *why)
{
    return ls_pmi_ask(pmi, "finalize_ack", NULL, NULL, end, why, "cmd=finalize\n");
}

const ls_pmi_dialect ls_pmi_1 = {hello, put, fence, get, goodbye};
