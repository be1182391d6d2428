/* logs.h - the folder of a job: what workers wrote and how they say they failed, in torchrun's layout:
 *
 *     <log_dir>/<run_id>_<random>/attempt_<restarts>/<local_rank>/{stdout.log,stderr.log,error.json} */
#ifndef LOCKSTEP_LAUNCH_SUPERVISE_LOGS_H
#define LOCKSTEP_LAUNCH_SUPERVISE_LOGS_H

#include "launch/plan.h"

typedef struct ls_logs {
    char root[600]; /* "": there is none */
    bool temporary; /* nobody asked for it: removed at the end */
    int mark;       /* file that is locked while this launcher lives; -1: none */
    int processes;
} ls_logs;

/* False when files were asked for and the folder cannot be made; the reason is printed. Files that nobody asked for may
 * have no place (a read-only system): then the root is empty. */
bool ls_logs_open(ls_logs *logs, const ls_plan *plan);
bool ls_logs_begin(ls_logs *logs, int attempt); /* the folders of one more attempt */
void ls_logs_path(const ls_logs *logs, int attempt, int local_rank, const char *name, char *path, size_t size);
void ls_logs_close(ls_logs *logs);

#endif
