/* store_host.c - the side of rank 0: wait for the others, collect their bytes, send all of them to each. */
#include "launch/bootstrap/store_inside.h"

#include "base/log.h"
#include "base/memory.h"
#include "launch/control/hex.h"
#include "launch/control/refusals.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    UNVERIFIED = 64,      /* most connections beyond those of the job */
    QUEUED = 64 << 10,    /* most bytes queued for one process, approximately */
    MOST_NAMED = 8,       /* most ranks that a message names */
    PIECE = LS_STORE_MOST /* bytes of a message */
};

/* A connection. */
typedef struct client {
    ls_wire wire;
    ls_store *store;
    int rank; /* -1: not verified yet */
    char name[65], self[17];
    int64_t pid;
    char challenge[LS_PROOF];
    int64_t came;
    int round;   /* of the bytes it sent last */
    char *given; /* [size] of that round */
    size_t size;
    size_t sent; /* bytes of all ranks sent to it in the current round */
    bool served; /* it has all of them */
    bool lost;   /* removed at the next turn */
    char why[128];
    struct client *next;
} client;

struct ls_store_host {
    ls_watched_fd listener;
    client *clients;
    client **member; /* [world] by rank; NULL: not connected; [0] is this process */
    int count, missing;
    ls_refusals refusals;
    char refused[256]; /* the last refusal, with the reason */
    char claim[400];   /* the fatal error of two processes that claim a rank; "": none */
    bool complete;     /* everything is exchanged: newcomers are late */
    ls_fd_watcher *watcher;
    ls_claim_fn *claimed;
    void *user;
};

/* ---- Messages ------------------------------------------------------------------------------------------------- */

static void say_text(ls_wire *wire, const char *name, const char *text)
{
    ls_json_writer w = {0};
    ls_json_put_object(&w, NULL);
    ls_json_put_text(&w, name, text);
    ls_json_put_end(&w);
    ls_wire_send(wire, &w);
}

LS_PRINTF(2, 3) static void refuse(client *v, const char *format, ...)
{
    char why[400];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    ls_store_host *host = v->store->host;
    say_text(&v->wire, "refused", why);
    snprintf(host->refused, sizeof host->refused, "a process of host %s: %.150s", v->name[0] ? v->name : "unknown",
             why);
    ls_refusals_tell(&host->refusals, "refused %s", host->refused);
    snprintf(v->why, sizeof v->why, "%.120s", why);
    v->lost = v->rank > 0; /* an unverified connection is removed when it closes */
    ls_wire_part(&v->wire);
}

/* Wait until all connected processes have received the last message, ignoring what they send meanwhile. */
static void close_all(ls_store *store)
{
    int64_t deadline = ls_after(LS_CLOSE_TIMEOUT);
    for (client *v = store->host->clients; v; v = v->next) {
        ls_wire_part(&v->wire);
        while (v->rank > 0 && ls_wire_is_open(&v->wire) && ls_now() < deadline) ls_loop_wait(store->loop, deadline);
    }
}

/* Tell all connected processes and the caller why it failed. */
LS_PRINTF(3, 4) static ls_status fail(ls_store *store, ls_message *why, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    ls_message_set_list(why, format, args);
    va_end(args);
    for (client *v = store->host->clients; v; v = v->next)
        if (v->rank > 0) say_text(&v->wire, "failed", why->text);
    close_all(store);
    return LS_ERR_PEER;
}

/* "2 of 4 processes did not ...: ranks 1, 3" */
static ls_status fail_for(ls_store *store, bool (*is_late)(const ls_store *, int), const char *what, double seconds,
                          ls_message *why)
{
    char ranks[128] = "";
    size_t used = 0;
    int late = 0;
    for (int r = 1; r < store->world; r++) {
        if (!is_late(store, r)) continue;
        if (late++ < MOST_NAMED)
            used += (size_t)snprintf(ranks + used, sizeof ranks - used, "%s%d", late > 1 ? ", " : "", r);
    }
    const char *refused = store->host->refused;
    bool here = ls_wire_is_here(store->address);
    return fail(store, why, "%d of %d processes did not %s within %g s: rank%s %s%s%s%s%s%s", late, store->world, what,
                seconds, late > 1 ? "s" : "", ranks, late > MOST_NAMED ? " ..." : "",
                *refused ? "; last refused: " : "", refused,
                here ? "" : "; this host, where rank 0 runs, does not have the address ", here ? "" : store->address);
}

