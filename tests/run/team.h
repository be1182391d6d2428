/* team.h - several processes played by threads: shared memory between them, and a run for each. */
#ifndef LOCKSTEP_TESTS_RUN_TEAM_H
#define LOCKSTEP_TESTS_RUN_TEAM_H

#include <pthread.h>

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
static void team_run(int size, void (*body)(ls_run *run))
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

#endif
