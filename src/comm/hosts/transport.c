/* transport.c - load a transport and check its version. */
#include "comm/hosts/transport.h"

#include <stdio.h>
#include <string.h>

#include "base/library.h"

const ls_transport *ls_transport_load(const char *name, ls_message *why)
{
    char file[160];
    snprintf(file, sizeof file, "%s%.120s", strchr(name, '/') ? "" : "comm-", name);
    void *library = ls_library_open("transport", strchr(name, '/') ? name : file, why);
    if (!library) return NULL;
    ls_transport_entry *entry = (ls_transport_entry *)ls_library_function(library, "ls_transport_v1");
    const ls_transport *transport = entry ? entry() : NULL;
    if (!transport)
        ls_message_set(why, "transport \"%.100s\" %s", name,
                       entry ? "is unavailable on this machine" : "has no function ls_transport_v1");
    else if (transport->abi != LS_TRANSPORT_ABI || transport->size < sizeof *transport) {
        ls_message_set(why,
                       "transport \"%.100s\" has interface %u and a table of %u bytes, this library has %u and %zu",
                       name, transport->abi, transport->size, LS_TRANSPORT_ABI, sizeof *transport);
        transport = NULL;
    }
    return transport;
}
