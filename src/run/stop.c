/* stop.c - was the training told to end? Signals are recorded when they arrive; processes agree on them once per step.
 * */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "run/session.h"
#include "tensor/exchange.h"

/* Termination requests: Kubernetes and Slurm send SIGTERM, terminals SIGINT, Slurm's --signal and mpirun, which
 * forwards it, SIGUSR1. */
static const struct {
    int number;
    const char *name;
} asking[] = {{SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"}, {SIGUSR1, "SIGUSR1"}};

enum { ASKING = sizeof asking / sizeof *asking };

/* Global, because signals belong to the process. */
static volatile sig_atomic_t asked, asked_at;

/* A second signal means: end at once. But a scheduler may signal all processes, and their launcher may then do so too:
 * signals that arrive together count as one. */
static void note_signal(int number)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    bool again = asked == number && (sig_atomic_t)now.tv_sec - asked_at > 1;
    if (again && number != SIGUSR1) _exit(128 + number);
    if (asked != number) asked_at = (sig_atomic_t)now.tv_sec;
    asked = number;
}

/* Signals that the program handles itself, or that were ignored from the start, are left alone. */
static void listen_once(ls_session *session)
{
    if (session->listens) return;
    session->listens = true;
    for (int i = 0; i < ASKING; i++) {
        struct sigaction before, ours = {.sa_handler = note_signal, .sa_flags = SA_RESTART};
        if (sigaction(asking[i].number, NULL, &before) == 0 && before.sa_handler == SIG_DFL)
            sigaction(asking[i].number, &ours, NULL);
    }
}

bool ls_should_stop(ls_run *run)
{
    ls_session *session = ls_session_of(run);
    if (!session) return false;
    listen_once(session);
    int32_t number = (int32_t)asked;
    if (!ls_exchange_reduce(run, &number, 1, LS_I32, LS_REDUCE_MAX, "ls_should_stop")) return false;
    session->stop_signal = number;
    return number != 0;
}

void ls_session_end_stop(void)
{
    asked = 0;
}

void ls_session_tell_stop(const ls_session *session)
{
    const char *saved = session->writer.saved, *name = "a signal";
    for (int i = 0; i < ASKING; i++)
        if (asking[i].number == session->stop_signal) name = asking[i].name;
    if (saved) ls_log_event("stopped by %s; the last checkpoint is %s", name, saved);
    else ls_log_event("stopped by %s; this run saved no checkpoint", name);
}
