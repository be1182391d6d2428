/* keys.c - the store of keys: a list in the memory of rank 0, and questions of the others, each over a connection of
 * its own that a thread of rank 0 answers. A question must contain the job's secret. */
#include "keys.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../thread.h"
#include "pjrt.h"

enum { MOST_BYTES = 64 << 20 }; /* of a key or value */

typedef struct entry {
    struct entry *next;
    xla_bytes key, value;
} entry;

/* Where rank 0 listens. */
typedef struct place {
    char host[256], port[16];
    uint64_t secret[2];
} place;

struct xla_keys {
    bool is_here; /* this is rank 0 */
    place place;
    int listener;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    entry *first;
};

/* ---- the list ---- */

static bool copy(xla_bytes from, xla_bytes *to)
{
    *to = (xla_bytes){malloc(from.count + 1), from.count};
    if (to->at && from.count) memcpy(to->at, from.at, from.count);
    return to->at != NULL;
}

static entry *find(xla_keys *keys, xla_bytes key)
{
    entry *e = keys->first;
    while (e && (e->key.count != key.count || memcmp(e->key.at, key.at, key.count) != 0)) e = e->next;
    return e;
}

static bool list_put(xla_keys *keys, xla_bytes key, xla_bytes value)
{
    xla_bytes own;
    if (!copy(value, &own)) return false;
    pthread_mutex_lock(&keys->lock);
    entry *e = find(keys, key);
    if (!e && (e = calloc(1, sizeof *e)) && copy(key, &e->key)) {
        e->next = keys->first;
        keys->first = e;
    }
    bool done = e && e->key.at;
    if (done) {
        free(e->value.at);
        e->value = own;
        pthread_cond_broadcast(&keys->changed);
    }
    pthread_mutex_unlock(&keys->lock);
    if (!done) free(own.at), free(e);
    return done;
}

static bool list_get(xla_keys *keys, xla_bytes key, int milliseconds, xla_bytes *value)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += milliseconds / 1000 + (end.tv_nsec + milliseconds % 1000 * 1000000L) / 1000000000L;
    end.tv_nsec = (end.tv_nsec + milliseconds % 1000 * 1000000L) % 1000000000L;
    pthread_mutex_lock(&keys->lock);
    entry *e;
    while (!(e = find(keys, key)) && pthread_cond_timedwait(&keys->changed, &keys->lock, &end) == 0) continue;
    bool found = e && copy(e->value, value);
    pthread_mutex_unlock(&keys->lock);
    return found;
}

/* ---- questions ---- */

typedef struct question {
    uint64_t secret[2];
    int32_t is_put, milliseconds;
    uint64_t key, value; /* bytes that follow */
} question;

typedef struct answer {
    int32_t answer; /* xla_answer */
    uint64_t value; /* bytes that follow */
} answer;

static bool send_all(int s, const void *bytes, size_t count)
{
    for (size_t done = 0; done < count;) {
        ssize_t n = send(s, (const char *)bytes + done, count - done, MSG_NOSIGNAL);
        if (n <= 0 && errno != EINTR) return false;
        if (n > 0) done += (size_t)n;
    }
    return true;
}

static bool receive_all(int s, void *bytes, size_t count)
{
    for (size_t done = 0; done < count;) {
        ssize_t n = recv(s, (char *)bytes + done, count - done, 0);
        if (n == 0 || (n < 0 && errno != EINTR)) return false;
        if (n > 0) done += (size_t)n;
    }
    return true;
}

static bool receive_bytes(int s, uint64_t count, xla_bytes *bytes)
{
    *bytes = (xla_bytes){count <= MOST_BYTES ? malloc(count + 1) : NULL, (size_t)count};
    return bytes->at && receive_all(s, bytes->at, bytes->count);
}

/* ---- rank 0 ---- */

typedef struct guest {
    xla_keys *keys;
    int socket;
} guest;

static void *serve(void *of)
{
    guest g = *(guest *)of;
    question q;
    answer a = {.answer = XLA_KEY_MISSING};
    xla_bytes key = {0}, value = {0};
    free(of);
    if (receive_all(g.socket, &q, sizeof q) && memcmp(q.secret, g.keys->place.secret, sizeof q.secret) == 0 &&
        receive_bytes(g.socket, q.key, &key) && receive_bytes(g.socket, q.value, &value)) {
        if (q.is_put) {
            a.answer = list_put(g.keys, key, value) ? XLA_KEY_OK : XLA_KEY_LOST;
            value.count = 0;
        } else {
            free(value.at);
            value = (xla_bytes){0};
            if (list_get(g.keys, key, q.milliseconds, &value)) a.answer = XLA_KEY_OK;
        }
        a.value = value.count;
        if (send_all(g.socket, &a, sizeof a)) send_all(g.socket, value.at, value.count);
    }
    free(key.at);
    free(value.at);
    close(g.socket);
    return NULL;
}

/* Can another connection be accepted later? */
static bool is_passing(int error)
{
    return error == EINTR || error == ECONNABORTED || error == EMFILE || error == ENFILE || error == ENOBUFS ||
           error == ENOMEM;
}

