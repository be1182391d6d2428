/* launch.c - the two ways to launch: a program, and a function of this program. */
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
#include <strings.h>
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

/* Threads of this process; 1 where the system does not tell. */
static int count_threads(void)
{
    int threads = 0;
    DIR *folder = opendir("/proc/self/task");
    if (!folder) return 1;
    for (struct dirent *entry; (entry = readdir(folder));) threads += entry->d_name[0] != '.';
    closedir(folder);
    return threads;
}

/* A thread that was joined is listed for a moment more, so a second one must be there to stay. */
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
                    "%s: this process already runs %d threads, which workers would not have: launch first, and call "
                    "ls_init() inside the function",
                    caller, threads);
    }
    return threads <= 1;
}

/* Found now, a wrong name costs one line and no processes. Returns 0 or the exit code that says why not. */
static int look_for(const char *program, const char *const *environment)
{
    const char *path = ls_environment_get(environment, "PATH");
    bool found = false;
    if (!path) path = "/bin:/usr/bin"; /* where exec looks then */
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
        ls_log_line(LS_LOG_ERROR, "launch: %s is not executable: chmod +x, or is it a Python script without .py?",
                    program);
        return LS_LAUNCH_NOT_EXECUTABLE;
    }
    ls_log_line(LS_LOG_ERROR, "launch: there is no program %s%s", program,
                strchr(program, '/') ? "" : " along PATH; for one in this folder write ./ in front");
    return LS_LAUNCH_NOT_FOUND;
}

/* Is this process itself one of a job? Each of its processes would begin another job, side by side. Under a process
 * manager that is right where those jobs are the hosts of one. */
static bool is_nested(const char *caller, bool one_host)
{
    ls_identity who;
    ls_message why;
    ls_identity_read(inherited_environment(), &who,
                     &why); /* what ls_init() would refuse is one of a job all the same */
    if (!who.launched) return false;
    if (!who.by_launcher && (!one_host || who.world == 1)) return false;
    ls_log_line(
        LS_LOG_ERROR,
        "%s: this process is already rank %d of %d, say the variables of %s: each of them would launch a job of "
        "its own. Start the program without a launcher, or let it ask ls_launch_is_worker() and call the "
        "function directly",
        caller, who.rank, who.world, who.source);
    return true;
}

int ls_launch_argv(char *const *argv, const ls_launch_opts *opts, size_t opts_size)
{
    ls_plan plan;
    if (!argv || !argv[0] || is_nested("ls_launch_program", false) || !has_one_thread("ls_launch_program"))
        return LS_LAUNCH_REFUSED;
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

static bool is_true(const char *text)
{
    static const char *const words[] = {"y", "yes", "t", "true", "on", "1"};
    for (size_t i = 0; text && i < sizeof words / sizeof *words; i++)
        if (strcasecmp(text, words[i]) == 0) return true;
    return false;
}

/* Wait for the supervisor. Signals that would end this program are passed on, so that workers can save; those that it
 * handles or ignores are left to it. Returns the exit code; *code has it already where the system does not tell. */
static int await_supervisor(pid_t supervisor, const int *code)
{
    static const int ends[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
    int told = 0, status = 0;
    sigset_t mask, before;
    sigemptyset(&mask);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct sigaction action;
        if (sigaction(ends[i], NULL, &action) == 0 && action.sa_handler == SIG_DFL) sigaddset(&mask, ends[i]);
    }
    sigprocmask(SIG_BLOCK, &mask, &before);
    struct pollfd files[] = {{.fd = (int)syscall(SYS_pidfd_open, supervisor, 0), .events = POLLIN},
                             {.fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK), .events = POLLIN}};
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
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (ended < 0) return *code; /* SIGCHLD is ignored here */
    if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
    return 128 + (told ? told : WTERMSIG(status)); /* told before it could listen */
}

/* A process of its own supervises, so that signals and other children of this program are left alone. */
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
    codes[workers] = 128 + SIGKILL; /* of the supervisor, if it says no other */
    fflush(NULL);
    pid_t parent = getpid(), supervisor = fork();
    if (supervisor == 0) {
        prctl(PR_SET_PDEATHSIG, LS_AGENT_RELAY);
        if (getppid() != parent) _exit(128 + SIGTERM);
        codes[workers] = ls_supervise(plan);
        _exit(codes[workers]);
    }
    int code = LS_LAUNCH_REFUSED;
    if (supervisor < 0) ls_log_line(LS_LOG_ERROR, "ls_launch: no process: %s", strerror(errno));
    else code = await_supervisor(supervisor, &codes[workers]);
    if (asked) memcpy(asked, codes, workers * sizeof *codes);
    munmap(codes, bytes);
    return code;
}

static int do_nothing(void *argument)
{
    (void)argument;
    return 0;
}

/* Do workers start at all here? Asked for by ACCELERATE_DEBUG_MODE. */
static int rehearse(const ls_plan *plan)
{
    ls_plan rehearsal = *plan;
    rehearsal.function = do_nothing;
    rehearsal.opts.max_restarts = 0;
    rehearsal.opts.exit_codes = NULL;
    int code = launch_workers(&rehearsal);
    if (code)
        ls_log_line(LS_LOG_ERROR,
                    "ls_launch: workers that do nothing fail here already: look for the cause outside the function");
    return code;
}

int ls_launch_function(ls_worker_fn *function, void *argument, const ls_launch_opts *opts, size_t opts_size)
{
    ls_plan plan;
    if (LS_OPTS_READ(ls_launch_opts, opts, opts_size).num_processes == LS_AUTO) {
        ls_log_line(LS_LOG_ERROR, "ls_launch: how many processes? add .num_processes = ... to the call");
        return LS_LAUNCH_REFUSED;
    }
    if (!ls_plan_make(&plan, opts, opts_size, inherited_environment())) return LS_LAUNCH_REFUSED;
    plan.function = function;
    plan.argument = argument;
    int code = LS_LAUNCH_REFUSED;
    bool one = plan.opts.num_processes == 1, one_host = plan.opts.max_hosts == 1;
    if (one && one_host && plan.opts.max_restarts == 0 && !plan.opts.model) {
        puts("Launching training on CPU.");
        code = function(argument);
        if (plan.opts.exit_codes) plan.opts.exit_codes[0] = code;
    } else if (!is_nested("ls_launch", one_host) && has_one_thread("ls_launch")) {
        code = is_true(ls_environment_get(plan.inherited, "ACCELERATE_DEBUG_MODE")) ? rehearse(&plan) : 0;
        if (!code && one) puts("Launching training on CPU.");
        else if (!code) printf("Launching training on %d CPUs.\n", plan.opts.num_processes);
        if (!code) code = launch_workers(&plan);
    }
    ls_plan_free(&plan);
    return code;
}
