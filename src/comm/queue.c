/* queue.c - the communication thread. */
#include "comm/queue.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#include "base/memory.h"

struct ls_comm_queue {
    ls_comm *comm;
    bool threaded, ending;
    pthread_t thread;
    pthread_mutex_t lock; /* of the list and of requests in it */
    pthread_cond_t started, finished;
    ls_comm_request *first, **last;
};

static void work_off(ls_comm_queue *queue, ls_comm_request *request)
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
        work_off(queue, request);
        pthread_mutex_lock(&queue->lock);
        queue->first = request->next;
        if (!queue->first) queue->last = &queue->first;
        request->done = true;
        pthread_cond_broadcast(&queue->finished);
    }
    pthread_mutex_unlock(&queue->lock);
    return NULL;
}

ls_comm_queue *ls_comm_queue_new(ls_comm *comm, bool threaded, int cpu, ls_message *why)
{
    ls_comm_queue *queue = ls_sys_alloc(sizeof *queue);
    if (!queue) return snprintf(why->text, sizeof why->text, "no memory"), NULL;
    queue->comm = comm->table->split(comm, 0, comm->rank, why);
    if (!queue->comm) return ls_sys_free(queue), NULL;
    queue->comm->background = threaded;
    queue->threaded = threaded;
    queue->last = &queue->first;
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->started, NULL);
    pthread_cond_init(&queue->finished, NULL);
    if (threaded && pthread_create(&queue->thread, NULL, thread_main, queue) != 0) {
        snprintf(why->text, sizeof why->text, "no thread for communication");
        queue->threaded = false;
        ls_comm_queue_free(queue);
        return NULL;
    }
    cpu_set_t set;
    CPU_ZERO(&set);
    if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_SET((size_t)cpu, &set);
    if (threaded && CPU_COUNT(&set)) pthread_setaffinity_np(queue->thread, sizeof set, &set);
    return queue;
}

void ls_comm_queue_free(ls_comm_queue *queue)
{
    if (!queue) return;
    if (queue->threaded) {
        pthread_mutex_lock(&queue->lock);
        queue->ending = true;
        pthread_cond_signal(&queue->started);
        pthread_mutex_unlock(&queue->lock);
        pthread_join(queue->thread, NULL);
    }
    pthread_mutex_destroy(&queue->lock);
    pthread_cond_destroy(&queue->started);
    pthread_cond_destroy(&queue->finished);
    ls_comm_close(queue->comm);
    ls_sys_free(queue);
}

void ls_comm_start(ls_comm_queue *queue, ls_comm_request *request)
{
    request->next = NULL;
    request->done = false;
    request->status = LS_OK;
    if (!queue->threaded) {
        work_off(queue, request);
        request->done = true;
        return;
    }
    pthread_mutex_lock(&queue->lock);
    *queue->last = request;
    queue->last = &request->next;
    pthread_cond_signal(&queue->started);
    pthread_mutex_unlock(&queue->lock);
}

ls_status ls_comm_wait(ls_comm_queue *queue, ls_comm_request *request, ls_message *why)
{
    pthread_mutex_lock(&queue->lock);
    while (!request->done) pthread_cond_wait(&queue->finished, &queue->lock);
    pthread_mutex_unlock(&queue->lock);
    if (request->status) *why = request->why;
    return request->status;
}

ls_comm *ls_comm_queue_comm(ls_comm_queue *queue)
{
    return queue->comm;
}
