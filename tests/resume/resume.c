/* resume.c - training that is killed at any moment goes on, after a restart with the latest checkpoint, with the very
 * numbers of a training that was left alone; on a full disk it ends with words,
 * and the checkpoints made before stay good. */
#include <lockstep.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

/* ---- the program that is killed ---- */

typedef struct setup {
    const char *name;
    ls_dtype precision;
    int64_t accumulation;
    bool async;
    int64_t save_every, keep;
} setup;

enum { SIDE = 8, SAMPLES = 60, EPOCHS = 3, LOSSES = EPOCHS * 16 };

/* A picture of a bright row or column, with noise of its own in every epoch. */
static bool get(int64_t index, ls_sample *sample, void *user)
{
    (void)user;
    float *x = ls_sample_field(sample, 0);
    int64_t *label = ls_sample_field(sample, 1);
    *label = index % 2;
    for (int i = 0; i < SIDE * SIDE; i++) {
        int along = *label ? i % SIDE : i / SIDE;
        x[i] = (along == index / 2 % SIDE) + (float)(ls_sample_random(sample) >> 40) * 0x1p-24f;
    }
    return true;
}

static ls_module *network(ls_run *run)
{
    return ls_sequential_new(run, ls_conv2d_new(run, 1, 6, 3, .padding = 1), ls_batch_norm_new(run, 6),
                             ls_relu_new(run), ls_max_pool2d_new(run, 2), ls_flatten_new(run), ls_dropout_new(run, 0.3),
                             ls_linear_new(run, 6 * SIDE * SIDE / 4, 2));
}

/* One line for each loss: its number and its bits. */
static void note(int log, int64_t number, double loss)
{
    char line[64];
    uint64_t bits;
    memcpy(&bits, &loss, sizeof bits);
    int length = snprintf(line, sizeof line, "%lld %016llx\n", (long long)number, (unsigned long long)bits);
    if (write(log, line, (size_t)length) != length) abort();
}

static int train(const setup *s, const char *home, const char *log_path)
{
    int log = open(log_path, O_WRONLY | O_CREAT | O_APPEND, 0666);
    ls_run *run = ls_init(NULL, NULL, .seed = 11, .mixed_precision = s->precision, .project_dir = home,
                          .gradient_accumulation_steps = s->accumulation, .async_save = s->async,
                          .total_limit = s->keep, .resume_from_checkpoint = "latest");
    ls_dataset *pictures = ls_dataset_new(
        run, .count = SAMPLES, .get = get,
        .fields = {{.name = "image", .dtype = LS_F32, .shape = {1, SIDE, SIDE}}, {.name = "label", .dtype = LS_I64}});
    ls_dataset *train_set, *eval_set;
    ls_random_split(pictures, 0.75, &train_set, &eval_set);
    ls_loader *train = ls_loader_new(run, train_set, .batch = 4, .shuffle = true, .workers = 2);
    ls_loader *eval = ls_loader_new(run, eval_set, .batch = 4);
    ls_module *net = network(run);
    ls_optim *adam = ls_adamw_new(run, net, .lr = 1e-2);
    ls_schedule *cycle = ls_one_cycle_schedule_new(adam, .max_lr = 1e-2, .total_steps = LOSSES);
    ls_prepare(run, net, adam, cycle, train, eval);
    int64_t number = 0;
    double total = 0; /* of the epoch's evaluation, which may be interrupted as well */
    ls_register_for_checkpointing(run, "number", .data = &number, .size = sizeof number);
    ls_register_for_checkpointing(run, "total", .data = &total, .size = sizeof total);

    for (int epoch; ls_epoch(run, EPOCHS, &epoch);) {
        ls_train(net);
        for (ls_batch b; ls_next(train, &b);) {
            ls_tensor *loss = ls_cross_entropy(ls_forward(net, b.image), b.label);
            ls_backward(run, loss);
            ls_clip_grad_norm(adam, 1);
            ls_step(adam);
            ls_schedule_step(cycle);
            ls_zero_grad(adam);
            note(log, number++, ls_item(loss));
            if (number % s->save_every == 0) ls_save_state(run, NULL);
        }
        ls_eval(net);
        for (ls_batch b; ls_next(eval, &b);) {
            total += ls_item(ls_cross_entropy(ls_forward(net, b.image), b.label));
            note(log, number++, total);
            if (number % s->save_every == 0) ls_save_state(run, NULL);
        }
        total = 0;
        ls_save_state(run, NULL);
    }
    close(log);
    return ls_finish(run);
}

/* ---- the one who kills ---- */

static char base[256]; /* folder of all */

