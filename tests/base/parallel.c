/* parallel.c - the team runs every part once, whatever happens around it: nesting, other leaders, fork, new widths. */
#include "base/parallel.h"

#include "base/capture.h"
#include "base/denormals.h"
#include "base/memory.h"
#include "base/thread.h"
#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define MANY 64

typedef struct tally {
    atomic_int runs[MANY];
    atomic_int width;
} tally;

static void count_run(void *arg, ls_worker worker)
{
    tally *all = arg;
    atomic_fetch_add(&all->runs[worker.index], 1);
    atomic_store(&all->width, worker.width);
}

/* True when one call runs each of `width` workers once. */
static bool runs_on(int width, int max_workers)
{
    tally all = {0};
    ls_parallel(count_run, &all, max_workers);
    bool right = atomic_load(&all.width) == width;
    for (int i = 0; i < MANY; i++) right = right && atomic_load(&all.runs[i]) == (i < width);
    return right;
}

static void every_worker_runs_once(void)
{
    for (int width = 1; width <= 5; width++) {
        ls_parallel_set_width(width);
        CHECK(ls_parallel_width() == width);
        for (int i = 0; i < 200; i++) CHECK(runs_on(width, MANY));
        for (int most = 0; most <= width; most++) CHECK(runs_on(most < 1 ? 1 : most, most));
    }
    ls_parallel_set_width(0);
    CHECK(ls_parallel_width() >= 1);
}

static void workers_wake_from_sleep(void)
{
    ls_parallel_set_width(3);
    for (int i = 0; i < 5; i++) {
        usleep(2000); /* long enough to fall asleep */
        CHECK(runs_on(3, MANY));
    }
}

static void mark_slowly(void *arg, ls_worker worker)
{
    if (worker.index) usleep(3000); /* the leader falls asleep waiting for us */
    count_run(arg, worker);
}

static void the_leader_wakes_from_sleep(void)
{
    ls_parallel_set_width(3);
    tally all = {0};
    for (int i = 0; i < 5; i++) ls_parallel(mark_slowly, &all, MANY);
    for (int i = 0; i < 3; i++) CHECK(atomic_load(&all.runs[i]) == 5);
}

/* ---- Barrier */

enum { ROUNDS = 300 };

typedef struct rounds {
    int slot[MANY]; /* plain memory: the barrier alone orders it */
    int wrong[MANY];
    bool slow;
} rounds;

static void write_then_read(void *arg, ls_worker worker)
{
    rounds *all = arg;
    for (int round = 1; round <= (all->slow ? 5 : ROUNDS); round++) {
        if (all->slow && worker.index == round % worker.width) usleep(1500);
        all->slot[worker.index] = round;
        ls_parallel_barrier(worker);
        for (int i = 0; i < worker.width; i++) all->wrong[worker.index] += all->slot[i] != round;
        ls_parallel_barrier(worker);
    }
}

static void the_barrier_orders_memory(void)
{
    for (int width = 1; width <= 4; width++) {
        ls_parallel_set_width(width);
        rounds quick = {0}, slow = {.slow = true};
        ls_parallel(write_then_read, &quick, MANY);
        ls_parallel(write_then_read, &quick, 2);
        ls_parallel(write_then_read, &slow, MANY);
        for (int i = 0; i < MANY; i++) CHECK(quick.wrong[i] == 0 && slow.wrong[i] == 0);
    }
}

/* ---- Ranges */

typedef struct cover {
    unsigned char seen[1000];
    int64_t grain;
    atomic_int calls, small;
} cover;

static void mark_range(void *arg, int64_t begin, int64_t end)
{
    cover *all = arg;
    atomic_fetch_add(&all->calls, 1);
    if (end - begin < all->grain) atomic_fetch_add(&all->small, 1);
    for (int64_t i = begin; i < end; i++) all->seen[i]++;
}

