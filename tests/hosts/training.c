/* training.c - a training on several hosts goes on exactly after anything that may happen to them, and with the same
 * samples on more or fewer of them. */
#include "job.h"

enum { STEPS = 60, PROCESSES = 2 * MOST_HOSTS, SAMPLES = 240 };

/* Milliseconds in every step from the tenth on, until the training may hurry: it is at work when it is disturbed. */
#define PAUSE "200"

/* What a training has made: FOLDER/NAME/final and steps.RANK. */
static const char *trainee(const char *name, const char *pause)
{
    static char program[512];
    snprintf(program, sizeof program, TRAINEE " %s/%s %d %s", folder, name, STEPS, pause);
    mkdir(path(name), 0777);
    return program;
}

static int count_steps(const char *name, int rank)
{
    char text[8192];
    int count = 0;
    snprintf(text, sizeof text, "%s/%s/steps.%d", folder, name, rank);
    FILE *file = fopen(text, "r");
    while (file && fgets(text, sizeof text, file)) count++;
    if (file) fclose(file);
    return count;
}

static void wait_for_steps(const char *name, int rank, int steps)
{
    for (int i = 0; i < 60000 && count_steps(name, rank) < steps; i++) usleep(1000);
    CHECK_MSG(count_steps(name, rank) >= steps, "rank %d made %d steps", rank, count_steps(name, rank));
}

static void expect_same_weights(const char *name, const char *other)
{
    CHECK_MSG(run("cmp %s/%s/final/model.safetensors %s/%s/final/model.safetensors", folder, name, folder, other) == 0,
              "%s: %s", name, output);
}

/* From now on this training does not pause. */
static void let_hurry(const char *name)
{
    CHECK(run("touch %s/%s/hurry", folder, name) == 0);
}

/* To its end, without disturbance. */
static void train(int hosts, const char *name)
{
    for (int i = 0; i < hosts; i++) start_host(i, hosts, "", trainee(name, ""));
    expect_ends(hosts, 0, "");
}

/* On two hosts, in a folder of its own; it is at work when this returns. */
static const char *begin_training(const char *options)
{
    static char name[16];
    static int number;
    snprintf(name, sizeof name, "disturbed%d", number++);
    for (int i = 0; i < 2; i++) start_host(i, 2, options, trainee(name, PAUSE));
    wait_for_steps(name, 0, 10);
    return name;
}

/* ---- Left alone, or nearly ---- */

static void results_are_the_same_again(void)
{
    train(2, "again");
    expect_same_weights("again", "alone");
    train(3, "three");
    train(3, "three_again");
    expect_same_weights("three_again", "three");
    expect_nothing_left();
}

static void a_bad_network_changes_nothing(void)
{
    for (int i = 0; i < 2; i++) {
        pid_t netem = start_netem('b', i ? 0 : 20, i ? 2 : 0);
        const char *name = i ? "lossy" : "late";
        train(2, name);
        end_netem(netem, 'b');
        expect_same_weights(name, "alone");
    }
}

static void told_to_end_it_saves_its_last_step(void)
{
    const char *name = begin_training("");
    kill(job[1], SIGTERM); /* one of them: all learn it */
    expect_ends(2, 128 + SIGTERM, "");
    int before = count_steps(name, 0);
    CHECK_MSG(before < STEPS && before == count_steps(name, 3), "%d", before);
    train(2, name);
    CHECK(count_steps(name, 0) == STEPS); /* none was lost, none was made twice */
    expect_same_weights(name, "alone");
}

/* ---- Disturbed ---- */

/* The worker of a rank: a child of its host's launcher. */
static pid_t worker(int rank)
{
    char name[64];
    int pid = 0, other = 0;
    snprintf(name, sizeof name, "/proc/%d/task/%d/children", (int)job[rank / 2], (int)job[rank / 2]);
    FILE *file = fopen(name, "r");
    if (file && fscanf(file, "%d %d", &pid, &other) != 2) pid = 0;
    if (file) fclose(file);
    CHECK_MSG(pid, "rank %d is not there", rank);
    return rank % 2 ? other : pid;
}

/* While its launcher looks away: the others fail because of it, and theirs must not take them for the first. */
static void kill_worker(const char *name)
{
    (void)name;
    pid_t killed = worker(3);
    kill(job[1], SIGSTOP);
    kill(killed, SIGKILL);
    usleep(300000);
    kill(job[1], SIGCONT);
}

static void stop_worker(const char *name)
{
    (void)name;
    kill(worker(1), SIGSTOP);
}

static void bring_back(int host, const char *name)
{
    kill(job[host], SIGKILL);
    end_of(job[host]);
    start_host(host, 2, "--max-restarts 3", trainee(name, PAUSE));
}

static void lose_host(const char *name)
{
    bring_back(1, name);
}

static void lose_leader(const char *name)
{
    bring_back(0, name);
}

static void stop_host(const char *name)
{
    (void)name;
    kill(job[1], SIGSTOP);
    wait_for_cause(0);
    kill(job[1], SIGCONT);
}

static void cut_cable(const char *name)
{
    (void)name;
    set_cable('b', "down");
    for (int i = 0; i < 2; i++) wait_for_cause(i);
    set_cable('b', "up");
}

