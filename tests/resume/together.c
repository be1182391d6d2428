/* together.c - a training of two processes that is told to end, or of which anything is killed at any moment, goes on
 * from its latest checkpoint, and ends with the very weights of one that was left alone. */
#include "launch/shell.h"

#include <dirent.h>
#include <time.h>

enum { STEPS = 300 };

#define TRAIN LAUNCH "-n 2 --max-restarts 1000 --max-quick-restarts 1000 " TRAINEE " "

/* A new folder for a training; valid for two more calls of path(). */
static const char *new_folder(const char *name)
{
    const char *made = path(name);
    CHECK(mkdir(made, 0777) == 0);
    return made;
}

/* What all others must come to. */
static void train_undisturbed(void)
{
    CHECK_MSG(run(TRAIN "%s %d", new_folder("alone"), STEPS) == 0, "%s", output);
}

static void expect_same_weights(const char *name)
{
    CHECK_MSG(run("cmp %s/alone/final/model.safetensors %s/%s/final/model.safetensors", folder, folder, name) == 0,
              "%s: %s", name, output);
}

static pid_t start_training(const char *name, const char *pause)
{
    char line[1024];
    snprintf(line, sizeof line, TRAIN "%s %d %s", path(name), STEPS, pause);
    return start_line(line, "said");
}

/* ---- told to end ---- */

/* Steps that process 0 made, in the order it made them; -1 where one is missing or came twice. */
static int count_steps(const char *name)
{
    char text[8192];
    int count = 0;
    snprintf(text, sizeof text, "%s/%s/steps.0", folder, name);
    FILE *file = fopen(text, "r");
    while (file && fgets(text, sizeof text, file))
        if (atoi(text) != ++count) count = -1000000;
    if (file) fclose(file);
    return count < 0 ? -1 : count;
}

static void one_that_is_told_to_end_saves_its_last_step(void)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGUSR1};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        char name[16];
        snprintf(name, sizeof name, "told%zu", i);
        new_folder(name);
        pid_t launcher = start_training(name, "200");
        for (int wait = 0; wait < 60000 && count_steps(name) < 9; wait++) usleep(1000);
        kill(launcher, signals[i]);
        CHECK(end_of(launcher) == 128 + signals[i]);
        int before = count_steps(name);
        CHECK_MSG(before > 0 && before < STEPS, "%d steps", before);
        CHECK_MSG(run(TRAIN "%s %d", path(name), STEPS) == 0, "%s", output);
        CHECK_MSG(count_steps(name) == STEPS, "%d steps, then all but once", before); /* none was lost */
        expect_same_weights(name);
    }
}

/* ---- killed ---- */

/* A child of this process, counted from 0; 0: there are not so many. */
static pid_t find_child(pid_t parent, int number)
{
    char name[64];
    snprintf(name, sizeof name, "/proc/%d/task/%d/children", (int)parent, (int)parent);
    FILE *file = fopen(name, "r");
    int child = 0;
    for (int i = 0; file && i <= number; i++)
        if (fscanf(file, "%d", &child) != 1) child = 0;
    if (file) fclose(file);
    return child;
}

/* Kill a process of the training, one time in eight the launcher. False: there was none. */
static bool kill_any(pid_t launcher)
{
    int which = rand() % 16;
    pid_t victim = which < 2 ? launcher : find_child(launcher, which & 1);
    return victim && kill(victim, SIGKILL) == 0;
}

/* A training to its end, with kills in between until there were enough. Returns how many. */
static int train_with_kills(const char *name, int most)
{
    new_folder(name);
    pid_t launcher = 0;
    for (int kills = 0, status;;) {
        if (!launcher) launcher = start_training(name, "");
        if (kills < most) usleep((useconds_t)(rand() % 120000));
        if (waitpid(launcher, &status, kills < most ? WNOHANG : 0) == launcher) {
            launcher = 0;
            if (WIFEXITED(status)) {
                CHECK_MSG(WEXITSTATUS(status) == 0, "ended with %d", WEXITSTATUS(status));
                return kills;
            }
        } else if (kills < most) {
            kills += kill_any(launcher);
        }
    }
}

static void any_kill_at_any_moment_loses_nothing(void)
{
    int wanted = getenv("CHECK_QUICK") ? 20 : 200, kills = 0, trainings = 0;
    for (; kills < wanted && !check_failures_here; trainings++) {
        char name[32];
        snprintf(name, sizeof name, "killed%d", trainings);
        kills += train_with_kills(name, wanted - kills);
        expect_same_weights(name);
    }
    printf("%d kills in %d trainings\n", kills, trainings);
}

int main(int argc, char **argv)
{
    begin_shell(argc, argv);
    unsigned seed = argc > 2 ? (unsigned)atoi(argv[2]) : (unsigned)time(NULL);
    printf("seed %u\n", seed);
    srand(seed);
    train_undisturbed();
    CHECK_RUN(one_that_is_told_to_end_saves_its_last_step);
    CHECK_RUN(any_kill_at_any_moment_loses_nothing);
    return check_done();
}