static void run_shell(const char *format, const char *path)
{
    char command[600];
    snprintf(command, sizeof command, format, path);
    CHECK(system(command) == 0);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void wait_seconds(double seconds)
{
    if (seconds > 0)
        nanosleep(&(struct timespec){(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)}, NULL);
}

/* Messages go to a file. */
static int train_quietly(const setup *s, const char *home, const char *log)
{
    char errors[300];
    snprintf(errors, sizeof errors, "%s/errors", base);
    CHECK(freopen(errors, "w", stderr));
    int code = train(s, home, log);
    fflush(stderr);
    return code;
}

static pid_t begin(const setup *s, const char *home, const char *log)
{
    pid_t child = fork();
    if (child == 0) _exit(train_quietly(s, home, log));
    return child;
}

/* Has it ended? Then *code is how: 0 in order, 1 an error, -1 killed. */
static bool ended(pid_t child, int *code, bool wait)
{
    int status;
    if (waitpid(child, &status, wait ? 0 : WNOHANG) != child) return false;
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return true;
}

static bool is_saving(const char *home)
{
    char path[400];
    snprintf(path, sizeof path, "%s/checkpoints", home);
    DIR *folder = opendir(path);
    bool found = false;
    for (struct dirent *entry; folder && !found && (entry = readdir(folder));) found = strstr(entry->d_name, ".part");
    if (folder) closedir(folder);
    return found;
}

/* Let it live for a while, and a little into the next save where wanted, then kill it.
 * True when it came to its own end. */
static bool kill_after(pid_t child, const char *home, double life, bool in_save, double into_save, int *code)
{
    wait_seconds(life);
    while (in_save && !ended(child, code, false)) {
        if (!is_saving(home)) continue;
        wait_seconds(into_save);
        in_save = false;
    }
    if (in_save) return true; /* it ended while we waited */
    kill(child, SIGKILL);
    ended(child, code, true);
    return *code == 0;
}

/* ---- what was written ---- */

typedef struct losses {
    uint64_t bits[LOSSES];
    bool seen[LOSSES];
    int64_t lines;
} losses;

static losses read_log(const char *path)
{
    losses all = {0};
    FILE *file = fopen(path, "r");
    long long number;
    unsigned long long bits;
    while (file && fscanf(file, "%lld %llx\n", &number, &bits) == 2) {
        CHECK(number >= 0 && number < LOSSES);
        CHECK_MSG(!all.seen[number] || all.bits[number] == bits, "loss %lld came out differently", number);
        all.bits[number] = bits;
        all.seen[number] = true;
        all.lines++;
    }
    if (file) fclose(file);
    return all;
}

static double uniform(void)
{
    return rand() / (1.0 + RAND_MAX);
}

/* At least `kills` of them; after a training that got through another one begins. */
static void killed_runs_go_on(const setup *s, int kills)
{
    char home[300], log[300];
    snprintf(home, sizeof home, "%s/%s", base, s->name);
    snprintf(log, sizeof log, "%s/%s.log", base, s->name);
    int code = 0;
    run_shell("rm -rf '%s'", home);
    double began = now();
    CHECK(ended(begin(s, home, log), &code, true));
    CHECK(code == 0);
    double whole = now() - began;
    losses want = read_log(log);
    CHECK(want.lines == LOSSES);
    unlink(log);
    run_shell("rm -rf '%s'", home);

    int in_saves = 0;
    while (kills > 0) {
        bool in_save = kills % 2; /* every other one; after one that got through, the same again */
        pid_t child = begin(s, home, log);
        bool through =
            kill_after(child, home, uniform() * whole * (in_save ? 0.5 : 0.9), in_save, uniform() * 2e-3, &code);
        CHECK(code <= 0);
        kills -= !through;
        in_saves += in_save && !through;
        if (!through && kills > 0) continue;
        if (!through) CHECK(ended(begin(s, home, log), &code, true) && code == 0); /* the last one may end */
        losses got = read_log(log);
        for (int i = 0; i < LOSSES; i++)
            CHECK_MSG(got.seen[i] && got.bits[i] == want.bits[i], "%s: loss %d: %016llx instead of %016llx", s->name, i,
                      (unsigned long long)got.bits[i], (unsigned long long)want.bits[i]);
        unlink(log);
        run_shell("rm -rf '%s'", home);
    }
    CHECK(in_saves > 0);
}

static void single_precision_survives_kills(void)
{
    killed_runs_go_on(&(setup){"f32", LS_F32, 3, .async = false, .save_every = 2, .keep = 2}, 10);
}

static void half_precision_survives_kills(void)
{
    killed_runs_go_on(&(setup){"f16", LS_F16, 1, .async = false, .save_every = 1, .keep = 1}, 10);
}

static void saving_in_the_background_survives_kills(void)
{
    killed_runs_go_on(&(setup){"bf16", LS_BF16, 4, .async = true, .save_every = 1, .keep = 2}, 10);
}

/* ---- a full disk ---- */

static int64_t count_checkpoints(const char *home)
{
    char path[400];
    snprintf(path, sizeof path, "%s/checkpoints", home);
    DIR *folder = opendir(path);
    int64_t count = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        count += strncmp(entry->d_name, "checkpoint_", 11) == 0 && !strchr(entry->d_name, '.');
    if (folder) closedir(folder);
    return count;
}

static bool errors_have(const char *words)
{
    char path[400], text[4096] = "";
    snprintf(path, sizeof path, "%s/errors", base);
    FILE *file = fopen(path, "r");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[length] = 0;
    if (file) fclose(file);
    return strstr(text, words) != NULL;
}

/* Training in a child on a disk that is too small, and then, when room has been made, to the end. Nobody else sees the
 * disk. Returns the exit code, NO_MOUNTS where none is allowed. */
enum { NO_MOUNTS = 77 };

static int train_on_small_disk(const setup *s, const char *home, const char *log, const char *size)
{
    pid_t child = fork();
    if (child == 0) {
        char options[64], command[400];
        snprintf(options, sizeof options, "size=%s", size);
        mkdir(home, 0777);
        if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
            mount("lockstep", home, "tmpfs", 0, options) != 0)
            _exit(NO_MOUNTS);
        if (train_quietly(s, home, log) != 1 || count_checkpoints(home) < 2) _exit(2);
        if (!errors_have("No space left on device") || !errors_have("the previous checkpoint is unchanged")) _exit(3);
        snprintf(command, sizeof command, "rm -rf '%s'/checkpoints/checkpoint_0", home);
        setup thrifty = *s;
        thrifty.keep = 1;
        if (system(command) != 0) _exit(4);
        _exit(train_quietly(&thrifty, home, log));
    }
    int code = -1;
    ended(child, &code, true);
    return code;
}

