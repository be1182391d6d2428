/* pin.c - CPUs are held while nobody else uses them. Who uses them is told by a made-up /proc/stat, and once by the
 * real one, beside a process that computes. */
#include "base/pin.h"
#include "base/cpus.h"
#include "base/parallel.h"

#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WINDOW = 10 }; /* ms */

static char root[64];
static int cpus[2];  /* two that we may use; the same one twice where there is one */
static int all;      /* how many we may use */
static double other; /* seconds that somebody else was on the first of them */

/* The first CPU has run this process, for as long as it ever ran, and somebody else. */
static void tell(double foreign)
{
    char path[128];
    struct timespec own;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
    other += foreign;
    snprintf(path, sizeof path, "%s/proc/stat", root);
    FILE *file = fopen(path, "w");
    double busy = (double)own.tv_sec + (double)own.tv_nsec * 1e-9 + other;
    fprintf(file, "cpu  1 2 3 4 5 6 7 8 9 10\n");
    for (int i = 0; i < (all < 2 ? 1 : 2); i++)
        fprintf(file, "cpu%d %.0f 0 0 777 888 0 0 999 0 0\n", cpus[i], i ? 0 : busy * (double)sysconf(_SC_CLK_TCK));
    fprintf(file, "intr 1 2 3\n");
    fclose(file);
}

static int count_allowed(void)
{
    return ls_cpus_allowed(NULL, 0);
}

static void hold_one(int64_t pause)
{
    other = 0;
    tell(0);
    ls_pin_begin(cpus, 1, &(ls_pin_rules){.root = root, .window_ms = WINDOW, .pause_ms = pause});
}

/* Several windows later: of so long a time, the ticks of 10 ms in which /proc/stat counts are too small a part to
 * matter, however they are rounded. */
static void look_again(double foreign)
{
    usleep(6 * WINDOW * 1000);
    tell(foreign);
    ls_pin_watch();
}

static void an_idle_cpu_is_kept(void)
{
    hold_one(1000000);
    CHECK(count_allowed() == 1 && ls_pin_held() && !ls_pin_shared());
    for (int i = 0; i < 5; i++) look_again(0);
    CHECK(count_allowed() == 1 && ls_pin_held() && !ls_pin_shared());
    ls_pin_end();
    CHECK(count_allowed() == all);
}

static void *wait_for_end(void *allowed)
{
    while (!ls_pin_shared()) usleep(1000);
    *(int *)allowed = count_allowed();
    return NULL;
}

/* All its threads may go anywhere then, also those that it has begun before. */
static void a_cpu_that_others_use_is_left(void)
{
    pthread_t thread;
    int allowed = 0;
    hold_one(1000000);
    uint32_t before = ls_pin_changes();
    pthread_create(&thread, NULL, wait_for_end, &allowed);
    look_again(1);
    CHECK(!ls_pin_held() && ls_pin_shared() && ls_pin_changes() != before);
    pthread_join(thread, NULL);
    CHECK(count_allowed() == all && allowed == all);
    for (int i = 0; i < 3; i++) look_again(0);
    CHECK(!ls_pin_held()); /* for a long time */
    ls_pin_end();
    CHECK(count_allowed() == all);
}

static void it_is_tried_again_later(void)
{
    hold_one(WINDOW);
    look_again(1);
    CHECK(!ls_pin_held());
    look_again(0);
    CHECK(ls_pin_held() && !ls_pin_shared() && count_allowed() == 1);
    look_again(0);
    CHECK(ls_pin_held());
    ls_pin_end();
}

static void threads_that_somebody_placed_stay(void)
{
    cpu_set_t before, set, found;
    if (all < 2) CHECK_SKIP("there is one CPU");
    sched_getaffinity(0, sizeof before, &before);
    hold_one(1000000);
    CPU_ZERO(&set);
    CPU_SET((size_t)cpus[1], &set);
    sched_setaffinity(0, sizeof set, &set);
    look_again(1);
    CHECK(!ls_pin_held());
    sched_getaffinity(0, sizeof found, &found);
    CHECK(CPU_EQUAL(&set, &found));
    ls_pin_end();
    sched_setaffinity(0, sizeof before, &before);
}

static void where_nobody_knows_cpus_are_kept(void)
{
    ls_pin_begin(cpus, 1, &(ls_pin_rules){.root = "/nowhere", .window_ms = WINDOW});
    usleep(3 * WINDOW * 1000);
    ls_pin_watch();
    CHECK(ls_pin_held() && count_allowed() == 1);
    ls_pin_end();
}

