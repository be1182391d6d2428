/* loop.h - a loop over batches as the run sees it: its position, and the loop it is nested in.
 *
 * Loaders embed one and report each batch. Loops nest (evaluation in the middle of training), so the running ones form
 * a stack; its top is ls_training_step.loop. */
#ifndef LOCKSTEP_STEP_LOOP_H
#define LOCKSTEP_STEP_LOOP_H

#include <lockstep/run.h>

typedef struct ls_loop {
    struct ls_loop *outer; /* the loop around it; NULL: none */
    bool running;          /* on the stack */
    bool counted;          /* gradient accumulation has counted the current batch */
    bool whole;            /* every process reads all samples */
    bool last;             /* the current batch is the last */
    int64_t left;          /* batches after the current one; -1: unknown */
    int64_t rows;          /* samples of the current batch in this process */
    int64_t real_rows;     /* samples of the current batches of all processes, without repeated ones; -1: unknown */
} ls_loop;

/* The loop gets a batch; the caller has set last, left, rows and real_rows. A loop that was not running is pushed onto
 * the stack; loops above this one, left by `break`, are popped. */
void ls_loop_batch(ls_run *run, ls_loop *loop);
/* The loop is over: no more batches, or the loader is freed or rewound. Does nothing if it is not running. */
void ls_loop_end(ls_run *run, ls_loop *loop);

#endif
