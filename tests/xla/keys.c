/* keys.c - the store of keys that clients of several processes find each other by. */
#include "keys.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

/* ---- two processes ---- */

enum { MOST_BYTES = 1000, COUNT = 8 };

static char *place; /* of rank 0, in memory that both share */

static ls_status gather(void *user, const void *mine, void *all, size_t bytes, ls_message *why)
{
    (void)why;
    CHECK(bytes <= MOST_BYTES);
    if (*(int *)user == 0) memcpy(place, mine, bytes);
    memcpy(all, place, bytes);
    return LS_OK;
}

static xla_keys *open_keys(int rank)
{
    ls_message why;
    xla_keys *keys = NULL;
    ls_peers peers = {.rank = rank, .size = 2, .is_local = true, .host = "", .user = &rank, .all_gather = gather};
    CHECK(xla_keys_open(&peers, &keys, &why) == LS_OK);
    return keys;
}

static xla_bytes text(const char *of)
{
    return (xla_bytes){(char *)(uintptr_t)of, strlen(of)};
}

/* The exit code of rank 1, which sets some keys. */
static int set_keys(void)
{
    xla_keys *keys = open_keys(1);
    xla_bytes got;
    alarm(60); /* it would wait for ever */
    for (int i = 0; i < COUNT; i++) {
        char name[] = {(char)('a' + i), 0};
        if (xla_keys_put(keys, text(name), text("value")) != XLA_KEY_OK) return 1;
    }
    bool found = xla_keys_get(keys, text("a"), 0, &got) == XLA_KEY_OK && got.count == 5;
    return !found || xla_keys_get(keys, text("z"), 0, &got) != XLA_KEY_MISSING;
}

static bool ends_well(pid_t process)
{
    int status = 1;
    return waitpid(process, &status, 0) == process && status == 0;
}

/* ---- tests ---- */

static void a_process_sets_and_gets_keys(void)
{
    xla_keys *keys = open_keys(0);
    pid_t other = fork();
    if (other == 0) _exit(set_keys());
    xla_bytes got = {0};
    CHECK(xla_keys_get(keys, text("h"), 60000, &got) == XLA_KEY_OK && got.count == 5);
    free(got.at);
    CHECK(ends_well(other));
}

static void connections_wait_while_rank_0_has_too_many_files_open(void)
{
    struct rlimit before, none;
    open_keys(0);
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    none = before;
    none.rlim_cur = 3;
    pid_t other = fork();
    if (other == 0) {
        usleep(20000);
        _exit(set_keys());
    }
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    usleep(200000);
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK(ends_well(other));
}

static void ignore(int signal)
{
    (void)signal;
}

/* One that no thread receives stays pending. */
static void its_threads_receive_no_signals(void)
{
    sigset_t one, pending;
    open_keys(0);
    signal(SIGUSR1, ignore);
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    sigprocmask(SIG_BLOCK, &one, NULL);
    kill(getpid(), SIGUSR1);
    usleep(50000);
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1));
    sigprocmask(SIG_UNBLOCK, &one, NULL);
}

int main(void)
{
    place = mmap(NULL, MOST_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK_RUN(a_process_sets_and_gets_keys);
    CHECK_RUN(connections_wait_while_rank_0_has_too_many_files_open);
    CHECK_RUN(its_threads_receive_no_signals);
    return check_done();
}
