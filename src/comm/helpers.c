/* helpers.c - threads that help a communication thread with large arrays. */
#include "comm/helpers.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/thread.h"

enum { LEAST_BYTES = 256 << 10, LINE = 64, PARTS_EACH = 2 }; /* fewer bytes are not worth waking threads for */

struct ls_helpers {
    int count;
    pthread_mutex_t lock; /* protects the fields up to `work` */
    pthread_cond_t wake, done;
    uint64_t round; /* number of jobs handed out so far */
    int busy;       /* helpers still working on this round */
    bool ending;

    ls_helpers_fn *work; /* of this round */
    void *user;
    size_t bytes, part;
    _Atomic size_t next; /* first byte not yet taken */
    pthread_t threads[];
};

static void take_parts(ls_helpers *h)
{
    for (size_t begin; (begin = atomic_fetch_add(&h->next, h->part)) < h->bytes;)
        h->work(h->user, begin, begin + h->part < h->bytes ? begin + h->part : h->bytes);
}

static void *thread_main(void *arg)
{
    ls_helpers *h = arg;
    uint64_t seen = 0;
    pthread_mutex_lock(&h->lock);
    for (;;) {
        while (h->round == seen && !h->ending) pthread_cond_wait(&h->wake, &h->lock);
        if (h->ending) break;
        seen = h->round;
        pthread_mutex_unlock(&h->lock);
        take_parts(h);
        pthread_mutex_lock(&h->lock);
        if (--h->busy == 0) pthread_cond_signal(&h->done);
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

void ls_thread_pin(pthread_t thread, int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (cpu < 0) return;
    if (cpu < CPU_SETSIZE) CPU_SET((size_t)cpu, &set);
    if (pthread_setaffinity_np(thread, sizeof set, &set) != 0)
        ls_log_line(LS_LOG_WARN, "LOCKSTEP_COMM_AFFINITY: this process may not use CPU %d", cpu);
}

ls_helpers *ls_helpers_new(int count, const int *cpu)
{
    ls_helpers *h = count > 0 ? ls_sys_alloc(sizeof *h + (size_t)count * sizeof *h->threads) : NULL;
    if (!h) return NULL;
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->wake, NULL);
    pthread_cond_init(&h->done, NULL);
    while (h->count < count && ls_thread_start(&h->threads[h->count], thread_main, h)) {
        ls_thread_pin(h->threads[h->count], cpu[h->count]);
        h->count++;
    }
    if (h->count) return h;
    ls_helpers_free(h);
    return NULL;
}

void ls_helpers_free(ls_helpers *h)
{
    if (!h) return;
    pthread_mutex_lock(&h->lock);
    h->ending = true;
    pthread_cond_broadcast(&h->wake);
    pthread_mutex_unlock(&h->lock);
    for (int i = 0; i < h->count; i++) pthread_join(h->threads[i], NULL);
    pthread_mutex_destroy(&h->lock);
    pthread_cond_destroy(&h->wake);
    pthread_cond_destroy(&h->done);
    ls_sys_free(h);
}

void ls_helpers_run(ls_helpers *h, size_t bytes, ls_helpers_fn *work, void *user)
{
    if (!h || bytes < LEAST_BYTES) {
        if (bytes) work(user, 0, bytes);
        return;
    }
    size_t parts = (size_t)(h->count + 1) * PARTS_EACH;
    pthread_mutex_lock(&h->lock);
    h->work = work;
    h->user = user;
    h->bytes = bytes;
    h->part = (bytes / parts / LINE + 1) * LINE;
    atomic_store(&h->next, 0);
    h->busy = h->count;
    h->round++;
    pthread_cond_broadcast(&h->wake);
    pthread_mutex_unlock(&h->lock);
    take_parts(h);
    pthread_mutex_lock(&h->lock);
    while (h->busy) pthread_cond_wait(&h->done, &h->lock);
    pthread_mutex_unlock(&h->lock);
}
