/* supervise.c - one loop over everything that can happen: a worker ends, a signal comes, a pipe has text, time is up.
 *
 *     RUNNING --a worker fails, or a signal--> STOPPING --all workers gone--> SWEEPING --nothing left--> over
 *        \------------------- all workers gone ------------------------------>-/
 *
 * Over means: start again, or end. While STOPPING and SWEEPING a deadline runs, after which SIGKILL helps. */
#include "launch/supervise.h"

#include "base/config.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "launch/group.h"
#include "launch/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A group that fails this soon after its start, again and again, will not get better. */
#define QUICK_FAILURE 10.0

typedef enum phase { RUNNING, STOPPING, SWEEPING, OVER } phase;

typedef struct agent {
    const ls_plan *plan;
    ls_group group;
    ls_watch signals;
    phase phase;
    int64_t began, kill_at;
    int strangers;    /* children this process had before */
    int told;         /* the signal that told this process to end; 0: none */
    int restarts;     /* of max_restarts, used */
    int quick;        /* failures in a row that came soon after the start */
    bool could_start; /* all workers of the attempt were started */
    int killed;       /* attempts that needed SIGKILL */
} agent;

/* ---- Words ---------------------------------------------------------------------------------------------------- */

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

/* A launcher above this one reads the cause as this one reads its workers'. */
static void write_error_file(const agent *a, const char *text)
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
    ls_json_put_integer(&w, "errorCode", ls_cause_exit_code(&a->group.cause));
    ls_json_put_end(&w);
    ls_json_put_end(&w);
    char *json = ls_json_take(&w, NULL);
    FILE *file = json ? fopen(path, "w") : NULL;
    if (file) fputs(json, file);
    if (file) fclose(file);
    ls_sys_free(json);
}

static void report(agent *a)
{
    char text[5000];
    ls_cause_tell(&a->group.cause, text, sizeof text);
    if (!a->plan->opts.quiet) ls_sink_say(&a->group.sink[1], text);
    if (!a->plan->opts.quiet && !a->group.logs.temporary && a->group.logs.root[0]) {
        char where[700];
        snprintf(where, sizeof where, "lockstep: logs of all workers: %s\n", a->group.logs.root);
        ls_sink_say(&a->group.sink[1], where);
    }
    write_termination_log(text);
    write_error_file(a, text);
}

/* ---- What happens --------------------------------------------------------------------------------------------- */

static void stop(agent *a, int number)
{
    a->phase = STOPPING;
    a->group.stopping = true;
    a->kill_at = ls_after(a->plan->opts.shutdown_timeout);
    ls_group_signal(&a->group, number);
}

static void on_end_signal(agent *a, int number)
{
    if (a->told) { /* asked again: at once, then */
        a->kill_at = ls_now();
        return;
    }
    a->told = number;
    ls_log_line(LS_LOG_INFO, "SIG%s: passed on to %d workers, which have %.0f s to end", signal_name(number),
                a->group.running, a->plan->opts.shutdown_timeout);
    if (a->phase == RUNNING) stop(a, number);
    else ls_group_signal(&a->group, number);
}

static bool on_signal(ls_watch *watch, uint32_t events)
{
    (void)events;
    agent *a = watch->owner;
    struct signalfd_siginfo info;
    while (read(watch->fd, &info, sizeof info) == sizeof info) {
        int number = (int)info.ssi_signo;
        switch (number) {
        case SIGCHLD: ls_group_reap(&a->group); break;
        case SIGTERM:
        case SIGINT:
        case SIGHUP:
        case SIGQUIT: on_end_signal(a, number); break;
        case SIGTSTP: /* workers have sessions of their own: the terminal does not stop them */
            ls_group_signal(&a->group, SIGSTOP);
            raise(SIGSTOP);
            ls_group_signal(&a->group, SIGCONT);
            break;
        default: ls_group_signal(&a->group, number);
        }
    }
    return true;
}

/* Processes left by workers. */
static int leftovers(const agent *a, int number)
{
    siginfo_t info = {0};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return 0; /* no child at all: the usual case */
    /* Children of an earlier program in this process (a shell's `exec`) are none of our business. */
    return a->strangers ? 0 : ls_group_sweep(number);
}

