/* segment.h - memory that the processes of a host share: one anonymous file, mapped by all of them.
 *
 * It begins with a header and one record for each rank; the rest is handed out piece by piece (ls_segment_take) and
 * mapped where it is needed. The file is sparse and as large as can be: pages cost memory when they are first written,
 * /dev/shm and its limits play no part. A launcher makes the file and lets its workers inherit it, or the first process
 * of a host makes it and hands it to the others (meet.h).
 *
 * The records tell who takes part, what each did last, and who failed first. They outlive the processes, for whoever
 * has the file open. */
#ifndef LOCKSTEP_COMM_SHM_SEGMENT_H
#define LOCKSTEP_COMM_SHM_SEGMENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "base/message.h"
#include "comm/comm.h"

enum { LS_SEGMENT_MOST = 512, LS_RING = 32, LS_SITE = 48 };

/* ---- In shared memory ---- */

/* One operation of a rank, as it was begun and ended. */
typedef struct ls_ring_entry {
    uint64_t number; /* of the call on its communicator, from 1; 0: none yet */
    int32_t kind, dtype, op, peer;
    int64_t count;
    uint64_t shape;
    int64_t began, ended; /* CLOCK_MONOTONIC, in ns; ended 0: still at it, or it died there */
    int32_t status;       /* ls_status */
    uint32_t group;       /* which communicator; 0: all ranks */
    char site[LS_SITE];
} ls_ring_entry;

typedef enum ls_member_state { LS_MEMBER_ABSENT, LS_MEMBER_HERE, LS_MEMBER_LEFT } ls_member_state;

typedef struct ls_member {
    _Atomic uint32_t state;
    _Atomic uint32_t next; /* entries of the ring that were ever begun */
    int32_t rank;          /* in the job */
    int32_t pid;
    char version[24];
    char program[160];
    uint64_t program_file[2]; /* device and number of its file */
    ls_ring_entry ring[LS_RING];
} ls_member;

typedef struct ls_segment_header {
    uint64_t magic;
    uint32_t header_bytes, size; /* ranks of this host */
    uint64_t token[2];           /* of the job: strangers and processes of earlier attempts have another */
    _Atomic uint64_t used;       /* bytes of the file that are handed out */
    _Atomic uint32_t resets;     /* how often it was begun anew */
    _Atomic uint32_t cancelled;  /* who ran out of memory and wants to try again, and when: see below; 0: nobody */
    _Atomic uint32_t aborted;    /* 0, 1 while the words are written, 2 */
    _Atomic uint32_t told;       /* other hosts know of it, or somebody is about to tell them */
    int32_t culprit;             /* rank in the job; -1: nobody in particular */
    int32_t reported;            /* 1: the words are another's, who found it dead */
    char words[sizeof(ls_message)];
    ls_member member[]; /* [size] */
} ls_segment_header;

/* ---- In this process ---- */

typedef struct ls_segment_map ls_segment_map;

/* Shared by the communicators of a process, and by threads that play processes. */
typedef struct ls_segment {
    int file;
    _Atomic int holders;
    ls_segment_header *header;
    size_t header_bytes;
    pthread_mutex_t lock; /* of what follows */
    ls_segment_map *maps;
    int *process; /* [size] files that tell when a process has ended; -1: not asked for yet, -2: cannot be had */
} ls_segment;

/* Make a file for so many ranks. It is not closed on exec. -1: failed. */
int ls_segment_make(int size, ls_message *why);

/* What tells one such file from all others. False: it is none. */
bool ls_segment_token(int file, uint64_t token[2]);
/* Has a process come as this member, now or before? */
bool ls_segment_taken(int file, int number);

/* Take part in it; the file is the segment's from here on, also after a failure. NULL: failed. */
ls_segment *ls_segment_open(int file, int size, ls_message *why);
void ls_segment_hold(ls_segment *segment);
void ls_segment_let_go(ls_segment *segment); /* NULL is accepted */

/* A piece of the file that nobody else has, in whole pages, zero; 0: the file is full. */
uint64_t ls_segment_take(ls_segment *segment, size_t bytes);
/* Map a piece; the same piece is mapped once, however often it is asked for. NULL: failed. */
void *ls_segment_map_in(ls_segment *segment, uint64_t offset, size_t bytes, ls_message *why);
void ls_segment_map_out(ls_segment *segment, void *address);
/* Nobody uses the piece that is mapped there any more: what it held goes back to the system. */
void ls_segment_clear(ls_segment *segment, const void *address);

/* Has the process of member `number` ended? One that never came has not. */
bool ls_segment_dead(ls_segment *segment, int number);

/* Everybody must stop, because of this rank of the job (-1: none); the first reason stays. */
void ls_segment_abort(ls_segment *segment, int rank, const char *words);
/* The same, where that rank could not say so itself. */
void ls_segment_report_dead(ls_segment *segment, int rank, const char *words);
static inline bool ls_segment_aborted(const ls_segment *segment)
{
    return atomic_load_explicit(&segment->header->aborted, memory_order_acquire) != 0;
}
/* A rank of the job ran out of memory after so many new beginnings. A cancel that comes late is none, and does not take
 * the place of another. */
static inline void ls_segment_cancel(ls_segment *segment, int rank, uint32_t resets)
{
    if (resets == atomic_load(&segment->header->resets))
        atomic_store(&segment->header->cancelled, resets << 16 | (uint32_t)(rank + 1));
}
/* The rank that did, since the last new beginning; -1: none. */
static inline int ls_segment_cancelled(const ls_segment *segment)
{
    uint32_t word = atomic_load_explicit(&segment->header->cancelled, memory_order_acquire);
    if (!word) return -1;
    uint32_t resets = atomic_load_explicit(&segment->header->resets, memory_order_acquire);
    return word >> 16 == (resets & 0xffff) ? (int)(word & 0xffff) - 1 : -1;
}

/* "rank 1 failed: words" */
void ls_segment_reason(const ls_segment *segment, ls_message *why);

/* ---- The recorder ---- */

int64_t ls_comm_clock(void); /* ns */
ls_ring_entry *ls_ring_begin(ls_member *member, const ls_comm_call *call, uint64_t number, uint32_t group);
/* The entry at `slot`, unless so much was recorded since that it is another's. */
void ls_ring_end(ls_ring_entry *slot, const ls_ring_entry *entry, ls_status status);

/* "all-reduce sum of 100 f32 (ls_reduce, call 7)" */
void ls_ring_tell(const ls_ring_entry *entry, char *text, size_t size);
/* The last operation of a rank, and how long ago it was. */
void ls_ring_tell_last(const ls_member *member, char *text, size_t size);

/* ---- For whoever has the file and takes no part; a file that is not a segment tells nothing ---- */

/* The last `count` operations of all ranks, one line each. */
void ls_segment_tell(int file, int count, char *text, size_t size);
/* The rank that told the others to stop, or was found dead by them; -1: neither. */
int ls_segment_culprit(int file);
/* Tell everybody to stop; false where somebody did already, or there is nobody. */
bool ls_segment_give_up(int file, const char *words);

#endif
