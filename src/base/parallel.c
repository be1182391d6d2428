/* parallel.c - the team of worker threads.
 *
 * Each worker waits at a bell of its own, so a call for two workers does not disturb the other sixty. A bell is one
 * word that says everything about its worker (idle, rung, asleep): ringing and falling asleep are single atomic
 * exchanges on it and a wake-up cannot be lost. The call's end and the barrier keep "somebody sleeps" in the same word
 * they count with, for the same reason. */
#include "base/parallel.h"

#include "base/config.h"
#include "base/cpus.h"
#include "base/denormals.h"
#include "base/futex.h"
#include "base/log.h"
#include "base/pin.h"
#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define MAX_WIDTH 1024
#define LINE 128 /* two cache lines: cores prefetch in pairs */

/* About 70 us: longer than the gap between two operators, too short to waste much CPU time. */
#if defined(__x86_64__)
#define SPINS 2000
#else
#define SPINS 5000
#endif
#define SPINS_CROWDED 20

enum { IDLE, RUNG, ASLEEP }; /* states of a bell */

#define SLEEPING 0x80000000u /* in team.unfinished: the leader sleeps */

typedef struct member {
    _Alignas(LINE) ls_futex bell;
    pthread_t thread;
    int cpu; /* it is pinned to; -1: not pinned */
} member;

static struct {
    atomic_bool led;   /* a thread leads the team right now */
    atomic_int wanted; /* width asked for; 0: the default */
    int width;         /* members that exist, the leader (member 0) included; 0: no team yet */
    int asked;         /* the width it was gathered for: more, if the system has refused threads */
    int reserved;      /* the CPU left to the leader if the others are pinned; -1: none is pinned */
    bool crowded;      /* more members than CPUs, or other programs use them too */
    uint32_t pins;     /* ls_pin_changes() when CPUs were chosen */
    bool watches_forks;
    atomic_int spins; /* how long to spin before sleeping */

    /* The call in progress; written by the leader before it rings. */
    ls_spmd_fn *fn; /* NULL: exit */
    void *arg;
    int workers;
    bool flushes; /* denormals: taken over from the leader's thread */

    _Alignas(LINE) ls_futex unfinished; /* workers still running, and SLEEPING */
    _Alignas(LINE) ls_futex arrived;    /* at the barrier */
    _Alignas(LINE) ls_futex phase;      /* of the barrier, counted in twos; odd: somebody sleeps */

    member members[MAX_WIDTH];
} team;

/* ---- Members -------------------------------------------------------------------------------------------------- */

/* Spin for a while; true if the word has become `value`. */
static bool spin_until(ls_futex *word, uint32_t value)
{
    int spins = atomic_load_explicit(&team.spins, memory_order_relaxed);
    for (int i = 0; i < spins; i++) {
        if (atomic_load_explicit(word, memory_order_acquire) == value) return true;
        ls_spin_hint();
    }
    return false;
}

static void wait_for_bell(ls_futex *bell)
{
    uint32_t idle = IDLE;
    if (!spin_until(bell, RUNG) && atomic_compare_exchange_strong(bell, &idle, ASLEEP)) {
        while (atomic_load_explicit(bell, memory_order_acquire) == ASLEEP) ls_futex_wait(bell, ASLEEP);
    }
    atomic_store_explicit(bell, IDLE, memory_order_relaxed);
}

static void ring(ls_futex *bell)
{
    if (atomic_exchange(bell, RUNG) == ASLEEP) ls_futex_wake_all(bell);
}

static void finish(void)
{
    if (atomic_fetch_sub(&team.unfinished, 1) == (SLEEPING | 1)) ls_futex_wake_all(&team.unfinished);
}

static void wait_for_members(void)
{
    if (spin_until(&team.unfinished, 0)) return;
    uint32_t left = atomic_fetch_or(&team.unfinished, SLEEPING) | SLEEPING;
    while (left != SLEEPING) {
        ls_futex_wait(&team.unfinished, left);
        left = atomic_load_explicit(&team.unfinished, memory_order_acquire);
    }
}

