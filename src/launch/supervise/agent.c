/* agent.c - the event loop of a host. */
#include "launch/supervise/agent.h"

#include "base/config.h"
#include "base/descriptors.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A group that repeatedly fails this soon after its start is given up. */
#define QUICK_FAILURE 10.0

/* ---- Messages ------------------------------------------------------------------------------------------------- */

static const char *signal_name(int number)
{
    const char *name = sigabbrev_np(number);
    return name ? name : "?";
}

/* Kubernetes shows this file as the reason why a container ended. */
static void write_termination_log(const char *text)
{
    int fd = open(ls_config_text(LS_SETTING_TERMINATION_LOG), O_WRONLY | O_TRUNC | O_CLOEXEC);
    if (fd < 0) return;
    size_t length = strlen(text) < 4096 ? strlen(text) : 4096;
    if (write(fd, text, length) < 0) ls_log_line(LS_LOG_DEBUG, "no termination log: %s", strerror(errno));
    close(fd);
}

/* A launcher above this one reads the cause as this one reads its workers' causes. */
static void write_error_file(const ls_agent *a, const char *text, int code)
{
    const char *path = ls_environment_get(a->plan->inherited, "TORCHELASTIC_ERROR_FILE");
    if (!path || !*path) return;
    ls_json_writer w = {0};
    char stamp[32];
    snprintf(stamp, sizeof stamp, "%lld", (long long)time(NULL));
    ls_json_put_object(&w, NULL);
    ls_json_put_object(&w, "message");
    ls_json_put_text(&w, "message", text);
    ls_json_put_object(&w, "extraInfo");
    ls_json_put_text(&w, "timestamp", stamp);
    ls_json_put_end(&w);
    ls_json_put_integer(&w, "errorCode", code);
    ls_json_put_end(&w);
    ls_json_put_end(&w);
    char *json = ls_json_take(&w, NULL);
    FILE *file = json ? fopen(path, "w") : NULL;
    if (file) fputs(json, file);
    if (file) fclose(file);
    ls_sys_free(json);
}

/* Line by line and printable, since other hosts and workers contributed to it. */
static void make_printable(const char *words, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t length; *words && used + 1 < size; words += length + (words[length] == '\n')) {
        char line[2000];
        length = strcspn(words, "\n");
        snprintf(line, sizeof line, "%.*s", (int)length, words);
        int wrote = snprintf(text + used, size - used, "%s%s", ls_printable(line, sizeof line, line),
                             words[length] ? "\n" : "");
        used += (size_t)wrote;
    }
}

void ls_agent_report(ls_agent *a, const char *words, int code)
{
    char text[5000];
    make_printable(words, text, sizeof text);
    if (!a->plan->opts.quiet) ls_output_sink_say(&a->group.sink[1], text);
    if (!a->plan->opts.quiet && !a->group.logs.temporary && a->group.logs.root[0]) {
        char where[700];
        snprintf(where, sizeof where, "lockstep: logs of all workers: %s\n", a->group.logs.root);
        ls_output_sink_say(&a->group.sink[1], where);
    }
    write_termination_log(text);
    write_error_file(a, text, code);
}

/* ---- Events --------------------------------------------------------------------------------------------------- */

void ls_agent_stop(ls_agent *a, int number, const char *report)
{
    if (a->phase != LS_AGENT_RUNNING) return;
    if (report && *report) {
        char line[512];
        ls_cause_headline(report, line, sizeof line);
        ls_worker_group_abort(&a->group, line);
    }
    a->phase = LS_AGENT_STOPPING;
    a->group.stopping = true;
    a->kill_at = ls_after(a->plan->opts.shutdown_timeout);
    ls_worker_group_signal(&a->group, number);
}

static void on_end_signal(ls_agent *a, int number)
{
    if (a->told) { /* a second request: kill at once, unless it is the first one by another route */
        if (number != a->relayed) a->kill_at = ls_now();
        a->relayed = 0;
        return;
    }
    a->told = number;
    ls_log_line(LS_LOG_INFO, "SIG%s: forwarded to %d worker%s, %.0f s to end", signal_name(number), a->group.running,
                LS_S(a->group.running), a->plan->opts.shutdown_timeout);
    if (a->phase == LS_AGENT_RUNNING) ls_agent_stop(a, number, NULL);
    else ls_worker_group_signal(&a->group, number);
    if (a->decider.told) a->decider.told(a);
}

