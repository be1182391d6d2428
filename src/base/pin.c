/* pin.c - pin threads, measure the use of their CPUs by others, unpin. */
#include "base/pin.h"

#include "base/config.h"
#include "base/cpus.h"
#include "base/log.h"
#include "base/memory.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WINDOW = 1000, PAUSE = 30000, LONGEST_PAUSE = 3600000, MOST_CPUS = 8192 }; /* ms */

/* Other programs count as using the CPUs if they take this part of one: a program that computes beside us takes half.
 * Timers, daemons and the system's own threads stay far below. */
#define FOREIGN 0.25

typedef struct mask {
    cpu_set_t set[MOST_CPUS / CPU_SETSIZE];
} mask;

typedef struct sample {
    int64_t time;     /* ms */
    double busy, own; /* seconds the CPUs were busy, and those this process used */
} sample;

static struct {
    pthread_mutex_t lock; /* of all that is not atomic */
    int runs;             /* between ls_pin_begin and ls_pin_end */
    int *cpus, count;     /* our CPUs */
    mask ours, around;    /* our CPUs, and those we could use before pinning */
    ls_pin_rules rules;
    sample last;
    int64_t pause;
    atomic_bool free, shared;
    _Atomic uint32_t changes;
    _Atomic int64_t next; /* time of the next measurement */
} pin = {.lock = PTHREAD_MUTEX_INITIALIZER, .next = INT64_MAX};

static int64_t now_ms(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static sample take_sample(void)
{
    struct timespec own;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
    return (sample){.time = now_ms(CLOCK_MONOTONIC_COARSE),
                    .busy = ls_cpus_busy(pin.rules.root, pin.cpus, pin.count),
                    .own = (double)own.tv_sec + (double)own.tv_nsec * 1e-9};
}

/* Give threads of this process that have the first mask the second; threads with any other mask are left alone. */
static void move_threads(const mask *from, const mask *to)
{
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *entry; tasks && (entry = readdir(tasks));) {
        pid_t task = atoi(entry->d_name);
        mask now;
        memset(&now, 0, sizeof now);
        if (task <= 0 || sched_getaffinity(task, sizeof now.set, now.set) != 0) continue;
        if (CPU_EQUAL_S(sizeof now.set, now.set, from->set)) sched_setaffinity(task, sizeof to->set, to->set);
    }
    if (tasks) closedir(tasks);
}

static void pin_threads(void)
{
    move_threads(&pin.around, &pin.ours);
    pin.last = take_sample();
    atomic_store(&pin.next, pin.last.busy < 0 ? INT64_MAX : pin.last.time + pin.rules.window_ms);
    atomic_store(&pin.free, false);
    atomic_store(&pin.shared, false);
    atomic_fetch_add(&pin.changes, 1);
}

static void unpin_threads(void)
{
    move_threads(&pin.ours, &pin.around);
    atomic_store(&pin.free, true);
    atomic_store(&pin.shared, true);
    atomic_fetch_add(&pin.changes, 1);
    atomic_store(&pin.next, now_ms(CLOCK_MONOTONIC_COARSE) + pin.pause);
    pin.pause = pin.pause * 2 < LONGEST_PAUSE ? pin.pause * 2 : LONGEST_PAUSE;
    ls_log_line(LS_LOG_INFO, "other programs use the CPUs of this process: its threads are no longer pinned");
}

void ls_pin_begin(const int *cpus, int count, const ls_pin_rules *rules)
{
    const char *asked = ls_config_text(LS_SETTING_PIN);
    bool always = strcmp(asked, "yes") == 0, never = strcmp(asked, "no") == 0;
    if (!always && !never && strcmp(asked, "auto") != 0)
        LS_LOG_ONCE_OF_JOB(LS_LOG_WARN, "LOCKSTEP_PIN must be auto, yes or no; using \"auto\"");
    pthread_mutex_lock(&pin.lock);
    if (pin.runs++ == 0) {
        memset(&pin.ours, 0, sizeof pin.ours);
        memset(&pin.around, 0, sizeof pin.around);
        pin.rules = rules ? *rules : (ls_pin_rules){0};
        if (!pin.rules.root) pin.rules.root = "";
        if (!pin.rules.window_ms) pin.rules.window_ms = WINDOW;
        pin.pause = pin.rules.pause_ms ? pin.rules.pause_ms : PAUSE;
        pin.cpus = ls_sys_alloc((size_t)count * sizeof *cpus);
        pin.count = pin.cpus ? count : 0;
        for (int i = 0; i < pin.count; i++) {
            pin.cpus[i] = cpus[i];
            if (cpus[i] < MOST_CPUS) CPU_SET_S((size_t)cpus[i], sizeof pin.ours.set, pin.ours.set);
        }
        bool known = pin.cpus && sched_getaffinity(0, sizeof pin.around.set, pin.around.set) == 0;
        if (known && !never) pin_threads();
        if (always || never || !known) atomic_store(&pin.next, INT64_MAX);
        if (never || !known) atomic_store(&pin.free, true), atomic_fetch_add(&pin.changes, 1);
    }
    pthread_mutex_unlock(&pin.lock);
}

void ls_pin_end(void)
{
    pthread_mutex_lock(&pin.lock);
    if (pin.runs > 0 && --pin.runs == 0) {
        if (!atomic_load(&pin.free)) move_threads(&pin.ours, &pin.around);
        atomic_store(&pin.next, INT64_MAX);
        atomic_store(&pin.shared, false);
        atomic_store(&pin.free, false);
        atomic_fetch_add(&pin.changes, 1);
        ls_sys_free(pin.cpus);
        pin.cpus = NULL;
    }
    pthread_mutex_unlock(&pin.lock);
}

static void check_use(void)
{
    if (atomic_load(&pin.free)) {
        pin_threads();
        return;
    }
    sample now = take_sample();
    double seconds = (double)(now.time - pin.last.time) * 1e-3;
    double foreign = now.busy - pin.last.busy - (now.own - pin.last.own);
    pin.last = now;
    atomic_store(&pin.next, now.time + pin.rules.window_ms);
    if (foreign > FOREIGN * seconds) unpin_threads();
}

void ls_pin_watch(void)
{
    if (now_ms(CLOCK_MONOTONIC_COARSE) < atomic_load_explicit(&pin.next, memory_order_relaxed)) return;
    if (pthread_mutex_trylock(&pin.lock) != 0) return;
    if (now_ms(CLOCK_MONOTONIC_COARSE) >= atomic_load(&pin.next)) check_use();
    pthread_mutex_unlock(&pin.lock);
}

bool ls_pin_held(void)
{
    return !atomic_load_explicit(&pin.free, memory_order_relaxed);
}

bool ls_pin_shared(void)
{
    return atomic_load_explicit(&pin.shared, memory_order_relaxed);
}

uint32_t ls_pin_changes(void)
{
    return atomic_load_explicit(&pin.changes, memory_order_relaxed);
}
