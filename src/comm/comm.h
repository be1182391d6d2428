/* comm.h - collectives on raw host memory, and the processes they run between: the inside of <lockstep/comm.h>, which
 * says what calls there are.
 *
 * A communicator is a group of processes, the ranks, numbered from 0. All of them make the same calls in the same
 * order; a call is a description that can be run now (ls_comm_run), in the background (queue.h), recorded and compared.
 * Ranks that disagree about a call learn what each of them called, and from where. Results depend on ranks and numbers,
 * not on timing: every sum is formed in the order of ranks, halves are summed in f32 and rounded once.
 *
 * Functions return LS_OK or a status with the reason in `why`; after a failure the communicator is of no more use. A
 * communicator belongs to one thread at a time. */
#ifndef LOCKSTEP_COMM_COMM_H
#define LOCKSTEP_COMM_COMM_H

#include <lockstep/collective.h>

#include "base/message.h"

typedef struct ls_comm ls_comm;
struct ls_device;
typedef struct ls_comm ls_comm;

/* Elements of the part of a rank. */
static inline int64_t ls_comm_part(const ls_comm_call *call, int rank)
{
    return call->counts ? call->counts[rank] : call->count;
}

/* Elements of the parts of lower ranks; with the number of ranks: of all. */
static inline int64_t ls_comm_before(const ls_comm_call *call, int rank)
{
    int64_t sum = 0;
    if (!call->counts) return call->count * rank;
    for (int r = 0; r < rank; r++) sum += call->counts[r];
    return sum;
}

typedef struct ls_comm_table {
    const char *name;
    ls_status (*run)(ls_comm *comm, const ls_comm_call *call, ls_message *why);
    /* Called by all ranks: those with the same colour become a communicator, ordered by key, then by rank. NULL:
     * failed. */
    ls_comm *(*split)(ls_comm *comm, int colour, int key, ls_message *why);
    /* Called by all ranks with the same size: memory in which arrays are reduced where they stand, without copies. It
     * is zero, aligned to pages, and goes with the communicator. NULL: failed. */
    void *(*share)(ls_comm *comm, size_t bytes, ls_message *why);
    /* Everybody who waits for anybody of the job, or will, gets LS_ERR_PEER and these words. */
    void (*abort)(ls_comm *comm, const char *reason);
    /* Everybody who waits gets LS_ERR_MEMORY, and so does who calls before reset: something was tried that needs more
     * memory than there is, and will be tried otherwise. */
    void (*cancel)(ls_comm *comm);
    /* Called by all ranks when nobody is in a call of this communicator, with steps that it was left in forgotten. */
    void (*reset)(ls_comm *comm);
    void (*close)(ls_comm *comm); /* those made from it by split first */
} ls_comm_table;

struct ls_comm {
    const ls_comm_table *table;
    int rank, size;
    struct ls_comm_queue *queue;    /* whose it is (queue.h); NULL: nobody's */
    struct ls_comm_device *devices; /* whose memory it was called with (on_device.c) */
    bool ignores_cancel;            /* cancels are not for it */
    bool background;                /* somebody else needs the CPU more: do not spin for long */
    struct ls_helpers *helpers;     /* threads that share in large work (helpers.h); NULL: there are none */
    void *user;                     /* of who made it */
};

/* Of this process alone. Constant, shared, need not be closed; those split off it are like all others. */
ls_comm *ls_comm_self(void);

/* "all-reduce", "sum". Never NULL. */
const char *ls_comm_kind_name(ls_comm_kind kind);
const char *ls_comm_op_name(ls_reduction op);
bool ls_comm_reduces(ls_comm_kind kind);

/* ---- Calls ---- */

/* Check the description and run it. */
ls_status ls_comm_run(ls_comm *comm, const ls_comm_call *call, ls_message *why);
/* Elements of `in` and `out` that this rank must bring; of a broadcast, `in` of who has it is its `out`. */
void ls_comm_elements(const ls_comm *comm, const ls_comm_call *call, int64_t *in, int64_t *out);

/* on_device.c: the same where `in` and `out` are memory of a device, in the order of what was submitted to it before
 * and will be after. Memory of the host is worked in where it stands; other memory is left to the device's own library,
 * or passes through the host where it has none. */
ls_status ls_comm_run_on(ls_comm *comm, struct ls_device *device, const ls_comm_call *call, ls_message *why);
void ls_comm_leave_devices(ls_comm *comm, bool abort); /* abort: calls may be under way */

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

/* After a cancel: see the table's entry. */
static inline void ls_comm_reset(ls_comm *comm)
{
    ls_comm_leave_devices(comm, true);
    comm->table->reset(comm);
}

#endif