static void the_first_of_several_runs_decides(void)
{
    hold_one(1000000);
    ls_pin_begin(cpus, 2, NULL);
    CHECK(count_allowed() == 1);
    ls_pin_end();
    CHECK(count_allowed() == 1);
    ls_pin_end();
    CHECK(count_allowed() == all);
}

static cpu_set_t masks[2];

static void note_mask(void *arg, ls_worker worker)
{
    (void)arg;
    if (worker.index < 2) sched_getaffinity(0, sizeof masks[0], &masks[worker.index]);
}

/* Its members are on CPUs of their own, and run anywhere as soon as others come. */
static void the_team_follows(void)
{
    if (all != 2) CHECK_SKIP("%d CPUs, not 2", all);
    other = 0;
    tell(0);
    ls_parallel_set_width(2);
    ls_pin_begin(cpus, 2, &(ls_pin_rules){.root = root, .window_ms = WINDOW, .pause_ms = 1000000});
    ls_parallel(note_mask, NULL, 2);
    CHECK(CPU_COUNT(&masks[1]) == 1);
    look_again(1);
    ls_parallel(note_mask, NULL, 2);
    CHECK(CPU_COUNT(&masks[1]) == 2);
    ls_pin_end();
    ls_parallel(note_mask, NULL, 2);
    CHECK(CPU_COUNT(&masks[1]) == 1);
    ls_parallel_set_width(0);
}

/* Real ones: a child computes on our CPU until it is killed. */
static void a_real_neighbour_is_noticed(void)
{
    pid_t child = fork();
    if (child == 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET((size_t)cpus[0], &set);
        sched_setaffinity(0, sizeof set, &set);
        for (;;) sched_getcpu();
    }
    ls_pin_begin(cpus, 1, &(ls_pin_rules){.window_ms = 200, .pause_ms = 1000000});
    for (int i = 0; i < 20000 && ls_pin_held(); i++) {
        usleep(1000);
        ls_pin_watch();
    }
    CHECK(!ls_pin_held() && count_allowed() == all);
    ls_pin_end();
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void use_is_read_from_proc(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s/proc/stat", root);
    FILE *file = fopen(path, "w");
    fprintf(file, "cpu  9 9 9 9 9 9 9 9 9 9\n");
    for (int i = 0; i < 500; i++) fprintf(file, "cpu%d %d 20 30 1 1 40 50 1 1 1\n", i, i);
    fprintf(file, "intr 5");
    for (int i = 0; i < 5000; i++) fprintf(file, " 0");
    fprintf(file, "\n");
    fclose(file);
    double ticks = (double)sysconf(_SC_CLK_TCK);
    CHECK_NEAR(ls_cpus_busy(root, (const int[]){3}, 1) * ticks, 143, 1e-9);
    CHECK_NEAR(ls_cpus_busy(root, (const int[]){499, 0}, 2) * ticks, 499 + 2 * 140, 1e-9);
    CHECK(ls_cpus_busy(root, (const int[]){500}, 1) < 0 && ls_cpus_busy("/nowhere", (const int[]){0}, 1) < 0);
    CHECK(ls_cpus_busy("", cpus, 1) > 0);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    unsetenv("LOCKSTEP_PIN");
    char line[128];
    all = ls_cpus_allowed(cpus, 2);
    if (all < 2) cpus[1] = cpus[0];
    snprintf(root, sizeof root, "/tmp/lockstep-pin-%d", (int)getpid());
    snprintf(line, sizeof line, "mkdir -p %s/proc", root);
    CHECK(system(line) == 0);
    CHECK_RUN(use_is_read_from_proc);
    CHECK_RUN(an_idle_cpu_is_kept);
    CHECK_RUN(a_cpu_that_others_use_is_left);
    CHECK_RUN(it_is_tried_again_later);
    CHECK_RUN(threads_that_somebody_placed_stay);
    CHECK_RUN(where_nobody_knows_cpus_are_kept);
    CHECK_RUN(the_first_of_several_runs_decides);
    CHECK_RUN(the_team_follows);
    CHECK_RUN_FORK(a_real_neighbour_is_noticed);
    snprintf(line, sizeof line, "rm -r %s", root);
    if (system(line) != 0) printf("%s is left\n", root);
    return check_done();
}