static void on_event(agent *a)
{
    bool late = ls_now() >= a->kill_at;
    if (a->phase == RUNNING && (a->group.cause.any || !a->could_start)) stop(a, SIGTERM);
    if (a->phase == STOPPING && late) {
        ls_group_signal(&a->group, SIGKILL);
        a->kill_at = LS_NEVER;
        a->killed++;
    }
    if ((a->phase == RUNNING || a->phase == STOPPING) && a->group.running == 0) {
        int left = leftovers(a, SIGTERM);
        if (left) ls_log_line(LS_LOG_INFO, "ending %d processes that workers left behind", left);
        a->phase = SWEEPING;
        a->group.stopping = true;
        a->kill_at = ls_after(a->plan->opts.shutdown_timeout);
    }
    if (a->phase == SWEEPING && !leftovers(a, late ? SIGKILL : 0)) a->phase = OVER;
}

/* ---- Attempts ------------------------------------------------------------------------------------------------- */

static void run_attempt(agent *a)
{
    ls_assignment assignment = {.attempt = a->restarts,
                                .world = a->plan->opts.num_processes,
                                .hosts = 1,
                                .master_port = a->plan->opts.master_port};
    snprintf(assignment.master_addr, sizeof assignment.master_addr, "%s", a->plan->opts.master_addr);
    a->phase = RUNNING;
    a->kill_at = LS_NEVER;
    a->began = ls_now();
    a->could_start = ls_group_start(&a->group, &assignment);
    on_event(a);
    while (a->phase != OVER) {
        int64_t tick = ls_group_tick(&a->group);
        ls_loop_wait(a->group.loop, tick < a->kill_at ? tick : a->kill_at);
        on_event(a);
    }
    for (int i = 0; i < a->plan->opts.num_processes; i++) {
        int status = a->group.worker[i].status;
        for (int s = 0; s < 2; s++) ls_stream_close(&a->group.worker[i].stream[s]);
        if (a->plan->opts.exit_codes)
            a->plan->opts.exit_codes[i] = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
}

/* After a failure: is it worth another attempt? */
static bool may_restart(agent *a)
{
    const ls_launch_opts *o = &a->plan->opts;
    if (a->told || !a->could_start || a->group.cause.unstarted || a->restarts == o->max_restarts) return false;
    bool soon = ls_now() - a->began < (int64_t)(QUICK_FAILURE * 1e9);
    a->quick = soon ? a->quick + 1 : 0;
    if (a->quick <= o->max_quick_restarts) return true;
    ls_log_line(LS_LOG_ERROR,
                "%d failures in a row within %.0f s of the start: not tried again, though %d of %d restarts are left",
                a->quick, QUICK_FAILURE, o->max_restarts - a->restarts, o->max_restarts);
    return false;
}

static int run_all(agent *a)
{
    for (;;) {
        run_attempt(a);
        if (a->told) return 128 + a->told;
        if (!a->could_start) return 1;
        if (!a->group.cause.any) return 0;
        report(a);
        if (!may_restart(a)) return ls_cause_exit_code(&a->group.cause);
        a->restarts++;
        ls_log_line(LS_LOG_WARN, "restart %d of %d", a->restarts, a->plan->opts.max_restarts);
    }
}

/* ---- Beginning and end ---------------------------------------------------------------------------------------- */

int ls_supervise(const ls_plan *plan)
{
    static const int handled[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP};
    agent a = {.plan = plan};
    int code = 1, loop = ls_loop_open();
    if (loop < 0) {
        ls_log_line(LS_LOG_ERROR, "launch: %s", strerror(errno));
        return code;
    }
    if (!ls_group_open(&a.group, plan, loop)) goto close_loop;

    sigset_t mask;
    sigemptyset(&mask);
    for (size_t i = 0; i < sizeof handled / sizeof *handled; i++) sigaddset(&mask, handled[i]);
    sigprocmask(SIG_BLOCK, &mask, &a.group.inherited);
    a.group.on_pipe = signal(SIGPIPE, SIG_IGN);
    a.signals = (ls_watch){.fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK), .ready = on_signal, .owner = &a};
    a.group.signals = a.signals.fd;
    siginfo_t info = {0};
    a.strangers = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
    prctl(PR_SET_CHILD_SUBREAPER, 1);

    if (ls_loop_watch(loop, &a.signals, EPOLLIN)) code = run_all(&a);
    else ls_log_line(LS_LOG_ERROR, "launch: %s", strerror(errno));

    for (int i = 0; i < 2; i++) ls_sink_drain(&a.group.sink[i], ls_after(plan->opts.shutdown_timeout));
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    close(a.signals.fd);
    signal(SIGPIPE, a.group.on_pipe);
    sigprocmask(SIG_SETMASK, &a.group.inherited, NULL);
    ls_group_close(&a.group);
close_loop:
    close(loop);
    return code;
}