/* What goes wrong for good closes the port: others are refused, and do not wait. */
static void *listen_for_others(void *of)
{
    xla_keys *keys = of;
    const struct timespec pause = {.tv_nsec = 10000000}; /* until the program has closed a file */
    for (;;) {
        int s = accept(keys->listener, NULL, NULL);
        pthread_t thread;
        guest *g = s < 0 ? NULL : malloc(sizeof *g);
        if (g) *g = (guest){keys, s};
        if (g && pthread_create(&thread, NULL, serve, g) == 0) {
            pthread_detach(thread);
            continue;
        }
        int error = errno;
        free(g);
        if (s >= 0) close(s);
        else if (!is_passing(error)) break;
        else nanosleep(&pause, NULL);
    }
    close(keys->listener);
    return NULL;
}

static ls_status start(xla_keys *keys, bool is_local, ls_message *why)
{
    struct sockaddr_in here = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(is_local ? INADDR_LOOPBACK : INADDR_ANY)};
    socklen_t size = sizeof here;
    pthread_t thread;
    keys->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool done = keys->listener >= 0 && bind(keys->listener, (struct sockaddr *)&here, sizeof here) == 0 &&
                listen(keys->listener, SOMAXCONN) == 0 &&
                getsockname(keys->listener, (struct sockaddr *)&here, &size) == 0 &&
                getrandom(keys->place.secret, sizeof keys->place.secret, 0) == (ssize_t)sizeof keys->place.secret &&
                thread_start(&thread, listen_for_others, keys);
    if (!done)
        return xla_refuse(why, LS_ERR_IO, "device \"xla\": no port where its processes could meet: %s",
                          strerror(errno));
    pthread_detach(thread);
    snprintf(keys->place.port, sizeof keys->place.port, "%d", ntohs(here.sin_port));
    return LS_OK;
}

/* ---- the others ---- */

static int reach(const place *p)
{
    struct addrinfo wanted = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *all = NULL;
    int s = -1;
    if (getaddrinfo(p->host, p->port, &wanted, &all) != 0) return -1;
    for (const struct addrinfo *a = all; a && s < 0; a = a->ai_next) {
        s = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, 0);
        if (s < 0 || connect(s, a->ai_addr, a->ai_addrlen) == 0) continue;
        close(s);
        s = -1;
    }
    freeaddrinfo(all);
    return s;
}

static xla_answer ask(const xla_keys *keys, question q, xla_bytes key, xla_bytes in, xla_bytes *out)
{
    answer a = {.answer = XLA_KEY_LOST};
    memcpy(q.secret, keys->place.secret, sizeof q.secret);
    q.key = key.count;
    q.value = in.count;
    *out = (xla_bytes){0};
    int s = reach(&keys->place);
    if (s < 0) return XLA_KEY_LOST;
    bool done = send_all(s, &q, sizeof q) && send_all(s, key.at, key.count) && send_all(s, in.at, in.count) &&
                receive_all(s, &a, sizeof a) && receive_bytes(s, a.value, out);
    close(s);
    if (!done || a.answer != XLA_KEY_OK) {
        free(out->at);
        out->at = NULL;
    }
    return done ? (xla_answer)a.answer : XLA_KEY_LOST;
}

/* ---- either ---- */

ls_status xla_keys_open(const ls_peers *peers, xla_keys **to, ls_message *why)
{
    xla_keys *keys = calloc(1, sizeof *keys);
    place *all = calloc((size_t)peers->size, sizeof *all);
    ls_status status = keys && all ? LS_OK : xla_refuse(why, LS_ERR_MEMORY, "device \"xla\": no memory");
    if (!status) {
        pthread_condattr_t clock;
        pthread_condattr_init(&clock);
        pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
        pthread_mutex_init(&keys->lock, NULL);
        pthread_cond_init(&keys->changed, &clock);
        pthread_condattr_destroy(&clock);
        keys->is_here = peers->rank == 0;
        if (keys->is_here) status = start(keys, peers->is_local, why);
        if (peers->is_local) snprintf(keys->place.host, sizeof keys->place.host, "127.0.0.1");
        else if (*peers->host) snprintf(keys->place.host, sizeof keys->place.host, "%s", peers->host);
        else gethostname(keys->place.host, sizeof keys->place.host - 1);
    }
    /* A rank that failed takes part, too: the others must not wait for it. */
    place nowhere = {.host = ""};
    ls_message other;
    ls_status gathered = all ? peers->all_gather(peers->user, status ? &nowhere : &keys->place, all, sizeof nowhere,
                                                 status ? &other : why)
                             : LS_OK;
    if (!status) status = gathered;
    if (!status && !*all[0].port)
        status = xla_refuse(why, LS_ERR_PEER, "device \"xla\": rank 0 has no port where processes could meet");
    if (!status) keys->place = all[0], *to = keys;
    else if (keys && !keys->is_here) free(keys);
    free(all);
    return status;
}

xla_answer xla_keys_put(xla_keys *keys, xla_bytes key, xla_bytes value)
{
    xla_bytes nothing;
    if (keys->is_here) return list_put(keys, key, value) ? XLA_KEY_OK : XLA_KEY_LOST;
    xla_answer a = ask(keys, (question){.is_put = 1}, key, value, &nothing);
    free(nothing.at);
    return a;
}

xla_answer xla_keys_get(xla_keys *keys, xla_bytes key, int milliseconds, xla_bytes *value)
{
    if (keys->is_here) return list_get(keys, key, milliseconds, value) ? XLA_KEY_OK : XLA_KEY_MISSING;
    return ask(keys, (question){.milliseconds = milliseconds}, key, (xla_bytes){0}, value);
}
