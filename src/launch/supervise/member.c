/* member.c - the decider of a host that follows a leader. */
#include "launch/supervise/member.h"

#include "base/log.h"
#include "launch/control/token.h"
#include "launch/control/wire.h"
#include "launch/supervise/agent.h"
#include "launch/supervise/leader.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FIRST_PAUSE 0.1 /* seconds between attempts to reach the leader; they grow */
#define LONGEST_PAUSE 1.0
#define LONGEST_GREETING 5.0

typedef enum standing { AWAY, GREETING, JOINED } standing;

typedef struct member {
    ls_agent *agent;
    const ls_plan *plan;
    ls_leader *leader; /* if this process is the leader; else NULL */
    ls_wire wire;
    standing standing;
    char challenge[LS_PROOF];
    int generation;     /* the last one started here */
    ls_budget budget;   /* of the job, as far as known here */
    bool costs_restart; /* losing the leader now costs a restart */
    bool lost;          /* the connection ended; handled at the next tick */
    char why[256];
    double pause;
    int tries;
    int64_t next_try, give_up, greeted, last_tick;
    int64_t remind; /* when to say that the leader is missing */
    bool ending;    /* the job is over: finish as soon as nothing runs */
    int end_code;
    int64_t parted;  /* when the last message to the leader was sent */
    char told[4096]; /* the cause that was printed last */
} member;

/* ---- Messages ------------------------------------------------------------------------------------------------- */

/* A cause comes with the order to stop, and again at the end. */
static void tell_cause(member *m, const char *text, int code)
{
    if (!text || !*text || strcmp(text, m->told) == 0) return;
    snprintf(m->told, sizeof m->told, "%s", text);
    ls_agent_report(m->agent, text, code);
}

static void prepare_end(member *m, int code)
{
    if (m->ending) return;
    m->ending = true;
    m->end_code = code;
}

/* ---- Orders of the leader ------------------------------------------------------------------------------------- */

static void say_hello(member *m, const char *challenge)
{
    const ls_launch_opts *o = &m->plan->opts;
    char proof[LS_PROOF], name[65] = "";
    gethostname(name, sizeof name - 1);
    ls_token_prove(o->token, "host", challenge, proof);
    ls_token_challenge(m->challenge);
    ls_json_writer w = {0};
    ls_json_put_object(&w, NULL);
    ls_json_put_integer(&w, "hello", 1);
    ls_json_put_text(&w, "proof", proof);
    ls_json_put_text(&w, "challenge", m->challenge);
    ls_json_put_text(&w, "host", name);
    ls_json_put_integer(&w, "rank", o->host_rank);
    ls_json_put_integer(&w, "processes", o->num_processes);
    ls_json_put_integer(&w, "generation", m->generation);
    ls_json_put_integer(&w, "attempt", m->budget.used);
    ls_json_put_end(&w);
    ls_wire_send(&m->wire, &w);
}

static void on_welcome(member *m, const char *proof)
{
    char expected[LS_PROOF];
    ls_token_prove(m->plan->opts.token, "leader", m->challenge, expected);
    if (!ls_token_same(proof, expected)) {
        ls_log_line(LS_LOG_ERROR, "launch: the server at %s:%d does not know the job token", m->plan->meeting_host,
                    m->plan->meeting_port);
        prepare_end(m, 1);
        return;
    }
    m->standing = JOINED;
    m->wire.trusted = true;
    m->pause = FIRST_PAUSE;
}

/* Check the numbers of an order to start. NULL: valid; else the name of an invalid one. */
static const char *read_start(const ls_json *order, int processes, int *generation, ls_assignment *a)
{
    const struct {
        const char *name;
        int64_t least, most;
        int *to;
    } numbers[] = {
        {"start", 0, LS_MOST_RESTARTS, generation},
        {"attempt", 0, LS_MOST_RESTARTS, &a->attempt},
        {"hosts", 1, LS_MOST_HOSTS, &a->hosts},
        {"host_rank", 0, LS_MOST_HOSTS - 1, &a->host_rank},
        {"world", processes, LS_MOST_HOSTS * LS_MOST_PROCESSES, &a->world},
        {"first_rank", 0, LS_MOST_HOSTS * LS_MOST_PROCESSES, &a->first_rank},
        {"master_port", 1, 65535, &a->master_port},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        int64_t number = ls_json_integer(ls_json_get(order, numbers[i].name), -1);
        if (number < numbers[i].least || number > numbers[i].most) return numbers[i].name;
        *numbers[i].to = (int)number;
    }
    if (a->host_rank >= a->hosts) return "host_rank";
    return a->first_rank > a->world - processes ? "first_rank" : NULL;
}

