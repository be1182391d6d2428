/* leader.c - decides for all hosts. */
#include "launch/supervise/leader.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/status.h"
#include "launch/control/refusals.h"
#include "launch/control/token.h"
#include "launch/control/wire.h"
#include "launch/supervise/agent.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { UNVERIFIED = 64 }; /* most unverified connections */
#define LONGEST_HELLO 5.0 /* seconds in which they must identify themselves */
#define SECOND_CALL 5.0 /* most seconds to wait for latecomers after the first generation, while the others are idle */

typedef enum phase { GATHERING, RUNNING, DRAINING, ENDED } phase;

/* Why a generation ends: hosts want to join, one was told to leave, something failed. */
typedef enum reason { JOINED, LEFT, BROKEN } reason;

typedef struct host {
    ls_wire wire;
    ls_leader *leader;
    bool lost;        /* the connection is gone; removed at the next tick */
    char why[128];    /* it was lost */
    bool joined;      /* verified */
    bool local;       /* the leader's own host */
    bool taking_part; /* it takes part in the current generation */
    bool over, good;  /* the generation has ended there; all its workers exited with 0 */
    int left;         /* the signal that told it to end; 0: none */
    int wanted;       /* its requested rank; -1: any */
    int rank, processes, order;
    int64_t came;
    char name[65];
    char challenge[LS_PROOF];
    struct host *next;
} host;

struct ls_leader {
    const ls_plan *plan;
    int loop;
    ls_watched_fd listener;
    host *hosts; /* in the order of their connections */
    int order;
    phase phase;
    int generation;
    int port; /* where the workers of this generation find each other */
    ls_budget budget;
    int64_t began, since, last_call, last_tick; /* since: when gathering began */
    int64_t remind;                             /* when to say that hosts are missing */
    reason reason;                              /* why the generation is ending */
    ls_refusals refusals;
    bool no_retry; /* the program cannot be executed: do not retry */
    int code;
    char cause[4096];
};

static bool is_elastic(const ls_leader *l)
{
    return l->plan->opts.elastic;
}

/* ---- Messages ------------------------------------------------------------------------------------------------- */

static void refuse(host *h, const char *why)
{
    ls_json_writer w = {0};
    ls_json_put_object(&w, NULL);
    ls_json_put_text(&w, "refused", why);
    ls_json_put_end(&w);
    ls_wire_send(&h->wire, &w);
    ls_refusals_tell(&h->leader->refusals, "host %s was refused: %s", h->name[0] ? h->name : "(no name)", why);
    ls_wire_part(&h->wire);
}

static void tell_all(ls_leader *l, const char *what, int64_t value, bool only_taking_part)
{
    for (host *h = l->hosts; h; h = h->next) {
        if (!h->joined || h->lost || (only_taking_part && !h->taking_part)) continue;
        ls_json_writer w = {0};
        ls_json_put_object(&w, NULL);
        ls_json_put_integer(&w, what, value);
        ls_json_put_integer(&w, "code", l->code);
        ls_json_put_text(&w, "cause", l->cause);
        ls_json_put_bool(&w, "broken", l->reason == BROKEN);
        ls_json_put_end(&w);
        ls_wire_send(&h->wire, &w);
    }
}

static void end_job(ls_leader *l, int code)
{
    l->phase = ENDED;
    l->code = code;
    l->since = ls_now();
    tell_all(l, "end", code, false);
}

/* ---- Generations ---------------------------------------------------------------------------------------------- */

static int count_joined(const ls_leader *l)
{
    int count = 0;
    for (const host *h = l->hosts; h; h = h->next) count += h->joined && !h->lost && !h->left;
    return count;
}

/* Assign ranks: as the hosts requested; in an elastic job by arrival, the leader's own host first. */
static bool comes_before(const host *a, const host *b)
{
    if (a->wanted >= 0 && b->wanted >= 0) return a->wanted < b->wanted;
    if (a->local != b->local) return a->local;
    return a->order < b->order;
}

