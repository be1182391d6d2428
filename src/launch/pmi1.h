/* pmi1.h - a client of PMI-1, which mpiexec of MPICH and of Intel MPI (Hydra) speaks with each process it has started:
 * lines of text over a socket that the process inherits, PMI_FD. Enough of it for processes to tell each other where
 * they can be reached, without libmpi. */
#ifndef LOCKSTEP_LAUNCH_PMI1_H
#define LOCKSTEP_LAUNCH_PMI1_H

#include <lockstep/plugin.h>

typedef struct ls_pmi1 {
    int fd, rank, world;
    char space[257]; /* the job's name for what is stored */
    int value_most;  /* characters of a value */
    int application; /* number of the program where mpiexec started several */
    int rounds;      /* exchanges done: each has keys of its own */
    char line[4096]; /* an answer, and what has come after it */
    size_t length;
} ls_pmi1;

/* Say hello. Every call fails with LS_ERR_PEER after `seconds` without the answer it needs. */
ls_status ls_pmi1_open(ls_pmi1 *pmi, int fd, int rank, int world, double seconds, ls_message *why);

/* Every rank gives `size` bytes, the same number everywhere, and gets world x size, by rank. All call it. */
ls_status ls_pmi1_all_gather(ls_pmi1 *pmi, const void *mine, size_t size, void *all, double seconds, ls_message *why);

/* Say goodbye, without which mpiexec takes the end of the process for a failure. Once in a process. */
void ls_pmi1_close(ls_pmi1 *pmi);

#endif
