/* store.c - what the other side of the store says: to rank 0, or (first bit of the first byte) as rank 0. The second
 * bit lets it prove first that it belongs to the job. */
#include "launch/bootstrap/store_inside.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include "base/json.h"
#include "fuzz/fuzz.h"

#define PATIENCE 0.02 /* seconds that the side under test waits: more than a round trip */

static uint16_t port;
static int listener = -1; /* of the one that says what was chosen, as rank 0 */
static const uint8_t *said;
static size_t said_length;
static bool proves;

static int new_listener(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    FUZZ_CHECK(bind(file, (struct sockaddr *)&address, length) == 0 && listen(file, 8) == 0);
    FUZZ_CHECK(getsockname(file, (struct sockaddr *)&address, &length) == 0);
    port = ntohs(address.sin_port);
    return file;
}

static int connection_to_store(void)
{
    if (listener >= 0) {
        struct pollfd wait = {.fd = listener, .events = POLLIN};
        return poll(&wait, 1, 200) > 0 ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
    }
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    for (int tries = 0; tries < 100; tries++) {
        int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(file, (struct sockaddr *)&address, sizeof address) == 0) return file;
        close(file);
        usleep(100);
    }
    return -1;
}

/* The next message holds a text under that name: prove to have read it, as `role`. */
static bool prove(int fd, const char *name, const char *role, char proof[LS_PROOF])
{
    char line[1024];
    ls_message why;
    ssize_t got = recv(fd, line, sizeof line, 0);
    ls_json *message = got > 0 ? ls_json_read(line, (size_t)got, &why) : NULL;
    const char *challenge = ls_json_text(ls_json_get(message, name));
    if (challenge) ls_token_prove("secret", role, challenge, proof);
    ls_json_free(message);
    return challenge;
}

static void introduce(int fd)
{
    char proof[LS_PROOF], words[1024];
    int length = 0;
    if (listener >= 0) {
        length = snprintf(words, sizeof words, "{\"store\":\"abc\"}\n");
        (void)!send(fd, words, (size_t)length, MSG_NOSIGNAL);
        if (!proves || !prove(fd, "challenge", "rank 0 of attempt 0", proof)) return;
        length = snprintf(words, sizeof words, "{\"welcome\":\"%s\"}\n", proof);
    } else {
        if (!proves || !prove(fd, "store", "process of attempt 0", proof)) return;
        length = snprintf(words, sizeof words,
                          "{\"hello\":%d,\"proof\":\"%s\",\"challenge\":\"abc\",\"host\":\"h\",\"self\":\"1\","
                          "\"pid\":1,\"rank\":1,\"world\":2,\"attempt\":0}\n",
                          LS_STORE_VERSION, proof);
    }
    (void)!send(fd, words, (size_t)length, MSG_NOSIGNAL);
}

static void *other_side(void *unused)
{
    int fd = connection_to_store();
    if (fd < 0) return unused;
    struct timeval moment = {.tv_usec = 200000};
    struct linger at_once = {.l_onoff = 1}; /* else ports are used up within the minute */
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof moment);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    introduce(fd);
    (void)!send(fd, said, said_length, MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR);
    for (char rest[4096]; recv(fd, rest, sizeof rest, 0) > 0;) continue;
    close(fd);
    return unused;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size < 1 || size > 60000) return 0;
    setenv("LOCKSTEP_LOG", "error", 0);
    said = bytes + 1;
    said_length = size - 1;
    proves = bytes[0] & 2;
    int file = new_listener();
    if (bytes[0] & 1) listener = file;
    else close(file); /* the port is free again */
    pthread_t other;
    FUZZ_CHECK(pthread_create(&other, NULL, other_side, NULL) == 0);
    ls_store_opts opts = {
        .host = "127.0.0.1", .port = port, .rank = listener >= 0, .world = 2, .token = "secret", .self = 2};
    ls_store *store;
    ls_message why;
    char mine[8] = {1}, all[2 * sizeof mine];
    if (ls_store_open(&store, &opts, PATIENCE, &why) == LS_OK)
        for (int round = 0; round < 2 && !ls_store_all_gather(store, mine, sizeof mine, all, PATIENCE, &why);) round++;
    ls_store_close(store);
    pthread_join(other, NULL);
    if (listener >= 0) close(listener);
    listener = -1;
    return 0;
}
