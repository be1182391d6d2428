/* identity.c - the variables of launchers, one a line. */
#include "launch/bootstrap/identity.h"

#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    enum { MOST = 64 };
    char *text = fuzz_text(bytes, size), *rest = text;
    const char *environment[MOST + 1] = {NULL};
    for (int i = 0; i < MOST && rest;) {
        char *line = strsep(&rest, "\n");
        if (*line) environment[i++] = line;
    }
    ls_identity identity;
    ls_message why;
    if (ls_identity_read(environment, &identity, &why) == LS_OK)
        FUZZ_CHECK(identity.world == -1 || identity.rank < identity.world);
    free(text);
    return 0;
}
