/* feed.h - a loop over batches as the run sees it: how far it is, and which loop it runs inside.
 *
 * Loaders embed one and report what they hand out. Loops nest (evaluation in the middle of training), so running feeds form
 * a stack; the top is the loop at work. */
#ifndef LOCKSTEP_TENSOR_FEED_H
#define LOCKSTEP_TENSOR_FEED_H

#include <lockstep/run.h>

typedef struct ls_feed {
    struct ls_feed *outer; /* the loop around it; NULL: none */
    bool running;          /* on the stack */
    bool counted;          /* the batch at hand has been, for gradient accumulation */
    bool last;             /* nothing follows the batch at hand */
    bool finished;         /* read to the end in this epoch, not inside another loop: a resumed epoch passes it over */
    int64_t left;          /* batches after the one at hand; -1: unknown */
    int64_t rows;          /* samples of the batch at hand, here */
    int64_t real_rows;     /* of this round, over all processes, without those repeated to fill it; -1: unknown */
} ls_feed;

/* A batch is handed out; the caller has set last, left, rows and real_rows. A feed that was not running starts to, inside
 * the one at work; loops that were left by `break` and run inside this one are over. */
void ls_feed_batch(ls_run *run, ls_feed *feed);
/* There was no further batch: the loop is over. */
void ls_feed_end(ls_run *run, ls_feed *feed);
/* The loader goes away, or starts anew: as if it had never run. */
void ls_feed_forget(ls_run *run, ls_feed *feed);

#endif