/* A signal that the program above received: its number, negative from the second on; 0: the program is gone. Signals of
 * a terminal, and those to a whole process group, arrive both ways. */
static void on_relay(ls_agent *a, int number)
{
    if (a->told && number < 0) a->kill_at = ls_now();
    if (a->told) return;
    on_end_signal(a, number ? abs(number) : SIGTERM);
    a->relayed = a->told;
}

static bool on_signal(ls_watched_fd *watch, uint32_t events)
{
    (void)events;
    ls_agent *a = watch->owner;
    struct signalfd_siginfo info;
    while (read(watch->fd, &info, sizeof info) == sizeof info) {
        int number = (int)info.ssi_signo;
        if (number == LS_AGENT_RELAY) {
            on_relay(a, info.ssi_int);
            continue;
        }
        switch (number) {
        case SIGCHLD: ls_worker_group_reap(&a->group); break;
        case SIGTERM:
        case SIGINT:
        case SIGHUP:
        case SIGQUIT: on_end_signal(a, number); break;
        case SIGTSTP: /* workers have their own sessions, so the terminal does not stop them */
            ls_worker_group_signal(&a->group, SIGSTOP);
            raise(SIGSTOP);
            ls_worker_group_signal(&a->group, SIGCONT);
            break;
        default: a->user_signal = number; ls_worker_group_signal(&a->group, number);
        }
    }
    return true;
}

/* Processes that workers left behind. */
static int leftovers(const ls_agent *a, int number)
{
    siginfo_t info = {0};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return 0; /* no child at all: the usual case */
    /* Children of an earlier program in this process (a shell's `exec`) are not ours. */
    return a->strangers ? 0 : ls_worker_group_sweep(number);
}

/* Workers that saved and ended on a signal did not fail: the job was told to end. */
static void check_user_signal(ls_agent *a)
{
    const ls_cause *cause = &a->group.cause;
    if (!a->user_signal || !cause->any || ls_cause_exit_code(cause) != 128 + a->user_signal) return;
    memset(&a->group.cause, 0, sizeof a->group.cause);
    on_end_signal(a, a->user_signal);
}

static void on_event(ls_agent *a)
{
    bool late = ls_now() >= a->kill_at;
    if (a->phase == LS_AGENT_RUNNING) check_user_signal(a);
    if (ls_worker_group_is_undecided(&a->group)) return;
    if (a->phase == LS_AGENT_RUNNING && (a->group.cause.any || !a->could_start)) {
        char report[5000] = "a worker could not be started";
        if (a->group.cause.any) ls_cause_tell(&a->group.cause, report, sizeof report);
        ls_agent_stop(a, SIGTERM, report);
        if (a->decider.failed) a->decider.failed(a);
    }
    if (a->phase == LS_AGENT_STOPPING && late) {
        ls_worker_group_signal(&a->group, SIGKILL);
        a->kill_at = LS_NEVER;
    }
    if ((a->phase == LS_AGENT_RUNNING || a->phase == LS_AGENT_STOPPING) && a->group.running == 0) {
        int left = leftovers(a, SIGTERM);
        if (left) ls_log_line(LS_LOG_INFO, "killing %d processes that workers left behind", left);
        a->phase = LS_AGENT_SWEEPING;
        a->group.stopping = true;
        a->kill_at = ls_after(a->plan->opts.shutdown_timeout);
    }
    bool kills = a->phase == LS_AGENT_SWEEPING && late && a->kill_at != LS_NEVER;
    if (kills) a->kill_at = ls_after(0.1); /* then handle what the killed ones left behind */
    if (a->phase == LS_AGENT_SWEEPING && !leftovers(a, kills ? SIGKILL : 0)) {
        ls_worker_group_end(&a->group);
        a->phase = LS_AGENT_IDLE;
        a->kill_at = LS_NEVER;
        a->decider.over(a);
    }
}

/* ---- Attempts ------------------------------------------------------------------------------------------------- */

