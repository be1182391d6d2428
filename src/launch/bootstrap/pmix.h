/* pmix.h - a client of PMIx, which Open MPI's mpirun and srun --mpi=pmix offer, through the installed libpmix. */
#ifndef LOCKSTEP_LAUNCH_BOOTSTRAP_PMIX_H
#define LOCKSTEP_LAUNCH_BOOTSTRAP_PMIX_H

#include "base/message.h"
typedef struct ls_pmix ls_pmix;

/* Load the library and connect. rank and world are set to those of PMIx. LS_ERR_UNSUPPORTED if the library is
 * missing. */
ls_status ls_pmix_open(ls_pmix **pmix, int *rank, int *world, ls_message *why);

/* Every rank gives `size` bytes, the same number everywhere, and gets world x size, by rank. All must call it. Fails
 * with LS_ERR_PEER if not all join within `seconds`; no further exchange is possible then. */
ls_status ls_pmix_all_gather(ls_pmix *pmix, const void *mine, size_t size, void *all, double seconds, ls_message *why);

void ls_pmix_close(ls_pmix *pmix); /* NULL is allowed */

#endif
