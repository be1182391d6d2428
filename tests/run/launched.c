/* launched.c - ls_launch beside runs of the same process: refused, but for a model that goes along. */
#include "check.h"

#include "base/capture.h"

#include <lockstep.h>
#include <lockstep/launch.h>

#include "base/parallel.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Shared by all processes. */
typedef struct board {
    double weight[4], before[4];
    long dirty[4]; /* KiB that a worker has for itself */
    int rank[4], world[4], threads[4];
} board;

static board *share_board(void)
{
    return mmap(NULL, sizeof(board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static int number(const char *name)
{
    const char *text = getenv(name);
    return text ? atoi(text) : -1;
}

static int succeed(void *argument)
{
    (void)argument;
    return 0;
}

/* As much work as needs threads. */
static ls_module *work(ls_run *run)
{
    ls_module *model = ls_linear_new(run, 512, 512);
    ls_item(ls_sum(ls_forward(model, ls_randn(run, LS_F32, 512, 512))));
    return model;
}

/* ---- Refused ---- */

static int beside_a_run(void)
{
    ls_parallel_set_width(2);
    ls_run *run = ls_init(NULL, NULL);
    int code = ls_launch(succeed, NULL, .num_processes = 2);
    if (code == LS_LAUNCH_REFUSED) code = ls_launch(succeed, NULL, .num_processes = 1);
    if (code == LS_LAUNCH_REFUSED) code = ls_launch_program(((char *[]){"true", NULL}), .num_processes = 2);
    work(run);
    if (code == LS_LAUNCH_REFUSED) code = ls_launch(succeed, NULL, .num_processes = 2);
    ls_finish(run);
    return code;
}

static int count(const char *text, const char *words)
{
    int times = 0;
    for (const char *at = text; (at = strstr(at, words)); at++) times++;
    return times;
}

/* Whether it has worked or not, for one process as for two, for a program as for a function. */
static void a_run_that_lives_is_refused(void)
{
    char text[4096];
    CHECK(WEXITSTATUS(run_captured(NULL, beside_a_run, text, sizeof text)) == LS_LAUNCH_REFUSED);
    CHECK_MSG(count(text, "this process has a run,") == 4, "%s", text);
    CHECK_MSG(count(text, "call ls_init() inside the launched function") == 4, "%s", text);
}

static int count_threads(void *argument)
{
    board *b = argument;
    b->threads[number("RANK")] = ls_parallel_width();
    ls_run *run = ls_init(NULL, NULL);
    b->world[ls_rank(run)] = ls_world_size(run);
    work(run);
    return ls_finish(run);
}

static int after_a_run(board *b)
{
    ls_parallel_set_width(3);
    ls_run *run = ls_init(NULL, NULL);
    work(run);
    if (ls_finish(run)) return 9;
    return ls_launch(count_threads, b, .num_processes = 2, .num_threads = 1);
}

/* Threads of the kernels outlive the run, but do not stand in the way; what was settled about them is settled anew. */
static void a_run_that_has_ended_is_no_obstacle(void)
{
    board *b = share_board();
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) _exit(after_a_run(b));
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(b->world[0] == 2 && b->world[1] == 2);
    CHECK(b->threads[0] == 1 && b->threads[1] == 1);
}

static int launch_once_more(void)
{
    return ls_launch(succeed, NULL, .num_processes = 2);
}

static int launch_program_once_more(void)
{
    return ls_launch_program(((char *[]){"true", NULL}), .num_processes = 2);
}

static int nest(void *argument)
{
    char text[4096];
    int code = WEXITSTATUS(run_captured(NULL, launch_once_more, text, sizeof text));
    bool told = strstr(text, "already rank 1 of 2") && strstr(text, "ls_launch_is_worker()");
    int other = WEXITSTATUS(run_captured(NULL, launch_program_once_more, text, sizeof text));
    /* What stays in this process begins no second job. */
    int here = ls_launch(succeed, NULL, .num_processes = 1);
    if (number("RANK") == 1) *(int *)argument = code == LS_LAUNCH_REFUSED && other == code && told && here == 0;
    return 0;
}

static int under_mpirun(void)
{
    setenv("OMPI_COMM_WORLD_RANK", "1", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
    int code = ls_launch(succeed, NULL, .num_processes = 2);
    if (code != LS_LAUNCH_REFUSED) return code;
    setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
    setenv("OMPI_COMM_WORLD_RANK", "0", 1);
    return ls_launch(succeed, NULL, .num_processes = 2) ? 9 : 0; /* one process: no second job beside it */
}

static void a_launch_in_a_launched_process_is_refused(void)
{
    char text[4096];
    board *b = share_board();
    CHECK(ls_launch(nest, &b->rank[0], .num_processes = 2) == 0);
    CHECK(b->rank[0] == 1);
    CHECK(run_captured(NULL, under_mpirun, text, sizeof text) == 0);
    CHECK_MSG(strstr(text, "according to the variables of Open MPI this process is already rank 1 of 2"), "%s", text);
}

/* ---- A model goes along ---- */

static double weight_of(ls_module *model)
{
    return ls_item(ls_sum(ls_module_tensor(model, "weight")));
}

static const char *device; /* of the workers */

static int train(void *argument)
{
    board *b = argument;
    ls_run *run = ls_init(NULL, NULL, .seed = 5, .device = device);
    ls_module *model = ls_launched_model(run);
    if (ls_error(run)) return ls_finish(run);
    if (ls_grad(ls_module_tensor(model, "weight"))) return 9; /* the launcher's: it stays there */
    int rank = ls_rank(run);
    b->rank[rank] = rank;
    b->world[rank] = ls_world_size(run);
    b->before[rank] = weight_of(model);
    ls_optim *sgd = ls_sgd_new(run, model, .lr = 0.1);
    ls_prepare(run, model, sgd);
    ls_tensor *x =
        ls_full(run, LS_F32, 1.0 + rank, 2, 512); /* each has data of its own: only together are they equal */
    ls_backward(run, ls_mean(ls_square(ls_forward(model, x))));
    ls_step(sgd);
    b->weight[rank] = weight_of(model);
    int code = ls_finish(run);
    run = ls_init(NULL, NULL); /* the next is an ordinary one */
    if (!ls_error(run) && ls_launched_model(run)) code = 8;
    if (ls_error(run) != LS_ERR_STATE) code = 8;
    ls_clear_error(run);
    return ls_finish(run) ? 7 : code;
}

static int launch_with_model(board *b, int processes)
{
    ls_parallel_set_width(2);
    ls_run *outer = ls_init(NULL, NULL, .seed = 3, .mixed_precision = LS_F16);
    ls_module *model = work(outer);
    ls_backward(outer, ls_sum(ls_forward(model, ls_ones(outer, LS_F32, 1, 512)))); /* a gradient of its own */
    double mine = weight_of(model);
    int code = ls_launch(train, b, .num_processes = processes, .model = model);
    if (code) return code;
    if (weight_of(model) != mine || b->before[0] != mine || b->before[processes - 1] != mine) code = 20;
    if (b->weight[0] == mine || b->weight[0] != b->weight[processes - 1]) code = 21;
    work(outer); /* goes on as if nothing had been */
    return ls_finish(outer) ? 22 : code;
}

static void workers_train_the_model_of_the_launcher(void)
{
    static const char *const devices[] = {"cpu", "cpu", ASYNC_DEVICE};
    for (int i = 0; i < 3; i++) {
        int processes = i == 1 ? 2 : 1; /* a device of another kind serves one */
        device = devices[i];
        board *b = share_board();
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) _exit(launch_with_model(b, processes));
        int status = -1;
        waitpid(child, &status, 0);
        CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%d processes: %d", processes, WEXITSTATUS(status));
        for (int r = 0; r < processes; r++) CHECK(b->world[r] == processes && b->rank[r] == r);
    }
}

static int forget_init(void *argument)
{
    ls_module *model = argument;
    ls_run *run = ls_init(NULL, NULL); /* and then the program goes on with the run it had before */
    (void)run;
    return ls_rank(run) == number("RANK") && ls_world_size(run) == 2 && model == ls_launched_model(run) ? 0 : 5;
}

static int use_before_init(void *argument)
{
    ls_module *model = argument;
    ls_tensor *y = ls_forward(model, NULL);
    return ls_is_valid(y) ? 5 : 0;
}

static int pass_pointers(void)
{
    ls_run *outer = ls_init(NULL, NULL);
    ls_module *model = ls_linear_new(outer, 4, 2);
    int code = ls_launch(forget_init, model, .num_processes = 2, .model = model);
    if (!code) code = ls_launch(use_before_init, model, .num_processes = 2, .model = model);
    return ls_finish(outer) ? 9 : code;
}

/* Handles that the function finds elsewhere mean the worker's own from ls_init() on, and nothing before. */
static void handles_of_the_launcher_are_the_workers_own(void)
{
    char text[4096];
    CHECK_MSG(run_captured(NULL, pass_pointers, text, sizeof text) == 0, "%s", text);
}

/* ---- Memory ---- */

static long private_kib(void)
{
    long sum = 0, kib;
    char line[256];
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Private_Dirty: %ld", &kib) == 1 || sscanf(line, "Private_Clean: %ld", &kib) == 1) sum += kib;
    if (file) fclose(file);
    return sum;
}

enum { SIDE = 4096, MODEL_KIB = SIDE * SIDE / 256 }; /* 64 MiB */

static int weigh(void *argument)
{
    board *b = argument;
    ls_run *run = ls_init(NULL, NULL);
    ls_module *model = ls_launched_model(run);
    ls_prepare(run, model);

    ls_wait_for_everyone(run);
    b->dirty[number("RANK")] = private_kib();
    ls_wait_for_everyone(run);
    return ls_finish(run);
}

static int launch_heavy(board *b)
{
    ls_run *outer = ls_init(NULL, NULL);
    ls_module *model = ls_linear_new(outer, SIDE, SIDE, .bias = false);
    int code = ls_launch(weigh, b, .num_processes = 4, .num_threads = 1, .model = model);
    return ls_finish(outer) ? 9 : code;
}

static void workers_share_its_memory(void)
{
#ifdef LS_SANITIZE_ADDRESS
    CHECK_SKIP("the sanitizer keeps memory that was given back");
#endif
    board *b = share_board();
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) _exit(launch_heavy(b));
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    long sum = b->dirty[0] + b->dirty[1] + b->dirty[2] + b->dirty[3];
    CHECK_MSG(sum > 0 && sum < MODEL_KIB / 10, "4 workers have %ld KiB of their own, the model %d KiB", sum, MODEL_KIB);
}

/* ---- Models that cannot ---- */

static int with_an_optimiser(void)
{
    ls_run *outer = ls_init(NULL, NULL);
    ls_module *model = ls_linear_new(outer, 4, 2);
    ls_sgd_new(outer, model, .lr = 0.1);
    return ls_launch(succeed, NULL, .num_processes = 2, .model = model);
}

static int prepared(void)
{
    ls_run *outer = ls_init(NULL, NULL);
    ls_module *model = ls_linear_new(outer, 4, 2);
    ls_prepare(outer, model);
    return ls_launch(succeed, NULL, .num_processes = 2, .model = model);
}

static int beside_another_run(void)
{
    ls_run *outer = ls_init(NULL, NULL);
    ls_module *model = ls_linear_new(outer, 4, 2);
    ls_init(NULL, NULL);
    return ls_launch(succeed, NULL, .num_processes = 2, .model = model);
}

static int after_a_failure(void)
{
    ls_run *outer = ls_init(NULL, NULL);
    ls_module *model = ls_linear_new(outer, 4, 2);
    ls_forward(model, ls_full(outer, LS_F32, 1.0, 2, 3));
    return ls_launch(succeed, NULL, .num_processes = 2, .model = model);
}

static void models_that_cannot_go_along_are_refused(void)
{
    static const struct {
        int (*body)(void);
        const char *words;
    } cases[] = {
        {with_an_optimiser, "its run contains more than models: create optimisers"},
        {prepared, "its run has prepared objects: call ls_prepare() inside the function"},
        {beside_another_run, "this process has another run than the model's"},
        {after_a_failure, "linear"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[4096];
        CHECK(WEXITSTATUS(run_captured(NULL, cases[i].body, text, sizeof text)) == LS_LAUNCH_REFUSED);
        CHECK_MSG(strstr(text, "ls_launch: ") && strstr(text, cases[i].words), "%s", text);
    }
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    CHECK_RUN_FORK(a_run_that_lives_is_refused);
    CHECK_RUN_FORK(a_run_that_has_ended_is_no_obstacle);
    CHECK_RUN_FORK(a_launch_in_a_launched_process_is_refused);
    CHECK_RUN_FORK(workers_train_the_model_of_the_launcher);
    CHECK_RUN_FORK(handles_of_the_launcher_are_the_workers_own);
    CHECK_RUN_FORK(workers_share_its_memory);
    CHECK_RUN_FORK(models_that_cannot_go_along_are_refused);
    return check_done();
}
