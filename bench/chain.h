/* chain.h - a step that is nearly nothing but overhead: additions of 16 numbers, one after the other, and the gradient.
 */
#ifndef LOCKSTEP_BENCH_CHAIN_H
#define LOCKSTEP_BENCH_CHAIN_H

#include <lockstep.h>

enum { CHAIN = 1000 }; /* additions; times are given for each, with its gradient */

typedef struct chain {
    ls_run *run;
    ls_tensor *x, *added;
} chain;

static inline chain chain_new(ls_run *run)
{
    return (chain){run, ls_set_requires_grad(ls_ones(run, LS_F32, 16), true), ls_ones(run, LS_F32, 16)};
}

/* Forward and backward, within a scope of the caller, who clears the gradient of x. */
static inline void chain_step(const chain *c)
{
    ls_tensor *y = c->x;
    for (int i = 0; i < CHAIN; i++) y = ls_add(y, c->added);
    ls_backward(c->run, ls_sum(y));
}

#endif
