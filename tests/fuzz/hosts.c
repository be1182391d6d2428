/* hosts.c - lists of hosts as schedulers write them; the first byte says which kind. */
#include "launch/hosts.h"

#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size < 1) return 0;
    char *text = fuzz_text(bytes + 1, size - 1);
    ls_host_list hosts = {0};
    ls_message why;
    switch (bytes[0] % 3) {
    case 0: ls_host_list_expand(text, &hosts, &why); break;
    case 1: ls_host_list_parse(text, &hosts, &why); break;
    default: ls_host_list_tasks(text, bytes[0] / 3);
    }
    for (int i = 0; i < hosts.count; i++) FUZZ_CHECK(memchr(hosts.host[i].name, 0, sizeof hosts.host[i].name));
    ls_host_list_free(&hosts);
    free(text);
    return 0;
}
