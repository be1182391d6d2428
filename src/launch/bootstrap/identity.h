/* identity.h - rank and world size of this process, read from the environment variables of all known launchers.
 *
 * The first that applies: our own names, torchrun's (LOCAL_RANK), Open MPI, Hydra (MPICH, Intel MPI), MVAPICH, a Slurm
 * step, PMIx, a PyTorchJob pod that runs the program without a launcher, none. Slurm comes late because a batch
 * script exports SLURM_PROCID=0 to everything it starts, including mpirun and launchers. */
#ifndef LOCKSTEP_LAUNCH_BOOTSTRAP_IDENTITY_H
#define LOCKSTEP_LAUNCH_BOOTSTRAP_IDENTITY_H

#include "base/message.h"
/* How processes find each other. */
typedef enum ls_bootstrap {
    LS_BOOTSTRAP_ALONE, /* there are no other processes */
    LS_BOOTSTRAP_STORE, /* rank 0 listens at master_addr:master_port */
    LS_BOOTSTRAP_PMI1,  /* through the process manager, over the file descriptor pmi_fd */
    LS_BOOTSTRAP_PMI2,  /* likewise, version 2, used by Slurm */
    LS_BOOTSTRAP_PMIX,  /* through libpmix */
} ls_bootstrap;

/* -1: not in the environment; the bootstrap will tell. */
typedef struct ls_identity {
    const char *source; /* "torchrun", "Open MPI", ... for messages */
    int rank, world;
    int local_rank, local_world;
    int host_rank, hosts;
    char master_addr[256]; /* "": unknown */
    int master_port;       /* 0: unknown */
    ls_bootstrap bootstrap;
    int pmi_fd;       /* for PMI1 and PMI2; -1: none */
    char job[256];    /* the launcher's unique name for the job; "": none */
    int attempt;      /* restarts before this one */
    bool launched;    /* as a process of a job; else by hand, or in a pod whose variables are for a launcher */
    bool by_launcher; /* Lockstep's, torchrun or similar: it starts all processes on the hosts of the job */
} ls_identity;

/* A pure function of the environment. Fails if variables contradict each other, with variable and value in `why`. */
ls_status ls_identity_read(const char *const *environment, ls_identity *identity, ls_message *why);

#endif
