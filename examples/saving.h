/* saving.h - --checkpointing_steps, which the examples share: when the state of a training is saved. */
#ifndef EXAMPLES_SAVING_H
#define EXAMPLES_SAVING_H

#include <lockstep.h>

#include <stdlib.h>
#include <string.h>

typedef struct saving {
    const char *when; /* the flag; NULL: not given */
    int64_t every;    /* steps; 0: never */
    bool epochs;
} saving;

/* A row of a program's table. */
#define SAVING_FLAG(to) LS_FLAG("checkpointing_steps", &(to)->when, "save the state every N steps, or every \"epoch\"")

/* What the flag says. False, and an error, if it makes no sense. */
static bool saving_fits(ls_run *run, saving *s)
{
    char *end = "";
    s->epochs = s->when && !strcmp(s->when, "epoch");
    if (s->when && !s->epochs) s->every = strtoll(s->when, &end, 10);
    if (*end || s->every < 0)
        ls_set_error(run, LS_ERR_VALUE, "--checkpointing_steps is %s; it must be a number of steps or \"epoch\"",
                     s->when);
    return !ls_error(run);
}

/* After a step; `now`: the training ends here, and a restart shall continue with the next step. */
static void save_after_step(ls_run *run, const saving *s, int64_t step, bool now)
{
    if (now || (s->every && step % s->every == 0)) ls_save_state(run, NULL);
}

static void save_after_epoch(ls_run *run, const saving *s)
{
    if (s->epochs) ls_save_state(run, NULL);
}

#endif