static void *member_main(void *self)
{
    member *me = self;
    int index = (int)(me - team.members);
    char name[16];
    snprintf(name, sizeof name, "lockstep-%d", index);
    pthread_setname_np(pthread_self(), name);
    if (me->cpu >= 0) {
        cpu_set_t cpu[8];
        memset(cpu, 0, sizeof cpu);
        CPU_SET_S((size_t)me->cpu, sizeof cpu, cpu);
        pthread_setaffinity_np(pthread_self(), sizeof cpu, cpu); /* a failure costs only speed */
    }
    for (;;) {
        wait_for_bell(&me->bell);
        if (!team.fn) return NULL;
        if (ls_denormals_flushed() != team.flushes) ls_denormals_flush(team.flushes);
        team.fn(team.arg, (ls_worker){index, team.workers});
        finish();
    }
}

/* ---- The team ------------------------------------------------------------------------------------------------- */

static void stop_members(void)
{
    team.fn = NULL;
    for (int i = 1; i < team.width; i++) ring(&team.members[i].bell);
    for (int i = 1; i < team.width; i++) pthread_join(team.members[i].thread, NULL);
    team.width = team.asked = 0;
}

/* Only the forking thread exists in the child; the threads of the team do not. */
static void forget_team(void)
{
    team.width = team.asked = 0;
    atomic_store(&team.unfinished, 0);
    atomic_store(&team.led, false);
}

/* One CPU per member if there are exactly as many, and no other program uses them. The leader is the user's thread and
 * is not pinned; the CPU it runs on now is left to it. */
static void choose_cpus(int width)
{
    int cpus[MAX_WIDTH];
    int count = ls_cpus_allowed(cpus, MAX_WIDTH);
    team.pins = ls_pin_changes();
    team.crowded = width > count || ls_pin_shared();
    team.reserved = width == count && ls_pin_held() ? sched_getcpu() : -1;
    for (int i = 1, next = 0; i < width; i++) {
        if (team.reserved >= 0 && cpus[next] == team.reserved) next++;
        team.members[i].cpu = team.reserved >= 0 ? cpus[next++] : -1;
    }
}

/* If two members share a CPU, one that spins delays the other, whose work it is waiting for. This also happens when the
 * system has moved the leader to the CPU of a pinned member. */
static int choose_spins(void)
{
    bool moved = team.reserved >= 0 && sched_getcpu() != team.reserved;
    return team.crowded || moved ? SPINS_CROWDED : SPINS;
}

static void gather(int width)
{
    if (!team.watches_forks) team.watches_forks = pthread_atfork(NULL, NULL, forget_team) == 0;
    if (team.width > 1) stop_members();
    choose_cpus(width);
    team.asked = width;
    atomic_store(&team.arrived, 0);
    atomic_store(&team.phase, 0);

    for (team.width = 1; team.width < width; team.width++) {
        member *next = &team.members[team.width];
        atomic_store(&next->bell, IDLE);
        if (!ls_thread_start(&next->thread, member_main, next)) {
            LS_LOG_ONCE(LS_LOG_WARN, "could start only %d of %d threads", team.width, width);
            break;
        }
    }
}

static atomic_int default_width;                       /* 0: not found yet */
static atomic_int share_cpus = 0, share_processes = 1; /* see ls_parallel_share(); 0: all that are allowed */

/* The number asked for, else the CPUs available; and where the number comes from. */
static int find_default_width(const char **source)
{
    uint64_t asked = ls_config_count(LS_SETTING_NUM_THREADS);
    if (asked) {
        *source = ls_config_source(LS_SETTING_NUM_THREADS);
        if (asked > MAX_WIDTH)
            LS_LOG_ONCE_OF_JOB(LS_LOG_WARN, "%s=%llu: a process has at most %d threads; %d are used", *source,
                               (unsigned long long)asked, MAX_WIDTH, MAX_WIDTH);
        return asked < MAX_WIDTH ? (int)asked : MAX_WIDTH;
    }
    int processes = atomic_load(&share_processes), width = atomic_load(&share_cpus), quota = ls_cpus_quota("");
    *source = processes > 1 ? "its share of the CPUs allowed" : "the CPUs allowed";
    if (!width) width = ls_cpus_allowed(NULL, 0);
    if (quota && quota / processes < width) {
        *source = processes > 1 ? "its share of the CPU quota" : "the CPU quota";
        width = quota / processes;
    }
    return width < 1 ? 1 : width < MAX_WIDTH ? width : MAX_WIDTH;
}

int ls_parallel_width(void)
{
    int width = atomic_load_explicit(&team.wanted, memory_order_relaxed);
    if (!width) width = atomic_load_explicit(&default_width, memory_order_relaxed);
    if (!width)
        atomic_store_explicit(&default_width, width = find_default_width(&(const char *){NULL}), memory_order_relaxed);
    return width;
}

