/* group.c - start, signal and reap the workers of a host. */
#include "launch/supervise/group.h"

#include "base/config.h"
#include "base/log.h"
#include "base/memory.h"
#include "comm/shm/segment.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TAIL_LINES = 20, LAST_CALLS = 3, MOST_FILES = 1 << 20, CAUSE_WAIT = 1000 /* ms */ };

/* ---- Opening -------------------------------------------------------------------------------------------------- */

/* Call `each` for every open file of this process. */
static void for_each_file(ls_worker_group *group, void (*each)(ls_worker_group *group, int fd))
{
    DIR *folder = opendir("/proc/self/fd");
    if (!folder) return;
    for (struct dirent *entry; (entry = readdir(folder));) {
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] != '.' && fd != dirfd(folder) && fd < MOST_FILES) each(group, fd);
    }
    closedir(folder);
}

static void note_file(ls_worker_group *group, int fd)
{
    CPU_SET_S((size_t)fd, MOST_FILES / 8, group->files);
}

static void close_unless_noted(ls_worker_group *group, int fd)
{
    if (fd > STDERR_FILENO && !CPU_ISSET_S((size_t)fd, MOST_FILES / 8, group->files)) close(fd);
}

static void note_files(ls_worker_group *group)
{
    group->files = ls_sys_alloc(MOST_FILES / 8);
    if (group->files) for_each_file(group, note_file);
}

static void close_new_files(ls_worker_group *group)
{
    for_each_file(group, close_unless_noted);
}

