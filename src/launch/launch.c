/* launch.c - launch a program, or a function of this program. */
#include "launch/launch.h"

#include "base/log.h"
#include "base/opts.h"
#include "launch/bootstrap/identity.h"
#include "launch/plan.h"
#include "launch/supervise/agent.h"
#include "launch/supervise/supervise.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *const *inherited_environment(void)
{
    return (const char *const *)environ;
}

/* Number of threads of this process; 1 if unknown. */
static int count_threads(void)
{
    int threads = 0;
    DIR *folder = opendir("/proc/self/task");
    if (!folder) return 1;
    for (struct dirent *entry; (entry = readdir(folder));) threads += entry->d_name[0] != '.';
    closedir(folder);
    return threads;
}

/* A joined thread may still be listed for a moment, so a second thread must be there to stay. */
static bool has_one_thread(const char *caller)
{
    enum { TRIES = 200 };
    int threads = count_threads();
    for (int i = 0; i < TRIES && threads > 1; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        threads = count_threads();
    }
    if (threads > 1) {
        ls_log_line(LS_LOG_ERROR,
                    "%s: this process already runs %d threads, which workers would not have: launch before starting "
                    "threads, and call ls_init() inside the function",
                    caller, threads);
    }
    return threads <= 1;
}

/* Check before starting any process whether the program can be found. Returns 0 or the exit code. */
static int look_for(const char *program, const char *const *environment)
{
    const char *path = ls_environment_get(environment, "PATH");
    bool found = false;
    if (!path) path = "/bin:/usr/bin"; /* the default of exec */
    if (strchr(program, '/')) path = "";
    for (const char *folder = path;; folder += strcspn(folder, ":") + 1) {
        char file[4096];
        struct stat about;
        int length = (int)strcspn(folder, ":");
        snprintf(file, sizeof file, "%.*s%s%s", length, folder, length ? "/" : "", program);
        if (stat(file, &about) == 0 && S_ISREG(about.st_mode)) {
            found = true;
            if (access(file, X_OK) == 0) return 0;
        }
        if (!folder[length]) break;
    }
    if (found) {
        ls_log_line(LS_LOG_ERROR, "launch: %s is not executable: run chmod +x, or is it a Python script without .py?",
                    program);
        return LS_LAUNCH_NOT_EXECUTABLE;
    }
    ls_log_line(LS_LOG_ERROR, "launch: program %s not found%s", program,
                strchr(program, '/') ? "" : " in PATH; for one in this folder write ./ in front");
    return LS_LAUNCH_NOT_FOUND;
}

/* Is this process already part of a job? Then each of its processes would start another job. Under a process manager
 * that is right if the processes are the hosts of one job. */
static bool is_nested(const char *caller, bool one_host)
{
    ls_identity who;
    ls_message why;
    ls_identity_read(inherited_environment(), &who, &why); /* even variables that ls_init() would refuse mean a job */
    if (!who.launched) return false;
    if (!who.by_launcher && (!one_host || who.world == 1)) return false;
    ls_log_line(
        LS_LOG_ERROR,
        "%s: according to the variables of %s this process is already rank %d of %d, and each of these processes would "
        "launch its own job. Start the program without a launcher, or let it check ls_launch_is_worker() and call the "
        "function directly",
        caller, who.source, who.rank, who.world);
    return true;
}

int ls_launch_argv(char *const *argv, const ls_launch_opts *opts, size_t opts_size)
{
    ls_plan plan;
    if (!argv || !argv[0]) {
        ls_log_line(LS_LOG_ERROR, "ls_launch_program: there is no program: argv[0] must name one");
        return LS_LAUNCH_REFUSED;
    }
    if (is_nested("ls_launch_program", false) || !has_one_thread("ls_launch_program")) return LS_LAUNCH_REFUSED;
    int code = look_for(argv[0], inherited_environment());
    if (code) return code;
    if (!ls_plan_make(&plan, opts, opts_size, inherited_environment())) return LS_LAUNCH_REFUSED;
    plan.argv = argv;
    code = ls_supervise(&plan);
    ls_plan_free(&plan);
    return code;
}

bool ls_launch_is_worker(void)
{
    ls_identity who;
    ls_message why;
    return ls_identity_read(inherited_environment(), &who, &why) != LS_OK || who.launched;
}

/* ---- A function of this program ------------------------------------------------------------------------------- */

/* Block the signals that would end this program, which `ends` then holds; signals that it handles or ignores are left
 * alone. */
static void block_ends(sigset_t *ends, sigset_t *before)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
    sigemptyset(ends);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction action;
        if (sigaction(numbers[i], NULL, &action) == 0 && action.sa_handler == SIG_DFL) sigaddset(ends, numbers[i]);
    }
    sigprocmask(SIG_BLOCK, ends, before);
}

/* Wait for the supervisor, and forward the signals in `ends`, so that workers can save. Returns the exit code; *code
 * already has it if the system cannot tell. */
