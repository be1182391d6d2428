/* wire.c - messages of the control plane, from a stranger's end of a connection. */
#include "launch/control/wire.h"

#include <sys/socket.h>

#include "fuzz/fuzz.h"

static void on_message(ls_wire *wire, const ls_json *message)
{
    (void)wire;
    FUZZ_CHECK(message);
}

static void on_end(ls_wire *wire, const char *why)
{
    FUZZ_CHECK(why);
    ls_wire_close(wire);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size > 60000) return 0;
    static int loop = -1;
    if (loop < 0) loop = ls_loop_open();
    int ends[2];
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    ls_wire wire = {.on_message = on_message, .on_end = on_end};
    FUZZ_CHECK(ls_wire_open(&wire, loop, ends[0], false));
    FUZZ_CHECK(write(ends[1], bytes, size) == (ssize_t)size);
    shutdown(ends[1], SHUT_WR);
    for (int i = 0; i < 40 && ls_wire_is_open(&wire); i++) ls_loop_wait(loop, ls_now());
    ls_wire_close(&wire);
    close(ends[1]);
    return 0;
}
