/* worker.c - a program that is started several times: a run that is one of several processes.
 *
 *     worker exchange | train FILE | twice | fail | die | differ | save_alone | trigger | stop FILE | survive |
 *            threads | device */
#include <lockstep.h>

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void exchange(ls_run *run)
{
    int rank = ls_rank(run), world = ls_world_size(run);
    ls_tensor *mine = ls_full(run, LS_F32, rank, rank + 1, 2);
    ls_tensor *all = ls_gather(run, mine);
    double total = ls_item(ls_sum(ls_reduce(run, ls_full(run, LS_F32, rank + 1, 3), LS_REDUCE_SUM)));
    double mean = ls_item(ls_mean(ls_reduce(run, ls_full(run, LS_F32, rank + 1, 3), LS_REDUCE_MEAN)));
    double from = ls_item(ls_mean(ls_broadcast(run, ls_full(run, LS_F32, rank + 1, 3), world - 1)));
    ls_tensor *padded = ls_pad_across_processes(run, mine, .value = -1);
    char text[32];
    int length = snprintf(text, sizeof text, "rank %d", rank);
    ls_gathered words = ls_gather_object(run, text, (size_t)length + 1);
    ls_range part = ls_split_between_processes(run, 2 * world + 1);
    ls_main_first(run)
    {
        usleep(1000);
    }
    ls_wait_for_everyone(run);
    if (ls_error(run)) return;
    printf("rank %d of %d, local %d of %d: rows %lld sum %g total %g mean %g from %g padded %lld words %s part %lld\n",
           rank, world, ls_local_rank(run), ls_local_world_size(run), (long long)ls_dim(all, 0), ls_item(ls_sum(all)),
           total, mean, from, (long long)ls_dim(padded, 0), (const char *)words.data[world - 1],
           (long long)(part.end - part.begin));
}

/* A short training of one model on any number of processes; every rank writes its parameters to FILE.<rank>. */
static void train(ls_run *run, const char *file)
{
    enum { SAMPLES = 48, FEATURES = 12, CLASSES = 5, GLOBAL_BATCH = 8, EPOCHS = 5 };
    float x[SAMPLES * FEATURES];
    int64_t y[SAMPLES];
    for (int i = 0; i < SAMPLES * FEATURES; i++) x[i] = (float)((i * 7919) % 1000) / 500 - 1;
    for (int i = 0; i < SAMPLES; i++) y[i] = (i * 31) % CLASSES;
    ls_set_seed(run, (uint64_t)(7 + 100 * ls_rank(run))); /* the weights of rank 0 are used */
    ls_dataset *set = ls_tensor_dataset_new(run, ls_keep(ls_from(run, LS_F32, LS_SHAPE(SAMPLES, FEATURES), x)),
                                            ls_keep(ls_from(run, LS_I64, LS_SHAPE(SAMPLES), y)));
    ls_loader *loader =
        ls_loader_new(run, set, .batch = GLOBAL_BATCH / ls_world_size(run), .shuffle = true, .seed = 99);
    ls_module *model =
        ls_sequential_new(run, ls_linear_new(run, FEATURES, 40), ls_relu_new(run), ls_linear_new(run, 40, CLASSES));
    ls_optim *sgd = ls_sgd_new(run, model, .lr = 0.05, .momentum = 0.9);
    ls_prepare(run, model, sgd, loader);
    for (int epoch; ls_epoch(run, EPOCHS, &epoch);) {
        for (ls_batch b; ls_next(loader, &b);) {
            ls_backward(run, ls_cross_entropy(ls_forward(model, ls_batch_field(&b, "0")), ls_batch_field(&b, "1")));
            ls_step(sgd);
            ls_zero_grad(sgd);
        }
    }
    char path[256];
    float values[4096];
    snprintf(path, sizeof path, "%s.%d", file, ls_rank(run));
    FILE *to = fopen(path, "wb");
    ls_state *parameters = ls_parameters(model);
    for (int64_t i = 0; to && i < ls_state_count(parameters); i++) {
        ls_tensor *t = ls_state_tensor(parameters, i);
        size_t count = (size_t)ls_numel(t);
        if (ls_read(t, values, count * sizeof *values)) fwrite(values, sizeof *values, count, to);
    }
    if (to) fclose(to);
}

/* Rank 1 fails while the others wait for it. */
static void fail(ls_run *run)
{
    ls_tensor *x = ls_ones(run, LS_F32, 2, 3);
    if (ls_rank(run) == 1) x = ls_matmul(x, x);
    ls_gather(run, x);
}

static void die(ls_run *run)
{
    ls_wait_for_everyone(run);
    if (ls_rank(run) == 1) raise(SIGKILL);
    ls_wait_for_everyone(run);
}

