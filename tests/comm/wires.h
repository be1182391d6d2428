/* wires.h - a transport for tests: sockets between all ranks of a job, made before the ranks start. Ranks are processes
 * or threads. Messages can be delayed, and connections cut. */
#ifndef LOCKSTEP_TESTS_COMM_WIRES_H
#define LOCKSTEP_TESTS_COMM_WIRES_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <lockstep/link.h>

enum { WIRES_MOST = 8 };

/* Shared by the ranks of all jobs of a test: controls, and observations. */
typedef struct wires_control {
    _Atomic int delay;                       /* of every message, in microseconds */
    _Atomic int cut[WIRES_MOST][WIRES_MOST]; /* [from][to] */
    _Atomic int gone[WIRES_MOST];            /* ranks whose links of parts of the job appear closed */
    _Atomic uint64_t sent[WIRES_MOST];       /* bytes sent by each rank so far */
} wires_control;

typedef struct wires_head {
    uint64_t link, bytes;
    int64_t when; /* when it may be delivered, by CLOCK_MONOTONIC */
    int32_t channel, from;
} wires_head;

typedef struct wires_port wires_port;

struct ls_link {
    wires_port *port;
    bool part;                    /* not of the whole job */
    uint64_t number;              /* of this link, among those of this rank */
    uint64_t numbers[WIRES_MOST]; /* numbers that the others gave it: the receiver names the link */
    int rank, size;
    int ranks[WIRES_MOST]; /* in the job */
};

/* comes: a receive, or a message without a receive. Otherwise: a send not written yet. */
struct ls_link_request {
    ls_link_request *next;
    wires_head head; /* from: rank in the job, or LS_LINK_ANY */
    int to;
    char *data;
    bool comes, owned, done, lost, too_long; /* owned: data is freed with it */
    size_t room, at, received;
};

struct wires_port {
    int rank, size, fd[WIRES_MOST];
    pthread_mutex_t lock;
    bool gone[WIRES_MOST]; /* has closed its end, and all it wrote was read */
    bool deaf[WIRES_MOST]; /* reads no more; what it wrote before may be under way */
    ls_link_request *waiting, *unexpected, *going;
    ls_link_request reading[WIRES_MOST]; /* message being read from each */
    size_t head_at[WIRES_MOST];
    int links; /* open now */
    uint64_t made;
};

static int wires_delay; /* initial delay of jobs */
static wires_control *wires_rules;
static int wires_line[WIRES_MOST][WIRES_MOST]; /* [a][b]: the socket of a */
static wires_port wires_ports[WIRES_MOST];

static int64_t wires_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Call before the ranks are created. */
__attribute__((unused)) static void wires_make(int size)
{
    if (!wires_rules)
        wires_rules = mmap(NULL, sizeof *wires_rules, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(wires_rules, 0, sizeof *wires_rules);
    atomic_store(&wires_rules->delay, wires_delay);
    for (int a = 0; a < size; a++)
        for (int b = a + 1; b < size; b++) {
            int pair[2];
            if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) abort();
            wires_line[a][b] = pair[0];
            wires_line[b][a] = pair[1];
        }
    for (int a = 0; a < size; a++) {
        wires_ports[a] = (wires_port){.rank = a, .size = size};
        pthread_mutex_init(&wires_ports[a].lock, NULL);
        for (int b = 0; b < size; b++) wires_ports[a].fd[b] = a == b ? -1 : wires_line[a][b];
    }
}

/* Call in the process of rank `mine`; -1: in their parent, if all ranks are processes. */
__attribute__((unused)) static void wires_keep(int size, int mine)
{
    for (int a = 0; a < size; a++)
        for (int b = 0; b < size; b++)
            if (a != b && a != mine) close(wires_line[a][b]);
}

/* ---- sending ---- */

static void wires_append(ls_link_request **list, ls_link_request *request)
{
    while (*list) list = &(*list)->next;
    *list = request;
    request->next = NULL;
}

static void wires_remove(ls_link_request **list, const ls_link_request *request)
{
    while (*list && *list != request) list = &(*list)->next;
    if (*list) *list = request->next;
}

static void wires_free(ls_link_request *request)
{
    if (request->owned) free(request->data);
    free(request);
}

/* Write as much as the socket takes: the header, then the data. */
static void wires_write(wires_port *port, ls_link_request *request)
{
    int fd = port->fd[request->to];
    while (!port->gone[request->to] && !port->deaf[request->to]) {
        bool head = request->at < sizeof request->head;
        const char *from =
            head ? (char *)&request->head + request->at : request->data + (request->at - sizeof request->head);
        size_t left = (head ? sizeof request->head : sizeof request->head + request->head.bytes) - request->at;
        if (!left) break;
        ssize_t wrote = send(fd, from, left, MSG_NOSIGNAL);
        if (wrote < 0 && errno != EAGAIN && errno != EINTR) port->deaf[request->to] = true;
        if (wrote < 0) break;
        request->at += (size_t)wrote;
    }
    request->done = request->at == sizeof request->head + request->head.bytes;
    request->lost = (port->gone[request->to] || port->deaf[request->to]) && !request->done;
}