static void start(member *m, const ls_json *order)
{
    if (m->agent->phase != LS_AGENT_IDLE || m->ending || m->agent->told) return;
    ls_assignment a = {0};
    int generation;
    const char *wrong = read_start(order, m->plan->opts.num_processes, &generation, &a);
    if (wrong) {
        ls_log_line(LS_LOG_ERROR, "launch: the leader at %s:%d sent an invalid order: %s %lld", m->plan->meeting_host,
                    m->plan->meeting_port, wrong, (long long)ls_json_integer(ls_json_get(order, wrong), -1));
        prepare_end(m, 1);
        return;
    }
    const char *address = ls_json_text(ls_json_get(order, "master_addr"));
    snprintf(a.master_addr, sizeof a.master_addr, "%s", address ? address : "");
    m->generation = generation;
    m->budget.used = a.attempt;
    m->costs_restart = true;
    m->told[0] = '\0';
    ls_agent_start(m->agent, &a);
}

static void on_message(ls_wire *wire, const ls_json *order)
{
    member *m = wire->owner;
    const char *text, *cause = ls_json_text(ls_json_get(order, "cause"));
    int64_t told_code = ls_json_integer(ls_json_get(order, "code"), 1);
    int code = told_code >= 0 && told_code < 256 ? (int)told_code : 1;
    if ((text = ls_json_text(ls_json_get(order, "lockstep")))) say_hello(m, text);
    else if ((text = ls_json_text(ls_json_get(order, "welcome")))) on_welcome(m, text);
    else if ((text = ls_json_text(ls_json_get(order, "refused")))) {
        ls_log_line(LS_LOG_ERROR, "launch: the leader at %s:%d refuses this host: %s", m->plan->meeting_host,
                    m->plan->meeting_port, text);
        prepare_end(m, 1);
    } else if (m->standing != JOINED) {
        return; /* orders from an unverified sender */
    } else if (ls_json_get(order, "start")) {
        start(m, order);
    } else if (ls_json_get(order, "stop")) {
        bool broken = ls_json_bool(ls_json_get(order, "broken"), true);
        if (ls_json_integer(ls_json_get(order, "stop"), -1) != m->generation) return;
        m->costs_restart = broken || !m->plan->opts.elastic;
        ls_agent_stop(m->agent, SIGTERM, broken ? cause : NULL);
        tell_cause(m, cause, code);
    } else if (ls_json_get(order, "end")) {
        tell_cause(m, cause, code);
        prepare_end(m, code);
        ls_agent_stop(m->agent, SIGTERM, NULL);
    }
}

static void on_end(ls_wire *wire, const char *why)
{
    member *m = wire->owner;
    m->lost = true;
    snprintf(m->why, sizeof m->why, "%s", why);
}

/* ---- Events on this host -------------------------------------------------------------------------------------- */

static void failed(ls_agent *agent)
{
    member *m = agent->decider.state;
    const ls_cause *cause = &agent->group.cause;
    char text[4096];
    int code = cause->any ? ls_cause_exit_code(cause) : 1;
    if (cause->any) ls_cause_tell(cause, text, sizeof text);
    else
        snprintf(text, sizeof text, "lockstep: first cause: host %d could not start its workers\n",
                 m->plan->opts.host_rank);
    ls_json_writer w = {0};
    ls_json_put_object(&w, NULL);
    ls_json_put_integer(&w, "failed", m->generation);
    ls_json_put_integer(&w, "code", code);
    ls_json_put_text(&w, "cause", text);
    ls_json_put_bool(&w, "unstarted", cause->unstarted || !agent->could_start);
    ls_json_put_end(&w);
    ls_wire_send(&m->wire, &w);
    if (m->standing != JOINED) tell_cause(m, text, code); /* otherwise the leader sends the first cause of all hosts */
}

