/* alike.h - compare what must be the same in all processes of a job, before it can change results. */
#ifndef LOCKSTEP_RUN_ALIKE_H
#define LOCKSTEP_RUN_ALIKE_H

#include "run/session.h"

enum { LS_TERMS = 16 };

/* The effective options of ls_init() that change results, and settings that add collective calls. */
typedef struct ls_terms {
    uint64_t value[LS_TERMS];
} ls_terms;

ls_terms ls_terms_of(const ls_run *run);
/* Are those of process `rank` the same as those of process 0? If not, an error names the first that differs. */
bool ls_terms_agree(ls_run *run, const ls_terms *first, const ls_terms *other, int rank);

/* Are objects prepared at this position or later the same in all processes? All must call. False (and an error that
 * names the first setting that differs) if not. */
bool ls_prepared_alike(ls_run *run, int position);

#endif
