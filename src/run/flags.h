/* flags.h - flags of the run itself, parsed by the same code as those of programs (include/lockstep/flags.h). */
#ifndef LOCKSTEP_RUN_FLAGS_H
#define LOCKSTEP_RUN_FLAGS_H

#include <lockstep/flags.h>

/* What ls_init() takes from the command line; missing values stay unchanged. */
typedef struct ls_run_flags {
    const char *mixed_precision, *device, *project_dir, *resume;
    int64_t accumulation, threads, total_limit; /* LS_AUTO: not given */
    uint64_t seed;
    bool bf16, fp16, use_cpu;
} ls_run_flags;

enum { LS_RUN_FLAG_COUNT = 13 };
/* Their table, with values stored in `to`. */
void ls_run_flags_table(ls_run_flags *to, ls_flag table[LS_RUN_FLAG_COUNT]);

/* Remove the flags of a table from argv (which may be NULL) and leave everything else. False after an error. */
bool ls_flags_take(ls_run *run, int *argc, char ***argv, const ls_flag *flags, int count);

#endif