static void over(ls_agent *agent)
{
    member *m = agent->decider.state;
    ls_json_writer w = {0};
    ls_json_put_object(&w, NULL);
    ls_json_put_integer(&w, "over", m->generation);
    ls_json_put_bool(&w, "good", agent->could_start && !agent->group.cause.any);
    ls_json_put_end(&w);
    ls_wire_send(&m->wire, &w);
    if (agent->told) prepare_end(m, 128 + agent->told);
}

static void told(ls_agent *agent)
{
    member *m = agent->decider.state;
    ls_wire_say(&m->wire, "leave", agent->told);
    if (m->leader) ls_leader_abandon(m->leader, agent->told);
    if (agent->phase == LS_AGENT_IDLE) prepare_end(m, 128 + agent->told);
}

/* ---- Connection ----------------------------------------------------------------------------------------------- */

/* Become the leader if hosts should connect here. False: this host must listen, but cannot. */
static bool try_to_lead(member *m)
{
    const ls_launch_opts *o = &m->plan->opts;
    bool here = !o->elastic           ? o->host_rank == 0
                : o->leads != LS_AUTO ? o->leads > 0
                                      : ls_wire_is_here(m->plan->meeting_host);
    if (!here) return true;
    ls_message why;
    m->leader = ls_leader_open(m->plan, m->agent->group.loop, m->plan->meeting_port, &why);
    if (!m->leader) {
        if (o->elastic && errno == EADDRINUSE) return true; /* another agent on this machine was faster */
        ls_log_line(LS_LOG_ERROR,
                    "launch: hosts cannot connect here: %s. Use another port (--main_process_port), or free it",
                    why.text);
        return false;
    }
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return false;
    if (!ls_leader_adopt(m->leader, ends[0]) || !ls_wire_open(&m->wire, m->agent->group.loop, ends[1], false))
        return false;
    m->standing = GREETING;
    m->greeted = ls_now();
    return true;
}

static void try_to_reach(member *m)
{
    ls_message why;
    m->next_try = ls_after(m->pause);
    m->pause = m->pause * 2 < LONGEST_PAUSE ? m->pause * 2 : LONGEST_PAUSE;
    if (!try_to_lead(m)) { /* the name may refer to this host now, or the leader was on this machine */
        prepare_end(m, 1);
        return;
    }
    if (m->leader) return;
    int fd = ls_wire_connect(m->plan->meeting_host, m->plan->meeting_port, m->tries++, &why);
    if (fd < 0) {
        snprintf(m->why, sizeof m->why, "%s", why.text);
        return;
    }
    if (ls_wire_open(&m->wire, m->agent->group.loop, fd, true)) m->standing = GREETING;
    m->greeted = ls_now();
}

static void handle_loss(member *m)
{
    const ls_launch_opts *o = &m->plan->opts;
    bool was_member = m->standing == JOINED;
    m->lost = false;
    m->standing = AWAY;
    ls_wire_close(&m->wire);
    if (m->ending || m->agent->told || !was_member) return;
    m->give_up = ls_after(o->join_timeout);
    m->remind = ls_after(LS_GATHER_QUIET);
    m->next_try = ls_after(m->pause);
    char text[512];
    snprintf(text, sizeof text, "lockstep: first cause: the leader at %s:%d was lost: %.200s\n", m->plan->meeting_host,
             m->plan->meeting_port, m->why);
    ls_agent_stop(m->agent, SIGTERM, text);
    if (!m->told[0] || m->agent->phase == LS_AGENT_IDLE)
        tell_cause(m, text, 1); /* otherwise there was an earlier cause */
    if (m->costs_restart && !ls_budget_take(&m->budget, o, m->agent->began)) prepare_end(m, 1);
    m->costs_restart = false;
}

