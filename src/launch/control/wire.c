/* wire.c - lines of JSON over TCP. */
#include "launch/control/wire.h"

#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LONGEST_MESSAGE = 1 << 16, LONGEST_OF_STRANGER = 1 << 12 };

/* ---- Sockets -------------------------------------------------------------------------------------------------- */

static struct addrinfo *resolve(const char *host, int port, ls_message *why)
{
    char service[16];
    snprintf(service, sizeof service, "%d", port);
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
    int status = getaddrinfo(host, service, &hints, &found);
    if (status && why) ls_message_set(why, "%.100s: %s", host, gai_strerror(status));
    return status ? NULL : found;
}

int ls_wire_connect(const char *host, int port, int turn, ls_message *why)
{
    struct addrinfo *found = resolve(host, port, why);
    int fd = -1, count = 0;
    for (struct addrinfo *one = found; one; one = one->ai_next) count++;
    struct addrinfo *address = found;
    for (int i = count ? turn % count : 0; i > 0; i--) address = address->ai_next;
    if (address) fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (address && (fd < 0 || (connect(fd, address->ai_addr, address->ai_addrlen) != 0 && errno != EINPROGRESS))) {
        ls_message_set(why, "%.100s:%d: %s", host, port, strerror(errno));
        if (fd >= 0) close(fd);
        fd = -1;
    }
    if (found) freeaddrinfo(found);
    return fd;
}

int ls_wire_listen(int port, ls_message *why)
{
    int yes = 1, no = 0;
    struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    struct sockaddr_in any4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool six = fd >= 0 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no) == 0;
    if (!six) {
        if (fd >= 0) close(fd);
        fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    }
    const struct sockaddr *address = six ? (struct sockaddr *)&any6 : (struct sockaddr *)&any4;
    if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (fd >= 0 && bind(fd, address, six ? sizeof any6 : sizeof any4) == 0 && listen(fd, 1024) == 0) return fd;
    ls_message_set(why, "port %d: %s", port, strerror(errno));
    int error = errno;
    if (fd >= 0) close(fd);
    errno = error;
    return -1;
}

bool ls_wire_is_here(const char *host)
{
    char own[256] = "";
    gethostname(own, sizeof own - 1);
    if (strcmp(own, host) == 0) return true; /* in a pod this works before its name resolves */
    struct addrinfo *found = resolve(host, 0, NULL);
    bool here = false;
    for (struct addrinfo *one = found; one && !here; one = one->ai_next) {
        int fd = socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        here = fd >= 0 && bind(fd, one->ai_addr, one->ai_addrlen) == 0; /* only an address of this host can be bound */
        if (fd >= 0) close(fd);
    }
    if (found) freeaddrinfo(found);
    return here;
}

/* ---- Messages ------------------------------------------------------------------------------------------------- */

/* Of an error of recv() or send(): the other side is gone. It makes no difference whether it had read everything. */
static bool is_closed(int error)
{
    return error == ECONNRESET || error == EPIPE;
}

static void end(ls_wire *wire, const char *why)
{
    if (!ls_wire_is_open(wire)) return;
    ls_wire_close(wire);
    wire->on_end(wire, why);
}

/* Deliver received whole lines. A handler may part with the wire, or close it. */
static void deliver(ls_wire *wire)
{
    size_t from = 0;
    char *stop;
    while (ls_wire_is_open(wire) && !wire->parting && (stop = memchr(wire->in + from, '\n', wire->in_length - from))) {
        ls_message why;
        ls_json *message = ls_json_read(wire->in + from, (size_t)(stop - wire->in) - from, &why);
        from = (size_t)(stop - wire->in) + 1;
        if (message) wire->on_message(wire, message);
        else end(wire, "it sent an invalid message");
        ls_json_free(message);
    }
    if (!ls_wire_is_open(wire)) return;
    wire->in_length -= from;
    memmove(wire->in, wire->in + from, wire->in_length);
}

static bool make_room(char **buffer, size_t *room, size_t wanted)
{
    if (*room >= wanted) return true;
    size_t size = *room ? *room : 1024;
    while (size < wanted) size *= 2;
    char *larger = ls_sys_realloc(*buffer, size);
    if (!larger) return false;
    *buffer = larger;
    *room = size;
    return true;
}

