/* mpis.h - tests that are repeated under each MPI: CHECK_RUN_MPIS(starts_them) counts as starts_them_under_mpich,
 * starts_them_under_open_mpi. Where one is not installed, its test is skipped. */
#ifndef LOCKSTEP_TESTS_MPIS_H
#define LOCKSTEP_TESTS_MPIS_H

#include "check.h"

typedef struct mpi {
    const char *name;
    const char *source;  /* as Lockstep calls what started a process */
    const char *mpiexec; /* followed by "-n 2 program": processes here, as many as one likes */
} mpi;

enum { MPICH, OPEN_MPI, MPIS };

static const mpi mpis[MPIS] = {
    [MPICH] = {"mpich", "Hydra", "mpiexec.hydra"},
    [OPEN_MPI] = {"open_mpi", "Open MPI", "mpirun.openmpi --oversubscribe --allow-run-as-root"},
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

__attribute__((unused)) static void mpi_run_each(const char *name, void (*test)(void))
{
    mpi_test = test;
    for (int i = 0; i < MPIS; i++) {
        char full[200];
        mpi_in_use = &mpis[i];
        snprintf(full, sizeof full, "%s_under_%s", name, mpis[i].name);
        check_one(full, mpi_run_one);
    }
    mpi_in_use = NULL;
}

#define CHECK_RUN_MPIS(test) mpi_run_each(#test, test)

#endif
