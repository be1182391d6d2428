/* team.h - several processes played by threads: shared memory between them, and a run for each. */
#ifndef LOCKSTEP_TESTS_RUN_TEAM_H
#define LOCKSTEP_TESTS_RUN_TEAM_H

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "comm/shm.h"
#include "run/session.h"

enum { TEAM_MAX = 8 };

typedef struct member {
    ls_segment *segment;
    int rank;
    void (*body)(ls_run *run);
    pthread_t thread;
} member;

static void *team_thread(void *arg)
{
    member *m = arg;
    ls_message why = {{0}};
    ls_comm *comm = ls_shm_join(m->segment, m->rank, &why);
    CHECK_MSG(comm, "%s", why.text);
    if (!comm) return NULL;
    ls_run *run = ls_init(NULL, NULL);
    ls_session_join(run, comm);
    m->body(run);
    ls_finish(run);
    return NULL;
}

/* Run the body on as many processes. */
__attribute__((unused)) static void team_run(int size, void (*body)(ls_run *run))
{
    ls_message why = {{0}};
    ls_segment *segment = ls_segment_open(ls_segment_make(size, &why), size, &why);
    CHECK_MSG(segment, "%s", why.text);
    member members[TEAM_MAX];
    for (int r = 0; r < size; r++) {
        members[r] = (member){.segment = segment, .rank = r, .body = body};
        pthread_create(&members[r].thread, NULL, team_thread, &members[r]);
    }
    for (int r = 0; r < size; r++) pthread_join(members[r].thread, NULL);
    ls_segment_let_go(segment);
}

/* The same with processes made by fork. What they leave must be in memory that they share with this one. */
__attribute__((unused)) static void team_fork(int size, void (*body)(ls_run *run))
{
    ls_message why = {{0}};
    int file = ls_segment_make(size, &why);
    pid_t pid[TEAM_MAX];
    fflush(NULL);
    for (int r = 0; r < size; r++) {
        pid[r] = fork();
        if (pid[r]) continue;
        check_failures_here = 0;
        member m = {.segment = ls_segment_open(file, size, &why), .rank = r, .body = body};
        CHECK_MSG(m.segment, "%s", why.text);
        if (m.segment) team_thread(&m);
        fflush(NULL);
        _exit(check_failures_here != 0);
    }
    close(file);
    for (int r = 0; r < size; r++) {
        int status = -1;
        waitpid(pid[r], &status, 0);
        CHECK_MSG(status == 0, "rank %d of %d ended with %x", r, size, status);
    }
}

#endif
