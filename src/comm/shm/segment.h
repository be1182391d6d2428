/* segment.h - memory shared by the processes of a host: one anonymous file, mapped by all of them.
 *
 * It begins with a header and one record per rank; the rest is handed out in pieces (ls_segment_take) and mapped on
 * demand. The file is sparse and as large as the system allows: pages cost memory only once written, and the limits of
 * /dev/shm do not apply. A launcher makes the file and lets its workers inherit it, or the first process of a host
 * makes it and hands it to the others (meet.h).
 *
 * The records say who takes part, what each rank did last, and who failed first. They outlive the processes, for anyone
 * who has the file open. */
#ifndef LOCKSTEP_COMM_SHM_SEGMENT_H
#define LOCKSTEP_COMM_SHM_SEGMENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "base/message.h"
#include "comm/comm.h"

enum { LS_SEGMENT_MOST = 512, LS_RING = 32, LS_SITE = 48 };

/* ---- In shared memory ---- */

/* One call of a rank, from begin to end. */
typedef struct ls_ring_entry {
    uint64_t number; /* of the call on its communicator, from 1; 0: unused */
    int32_t kind, dtype, op, peer;
    int64_t count;
    uint64_t shape;
    int64_t began, ended; /* CLOCK_MONOTONIC, in ns; ended 0: still running, or it died there */
    int32_t status;       /* ls_status */
    uint32_t group;       /* identifies the communicator; 0: all ranks */
    char site[LS_SITE];
} ls_ring_entry;

typedef enum ls_member_state { LS_MEMBER_ABSENT, LS_MEMBER_HERE, LS_MEMBER_LEFT } ls_member_state;

typedef struct ls_member {
    _Atomic uint32_t state;
    _Atomic uint32_t next;  /* number of entries ever begun */
    _Atomic uint64_t wait;  /* for another member, which holds up its program (deadlock.c); 0: none */
    _Atomic uint32_t looks; /* times it found that wait not over */
    int32_t rank;           /* in the job */
    int32_t pid;
    char version[24];
    char program[160];
    uint64_t program_file[2]; /* device and inode of the executable */
    ls_ring_entry ring[LS_RING];
} ls_member;

typedef struct ls_segment_header {
    uint64_t magic;
    uint32_t header_bytes, size; /* ranks of this host */
    uint64_t token[2];           /* of the job; differs from other jobs and earlier attempts */
    _Atomic uint64_t used;       /* bytes of the file handed out */
    _Atomic uint32_t resets;     /* number of resets after a cancel */
    _Atomic uint32_t cancelled;  /* low half: rank + 1 that ran out of memory, high half: resets; 0: none */
    _Atomic uint32_t aborted;    /* 0; 1 while the reason is written; 2 */
    _Atomic uint32_t announced;  /* other hosts know of the abort, or are being notified */
    _Atomic uint64_t warned;     /* the last call about which a rank that waits has warned (wait.c) */
    int32_t culprit;             /* rank in the job that failed; -1: none in particular */
    int32_t reported;            /* 1: the reason was written by another rank that found it dead */
    char words[sizeof(ls_message)];
    ls_member member[]; /* [size] */
} ls_segment_header;

/* ---- In this process ---- */

typedef struct ls_segment_map ls_segment_map;

/* Shared by all communicators of a process (and, in tests, by threads acting as processes). */
typedef struct ls_segment {
    int file;
    _Atomic int holders;
    _Atomic int started; /* requests in the queues of this process */
    ls_segment_header *header;
    size_t header_bytes;
    pthread_mutex_t lock; /* protects the following */
    ls_segment_map *maps;
    int *process; /* [size] pidfds; -1: not opened yet, -2: unavailable */
} ls_segment;

/* Make a file for `size` ranks, inherited across exec. -1 on failure. */
int ls_segment_make(int size, ls_message *why);

/* The random token of a segment. False: the file is not a segment. */
bool ls_segment_token(int file, uint64_t token[2]);
/* Has a process ever joined as this member? */
bool ls_segment_taken(int file, int number);

/* Join the segment. Takes ownership of the file, also on failure. NULL on failure. */
ls_segment *ls_segment_open(int file, int size, ls_message *why);
void ls_segment_hold(ls_segment *segment);
void ls_segment_release(ls_segment *segment); /* NULL is accepted */

/* Allocate whole, zeroed pages of the file for the caller; returns their offset, 0 if the file is full. */
uint64_t ls_segment_take(ls_segment *segment, size_t bytes);
/* Map a piece; mapping it again returns the same address. NULL on failure. */
void *ls_segment_map_in(ls_segment *segment, uint64_t offset, size_t bytes, ls_message *why);
void ls_segment_map_out(ls_segment *segment, void *address);
/* Return the memory of the piece mapped at `address` to the system; no process may use it any more. */
void ls_segment_clear(ls_segment *segment, const void *address);

/* Has the process of member `number` ended? False if it never joined. */
bool ls_segment_dead(ls_segment *segment, int number);

/* Make every rank stop, because of this rank of the job (-1: none in particular); the first reason is kept. */
void ls_segment_abort(ls_segment *segment, int rank, const char *words);
/* The same, reported by another rank because that one is dead. */
void ls_segment_report_dead(ls_segment *segment, int rank, const char *words);
static inline bool ls_segment_aborted(const ls_segment *segment)
{
    return atomic_load_explicit(&segment->header->aborted, memory_order_acquire) != 0;
}
/* A rank of the job ran out of memory when the reset count was `resets`. Stale cancels are ignored. */
static inline void ls_segment_cancel(ls_segment *segment, int rank, uint32_t resets)
{
    if (resets == atomic_load(&segment->header->resets))
        atomic_store(&segment->header->cancelled, resets << 16 | (uint32_t)(rank + 1));
}
/* The rank that ran out of memory since the last reset; -1: none. */
static inline int ls_segment_cancelled(const ls_segment *segment)
{
    uint32_t word = atomic_load_explicit(&segment->header->cancelled, memory_order_acquire);
    if (!word) return -1;
    uint32_t resets = atomic_load_explicit(&segment->header->resets, memory_order_acquire);
    return word >> 16 == (resets & 0xffff) ? (int)(word & 0xffff) - 1 : -1;
}

/* "rank 1 failed: reason" */
void ls_segment_reason(const ls_segment *segment, ls_message *why);

/* ---- The recorder ---- */

int64_t ls_comm_clock(void); /* ns */
ls_ring_entry *ls_ring_begin(ls_member *member, const ls_comm_call *call, uint64_t number, uint32_t group);
/* Record the end of the call in `slot`, unless the ring has wrapped around and the slot was reused. */
void ls_ring_end(ls_ring_entry *slot, const ls_ring_entry *entry, ls_status status);

/* "all-reduce sum of 100 f32 (ls_reduce, call 7)" */
void ls_ring_describe(const ls_ring_entry *entry, char *text, size_t size);
/* The last call of a rank, and how long ago it was. */
void ls_ring_describe_last(const ls_member *member, char *text, size_t size);
/* Seconds that a rank has been inside its last call; 0 if it is in none. */
double ls_ring_waits(const ls_member *member);

/* ---- For a process that has the file but is no member; files that are not segments are ignored ---- */

/* The last `count` calls of every rank, one line each. */
void ls_segment_describe(int file, int count, char *text, size_t size);
/* The rank that aborted, or was found dead; -1: neither. */
int ls_segment_culprit(int file);
/* Abort all ranks; false if they were aborted before, or the file is not a segment. */
bool ls_segment_abandon(int file, const char *words);

#endif
