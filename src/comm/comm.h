/* comm.h - collectives on raw host memory, and the processes they run between. Internal side of <lockstep/comm.h>,
 * which lists the calls.
 *
 * A communicator is a group of processes, the ranks, numbered from 0. All ranks make the same calls in the same order.
 * A call is a description that can be run now (ls_comm_run), run in the background (queue.h), recorded and compared.
 * Ranks that disagree about a call each get an error that says what every side called, and from where. Results depend
 * on ranks and values, not on timing: every sum is formed in rank order; f16 and bf16 are summed in f32 and rounded
 * once.
 *
 * Functions return LS_OK, or a status with the reason in `why`; after a failure the communicator is unusable. Only one
 * thread may use a communicator at a time. */
#ifndef LOCKSTEP_COMM_COMM_H
#define LOCKSTEP_COMM_COMM_H

#include <lockstep/collective.h>

#include <stdatomic.h>

#include "base/message.h"

typedef struct ls_comm ls_comm;
struct ls_device;
typedef struct ls_comm ls_comm;

/* Elements in the part of `rank`. */
static inline int64_t ls_comm_part(const ls_comm_call *call, int rank)
{
    return call->counts ? call->counts[rank] : call->count;
}

/* Elements before the part of `rank`; with rank = number of ranks, the total. */
static inline int64_t ls_comm_offset(const ls_comm_call *call, int rank)
{
    int64_t sum = 0;
    if (!call->counts) return call->count * rank;
    for (int r = 0; r < rank; r++) sum += call->counts[r];
    return sum;
}

typedef struct ls_comm_table {
    const char *name;
    ls_status (*run)(ls_comm *comm, const ls_comm_call *call, ls_message *why);
    /* Called by all ranks: those with the same colour form a communicator, ordered by key, then by rank. NULL on
     * failure. */
    ls_comm *(*split)(ls_comm *comm, int colour, int key, ls_message *why);
    /* Called by all ranks with the same size: memory in which arrays are reduced in place, without copies. It is
     * zeroed, page-aligned, and freed with the communicator. NULL on failure. */
    void *(*share)(ls_comm *comm, size_t bytes, ls_message *why);
    /* Every rank of the job that waits, now or later, gets LS_ERR_PEER with this reason. */
    void (*abort)(ls_comm *comm, const char *reason);
    /* Every rank that waits, or calls before reset, gets LS_ERR_MEMORY: an attempt needed more memory than there is,
     * and will be repeated differently. */
    void (*cancel)(ls_comm *comm);
    /* Called by all ranks while none is inside a call of this communicator: forget half-finished calls. */
    void (*reset)(ls_comm *comm);
    void (*close)(ls_comm *comm);                 /* close the communicators split from it first */
    struct ls_segment *(*segment)(ls_comm *comm); /* (optional) see ls_comm_segment() */
} ls_comm_table;

struct ls_comm {
    const ls_comm_table *table;
    int rank, size;
    struct ls_comm_queue *queue;    /* the queue that owns it (queue.h); NULL: none */
    struct ls_comm_device *devices; /* devices whose memory was passed to it (on_device.c) */
    _Atomic int *started;           /* requests in all queues of this process; NULL: they are not counted */
    bool ignores_cancel;            /* cancel() does not interrupt its calls */
    bool background;                /* other threads need the CPU more: spin only briefly */
    struct ls_helpers *helpers;     /* threads that help with large arrays (helpers.h); NULL: none */
    void *user;                     /* for its creator */
};

/* The communicator of this process alone. A shared constant that need not be closed; its splits are ordinary ones. */
ls_comm *ls_comm_self(void);

/* "all-reduce", "sum". Never NULL. */
const char *ls_comm_kind_name(ls_comm_kind kind);
const char *ls_comm_op_name(ls_reduction op);
bool ls_comm_reduces(ls_comm_kind kind);

/* ---- Calls ---- */

/* Check the description and run it. */
ls_status ls_comm_run(ls_comm *comm, const ls_comm_call *call, ls_message *why);
/* Elements that this rank's `in` and `out` must hold; the root of a broadcast passes its data in `out`. */
void ls_comm_elements(const ls_comm *comm, const ls_comm_call *call, int64_t *in, int64_t *out);

/* on_device.c: the same for `in` and `out` in device memory, ordered with everything submitted to the device before and
 * after. Host memory is used in place; other memory goes through the device's own collective library, or through the
 * host where it has none. */
ls_status ls_comm_run_on(ls_comm *comm, struct ls_device *device, const ls_comm_call *call, ls_message *why);
void ls_comm_leave_devices(ls_comm *comm, bool abort); /* abort: calls may be in flight */

/* data[i] = op over ranks of data[i], the same bits on every rank. */
static inline ls_status ls_comm_all_reduce(ls_comm *comm, void *data, int64_t count, ls_dtype dtype, ls_reduction op,
                                           const char *site, ls_message *why)
{
    return ls_comm_run(comm,
                       &(ls_comm_call){.kind = LS_COMM_ALL_REDUCE,
                                       .dtype = dtype,
                                       .op = op,
                                       .count = count,
                                       .in = data,
                                       .out = data,
                                       .site = site},
                       why);
}

/* all = the `bytes` of rank 0, of rank 1, ... */
static inline ls_status ls_comm_all_gather(ls_comm *comm, const void *mine, void *all, size_t bytes, const char *site,
                                           ls_message *why)
{
    return ls_comm_run(
        comm,
        &(ls_comm_call){
            .kind = LS_COMM_ALL_GATHER, .dtype = LS_U8, .count = (int64_t)bytes, .in = mine, .out = all, .site = site},
        why);
}

static inline ls_status ls_comm_broadcast(ls_comm *comm, void *data, size_t bytes, int from, const char *site,
                                          ls_message *why)
{
    return ls_comm_run(comm,
                       &(ls_comm_call){.kind = LS_COMM_BROADCAST,
                                       .dtype = LS_U8,
                                       .count = (int64_t)bytes,
                                       .out = data,
                                       .peer = from,
                                       .site = site},
                       why);
}

static inline ls_status ls_comm_barrier(ls_comm *comm, const char *site, ls_message *why)
{
    return ls_comm_run(comm, &(ls_comm_call){.kind = LS_COMM_BARRIER, .dtype = LS_U8, .site = site}, why);
}

static inline void ls_comm_close(ls_comm *comm)
{
    if (!comm) return;
    ls_comm_leave_devices(comm, false);
    comm->table->close(comm);
}

/* The memory that the processes of this host share, with a record of what each does (shm/segment.h): valid while the
 * communicator is open, longer for those who hold it. NULL: there are no others. */
static inline struct ls_segment *ls_comm_segment(ls_comm *comm)
{
    return comm->table->segment ? comm->table->segment(comm) : NULL;
}

/* After a cancel: see the table's entry. */
static inline void ls_comm_reset(ls_comm *comm)
{
    ls_comm_leave_devices(comm, true);
    comm->table->reset(comm);
}

#endif
