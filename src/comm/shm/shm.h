/* shm.h - the communicator between processes of one host, through shared memory.
 *
 * Every rank has a line that counts its steps. A step is: raise the own count, wait until all others have reached it. A
 * call begins with each rank writing a header that describes it; after the first step all ranks have seen all headers.
 * Arrays in shared memory (share) are reduced in place; others pass through each rank's stage, in pieces. Headers and
 * stages have two halves used alternately: by the time a half is reused, its writer has made another step, and so has
 * every rank that read it. */
#ifndef LOCKSTEP_COMM_SHM_SHM_H
#define LOCKSTEP_COMM_SHM_SHM_H

#include "base/futex.h"
#include "comm/shm/segment.h"
#include "kernels/combine.h"

enum {
    LS_SHM_HALF = 512 << 10, /* bytes of a half of a stage */
    LS_SHM_BOX = 64 << 10,   /* bytes of a half of a channel */
    LS_SHM_SMALL = 64 << 10, /* total bytes of all ranks up to which every rank reduces everything itself */
};

/* ---- In shared memory ---- */

/* A counter that one process raises and others wait for. */
typedef struct ls_line {
    _Alignas(64) ls_futex count;
    ls_futex sleepers;
} ls_line;

typedef struct ls_call_header {
    _Alignas(64) ls_ring_entry what;
    int64_t extent;  /* the largest part of this rank, in elements */
    int64_t address; /* of its array, as an offset in the shared file; -1: not in it */
} ls_call_header;

/* From one rank to one other: two boxes, filled and emptied alternately. */
typedef struct ls_channel {
    ls_line filled, emptied;
    ls_ring_entry what[2]; /* header of the message in each box */
} ls_channel;

/* ---- In this process ---- */

/* Memory allocated by share: `bytes` of each rank, one after the other. */
typedef struct ls_shm_block {
    char *base;
    size_t bytes;
    int64_t begin; /* offset in the file, which is the same for all ranks; after a cancel some may know fewer blocks */
} ls_shm_block;

typedef struct ls_shm {
    ls_comm comm;
    ls_segment *segment;
    int *member;      /* [size] member numbers in the segment */
    int *job_rank;    /* [size] rank of each in the job */
    uint32_t group;   /* identifies the communicator; 0: all ranks of the host */
    void *context;    /* mapped piece that the following pointers point into */
    ls_line *leavers; /* counts ranks that have closed it; the last frees the memory */
    ls_line *lines;
    ls_call_header *headers; /* [2][size] */
    ls_channel *channels;    /* [size][size]: from, to */
    char *stages;            /* [size][2][LS_SHM_HALF] */
    char *boxes;             /* [size][size][2][LS_SHM_BOX] */

    uint32_t step;
    int half;                  /* half of the stages written last */
    uint64_t number;           /* of the current collective */
    uint64_t messages;         /* number sent and received */
    uint32_t *sent, *received; /* [size] number of boxes sent to and received from each */
    ls_shm_block *blocks;
    int block_count;
    int64_t timeout;     /* ns; 0: none */
    ls_ring_entry entry; /* header of the current call */
    int64_t warned_call; /* start of the last call that this rank warned about, or left to another rank to warn about */
    ls_status status;    /* of the failure */
    ls_message broken;   /* not "": unusable, for this reason */

    /* Called now and then while waiting, to progress messages between hosts. True: call again soon. May be NULL. */
    bool (*listen)(void *listener);
    void *listener;
} ls_shm;

/* The job's rank of a rank of this communicator. */
static inline int ls_shm_job_rank(const ls_shm *shm, int rank)
{
    return shm->job_rank[rank];
}

/* wait.c: raise a line of this rank; wait until a line of rank `peer` reaches `count`. */
void ls_line_raise(ls_line *line, uint32_t count);
bool ls_line_reached(ls_line *line, uint32_t count);
ls_status ls_line_await(ls_shm *shm, ls_line *line, uint32_t count, int peer, ls_message *why);
/* Barrier: raise the own line, wait for all others. */
ls_status ls_shm_step(ls_shm *shm, ls_message *why);
/* Must this rank stop waiting because the job was aborted or cancelled? The second returns the status and sets
 * shm->broken. */
