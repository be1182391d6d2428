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

typedef struct ls_comm_queue ls_comm_queue;

/* Called by all ranks: the queue has a communicator of its own, so that its calls do not get between those of others.
 * With `threaded` false requests are worked off by who starts them. cpu: where the thread runs; -1: anywhere. NULL:
 * failed. */
ls_comm_queue *ls_comm_queue_new(ls_comm *comm, bool threaded, int cpu, ls_message *why);
void ls_comm_queue_free(ls_comm_queue *queue); /* waits for what was started; NULL is accepted */

void ls_comm_start(ls_comm_queue *queue, ls_comm_request *request);
ls_status ls_comm_wait(ls_comm_queue *queue, ls_comm_request *request, ls_message *why);

/* Its communicator, for others than its thread: only while nothing is under way. */
ls_comm *ls_comm_queue_comm(ls_comm_queue *queue);

#endif
