/* process.c - initialising and finalising MPI in this process. */
#include "process.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    pthread_mutex_t lock;
    MPI_Comm everybody;
    int most_tag;
    int made[2];   /* links created so far: of groups, of the whole job */
    int links;     /* open now */
    bool begun;    /* the communicator exists */
    bool ours;     /* MPI was initialised here, and is finalised here */
    bool ruined;   /* a link was not closed orderly */
    bool over;     /* no more MPI calls */
    pid_t process; /* forked children have no MPI */
} mpi = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- version ---- */

ls_status mpi_failed(const char *what, int error, ls_message *why)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(error, text, &length);
    snprintf(why->text, sizeof why->text, "%.60s: %.120s", what, text);
    return LS_ERR_PEER;
}

/* The first words of a text that may be pages long: up to a line end or a comma, without a heading. */
const char *mpi_version(void)
{
    static char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    if (MPI_Get_library_version(text, &length) != MPI_SUCCESS) return "unknown";
    text[strcspn(text, ",\n")] = '\0';
    static const char heading[] = "Version:";
    char *place = strstr(text, heading);
    if (place) {
        const char *number = place + strlen(heading);
        number += strspn(number, " \t");
        memmove(place, number, strlen(number) + 1);
    }
    return text;
}

/* ---- initialising and finalising ---- */

/* Without mpirun, MPI_Init makes a job of one process, and may start helper processes for it. */
static bool under_mpirun(void)
{
    static const char *const signs[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_FD", "PMI_ID"};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (getenv(signs[i])) return true;
    return false;
}

/* This plug-in was loaded with local symbols, and MPI with it; make MPI visible to the modules that it loads. */
static void make_global(void)
{
    Dl_info library;
    int (*function)(int *, char ***) = MPI_Init;
    void *address;
    memcpy(&address, &function, sizeof address);
    if (dladdr(address, &library) != 0) (void)dlopen(library.dli_fname, RTLD_LAZY | RTLD_GLOBAL | RTLD_NOLOAD);
}

/* MPI installs handlers for crash signals; restore those of the program. */
static int begin_mpi(void)
{
    struct sigaction before[NSIG] = {0};
    int given;
    for (int s = 1; s < NSIG; s++) sigaction(s, NULL, &before[s]);
    int error = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &given);
    for (int s = 1; s < NSIG; s++) {
        struct sigaction now;
        if (sigaction(s, NULL, &now) == 0 && now.sa_sigaction != before[s].sa_sigaction) sigaction(s, &before[s], NULL);
    }
    return error == MPI_SUCCESS && given < MPI_THREAD_SERIALIZED ? MPI_ERR_OTHER : error;
}

/* MPICH before 4.2 over UCX may hang in finalisation: a process still closes connections to others, which wait for it
 * at the process manager and do not answer. There MPI is not finalised once all processes have got this far, and only
 * the process manager is told, by its protocol (PMI-1), that this is not a failure. */
static void end_mpi(void)
{
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40200000
    const char *file = getenv("PMI_FD");
    static const char goodbye[] = "cmd=finalize\n";
    char answer[64];
    if (file && MPI_Barrier(mpi.everybody) == MPI_SUCCESS) {
        if (write(atoi(file), goodbye, sizeof goodbye - 1) == (ssize_t)sizeof goodbye - 1)
            while (read(atoi(file), answer, sizeof answer) < 0 && errno == EINTR) continue;
        return;
    }
#endif
    MPI_Comm_free(&mpi.everybody);
    MPI_Finalize();
}

/* Finalising MPI waits for all processes. A process that exits in the middle of something just exits: mpirun ends the
 * others. */
static void at_exit(void)
{
    if (mpi.process != getpid() || pthread_mutex_trylock(&mpi.lock) != 0) return;
    if (!mpi.over && !mpi.ruined && mpi.links == 0) end_mpi();
    mpi.over = true;
    pthread_mutex_unlock(&mpi.lock);
}

