/* check.h - the whole test framework. A test program is a list of functions run by check_main().
 *
 *     static void adds_numbers(void) { CHECK(1 + 1 == 2); CHECK_NEAR(x, 3.0, 1e-6); }
 *     int main(int argc, char **argv) { CHECK_RUN(adds_numbers); return check_done(); }
 *
 * A failed check prints file, line and values, is counted, and the test continues. A test of something that this
 * machine lacks or does not allow calls CHECK_SKIP and is counted separately, with a line "SKIP name: reason". The
 * program prints "N passed, N failed, N skipped" at the end, and exits with 1 if a test failed or none ran, and with 77
 * if all were skipped. argv[1] filters by name. */
#ifndef LOCKSTEP_TESTS_CHECK_H
#define LOCKSTEP_TESTS_CHECK_H

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check_passed, check_failed, check_skipped, check_failures_here;
static char check_skip_reason[300]; /* of the running test; "": not skipped */
static char check_skip_all[300];    /* if set: why tests cannot run here; none is started */
static const char *check_filter;

__attribute__((format(printf, 3, 4), unused)) static void check_fail(const char *file, int line, const char *text, ...)
{
    va_list args;
    va_start(args, text);
    if (check_failures_here++ < 20) {
        fprintf(stderr, "%s:%d: ", file, line);
        vfprintf(stderr, text, args);
        fputc('\n', stderr);
    }
    va_end(args);
}

/* Mark the running test, or a part of it, as impossible here: it counts as skipped, unless a check fails. */
__attribute__((format(printf, 1, 2), unused)) static void check_skip(const char *reason, ...)
{
    va_list args;
    va_start(args, reason);
    if (!check_skip_reason[0]) vsnprintf(check_skip_reason, sizeof check_skip_reason, reason, args);
    va_end(args);
    check_skip_reason[strcspn(check_skip_reason, "\n")] = '\0';
}

/* The same, and ends the test function: CHECK_SKIP("%s is not installed", program). */
#define CHECK_SKIP(...)                                                                                                \
    do {                                                                                                               \
        check_skip(__VA_ARGS__);                                                                                       \
        return;                                                                                                        \
    } while (0)

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) check_fail(__FILE__, __LINE__, "failed: %s", #condition);                                    \
    } while (0)

#define CHECK_MSG(condition, ...)                                                                                      \
    do {                                                                                                               \
        if (!(condition)) check_fail(__FILE__, __LINE__, __VA_ARGS__);                                                 \
    } while (0)

/* |got - want| <= tolerance * max(1, |want|); NaN equals only NaN. */
#define CHECK_NEAR(got, want, tolerance)                                                                               \
    do {                                                                                                               \
        double got_ = (double)(got), want_ = (double)(want);                                                           \
        double limit_ = (tolerance) * (fabs(want_) > 1 ? fabs(want_) : 1);                                             \
        if (!(fabs(got_ - want_) <= limit_) && !(isnan(got_) && isnan(want_)) && got_ != want_)                        \
            check_fail(__FILE__, __LINE__, "%s = %.9g, expected %.9g (tolerance %.3g)", #got, got_, want_, limit_);    \
    } while (0)

#define CHECK_TEXT(got, want)                                                                                          \
    do {                                                                                                               \
        const char *got_ = (got), *want_ = (want);                                                                     \
        if (!got_ || strcmp(got_, want_) != 0)                                                                         \
            check_fail(__FILE__, __LINE__, "%s = \"%s\", expected \"%s\"", #got, got_ ? got_ : "(null)", want_);       \
    } while (0)

__attribute__((unused)) static void check_one(const char *name, void (*function)(void))
{
    if (check_filter && !strstr(name, check_filter)) return;
    check_failures_here = 0;
    strcpy(check_skip_reason, check_skip_all);
    if (!check_skip_all[0]) function();
    if (check_failures_here) {
        check_failed++;
        fprintf(stderr, "FAIL %s (%d checks)\n", name, check_failures_here);
    } else if (check_skip_reason[0]) {
        check_skipped++;
        printf("SKIP %s: %s\n", name, check_skip_reason);
    } else {
        check_passed++;
    }
}

#define CHECK_RUN(function) check_one(#function, function)

__attribute__((unused)) static void check_is_slow(void)
{
    CHECK_SKIP("takes long, and CHECK_QUICK is set");
}

__attribute__((unused)) static void check_forks(void)
{
    CHECK_SKIP("the thread sanitizer does not follow processes that fork");
}

/* The same for a function that takes more than a second: skipped if CHECK_QUICK is set, as where programs run many
 * times slower (qemu, sanitizers). */
#define CHECK_RUN_SLOW(function) check_one(#function, getenv("CHECK_QUICK") ? check_is_slow : function)

/* The same for a function that forks, and whose child starts threads or must have none: the thread sanitizer cannot
 * follow them, and has one of its own. */
#ifdef LS_SANITIZE_THREAD
#define CHECK_RUN_FORK(function) ((void)function, check_one(#function, check_forks))
#else
#define CHECK_RUN_FORK(function) CHECK_RUN(function)
#endif

/* The path of test data that is not part of the sources: in LOCKSTEP_TEST_DATA, else in shared/data beside the source
 * tree. NULL if it is missing, and the test counts as skipped. Valid until the next call. */
__attribute__((unused)) static const char *check_data(const char *name)
{
    static char path[1024];
    const char *folder = getenv("LOCKSTEP_TEST_DATA");
    snprintf(path, sizeof path, "%s/%s", folder ? folder : CHECK_DATA_DIR, name);
    FILE *file = fopen(path, "rb");
    if (file) fclose(file);
    else check_skip("%s is missing", path);
    return file ? path : NULL;
}

__attribute__((unused)) static int check_done(void)
{
    printf("%d passed, %d failed, %d skipped\n", check_passed, check_failed, check_skipped);
    if (check_failed || check_passed) return check_failed != 0;
    return check_skipped ? 77 : 1;
}

#endif
