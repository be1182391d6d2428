/* prefetcher.h - prepares batches ahead of time: a ring of slots, and threads that fill them.
 *
 * The run's thread appends prepared slots at one end and takes full ones from the other. Workers take a few samples at
 * a time, always of the oldest slot that has samples left, so several work on one batch and batches become full in
 * order. The run's thread helps while it waits, and does all the work if there are no workers. The contents do not
 * depend on which thread fills what. A stream is read by one thread at a time, slot by slot. */
#ifndef LOCKSTEP_DATA_LOADER_PREFETCHER_H
#define LOCKSTEP_DATA_LOADER_PREFETCHER_H

#include <pthread.h>
#include <sys/types.h>

#include "data/loader/batch_slot.h"
#include "data/loader/shard.h"

typedef struct ls_prefetcher {
    /* The source. Constant while slots are in the ring. */
    const ls_dataset *set;
    ls_reading reading;

    ls_batch_slot *slots;
    int slot_count;
    int worker_count;

    pthread_mutex_t lock; /* protects everything below, and the counts in the slots */
    pthread_cond_t work, full;
    int64_t begin, end; /* batches begin .. end-1 are in the ring, batch k in slot k % slot_count */
    int64_t issue;      /* the first with samples not taken yet */
    bool stopping;

    /* For a stream: the turn is protected by the lock, the rest belongs to the thread whose turn it is. */
    bool reading_now;
    struct ls_stream_position {
        ls_shard shard; /* this rank's part; shard.start: samples to skip first */
        int64_t epoch;
        bool begun, ended;
        int64_t read;        /* samples so far, including bad ones; the same on all ranks */
        ls_batch_slot first; /* the first round, kept to fill up the last */
        int64_t first_kept;  /* samples of it so far */
        ls_batch_slot spare; /* a sample of another rank, discarded */
    } stream;

    /* Used by the run's thread only. Threads start with the first batch. */
    ls_sample sample;
    pthread_t *threads;
    int running;
    bool started;
    pid_t process;
} ls_prefetcher;

/* False (and an error) if out of memory. */
bool ls_prefetcher_init(ls_run *run, ls_prefetcher *prefetcher, int worker_count, int slot_count);
/* Ends the threads and frees the memory. Accepts one that is all zero. */
void ls_prefetcher_clear(ls_run *run, ls_prefetcher *prefetcher);

/* The slot of the next batch; NULL while the ring is full. The caller prepares it, then pushes it. */
ls_batch_slot *ls_prefetcher_free_slot(ls_prefetcher *prefetcher);
void ls_prefetcher_push(ls_prefetcher *prefetcher);
/* The slot `ahead` positions after the oldest, once all its samples are done; the caller keeps it until
 * ls_prefetcher_pop(). */
ls_batch_slot *ls_prefetcher_wait(ls_prefetcher *prefetcher, int ahead);
/* The same if it is already done; else NULL. */
ls_batch_slot *ls_prefetcher_look(ls_prefetcher *prefetcher, int ahead);
void ls_prefetcher_pop(ls_prefetcher *prefetcher);
/* Drop everything in the ring. Batches count from 0 again. */
void ls_prefetcher_drain(ls_prefetcher *prefetcher);

/* ---- Streams (stream.c) ---- */

/* Before a pass, with an empty ring. False (and an error) if out of memory. */
bool ls_stream_restart(ls_run *run, ls_prefetcher *prefetcher, const ls_shard *shard, int64_t epoch);
/* Fill a slot with this rank's part of the next round; returns the number of samples, 0 at the end. */
int64_t ls_stream_fill(ls_prefetcher *prefetcher, ls_batch_slot *slot, ls_sample *sample);

/* ---- Results of a sample, recorded in its slot ---- */

void ls_prefetcher_note_bad(ls_prefetcher *prefetcher, ls_batch_slot *slot, int64_t j, const ls_sample *sample);
void ls_prefetcher_note_failure(ls_prefetcher *prefetcher, ls_batch_slot *slot, int64_t j, const ls_sample *sample);

#endif
