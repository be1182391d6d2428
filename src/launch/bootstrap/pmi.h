/* pmi.h - a client of the protocols that process managers speak with each process they have started, over a socket that
 * it inherits, PMI_FD: PMI-1 (mpiexec of MPICH and of Intel MPI, Hydra) and PMI-2 (srun --mpi=pmi2). Both are words and
 * values: enough of them for processes to tell each other where they can be reached, without libmpi. */
#ifndef LOCKSTEP_LAUNCH_BOOTSTRAP_PMI_H
#define LOCKSTEP_LAUNCH_BOOTSTRAP_PMI_H

#include "base/message.h"
typedef struct ls_pmi {
    const struct ls_pmi_dialect *dialect;
    int fd, rank, world;
    bool counted;    /* messages begin with their length, and ';' separates words; else they are lines, and blanks */
    char space[257]; /* the job's name for what is stored; PMI-1 alone */
    int value_most;  /* characters of a value */
    int rounds;      /* exchanges done: each has keys of its own */
    char text[4096]; /* an answer, and what has come after it */
    size_t length;
} ls_pmi;

/* What is different between the two. */
typedef struct ls_pmi_dialect {
    ls_status (*hello)(ls_pmi *pmi, int64_t end, ls_message *why);
    ls_status (*put)(ls_pmi *pmi, const char *key, const char *value, int64_t end, ls_message *why);
    ls_status (*fence)(ls_pmi *pmi, int64_t end, ls_message *why); /* all have put what they wanted to */
    ls_status (*get)(ls_pmi *pmi, const char *key, char *value, int64_t end, ls_message *why);
    ls_status (*goodbye)(ls_pmi *pmi, int64_t end, ls_message *why);
} ls_pmi_dialect;

extern const ls_pmi_dialect ls_pmi_1, ls_pmi_2;

/* Say hello. Every call fails with LS_ERR_PEER after `seconds` without the answer it needs. */
ls_status ls_pmi_open(ls_pmi *pmi, const ls_pmi_dialect *dialect, int fd, int rank, int world, double seconds,
                      ls_message *why);

/* Every rank gives `size` bytes, the same number everywhere, and gets world x size, by rank. All call it. */
ls_status ls_pmi_all_gather(ls_pmi *pmi, const void *mine, size_t size, void *all, double seconds, ls_message *why);

/* Say goodbye, without which mpiexec takes the end of the process for a failure. Once in a process. */
void ls_pmi_close(ls_pmi *pmi);

/* For dialects: a question, and the answer whose command must be `wanted`; `name` of it goes to `value`, of the size of
 * pmi->text, unless NULL. */
LS_PRINTF(7, 8)
ls_status ls_pmi_ask(ls_pmi *pmi, const char *wanted, const char *name, char *value, int64_t end, ls_message *why,
                     const char *question, ...);

#endif
