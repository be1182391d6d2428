/* shm.h - the communicator between processes of one host, through memory that they share.
 *
 * Every rank has a line with a count of steps. A step is: raise the own count, wait until all others' have come as far.
 * A call begins with a header from each rank that says what it calls; after the first step everybody has seen all
 * headers. Numbers that stand in shared memory (share) are reduced there; others pass through a stage of each rank, in
 * pieces. Headers and stages have two halves that are used in turn: whoever writes a half for the next but one call or
 * piece has made a step since, and so has everyone who read it. */
#ifndef LOCKSTEP_COMM_SHM_SHM_H
#define LOCKSTEP_COMM_SHM_SHM_H

#include "base/futex.h"
#include "comm/shm/segment.h"
#include "kernels/combine.h"

enum {
    LS_SHM_HALF = 512 << 10, /* bytes of a half of a stage */
    LS_SHM_BOX = 64 << 10,   /* bytes of a half of a channel */
    LS_SHM_SMALL = 64 << 10, /* bytes over all ranks up to which everyone reduces everything */
};

/* ---- In shared memory ---- */

/* What one process raises and others wait for. */
typedef struct ls_line {
    _Alignas(64) ls_futex count;
    ls_futex sleepers;
} ls_line;

typedef struct ls_call_header {
    _Alignas(64) ls_ring_entry what;
    int64_t extent;  /* the largest part this rank brings, in elements */
    int64_t address; /* where its numbers stand in the file that all share; -1: elsewhere */
} ls_call_header;

/* From one rank to one other: boxes that are filled and emptied in turn. */
typedef struct ls_channel {
    ls_line filled, emptied;
    ls_ring_entry what[2]; /* of the message that a box is part of */
} ls_channel;

/* ---- In this process ---- */

/* Memory that was shared: `bytes` of each rank, one after the other. */
typedef struct ls_shm_block {
    char *base;
    size_t bytes;
    int64_t begin; /* in the file: a rank that was called back may know fewer blocks than others */
} ls_shm_block;

typedef struct ls_shm {
    ls_comm comm;
    ls_segment *segment;
    int *member;      /* [size] numbers in the segment */
    int *world;       /* [size] ranks in the job */
    uint32_t group;   /* 0: all of the job */
    void *context;    /* the mapped piece that the following point into */
    ls_line *leavers; /* who has closed it: the last clears the memory */
    ls_line *lines;
    ls_call_header *headers; /* [2][size] */
    ls_channel *channels;    /* [size][size]: from, to */
    char *stages;            /* [size][2][LS_SHM_HALF] */
    char *boxes;             /* [size][size][2][LS_SHM_BOX] */

    uint32_t step;
    int half;                  /* of the stages, written last */
    uint64_t number;           /* of the collective at hand */
    uint64_t messages;         /* sent and received */
    uint32_t *sent, *received; /* [size] boxes of each channel so far */
    ls_shm_block *blocks;
    int block_count;
    int64_t timeout;     /* ns; 0: none */
    ls_ring_entry entry; /* the call at hand */
    ls_status status;    /* why it is broken */
    ls_message broken;   /* not "": nothing works any more */

    /* Called now and then by who waits: what goes on outside of this host? True: much may, call again soon. May be
     * NULL. */
    bool (*listen)(void *listener);
    void *listener;
} ls_shm;

/* Rank in the job of one of the communicator. */
static inline int ls_shm_job_rank(const ls_shm *shm, int rank)
{
    return shm->world[rank];
}

/* wait.c: raise a line of this rank; wait for one of rank `peer` to come to `count`. */
void ls_line_raise(ls_line *line, uint32_t count);
ls_status ls_line_await(ls_shm *shm, ls_line *line, uint32_t count, int peer, ls_message *why);
/* All ranks. */
ls_status ls_shm_step(ls_shm *shm, ls_message *why);
/* Must this rank stop waiting, because the job was given up or cancelled? Why: shm->broken, and the status. */
bool ls_shm_interrupted(const ls_shm *shm);
ls_status ls_shm_interruption(ls_shm *shm);
/* Nothing works any more, here and everywhere, for this reason. */
LS_PRINTF(2, 3) ls_status ls_shm_break(ls_shm *shm, const char *format, ...);
/* Because this rank of the job is dead: whoever watches over the job learns that it was the first. */
LS_PRINTF(3, 4) ls_status ls_shm_report_dead(ls_shm *shm, int rank, const char *format, ...);
ls_status ls_shm_report_dead_member(ls_shm *shm, const ls_member *member);

/* shm.c: a call is numbered, recorded (*slot) and its header laid; its end is recorded. `comm` is who is called: this
 * communicator, or one that it is part of. */
ls_status ls_shm_begin(ls_shm *shm, const ls_comm *comm, const ls_comm_call *call, ls_ring_entry **slot,
                       ls_message *why);
ls_status ls_shm_end(ls_shm *shm, ls_ring_entry *slot, ls_status status, const ls_message *why);

/* Where all headers lie: do the numbers of all ranks stand in shared memory? Those of one. */
bool ls_shm_all_shared(const ls_shm *shm);
char *ls_shm_shared(const ls_shm *shm, int rank);

/* wait.c: do two headers speak of the same collective? Sizes aside where they may differ. */
bool ls_headers_agree(const ls_ring_entry *a, const ls_ring_entry *b);
/* Ranks of the job that do not. */
ls_status ls_shm_disagree(ls_shm *shm, int rank_a, const ls_ring_entry *a, int rank_b, const ls_ring_entry *b);
/* Rank `from` of the job sent so many bytes, and this one wanted another number. */
ls_status ls_shm_wrong_size(ls_shm *shm, int from, size_t sent, size_t wanted);

/* collective.c: how rows become one; a mean is scaled when all are in. */
ls_fold ls_comm_fold(ls_reduction op);
/* collective.c, channel.c: a call whose header lies on the table. */
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

/* All members of a segment; the segment is held until it is closed. Waits for all of them. NULL: failed. */
ls_comm *ls_shm_join(ls_segment *segment, int rank, ls_message *why);
/* The same where they are not the whole job: this is member `number`, and each has its rank in the job. */
ls_comm *ls_shm_join_host(ls_segment *segment, int number, const int *ranks, ls_message *why);

#endif