static void ranges_cover_all_once(void)
{
    ls_parallel_set_width(4);
    static const int64_t sizes[] = {0, 1, 2, 3, 7, 64, 65, 999, 1000}, grains[] = {0, 1, 2, 64, 250, 333, 5000};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (size_t g = 0; g < sizeof grains / sizeof *grains; g++) {
            cover all = {.grain = grains[g]};
            ls_parallel_for(sizes[s], grains[g], mark_range, &all);
            bool once = true;
            for (int64_t i = 0; i < 1000; i++) once = once && all.seen[i] == (i < sizes[s]);
            CHECK(once);
            int calls = atomic_load(&all.calls);
            CHECK(calls <= 4 && (calls == 0) == (sizes[s] == 0));
            CHECK(calls <= 1 || atomic_load(&all.small) == 0);
            if (sizes[s] && sizes[s] <= grains[g]) CHECK(calls == 1);
        }
    }
}

static void worker_ranges_are_aligned(void)
{
    for (int width = 1; width <= 7; width++) {
        for (int64_t n = 0; n < 200; n += 13) {
            int64_t next = 0;
            for (int i = 0; i < width; i++) {
                int64_t begin, end;
                ls_worker_range((ls_worker){i, width}, n, 16, &begin, &end);
                CHECK(begin == next && begin <= end && (begin % 16 == 0 || begin == n));
                next = end;
            }
            CHECK(next == n);
        }
    }
}

/* ---- Nesting, other leaders, fork */

static void nest(void *arg, ls_worker worker)
{
    tally inner = {0};
    ls_parallel(count_run, &inner, MANY);
    if (atomic_load(&inner.width) == 1 && atomic_load(&inner.runs[0]) == 1) count_run(arg, worker);
}

static void nested_calls_are_serial(void)
{
    ls_parallel_set_width(3);
    tally all = {0};
    ls_parallel(nest, &all, MANY);
    for (int i = 0; i < 3; i++) CHECK(atomic_load(&all.runs[i]) == 1);
}

static void *lead(void *wrong)
{
    for (int i = 0; i < 300; i++) {
        tally all = {0};
        ls_parallel(count_run, &all, MANY);
        int width = atomic_load(&all.width);
        bool right = width == 1 || width == 3;
        for (int w = 0; w < width; w++) right = right && atomic_load(&all.runs[w]) == 1;
        if (!right) atomic_fetch_add((atomic_int *)wrong, 1);
    }
    return NULL;
}

static void leaders_do_not_meet(void)
{
    ls_parallel_set_width(3);
    pthread_t threads[3];
    atomic_int wrong = 0;
    for (int i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, lead, &wrong) == 0);
    lead(&wrong);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    CHECK(atomic_load(&wrong) == 0);
}

static int child_runs(void)
{
    bool right = runs_on(3, MANY) && runs_on(3, MANY);
    ls_parallel_set_width(2);
    return right && runs_on(2, MANY) ? 0 : 1;
}

typedef struct modes {
    float tiny; /* subnormal */
    bool flushed[64];
    float product[64];
} modes;

static void note_mode(void *arg, ls_worker worker)
{
    modes *m = arg;
    volatile float tiny = m->tiny, one = 1;
    m->flushed[worker.index] = ls_denormals_flushed();
    m->product[worker.index] = tiny * one;
}

/* Every thread of the team computes as the one that calls it, whatever the call before wanted. */
static void workers_treat_denormals_as_their_leader_does(void)
{
    ls_parallel_set_width(4);
    for (int round = 0; round < 6; round++) {
        bool flush = round % 2;
        modes m = {.tiny = 1e-39f};
        ls_denormals_flush(flush);
        CHECK(ls_denormals_flushed() == flush);
        ls_parallel(note_mode, &m, 4);
        ls_denormals_flush(false);
        for (int i = 0; i < 4; i++) CHECK(m.flushed[i] == flush && (m.product[i] == 0) == flush);
    }
    ls_parallel_set_width(0);
}

