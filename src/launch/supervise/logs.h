/* logs.h - the folder of a job: output and error files of workers, in torchrun's layout:
 *
 *     <log_dir>/<run_id>_<random>/attempt_<restarts>/<local_rank>/{stdout.log,stderr.log,error.json} */
#ifndef LOCKSTEP_LAUNCH_SUPERVISE_LOGS_H
#define LOCKSTEP_LAUNCH_SUPERVISE_LOGS_H

#include "launch/plan.h"

typedef struct ls_logs {
    char root[600]; /* "": none */
    bool temporary; /* not requested: removed at the end */
    int lock;       /* descriptor of the lock file; -1: none */
    int processes;
} ls_logs;

/* False if files were requested and the folder cannot be created; the reason is printed. If they were not requested and
 * there is no place for them (a read-only system), the root is empty. */
bool ls_logs_open(ls_logs *logs, const ls_plan *plan);
bool ls_logs_begin(ls_logs *logs, int attempt); /* create the folders of another attempt */
void ls_logs_path(const ls_logs *logs, int attempt, int local_rank, const char *name, char *path, size_t size);
void ls_logs_close(ls_logs *logs);

#endif
