/* selftest.c - lockstep test: does everything work that training on these hosts needs?
 *
 * Started by a user, it launches itself; started as a process of a job, by any launcher, it runs the checks. Every
 * process runs all checks and shares its findings, which the main process prints. */
#include "selftest.h"

#include <errno.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "launch.h"

enum { MOST_PROCESSES = 8, LONGEST_PATH = 4096, LONGEST_NAME = 64 };

void trial_fails(trial *t, const char *format, ...)
{
    if (t->wrong[0]) return;
    va_list args;
    va_start(args, format);
    vsnprintf(t->wrong, sizeof t->wrong, format, args);
    va_end(args);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- A folder shared by all processes -------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *where)
{
    (void)about, (void)kind, (void)where;
    return remove(path);
}

static void remove_folder(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* The main process creates it; all get its name, "" if there is none. */
static void share_folder(trial *t, const char *above, char path[LONGEST_PATH])
{
    path[0] = '\0';
    if (ls_is_main(t->run)) {
        char *full = realpath(above, NULL);
        snprintf(path, LONGEST_PATH, "%s/lockstep_test_XXXXXX", full ? full : above);
        free(full);
        if (!mkdtemp(path)) {
            trial_fails(t, "cannot create a folder in %s (%s): pass one to lockstep test", above, strerror(errno));
            path[0] = '\0';
        }
    }
    ls_gathered all = ls_gather_object(t->run, path, strlen(path) + 1);
    if (all.count) snprintf(path, LONGEST_PATH, "%s", (const char *)all.data[0]);
    if (path[0] && access(path, R_OK) != 0)
        trial_fails(
            t, "%s, created by rank 0, is not visible here: pass a folder to lockstep test that all hosts share", path);
}

static void try_folder(trial *t)
{
    static char path[LONGEST_PATH];
    share_folder(t, t->folder, path);
    t->folder = path;
}

/* ---- Findings of all processes --------------------------------------------------------------------------------- */

static const struct check {
    const char *name;
    void (*run)(trial *t);
} checks[] = {
    {"identity", try_identity},     {"collectives", try_collectives},        {"sharding of data", try_data},
    {"gradients", try_gradients},   {"mixed precision", try_half_precision}, {"shared folder", try_folder},
    {"checkpoint", try_checkpoint},
};

static void name_host(char name[LONGEST_NAME])
{
    if (gethostname(name, LONGEST_NAME) != 0) strcpy(name, "?");
    name[LONGEST_NAME - 1] = '\0';
}

/* How many processes found a failure; the main process prints which and what. */
static int report_findings(const trial *t, const char *check, double seconds)
{
    char host[LONGEST_NAME], note[LONGEST_NAME + sizeof t->wrong];
    name_host(host);
    size_t length = 0;
    if (t->wrong[0]) length = (size_t)snprintf(note, sizeof note, "on %s: %s", host, t->wrong);
    ls_gathered all = ls_gather_object(t->run, note, length);
    int failures = 0;
    for (int r = 0; r < all.count; r++) failures += all.size[r] > 0;
    if (ls_error(t->run) || !ls_is_main(t->run)) return failures;
    printf("  %-18s%s  %6.2f s\n", check, failures ? "FAILED" : "passed", seconds);
    for (int r = 0; r < all.count; r++)
        if (all.size[r]) printf("      rank %d %.*s\n", r, (int)all.size[r], (const char *)all.data[r]);
    fflush(stdout);
    return failures;
}

/* "4 processes on 2 hosts: node1 (2), node2 (2)" */
static void print_processes(ls_run *run, double seconds)
{
    struct {
        char name[LONGEST_NAME];
        int local_rank, local_world;
    } mine = {.local_rank = ls_local_rank(run), .local_world = ls_local_world_size(run)};
    name_host(mine.name);
    ls_gathered all = ls_gather_object(run, &mine, sizeof mine);
    if (!ls_is_main(run) || ls_error(run)) return;
    int hosts = 0;
    for (int r = 0; r < all.count; r++) {
        memcpy(&mine, all.data[r], sizeof mine);
        hosts += mine.local_rank == 0;
    }
    printf("lockstep %s, %d process%s on %d host%s:", ls_version(), all.count, all.count == 1 ? "" : "es", hosts,
           hosts == 1 ? "" : "s");
    for (int r = 0; r < all.count; r++) {
        memcpy(&mine, all.data[r], sizeof mine);
        if (mine.local_rank == 0) printf(" %s (%d)", mine.name, mine.local_world);
    }
    const char *device = ls_device_of(ls_zeros(run, LS_F32, 1));
    if (strcmp(device, "cpu") != 0) printf(", device %.*s", (int)strcspn(device, ":"), device);
    printf("\n  %-18spassed  %6.2f s\n", "start", seconds);
    fflush(stdout);
}

/* ---- Timing ---------------------------------------------------------------------------------------------------- */

/* Seconds of one all-reduce of `count` f32 in shared memory, best of several rounds. */
static double time_all_reduce(ls_run *run, ls_comm *all, float *x, int64_t count, int rounds, int repeats)
{
    double best = 1e30;
    for (int i = 0; i < rounds; i++) {
        ls_wait_for_everyone(run);
        double start = now();
        for (int k = 0; k < repeats; k++)
            ls_collective(all, LS_COMM_ALL_REDUCE, .in = x, .out = x, .count = count, .dtype = LS_F32);
        double seconds = (now() - start) / repeats;
        if (seconds < best) best = seconds;
    }
    return best;
}

static void measure(ls_run *run)
{
    enum { LARGE = 16 << 20 };
    ls_comm *all = ls_comm_of(run);
    float *x = ls_comm_share(all, LARGE); /* zeros: sums stay zero */
    double small = time_all_reduce(run, all, x, 1, 10, 100), large = time_all_reduce(run, all, x, LARGE / 4, 5, 2);
    if (ls_is_main(run) && !ls_error(run))
        printf("  all-reduce: 4 bytes in %.1f us, 16 MiB in %.2f ms (%.2f GB/s)\n", 1e6 * small, 1e3 * large,
               LARGE / large / 1e9);
}

/* ---- A process of the job ------------------------------------------------------------------------------------- */

static int work(const char *above)
{
    double start = now();
    ls_run *run = ls_init(NULL, NULL, .seed = 42);
    trial t = {.run = run, .folder = above};
    const char *first = NULL, *at = "start";
    int mine = 0;
    ls_set_gradient_accumulation_steps(run, 1); /* regardless of the environment */
    ls_wait_for_everyone(run);
    print_processes(run, now() - start);
    for (size_t i = 0; i < sizeof checks / sizeof *checks && !ls_error(run); i++) {
        at = checks[i].name;
        t.wrong[0] = '\0';
        start = now();
        ls_mark mark = ls_scope_begin(run);
        checks[i].run(&t);
        ls_free_memory(run);
        ls_scope_end(run, mark, NULL);
        int failures = report_findings(&t, at, now() - start);
        if (failures && !first) first = at;
        if (t.wrong[0]) mine++, fprintf(stderr, "lockstep test: rank %d: %s: %s\n", ls_rank(run), at, t.wrong);
        if (failures && checks[i].run == try_folder) break; /* the last check needs it */
    }
    bool main = ls_is_main(run), several = ls_world_size(run) > 1;
    if (!first && several) at = "measurement", measure(run);
    if (main && t.folder != above && t.folder[0]) remove_folder(t.folder);
    if (main && ls_error(run)) fprintf(stderr, "lockstep test: failed at: %s\n", at);
    else if (main && first) fprintf(stderr, "lockstep test: failed at: %s\n", first);
    else if (main && !several) puts("All checks passed, with one process: communication was not tested.");
    else if (main) puts("All checks passed: these processes can train together.");
    ls_wait_for_everyone(run); /* a failing process ends the others: wait until all messages are printed */
    int code = ls_finish(run);
    return code ? code : mine > 0; /* so that the launcher names the process that found the cause */
}

/* ---- The launcher --------------------------------------------------------------------------------------------- */

/* Default number of processes: that of GPUs, of TPU chips, else of CPUs, but few; at least two, or there is nothing to
 * test, so they share a GPU if there is only one. A TPU chip cannot be shared. */
static const char *default_processes(const launch_options *options)
{
    static char text[12];
    int gpus = gpus_for(options), tpus = tpus_for(options), least = tpus == 1 ? 1 : 2;
    int count = gpus ? gpus : tpus ? tpus : ls_launch_cpus();
    if (gpus == 1) setenv("LOCKSTEP_SHARE_GPU", "1", 1);
    snprintf(text, sizeof text, "%d", count < least ? least : count > MOST_PROCESSES ? MOST_PROCESSES : count);
    return text;
}

static int run_test(int argc, char **argv)
{
    bool bare = argc == 1 || (argc == 2 && argv[1][0] != '-');
    if (bare && ls_launch_is_worker()) return work(argc == 2 ? argv[1] : ".");

    char why[1200], self[LONGEST_PATH] = "";
    launch_options options;
    if (!launch_options_read(&options, argc, argv, (const char *const *)environ, why, sizeof why))
        return refuse_options(&command_test, why);
    if (options.value[OPTION_HELP]) return write_page(&command_test, stdout), 0;
    if (!launch_options_configure(&options, why, sizeof why)) return refuse_options(&command_test, why);
    if (options.value[OPTION_MODULE] || options.value[OPTION_NO_PYTHON])
        return refuse_options(&command_test, "--module and --no_python are for programs of lockstep launch");
    if (options.program && options.program[1])
        return refuse_options(&command_test, "give at most one folder after the options");
    if (!options.value[OPTION_NUM_PROCESSES] && !options.value[OPTION_HOSTFILE] &&
        !options.value[OPTION_NPROC_PER_NODE])
        options.value[OPTION_NPROC_PER_NODE] = default_processes(&options);
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        return refuse_options(&command_test, "/proc is not mounted: the command cannot find itself");
    char *words[] = {self, "test", options.program ? options.program[0] : NULL, NULL};
    return launch_job(&command_test, &options, words);
}

static void more(FILE *to)
{
    fputs("\nOptions are those of lockstep launch:\n\n", to);
    launch_options_list(to);
}

const command command_test = {
    .name = "test",
    .summary = "test everything that training on these hosts needs, and report failures",
    .usage =
        "usage: lockstep test [options of lockstep launch] [folder]\n"
        "\n"
        "    lockstep test                                     this host, one process per GPU or CPU (2 to 8)\n"
        "    lockstep test --config_file cluster.yaml          with a file of lockstep config or accelerate config\n"
        "    lockstep test --nnodes 2 --node-rank R --master-addr A /shared      the same on every host\n"
        "    mpirun -n 4 lockstep test      srun -n 4 lockstep test      lockstep launch -n 4 lockstep test\n"
        "\n"
        "Every process tests its rank, all collectives, sharding of data, training (the parameters must equal\n"
        "those of a single process), 16-bit numbers, and a checkpoint with its resume, in the folder (default: the\n"
        "current one), which all hosts must share. A failure is reported with rank and host. The last line says\n"
        "whether all checks passed; the exit code is 0 then.\n",
    .more = more,
    .run = run_test,
};
