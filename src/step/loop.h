/* loop.h - a loop over batches as the run sees it: how far it is, and which loop it runs inside.
 *
 * Loaders embed one and report what they hand out. Loops nest (evaluation in the middle of training), so those that run
 * form a stack; its top, ls_training_step.loop, is the loop at work. */
#ifndef LOCKSTEP_STEP_LOOP_H
#define LOCKSTEP_STEP_LOOP_H

#include <lockstep/run.h>

typedef struct ls_loop {
    struct ls_loop *outer; /* the loop around it; NULL: none */
    bool running;          /* on the stack */
    bool counted;          /* the batch at hand has been, for gradient accumulation */
    bool whole;            /* each of several processes reads all of it */
    bool last;             /* nothing follows the batch at hand */
    int64_t left;          /* batches after the one at hand; -1: unknown */
    int64_t rows;          /* samples of the batch at hand, here */
    int64_t real_rows;     /* of this round, over all processes, without those repeated to fill it; -1: unknown */
} ls_loop;

/* A batch is handed out; the caller has set last, left, rows and real_rows. A loop that was not running starts to,
 * inside the one at work; loops inside this one, left by `break`, are over. */
void ls_loop_batch(ls_run *run, ls_loop *loop);
/* The loop is over: no further batch, or the loader goes or starts anew. Nothing where it does not run. */
void ls_loop_end(ls_run *run, ls_loop *loop);

#endif
