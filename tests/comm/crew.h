/* crew.h - a job of several ranks: forked processes, or threads where a sanitizer must see everything. They can act as
 * ranks of several hosts. */
#ifndef LOCKSTEP_TESTS_COMM_CREW_H
#define LOCKSTEP_TESTS_COMM_CREW_H

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/config.h"
#include "check.h"
#include "comm/hosts/hosts.h"
#include "comm/hosts/transport.h"
#include "comm/shm/shm.h"
#include "comm/wires.h"

enum { CREW_MOST = 8 };

/* What a rank leaves behind. */
typedef struct crew_result {
    ls_status status;
    ls_message why;
    int64_t when; /* when it got the status, by ls_comm_clock() */
    int wait;     /* exit status of its process */
    bool closed;  /* the body has closed the communicator */
} crew_result;

typedef void crew_fn(ls_comm *comm, crew_result *result);

/* The host of each rank, one character each ("0011"); NULL: all on one. And the transport between them. */
static const char *crew_layout;
static const ls_transport *crew_transport = &wires_transport;
static int crew_direct; /* hosts that exchange directly; 0: default */
/* In a part of the crew: the job's rank of each member. */
static _Thread_local const int *crew_names;

__attribute__((unused)) static int crew_host(int rank)
{
    return crew_layout ? crew_layout[crew_names ? crew_names[rank] : rank] : 0;
}

typedef struct crew {
    int size;
    int file[CREW_MOST], width[CREW_MOST]; /* of the host of each rank: its shared memory, its number of ranks */
    int boot;                              /* memory of all ranks, to exchange addresses */
    pid_t pid[CREW_MOST];
    crew_result *result; /* [size] */
} crew;

/* Load a plug-in as the transport between hosts. */
__attribute__((unused)) static void crew_load(const char *file)
{
    ls_message why = {{0}};
    crew_transport = ls_transport_load(file, &why);
    CHECK_MSG(crew_transport, "%s", why.text);
    if (!crew_transport) exit(1);
}

/* Create the segments of all hosts. */
__attribute__((unused)) static void crew_make(crew *c, int size)
{
    ls_message why = {{0}};
    *c = (crew){.size = size};
    for (int r = 0; r < size; r++) {
        int first = 0;
        while (crew_host(first) != crew_host(r)) first++;
        for (int other = 0; other < size; other++) c->width[r] += crew_host(other) == crew_host(r);
        c->file[r] = first < r ? c->file[first] : ls_segment_make(c->width[r], &why);
        CHECK_MSG(c->file[r] >= 0, "%s", why.text);
    }
    c->boot = ls_segment_make(size, &why);
    if (crew_layout) wires_make(size);
}

__attribute__((unused)) static void crew_unmake(crew *c)
{
    for (int r = 0; r < c->size; r++)
        if (c->file[r] >= 0) {
            for (int other = r + 1; other < c->size; other++)
                if (c->file[other] == c->file[r]) c->file[other] = -1;
            close(c->file[r]);
        }
    close(c->boot);
}

__attribute__((unused)) static ls_status crew_gather(void *boot, const void *mine, size_t bytes, void *all,
                                                     ls_message *why)
{
    return ls_comm_all_gather(boot, mine, all, bytes, "addresses", why);
}

/* Ranks of several hosts exchange addresses through memory that they share after all. */
__attribute__((unused)) static ls_comm *crew_join(ls_segment *segment, ls_segment *boot, int size, int rank,
                                                  ls_message *why)
{
    int host[CREW_MOST];
    if (!crew_layout) return ls_shm_join(segment, rank, why);
    for (int r = 0; r < size; r++) host[r] = crew_host(r);
    ls_comm *all = ls_shm_join(boot, rank, why);
    ls_hosts_opts opts = {.transport = crew_transport, .rank = rank, .size = size, .host = host};
    opts.segment = segment;
    opts.all_gather = crew_gather;
    opts.user = all;
    opts.direct = crew_direct;
    ls_comm *comm = all ? ls_hosts_join(&opts, why) : NULL;
    ls_comm_close(all);
    return comm;
}