/* ---- Connections ---------------------------------------------------------------------------------------------- */

static void welcome(client *v, int rank, const char *challenge)
{
    ls_store *store = v->store;
    char proof[LS_PROOF];
    v->rank = rank;
    v->wire.trusted = true;
    store->host->member[rank] = v;
    store->host->missing--;
    ls_store_prove(store, "rank 0", challenge, proof);
    say_text(&v->wire, "welcome", proof);
}

/* The rank is taken. The same process may have reconnected or, after the exchange, may be starting its next run too
 * early; it will retry. */
static void on_taken_rank(client *v, client *first, int rank, const char *challenge)
{
    ls_store_host *host = v->store->host;
    bool same = strcmp(first->self, v->self) == 0;
    if (same && host->complete) {
        v->lost = true;
    } else if (same) {
        first->rank = -1;
        first->lost = true;
        host->missing++;
        welcome(v, rank, challenge);
    } else {
        snprintf(host->claim, sizeof host->claim,
                 "rank %d was claimed twice, by process %lld of host %s and process %lld of host %s: two jobs with one "
                 "MASTER_ADDR and MASTER_PORT? Give each its own port",
                 rank, (long long)first->pid, first->name, (long long)v->pid, v->name);
        refuse(v, "%s", host->claim);
        if (host->complete) host->claimed(host->user, host->claim);
    }
}

static void on_hello(client *v, const ls_json *m)
{
    ls_store *store = v->store;
    char expected[LS_PROOF];
    const char *name = ls_json_text(ls_json_get(m, "host")), *challenge = ls_json_text(ls_json_get(m, "challenge"));
    const char *self = ls_json_text(ls_json_get(m, "self"));
    int64_t rank = ls_json_integer(ls_json_get(m, "rank"), -1), world = ls_json_integer(ls_json_get(m, "world"), -1);
    int64_t attempt = ls_json_integer(ls_json_get(m, "attempt"), -1);
    v->pid = ls_json_integer(ls_json_get(m, "pid"), 0);
    if (name) snprintf(v->name, sizeof v->name, "%s", name);
    if (self) snprintf(v->self, sizeof v->self, "%s", self);
    ls_store_prove(store, "process", v->challenge, expected);
    if (ls_json_integer(ls_json_get(m, "hello"), 0) != LS_STORE_VERSION || !challenge ||
        strlen(challenge) >= LS_PROOF || !self)
        refuse(v, "it uses another protocol version");
    else if (attempt != store->attempt)
        refuse(v, "it belongs to attempt %lld of its job, and this is attempt %d", (long long)attempt, store->attempt);
    else if (!ls_token_same(ls_json_text(ls_json_get(m, "proof")), expected))
        refuse(v, "it does not know the token of this job");
    else if (world != store->world)
        refuse(v, "it is one of %lld processes, and this job has %d (WORLD_SIZE)", (long long)world, store->world);
    else if (rank < 1 || rank >= world) refuse(v, "rank %lld is not a rank of this job other than 0", (long long)rank);
    else if (store->host->member[rank]) on_taken_rank(v, store->host->member[rank], (int)rank, challenge);
    else welcome(v, (int)rank, challenge);
}

static void on_give(client *v, const ls_json *m)
{
    const char *text = ls_json_text(ls_json_get(m, "bytes"));
    int64_t round = ls_json_integer(ls_json_get(m, "give"), -1);
    size_t size = text ? strlen(text) / 2 : 0;
    char *given = ls_sys_realloc(v->given, size ? size : 1);
    if (given) v->given = given;
    v->size = 0; /* what was there is no more, even if this is nothing */
    v->round = -1;
    bool is_round = round > 0 && round <= INT_MAX;
    if (!given || !text || !is_round || size > LS_STORE_MOST || !ls_hex_read(text, given, size)) {
        refuse(v, "it sent invalid data");
        return;
    }
    v->size = size;
    v->round = (int)round;
}

