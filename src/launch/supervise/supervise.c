/* supervise.c - a job of one host, which needs no agreement. */
#include "launch/supervise/supervise.h"

#include "launch/supervise/agent.h"
#include "launch/supervise/member.h"

#include <stdio.h>

static void start(ls_agent *agent)
{
    const ls_launch_opts *o = &agent->plan->opts;
    const ls_budget *budget = agent->decider.state;
    ls_assignment assignment = {
        .attempt = budget->used, .world = o->num_processes, .hosts = 1, .master_port = o->master_port};
    snprintf(assignment.master_addr, sizeof assignment.master_addr, "%s", o->master_addr);
    ls_agent_start(agent, &assignment);
}

static void over(ls_agent *agent)
{
    const ls_cause *cause = &agent->group.cause;
    char text[5000];
    if (agent->told) ls_agent_finish(agent, 128 + agent->told);
    else if (!agent->could_start) ls_agent_finish(agent, 1);
    else if (!cause->any) ls_agent_finish(agent, 0);
    else {
        ls_cause_tell(cause, text, sizeof text);
        ls_agent_report(agent, text, ls_cause_exit_code(cause));
        if (!cause->unstarted && ls_budget_take(agent->decider.state, &agent->plan->opts, agent->began)) start(agent);
        else ls_agent_finish(agent, ls_cause_exit_code(cause));
    }
}

int ls_supervise(const ls_plan *plan)
{
    if (plan->opts.max_hosts > 1) return ls_supervise_hosts(plan);
    ls_budget budget = {0};
    ls_agent agent = {.decider = {.over = over, .state = &budget}};
    return ls_agent_run(&agent, plan, start);
}
