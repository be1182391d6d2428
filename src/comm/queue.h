/* queue.h - calls that run in the background, one after the other, on a thread of their own.
 *
 * All ranks start the same calls in the same order. A request belongs to the caller and stays where it is until it has
 * been waited for. */
#ifndef LOCKSTEP_COMM_QUEUE_H
#define LOCKSTEP_COMM_QUEUE_H

#include "comm/comm.h"

typedef struct ls_comm_request ls_comm_request;
typedef ls_status ls_comm_work_fn(ls_comm *comm, ls_comm_request *request, ls_message *why);

struct ls_comm_request {
    ls_comm_work_fn *work; /* what to do; it makes any number of calls, as many on every rank */
    void *user;
    ls_comm_request *next; /* in the queue */
    bool done;
    ls_status status;
    ls_message why;
};

/* The threads of a queue: the first makes the calls, the others share in what is large. */
enum { LS_COMM_WORKERS_MOST = 64 };
typedef struct ls_comm_workers {
    int count;                     /* 0: who starts a call makes it */
    int cpu[LS_COMM_WORKERS_MOST]; /* where each runs; -1: anywhere */
} ls_comm_workers;

typedef struct ls_comm_queue ls_comm_queue;

/* The communicator is the queue's from here on, also after a failure: nobody else's calls get between. Threads begin
 * with the first call; where none can be had, calls are made by who starts them. NULL: failed. */
ls_comm_queue *ls_comm_queue_new(ls_comm *comm, const ls_comm_workers *workers, ls_message *why);
void ls_comm_queue_free(ls_comm_queue *queue); /* waits for what was started; NULL is accepted */

void ls_comm_start(ls_comm_queue *queue, ls_comm_request *request);
bool ls_comm_done(ls_comm_queue *queue, const ls_comm_request *request); /* does not wait */
ls_status ls_comm_wait(ls_comm_queue *queue, ls_comm_request *request, ls_message *why);

/* Its communicator, for others than its thread: only while nothing is under way. */
ls_comm *ls_comm_queue_comm(ls_comm_queue *queue);
/* Wait until that is so, and let calls be made without regard for others who need the CPU. */
ls_comm *ls_comm_queue_enter(ls_comm_queue *queue);
void ls_comm_queue_leave(ls_comm_queue *queue);

#endif