static void a_forked_child_gets_its_own_team(void)
{
    char text[256];
    ls_parallel_set_width(3);
    CHECK(runs_on(3, MANY));
    CHECK_MSG(run_captured(NULL, child_runs, text, sizeof text) == 0, "child: %s", text);
    CHECK(runs_on(3, MANY)); /* and the parent's still works */
}

static void *fork_while_led(void *arg)
{
    char text[256];
    atomic_int *failures = arg;
    for (int i = 0; i < 5; i++) {
        if (run_captured(NULL, child_runs, text, sizeof text) != 0) atomic_fetch_add(failures, 1);
    }
    atomic_fetch_add(failures, 1000);
    return NULL;
}

static void a_child_forked_during_a_call_works(void)
{
    ls_parallel_set_width(3);
    atomic_int failures = 0;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, fork_while_led, &failures) == 0);
    while (atomic_load(&failures) < 1000) runs_on(3, MANY);
    pthread_join(thread, NULL);
    CHECK(atomic_load(&failures) == 1000);
}

/* ---- Scratch */

static void fill_scratch(void *arg, ls_worker worker)
{
    (void)arg;
    enum { SLOTS = 4, BYTES = 3 << 20 };
    unsigned char *mine[SLOTS];
    for (int slot = 0; slot < SLOTS; slot++)
        mine[slot] = memset(ls_scratch(worker, slot, BYTES), worker.index * SLOTS + slot, BYTES);
    ls_parallel_barrier(worker);
    for (int slot = 0; slot < SLOTS; slot++)
        CHECK(mine[slot][0] == worker.index * SLOTS + slot && mine[slot][BYTES - 1] == mine[slot][0]);
}

static void scratch_is_private_and_kept(void)
{
    ls_parallel_set_width(2);
    ls_parallel(fill_scratch, NULL, MANY);
    uint64_t before = ls_sys_calls();
    ls_parallel(fill_scratch, NULL, MANY);
    CHECK(ls_sys_calls() == before);
    ls_worker here = {0, 1};
    char *memory = ls_scratch(here, 0, 10);
    CHECK((uintptr_t)memory % 64 == 0 && memory == ls_scratch(here, 0, 3 << 20));
    ls_sys_fail_at(1);
    CHECK(ls_scratch(here, 0, 64 << 20) == NULL);
    CHECK(ls_scratch(here, 0, 3 << 20) == memory); /* still there after the failure */
    CHECK(ls_scratch(here, 0, SIZE_MAX) == NULL);
}

/* ---- Width from the outside */

static void note_cpus(void *arg, ls_worker worker)
{
    cpu_set_t *masks = arg;
    sched_getaffinity(0, sizeof *masks, &masks[worker.index]);
}

static void workers_are_pinned_apart(void)
{
    cpu_set_t before, after, masks[MANY], all;
    sched_getaffinity(0, sizeof before, &before);
    int cpus = CPU_COUNT(&before);
    if (cpus < 2 || cpus > MANY) CHECK_SKIP("%d CPUs: not from 2 to %d", cpus, MANY);
    ls_parallel_set_width(cpus);
    ls_parallel(note_cpus, masks, MANY);
    CPU_ZERO(&all);
    for (int i = 1; i < cpus; i++) {
        CHECK(CPU_COUNT(&masks[i]) == 1);
        CPU_OR(&all, &all, &masks[i]);
    }
    CHECK(CPU_COUNT(&all) == cpus - 1);
    sched_getaffinity(0, sizeof after, &after);
    CHECK(CPU_EQUAL(&before, &after)); /* the caller's thread is left alone */
    ls_parallel_set_width(cpus + 1);
    ls_parallel(note_cpus, masks, MANY);
    CHECK(CPU_COUNT(&masks[1]) == cpus);
}

static int own_width(void)
{
    return ls_parallel_width();
}

static int width_on_one_cpu(void)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    return sched_setaffinity(0, sizeof one, &one) == 0 ? ls_parallel_width() : 1;
}

