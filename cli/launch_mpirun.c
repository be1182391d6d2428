/* launch_mpirun.c - the command line of mpirun, depending on the MPI implementation. */
#include "launch_mpirun.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_OWN = 2 * OPTION_COUNT + 24, LONGEST_NUMBER = 12, LONGEST_PAIR = 300 };

/* Options without a counterpart in mpirun, which then supervises the processes. */
static const option ours[] = {
    OPTION_NPROC_PER_NODE,
    OPTION_NO_PIN,
    OPTION_NNODES,
    OPTION_HOSTFILE,
    OPTION_STANDALONE,
    OPTION_RDZV_ENDPOINT,
    OPTION_RDZV_ID,
    OPTION_RDZV_CONF,
    OPTION_LOCAL_ADDR,
    OPTION_MAX_RESTARTS,
    OPTION_MAX_QUICK_RESTARTS,
    OPTION_SHUTDOWN_TIMEOUT,
    OPTION_EXIT_CODE_COMPAT,
    OPTION_QUIET,
    OPTION_TEE,
    OPTION_REDIRECTS,
    OPTION_LOG_DIR,
    OPTION_PREFIX,
    OPTION_PREFIX_TEMPLATE,
    OPTION_LOCAL_RANKS_FILTER,
    OPTION_ROLE,
};

/* Find "mpirun" or "mpiexec", and whether it belongs to Open MPI; NULL: neither exists. */
static char *find_mpirun(bool *open_mpi)
{
    static char *const names[] = {"mpirun", "mpiexec"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char line[256], ask[64];
        snprintf(ask, sizeof ask, "exec %s --version 2>/dev/null", names[i]);
        FILE *version = popen(ask, "r");
        *open_mpi = false;
        while (version && fgets(line, sizeof line, version))
            *open_mpi |= strstr(line, "Open MPI") || strstr(line, "OpenRTE");
        if (version && pclose(version) == 0) return names[i];
    }
    return NULL;
}

/* False, with the reason, if options conflict. */
static bool check(const launch_options *options, int processes, int hosts, char *why, size_t size)
{
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        if (!options->value[ours[i]]) continue;
        snprintf(why, size, "%s cannot be used with --mpirun_hostfile: mpirun supervises the processes",
                 option_name(ours[i]));
        return false;
    }
    if (processes < 1) snprintf(why, size, "mpirun needs --num_processes, the total over all hosts");
    else if (hosts < 1 || processes % hosts)
        snprintf(why, size, "--num_processes %d cannot be divided among %d hosts", processes, hosts);
    else return true;
    return false;
}

/* Set a variable; Open MPI forwards only those named on its command line. */
static char **put_variable(char **end, bool open_mpi, char *pair)
{
    putenv(pair);
    if (!open_mpi) return end;
    *end++ = "-x";
    *end++ = pair;
    return end;
}

int launch_mpirun(const command *by, const launch_options *options, const char *const *variables, char *const *words)
{
    char why[256], total[LONGEST_NUMBER], share[LONGEST_NUMBER], own[4][LONGEST_PAIR];
    int processes = option_count(options, OPTION_NUM_PROCESSES, 0),
        hosts = option_count(options, OPTION_NUM_MACHINES, 1);
    if (!check(options, processes, hosts, why, sizeof why)) return refuse_options(by, why);
    snprintf(total, sizeof total, "%d", processes);
    snprintf(share, sizeof share, "%d", processes / hosts);

    bool open_mpi;
    char *mpirun = find_mpirun(&open_mpi), *file = (char *)(uintptr_t)options->value[OPTION_MPIRUN_HOSTFILE];
    size_t count = 0;
    while (words[count]) count++;
    char **line = mpirun ? calloc(count + MOST_OWN, sizeof *line) : NULL, **end = line;
    if (!line) return refuse_options(by, "neither mpirun nor mpiexec was found: install Open MPI, MPICH or Intel MPI");
    char *const first[] = {mpirun, open_mpi ? "--hostfile" : "-f", file, open_mpi ? "--npernode" : "-ppn", share, "-n",
                           total};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) *end++ = first[i];
    if (open_mpi) *end++ = "--bind-to", *end++ = "socket";

    int threads = option_count(options, OPTION_NUM_THREADS, 0), shared = ls_launch_cpus() * hosts / processes;
    const char *own_name = getenv("LOCKSTEP_NUM_THREADS");
    const char *given = own_name && *own_name ? own_name : getenv("OMP_NUM_THREADS");
    option address = given_of(options, OPTION_MASTER_ADDR, OPTION_MAIN_PROCESS_IP);
    option port = given_of(options, OPTION_MASTER_PORT, OPTION_MAIN_PROCESS_PORT);
    if (!threads && given) threads = atoi(given);
    if (threads < 1) threads = shared > 1 ? shared : 1;
    snprintf(own[0], LONGEST_PAIR, "OMP_NUM_THREADS=%d", threads);
    snprintf(own[1], LONGEST_PAIR, "LOCKSTEP_NUM_THREADS=%d", threads);
    snprintf(own[2], LONGEST_PAIR, "MASTER_ADDR=%s", options->value[address] ? options->value[address] : "");
    snprintf(own[3], LONGEST_PAIR, "MASTER_PORT=%s", options->value[port] ? options->value[port] : "");
    for (int i = 0; i < 4; i++)
        if (own[i][strlen(own[i]) - 1] != '=') end = put_variable(end, open_mpi, own[i]);
    for (; *variables; variables++) end = put_variable(end, open_mpi, (char *)(uintptr_t)*variables);
    memcpy(end, words, count * sizeof *words);
    execvp(mpirun, line);
    snprintf(why, sizeof why, "cannot run %s: %s", mpirun, strerror(errno));
    free(line);
    return refuse_options(by, why);
}
