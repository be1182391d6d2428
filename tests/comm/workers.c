/* workers.c - the threads of a queue: several share large work, each on its CPU, without changing any result. */
#include <sched.h>
#include <stdatomic.h>

#include "base/config.h"
#include "comm/crew.h"
#include "comm/helpers.h"
#include "comm/queue.h"

enum { LARGE = 1 << 20, MANY = 3 };

/* ---- shared work ---- */

typedef struct watched {
    _Atomic int inside, most;
    _Atomic size_t bytes, pinned;
    _Atomic unsigned char touched[LARGE / 64];
    pthread_t caller;
} watched;

/* No thread leaves before two are in it, or a generous time has passed. */
static void meet(void *user, size_t begin, size_t end)
{
    watched *w = user;
    CHECK(begin % 64 == 0 && begin < end);
    for (size_t at = begin; at < end; at += 64) atomic_fetch_add(&w->touched[at / 64], 1);
    atomic_fetch_add(&w->bytes, end - begin);
    int now = atomic_fetch_add(&w->inside, 1) + 1;
    if (now > atomic_load(&w->most)) atomic_store(&w->most, now);
    for (int i = 0; i < 10000 && atomic_load(&w->most) < 2; i++) usleep(1000);
    atomic_fetch_sub(&w->inside, 1);
    cpu_set_t set;
    CHECK(pthread_getaffinity_np(pthread_self(), sizeof set, &set) == 0);
    if (!pthread_equal(pthread_self(), w->caller)) atomic_fetch_add(&w->pinned, CPU_COUNT(&set) == 1);
}

static int first_cpu(void)
{
    cpu_set_t set;
    int cpu = 0;
    CHECK(sched_getaffinity(0, sizeof set, &set) == 0);
    while (!CPU_ISSET((size_t)cpu, &set)) cpu++;
    return cpu;
}

static void large_work_is_shared(void)
{
    static watched w;
    int cpu = first_cpu(), cpus[MANY] = {cpu, cpu, cpu};
    ls_helpers *helpers = ls_helpers_new(MANY, cpus);
    CHECK(helpers != NULL);
    w.caller = pthread_self();
    ls_helpers_run(helpers, LARGE, meet, &w);
    CHECK(w.bytes == LARGE && w.most >= 2 && w.pinned >= 1);
    for (int i = 0; i < LARGE / 64; i++)
        CHECK_MSG(w.touched[i] == 1, "line %d was worked on %d times", i, w.touched[i]);
    ls_helpers_free(helpers);
}

static void count_calls(void *user, size_t begin, size_t end)
{
    size_t *seen = user;
    seen[0]++;
    seen[1] += end - begin;
}

/* Without helpers, or with little work, the caller does it in one piece. */
static void little_work_is_not_shared(void)
{
    ls_helpers *helpers = ls_helpers_new(1, (int[]){-1});
    size_t seen[2] = {0};
    ls_helpers_run(NULL, LARGE, count_calls, seen);
    CHECK(seen[0] == 1 && seen[1] == LARGE);
    ls_helpers_run(helpers, 100, count_calls, seen);
    CHECK(seen[0] == 2 && seen[1] == LARGE + 100);
    ls_helpers_run(helpers, 0, count_calls, seen);
    CHECK(seen[0] == 2);
    ls_helpers_free(helpers);
    CHECK(ls_helpers_new(0, NULL) == NULL);
    ls_helpers_free(NULL);
    ls_thread_pin(pthread_self(), CPU_SETSIZE + 5); /* only a warning */
}

/* ---- a queue ---- */

typedef struct sum_request {
    ls_comm_request request;
    float *data;
    int64_t count;
} sum_request;

static ls_status sum_up(ls_comm *comm, ls_comm_request *request, ls_message *why)
{
    sum_request *s = (sum_request *)request;
    return ls_comm_all_reduce(comm, s->data, s->count, LS_F32, LS_REDUCE_SUM, "sum_up", why);
}

static void reduce_with(ls_comm *all, crew_result *result, int workers)
{
    enum { ROUNDS = 4, COUNT = 500001 };
    ls_comm *comm = all->table->split(all, 0, all->rank, &result->why);
    ls_comm_workers w = {.count = workers};
    for (int i = 0; i < workers; i++) w.cpu[i] = -1;
    ls_comm_queue *queue = ls_comm_queue_new(comm, &w, &result->why);
    CHECK_MSG(queue, "%s", result->why.text);
    sum_request s[ROUNDS];
    for (int k = 0; k < ROUNDS; k++) {
        s[k] = (sum_request){.request.work = sum_up, .count = COUNT};
        s[k].data =
            k % 2 ? malloc(COUNT * sizeof(float)) : comm->table->share(comm, COUNT * sizeof(float), &result->why);
        for (int64_t i = 0; i < COUNT; i++) s[k].data[i] = (float)((i + k) % 1000 + comm->rank);
    }
    for (int k = 0; k < ROUNDS; k++) ls_comm_start(queue, &s[k].request);
    CHECK(ls_comm_queue_enter(queue) == comm && ls_comm_done(queue, &s[ROUNDS - 1].request));
    CHECK((comm->helpers != NULL) == (workers > 1));
    ls_comm_queue_leave(queue);
    for (int k = 0; k < ROUNDS; k++) {
        CHECK_MSG(ls_comm_wait(queue, &s[k].request, &result->why) == LS_OK, "%s", result->why.text);
        int64_t wrong = 0;
        for (int64_t i = 0; i < COUNT; i++)
            wrong += s[k].data[i] != (float)((i + k) % 1000 * comm->size + (int64_t)comm->size * (comm->size - 1) / 2);
        CHECK_MSG(wrong == 0, "%lld sums of %d workers are wrong", (long long)wrong, workers);
        if (k % 2) free(s[k].data);
    }
    ls_comm_queue_free(queue);
}

static void use_queues(ls_comm *comm, crew_result *result)
{
    for (int workers = 0; workers <= MANY; workers++) reduce_with(comm, result, workers);
}

static void any_number_of_workers_gives_the_same_sums(void)
{
    crew_run_threads(2, use_queues);
    crew_run(2, use_queues);
    crew_run(5, use_queues); /* enough ranks to reduce slices */
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(large_work_is_shared);
    CHECK_RUN(little_work_is_not_shared);
    CHECK_RUN_FORK(any_number_of_workers_gives_the_same_sums);
    return check_done();
}