/* The same where files may not grow beyond a limit, which is then lifted: the model fits, the moments do not. */
static int train_with_small_files(const setup *s, const char *home, const char *log, rlim_t limit)
{
    pid_t child = fork();
    if (child == 0) {
        struct rlimit before;
        getrlimit(RLIMIT_FSIZE, &before);
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){limit, before.rlim_max});
        if (train_quietly(s, home, log) != 1 || count_checkpoints(home) != 0) _exit(2);
        if (!errors_have("File too large") || !errors_have("the previous checkpoint is unchanged")) _exit(3);
        setrlimit(RLIMIT_FSIZE, &before);
        _exit(train_quietly(s, home, log));
    }
    int code = -1;
    ended(child, &code, true);
    return code;
}

/* Saved at once and in the background, on a disk or in files that are too small at first. */
static void train_without_room(bool small_disk)
{
    for (int async = 0; async < 2; async++) {
        setup s = {"full", LS_F32, 2, .async = async, .save_every = 3, .keep = LS_AUTO};
        char home[300], log[300];
        snprintf(home, sizeof home, "%s/full", base);
        snprintf(log, sizeof log, "%s/full.log", base);
        run_shell("rm -rf '%s'", home);
        unlink(log);
        int code =
            small_disk ? train_on_small_disk(&s, home, log, "160k") : train_with_small_files(&s, home, log, 3000);
        if (code == NO_MOUNTS) CHECK_SKIP("nothing can be mounted here");
        CHECK_MSG(code == 0, "ended with %d", code);
        losses got = read_log(log); /* what came after the error came again, and the same */
        for (int i = 0; i < LOSSES; i++) CHECK(got.seen[i]);
    }
}

static void a_full_disk_loses_nothing(void)
{
    train_without_room(true);
}

static void a_limit_on_files_loses_nothing(void)
{
    train_without_room(false);
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    srand(argc > 2 ? (unsigned)atoi(argv[2]) : (unsigned)time(NULL));
    const char *folder = argc > 3 ? argv[3] : access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(base, sizeof base, "%.200s/lockstep-resume-%d", folder, (int)getpid());
    mkdir(base, 0777);
    CHECK_RUN(single_precision_survives_kills);
    CHECK_RUN(half_precision_survives_kills);
    CHECK_RUN(saving_in_the_background_survives_kills);
    CHECK_RUN(a_full_disk_loses_nothing);
    CHECK_RUN(a_limit_on_files_loses_nothing);
    run_shell("rm -rf '%s'", base);
    return check_done();
}
