/* function.c - ls_launch: workers forked from a running program. */
#include "check.h"

#include "base/capture.h"
#include "launch/ports.h"

#include <lockstep/launch.h>

#include "base/config.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct board { /* shared by all processes */
    int seen[8];
    int left;
} board;

static board *share_board(void)
{
    return mmap(NULL, sizeof(board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static int number(const char *name)
{
    const char *text = getenv(name);
    return text ? atoi(text) : -1;
}

static int sign_in(void *argument)
{
    board *b = argument;
    if (number("WORLD_SIZE") != 3 || number("LOCAL_WORLD_SIZE") != 3 || strcmp(getenv("EXTRA"), "yes") != 0) return 1;
    if (strcmp(getenv("ACCELERATE_MIXED_PRECISION"), "bf16") != 0) return 2;
    if (ls_config_count(LS_SETTING_NUM_THREADS) != 2) return 3;                /* read anew in the worker */
    if (strcmp(ls_config_text(LS_SETTING_JOB_TOKEN), "secret") != 0) return 4; /* they prove it to each other */
    b->seen[number("RANK")] = (int)getpid();
    return 0;
}

static void runs_in_each_worker(void)
{
    board *b = share_board();
    int codes[3] = {9, 9, 9};
    const char *const extra[] = {"EXTRA=yes", NULL};
    CHECK(ls_config_count(LS_SETTING_NUM_THREADS) == 0);
    CHECK(ls_launch(sign_in, b, .num_processes = 3, .environment = extra, .mixed_precision = "BF16", .num_threads = 2,
                    .token = "secret", .exit_codes = codes) == 0);
    CHECK(codes[0] == 0 && codes[1] == 0 && codes[2] == 0);
    CHECK(b->seen[0] && b->seen[1] && b->seen[2] && b->seen[0] != b->seen[1] && b->seen[0] != (int)getpid());
}

static int fail_as_told(void *argument)
{
    (void)argument;
    signal(SIGSEGV, SIG_DFL); /* a sanitizer would make an exit status of it */
    return number("RANK") == 0 ? raise(SIGSEGV) : pause();
}

static int print_failure(void)
{
    int codes[2];
    int code = ls_launch(fail_as_told, NULL, .num_processes = 2, .exit_codes = codes);
    fprintf(stderr, "code %d, workers %d %d\n", code, codes[0], codes[1]);
    return 0;
}

static void names_the_worker_that_died(void)
{
    char text[4096];
    CHECK(run_captured(NULL, print_failure, text, sizeof text) == 0);
    CHECK_MSG(strstr(text, "first cause: rank 0") && strstr(text, "was killed by SIGSEGV (signal 11)"), "%s", text);
    CHECK_MSG(strstr(text, "code 139, workers 139 143"), "%s", text);
}

/* The queue of accelerate's own test: three attempts take one each and fail, the fourth succeeds. */
static int take_one(void *argument)
{
    board *b = argument;
    if (number("RANK") != 0) return 0;
    return b->left-- > 0;
}

/* What a notebook shows. */
static int succeed(void *argument)
{
    (void)argument;
    return 0;
}

static int announce(void)
{
    dup2(STDERR_FILENO, STDOUT_FILENO);
    int code = ls_launch(succeed, NULL, .num_processes = 2) | ls_launch(succeed, NULL, .num_processes = 1);
    fflush(stdout);
    return code;
}

static void says_what_it_launches(void)
{
    char text[4096];
    CHECK(run_captured(NULL, announce, text, sizeof text) == 0);
    CHECK_TEXT(text, "Launching training on 2 CPUs.\nLaunching training on CPU.\n");
}

static int name_oneself(void *argument)
{
    (void)argument;
    fprintf(stderr, "rank %d\n", number("RANK"));
    return 0;
}

static int launch_marked(void)
{
    return ls_launch(name_oneself, NULL, .num_processes = 2, .prefix = true, .prefix_main = false);
}

static void rank_0_need_not_be_marked(void)
{
    char text[4096];
    CHECK(run_captured(NULL, launch_marked, text, sizeof text) == 0);
    CHECK_MSG(strstr(text, "[default1]:rank 1\n") && strstr(text, "rank 0\n") && !strstr(text, "[default0]"), "%s",
              text);
}

static void survives_failures(void)
{
    board *b = share_board();
    b->left = 3;
    CHECK(ls_launch(take_one, b, .num_processes = 2, .max_restarts = 3, .quiet = true) == 0);
    b->left = 3;
    CHECK(ls_launch(take_one, b, .num_processes = 2, .max_restarts = 2, .quiet = true) == 1);
}

static int here(void *argument)
{
    *(int *)argument = (int)getpid();
    return 4;
}

static void one_process_stays_here(void)
{
    int pid = 0;
    CHECK(ls_launch(here, &pid, .num_processes = 1) == 4);
    CHECK(pid == (int)getpid());
}

/* ---- Signals to the program that launches ---- */

static volatile sig_atomic_t told;

static void on_signal(int number)
{
    told = number;
}

/* As a program that writes a checkpoint when it is told to end: that takes longer than signals need. */
static int save_when_told(void *argument)
{
    board *b = argument;
    signal(SIGTERM, on_signal);
    signal(SIGINT, on_signal);
    b->seen[number("RANK")] = 1;
    while (!told) usleep(1000);
    usleep(200000);
    b->seen[number("RANK")] = 1 + (int)told;
    return 0;
}

static pid_t launch_in_child(board *b)
{
    fflush(NULL);
    pid_t program = fork();
    if (program == 0) {
        setpgid(0, 0);
        int code = ls_launch(save_when_told, b, .num_processes = 2, .quiet = true);
        b->left = code;
        _exit(code == 128 + SIGTERM || code == 128 + SIGINT ? 0 : 1);
    }
    for (int i = 0; i < 20000 && !(b->seen[0] && b->seen[1]); i++) usleep(1000);
    return program;
}

/* It goes on waiting, its workers have time to save, and then it hears by which signal. */
static void passes_signals_on(void)
{
    for (int i = 0; i < 3; i++) {
        int wanted = i == 2 ? SIGINT : SIGTERM, status = -1;
        board *b = share_board();
        pid_t program = launch_in_child(b);
        kill(i == 0 ? program : -program, wanted); /* to it alone, or as a terminal does, to all of the group */
        waitpid(program, &status, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        CHECK(b->left == 128 + wanted && b->seen[0] == 1 + wanted && b->seen[1] == 1 + wanted);
    }
}

static pid_t launching;

static void tell_oneself(void)
{
    if (getpid() == launching) raise(SIGTERM);
}

/* Before there are workers, or even one who looks after them. */
static void the_first_moment_is_not_too_early(void)
{
    board *b = share_board();
    int status = -1;
    fflush(NULL);
    pid_t program = fork();
    if (program == 0) {
        launching = getpid();
        pthread_atfork(NULL, tell_oneself, NULL); /* within its fork() */
        b->left = ls_launch(save_when_told, b, .num_processes = 2, .quiet = true);
        _exit(0);
    }
    waitpid(program, &status, 0);
    CHECK(WIFEXITED(status) && b->left == 128 + SIGTERM);
}

/* Killed, it cannot wait; the workers end all the same, and save. */
static void workers_outlive_it_to_save(void)
{
    board *b = share_board();
    pid_t program = launch_in_child(b);
    kill(program, SIGKILL);
    waitpid(program, NULL, 0);
    for (int i = 0; i < 20000 && (b->seen[0] == 1 || b->seen[1] == 1); i++) usleep(1000);
    CHECK(b->seen[0] == 1 + SIGTERM && b->seen[1] == 1 + SIGTERM);
}

static int fail(void *argument)
{
    (void)argument;
    return number("RANK") == 1 ? 6 : 0;
}

static void tells_codes_where_children_are_ignored(void)
{
    int codes[2] = {9, 9};
    signal(SIGCHLD, SIG_IGN);
    CHECK(ls_launch(fail, NULL, .num_processes = 2, .exit_codes = codes, .quiet = true) == 6);
    CHECK(codes[1] == 6);
    CHECK(ls_launch(succeed, NULL, .num_processes = 2) == 0);
    signal(SIGCHLD, SIG_DFL);
}

/* ---- Several hosts ---- */

typedef struct meeting {
    board *b;
    int port;
    bool elastic;
} meeting;

static int meet(void *argument)
{
    board *b = ((meeting *)argument)->b;
    if (number("WORLD_SIZE") != 2 || number("LOCAL_WORLD_SIZE") != 1 || number("GROUP_WORLD_SIZE") != 2) return 5;
    b->seen[number("RANK")] = (int)getpid();
    return number("RANK") == 1 ? b->left : 0;
}

static int call_on_host(meeting *m, int host)
{
    char endpoint[64];
    snprintf(endpoint, sizeof endpoint, "127.0.0.1:%d", m->port + 1);
    return ls_launch(meet, m, .num_processes = 1, .num_hosts = 2, .host_rank = m->elastic ? 0 : host,
                     .master_addr = "127.0.0.1", .master_port = m->port, .endpoint = endpoint, .elastic = m->elastic,
                     .join_timeout = 60, .last_call = 0.1, .quiet = true);
}

/* Called once on each host, with one process there: the two find each other, and end with one code. */
static void one_process_on_each_of_two_hosts(void)
{
    static const int ends[] = {0, 0, 7};
    for (int i = 0; i < 3; i++) {
        meeting m = {.b = share_board(), .port = find_port(), .elastic = i == 1};
        m.b->left = ends[i];
        fflush(NULL);
        pid_t other = fork();
        if (other == 0) _exit(call_on_host(&m, 1));
        CHECK(call_on_host(&m, 0) == ends[i]);
        int status = -1;
        waitpid(other, &status, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == ends[i]);
        CHECK(m.b->seen[1] && m.b->seen[0] != m.b->seen[1] && (m.b->seen[0] || ends[i]));
    }
}

static void *wait_here(void *go)
{
    pthread_mutex_lock(go);
    return NULL;
}

static int try_with_threads(void)
{
    pthread_mutex_t go = PTHREAD_MUTEX_INITIALIZER;
    pthread_t thread;
    pthread_mutex_lock(&go);
    pthread_create(&thread, NULL, wait_here, &go);
    int code = ls_launch(here, NULL, .num_processes = 2);
    pthread_mutex_unlock(&go);
    pthread_join(thread, NULL);
    return code;
}

static int forget_the_number(void)
{
    return ls_launch(here, NULL, .num_threads = 1);
}

static int no_function(void)
{
    return ls_launch(NULL, NULL, .num_processes = 2);
}

static int no_program(void)
{
    return ls_launch_program((char *[]){NULL}, .num_processes = 2);
}

static int wrong_precision(void)
{
    return ls_launch(here, NULL, .num_processes = 2, .mixed_precision = "f16");
}

static int wrong_host(void)
{
    return ls_launch(here, NULL, .num_processes = 2, .host_rank = 2, .max_hosts = 2, .min_hosts = 2);
}

static int half_a_range(void)
{
    return ls_launch(here, NULL, .num_processes = 2, .host_rank = 1, .max_hosts = 2, .master_addr = "127.0.0.1");
}

static int two_numbers(void)
{
    return ls_launch(here, NULL, .num_processes = 2, .num_hosts = 3, .min_hosts = 1, .max_hosts = 2);
}

static int wrong_only_host(void)
{
    return ls_launch(here, NULL, .num_processes = 2, .host_rank = 1);
}

static int no_time(void)
{
    return ls_launch(here, NULL, .num_processes = 2, .shutdown_timeout = NAN);
}

static int no_heartbeat(void)
{
    return ls_launch(here, NULL, .num_processes = 2, .num_hosts = 2, .master_addr = "127.0.0.1", .heartbeat = NAN);
}

static void refuses(void)
{
    char text[4096];
    CHECK(WEXITSTATUS(run_captured(NULL, no_function, text, sizeof text)) == LS_LAUNCH_REFUSED);
    CHECK_MSG(strstr(text, "ls_launch: the function is NULL"), "%s", text);
    CHECK(WEXITSTATUS(run_captured(NULL, no_program, text, sizeof text)) == LS_LAUNCH_REFUSED);
    CHECK_MSG(strstr(text, "ls_launch_program: there is no program"), "%s", text);
    CHECK(WEXITSTATUS(run_captured(NULL, no_time, text, sizeof text)) == LS_LAUNCH_REFUSED);
    CHECK_MSG(strstr(text, "shutdown_timeout nan: must be from 0 to 1e+09 seconds"), "%s", text);
    CHECK(WEXITSTATUS(run_captured(NULL, no_heartbeat, text, sizeof text)) == LS_LAUNCH_REFUSED);
    CHECK_MSG(strstr(text, "heartbeat nan s"), "%s", text);
    CHECK(WEXITSTATUS(run_captured(NULL, wrong_host, text, sizeof text)) == LS_LAUNCH_REFUSED);
    CHECK_MSG(strstr(text, "host_rank 2: must be less than the number of hosts, 2"), "%s", text);
    CHECK(WEXITSTATUS(run_captured(NULL, wrong_only_host, text, sizeof text)) == LS_LAUNCH_REFUSED);
    CHECK_MSG(strstr(text, "host_rank 1: must be less than the number of hosts, 1"), "%s", text);
    CHECK(WEXITSTATUS(run_captured(NULL, half_a_range, text, sizeof text)) == LS_LAUNCH_REFUSED);
    CHECK_MSG(strstr(text, "max_hosts 2 without min_hosts: for a job of 2 hosts give num_hosts"), "%s", text);
    CHECK(WEXITSTATUS(run_captured(NULL, two_numbers, text, sizeof text)) == LS_LAUNCH_REFUSED);
    CHECK_MSG(strstr(text, "num_hosts 3 and min_hosts 1 to max_hosts 2: give only one of the two"), "%s", text);
    CHECK(WEXITSTATUS(run_captured(NULL, try_with_threads, text, sizeof text)) == LS_LAUNCH_REFUSED);
    CHECK_MSG(strstr(text, "already runs 2 threads"), "%s", text);
    CHECK(WEXITSTATUS(run_captured(NULL, forget_the_number, text, sizeof text)) == LS_LAUNCH_REFUSED);
    CHECK_MSG(strstr(text, "give the number of processes"), "%s", text);
    CHECK(WEXITSTATUS(run_captured(NULL, wrong_precision, text, sizeof text)) == LS_LAUNCH_REFUSED);
    CHECK_MSG(strstr(text, "must be no, fp16, bf16 or fp8"), "%s", text);
    CHECK(ls_launch(NULL, NULL, .num_processes = 2) == LS_LAUNCH_REFUSED);
}

static int rehearsed(void)
{
    board *b = share_board();
    b->left = 0;
    return ls_launch(take_one, b, .num_processes = 2);
}

static void rehearses_in_debug_mode(void)
{
    char text[4096];
    CHECK(run_captured((char[]){"ACCELERATE_DEBUG_MODE=yes"}, rehearsed, text, sizeof text) == 0);
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    CHECK_RUN(runs_in_each_worker);
    CHECK_RUN_FORK(names_the_worker_that_died);
    CHECK_RUN_FORK(says_what_it_launches);
    CHECK_RUN_FORK(rank_0_need_not_be_marked);
    CHECK_RUN(survives_failures);
    CHECK_RUN(one_process_stays_here);
    CHECK_RUN_FORK(passes_signals_on);
    CHECK_RUN_FORK(the_first_moment_is_not_too_early);
    CHECK_RUN_FORK(workers_outlive_it_to_save);
    CHECK_RUN_FORK(tells_codes_where_children_are_ignored);
    CHECK_RUN_FORK(one_process_on_each_of_two_hosts);
    CHECK_RUN_FORK(refuses);
    CHECK_RUN_FORK(rehearses_in_debug_mode);
    return check_done();
}
