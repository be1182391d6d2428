/* profile.h - where the time of a training goes: operators, modules, waiting for other processes and for data.
 *
 *     ls_profile(run) {
 *         for (int i = 0; i < 20 && ls_next(train, &b); i++) ...
 *     }
 *
 * profiles the block. The folder "profile" then holds profile.txt, tables for each process, and trace.json, a timeline
 * of all processes that opens in Perfetto (ui.perfetto.dev) and chrome://tracing. `lockstep profile ./program` does the
 * same for a whole program. Measuring costs about 0.1 us per operator; without a profile it costs nothing.
 *
 * Times of operators are exact on the CPU. An asynchronous device returns before an operator is done: there they are
 * the times of submission, and the time it works shows up where the program waits for it. */
#ifndef LOCKSTEP_PROFILE_H
#define LOCKSTEP_PROFILE_H

#include <lockstep/run.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_profile_opts {
    const char *folder LS_DEFAULT(NULL); /* created if missing; NULL is "profile" */
    ls_options_end _ LS_DEFAULT({});
} ls_profile_opts;
#define ls_profile_opts_defaults .folder = NULL

/* All processes must begin and end a profile together; a process can take one at a time. Leave a block with `continue`,
 * not with `break` or `return`. ls_profile_end() writes the files and prints the tables of the main process on standard
 * error. Options: ls_profile(run, .folder = "slow_steps") { ... } */
#define ls_profile(...) LS_MARKED_(ls_profile_begin(__VA_ARGS__), ls_profile_end(LS_PROFILED_(__VA_ARGS__, )), __LINE__)
#define LS_PROFILED_(run, ...) (run)
#define ls_profile_begin(...) LS_CALL_1(ls_profile_begin, ls_profile_opts, __VA_ARGS__, )
LS_API bool ls_profile_begin_sized(ls_run *run, const ls_profile_opts *opts, size_t opts_size); /* true */
LS_API bool ls_profile_end(ls_run *run);                                                        /* false */

/* Make trace.json and profile.txt of what processes with LOCKSTEP_PROFILE=FOLDER have left there. False (and an error,
 * LS_ERR_STATE) if there is nothing. Warns of processes of the job that have left nothing. A second run is in
 * FOLDER/run_2, and so on. */
LS_API bool ls_profile_join(ls_run *run, const char *folder);

#ifdef __cplusplus
}
#endif
#endif
