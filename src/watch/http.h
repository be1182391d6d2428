/* http.h - a small HTTP server for one user: GET on the loopback interface, one request per connection.
 *
 * It never waits for a client: one thread polls all connections, answers are sent as far as the socket takes them, and
 * a client that takes longer than a few seconds, or the oldest of too many, is disconnected. A page of another site
 * cannot reach it through a name of its own that resolves to 127.0.0.1: requests must name this host. */
#ifndef LOCKSTEP_WATCH_HTTP_H
#define LOCKSTEP_WATCH_HTTP_H

#include "base/message.h"

enum { LS_HTTP_HEAD = 8192, LS_HTTP_PATH = 2048 };

/* What a client asks for. */
typedef struct ls_http_request {
    char path[LS_HTTP_PATH];  /* "/api/run": decoded, without the query */
    char value[LS_HTTP_PATH]; /* of "?name=value", decoded; "" if there is none */
    bool head_only;           /* HEAD: the answer without its body */
} ls_http_request;

/* Parse the head of a request, up to and including its empty line. Returns 200, or the status of the refusal: 400
 * malformed, 403 addressed to another host, 405 neither GET nor HEAD, 414 the path is too long. */
int ls_http_parse(const char *head, size_t size, ls_http_request *request);

typedef struct ls_http_answer {
    int status;       /* 200, 404, ... */
    const char *type; /* "text/html; charset=utf-8" */
    char *body;       /* from ls_sys_alloc(); the server frees it */
    size_t size;
} ls_http_answer;

typedef ls_http_answer ls_http_handler_fn(const ls_http_request *request, void *user);

typedef struct ls_http_server ls_http_server;

/* Listen on 127.0.0.1; port 0 takes any free one. NULL on failure. */
ls_http_server *ls_http_open(int port, ls_message *why);
int ls_http_port(const ls_http_server *server);
/* Serve whoever is there for up to `milliseconds`. */
void ls_http_serve(ls_http_server *server, int milliseconds, ls_http_handler_fn *handler, void *user);
void ls_http_close(ls_http_server *server); /* NULL is accepted */

#endif
