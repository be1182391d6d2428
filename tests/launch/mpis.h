/* mpis.h - tests that are repeated under each MPI: CHECK_RUN_MPIS(starts_them) counts as starts_them_under_mpich,
 * starts_them_under_open_mpi, starts_them_under_intel_mpi. If one is not installed, its test is skipped.
 *
 * Intel MPI is in the build folder if `make test` has put it there (tools/intel_mpi.sh). */
#ifndef LOCKSTEP_TESTS_MPIS_H
#define LOCKSTEP_TESTS_MPIS_H

#include "check.h"

typedef struct mpi {
    const char *name;
    const char *source;  /* Lockstep's name for it as a launcher */
    const char *mpiexec; /* followed by "-n 2 program": starts any number of processes on this host */
} mpi;

enum { MPICH, OPEN_MPI, INTEL_MPI, MPIS };

static const mpi mpis[MPIS] = {
    [MPICH] = {"mpich", "Hydra", "mpiexec.hydra"},
    [OPEN_MPI] = {"open_mpi", "Open MPI", "mpirun.openmpi --oversubscribe --allow-run-as-root"},
    [INTEL_MPI] = {"intel_mpi", "Hydra", INTEL_MPIEXEC},
};

static const mpi *mpi_in_use; /* NULL outside of these tests */
static void (*mpi_test)(void);

__attribute__((unused)) static bool mpi_is(int which)
{
    return mpi_in_use == &mpis[which];
}

static void mpi_run_one(void)
{
    char line[1024];
    int program = (int)strcspn(mpi_in_use->mpiexec, " ");
    snprintf(line, sizeof line, "command -v %.*s >/dev/null", program, mpi_in_use->mpiexec);
    if (system(line) != 0) CHECK_SKIP("%.*s is not installed", program, mpi_in_use->mpiexec);
    mpi_test();
}

/* Under one of them. */
static void mpi_run(const char *name, void (*test)(void), int which)
{
    char full[200];
    mpi_test = test;
    mpi_in_use = &mpis[which];
    snprintf(full, sizeof full, "%s_under_%s", name, mpi_in_use->name);
    check_one(full, mpi_run_one);
    mpi_in_use = NULL;
}

#define CHECK_RUN_MPIS(test)                                                                                           \
    do {                                                                                                               \
        for (int mpi_ = 0; mpi_ < MPIS; mpi_++) mpi_run(#test, test, mpi_);                                            \
    } while (0)

#endif