static void send_start(ls_leader *l, host *h, int first_rank, int world, int hosts)
{
    const ls_launch_opts *o = &l->plan->opts;
    ls_json_writer w = {0};
    ls_json_put_object(&w, NULL);
    ls_json_put_integer(&w, "start", l->generation);
    ls_json_put_integer(&w, "attempt", l->budget.used);
    ls_json_put_integer(&w, "first_rank", first_rank);
    ls_json_put_integer(&w, "world", world);
    ls_json_put_integer(&w, "host_rank", h->rank);
    ls_json_put_integer(&w, "hosts", hosts);
    ls_json_put_text(&w, "master_addr", o->master_addr);
    ls_json_put_integer(&w, "master_port", l->port);
    ls_json_put_end(&w);
    ls_wire_send(&h->wire, &w);
}

static void start_generation(ls_leader *l)
{
    int hosts = 0, world = 0, most = l->plan->opts.max_hosts;
    for (host *h = l->hosts; h; h = h->next) h->taking_part = h->over = h->good = false;
    for (; hosts < most; hosts++) { /* quadratic search: hosts are few */
        host *best = NULL;
        for (host *h = l->hosts; h; h = h->next) {
            bool free = h->joined && !h->lost && !h->left && !h->taking_part;
            if (free && (!best || comes_before(h, best))) best = h;
        }
        if (!best) break;
        best->taking_part = true;
        best->rank = hosts;
        world += best->processes;
    }
    l->generation++;
    l->phase = RUNNING;
    l->began = ls_now();
    l->no_retry = false;
    l->code = 0;
    l->cause[0] = '\0';
    /* A port of this host, where rank 0 is. Workers of dropped hosts may still use the last one. */
    l->port = ls_port_find(is_elastic(l) ? 0 : l->plan->opts.master_port);
    int first = 0;
    for (int rank = 0; rank < hosts; rank++) {
        host *h = l->hosts;
        while (!h->taking_part || h->rank != rank) h = h->next;
        send_start(l, h, first, world, hosts);
        first += h->processes;
    }
}

/* End the generation; the first reason counts. */
static void drain(ls_leader *l, reason why, int code, const char *cause)
{
    if (l->phase != RUNNING) return;
    l->phase = DRAINING;
    l->reason = why;
    l->code = code;
    snprintf(l->cause, sizeof l->cause, "%s", cause);
    tell_all(l, "stop", l->generation, true);
}

static void gather(ls_leader *l)
{
    l->phase = GATHERING;
    l->since = ls_now();
    l->last_call = LS_NEVER;
    l->remind = ls_after(LS_GATHER_QUIET);
}

/* The generation has ended on all hosts. */
static void finish_generation(ls_leader *l)
{
    bool good = l->phase == RUNNING;
    /* In an elastic job hosts come and go; otherwise losing one ends the job. */
    bool counts = l->reason == BROKEN || (l->reason == LEFT && !is_elastic(l));
    for (host *h = l->hosts; h; h = h->next) h->taking_part = false;
    if (good) end_job(l, 0);
    else if (!counts) gather(l);
    else if (!l->no_retry && ls_budget_take(&l->budget, &l->plan->opts, l->began)) gather(l);
    else end_job(l, l->code);
}

/* ---- Messages from hosts -------------------------------------------------------------------------------------- */

