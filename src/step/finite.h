/* finite.h - losses and norms of gradients that are NaN or infinite: noticed where a look is free. Where a run asks for
 * it (.check_finite), every result is searched as well: tensor/not_finite.h. */
#ifndef LOCKSTEP_STEP_FINITE_H
#define LOCKSTEP_STEP_FINITE_H

#include <lockstep/run.h>

typedef struct ls_finite {
    int64_t steps;       /* that had a loss or a norm of gradients that was not */
    int64_t first, last; /* the first and the last of them; 0: there was none */
    ls_tensor *trace;    /* f32 [1]: NaN since a number on a device that nobody waits for was not finite; or NULL */
} ls_finite;

/* A number that training depends on, [1]: "the loss", "the norm of the gradients". On the host, false when it is not
 * finite. On other devices true, and ls_finite_late() knows later. */
bool ls_finite_look(ls_run *run, ls_tensor *number);
/* Was any that was looked at since the last call not finite? Waits for the device. */
bool ls_finite_late(ls_run *run);
/* Count a step, and warn at the first. `rank`: the process whose number it is. */
void ls_finite_note(ls_run *run, const char *what, int64_t step, int rank);
void ls_finite_clear(ls_run *run); /* before the run goes */

#endif
