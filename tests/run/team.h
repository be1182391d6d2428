/* team.h - several processes, or threads in their place, with a run for each. They may be on several hosts: crew.h. */
#ifndef LOCKSTEP_TESTS_RUN_TEAM_H
#define LOCKSTEP_TESTS_RUN_TEAM_H

#include "check.h"
#include "comm/crew.h"
#include "run/session.h"

enum { TEAM_MAX = CREW_MOST };

static void (*team_body)(ls_run *run);
static const char *team_device; /* NULL: the CPU */

static void team_member(ls_comm *comm, crew_result *result)
{
    ls_run *run = ls_init(NULL, NULL, .device = team_device);
    ls_session_join(run, comm);
    team_body(run);
    ls_finish(run);
    result->closed = true;
}

/* Run the body on `size` processes. */
__attribute__((unused)) static void team_run(int size, void (*body)(ls_run *run))
{
    team_body = body;
    crew_run_threads(size, team_member);
}

/* The same with forked processes, whose results must be in memory shared with this one. */
__attribute__((unused)) static void team_fork(int size, void (*body)(ls_run *run))
{
    team_body = body;
    crew_run(size, team_member);
}

/* All parameters, one after the other. Returns how many numbers they have. */
__attribute__((unused)) static int64_t team_read(ls_module *model, float *values)
{
    ls_state *parameters = ls_parameters(model);
    int64_t count = 0;
    for (int64_t i = 0; i < ls_state_count(parameters); i++) {
        ls_tensor *t = ls_state_tensor(parameters, i);
        CHECK(ls_read(t, values + count, (size_t)ls_numel(t) * sizeof(float)));
        count += ls_numel(t);
    }
    return count;
}

#endif