static void receive(ls_wire *wire)
{
    if (!make_room(&wire->in, &wire->in_room, wire->in_length + 1024)) {
        end(wire, "out of memory");
        return;
    }
    ssize_t got = recv(wire->watch.fd, wire->in + wire->in_length, wire->in_room - wire->in_length, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
        end(wire, got == 0 || is_closed(errno) ? "it closed the connection" : strerror(errno));
        return;
    }
    if (wire->parting) return;
    wire->heard = ls_now();
    wire->in_length += (size_t)got;
    deliver(wire);
    size_t most = wire->trusted ? LONGEST_MESSAGE : LONGEST_OF_STRANGER;
    if (ls_wire_is_open(wire) && wire->in_length > most) end(wire, "a message is too long");
}

static void flush(ls_wire *wire)
{
    size_t done = 0;
    while (done < wire->out_length) {
        ssize_t sent = send(wire->watch.fd, wire->out + done, wire->out_length - done, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && errno == EAGAIN) break;
        if (sent < 0 && !is_closed(errno)) {
            end(wire, strerror(errno));
            return;
        }
        if (sent < 0) done = wire->out_length; /* nobody hears it, but the last words from there are still to be read */
        else done += (size_t)sent;
    }
    wire->out_length -= done;
    if (wire->out_length) memmove(wire->out, wire->out + done, wire->out_length);
    else if (wire->parting) shutdown(wire->watch.fd, SHUT_WR);
    ls_loop_watch(wire->loop, &wire->watch, wire->out_length ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static bool ready(ls_watched_fd *watch, uint32_t events)
{
    ls_wire *wire = watch->owner;
    if (wire->connecting) {
        int error = 0;
        socklen_t size = sizeof error;
        getsockopt(watch->fd, SOL_SOCKET, SO_ERROR, &error, &size);
        if (error) {
            end(wire, strerror(error));
            return true;
        }
        wire->connecting = false;
        wire->heard = ls_now();
    }
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) receive(wire);
    if (ls_wire_is_open(wire)) flush(wire);
    return true;
}

bool ls_wire_open(ls_wire *wire, int loop, int fd, bool connecting)
{
    int yes = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes,
               sizeof yes); /* fails on local socket pairs, which have no such delay */
    fcntl(fd, F_SETFL, O_NONBLOCK);
    wire->watch = (ls_watched_fd){.fd = fd, .ready = ready, .owner = wire};
    wire->loop = loop;
    wire->connecting = connecting;
    wire->parting = false;
    wire->trusted = false;
    wire->in_length = wire->out_length = 0;
    wire->heard = wire->spoke = ls_now();
    if (ls_loop_watch(loop, &wire->watch, connecting ? EPOLLOUT : EPOLLIN)) return true;
    close(fd);
    wire->watch.fd = -1;
    return false;
}

bool ls_wire_is_silent(const ls_wire *wire, int64_t now, int64_t limit)
{
    char unread;
    return now - wire->heard > limit && recv(wire->watch.fd, &unread, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
           errno == EAGAIN;
}

void ls_wire_close(ls_wire *wire)
{
    if (!ls_wire_is_open(wire)) return;
    ls_loop_watch(wire->loop, &wire->watch, 0);
    close(wire->watch.fd);
    wire->watch.fd = -1;
    ls_sys_free(wire->in);
    ls_sys_free(wire->out);
    wire->in = wire->out = NULL;
    wire->in_length = wire->in_room = wire->out_length = wire->out_room = 0;
}

void ls_wire_part(ls_wire *wire)
{
    if (!ls_wire_is_open(wire) || wire->parting) return;
    wire->parting = true;
    if (wire->connecting) end(wire, "no longer needed");
    else flush(wire);
}

void ls_wire_send(ls_wire *wire, ls_json_writer *message)
{
    size_t length;
    char *text = ls_json_take(message, &length);
    bool listens = ls_wire_is_open(wire) && !wire->parting;
    if (!text || !listens || !make_room(&wire->out, &wire->out_room, wire->out_length + length + 1)) {
        ls_sys_free(text);
        return;
    }
    memcpy(wire->out + wire->out_length, text, length);
    wire->out[wire->out_length + length] = '\n';
    wire->out_length += length + 1;
    ls_sys_free(text);
    wire->spoke = ls_now();
    if (!wire->connecting) flush(wire);
}

void ls_wire_say(ls_wire *wire, const char *name, int64_t value)
{
    ls_json_writer w = {0};
    ls_json_put_object(&w, NULL);
    ls_json_put_integer(&w, name, value);
    ls_json_put_end(&w);
    ls_wire_send(wire, &w);
}
