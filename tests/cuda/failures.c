/* failures.c - what a user reads when a GPU is full, a kernel fails, or a process was forked too late. Each happens in
 * a process of its own: CUDA does nothing more in one where a kernel failed. */
#include <lockstep.h>

#include "base/capture.h"
#include "check.h"
#include "tensor/context.h"

static char said[8192];

/* Run a body in a process of its own; what it prints is in `said`. Returns its exit code. */
static int tell(char *environment, int (*body)(void))
{
    int status = run_captured(environment, body, said, sizeof said);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#define SAYS(words) CHECK_MSG(strstr(said, words), "\"%s\" is not in: %s", words, said)

/* ---- memory ---- */

static int take_too_much(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = CUDA_DEVICE);
    ls_tensor *held = ls_ones(run, LS_F32, 3 << 20);
    ls_empty(run, LS_F32, (int64_t)1 << 40);
    int code = ls_error(run) == LS_ERR_MEMORY ? 0 : 1;
    fprintf(stderr, "%s\n", ls_error_message(run));
    ls_clear_error(run);
    ls_tensor *more = ls_ones(run, LS_F32, 100); /* there is still some, and all goes on */
    if (ls_item(ls_sum(more)) != 100 || ls_item(ls_sum(held)) != 3 << 20) code = 2;
    return ls_finish(run) || code;
}

static void a_full_gpu_says_what_holds_its_memory(void)
{
    CHECK(tell("LOCKSTEP_LOG=info", take_too_much) == 0);
    SAYS("is out of memory: 4398046511104 bytes needed (");
    const char *holds = strstr(said, " bytes needed (");
    size_t in_use = 0;
    CHECK(holds && sscanf(holds, " bytes needed (%zu in use, ", &in_use) == 1);
    CHECK_MSG(in_use >= 3 * 4 << 20 && in_use < 13 << 20, "%zu in use", in_use);
    SAYS("; use a smaller batch");
    SAYS("GiB free; 4.1e+03 GiB were requested");
}

/* ---- kernels ---- */

static ls_tensor *read_nowhere(ls_module *self, ls_tensor *x, void *user)
{
    (void)self, (void)user;
    x->view.data = (void *)(uintptr_t)4096; /* no device has memory there */
    return ls_exp(x);
}

static int fail_in_a_kernel(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = CUDA_DEVICE);
    ls_module *net = ls_module_new(run, "Net", NULL, NULL);
    ls_module *layer = ls_module_add(net, "layer1", ls_module_new(run, "Broken", read_nowhere, NULL));
    ls_tensor *y = ls_forward(layer, ls_ones(run, LS_F32, 1000));
    ls_item(ls_sum(ls_add(y, y)));
    int code = ls_error(run) == LS_ERR_DEVICE ? 0 : 1;
    ls_finish(run);
    ls_run *next = ls_init(NULL, NULL, .device = CUDA_DEVICE);
    if (ls_error(next) != LS_ERR_DEVICE) code = 2;
    ls_finish(next);
    return code;
}

static void a_kernel_that_fails_is_named_with_its_module(void)
{
    CHECK(tell("LOCKSTEP_CUDA_BLOCKING=1", fail_in_a_kernel) == 0);
    SAYS("layer1: exp: the GPU failed: ");
    SAYS("(CUDA error 700)");
    SAYS("CUDA stopped working in this process when an operator failed earlier");
    SAYS("start the program again");
}

static void without_waiting_the_last_operators_are_listed(void)
{
    CHECK(tell(NULL, fail_in_a_kernel) == 0);
    SAYS("(CUDA error 700)");
    SAYS("in one of the last ");
    SAYS("LOCKSTEP_CUDA_BLOCKING=1 names the right one");
}

/* ---- forks ---- */

/* The child goes on with what its parent made. */
static int fork_with_an_open_device(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = CUDA_DEVICE);
    ls_tensor *x = ls_ones(run, LS_F32, 10);
    double sum = ls_item(ls_sum(x));
    pid_t child = fork();
    if (child == 0) {
        ls_item(ls_sum(ls_add(x, x)));
        fprintf(stderr, "%s\n", ls_error_message(run));
        _exit(ls_error(run) == LS_ERR_DEVICE ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    if (ls_item(ls_sum(x)) != sum) status = 1;
    return ls_finish(run) || !WIFEXITED(status) || WEXITSTATUS(status);
}

static void a_forked_process_cannot_use_the_device(void)
{
    CHECK(tell(NULL, fork_with_an_open_device) == 0);
    SAYS("forked after");
    SAYS("ls_launch()");
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(a_full_gpu_says_what_holds_its_memory);
    CHECK_RUN(a_kernel_that_fails_is_named_with_its_module);
    CHECK_RUN(without_waiting_the_last_operators_are_listed);
    CHECK_RUN(a_forked_process_cannot_use_the_device);
    return check_done();
}