static void on_hello(host *h, const ls_json *m)
{
    ls_leader *l = h->leader;
    char expected[LS_PROOF], proof[LS_PROOF];
    const char *name = ls_json_text(ls_json_get(m, "host")), *challenge = ls_json_text(ls_json_get(m, "challenge"));
    if (name) snprintf(h->name, sizeof h->name, "%s", name);
    ls_token_prove(l->plan->opts.token, "host", h->challenge, expected);
    if (ls_json_integer(ls_json_get(m, "hello"), 0) != 1 || !challenge || strlen(challenge) >= LS_PROOF) {
        refuse(h, "it uses another protocol version");
        return;
    }
    if (!ls_token_same(ls_json_text(ls_json_get(m, "proof")), expected)) {
        refuse(h, "it does not know the job token");
        return;
    }
    int64_t wanted = ls_json_integer(ls_json_get(m, "rank"), -1);
    int64_t processes = ls_json_integer(ls_json_get(m, "processes"), 1);
    int64_t generation = ls_json_integer(ls_json_get(m, "generation"), 0);
    int64_t attempt = ls_json_integer(ls_json_get(m, "attempt"), 0);
    if (!is_elastic(l) && (wanted < 0 || wanted >= l->plan->opts.max_hosts)) {
        refuse(h, "its rank is not part of this job");
        return;
    }
    if (processes < 1 || processes > LS_MOST_PROCESSES) {
        refuse(h, "its number of processes is not between 1 and 4096");
        return;
    }
    if (generation < 0 || generation > LS_MOST_RESTARTS || attempt < 0 || attempt > LS_MOST_RESTARTS) {
        refuse(h, "its number of restarts is too large");
        return;
    }
    h->wanted = is_elastic(l) ? -1 : (int)wanted;
    h->processes = (int)processes;
    for (host *other = l->hosts; other; other = other->next) {
        if (other == h || !other->joined || other->lost || other->left || h->wanted < 0) continue;
        if (other->wanted != h->wanted) continue;
        if (ls_now() - other->wire.heard < (int64_t)(l->plan->opts.heartbeat * 1.5e9)) {
            refuse(h, "another host has this rank");
            return;
        }
        /* It reconnected before its loss was noticed. */
        other->lost = true;
        snprintf(other->why, sizeof other->why, "it reconnected");
    }
    /* A restarted leader continues the counts that the hosts remember. */
    if (generation > l->generation) l->generation = (int)generation;
    if (attempt > l->budget.used) l->budget.used = (int)attempt;
    h->joined = h->wire.trusted = true;
    h->order = ++l->order;
    ls_token_prove(l->plan->opts.token, "leader", challenge, proof);
    ls_json_writer w = {0};
    ls_json_put_object(&w, NULL);
    ls_json_put_text(&w, "welcome", proof);
    ls_json_put_end(&w);
    ls_wire_send(&h->wire, &w);
}

static void on_failed(host *h, const ls_json *m)
{
    ls_leader *l = h->leader;
    const char *cause = ls_json_text(ls_json_get(m, "cause"));
    if (l->phase != RUNNING || !h->taking_part) return;
    int64_t code = ls_json_integer(ls_json_get(m, "code"), 1);
    l->no_retry = ls_json_bool(ls_json_get(m, "unstarted"), false);
    drain(l, BROKEN, code > 0 && code < 256 ? (int)code : 1, cause ? cause : "");
}

static void on_leave(host *h, const ls_json *m)
{
    char cause[256];
    int64_t number = ls_json_integer(ls_json_get(m, "leave"), SIGTERM);
    h->left = number > 0 && number < NSIG ? (int)number : SIGTERM;
    snprintf(cause, sizeof cause, "lockstep: host %s received signal %d\n", h->name, h->left);
    if (h->taking_part) drain(h->leader, LEFT, 128 + h->left, cause);
}

static void on_message(ls_wire *wire, const ls_json *m)
{
    host *h = wire->owner;
    ls_leader *l = h->leader;
    if (ls_json_get(m, "hello")) {
        if (!h->joined) on_hello(h, m);
    } else if (!h->joined) {
        refuse(h, "it did not identify itself");
    } else if (ls_json_get(m, "failed")) {
        if (ls_json_integer(ls_json_get(m, "failed"), -1) == l->generation) on_failed(h, m);
    } else if (ls_json_get(m, "over")) {
        if (ls_json_integer(ls_json_get(m, "over"), -1) != l->generation) return;
        h->over = true;
        h->good = ls_json_bool(ls_json_get(m, "good"), false);
    } else if (ls_json_get(m, "leave")) {
        on_leave(h, m);
    }
}

static void on_end(ls_wire *wire, const char *why)
{
    host *h = wire->owner;
    h->lost = true;
    snprintf(h->why, sizeof h->why, "%s", why);
}

/* ---- Time ----------------------------------------------------------------------------------------------------- */

static void remove_host(ls_leader *l, host *h)
{
    if (h->joined && h->taking_part && !h->over && l->phase != ENDED) {
        char cause[400];
        snprintf(cause, sizeof cause,
                 "lockstep: first cause: host %s with %d worker%s from host rank %d was lost: %s\n", h->name,
                 h->processes, LS_S(h->processes), h->rank, h->why);
        /* With or without notice, a host that leaves an elastic job lets the others continue. */
        if (!h->left) drain(l, BROKEN, 1, cause);
    }
    host **link = &l->hosts;
    while (*link != h) link = &(*link)->next;
    *link = h->next;
    ls_wire_close(&h->wire);
    ls_sys_free(h);
}

