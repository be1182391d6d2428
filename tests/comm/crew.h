/* crew.h - a job of several ranks on this host: processes made by fork, or threads where a sanitizer must see all. */
#ifndef LOCKSTEP_TESTS_COMM_CREW_H
#define LOCKSTEP_TESTS_COMM_CREW_H

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/config.h"
#include "check.h"
#include "comm/shm.h"

enum { CREW_MOST = 8 };

/* What a rank leaves behind. */
typedef struct crew_result {
    ls_status status;
    ls_message why;
    int64_t when; /* it had the status, by ls_comm_clock() */
    int wait;     /* status of its process */
} crew_result;

typedef void crew_fn(ls_comm *comm, crew_result *result);

typedef struct crew {
    int size, file;
    pid_t pid[CREW_MOST];
    crew_result *result; /* [size] */
} crew;

__attribute__((unused)) static void crew_work(ls_segment *segment, int rank, crew_fn *body, crew_result *result)
{
    ls_comm *comm = ls_shm_join(segment, rank, &result->why);
    result->status = comm ? LS_OK : LS_ERR_PEER;
    if (comm) body(comm, result);
    result->when = ls_comm_clock();
    ls_comm_close(comm);
}

/* Begin as processes. The file stays open here, as it would in a launcher. */
__attribute__((unused)) static void crew_start(crew *c, int size, crew_fn *body)
{
    ls_message why = {{0}};
    c->size = size;
    c->file = ls_segment_make(size, &why);
    CHECK_MSG(c->file >= 0, "%s", why.text);
    c->result = mmap(NULL, sizeof *c->result * CREW_MOST, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    fflush(NULL);
    for (int r = 0; r < size; r++) {
        c->pid[r] = fork();
        if (c->pid[r]) continue;
        check_failures_here = 0;
        ls_segment *segment = ls_segment_open(c->file, size, &c->result[r].why);
        if (segment) crew_work(segment, r, body, &c->result[r]);
        ls_segment_let_go(segment);
        fflush(NULL);
        _exit(check_failures_here != 0);
    }
}

/* Wait for the end of all, and forget them. Results stay until crew_forget(). */
__attribute__((unused)) static void crew_end(crew *c)
{
    for (int r = 0; r < c->size; r++) waitpid(c->pid[r], &c->result[r].wait, 0);
}

__attribute__((unused)) static void crew_forget(crew *c)
{
    munmap(c->result, sizeof *c->result * CREW_MOST);
    close(c->file);
}

/* All processes must end well. */
__attribute__((unused)) static void crew_run(int size, crew_fn *body)
{
    crew c;
    crew_start(&c, size, body);
    crew_end(&c);
    for (int r = 0; r < size; r++) CHECK_MSG(c.result[r].wait == 0, "rank %d of %d: %x", r, size, c.result[r].wait);
    crew_forget(&c);
}

typedef struct crew_thread {
    ls_segment *segment;
    int rank;
    crew_fn *body;
    crew_result result;
    pthread_t thread;
} crew_thread;

__attribute__((unused)) static void *crew_thread_run(void *arg)
{
    crew_thread *t = arg;
    crew_work(t->segment, t->rank, t->body, &t->result);
    return NULL;
}

__attribute__((unused)) static void crew_run_threads(int size, crew_fn *body)
{
    ls_message why = {{0}};
    crew_thread t[CREW_MOST];
    ls_segment *segment = ls_segment_open(ls_segment_make(size, &why), size, &why);
    CHECK_MSG(segment, "%s", why.text);
    for (int r = 0; r < size; r++) {
        t[r] = (crew_thread){.segment = segment, .rank = r, .body = body};
        pthread_create(&t[r].thread, NULL, crew_thread_run, &t[r]);
    }
    for (int r = 0; r < size; r++) pthread_join(t[r].thread, NULL);
    ls_segment_let_go(segment);
}

#endif