static void on_message(ls_wire *wire, const ls_json *m)
{
    client *v = wire->owner;
    if (v->rank < 0) on_hello(v, m);
    else on_give(v, m);
}

static void on_end(ls_wire *wire, const char *why)
{
    client *v = wire->owner;
    v->lost = true;
    snprintf(v->why, sizeof v->why, "%s", why);
}

static void free_client(client *v)
{
    ls_wire_close(&v->wire);
    ls_sys_free(v->given);
    ls_sys_free(v);
}

/* If unverified connections take all places, drop the one that has been silent longest. A process of the job identifies
 * itself at once. */
static void drop_unverified(ls_store_host *host)
{
    client **oldest = NULL;
    for (client **link = &host->clients; *link; link = &(*link)->next)
        if ((*link)->rank < 0) oldest = link;
    if (!oldest) return;
    client *v = *oldest;
    *oldest = v->next;
    host->count--;
    free_client(v);
}

static bool on_connection(ls_watched_fd *watch, uint32_t events)
{
    (void)events;
    ls_store *store = watch->owner;
    ls_store_host *host = store->host;
    int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE)
            drop_unverified(host); /* otherwise accept would be retried in a busy loop */
        return true;
    }
    if (host->count >= store->world + UNVERIFIED) drop_unverified(host);
    client *v = ls_sys_alloc(sizeof *v);
    if (!v) {
        close(fd);
        return true;
    }
    *v = (client){.store = store, .rank = -1, .came = ls_now(), .next = host->clients};
    v->wire.on_message = on_message;
    v->wire.on_end = on_end;
    v->wire.owner = v;
    if (!ls_wire_open(&v->wire, store->loop, fd, false)) {
        ls_sys_free(v);
        return true;
    }
    host->clients = v;
    host->count++;
    ls_token_challenge(v->challenge);
    say_text(&v->wire, "store", v->challenge);
    return true;
}

/* Drop connections that do not identify themselves in time, and those that closed before all have joined: they may
 * reconnect. */
static void remove_lost(ls_store *store, bool gathering)
{
    ls_store_host *host = store->host;
    int64_t now = ls_now();
    for (client **link = &host->clients; *link;) {
        client *v = *link;
        bool overdue = v->rank < 0 && now - v->came > (int64_t)(LS_STORE_GREETING * 1e9);
        if (!overdue && !(v->lost && (gathering || v->rank < 0))) {
            link = &v->next;
            continue;
        }
        if (v->rank > 0) host->member[v->rank] = NULL, host->missing++;
        *link = v->next;
        host->count--;
        free_client(v);
    }
}

/* Handle one event, or wait for a second. */
static void wait_a_while(ls_store *store, int64_t deadline)
{
    int64_t soon = ls_after(1);
    ls_loop_wait(store->loop, soon < deadline ? soon : deadline);
}

/* ---- Public functions ----------------------------------------------------------------------------------------- */

static bool is_absent(const ls_store *store, int rank)
{
    return !store->host->member[rank];
}

static bool is_silent(const ls_store *store, int rank)
{
    return store->host->member[rank]->round != store->round;
}

ls_status ls_store_host_open(ls_store *store, int64_t deadline, double seconds, ls_message *why)
{
    ls_store_host *host = store->host = ls_sys_alloc(sizeof *host);
    client **member = host ? ls_sys_alloc((size_t)store->world * sizeof(client *)) : NULL;
    if (!member) return ls_explain(why, LS_ERR_MEMORY, "no memory for %d processes", store->world);
    *host = (ls_store_host){.member = member, .missing = store->world - 1};
    host->listener = (ls_watched_fd){.fd = ls_wire_listen(store->port, why), .ready = on_connection, .owner = store};
    if (host->listener.fd < 0) {
        if (errno == EADDRINUSE)
            ls_message_set(
                why,
                "port %d of this host, where processes are to find rank 0, is in use by another program: use another "
                "port (MASTER_PORT, --master-port), or end that program",
                store->port);
        return LS_ERR_IO;
    }
    ls_loop_watch(store->loop, &host->listener, EPOLLIN);
    while (host->missing && !host->claim[0] && ls_now() < deadline) {
        wait_a_while(store, deadline);
        remove_lost(store, true);
    }
    if (host->claim[0]) return fail(store, why, "%s", host->claim);
    return host->missing ? fail_for(store, is_absent, "connect to rank 0", seconds, why) : LS_OK;
}

