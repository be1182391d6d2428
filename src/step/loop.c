/* loop.c - the stack of running loops over batches. */
#include "step/loop.h"

#include "step/step.h"

void ls_loop_end(ls_run *run, ls_loop *loop)
{
    while (loop->running) { /* and the loops above it */
        ls_loop *top = run->step->loop;
        run->step->loop = top->outer;
        top->running = false;
        top->outer = NULL;
    }
}

void ls_loop_batch(ls_run *run, ls_loop *loop)
{
    ls_loop *outer = loop->running ? loop->outer : run->step->loop;
    ls_loop_end(run, loop);
    loop->outer = outer;
    loop->running = true;
    loop->counted = false;
    run->step->loop = loop;
}
