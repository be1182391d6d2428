/* pmi.h - a client of the protocols between a process manager and its processes, over the inherited socket PMI_FD:
 * PMI-1 (mpiexec of MPICH and of Intel MPI, Hydra) and PMI-2 (srun --mpi=pmi2). Both are text; this client implements
 * as much as processes need to exchange their addresses, without libmpi. */
#ifndef LOCKSTEP_LAUNCH_BOOTSTRAP_PMI_H
#define LOCKSTEP_LAUNCH_BOOTSTRAP_PMI_H

#include "base/message.h"
typedef struct ls_pmi {
    const struct ls_pmi_dialect *dialect;
    int fd, rank, world;
    bool counted;    /* messages start with their length, and ';' separates words; else they are lines with blanks */
    char space[257]; /* name of the job's key-value space; PMI-1 only */
    int value_most;  /* most characters of a value */
    int rounds;      /* exchanges done: each uses new keys */
    char text[4096]; /* an answer, and anything received after it */
    size_t length;
} ls_pmi;

/* The differences between the two versions. */
typedef struct ls_pmi_dialect {
    ls_status (*hello)(ls_pmi *pmi, int64_t end, ls_message *why);
    ls_status (*put)(ls_pmi *pmi, const char *key, const char *value, int64_t end, ls_message *why);
    ls_status (*fence)(ls_pmi *pmi, int64_t end, ls_message *why); /* wait until all have put their values */
    ls_status (*get)(ls_pmi *pmi, const char *key, char *value, int64_t end, ls_message *why);
    ls_status (*goodbye)(ls_pmi *pmi, int64_t end, ls_message *why);
} ls_pmi_dialect;

extern const ls_pmi_dialect ls_pmi_1, ls_pmi_2;

/* Connect. Every call fails with LS_ERR_PEER after `seconds` without the answer it needs. */
ls_status ls_pmi_open(ls_pmi *pmi, const ls_pmi_dialect *dialect, int fd, int rank, int world, double seconds,
                      ls_message *why);

/* Every rank gives `size` bytes, the same number everywhere, and gets world x size, by rank. All must call it. */
ls_status ls_pmi_all_gather(ls_pmi *pmi, const void *mine, size_t size, void *all, double seconds, ls_message *why);

/* Disconnect; without this mpiexec takes the end of the process for a failure. Once per process. */
void ls_pmi_close(ls_pmi *pmi);

/* For pmi1.c and pmi2.c: ask a question and wait for the answer whose command is `wanted`; the answer's value `name`
 * goes to `value`, of the size of pmi->text, unless NULL. */
LS_PRINTF(7, 8)
ls_status ls_pmi_ask(ls_pmi *pmi, const char *wanted, const char *name, char *value, int64_t end, ls_message *why,
                     const char *question, ...);

#endif