static void wires_write_all(wires_port *port)
{
    bool busy[WIRES_MOST] = {false};
    for (ls_link_request *r = port->going, *next; r; r = next) {
        next = r->next;
        if (busy[r->to] || atomic_load(&wires_rules->cut[port->rank][r->to])) continue;
        wires_write(port, r);
        busy[r->to] = !r->done && !r->lost;
        if (busy[r->to]) continue;
        wires_remove(&port->going, r);
        if (r->owned) wires_free(r);
    }
}

/* ---- receiving ---- */

static bool wires_fits(const ls_link_request *waiting, const wires_head *head)
{
    return waiting->head.link == head->link && waiting->head.channel == head->channel &&
           (waiting->head.from == LS_LINK_ANY || waiting->head.from == head->from);
}

static void wires_deliver(ls_link_request *to, const ls_link_request *message)
{
    to->received = message->head.bytes;
    to->too_long = to->received > to->room;
    if (to->received && !to->too_long) memcpy(to->data, message->data, to->received);
    to->done = true;
}

/* Match messages that are due with receives. */
static void wires_match(wires_port *port)
{
    int64_t now = wires_now();
    for (ls_link_request *m = port->unexpected, *next; m; m = next) {
        next = m->next;
        ls_link_request *w = port->waiting;
        while (w && !wires_fits(w, &m->head)) w = w->next;
        if (!w || m->head.when > now) continue;
        wires_deliver(w, m);
        wires_remove(&port->waiting, w);
        wires_remove(&port->unexpected, m);
        wires_free(m);
    }
}