void ls_agent_start(ls_agent *a, const ls_assignment *assignment)
{
    a->phase = LS_AGENT_RUNNING;
    a->kill_at = LS_NEVER;
    a->began = ls_now();
    a->could_start = ls_worker_group_start(&a->group, assignment);
}

void ls_agent_finish(ls_agent *a, int code)
{
    a->finished = true;
    a->code = code;
}

bool ls_budget_take(ls_budget *budget, const ls_launch_opts *o, int64_t began)
{
    if (budget->used >= o->max_restarts) return false;
    bool soon = ls_now() - began < (int64_t)(QUICK_FAILURE * 1e9);
    budget->quick = soon ? budget->quick + 1 : 0;
    if (budget->quick > o->max_quick_restarts) {
        ls_log_line(LS_LOG_ERROR,
                    "giving up after %d failures in a row within %.0f s of the start, with %d of %d restarts left",
                    budget->quick, QUICK_FAILURE, o->max_restarts - budget->used, o->max_restarts);
        return false;
    }
    budget->used++;
    ls_log_line(LS_LOG_WARN, "restart %d of %d", budget->used, o->max_restarts);
    return true;
}

/* ---- Start and end -------------------------------------------------------------------------------------------- */

static void loop_until_finished(ls_agent *a)
{
    while (!a->finished) {
        on_event(a);
        int64_t next = ls_worker_group_tick(&a->group);
        int64_t asked = a->decider.tick && !a->finished ? a->decider.tick(a) : LS_NEVER;
        if (asked < next) next = asked;
        if (a->kill_at < next) next = a->kill_at;
        /* What the decider just ordered may already be over, with no event left to report it. */
        bool pending = a->phase != LS_AGENT_IDLE && a->phase != LS_AGENT_SWEEPING && a->group.running == 0 &&
                       !ls_worker_group_is_undecided(&a->group);
        if (!a->finished && !pending) ls_loop_wait(a->group.loop, next);
    }
}

static bool is_ignored(int number)
{
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

int ls_agent_run(ls_agent *a, const ls_plan *plan, void (*begin)(ls_agent *agent))
{
    const int handled[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, LS_AGENT_RELAY};
    ls_descriptors_fill();
    int loop = ls_loop_open();
    a->plan = plan;
    a->kill_at = LS_NEVER;
    a->code = 1;
    if (loop < 0) {
        ls_log_line(LS_LOG_ERROR, "launch: %s", strerror(errno));
        return a->code;
    }
    if (!ls_worker_group_open(&a->group, plan, loop)) goto close_loop;

    sigset_t mask;
    sigemptyset(&mask);
    for (size_t i = 0; i < sizeof handled / sizeof *handled; i++) sigaddset(&mask, handled[i]);
    if (is_ignored(SIGHUP)) sigdelset(&mask, SIGHUP); /* set by nohup */
    bool ignored_children = is_ignored(SIGCHLD);      /* set by the parent: ends of workers would go unnoticed */
    if (ignored_children) signal(SIGCHLD, SIG_DFL);
    sigprocmask(SIG_BLOCK, &mask, &a->group.inherited);
    a->group.on_pipe = signal(SIGPIPE, SIG_IGN);
    getrlimit(RLIMIT_NOFILE, &a->group.limit);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){a->group.limit.rlim_max, a->group.limit.rlim_max});
    a->signals = (ls_watched_fd){.fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK), .ready = on_signal, .owner = a};
    siginfo_t info = {0};
    a->strangers = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
    prctl(PR_SET_CHILD_SUBREAPER, 1);

    if (ls_loop_watch(loop, &a->signals, EPOLLIN)) {
        begin(a);
        loop_until_finished(a);
    } else {
        ls_log_line(LS_LOG_ERROR, "launch: %s", strerror(errno));
    }

    for (int i = 0; i < 2; i++) ls_output_sink_drain(&a->group.sink[i], ls_after(plan->opts.shutdown_timeout));
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    close(a->signals.fd);
    signal(SIGPIPE, a->group.on_pipe);
    if (ignored_children) signal(SIGCHLD, SIG_IGN);
    setrlimit(RLIMIT_NOFILE, &a->group.limit);
    sigprocmask(SIG_SETMASK, &a->group.inherited, NULL);
    ls_worker_group_close(&a->group);
close_loop:
    close(loop);
    return a->code;
}