static void check_connection(member *m, int64_t now)
{
    const ls_launch_opts *o = &m->plan->opts;
    int64_t beat = (int64_t)(o->heartbeat * 1e9), dead = (int64_t)(o->dead_after * 1e9);
    bool slept = now - m->last_tick > beat + dead / 2;
    m->last_tick = now;
    if (m->standing == JOINED && now - m->wire.spoke >= beat) ls_wire_say(&m->wire, "beat", m->generation);
    /* A suspended process may have missed messages; if the leader gave it up meanwhile, the connection is closed. */
    if (slept) m->wire.heard = now;
    bool silent = m->standing == JOINED && ls_wire_is_silent(&m->wire, now, dead);
    bool ungreeted = m->standing == GREETING && now - m->greeted > (int64_t)(LONGEST_GREETING * 1e9);
    if ((silent || ungreeted) && !m->lost) on_end(&m->wire, silent ? "no heartbeat" : "no greeting");
    if (m->lost) handle_loss(m);
    if (m->standing != AWAY || m->ending || m->agent->phase != LS_AGENT_IDLE || now < m->next_try) return;
    if (now >= m->remind) {
        ls_log_line(LS_LOG_WARN, "launch: no leader at %s:%d yet: %.200s; this host tries for %.0f s (join_timeout)",
                    m->plan->meeting_host, m->plan->meeting_port, m->why, o->join_timeout);
        m->remind = ls_after(LS_GATHER_REMIND);
    }
    if (now >= m->give_up) {
        char text[512];
        snprintf(text, sizeof text, "lockstep: first cause: no leader at %s:%d within %.0f s: %.200s\n",
                 m->plan->meeting_host, m->plan->meeting_port, o->join_timeout, m->why);
        tell_cause(m, text, 1);
        prepare_end(m, 1);
        return;
    }
    try_to_reach(m);
}

/* ---- The decider ---------------------------------------------------------------------------------------------- */

/* Wait until the last message has been delivered: from the leader to all hosts, from another host to the leader. */
static bool is_parting(member *m)
{
    if (m->leader) return ls_leader_is_parting(m->leader);
    if (ls_wire_is_open(&m->wire) && !m->wire.parting) {
        m->parted = ls_now();
        ls_wire_part(&m->wire);
    }
    return ls_wire_is_open(&m->wire) && ls_now() < m->parted + (int64_t)(LS_CLOSE_TIMEOUT * 1e9);
}

static int64_t tick(ls_agent *agent)
{
    member *m = agent->decider.state;
    int64_t now = ls_now(), next = m->leader ? ls_leader_tick(m->leader) : LS_NEVER;
    check_connection(m, now);
    if (m->ending && agent->phase == LS_AGENT_IDLE && !is_parting(m)) ls_agent_finish(agent, m->end_code);
    int64_t beat = now + (int64_t)(m->plan->opts.heartbeat * 0.5e9);
    int64_t dead = m->wire.heard + (int64_t)(m->plan->opts.dead_after * 1e9) + 1;
    if (m->standing == AWAY && m->next_try > now && m->next_try < next) next = m->next_try;
    if (m->standing == JOINED && dead < next) next = dead;
    return beat < next ? beat : next;
}

static void begin(ls_agent *agent)
{
    member *m = agent->decider.state;
    m->agent = agent;
    m->pause = FIRST_PAUSE;
    m->last_tick = ls_now();
    m->give_up = ls_after(m->plan->opts.join_timeout);
    m->remind = ls_after(LS_GATHER_QUIET);
    m->wire.on_message = on_message;
    m->wire.on_end = on_end;
    m->wire.owner = m;
    if (!try_to_lead(m)) ls_agent_finish(agent, 1);
    else if (!m->leader) {
        ls_log_line(LS_LOG_INFO, "looking for the leader at %s:%d", m->plan->meeting_host, m->plan->meeting_port);
    }
}

int ls_supervise_hosts(const ls_plan *plan)
{
    member m = {.plan = plan};
    ls_agent agent = {.decider = {failed, over, told, tick, &m}};
    int code = ls_agent_run(&agent, plan, begin);
    ls_wire_close(&m.wire);
    ls_leader_close(m.leader);
    return code;
}
