/* processes.c - what one process leaves to others: compiled programs in files, but never its client; and libraries that
 * cannot be used. Each part runs in a process of its own, since the library is loaded once. */
#include <lockstep.h>

#include <sys/resource.h>
#include <sys/wait.h>

#include "base/capture.h"
#include "check.h"
#include "folder.h"

/* Run a part in a child; true if it returned true. */
static bool in_a_child(bool (*part)(void))
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        bool done = part();
        fflush(NULL);
        _exit(done ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    return status == 0;
}

/* The message of a device that cannot be opened; the environment is restored. */
static bool is_refused(const char *library, const char *reason)
{
    setenv("LOCKSTEP_PJRT_LIBRARY", library, 1);
    ls_run *run = ls_init(NULL, NULL, .device = XLA_DEVICE);
    bool named = strstr(ls_error_message(run), reason) != NULL;
    if (!named) fprintf(stderr, "\"%s\" does not have \"%s\"\n", ls_error_message(run), reason);
    ls_finish(run);
    return named;
}

static bool refuses_what_is_not_there(void)
{
    return is_refused("no_such_library.so", "LOCKSTEP_PJRT_LIBRARY=no_such_library.so cannot be read");
}

static bool refuses_what_is_no_library_of_pjrt(void)
{
    return is_refused(XLA_DEVICE, "is not a PJRT library");
}

static void libraries_that_cannot_be_used_are_named(void)
{
    CHECK(in_a_child(refuses_what_is_not_there));
    CHECK(in_a_child(refuses_what_is_no_library_of_pjrt));
}

/* ---- programs in files ---- */

#define CACHE "xla_programs"

static ls_device_counts compute(bool *right)
{
    ls_run *run = ls_init(NULL, NULL, .device = XLA_DEVICE);
    float x[] = {1, 2, 3, 4}, y[4];
    ls_tensor *t = ls_from(run, LS_F32, LS_SHAPE(4), x);
    *right = ls_read(ls_add(ls_mul(t, t), t), y, sizeof y) && y[0] == 2 && y[3] == 20;
    ls_device_counts counts = ls_device_stats(run);
    *right &= ls_finish(run) == 0;
    return counts;
}

static bool compiles(void)
{
    bool right;
    ls_device_counts counts = compute(&right);
    return right && counts.compiled == 1 && counts.loaded == 0;
}

static bool loads(void)
{
    bool right;
    ls_device_counts counts = compute(&right);
    return right && counts.compiled == 0 && counts.loaded == 1;
}

static void the_second_start_compiles_nothing(void)
{
    folder_fresh(CACHE);
    setenv("LOCKSTEP_XLA_CACHE", CACHE, 1);
    CHECK(in_a_child(compiles));
    CHECK(in_a_child(loads));
    setenv("LOCKSTEP_XLA_CACHE", "off", 1);
    CHECK(in_a_child(compiles));
    folder_remove(CACHE);
}

/* Options of the compiler may change what it makes of a text. */
static void other_options_of_the_compiler_are_other_programs(void)
{
    char before[200];
    snprintf(before, sizeof before, "%s", getenv("XLA_FLAGS") ? getenv("XLA_FLAGS") : "");
    folder_fresh(CACHE);
    setenv("LOCKSTEP_XLA_CACHE", CACHE, 1);
    CHECK(in_a_child(compiles));
    setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=false", 1);
    CHECK(in_a_child(compiles));
    CHECK(in_a_child(loads));
    setenv("XLA_FLAGS", before, 1);
    CHECK(in_a_child(loads));
    folder_remove(CACHE);
}

static int cut_to_half(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    (void)walk;
    return kind == FTW_F ? truncate(path, status->st_size / 2) : 0;
}

static void a_file_that_was_cut_is_not_used(void)
{
    folder_fresh(CACHE);
    setenv("LOCKSTEP_XLA_CACHE", CACHE, 1);
    CHECK(in_a_child(compiles));
    CHECK(nftw(CACHE, cut_to_half, 16, FTW_PHYS) == 0);
    CHECK(in_a_child(compiles));
    CHECK(in_a_child(loads));
    folder_remove(CACHE);
}

enum { BITS = 8 };
static int bit; /* of these, spread over a file, the one to turn */

static int turn_a_bit(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    (void)walk;
    if (kind != FTW_F) return 0;
    FILE *file = fopen(path, "r+b");
    CHECK(file && fseek(file, status->st_size / BITS * bit, SEEK_SET) == 0);
    int byte = fgetc(file);
    CHECK(fseek(file, -1, SEEK_CUR) == 0 && fputc(byte ^ 1, file) == (byte ^ 1));
    return fclose(file);
}

/* XLA notices some, and executes others. */
static void a_file_that_was_damaged_is_not_used(void)
{
    folder_fresh(CACHE);
    setenv("LOCKSTEP_XLA_CACHE", CACHE, 1);
    CHECK(in_a_child(compiles));
    for (bit = 0; bit < BITS; bit++) {
        CHECK(nftw(CACHE, turn_a_bit, 16, FTW_PHYS) == 0);
        CHECK(in_a_child(compiles));
    }
    CHECK(in_a_child(loads));
    folder_remove(CACHE);
}

