/* leader.c - what a host says to the leader of a job: the first byte decides whether it has proved that it belongs. */
#include "launch/supervise/leader.h"

#include <sys/socket.h>

#include "base/json.h"
#include "fuzz/fuzz.h"
#include "launch/control/loop.h"
#include "launch/control/token.h"

static void turn(ls_leader *leader, int loop, int times)
{
    for (int i = 0; i < times; i++) {
        ls_loop_wait(loop, ls_now());
        ls_leader_tick(leader);
    }
}

/* Answer the challenge as a host of the job would. */
static void say_hello(int fd, unsigned choice)
{
    char line[1024], proof[LS_PROOF], hello[1024];
    ssize_t got = recv(fd, line, sizeof line, 0);
    ls_message why;
    ls_json *greeting = got > 0 ? ls_json_read(line, (size_t)got, &why) : NULL;
    const char *challenge = ls_json_text(ls_json_get(greeting, "lockstep"));
    FUZZ_CHECK(challenge);
    ls_token_prove("secret", "host", challenge, proof);
    int length =
        snprintf(hello, sizeof hello,
                 "{\"hello\":1,\"proof\":\"%s\",\"challenge\":\"abc\",\"host\":\"h\",\"rank\":1,\"processes\":2,"
                 "\"generation\":%d,\"attempt\":%d}\n",
                 proof, choice & 8 ? 1000 : 0, choice & 16 ? 1 : 0);
    FUZZ_CHECK(write(fd, hello, (size_t)length) == length);
    ls_json_free(greeting);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size < 1 || size > 60000) return 0;
    setenv("LOCKSTEP_LOG", "error", 0);
    ls_plan plan = {.opts = {.token = "secret",
                             .min_hosts = 1,
                             .max_hosts = 4,
                             .heartbeat = 0.5,
                             .dead_after = 2,
                             .join_timeout = 100,
                             .elastic = bytes[0] & 2,
                             .master_addr = "x",
                             .max_restarts = 1}};
    ls_message why;
    int loop = ls_loop_open(), ends[2];
    ls_leader *leader = ls_leader_open(&plan, loop, 0, &why);
    FUZZ_CHECK(leader && socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    FUZZ_CHECK(ls_leader_adopt(leader, ends[0]));
    if (bytes[0] & 1) {
        turn(leader, loop, 2);
        say_hello(ends[1], bytes[0]);
    }
    FUZZ_CHECK(write(ends[1], bytes + 1, size - 1) == (ssize_t)size - 1);
    turn(leader, loop, 12);
    shutdown(ends[1], SHUT_WR);
    turn(leader, loop, 4);
    ls_leader_close(leader);
    close(ends[1]);
    close(loop);
    return 0;
}
