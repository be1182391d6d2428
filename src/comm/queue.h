/* queue.h - calls that run in the background, in order, on a thread of their own.
 *
 * All ranks start the same calls in the same order. The caller owns a request and must keep it in place until it has
 * been waited for. */
#ifndef LOCKSTEP_COMM_QUEUE_H
#define LOCKSTEP_COMM_QUEUE_H

#include "comm/comm.h"

typedef struct ls_comm_request ls_comm_request;
typedef ls_status ls_comm_work_fn(ls_comm *comm, ls_comm_request *request, ls_message *why);

struct ls_comm_request {
    ls_comm_work_fn *work; /* makes any number of calls, the same on every rank */
    void *user;
    ls_comm_request *next; /* in the queue */
    bool done;
    ls_status status;
    ls_message why;
};

/* The threads of a queue: the first makes the calls, the others help with large arrays. */
enum { LS_COMM_WORKERS_MOST = 64 };
typedef struct ls_comm_workers {
    int count;                     /* 0: calls run in the thread that starts them */
    int cpu[LS_COMM_WORKERS_MOST]; /* where each runs; -1: anywhere */
} ls_comm_workers;

typedef struct ls_comm_queue ls_comm_queue;

/* Takes ownership of the communicator, also on failure: no other caller's calls may come in between. Threads start with
 * the first call; if none can be started, calls run in the caller. NULL on failure. */
ls_comm_queue *ls_comm_queue_new(ls_comm *comm, const ls_comm_workers *workers, ls_message *why);
void ls_comm_queue_free(ls_comm_queue *queue); /* waits for started requests; NULL is accepted */

void ls_comm_start(ls_comm_queue *queue, ls_comm_request *request);
bool ls_comm_done(ls_comm_queue *queue, const ls_comm_request *request); /* does not wait */
ls_status ls_comm_wait(ls_comm_queue *queue, ls_comm_request *request, ls_message *why);

/* Its communicator, for use outside the thread: only while no request is in flight. */
ls_comm *ls_comm_queue_comm(ls_comm_queue *queue);
/* Wait until none is, and until leave let calls spin as if the CPU were theirs. */
ls_comm *ls_comm_queue_enter(ls_comm_queue *queue);
void ls_comm_queue_leave(ls_comm_queue *queue);

/* For a thread inside a call of a communicator that counts its requests: can this process make no other call before
 * this one is done? True if the call was made by the program's thread, or that waits for it, and nothing else is under
 * way in the background. Once true it stays true until the call is done. */
bool ls_comm_holds_up_program(ls_comm *comm);

#endif