/* Silently, while the launcher sleeps: when it wakes up, the others, which failed because of this one, are gone. */
static void leave(ls_run *run)
{
    ls_wait_for_everyone(run);
    if (ls_rank(run) == 1) {
        pid_t launcher = getppid();
        kill(launcher, SIGSTOP);
        if (fork() == 0) {
            usleep(500000);
            kill(launcher, SIGCONT);
        }
        _exit(9);
    }
    ls_wait_for_everyone(run);
}

static void differ(ls_run *run)
{
    if (ls_rank(run) == 1) ls_check_trigger(run);
    else ls_wait_for_everyone(run);
}

static void save_alone(ls_run *run)
{
    if (ls_rank(run) == 1) ls_save_state(run, NULL);
    else ls_wait_for_everyone(run);
}

static void trigger(ls_run *run)
{
    if (ls_is_last(run)) ls_set_trigger(run);
    bool first = ls_check_trigger(run), second = ls_check_trigger(run);
    printf("rank %d: %d %d\n", ls_rank(run), first, second);
}

/* FILE.pid has the pid of the last process; FILE exists once all have started. */
static void leave_number(ls_run *run, const char *path)
{
    char name[4096];
    snprintf(name, sizeof name, "%s.pid", path);
    FILE *file = ls_is_last(run) ? fopen(name, "w") : NULL;
    if (file) fprintf(file, "%d", getpid());
    if (file) fclose(file);
    ls_wait_for_everyone(run);
    if (ls_is_main(run) && (file = fopen(path, "w"))) fclose(file);
}

/* Step until a process is told to stop. */
static void stop(ls_run *run, const char *path)
{
    int step = 0;
    while (!ls_should_stop(run) && !ls_error(run)) {
        if (++step == 3) leave_number(run, path);
        usleep(100 * (unsigned)ls_rank(run)); /* the signal reaches some before, some after they ask */
    }
    printf("rank %d stopped after %d\n", ls_rank(run), step);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Rank 1 is killed; the others print when they noticed. */
static void survive(ls_run *run)
{
    ls_should_stop(run); /* otherwise the launcher's SIGTERM would end them */
    ls_wait_for_everyone(run);
    if (ls_rank(run) == 1) {
        printf("killed %.6f\n", now());
        fflush(stdout);
        raise(SIGKILL);
    }
    ls_wait_for_everyone(run);
    printf("knew %.6f: %s\n", now(), ls_error_message(run));
}

/* Print the number of compute threads, by their names, and the CPUs of the process. */
static void count_threads(ls_run *run)
{
    int threads = 1;
    cpu_set_t set;
    ls_item(ls_sum(ls_matmul(ls_ones(run, LS_F32, 512, 512), ls_ones(run, LS_F32, 512, 512))));
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *file = fopen(path, "r");
        if (file && !fgets(name, sizeof name, file)) name[0] = '\0';
        if (file) fclose(file);
        threads += strncmp(name, "lockstep-", 9) == 0 && name[9] >= '0' && name[9] <= '9';
    }
    if (tasks) closedir(tasks);
    sched_getaffinity(0, sizeof set, &set);
    printf("rank %d: threads %d, CPUs %d\n", ls_rank(run), threads, CPU_COUNT(&set));
    fflush(stdout);
    ls_wait_for_everyone(run); /* a process that exits gives its CPUs back */
}

/* Where tensors are, also if only the plug-in is named, and a sum over the processes. */
static void name_device(ls_run *run)
{
    ls_tensor *x = ls_ones(run, LS_F32, 1);
    char plugin[64];
    snprintf(plugin, sizeof plugin, "%.*s", (int)strcspn(ls_device_of(x), ":"), ls_device_of(x));
    ls_tensor *again = ls_to_device(x, plugin);
    double sum = ls_item(ls_reduce(run, x, LS_REDUCE_SUM));
    if (!ls_error(run))
        printf("rank %d of %d: %s %s, sum %g\n", ls_rank(run), ls_world_size(run), ls_device_of(x), ls_device_of(again),
               sum);
}

int main(int argc, char **argv)
{
    ls_run *run = ls_init(&argc, &argv);
    const char *what = argc > 1 ? argv[1] : "exchange";
    if (strcmp(what, "twice") == 0) {
        exchange(run);
        if (ls_finish(run) != 0) return 1;
        run = ls_init(NULL, NULL);
        what = "exchange";
    }
    if (strcmp(what, "exchange") == 0) exchange(run);
    else if (strcmp(what, "train") == 0 && argc > 2) train(run, argv[2]);
    else if (strcmp(what, "fail") == 0) fail(run);
    else if (strcmp(what, "die") == 0) die(run);
    else if (strcmp(what, "leave") == 0) leave(run);
    else if (strcmp(what, "differ") == 0) differ(run);
    else if (strcmp(what, "save_alone") == 0) save_alone(run);
    else if (strcmp(what, "stop") == 0) stop(run, argv[2]);
    else if (strcmp(what, "survive") == 0) survive(run);
    else if (strcmp(what, "threads") == 0) count_threads(run);
    else if (strcmp(what, "device") == 0) name_device(run);
    else trigger(run);
    return ls_finish(run);
}
