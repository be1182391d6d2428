/* selftest.h - the checks of the self-test, run by every process: each records what fails. */
#ifndef LOCKSTEP_CLI_SELFTEST_H
#define LOCKSTEP_CLI_SELFTEST_H

#include <lockstep.h>

typedef struct trial {
    ls_run *run;
    const char *folder; /* for files; created by the main process and removed at the end */
    char wrong[400];    /* the first failure in this process; "" */
} trial;

/* Record a failure, unless there is one already. */
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
