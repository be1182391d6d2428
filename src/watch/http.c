/* http.c - the connections of the HTTP server: accepted, read, answered, and ended when they take too long. */
#include "watch/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"

enum { MOST_CLIENTS = 64, PATIENCE = 10000 /* ms for a whole request and its answer */, PREFIX = 512 };

typedef struct client {
    int socket;
    int64_t deadline; /* in ms; the earliest is that of the oldest client */
    char head[LS_HTTP_HEAD];
    size_t filled;
    char prefix[PREFIX]; /* status line and headers of the answer */
    size_t prefix_size, sent;
    ls_http_answer answer;
    bool answering;
} client;

struct ls_http_server {
    int listener, port, count;
    client *clients[MOST_CLIENTS];
};

ls_http_server *ls_http_open(int port, ls_message *why)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ls_http_server *server = ls_sys_alloc(sizeof *server);
    if (!server) return NULL;
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int yes = 1;
    if (server->listener < 0) goto fail;
    setsockopt(server->listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes); /* after a restart */
    if (bind(server->listener, (struct sockaddr *)&address, size) != 0 || listen(server->listener, SOMAXCONN) != 0 ||
        getsockname(server->listener, (struct sockaddr *)&address, &size) != 0)
        goto fail;
    server->port = ntohs(address.sin_port);
    return server;
fail:
    ls_message_set(why, "port %d of 127.0.0.1: %s", port, strerror(errno));
    ls_http_close(server);
    return NULL;
}

int ls_http_port(const ls_http_server *server)
{
    return server->port;
}

static void drop(ls_http_server *server, int i)
{
    client *c = server->clients[i];
    close(c->socket);
    ls_sys_free(c->answer.body);
    ls_sys_free(c);
    server->clients[i] = server->clients[--server->count];
}

void ls_http_close(ls_http_server *server)
{
    if (!server) return;
    while (server->count) drop(server, 0);
    if (server->listener >= 0) close(server->listener);
    ls_sys_free(server);
}

static void drop_oldest(ls_http_server *server)
{
    int oldest = 0;
    for (int i = 1; i < server->count; i++)
        if (server->clients[i]->deadline < server->clients[oldest]->deadline) oldest = i;
    drop(server, oldest);
}

/* A limited number at a time, so that a flood of newcomers does not keep the others waiting. */
static void accept_some(ls_http_server *server)
{
    for (int i = 0; i < MOST_CLIENTS; i++) {
        int s = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (s < 0) return;
        if (server->count == MOST_CLIENTS) drop_oldest(server);
        client *c = ls_sys_alloc(sizeof *c);
        if (!c) {
            close(s);
            return;
        }
        c->socket = s;
        c->deadline = ls_clock_ms() + PATIENCE;
        server->clients[server->count++] = c;
    }
}

static const char *reason_of(int status)
{
    switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 414: return "URI Too Long";
    case 431: return "Request Header Fields Too Large";
    default: return "Internal Server Error";
    }
}

/* No script but ours runs in the page, and it talks to nobody but us. */
static void begin_answer(client *c, ls_http_answer answer)
{
    c->answer = answer;
    c->answering = true;
    int length =
        snprintf(c->prefix, sizeof c->prefix,
                 "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nConnection: close\r\n"
                 "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n"
                 "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
                 "connect-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'\r\n\r\n",
                 answer.status, reason_of(answer.status), answer.type ? answer.type : "text/plain", answer.size);
    c->prefix_size = (size_t)length;
}

/* Returns false when the connection is over. */
static bool send_some(client *c)
{
    while (c->sent < c->prefix_size + c->answer.size) {
        bool in_prefix = c->sent < c->prefix_size;
        const char *from = in_prefix ? c->prefix + c->sent : c->answer.body + (c->sent - c->prefix_size);
        size_t left = in_prefix ? c->prefix_size - c->sent : c->answer.size - (c->sent - c->prefix_size);
        ssize_t got = send(c->socket, from, left, MSG_NOSIGNAL | (in_prefix ? MSG_MORE : 0));
        if (got < 0) return errno == EAGAIN || errno == EINTR;
        c->sent += (size_t)got;
    }
    shutdown(c->socket, SHUT_WR);
    return false;
}

static void answer(client *c, size_t head, ls_http_handler_fn *handler, void *user)
{
    ls_http_request request;
    int status = ls_http_parse(c->head, head, &request);
    ls_http_answer a = status == 200 ? handler(&request, user) : (ls_http_answer){.status = status};
    if (request.head_only) a.size = 0;
    begin_answer(c, a);
}

static bool read_some(client *c, ls_http_handler_fn *handler, void *user)
{
    ssize_t got = recv(c->socket, c->head + c->filled, sizeof c->head - c->filled, 0);
    if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
    c->filled += (size_t)got;
    const char *end = memmem(c->head, c->filled, "\r\n\r\n", 4);
    if (end) answer(c, (size_t)(end - c->head) + 4, handler, user);
    else if (c->filled == sizeof c->head) begin_answer(c, (ls_http_answer){.status = 431});
    return !c->answering || send_some(c);
}

void ls_http_serve(ls_http_server *server, int milliseconds, ls_http_handler_fn *handler, void *user)
{
    struct pollfd wait[MOST_CLIENTS + 1];
    for (int i = 0; i < server->count; i++)
        wait[i] = (struct pollfd){.fd = server->clients[i]->socket,
                                  .events = server->clients[i]->answering ? POLLOUT : POLLIN};
    wait[server->count] = (struct pollfd){.fd = server->listener, .events = POLLIN};
    if (poll(wait, (nfds_t)server->count + 1, milliseconds) < 0) return; /* a signal */
    bool newcomers = wait[server->count].revents != 0;
    for (int i = server->count - 1; i >= 0; i--) { /* downwards: drop() moves the last one into the gap */
        client *c = server->clients[i];
        bool stays = true;
        if (wait[i].revents) stays = c->answering ? send_some(c) : read_some(c, handler, user);
        if (!stays || ls_clock_ms() > c->deadline) drop(server, i);
    }
    if (newcomers) accept_some(server);
}