static ls_status begin(int size, ls_message *why)
{
    int flag = 0, level = MPI_THREAD_SINGLE, error = MPI_SUCCESS;
    make_global();
    MPI_Finalized(&flag);
    if (flag) {
        snprintf(why->text, sizeof why->text, "MPI was finalised in this process and cannot be initialised again");
        return LS_ERR_STATE;
    }
    MPI_Initialized(&flag);
    if (!flag && size > 1 && !under_mpirun()) {
        snprintf(why->text, sizeof why->text,
                 "not started by mpirun: none of OMPI_COMM_WORLD_SIZE, PMIX_RANK, PMI_RANK, PMI_FD is set; "
                 "LOCKSTEP_COMM_TRANSPORT=ucx needs none");
        return LS_ERR_STATE;
    }
    if (!flag) error = begin_mpi();
    if (error != MPI_SUCCESS) return mpi_failed("MPI_Init_thread", error, why);
    mpi.ours = !flag;
    MPI_Query_thread(&level);
    if (!mpi.ours && level != MPI_THREAD_MULTIPLE) {
        snprintf(why->text, sizeof why->text,
                 "this program initialised MPI itself: it must request MPI_THREAD_MULTIPLE from MPI_Init_thread");
        return LS_ERR_STATE;
    }
    error = MPI_Comm_dup(MPI_COMM_WORLD, &mpi.everybody);
    if (error != MPI_SUCCESS) return mpi_failed("MPI_Comm_dup", error, why);
    /* Some MPIs report failed messages to the error handlers of these communicators. */
    MPI_Comm everywhere[] = {mpi.everybody, MPI_COMM_WORLD, MPI_COMM_SELF};
    for (int i = 0; i < (mpi.ours ? 3 : 1); i++) MPI_Comm_set_errhandler(everywhere[i], MPI_ERRORS_RETURN);
    int *most = NULL;
    MPI_Comm_get_attr(mpi.everybody, MPI_TAG_UB, &most, &flag);
    mpi.most_tag = flag ? *most : 32767;
    mpi.process = getpid();
    mpi.begun = true;
    if (mpi.ours) atexit(at_exit);
    return LS_OK;
}

static ls_status check(int rank, int size, ls_message *why)
{
    int mpi_rank, mpi_size;
    MPI_Comm_rank(mpi.everybody, &mpi_rank);
    MPI_Comm_size(mpi.everybody, &mpi_size);
    if (mpi_rank == rank && mpi_size == size) return LS_OK;
    snprintf(why->text, sizeof why->text,
             "rank %d of %d is rank %d of %d to %s: start the job with the mpirun of that MPI, one rank per process",
             rank, size, mpi_rank, mpi_size, mpi_version());
    return LS_ERR_STATE;
}

ls_status mpi_process_enter(int rank, int size, ls_message *why)
{
    if (!mpi_lock(why)) return LS_ERR_STATE;
    ls_status status = mpi.begun ? LS_OK : begin(size, why);
    if (status == LS_OK) status = check(rank, size, why);
    if (status == LS_OK) mpi.links++;
    mpi_unlock();
    return status;
}

void mpi_process_leave(bool orderly)
{
    pthread_mutex_lock(&mpi.lock);
    mpi.links--;
    if (!orderly) mpi.ruined = true;
    pthread_mutex_unlock(&mpi.lock);
}

/* ---- locking ---- */

bool mpi_lock(ls_message *why)
{
    pthread_mutex_lock(&mpi.lock);
    if (!mpi.over) return true;
    pthread_mutex_unlock(&mpi.lock);
    snprintf(why->text, sizeof why->text,
             "MPI cannot cancel a message in transfer, and was abandoned in this process; "
             "LOCKSTEP_COMM_TRANSPORT=ucx can");
    return false;
}

void mpi_unlock(void)
{
    pthread_mutex_unlock(&mpi.lock);
}

void mpi_give_up(void)
{
    mpi.over = true;
}

MPI_Comm mpi_everybody(void)
{
    return mpi.everybody;
}

int mpi_next_link(bool whole)
{
    pthread_mutex_lock(&mpi.lock);
    int number = 2 * (mpi.made[whole]++ % ((mpi.most_tag / LS_LINK_CHANNELS - 1) / 2)) + !whole;
    pthread_mutex_unlock(&mpi.lock);
    return number;
}