static void wires_read(wires_port *port, int peer)
{
    while (port->fd[peer] >= 0 && !port->gone[peer]) {
        ls_link_request *m = &port->reading[peer];
        size_t *at = &port->head_at[peer];
        bool head = *at < sizeof m->head;
        char *to = head ? (char *)&m->head + *at : m->data + m->at;
        size_t left = head ? sizeof m->head - *at : m->head.bytes - m->at;
        ssize_t got = left ? recv(port->fd[peer], to, left, 0) : 0;
        if (left && got < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (left && got <= 0) {
            port->gone[peer] = true;
            return;
        }
        if (head) *at += (size_t)got;
        else m->at += (size_t)got;
        if (head && *at == sizeof m->head) m->data = malloc(m->head.bytes + 1);
        if (*at < sizeof m->head || m->at < m->head.bytes) continue;
        ls_link_request *whole = malloc(sizeof *whole);
        *whole = *m;
        whole->owned = true;
        wires_append(&port->unexpected, whole);
        *m = (ls_link_request){0};
        *at = 0;
    }
}

static void wires_go_on(wires_port *port)
{
    wires_write_all(port);
    for (int peer = 0; peer < port->size; peer++) wires_read(port, peer);
    wires_match(port);
}

/* ---- the table ---- */

static ls_link *wires_open(const ls_link_open_args *opts, ls_message *why)
{
    (void)why;
    ls_link *link = calloc(1, sizeof *link);
    link->rank = opts->rank;
    link->size = opts->size;
    link->port = opts->of ? opts->of->port : &wires_ports[opts->rank];
    link->part = opts->of != NULL;
    link->number = ++link->port->made;
    link->port->links++;
    for (int r = 0; r < opts->size; r++) link->ranks[r] = opts->of ? opts->of->ranks[opts->ranks[r]] : r;
    return link;
}

static size_t wires_address(ls_link *link, void *to)
{
    return (size_t)snprintf(to, 48, "rank %d link %llu", link->ranks[link->rank], (unsigned long long)link->number) + 1;
}

static ls_status wires_connect(ls_link *link, const void *addresses, size_t each, ls_message *why)
{
    for (int r = 0; r < link->size; r++) {
        int rank = -1;
        unsigned long long number = 0;
        sscanf((const char *)addresses + (size_t)r * each, "rank %d link %llu", &rank, &number);
        link->numbers[r] = number;
        if (rank != link->ranks[r]) return snprintf(why->text, sizeof why->text, "addresses are mixed up"), LS_ERR_PEER;
    }
    return LS_OK;
}

static ls_status wires_begin(ls_link *link, ls_link_request *what, ls_link_request **request, ls_message *why)
{
    wires_port *port = link->port;
    ls_link_request *r = malloc(sizeof *r);
    *r = *what;
    pthread_mutex_lock(&port->lock);
    wires_append(r->comes ? &port->waiting : &port->going, r);
    wires_go_on(port);
    bool done = r->done && !r->too_long, lost = r->lost;
    *request = done || lost ? NULL : r;
    if (done || lost) free(r);
    pthread_mutex_unlock(&port->lock);
    if (lost) snprintf(why->text, sizeof why->text, "the line is closed");
    return lost ? LS_ERR_PEER : LS_OK;
}

static ls_status wires_send(ls_link *link, int peer, ls_link_channel channel, const void *data, size_t bytes,
                            ls_link_request **request, ls_message *why)
{
    int to = link->ranks[peer];
    atomic_fetch_add(&wires_rules->sent[link->port->rank], bytes);
    return wires_begin(
        link,
        &(ls_link_request){.head = {.link = link->numbers[peer],
                                    .bytes = bytes,
                                    .when = wires_now() + atomic_load(&wires_rules->delay) * INT64_C(1000),
                                    .channel = (int32_t)channel,
                                    .from = link->port->rank},
                           .to = to,
                           .data = (char *)(uintptr_t)data},
        request, why);
}

static ls_status wires_receive(ls_link *link, int peer, ls_link_channel channel, void *data, size_t bytes,
                               ls_link_request **request, ls_message *why)
{
    int from = peer == LS_LINK_ANY ? LS_LINK_ANY : link->ranks[peer];
    return wires_begin(link,
                       &(ls_link_request){.head = {.link = link->number, .channel = (int32_t)channel, .from = from},
                                          .comes = true,
                                          .data = data,
                                          .room = bytes},
                       request, why);
}

static ls_status wires_test(ls_link *link, ls_link_request *r, bool *done, size_t *received, ls_message *why)
{
    wires_port *port = link->port;
    ls_status status = LS_OK;
    pthread_mutex_lock(&port->lock);
    wires_go_on(port);
    *done = r->done;
    if (received) *received = r->received;
    bool hopeless = r->comes && !r->done && r->head.from >= 0 &&
                    (port->gone[r->head.from] || (link->part && atomic_load(&wires_rules->gone[r->head.from])));
    for (ls_link_request *m = port->unexpected; m && hopeless; m = m->next) hopeless = !wires_fits(r, &m->head);
    if (r->lost || hopeless) status = LS_ERR_PEER;
    if (r->too_long) status = LS_ERR_VALUE;
    if (status) snprintf(why->text, sizeof why->text, r->too_long ? "a message is too long" : "the line is closed");
    if (status) *done = false;
    if (hopeless) wires_remove(&port->waiting, r);
    if (*done || status) wires_free(r);
    pthread_mutex_unlock(&port->lock);
    return status;
}

static void wires_cancel(ls_link *link, ls_link_request *r)
{
    wires_port *port = link->port;
    pthread_mutex_lock(&port->lock);
    if (!r->comes && r->at && !r->done && !r->lost) { /* a message partly sent is completed */
        char *copy = malloc(r->head.bytes + 1);
        memcpy(copy, r->data, r->head.bytes);
        r->data = copy;
        r->owned = true;
    } else {
        wires_remove(r->comes ? &port->waiting : &port->going, r);
        wires_free(r);
    }
    pthread_mutex_unlock(&port->lock);
}

static void wires_sleep(ls_link *link, int milliseconds)
{
    wires_port *port = link->port;
    struct pollfd files[WIRES_MOST];
    int count = 0;
    pthread_mutex_lock(&port->lock);
    for (int peer = 0; peer < port->size; peer++) {
        if (port->fd[peer] < 0 || port->gone[peer]) continue;
        files[count] = (struct pollfd){.fd = port->fd[peer], .events = POLLIN};
        for (ls_link_request *r = port->going; r; r = r->next)
            if (r->to == peer && !atomic_load(&wires_rules->cut[port->rank][peer])) files[count].events |= POLLOUT;
        count++;
    }
    if (port->unexpected) milliseconds = 1; /* a message may be due */
    pthread_mutex_unlock(&port->lock);
    poll(files, (nfds_t)count, milliseconds);
}

static void wires_close(ls_link *link, bool orderly)
{
    wires_port *port = link->port;
    bool more = orderly;
    for (int64_t end = wires_now() + INT64_C(5000000000); more && wires_now() < end;) {
        pthread_mutex_lock(&port->lock);
        wires_go_on(port);
        more = port->going != NULL;
        pthread_mutex_unlock(&port->lock);
    }
    if (--port->links == 0) {
        for (ls_link_request *m; (m = port->unexpected); wires_free(m)) port->unexpected = m->next;
        for (ls_link_request *m; (m = port->going); wires_free(m)) port->going = m->next;
        for (int peer = 0; peer < port->size; peer++) {
            free(port->reading[peer].data);
            if (port->fd[peer] >= 0) close(port->fd[peer]);
        }
    }
    free(link);
}

static const ls_transport wires_transport = {.abi = LS_TRANSPORT_ABI,
                                             .size = sizeof(ls_transport),
                                             .name = "wires",
                                             .version = "1",
                                             .open = wires_open,
                                             .address = wires_address,
                                             .connect = wires_connect,
                                             .send = wires_send,
                                             .receive = wires_receive,
                                             .test = wires_test,
                                             .cancel = wires_cancel,
                                             .sleep = wires_sleep,
                                             .close = wires_close};

#endif
