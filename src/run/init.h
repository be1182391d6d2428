/* init.h - what ls_init() goes by: flags, options, environment. */
#ifndef LOCKSTEP_RUN_INIT_H
#define LOCKSTEP_RUN_INIT_H

#include <lockstep/run.h>

/* Let the command line and the environment have their say: `opts` becomes what is in force, argc and argv (may be NULL)
 * keep what is the program's. False (and an error) when something cannot be understood. */
bool ls_init_settle(ls_run *run, int *argc, char ***argv, ls_init_opts *opts);

#endif