bool ls_worker_group_open(ls_worker_group *group, const ls_plan *plan, int loop)
{
    size_t processes = (size_t)plan->opts.num_processes;
    memset(group, 0, sizeof *group);
    group->plan = plan;
    group->loop = loop;
    group->shared = -1;
    group->worker = ls_sys_alloc(processes * sizeof *group->worker);
    void *shared = mmap(NULL, processes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    group->unstarted = shared == MAP_FAILED ? NULL : shared;
    if (plan->function) note_files(group);
    if (!group->worker || !group->unstarted || (plan->function && !group->files)) {
        ls_log_line(LS_LOG_ERROR, "launch: out of memory");
        ls_worker_group_close(group);
        return false;
    }
    for (int i = 0; i < 2; i++) ls_output_sink_open(&group->sink[i], loop, STDOUT_FILENO + i);
    if (ls_logs_open(&group->logs, plan)) return true;
    ls_worker_group_close(group);
    return false;
}

void ls_worker_group_close(ls_worker_group *group)
{
    for (int i = 0; group->worker && i < group->plan->opts.num_processes; i++)
        for (int s = 0; s < 2; s++) ls_output_stream_close(&group->worker[i].stream[s]);
    for (int i = 0; i < 2; i++) ls_output_sink_close(&group->sink[i]);
    ls_logs_close(&group->logs);
    ls_sys_free(group->worker);
    ls_sys_free(group->files);
    if (group->shared >= 0) close(group->shared);
    if (group->unstarted) munmap(group->unstarted, (size_t)group->plan->opts.num_processes);
    memset(group, 0, sizeof *group);
}

/* ---- Starting a worker ---------------------------------------------------------------------------------------- */

static void fill_in(char *to, size_t size, const char *form, const ls_plan *plan, int rank, int local_rank)
{
    char number[2][16];
    snprintf(number[0], sizeof number[0], "%d", rank);
    snprintf(number[1], sizeof number[1], "%d", local_rank);
    const char *const names[] = {"${role_name}", "${rank}", "${local_rank}"};
    const char *const values[] = {plan->opts.role, number[0], number[1]};
    size_t used = 0;
    while (*form && used + 1 < size) {
        size_t which = 0;
        while (which < 3 && strncmp(form, names[which], strlen(names[which])) != 0) which++;
        if (which == 3) {
            to[used++] = *form++;
            continue;
        }
        form += strlen(names[which]);
        int wrote = snprintf(to + used, size - used, "%s", values[which]);
        used += (size_t)wrote < size - used ? (size_t)wrote : size - used - 1;
    }
    to[used] = '\0';
}

/* The destination of a worker's stream. Returns the file descriptor to use; -1: inherit this process's; -2: failed. */
static int open_stream(ls_worker_group *group, int local_rank, int which)
{
    const ls_plan *plan = group->plan;
    ls_output_stream *stream = &group->worker[local_rank].stream[which];
    bool redirected = plan->redirected[local_rank] >> which & 1, teed = plan->teed[local_rank] >> which & 1;
    int rank = group->assignment.first_rank + local_rank;
    bool shown = plan->shown[local_rank], marked = plan->opts.prefix && (rank > 0 || plan->opts.prefix_main);
    bool prefixed = marked || teed;
    int file = -1;
    if (redirected || teed) {
        char path[700];
        ls_logs_path(&group->logs, group->assignment.attempt, local_rank, which ? "stderr.log" : "stdout.log", path,
                     sizeof path);
        file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        if (file < 0) {
            ls_log_line(LS_LOG_ERROR, "launch: cannot write %s: %s", path, strerror(errno));
            return -2;
        }
        if (!teed) return file;
    }
    /* A terminal is inherited, so that programs detect it: they buffer by line and draw progress bars. */
    if (shown && !prefixed && isatty(STDOUT_FILENO + which)) return -1;
    const char *form = plan->opts.prefix_template;
    if (!form) form = plan->opts.prefix ? "[${role_name}${rank}]:" : "[${role_name}${local_rank}]:"; /* torchrun's */
    stream->prefix[0] = '\0';
    if (prefixed) fill_in(stream->prefix, sizeof stream->prefix, form, plan, rank, local_rank);
    int end = ls_output_stream_open(stream, group->loop, shown ? &group->sink[which] : NULL, file);
    if (end < 0) ls_log_line(LS_LOG_ERROR, "launch: cannot create a pipe for rank %d: %s", local_rank, strerror(errno));
    if (end < 0 && file >= 0) close(file);
    return end < 0 ? -2 : end;
}

/* Runs in the new process, until the worker ends. */
static _Noreturn void become_worker(ls_worker_group *group, int local_rank, pid_t parent, const int *files)
{
    const ls_plan *plan = group->plan;
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(128 + SIGKILL); /* it died before the notification was set up */
    signal(SIGPIPE, group->on_pipe);
    setrlimit(RLIMIT_NOFILE, &group->limit);
    int nothing = local_rank ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1; /* only local rank 0 reads stdin */
    if (nothing >= 0) dup2(nothing, STDIN_FILENO);
    for (int i = 0; i < 2; i++)
        if (files[i] >= 0) dup2(files[i], STDOUT_FILENO + i);

    char error_file[700];
    ls_logs_path(&group->logs, group->assignment.attempt, local_rank, "error.json", error_file, sizeof error_file);
    ls_environment environment = {0};
    ls_plan_environment(plan, &group->assignment, local_rank, error_file, &environment);
    if (group->shared >= 0) ls_environment_set(&environment, "LOCKSTEP_COMM_FILE", "%d", group->shared);
    sigprocmask(SIG_SETMASK, &group->inherited, NULL);
    if (plan->function) {
        close_new_files(group); /* there is no exec to close them */
        environ = environment.entry;
        ls_config_reload();
        int code = plan->function(plan->argument);
        fflush(NULL);
        _exit(code);
    }
    size_t count = 0;
    while (plan->argv[count]) count++;
    char **argv = ls_sys_alloc((count + 1) * sizeof *argv);
    for (size_t i = 0; argv && i < count; i++) {
        size_t size = strlen(plan->argv[i]) + 64;
        argv[i] = plan->argv[i];
        if (!strstr(argv[i], "${local_rank}")) continue;
        argv[i] = ls_sys_alloc(size);
        if (argv[i]) fill_in(argv[i], size, plan->argv[i], plan, group->assignment.first_rank + local_rank, local_rank);
    }
    if (argv && !environment.failed) execvpe(argv[0], argv, environment.entry);
    group->unstarted[local_rank] = true;
    int code = errno == ENOENT ? LS_LAUNCH_NOT_FOUND : LS_LAUNCH_NOT_EXECUTABLE;
    ls_log_line(LS_LOG_ERROR, "cannot run %s: %s", plan->argv[0], strerror(errno));
    _exit(code);
}

static bool start_worker(ls_worker_group *group, int local_rank)
{
    ls_worker_process *worker = &group->worker[local_rank];
    int files[2] = {-1, -1};
    bool good = true;
    for (int i = 0; i < 2 && good; i++) {
        files[i] = open_stream(group, local_rank, i);
        good = files[i] != -2;
    }
    pid_t parent = getpid(), pid = good ? fork() : -1;
    if (pid == 0) become_worker(group, local_rank, parent, files);
    if (good && pid < 0) ls_log_line(LS_LOG_ERROR, "launch: cannot fork for rank %d: %s", local_rank, strerror(errno));
    for (int i = 0; i < 2; i++)
        if (files[i] >= 0) close(files[i]);
    if (pid < 0) return false;
    worker->pid = pid;
    worker->status = 0;
    worker->began = ls_now();
    worker->stopped = 0;
    group->running++;
    return true;
}

/* Workers of this host find each other through inherited memory, which also tells them when to give up. Other programs
 * ignore it. */
static bool share_memory(ls_worker_group *group)
{
    int workers = group->plan->opts.num_processes;
    ls_message why = {{0}};
    if (group->shared >= 0) close(group->shared);
    group->shared = -1;
    if (group->assignment.world == 1 || workers > LS_SEGMENT_MOST) return true;
    group->shared = ls_segment_make(workers, &why);
    if (group->shared < 0) ls_log_line(LS_LOG_ERROR, "launch: %s", why.text);
    else if (group->files) note_file(group, group->shared);
    return group->shared >= 0;
}

bool ls_worker_group_start(ls_worker_group *group, const ls_assignment *assignment)
{
    group->assignment = *assignment;
    group->stopping = false;
    if (!share_memory(group)) return false;
    memset(&group->cause, 0, sizeof group->cause);
    if (!ls_logs_begin(&group->logs, assignment->attempt)) {
        ls_log_line(LS_LOG_ERROR, "launch: cannot create folders in %s: %s", group->logs.root, strerror(errno));
        return false;
    }
    fflush(NULL); /* otherwise each worker would write this process's buffered output */
    for (int i = 0; i < group->plan->opts.num_processes; i++) {
        for (int s = 0; s < 2; s++) ls_output_stream_close(&group->worker[i].stream[s]);
        group->unstarted[i] = false;
    }
    for (int i = 0; i < group->plan->opts.num_processes; i++)
        if (!start_worker(group, i)) return false;
    return true;
}

void ls_worker_group_end(ls_worker_group *group)
{
    int *codes = group->plan->opts.exit_codes;
    for (int i = 0; i < group->plan->opts.num_processes; i++) {
        int status = group->worker[i].status;
        for (int s = 0; s < 2; s++) ls_output_stream_close(&group->worker[i].stream[s]);
        if (codes) codes[i] = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
}

/* ---- Signals and ends ----------------------------------------------------------------------------------------- */

void ls_worker_group_signal(ls_worker_group *group, int number)
{
    for (int i = 0; i < group->plan->opts.num_processes; i++) {
        pid_t pid = group->worker[i].pid;
        if (!pid) continue;
        if (kill(-pid, number) != 0) kill(pid, number); /* it may not be a group leader yet */
        if (number != SIGKILL && number != SIGSTOP) kill(-pid, SIGCONT);
    }
}

void ls_worker_group_abort(ls_worker_group *group, const char *words)
{
    if (group->shared >= 0) ls_segment_abandon(group->shared, words);
}

/* Did another host's worker fail first? */
static bool failed_elsewhere(const ls_worker_group *group)
{
    int culprit = group->shared >= 0 ? ls_segment_culprit(group->shared) : -1, first = group->assignment.first_rank;
    return culprit >= 0 && (culprit < first || culprit >= first + group->plan->opts.num_processes);
}

bool ls_worker_group_is_undecided(const ls_worker_group *group)
{
    return group->cause.any && !group->stopping && ls_now() < group->act_at;
}

/* Record how a worker failed, from its status. */
static void note_failure(ls_worker_group *group, int local_rank, bool same_moment)
{
    ls_worker_process *worker = &group->worker[local_rank];
    ls_cause cause = {.any = true,
                      .unstarted = group->unstarted[local_rank],
                      .rank = group->assignment.first_rank + local_rank,
                      .local_rank = local_rank,
                      .pid = worker->pid,
                      .attempt = group->assignment.attempt,
                      .status = worker->status,
                      .seconds = (double)(ls_now() - worker->began) / 1e9};
    gethostname(cause.host, sizeof cause.host - 1);
    char path[700];
    ls_logs_path(&group->logs, cause.attempt, local_rank, "error.json", path, sizeof path);
    ls_cause_read(&cause, path);
    if (group->shared >= 0) ls_segment_describe(group->shared, LAST_CALLS, cause.calls, sizeof cause.calls);
    /* If several failed since the last look, the error files tell which was first. A killed one left no file, so those
     * that gave up did so because of it. */
    bool earlier = cause.stamp > 0 && cause.stamp < group->cause.stamp;
    bool killed = WIFSIGNALED(cause.status) && !WIFSIGNALED(group->cause.status);
    if (group->cause.any && !(same_moment && (earlier || killed))) return;

    ls_output_stream *stream = &worker->stream[1];
    if (!WIFSTOPPED(cause.status)) ls_output_stream_close(stream); /* reads the rest */
    if (stream->tail_length) ls_cause_tail(&cause, stream->tail, stream->tail_length, TAIL_LINES);
    ls_logs_path(&group->logs, cause.attempt, local_rank, "stderr.log", path, sizeof path);
    FILE *log = group->plan->redirected[local_rank] & 2 ? fopen(path, "r") : NULL;
    if (log) {
        char text[LS_TAIL];
        if (fseek(log, -(long)sizeof text, SEEK_END) != 0) rewind(log);
        ls_cause_tail(&cause, text, fread(text, 1, sizeof text, log), TAIL_LINES);
        fclose(log);
    }
    group->cause = cause;
    group->act_at = failed_elsewhere(group) ? ls_after(CAUSE_WAIT * 1e-3) : ls_now();
}

/* A worker has ended and is still a zombie: record how, and reap it. */
static void reap_worker(ls_worker_group *group, int local_rank, bool failed, bool same_moment)
{
    ls_worker_process *worker = &group->worker[local_rank];
    /* While it is a zombie its pid still identifies its group: kill what a failed worker leaves there. */
    if (failed) kill(-worker->pid, SIGKILL);
    waitpid(worker->pid, &worker->status, 0);
    if (failed && !group->stopping) note_failure(group, local_rank, same_moment);
    worker->pid = 0;
    group->running--;
}

/* A failing worker tells the others, and they may exit before it does: handle it first, since it is the first cause. */
static void reap_first_cause(ls_worker_group *group, int except)
{
    int culprit = group->shared >= 0 ? ls_segment_culprit(group->shared) - group->assignment.first_rank : -1;
    if (culprit < 0 || culprit >= group->plan->opts.num_processes || culprit == except) return;
    pid_t pid = group->worker[culprit].pid;
    int file = pid ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    if (file < 0) return;
    bool ended = poll(&(struct pollfd){.fd = file, .events = POLLIN}, 1, CAUSE_WAIT) > 0;
    close(file);
    siginfo_t info = {0};
    if (!ended || waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || !info.si_pid) return;
    reap_worker(group, culprit, info.si_code != CLD_EXITED || info.si_status != 0, true);
}

/* Record which workers are stopped by a signal, and which were continued. */
static void note_stopped(ls_worker_group *group)
{
    for (int i = 0; i < group->plan->opts.num_processes; i++) {
        ls_worker_process *worker = &group->worker[i];
        siginfo_t info = {0};
        while (worker->pid && waitid(P_PID, (id_t)worker->pid, &info, WSTOPPED | WCONTINUED | WNOHANG) == 0 &&
               info.si_pid) {
            worker->stopped = info.si_code == CLD_STOPPED ? ls_now() : 0;
            worker->status = info.si_code == CLD_STOPPED ? info.si_status << 8 | 0x7f : 0; /* as wait() writes it */
            info.si_pid = 0;
        }
    }
}

/* A stopped worker blocks all others. Returns when the next check is due. */
static int64_t check_stopped(ls_worker_group *group, int64_t now)
{
    int64_t limit = (int64_t)(group->plan->opts.dead_after * 1e9), next = LS_NEVER;
    for (int i = 0; i < group->plan->opts.num_processes && !group->stopping && !group->cause.any; i++) {
        const ls_worker_process *worker = &group->worker[i];
        if (!worker->pid || !worker->stopped) continue;
        if (now - worker->stopped >= limit) note_failure(group, i, false);
        else if (worker->stopped + limit < next) next = worker->stopped + limit;
    }
    return group->cause.any ? group->act_at : next;
}

void ls_worker_group_reap(ls_worker_group *group)
{
    note_stopped(group);
    bool had_cause = group->cause.any;
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
        int local_rank = group->plan->opts.num_processes - 1;
        while (local_rank >= 0 && group->worker[local_rank].pid != info.si_pid) local_rank--;
        if (local_rank < 0) {
            waitpid(info.si_pid, NULL, 0);
            continue;
        }
        bool failed = info.si_code != CLD_EXITED || info.si_status != 0;
        if (failed && !group->cause.any && !group->stopping) reap_first_cause(group, local_rank);
        reap_worker(group, local_rank, failed, !had_cause);
    }
}

int ls_worker_group_sweep(int number)
{
    DIR *folder = opendir("/proc");
    if (!folder) return 0;
    int found = 0, self = (int)getpid();
    for (struct dirent *entry; (entry = readdir(folder));) {
        char path[300], line[512];
        int pid = atoi(entry->d_name), parent = 0;
        if (pid <= 0) continue;
        snprintf(path, sizeof path, "/proc/%d/stat", pid);
        FILE *file = fopen(path, "r");
        if (!file) continue;
        char *after = fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL; /* names may hold anything */
        fclose(file);
        if (!after || sscanf(after + 1, " %*c %d", &parent) != 1 || parent != self) continue;
        found++;
        if (number) kill(pid, number);
    }
    closedir(folder);
    return found;
}

int64_t ls_worker_group_tick(ls_worker_group *group)
{
    int64_t now = ls_now(), next = group->stopping ? LS_NEVER : check_stopped(group, now);
    for (int i = 0; i < group->plan->opts.num_processes; i++) {
        for (int s = 0; s < 2; s++) {
            int64_t at = ls_output_stream_tick(&group->worker[i].stream[s], now);
            if (at < next) next = at;
        }
    }
    return next;
}