/* Host `witness` prints the first cause; one that was killed has not seen it. */
static void goes_on_exactly(void (*disturb)(const char *name), int witness, const char *cause)
{
    const char *name = begin_training("--max-restarts 3");
    disturb(name);
    let_hurry(name);
    expect_ends(2, 0, "");
    CHECK(run("grep -F '%s' %s/host%d", cause, folder, witness) == 0);
    expect_same_weights(name, "alone");
    expect_nothing_left();
}

static void goes_on_after_a_killed_worker(void)
{
    goes_on_exactly(kill_worker, 0, "first cause: rank 3 (local rank 1, host b, ");
    CHECK(host_says("the last collective calls of all workers:"));
}

static void goes_on_after_a_stopped_worker(void)
{
    goes_on_exactly(stop_worker, 1, "was stopped by SIGSTOP");
}

static void goes_on_after_a_lost_host(void)
{
    goes_on_exactly(lose_host, 0, "first cause: host b with 2 workers");
    goes_on_exactly(lose_leader, 1, "first cause: the leader at");
}

static void goes_on_after_a_stopped_host(void)
{
    goes_on_exactly(stop_host, 0, "first cause: host b with 2 workers");
}

static void goes_on_after_a_cut_cable(void)
{
    goes_on_exactly(cut_cable, 0, "first cause: host b with 2 workers");
}

/* Told by the launchers and by the dead one's neighbours, whoever is faster. The time is printed, not judged. */
static void survivors_on_all_hosts_return_at_once(void)
{
    start_host(0, 2, "", COMM_WORKER " survive");
    start_host(1, 2, "", COMM_WORKER " survive");
    double killed = 0, last = 0;
    int knew = 0;
    for (int i = 0; i < 2; i++) {
        CHECK(end_host(i) == 128 + SIGKILL);
        CHECK(host_says("first cause: rank 1 (local rank 1, host a, ") && host_says("was killed by SIGKILL"));
        const char *at = strstr(words, "killed ");
        if (!i && at) killed = atof(at + strlen("killed "));
        for (at = words; (at = strstr(at, "knew ")); at++, knew++) last = fmax(last, atof(at + strlen("knew ")));
    }
    CHECK_MSG(knew == 3, "%d of 3 returned:\n%s", knew, words);
    printf("survivors on two hosts returned %.1f ms after kill -9\n", 1e3 * (last - killed));
}

/* ---- Elastic ---- */

static void join(int host)
{
    start_launcher(host, "--nnodes 2:3 --rdzv-backend c10d --rdzv-endpoint a:4000 --max-restarts 3",
                   "--rdzv-conf last_call_timeout=1", trainee("elastic", PAUSE));
}

/* Which samples were used in which step, by whichever process. */
typedef struct use {
    bool of[STEPS + 1][SAMPLES];
} use;

static void read_use(const char *name, use *used)
{
    memset(used, 0, sizeof *used);
    for (int rank = 0; rank < PROCESSES; rank++) {
        char text[8192];
        snprintf(text, sizeof text, "%s/%s/steps.%d", folder, name, rank);
        FILE *file = fopen(text, "r");
        while (file && fgets(text, sizeof text, file)) {
            char *at = text;
            long step = strtol(at, &at, 10);
            strtod(at, &at);
            for (long sample; *at != '\n' && step > 0 && step <= STEPS; used->of[step][sample] = true)
                sample = strtol(at, &at, 10);
        }
        if (file) fclose(file);
    }
}

/* Two hosts, three, two again. The third leaves when it is told to, or is killed. */
static void grows_and_shrinks_with_the_same_samples(void)
{
    static use expected, got;
    read_use("alone", &expected);
    for (int killed = 0; killed < 2; killed++) {
        run("rm -rf %s/elastic", folder);
        join(0);
        join(1);
        wait_for_steps("elastic", 3, 5);
        join(2);
        wait_for_steps("elastic", 5, 5);
        kill(job[2], killed ? SIGKILL : SIGTERM);
        let_hurry("elastic");
        CHECK(end_host(2) == (killed ? 1000 + SIGKILL : 128 + SIGTERM));
        expect_ends(2, 0, "");
        read_use("elastic", &got);
        for (int step = 1; step <= STEPS; step++)
            CHECK_MSG(memcmp(got.of[step], expected.of[step], SAMPLES) == 0, "step %d has other samples", step);
        if (!killed) CHECK(count_steps("elastic", 0) == STEPS); /* saved before each change: no step is made twice */
        expect_nothing_left();
    }
}

int main(int argc, char **argv)
{
#ifdef NO_TRANSPORT
    strcpy(check_skip_all, "built without a transport between hosts");
#endif
    begin_beside(3, argc, argv);
    processes_before = count_processes(NULL);
    if (!check_skip_all[0]) train(2, "alone"); /* what all are compared with */
    CHECK_RUN(results_are_the_same_again);
    CHECK_RUN(a_bad_network_changes_nothing);
    CHECK_RUN(told_to_end_it_saves_its_last_step);
    CHECK_RUN(survivors_on_all_hosts_return_at_once);
    CHECK_RUN(goes_on_after_a_killed_worker);
    CHECK_RUN(goes_on_after_a_stopped_worker);
    CHECK_RUN(goes_on_after_a_lost_host);
    CHECK_RUN(goes_on_after_a_stopped_host);
    CHECK_RUN(goes_on_after_a_cut_cable);
    CHECK_RUN(grows_and_shrinks_with_the_same_samples);
    return check_done();
}
