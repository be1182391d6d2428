/* pmi2.c - the commands of PMI-2: "cmd=kvs-put;key=k;value=v;", preceded by the length. */
#include "launch/bootstrap/pmi.h"

#include <stdlib.h>
#include <string.h>

enum { VALUE_MOST = 1024 /* fixed by the protocol, which cannot be asked */ };

/* A PMI-1 line negotiates the version. */
static ls_status hello(ls_pmi *pmi, int64_t end, ls_message *why)
{
    char value[sizeof pmi->text];
    ls_status status =
        ls_pmi_ask(pmi, "response_to_init", NULL, NULL, end, why, "cmd=init pmi_version=2 pmi_subversion=0\n");
    if (status) return status;
    pmi->counted = true;
    pmi->value_most = VALUE_MOST;
    status = ls_pmi_ask(pmi, "fullinit-response", "size", value, end, why,
                        "cmd=fullinit;pmijobid=0;pmirank=%d;threaded=FALSE;", pmi->rank);
    if (!status && atoi(value) != pmi->world)
        status = ls_explain(why, LS_ERR_PEER, "PMI: %.20s processes, but the environment says %d", value, pmi->world);
    return status;
}

static ls_status put(ls_pmi *pmi, const char *key, const char *value, int64_t end, ls_message *why)
{
    return ls_pmi_ask(pmi, "kvs-put-response", NULL, NULL, end, why, "cmd=kvs-put;key=%s;value=%s;", key, value);
}

static ls_status fence(ls_pmi *pmi, int64_t end, ls_message *why)
{
    return ls_pmi_ask(pmi, "kvs-fence-response", NULL, NULL, end, why, "cmd=kvs-fence;");
}

static ls_status get(ls_pmi *pmi, const char *key, char *value, int64_t end, ls_message *why)
{
    return ls_pmi_ask(pmi, "kvs-get-response", "value", value, end, why, "cmd=kvs-get;srcid=-1;key=%s;", key);
}

static ls_status goodbye(ls_pmi *pmi, int64_t end, ls_message *why)
{
    return ls_pmi_ask(pmi, "finalize-response", NULL, NULL, end, why, "cmd=finalize;");
}

const ls_pmi_dialect ls_pmi_2 = {hello, put, fence, get, goodbye};
