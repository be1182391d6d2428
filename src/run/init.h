/* init.h - the options of a run: flags, options of ls_init(), environment. */
#ifndef LOCKSTEP_RUN_INIT_H
#define LOCKSTEP_RUN_INIT_H

#include <lockstep/run.h>

/* Apply the command line and the environment: `opts` becomes the effective options, and argc and argv (may be NULL)
 * keep what belongs to the program. False (and an error) if something is invalid. */
bool ls_init_settle(ls_run *run, int *argc, char ***argv, ls_init_opts *opts);

#endif