/* Send heartbeats and detect silent hosts. Returns when the next is due. */
static int64_t check_hosts(ls_leader *l, int64_t now)
{
    const ls_launch_opts *o = &l->plan->opts;
    int64_t beat = (int64_t)(o->heartbeat * 1e9), dead = (int64_t)(o->dead_after * 1e9);
    /* If this process itself was suspended, the others' silence proves nothing. */
    bool slept = now - l->last_tick > beat + dead / 2;
    l->last_tick = now;
    int64_t due = now + beat / 2;
    for (host *h = l->hosts, *next; h; h = next) {
        next = h->next;
        if (slept) h->wire.heard = now;
        if (!h->lost && ls_wire_is_silent(&h->wire, now, dead)) {
            snprintf(h->why, sizeof h->why, "no heartbeat for %.1f s", (double)(now - h->wire.heard) / 1e9);
            h->lost = true;
        }
        if (!h->lost && !h->joined && now - h->came > (int64_t)(LONGEST_HELLO * 1e9)) {
            snprintf(h->why, sizeof h->why, "it did not identify itself within %g s", LONGEST_HELLO);
            h->lost = true;
        }
        if (!h->lost && h->joined && now - h->wire.spoke >= beat) ls_wire_say(&h->wire, "beat", l->generation);
        if (!h->lost && h->wire.heard + dead < due) due = h->wire.heard + dead + 1;
        if (h->lost) remove_host(l, h);
    }
    return due;
}

/* How long the joined hosts wait for more. */
static int64_t join_wait(const ls_leader *l)
{
    double seconds = l->plan->opts.last_call;
    if (l->generation && seconds > SECOND_CALL) seconds = SECOND_CALL;
    return (int64_t)(seconds * 1e9);
}

static int64_t check_gathering(ls_leader *l, int64_t now)
{
    const ls_launch_opts *o = &l->plan->opts;
    int joined = count_joined(l);
    int64_t too_late = l->since + (int64_t)(o->join_timeout * 1e9);
    if (joined >= o->min_hosts && l->last_call == LS_NEVER) l->last_call = now + join_wait(l);
    if (joined < o->min_hosts) l->last_call = LS_NEVER;
    if (joined >= o->max_hosts || l->last_call <= now) {
        start_generation(l);
        return now;
    }
    if (joined < o->min_hosts && now >= l->remind) {
        ls_log_line(LS_LOG_WARN,
                    "launch: %d of %d hosts have come; the others have %.0f s (join_timeout) to reach %s:%d", joined,
                    o->min_hosts, o->join_timeout, l->plan->meeting_host, l->plan->meeting_port);
        l->remind = ls_after(LS_GATHER_REMIND);
    }
    if (now >= too_late) {
        snprintf(l->cause, sizeof l->cause, "lockstep: first cause: only %d of %d hosts joined within %.0f s\n", joined,
                 o->min_hosts, o->join_timeout);
        end_job(l, 1);
        return now;
    }
    return l->last_call < too_late ? l->last_call : too_late;
}

static void check_generation(ls_leader *l)
{
    bool all_over = true, room = false, spare = false, all_good = true;
    int taking_part = 0;
    for (const host *h = l->hosts; h; h = h->next) {
        if (h->taking_part) {
            taking_part++;
            all_over &= h->over;
            all_good &= h->good;
        } else {
            spare |= h->joined && !h->lost && !h->left;
        }
    }
    /* A new host joins through a restart, but not at once, or a job that hosts join one by one would make no progress.
     * */
    room = taking_part < l->plan->opts.max_hosts && ls_now() > l->began + join_wait(l);
    if (l->phase == RUNNING && spare && room && !all_over) drain(l, JOINED, 0, "");
    if (l->phase == RUNNING && all_over && !all_good) drain(l, BROKEN, 1, "lockstep: a host ended without a cause\n");
    if (all_over) finish_generation(l);
}

int64_t ls_leader_tick(ls_leader *l)
{
    int64_t now = ls_now(), next = check_hosts(l, now), other = LS_NEVER;
    ls_refusals_sum_up(&l->refusals, false);
    if (l->phase == GATHERING) other = check_gathering(l, now);
    if (l->phase == RUNNING || l->phase == DRAINING) check_generation(l);
    return other < next ? other : next;
}

