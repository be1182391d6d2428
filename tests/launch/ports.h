/* ports.h - ports for the jobs of a test. */
#ifndef LOCKSTEP_TESTS_PORTS_H
#define LOCKSTEP_TESTS_PORTS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static inline bool port_is_free(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    bool is_free = bind(fd, (struct sockaddr *)&here, sizeof here) == 0;
    close(fd);
    return is_free;
}

/* Reserve a port among test programs, which may look for one at the same time: by a name that only one process can
 * have, for as long as it lives. */
static inline bool port_claim(int port)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int length = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "lockstep test port %d", port);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&name, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) ==
        0)
        return true;
    close(fd);
    return false;
}

/* Two ports in a row that nobody uses, and none that the system gives to outgoing connections. */
static inline int find_port(void)
{
    enum { FIRST = 20000, END = 32768 };
    static int next;
    if (!next) next = FIRST + 2 * ((int)getpid() % ((END - FIRST) / 2));
    for (;;) {
        int port = next;
        next = next + 2 < END ? next + 2 : FIRST;
        if (port_is_free(port) && port_is_free(port + 1) && port_claim(port)) return port;
    }
}

#endif