static void width_comes_from_environment_and_affinity(void)
{
    char text[256];
    CHECK(WEXITSTATUS(run_captured("LOCKSTEP_NUM_THREADS=5", own_width, text, sizeof text)) == 5);
    CHECK_TEXT(text, "");
    run_captured("OMP_NUM_THREADS=5000", own_width, text, sizeof text);
    CHECK_TEXT(text, "lockstep: warning: OMP_NUM_THREADS=5000: a process has at most 1024 threads; 1024 are used\n");
    CHECK(WEXITSTATUS(run_captured(NULL, width_on_one_cpu, text, sizeof text)) == 1);
}

static pid_t second; /* the thread of worker 1 */

static void note_second(void *arg, ls_worker worker)
{
    if (worker.index == 1) second = gettid(), *(int *)arg = worker.width;
}

/* With room for the stacks of a few threads; 0: fewer than asked for have stayed the same from call to call. */
static int second_of_few(void)
{
    char line[256];
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fgets(line, sizeof line, file)) pages = strtol(line, NULL, 10);
    if (file) fclose(file);
    pthread_attr_t usual;
    size_t stack;
    pthread_attr_init(&usual);
    pthread_attr_getstacksize(&usual, &stack);
    rlim_t most = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + 3 * stack + stack / 2;
    if (setrlimit(RLIMIT_AS, &(struct rlimit){most, most}) != 0) return 1;
    int width = 0;
    pid_t first = 0;
    for (int call = 0; call < 3; call++) {
        ls_parallel(note_second, &width, MANY);
        if (call == 0) first = second;
        if (second != first || width < 2 || width >= MANY) return 2;
    }
    return 0;
}

static void threads_that_cannot_start_are_asked_for_once(void)
{
    char text[256];
#if defined(LS_SANITIZE_ADDRESS) || defined(LS_SANITIZE_THREAD)
    CHECK_SKIP("sanitizers need all of the address space");
#endif
    CHECK(WEXITSTATUS(run_captured("LOCKSTEP_NUM_THREADS=64", second_of_few, text, sizeof text)) == 0);
    CHECK_MSG(strstr(text, "of 64 threads") && !strchr(strchr(text, '\n') + 1, '\n'), "%s", text);
}

static void *count_open_signals(void *user)
{
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    for (int number = 1; number < SIGRTMIN; number++)
        *(int *)user += number != SIGKILL && number != SIGSTOP && sigismember(&blocked, number) == 0;
    return NULL;
}

static void threads_of_the_library_get_no_signals(void)
{
    pthread_t thread;
    int open = 0;
    if (!ls_thread_start(&thread, count_open_signals, &open)) CHECK_SKIP("no thread can be started");
    pthread_join(thread, NULL);
    CHECK_MSG(open <= 2, "%d signals", open); /* those of the C library itself */
    open = 0;
    count_open_signals(&open);
    CHECK(open > 20); /* here they are as before */
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(width_comes_from_environment_and_affinity); /* first: found out once */
    CHECK_RUN(threads_that_cannot_start_are_asked_for_once);
    CHECK_RUN(workers_are_pinned_apart);
    CHECK_RUN(every_worker_runs_once);
    CHECK_RUN(threads_of_the_library_get_no_signals);
    CHECK_RUN(workers_wake_from_sleep);
    CHECK_RUN(the_leader_wakes_from_sleep);
    CHECK_RUN(the_barrier_orders_memory);
    CHECK_RUN(ranges_cover_all_once);
    CHECK_RUN(worker_ranges_are_aligned);
    CHECK_RUN(nested_calls_are_serial);
    CHECK_RUN(leaders_do_not_meet);
    CHECK_RUN(workers_treat_denormals_as_their_leader_does);
    CHECK_RUN_FORK(a_forked_child_gets_its_own_team);
    CHECK_RUN_FORK(a_child_forked_during_a_call_works);
    CHECK_RUN(scratch_is_private_and_kept);
    return check_done();
}
