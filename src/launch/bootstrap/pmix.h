/* pmix.h - a client of PMIx, which mpirun of Open MPI and srun --mpi=pmix offer, by the libpmix that is installed. */
#ifndef LOCKSTEP_LAUNCH_BOOTSTRAP_PMIX_H
#define LOCKSTEP_LAUNCH_BOOTSTRAP_PMIX_H

#include "base/message.h"
typedef struct ls_pmix ls_pmix;

/* Load the library and say hello. rank and world are what PMIx says they are. LS_ERR_UNSUPPORTED where there is no
 * library. */
ls_status ls_pmix_open(ls_pmix **pmix, int *rank, int *world, ls_message *why);

/* Every rank gives `size` bytes, the same number everywhere, and gets world x size, by rank. All call it. Fails with
 * LS_ERR_PEER when not all have come within `seconds`; no further exchange is then possible. */
ls_status ls_pmix_all_gather(ls_pmix *pmix, const void *mine, size_t size, void *all, double seconds, ls_message *why);

void ls_pmix_close(ls_pmix *pmix); /* NULL is allowed */

#endif
