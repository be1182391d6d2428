/* team.h - several processes, or threads that play them, with a run for each. They may be of several hosts: crew.h. */
#ifndef LOCKSTEP_TESTS_RUN_TEAM_H
#define LOCKSTEP_TESTS_RUN_TEAM_H

#include "check.h"
#include "comm/crew.h"
#include "run/session.h"

enum { TEAM_MAX = CREW_MOST };

static void (*team_body)(ls_run *run);

static void team_member(ls_comm *comm, crew_result *result)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_session_join(run, comm);
    team_body(run);
    ls_finish(run);
    result->closed = true;
}

/* Run the body on as many processes. */
__attribute__((unused)) static void team_run(int size, void (*body)(ls_run *run))
{
    team_body = body;
    crew_run_threads(size, team_member);
}

/* The same with processes made by fork. What they leave must be in memory that they share with this one. */
__attribute__((unused)) static void team_fork(int size, void (*body)(ls_run *run))
{
    team_body = body;
    crew_run(size, team_member);
}

#endif
