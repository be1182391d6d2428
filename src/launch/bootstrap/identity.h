/* identity.h - who is this process? Read from what launchers of all kinds leave in the environment.
 *
 * First that applies: our own names, torchrun's (LOCAL_RANK), Open MPI, Hydra (MPICH, Intel MPI), MVAPICH, a Slurm
 * step, PMIx, a PyTorchJob pod that runs the program without a launcher, nobody. Slurm comes late because a batch
 * script exports SLURM_PROCID=0 to everything it starts, mpirun and launchers included. */
#ifndef LOCKSTEP_LAUNCH_BOOTSTRAP_IDENTITY_H
#define LOCKSTEP_LAUNCH_BOOTSTRAP_IDENTITY_H

#include "base/message.h"
/* How processes find each other. */
typedef enum ls_bootstrap {
    LS_BOOTSTRAP_ALONE, /* there is nobody else */
    LS_BOOTSTRAP_STORE, /* rank 0 listens at master_addr:master_port */
    LS_BOOTSTRAP_PMI1,  /* by the process manager, over file pmi_fd */
    LS_BOOTSTRAP_PMI2,  /* likewise, the second version, by Slurm */
    LS_BOOTSTRAP_PMIX,  /* by libpmix */
} ls_bootstrap;

/* -1: the environment does not say, the bootstrap will. */
typedef struct ls_identity {
    const char *source; /* "torchrun", "Open MPI", ... for messages */
    int rank, world;
    int local_rank, local_world;
    int host_rank, hosts;
    char master_addr[256]; /* "": unknown */
    int master_port;       /* 0: unknown */
    ls_bootstrap bootstrap;
    int pmi_fd;       /* of PMI1 and PMI2; -1: none */
    char job[256];    /* the launcher's name for the job, which other jobs do not have; "": it has none */
    int attempt;      /* restarts before this one */
    bool launched;    /* as a process of a job; else by a person, or in a pod whose variables speak to a launcher */
    bool by_launcher; /* of Lockstep's or torchrun's kind: all that runs on the hosts of the job is its own doing */
} ls_identity;

/* A pure function of the environment. Fails, with variable and value in `why`,
 * where variables contradict each other. */
ls_status ls_identity_read(const char *const *environment, ls_identity *identity, ls_message *why);

#endif