const char *ls_parallel_width_source(void)
{
    const char *source = "the program";
    if (!atomic_load_explicit(&team.wanted, memory_order_relaxed)) find_default_width(&source);
    return source;
}

void ls_parallel_share(int cpus, int processes)
{
    atomic_store(&share_cpus, cpus);
    atomic_store(&share_processes, processes > 1 ? processes : 1);
    atomic_store(&default_width, 0);
}

void ls_parallel_set_width(int n)
{
    atomic_store(&team.wanted, n < 1 ? 0 : n < MAX_WIDTH ? n : MAX_WIDTH);
}

void ls_parallel_stop(void)
{
    if (atomic_exchange_explicit(&team.led, true, memory_order_acquire)) return; /* another thread leads the team */
    if (team.width > 1) stop_members();
    atomic_store_explicit(&team.led, false, memory_order_release);
}

void ls_parallel_reload(void)
{
    atomic_store(&team.wanted, 0);
    atomic_store(&default_width, 0);
}

/* ---- Calls ---------------------------------------------------------------------------------------------------- */

static void call_team(ls_spmd_fn *fn, void *arg, int workers)
{
    team.fn = fn;
    team.arg = arg;
    team.workers = workers;
    team.flushes = ls_denormals_flushed();
    atomic_store_explicit(&team.spins, choose_spins(), memory_order_relaxed);
    atomic_store_explicit(&team.unfinished, (uint32_t)workers - 1, memory_order_relaxed);
    for (int i = 1; i < workers; i++) ring(&team.members[i].bell);
    fn(arg, (ls_worker){0, workers});
    wait_for_members();
}

void ls_parallel(ls_spmd_fn *fn, void *arg, int max_workers)
{
    int width = ls_parallel_width();
    /* This also covers a call from inside a worker: the team is led. */
    if (width == 1 || max_workers <= 1 || atomic_exchange_explicit(&team.led, true, memory_order_acquire)) {
        fn(arg, (ls_worker){0, 1});
        return;
    }
    if (team.asked != width || team.pins != ls_pin_changes()) gather(width);
    int workers = max_workers < team.width ? max_workers : team.width;
    if (workers > 1) call_team(fn, arg, workers);
    else fn(arg, (ls_worker){0, 1});
    atomic_store_explicit(&team.led, false, memory_order_release);
}

void ls_parallel_barrier(ls_worker worker)
{
    if (worker.width == 1) return;
    uint32_t phase = atomic_load_explicit(&team.phase, memory_order_relaxed) & ~1u;
    if (atomic_fetch_add(&team.arrived, 1) + 1 == (uint32_t)worker.width) {
        atomic_store_explicit(&team.arrived, 0, memory_order_relaxed);
        if (atomic_exchange(&team.phase, phase + 2) & 1) ls_futex_wake_all(&team.phase);
        return;
    }
    if (spin_until(&team.phase, phase + 2)) return;
    uint32_t seen = phase;
    if (atomic_compare_exchange_strong(&team.phase, &seen, phase | 1)) seen = phase | 1;
    while (seen == (phase | 1)) {
        ls_futex_wait(&team.phase, seen);
        seen = atomic_load_explicit(&team.phase, memory_order_acquire);
    }
}

void ls_worker_range(ls_worker worker, int64_t n, int64_t align, int64_t *begin, int64_t *end)
{
    int64_t pieces = n / align + (n % align != 0);
    int64_t each = pieces / worker.width, extra = pieces % worker.width;
    int64_t first = worker.index * each + (worker.index < extra ? worker.index : extra);
    int64_t last = first + each + (worker.index < extra);
    *begin = first * align < n ? first * align : n;
    *end = last * align < n ? last * align : n;
}

typedef struct range_call {
    int64_t n;
    ls_range_fn *body;
    void *arg;
} range_call;

static void run_range(void *arg, ls_worker worker)
{
    const range_call *call = arg;
    int64_t begin, end;
    ls_worker_range(worker, call->n, 1, &begin, &end);
    call->body(call->arg, begin, end);
}

void ls_parallel_for(int64_t n, int64_t grain, ls_range_fn *body, void *arg)
{
    if (n <= 0) return;
    int64_t ranges = grain > 1 ? n / grain : n;
    if (ranges <= 1) {
        body(arg, 0, n);
        return;
    }
    ls_parallel(run_range, &(range_call){n, body, arg}, ranges < MAX_WIDTH ? (int)ranges : MAX_WIDTH);
}
