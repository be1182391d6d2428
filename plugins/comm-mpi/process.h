/* process.h - MPI in this process: begun once, ended when the process ends, one call at a time.
 *
 * All links share one communicator, a copy of MPI_COMM_WORLD. Which link a message belongs to is in its tag. */
#ifndef LOCKSTEP_COMM_MPI_PROCESS_H
#define LOCKSTEP_COMM_MPI_PROCESS_H

#include <lockstep/link.h>
#include <mpi.h>

/* Begin MPI if nobody has, for a job of `size` processes in which this one is `rank`; one more link needs it. */
ls_status mpi_process_enter(int rank, int size, ls_message *why);
/* One link needs it no longer. After one that did not end orderly nobody waits for the others at the end. */
void mpi_process_leave(bool orderly);

/* Between these two is the only place for calls of MPI. False: they are over, since a message could not be called back
 * and MPI would still write to its memory; there is nothing to unlock then. */
bool mpi_lock(ls_message *why);
void mpi_unlock(void);
void mpi_give_up(void); /* locked: no call of MPI after this one */

MPI_Comm mpi_everybody(void);

/* The number of a new link. They are used again only when the tags are used up, so that a message that nobody received
 * does not fall to a later link. Those of the whole job are even, and counted alike by all ranks. */
int mpi_next_link(bool whole);

/* "Open MPI v4.1.4" */
const char *mpi_version(void);

/* Say what an error of MPI is; LS_ERR_PEER. */
ls_status mpi_failed(const char *what, int error, ls_message *why);

#endif
