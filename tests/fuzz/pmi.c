/* pmi.c - the answers of a process manager, in both dialects. */
#include "launch/bootstrap/pmi.h"

#include <sys/socket.h>

#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size < 1 || size > 60000) return 0;
    int ends[2];
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    FUZZ_CHECK(write(ends[1], bytes + 1, size - 1) == (ssize_t)size - 1);
    shutdown(ends[1], SHUT_WR);
    ls_pmi pmi;
    ls_message why;
    char mine[64] = {1}, all[2 * sizeof mine];
    if (ls_pmi_open(&pmi, bytes[0] & 1 ? &ls_pmi_1 : &ls_pmi_2, ends[0], 0, 2, 0.05, &why) == LS_OK)
        ls_pmi_all_gather(&pmi, mine, sizeof mine, all, 0.05, &why);
    close(ends[0]);
    close(ends[1]);
    return 0;
}