static void programs_lie_in_the_home_of_the_library(void)
{
    folder_fresh(CACHE);
    unsetenv("LOCKSTEP_XLA_CACHE");
    setenv("LOCKSTEP_HOME", CACHE, 1);
    CHECK(in_a_child(compiles));
    CHECK(in_a_child(loads));
    CHECK(access(CACHE "/xla", X_OK) == 0);
    unsetenv("LOCKSTEP_HOME");
    folder_remove(CACHE);
}

static int computes(void)
{
    bool right;
    compute(&right);
    return right ? 0 : 1;
}

/* False for a root without that capability, as in some containers. */
static bool may_become_nobody(void)
{
    return geteuid() != 0 || (seteuid(65534) == 0 && seteuid(0) == 0);
}

/* The library is loaded before, in case that only root may read it. */
static int computes_as_nobody(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = XLA_DEVICE);
    if (geteuid() == 0 && seteuid(65534) != 0) return 1;
    bool right = ls_item(ls_sum(ls_ones(run, LS_F32, 7))) == 7;
    return ls_finish(run) == 0 && right ? 0 : 1;
}

/* A program that cannot be kept is no failure, but not a secret either. */
static void a_folder_that_cannot_be_written_is_told_once(void)
{
    char text[4000];
    folder_fresh(CACHE);
    CHECK(chmod(CACHE, 0555) == 0);
    setenv("LOCKSTEP_XLA_CACHE", CACHE, 1);
    if (may_become_nobody()) {
        CHECK(run_captured("LOCKSTEP_LOG=info", computes_as_nobody, text, sizeof text) == 0);
        CHECK_MSG(strstr(text, ": Permission denied"), "%s", text);
    }
    folder_remove(CACHE);
    FILE *file = fopen(CACHE, "w");
    CHECK(file && fclose(file) == 0);
    setenv("LOCKSTEP_XLA_CACHE", CACHE "/below", 1);
    CHECK(run_captured("LOCKSTEP_LOG=info", computes, text, sizeof text) == 0);
    CHECK_MSG(strstr(text, "xla: compiled programs cannot be kept: " CACHE "/below"), "%s", text);
    setenv("LOCKSTEP_XLA_CACHE", "off", 1);
    remove(CACHE);
}

/* ---- memory ---- */

static bool is_told_that_memory_is_full(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = XLA_DEVICE);
    ls_item(ls_sum(ls_ones(run, LS_F32, 10)));
    setrlimit(RLIMIT_AS, &(struct rlimit){(rlim_t)6 << 30, (rlim_t)6 << 30});
    ls_tensor *x = ls_keep(ls_ones(run, LS_F32, 1 << 16, 1 << 16)); /* 16 GiB */
    ls_item(ls_sum(ls_add(x, x)));
    const char *said = ls_error_message(run);
    bool named =
        ls_error(run) == LS_ERR_MEMORY && strstr(said, "out of device memory: ") && strstr(said, "17179869184");
    if (!named) fprintf(stderr, "%d: %s\n", (int)ls_error(run), said);
    return named;
}

static void memory_that_is_full_is_called_so(void)
{
    CHECK(in_a_child(is_told_that_memory_is_full));
}

/* ---- children ---- */

static bool is_told_that_it_was_forked(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = XLA_DEVICE);
    return strstr(ls_error_message(run), "had started XLA") != NULL;
}

static bool has_a_child_that_is_told(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = XLA_DEVICE);
    return ls_error(run) == LS_OK && in_a_child(is_told_that_it_was_forked);
}

/* With what its parent had; the rest of the program would wait for threads that it does not have. */
static ls_tensor *of_the_parent;

static bool cannot_compute(void)
{
    ls_run *run = ls_run_of(of_the_parent);
    double sum = ls_item(ls_sum(ls_add(of_the_parent, of_the_parent)));
    return isnan(sum) && strstr(ls_error_message(run), "had started XLA") != NULL && ls_finish(run) != 0;
}

static bool has_a_child_that_cannot_compute(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = XLA_DEVICE);
    of_the_parent = ls_ones(run, LS_F32, 10);
    bool right = ls_item(ls_sum(of_the_parent)) == 10 && in_a_child(cannot_compute);
    return ls_item(ls_sum(ls_mul(of_the_parent, of_the_parent))) == 10 && ls_finish(run) == 0 && right;
}

static void a_child_of_a_process_that_trains_is_refused(void)
{
    CHECK(in_a_child(has_a_child_that_cannot_compute));
    CHECK(in_a_child(has_a_child_that_is_told));
}

int main(void)
{
    CHECK_RUN_FORK(libraries_that_cannot_be_used_are_named);
    CHECK_RUN_FORK(the_second_start_compiles_nothing);
    CHECK_RUN_FORK(other_options_of_the_compiler_are_other_programs);
    CHECK_RUN_FORK(a_file_that_was_cut_is_not_used);
    CHECK_RUN_FORK(a_file_that_was_damaged_is_not_used);
    CHECK_RUN_FORK(programs_lie_in_the_home_of_the_library);
    CHECK_RUN_FORK(a_folder_that_cannot_be_written_is_told_once);
    CHECK_RUN_FORK(memory_that_is_full_is_called_so);
    CHECK_RUN_FORK(a_child_of_a_process_that_trains_is_refused);
    return check_done();
}
