/* process.h - MPI in this process: initialised once, finalised when the process exits, one call at a time.
 *
 * All links share one communicator, a copy of MPI_COMM_WORLD. A message's tag says which link it belongs to. */
#ifndef LOCKSTEP_COMM_MPI_PROCESS_H
#define LOCKSTEP_COMM_MPI_PROCESS_H

#include <lockstep/link.h>
#include <mpi.h>

/* Initialise MPI if needed, for a job of `size` processes in which this one is `rank`, and count one more link. */
ls_status mpi_process_enter(int rank, int size, ls_message *why);
/* Count one link less. After one that was not closed orderly, the end does not wait for other processes. */
void mpi_process_leave(bool orderly);

/* MPI may be called only between these two. False: no more calls are possible, since a message could not be cancelled
 * and MPI would still write to its memory; then there is nothing to unlock. */
bool mpi_lock(ls_message *why);
void mpi_unlock(void);
void mpi_give_up(void); /* with the lock held: no MPI call after this one */

MPI_Comm mpi_everybody(void);

/* The number of a new link. Numbers are reused only when all tags are used up, so that an unreceived message does not
 * go to a later link. Those of the whole job are even, and the same on all ranks. */
int mpi_next_link(bool whole);

/* "Open MPI v4.1.4" */
const char *mpi_version(void);

/* Describe an MPI error in `why`; returns LS_ERR_PEER. */
ls_status mpi_failed(const char *what, int error, ls_message *why);

#endif