__attribute__((unused)) static void crew_work(ls_segment *segment, ls_segment *boot, int size, int rank, crew_fn *body,
                                              crew_result *result)
{
    ls_comm *comm = crew_join(segment, boot, size, rank, &result->why);
    result->status = comm ? LS_OK : LS_ERR_PEER;
    if (comm) body(comm, result);
    result->when = ls_comm_clock();
    if (!result->closed) ls_comm_close(comm);
}

/* Start as processes. Files stay open here, as they would in a launcher. */
__attribute__((unused)) static void crew_start(crew *c, int size, crew_fn *body)
{
    crew_make(c, size);
    c->result = mmap(NULL, sizeof *c->result * CREW_MOST, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    fflush(NULL);
    for (int r = 0; r < size; r++) {
        c->pid[r] = fork();
        if (c->pid[r]) continue;
        check_failures_here = 0;
        if (crew_layout) wires_keep(size, r);
        ls_message *why = &c->result[r].why;
        ls_segment *segment = ls_segment_open(dup(c->file[r]), c->width[r], why);
        ls_segment *boot = ls_segment_open(dup(c->boot), size, why);
        if (segment && boot) crew_work(segment, boot, size, r, body, &c->result[r]);
        ls_segment_release(segment);
        ls_segment_release(boot);
        fflush(NULL);
        _exit(check_failures_here != 0);
    }
    if (crew_layout) wires_keep(size, -1);
}

/* Wait for all to end. Results stay until crew_forget(). */
__attribute__((unused)) static void crew_end(crew *c)
{
    for (int r = 0; r < c->size; r++) waitpid(c->pid[r], &c->result[r].wait, 0);
}

/* A rank must have been told that rank 0 waited for `seconds`, or for longer where the machine is busy. */
__attribute__((unused)) static void crew_check_waited(const crew *c, int rank, double seconds)
{
    static const char words[] = "rank 0 waited ";
    const char *told = c->result[rank].why.text, *at = strstr(told, words);
    CHECK_MSG(c->result[rank].status == LS_ERR_PEER && at && atof(at + strlen(words)) >= seconds, "rank %d: \"%s\"",
              rank, told);
}

__attribute__((unused)) static void crew_forget(crew *c)
{
    munmap(c->result, sizeof *c->result * CREW_MOST);
    crew_unmake(c);
}

/* All processes must exit successfully. */
__attribute__((unused)) static void crew_run(int size, crew_fn *body)
{
    crew c;
    crew_start(&c, size, body);
    crew_end(&c);
    for (int r = 0; r < size; r++)
        CHECK_MSG(c.result[r].wait == 0, "rank %d of %d: %x: %s", r, size, c.result[r].wait, c.result[r].why.text);
    crew_forget(&c);
}

typedef struct crew_thread {
    ls_segment *segment, *boot;
    int rank, size;
    crew_fn *body;
    crew_result result;
    pthread_t thread;
} crew_thread;

__attribute__((unused)) static void *crew_thread_run(void *arg)
{
    crew_thread *t = arg;
    crew_work(t->segment, t->boot, t->size, t->rank, t->body, &t->result);
    return NULL;
}

__attribute__((unused)) static void crew_run_threads(int size, crew_fn *body)
{
    ls_message why = {{0}};
    crew c;
    crew_thread t[CREW_MOST];
    crew_make(&c, size);
    ls_segment *boot = ls_segment_open(dup(c.boot), size, &why), *segment[CREW_MOST];
    CHECK_MSG(boot, "%s", why.text);
    for (int r = 0; r < size; r++) {
        int first = 0;
        while (c.file[first] != c.file[r]) first++;
        segment[r] = first < r ? segment[first] : ls_segment_open(dup(c.file[r]), c.width[r], &why);
        CHECK_MSG(segment[r], "%s", why.text);
        if (first < r) ls_segment_hold(segment[r]);
        t[r] = (crew_thread){.segment = segment[r], .boot = boot, .rank = r, .size = size, .body = body};
        pthread_create(&t[r].thread, NULL, crew_thread_run, &t[r]);
    }
    for (int r = 0; r < size; r++) pthread_join(t[r].thread, NULL);
    for (int r = 0; r < size; r++) {
        CHECK_MSG(t[r].result.status == LS_OK, "rank %d: %s", r, t[r].result.why.text);
        ls_segment_release(segment[r]);
    }
    ls_segment_release(boot);
    crew_unmake(&c);
}

#endif