bool ls_leader_is_parting(const ls_leader *l)
{
    bool alone = true;
    for (const host *h = l->hosts; h; h = h->next) alone &= h->local || h->lost || !h->joined;
    return l->phase == ENDED && !alone && ls_now() < l->since + (int64_t)(LS_CLOSE_TIMEOUT * 1e9);
}

void ls_leader_abandon(ls_leader *l, int number)
{
    if (l->phase == ENDED) return;
    char cause[128];
    snprintf(cause, sizeof cause, "lockstep: the leader received signal %d\n", number);
    drain(l, LEFT, 128 + number, cause);
    snprintf(l->cause, sizeof l->cause, "%s", cause);
    /* In an elastic job, or with restarts left, the others wait for the leader to return; they notice the end of the
     * connection. */
    if (!is_elastic(l) && l->plan->opts.max_restarts == 0) end_job(l, 128 + number);
    l->phase = ENDED;
    l->since = ls_now();
    for (host *h = l->hosts; h; h = h->next)
        if (!h->local) ls_wire_part(&h->wire);
}

/* ---- Connections ---------------------------------------------------------------------------------------------- */

static host *add_host(ls_leader *l, int fd)
{
    host *h = ls_sys_alloc(sizeof *h);
    if (!h) {
        close(fd);
        return NULL;
    }
    h->leader = l;
    h->came = ls_now();
    h->wire.on_message = on_message;
    h->wire.on_end = on_end;
    h->wire.owner = h;
    if (!ls_wire_open(&h->wire, l->loop, fd, false)) {
        ls_sys_free(h);
        return NULL;
    }
    host **link = &l->hosts;
    while (*link) link = &(*link)->next;
    *link = h;
    ls_token_challenge(h->challenge);
    ls_json_writer w = {0};
    ls_json_put_object(&w, NULL);
    ls_json_put_text(&w, "lockstep", h->challenge);
    ls_json_put_end(&w);
    ls_wire_send(&h->wire, &w);
    return h;
}

bool ls_leader_adopt(ls_leader *l, int fd)
{
    host *h = add_host(l, fd);
    if (h) h->local = true;
    return h;
}

static bool on_connection(ls_watched_fd *watch, uint32_t events)
{
    (void)events;
    ls_leader *l = watch->owner;
    int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), count = 0, strangers = 0;
    bool full = fd < 0 && (errno == EMFILE || errno == ENFILE);
    host *oldest = NULL;
    for (host *h = l->hosts; h; h = h->next) {
        count += !h->lost;
        if (h->lost || h->joined || h->local) continue;
        strangers++;
        if (!oldest) oldest = h;
    }
    /* A host of the job identifies itself at once: drop the oldest connection that has not. */
    if (oldest && (full || strangers >= UNVERIFIED)) {
        ls_wire_close(&oldest->wire);
        oldest->lost = true;
    }
    if (fd >= 0 && (count >= LS_MOST_HOSTS || l->phase == ENDED)) close(fd);
    else if (fd >= 0) add_host(l, fd);
    return true;
}

ls_leader *ls_leader_open(const ls_plan *plan, int loop, int port, ls_message *why)
{
    int fd = ls_wire_listen(port, why);
    if (fd < 0) return NULL;
    ls_leader *l = ls_sys_alloc(sizeof *l);
    if (!l) {
        close(fd);
        errno = ENOMEM;
        return NULL;
    }
    l->plan = plan;
    l->loop = loop;
    l->last_tick = ls_now();
    l->listener = (ls_watched_fd){.fd = fd, .ready = on_connection, .owner = l};
    ls_loop_watch(loop, &l->listener, EPOLLIN);
    gather(l);
    return l;
}

void ls_leader_close(ls_leader *l)
{
    if (!l) return;
    while (l->hosts) {
        host *next = l->hosts->next;
        ls_wire_close(&l->hosts->wire);
        ls_sys_free(l->hosts);
        l->hosts = next;
    }
    ls_refusals_sum_up(&l->refusals, true);
    ls_loop_watch(l->loop, &l->listener, 0);
    close(l->listener.fd);
    ls_sys_free(l);
}
