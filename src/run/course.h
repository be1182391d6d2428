/* course.h - where this process stands in its training, which must be where all others do.
 *
 * After ls_prepare() processes go their own ways between two reductions. One that leaves out a step, or sets another
 * learning rate, trains another model from then on, and nothing else would tell. */
#ifndef LOCKSTEP_RUN_COURSE_H
#define LOCKSTEP_RUN_COURSE_H

#include <lockstep/run.h>

/* Steps and settings of all optimisers whose parameters are trained together, as one number; 0 where there are none. */
uint64_t ls_course_of(const ls_run *run);
/* It is not the same in all processes: fail in all of them, with the first that differs. All must call. */
void ls_course_compare(ls_run *run);

#endif
