/* selftest.h - what the self-test tries in every process: each check says what does not hold, and all hear of it. */
#ifndef LOCKSTEP_CLI_SELFTEST_H
#define LOCKSTEP_CLI_SELFTEST_H

#include <lockstep.h>

typedef struct trial {
    ls_run *run;
    const char *folder; /* for files; made by the main process, gone in the end */
    char wrong[400];    /* the first thing that does not hold in this process; "" */
} trial;

/* Note it, unless something was noted before. */
LS_PRINTF(2, 3) void trial_fails(trial *t, const char *format, ...);

/* selftest_checks.c */
void try_identity(trial *t);
void try_collectives(trial *t);
void try_data(trial *t);
/* selftest_collectives.c */
void try_raw_collectives(trial *t);
/* selftest_training.c */
void try_gradients(trial *t);
void try_half_precision(trial *t);
void try_checkpoint(trial *t);

#endif
