/* queue.c - the communication thread. */
#include "comm/queue.h"

#include <pthread.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/spans.h"
#include "base/thread.h"
#include "comm/helpers.h"

struct ls_comm_queue {
    ls_comm *comm;
    ls_comm_workers workers;
    bool running, ending; /* the thread */
    pthread_t thread;
    pthread_mutex_t lock; /* protects the list and the requests in it */
    pthread_cond_t started, finished;
    ls_comm_request *first, **last;
    int waiting; /* threads that wait for requests */
};

static void count_started(const ls_comm_queue *queue, int change)
{
    if (queue->comm->started) atomic_fetch_add(queue->comm->started, change);
}

/* The lock is held. */
static void await_finish(ls_comm_queue *queue)
{
    queue->waiting++;
    pthread_cond_wait(&queue->finished, &queue->lock);
    queue->waiting--;
}

static void run_request(ls_comm_queue *queue, ls_comm_request *request)
{
    request->status = request->work(queue->comm, request, &request->why);
}

static void *thread_main(void *arg)
{
    ls_comm_queue *queue = arg;
    pthread_mutex_lock(&queue->lock);
    for (;;) {
        while (!queue->first && !queue->ending) pthread_cond_wait(&queue->started, &queue->lock);
        ls_comm_request *request = queue->first;
        if (!request) break;
        pthread_mutex_unlock(&queue->lock);
        run_request(queue, request);
        pthread_mutex_lock(&queue->lock);
        queue->first = request->next;
        if (!queue->first) queue->last = &queue->first;
        count_started(queue, -1);
        request->done = true;
        pthread_cond_broadcast(&queue->finished);
    }
    pthread_mutex_unlock(&queue->lock);
    return NULL;
}

ls_comm_queue *ls_comm_queue_new(ls_comm *comm, const ls_comm_workers *workers, ls_message *why)
{
    ls_comm_queue *queue = ls_sys_alloc(sizeof *queue);
    if (!queue) {
        ls_message_set(why, "no memory");
        ls_comm_close(comm);
        return NULL;
    }
    queue->comm = comm;
    comm->queue = queue;
    queue->workers = *workers;
    queue->last = &queue->first;
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->started, NULL);
    pthread_cond_init(&queue->finished, NULL);
    return queue;
}

/* Start the thread on the first call; if that fails it is not tried again. */
static bool has_thread(ls_comm_queue *queue)
{
    if (queue->running || queue->workers.count == 0) return queue->running;
    queue->running = ls_thread_start(&queue->thread, thread_main, queue);
    if (!queue->running) {
        LS_LOG_ONCE(LS_LOG_WARN, "cannot start a communication thread; collectives will block");
        queue->workers.count = 0;
        return false;
    }
    ls_thread_pin(queue->thread, queue->workers.cpu[0]);
    queue->comm->background = true;
    queue->comm->helpers = ls_helpers_new(queue->workers.count - 1, queue->workers.cpu + 1);
    return true;
}

void ls_comm_queue_free(ls_comm_queue *queue)
{
    if (!queue) return;
    if (queue->running) {
        pthread_mutex_lock(&queue->lock);
        queue->ending = true;
        pthread_cond_signal(&queue->started);
        pthread_mutex_unlock(&queue->lock);
        pthread_join(queue->thread, NULL);
    }
    pthread_mutex_destroy(&queue->lock);
    pthread_cond_destroy(&queue->started);
    pthread_cond_destroy(&queue->finished);
    ls_helpers_free(queue->comm->helpers);
    ls_comm_close(queue->comm);
    ls_sys_free(queue);
}

void ls_comm_start(ls_comm_queue *queue, ls_comm_request *request)
{
    request->next = NULL;
    request->done = false;
    request->status = LS_OK;
    if (!has_thread(queue)) {
        run_request(queue, request);
        request->done = true;
        return;
    }
    pthread_mutex_lock(&queue->lock);
    count_started(queue, 1);
    *queue->last = request;
    queue->last = &request->next;
    pthread_cond_signal(&queue->started);
    pthread_mutex_unlock(&queue->lock);
}

bool ls_comm_done(ls_comm_queue *queue, const ls_comm_request *request)
{
    pthread_mutex_lock(&queue->lock);
    bool done = request->done;
    pthread_mutex_unlock(&queue->lock);
    return done;
}

ls_status ls_comm_wait(ls_comm_queue *queue, ls_comm_request *request, ls_message *why)
{
    pthread_mutex_lock(&queue->lock);
    int64_t began = request->done ? 0 : ls_spans_clock();
    while (!request->done) await_finish(queue);
    pthread_mutex_unlock(&queue->lock);
    ls_spans_add(LS_SPAN_COMM_WAIT, "communication", NULL, began);
    if (request->status) *why = request->why;
    return request->status;
}

ls_comm *ls_comm_queue_comm(ls_comm_queue *queue)
{
    return queue->comm;
}

ls_comm *ls_comm_queue_enter(ls_comm_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    while (queue->first) await_finish(queue);
    pthread_mutex_unlock(&queue->lock);
    queue->comm->background = false;
    return queue->comm;
}

void ls_comm_queue_leave(ls_comm_queue *queue)
{
    queue->comm->background = queue->running;
}

bool ls_comm_holds_up_program(ls_comm *comm)
{
    ls_comm_queue *queue = comm->queue;
    if (!queue) return atomic_load(comm->started) == 0;
    int own = 0;
    pthread_mutex_lock(&queue->lock);
    for (const ls_comm_request *r = queue->first; r; r = r->next) own++;
    bool held = own == 0 || queue->waiting > 0;
    pthread_mutex_unlock(&queue->lock);
    return held && atomic_load(comm->started) == own;
}