static int await_supervisor(pid_t supervisor, const sigset_t *ends, const int *code)
{
    int told = 0, status = 0;
    struct pollfd files[] = {{.fd = (int)syscall(SYS_pidfd_open, supervisor, 0), .events = POLLIN},
                             {.fd = signalfd(-1, ends, SFD_CLOEXEC | SFD_NONBLOCK), .events = POLLIN}};
    pid_t ended;
    while ((ended = waitpid(supervisor, &status, WNOHANG)) == 0 || (ended < 0 && errno == EINTR)) {
        struct signalfd_siginfo info;
        poll(files, 2, files[0].fd < 0 ? 100 : -1);
        while (read(files[1].fd, &info, sizeof info) == sizeof info) {
            int number = (int)info.ssi_signo;
            sigqueue(supervisor, LS_AGENT_RELAY, (union sigval){.sival_int = told ? -number : number});
            told = number;
        }
    }
    for (int i = 0; i < 2; i++)
        if (files[i].fd >= 0) close(files[i].fd);
    if (ended < 0) return *code; /* SIGCHLD is ignored here */
    if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
    return 128 + (told ? told : WTERMSIG(status)); /* signalled before it was ready */
}

/* Supervise in a separate process, so that this program's signals and other children are left alone. */
static int launch_workers(ls_plan *plan)
{
    size_t workers = (size_t)plan->opts.num_processes, bytes = (workers + 1) * sizeof(int);
    int *asked = plan->opts.exit_codes;
    int *codes = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (codes == MAP_FAILED) {
        ls_log_line(LS_LOG_ERROR, "ls_launch: out of memory");
        return LS_LAUNCH_REFUSED;
    }
    plan->opts.exit_codes = codes;
    codes[workers] = 128 + SIGKILL; /* of the supervisor, unless it reports another */
    fflush(NULL);
    sigset_t ends, before;
    block_ends(&ends, &before); /* workers may run before fork() returns here */
    pid_t parent = getpid(), supervisor = fork();
    if (supervisor == 0) {
        sigprocmask(SIG_SETMASK, &before, NULL);
        prctl(PR_SET_PDEATHSIG, LS_AGENT_RELAY);
        if (getppid() != parent) _exit(128 + SIGTERM);
        codes[workers] = ls_supervise(plan);
        _exit(codes[workers]);
    }
    int code = LS_LAUNCH_REFUSED;
    if (supervisor < 0) ls_log_line(LS_LOG_ERROR, "ls_launch: cannot fork: %s", strerror(errno));
    else code = await_supervisor(supervisor, &ends, &codes[workers]);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (asked) memcpy(asked, codes, workers * sizeof *codes);
    munmap(codes, bytes);
    return code;
}

/* Can workers start here at all, and use their devices? Enabled by ACCELERATE_DEBUG_MODE. */
static int try_workers(const ls_plan *plan, ls_worker_fn *function)
{
    ls_plan trial = *plan;
    trial.function = function;
    trial.opts.max_restarts = 0;
    trial.opts.exit_codes = NULL;
    int code = launch_workers(&trial);
    if (code)
        ls_log_line(LS_LOG_ERROR, "ls_launch: even workers that only start a run and end it fail here: the cause is "
                                  "outside the function");
    return code;
}

/* Accelerate's words, except if processes share GPUs, which it does not know. What workers will use that name no
 * device. */
static void announce(const ls_plan *plan)
{
    int workers = plan->opts.num_processes, gpus = ls_plan_is_for_cpu(plan) ? 0 : ls_launch_gpus();
    if (plan->on_tpu) printf("Launching training on %d TPU cores.\n", workers);
    else if (workers == 1 && ls_plan_tpus(plan)) puts("Launching training on TPU.");
    else if (gpus == 1 && workers > 1) printf("Launching training on one GPU, shared by %d processes.\n", workers);
    else if (gpus && workers > gpus) printf("Launching training on %d GPUs, shared by %d processes.\n", gpus, workers);
    else if (gpus && workers > 1) printf("Launching training on %d GPUs.\n", workers);
    else if (gpus) puts("Launching training on one GPU.");
    else if (workers > 1) printf("Launching training on %d CPUs.\n", workers);
    else puts("Launching training on CPU.");
}

int ls_launch_function(ls_worker_fn *function, ls_worker_fn *trial, void *argument, const ls_launch_opts *opts,
                       size_t opts_size)
{
    ls_plan plan;
    if (LS_OPTS_READ(ls_launch_opts, opts, opts_size).num_processes == LS_AUTO) {
        ls_log_line(LS_LOG_ERROR, "ls_launch: give the number of processes: .num_processes = ...");
        return LS_LAUNCH_REFUSED;
    }
    if (!ls_plan_make(&plan, opts, opts_size, inherited_environment())) return LS_LAUNCH_REFUSED;
    plan.function = function;
    plan.argument = argument;
    int code = LS_LAUNCH_REFUSED;
    bool one = plan.opts.num_processes == 1, one_host = plan.opts.max_hosts == 1;
    if (one && one_host && plan.opts.max_restarts == 0 && !plan.opts.model) {
        announce(&plan);
        code = function(argument);
        if (plan.opts.exit_codes) plan.opts.exit_codes[0] = code;
    } else if (!is_nested("ls_launch", one_host) && has_one_thread("ls_launch")) {
        code = ls_environment_switch(plan.inherited, "ACCELERATE_DEBUG_MODE") ? try_workers(&plan, trial) : 0;
        if (!code) announce(&plan);
        if (!code) code = launch_workers(&plan);
    }
    ls_plan_free(&plan);
    return code;
}