bool ls_shm_interrupted(const ls_shm *shm);
ls_status ls_shm_interruption(ls_shm *shm);
/* Abort the job for this reason. */
LS_PRINTF(2, 3) ls_status ls_shm_break(ls_shm *shm, const char *format, ...);
/* The same because this rank of the job is dead: the launcher learns that it failed first. */
LS_PRINTF(3, 4) ls_status ls_shm_report_dead(ls_shm *shm, int rank, const char *format, ...);
ls_status ls_shm_report_dead_member(ls_shm *shm, const ls_member *member);

/* wait.c: has this rank waited so long (ns) that the user should know? True at most once per call and rank; ranks
 * of a host that wait in one call leave it to one of them. Say so: it waits
 * for rank `them` of the job, whose last call is `last`. */
bool ls_shm_must_warn(ls_shm *shm, int64_t waited);
void ls_shm_warn(const ls_shm *shm, int64_t waited, int them, const char *last);

/* deadlock.c: called now and then by a rank that waits since `began` for the line of rank `peer`; aborts if neither can
 * ever continue. The second call ends the wait. */
ls_status ls_shm_check_deadlock(ls_shm *shm, ls_line *line, uint32_t count, int peer, int64_t began);
void ls_shm_end_wait(ls_shm *shm, int peer, int64_t began);

/* shm.c: number and record a call (*slot) and publish its header; record its end. `comm` is the communicator that was
 * called: this one, or the one between hosts that it is part of. */
ls_status ls_shm_begin(ls_shm *shm, const ls_comm *comm, const ls_comm_call *call, ls_ring_entry **slot,
                       ls_message *why);
ls_status ls_shm_end(ls_shm *shm, ls_ring_entry *slot, ls_status status, const ls_message *why);

/* Once all headers are published: are all ranks' arrays in shared memory? The array of one rank. */
bool ls_shm_all_shared(const ls_shm *shm);
char *ls_shm_shared(const ls_shm *shm, int rank);

/* wait.c: do two headers describe the same collective? Sizes are ignored where they may differ. */
bool ls_headers_agree(const ls_ring_entry *a, const ls_ring_entry *b);
/* Abort because they do not; rank_a and rank_b are ranks of the job. */
ls_status ls_shm_disagree(ls_shm *shm, int rank_a, const ls_ring_entry *a, int rank_b, const ls_ring_entry *b);
/* Abort: rank `from` of the job sent a number of bytes that this rank did not expect. */
ls_status ls_shm_wrong_size(ls_shm *shm, int from, size_t sent, size_t wanted);

/* collective.c: how rows are combined; a mean is a sum that is scaled at the end. */
ls_fold ls_comm_fold(ls_reduction op);
/* collective.c, channel.c: run a call whose header is published. */
ls_status ls_shm_collective(ls_shm *shm, const ls_comm_call *call, ls_message *why);
ls_status ls_shm_message(ls_shm *shm, const ls_comm_call *call, ls_message *why);

static inline ls_call_header *ls_shm_header(const ls_shm *shm, int rank)
{
    return &shm->headers[(int)(shm->number & 1) * shm->comm.size + rank];
}

static inline char *ls_shm_stage(const ls_shm *shm, int rank)
{
    return shm->stages + ((size_t)rank * 2 + (size_t)shm->half) * LS_SHM_HALF;
}

/* The communicator of all members of a segment. Blocks until all have joined, and holds the segment until closed. NULL
 * on failure. */
ls_comm *ls_shm_join(ls_segment *segment, int rank, ls_message *why);
/* The same for a job with several hosts: this process is member `number`; ranks: [members] rank of each in the job. */
ls_comm *ls_shm_join_host(ls_segment *segment, int number, const int *ranks, ls_message *why);

#endif