/* Is it decided that every rank has sent its bytes (LS_OK) or that one will not? */
static bool is_settled(ls_store *store, size_t size, ls_status *status, ls_message *why)
{
    bool all_there = true;
    *status = LS_OK;
    for (int r = 1; r < store->world && !*status; r++) {
        const client *v = store->host->member[r];
        bool there = v->round == store->round;
        if (!there && v->lost) *status = fail(store, why, "rank %d of host %s is gone: %s", r, v->name, v->why);
        if (there && v->size != size)
            *status = fail(store, why, "rank %d of host %s sent %zu bytes, rank 0 %zu", r, v->name, v->size, size);
        all_there &= there;
    }
    return all_there || *status;
}

/* Send on as much as the queues allow. True: all have everything. */
static bool hand_out(ls_store *store, const char *all, size_t bytes, char *text)
{
    bool done = true;
    for (int r = 1; r < store->world; r++) {
        client *v = store->host->member[r];
        while (!v->lost && !v->served && v->wire.out_length < QUEUED) {
            size_t some = bytes - v->sent < PIECE ? bytes - v->sent : PIECE;
            ls_hex_write(all + v->sent, some, text);
            ls_json_writer w = {0};
            ls_json_put_object(&w, NULL);
            ls_json_put_integer(&w, "take", store->round);
            ls_json_put_text(&w, "bytes", text);
            ls_json_put_end(&w);
            ls_wire_send(&v->wire, &w);
            v->sent += some;
            v->served = v->sent == bytes;
        }
        done &= v->lost || (v->served && v->wire.out_length == 0);
    }
    return done;
}

ls_status ls_store_host_all_gather(ls_store *store, const void *mine, size_t size, char *all, int64_t deadline,
                                   double seconds, ls_message *why)
{
    ls_store_host *host = store->host;
    ls_status status;
    while (!is_settled(store, size, &status, why)) {
        if (ls_now() >= deadline) return fail_for(store, is_silent, "send their data", seconds, why);
        wait_a_while(store, deadline);
        remove_lost(store, false);
        if (host->claim[0]) return fail(store, why, "%s", host->claim);
    }
    if (status) return status;

    memcpy(all, mine, size);
    for (int r = 1; r < store->world; r++) {
        memcpy(all + (size_t)r * size, host->member[r]->given, size);
        host->member[r]->sent = 0;
        host->member[r]->served = false;
    }
    char *text = ls_sys_alloc(2 * PIECE + 1);
    if (!text) return fail(store, why, "rank 0 is out of memory");
    bool done = hand_out(store, all, size * (size_t)store->world, text);
    while (!done && ls_now() < deadline) {
        wait_a_while(store, deadline);
        done = hand_out(store, all, size * (size_t)store->world, text);
    }
    ls_sys_free(text);
    return done ? LS_OK : fail(store, why, "not all processes received the data of all within %g s", seconds);
}

/* ---- Latecomers ----------------------------------------------------------------------------------------------- */

static void serve_late_client(void *of)
{
    ls_store *store = of;
    ls_loop_wait(store->loop, 0);
    remove_lost(store, false);
}

void ls_store_watch(ls_store *store, ls_claim_fn *claimed, void *user)
{
    ls_store_host *host = store->host;
    host->claimed = claimed;
    host->user = user;
    host->complete = true;
    host->watcher = ls_fd_watcher_start(store->loop, serve_late_client, store);
}

void ls_store_host_close(ls_store *store)
{
    ls_store_host *host = store->host;
    if (!host) return;
    ls_fd_watcher_stop(host->watcher);
    ls_refusals_sum_up(&host->refusals, true);
    while (host->clients) {
        client *next = host->clients->next;
        free_client(host->clients);
        host->clients = next;
    }
    if (host->listener.fd >= 0) {
        ls_loop_watch(store->loop, &host->listener, 0);
        close(host->listener.fd);
    }
    ls_sys_free(host->member);
    ls_sys_free(host);
    store->host = NULL;
}
