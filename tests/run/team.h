/* team.h - several processes played by threads: a communicator between them, and a run for each. */
#ifndef LOCKSTEP_TESTS_RUN_TEAM_H
#define LOCKSTEP_TESTS_RUN_TEAM_H

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "run/session.h"

enum { TEAM_MAX = 8 };

typedef struct team {
    int size;
    pthread_barrier_t barrier;
    const void *slot[TEAM_MAX];
} team;

typedef struct member {
    ls_comm comm; /* first */
    team *team;
    void (*body)(ls_run *run);
    pthread_t thread;
} member;

static team *team_of(ls_comm *comm)
{
    return ((member *)comm)->team;
}

static void team_meet(ls_comm *comm)
{
    pthread_barrier_wait(&team_of(comm)->barrier);
}

static ls_status team_gather(ls_comm *comm, const void *mine, void *all, size_t bytes, ls_message *why)
{
    (void)why;
    team_of(comm)->slot[comm->rank] = mine;
    team_meet(comm);
    for (int r = 0; r < comm->size; r++) memcpy((char *)all + (size_t)r * bytes, team_of(comm)->slot[r], bytes);
    team_meet(comm);
    return LS_OK;
}

static double team_combine(double a, double b, ls_comm_op op)
{
    if (op == LS_COMM_SUM) return a + b;
    return (op == LS_COMM_MAX) == (a > b) ? a : b;
}

static ls_status team_reduce(ls_comm *comm, void *data, int64_t count, ls_dtype dtype, ls_comm_op op, ls_message *why)
{
    size_t bytes = (size_t)count * ls_dtype_size(dtype);
    char *all = malloc(bytes * (size_t)comm->size + 1);
    team_gather(comm, data, all, bytes, why);
    for (int64_t i = 0; i < count; i++) {
        double sum = 0;
        for (int r = 0; r < comm->size; r++) {
            const char *from = all + (size_t)r * bytes;
            double x = dtype == LS_F32 ? (double)((const float *)(const void *)from)[i]
                                       : ((const int32_t *)(const void *)from)[i];
            sum = r ? team_combine(sum, x, op) : x;
        }
        if (dtype == LS_F32) ((float *)data)[i] = (float)sum;
        else ((int32_t *)data)[i] = (int32_t)sum;
    }
    free(all);
    return LS_OK;
}

static ls_status team_broadcast(ls_comm *comm, void *data, size_t bytes, int from, ls_message *why)
{
    (void)why;
    team_of(comm)->slot[comm->rank] = data;
    team_meet(comm);
    if (comm->rank != from) memcpy(data, team_of(comm)->slot[from], bytes);
    team_meet(comm);
    return LS_OK;
}

static ls_status team_barrier(ls_comm *comm, ls_message *why)
{
    (void)why;
    team_meet(comm);
    return LS_OK;
}

static void team_close(ls_comm *comm)
{
    (void)comm;
}

static void *team_thread(void *arg)
{
    member *m = arg;
    ls_run *run = ls_init(NULL, NULL);
    ls_session_join(run, &m->comm);
    m->body(run);
    ls_finish(run);
    return NULL;
}

/* Run the body on as many processes. */
static void team_run(int size, void (*body)(ls_run *run))
{
    static const ls_comm_table table = {"team", team_reduce, team_gather, team_broadcast, team_barrier, team_close};
    team t = {.size = size};
    member members[TEAM_MAX];
    pthread_barrier_init(&t.barrier, NULL, (unsigned)size);
    for (int r = 0; r < size; r++) {
        members[r] = (member){.comm = {&table, r, size}, .team = &t, .body = body};
        pthread_create(&members[r].thread, NULL, team_thread, &members[r]);
    }
    for (int r = 0; r < size; r++) pthread_join(members[r].thread, NULL);
    pthread_barrier_destroy(&t.barrier);
}

#endif
