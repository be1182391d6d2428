/* finite.h - losses and gradient norms that are NaN or infinite: detected where that costs nothing. In runs with
 * .check_finite every result is searched as well: tensor/not_finite.h. */
#ifndef LOCKSTEP_STEP_FINITE_H
#define LOCKSTEP_STEP_FINITE_H

#include <lockstep/run.h>

typedef struct ls_finite {
    int64_t steps;       /* number of steps whose loss or gradient norm was not finite */
    int64_t first, last; /* the first and the last of them; 0: none */
    ls_tensor *trace;    /* f32 [1] on the device: NaN once a number checked there was not finite; or NULL */
} ls_finite;

/* Check a number that training depends on, [1]: the loss, the norm of the gradients. On the host, false if it is not
 * finite. On other devices always true; ls_finite_late() reports it later. */
bool ls_finite_look(ls_run *run, ls_tensor *number);
/* Was any number checked since the last call not finite? Waits for the device. */
bool ls_finite_late(ls_run *run);
/* Count a step, and warn the first time. `rank`: the process whose number it is. */
void ls_finite_note(ls_run *run, const char *what, int64_t step, int rank);
void ls_finite_clear(ls_run *run); /* before the run is freed */

#endif
