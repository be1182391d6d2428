/* course.h - the progress of this process's training, which must be the same in all processes.
 *
 * Between two reductions after ls_prepare() processes act independently. One that skips a step, or sets another
 * learning rate, trains another model from then on, and nothing else would reveal it. */
#ifndef LOCKSTEP_RUN_COURSE_H
#define LOCKSTEP_RUN_COURSE_H

#include <lockstep/run.h>

/* A hash of the steps and settings of all optimisers whose parameters are trained together; 0 if there are none. */
uint64_t ls_course_of(const ls_run *run);
/* It differs among processes: fail in all of them, with the first difference. All must call. */
void ls_course_compare(ls_run *run);

#endif
