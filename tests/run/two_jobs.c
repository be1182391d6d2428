/* two_jobs.c - two jobs of two processes each that were told the same address, by hand: they never train together. */
#include "check.h"

#include <lockstep.h>

#include "base/config.h"

#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Shared by all processes. */
typedef struct board {
    char words[4][1024];
} board;

static int find_port(void)
{
    struct sockaddr_in here = {.sin_family = AF_INET};
    socklen_t size = sizeof here;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bind(fd, (struct sockaddr *)&here, sizeof here);
    getsockname(fd, (struct sockaddr *)&here, &size);
    close(fd);
    return ntohs(here.sin_port);
}

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static void be_rank(int rank, const char *address, int port)
{
    set_number("LOCKSTEP_RANK", rank);
    set_number("LOCKSTEP_WORLD_SIZE", 2);
    set_number("MASTER_PORT", port);
    setenv("MASTER_ADDR", address, 1);
    setenv("LOCKSTEP_COMM_TIMEOUT", "5", 1);
    ls_config_reload();
}

/* Train for as long as it takes until something happens, but not for ever. */
static int train(board *b, int number, const char *address, int port)
{
    int rank = number % 2, job = number / 2;
    be_rank(rank, address, port);
    ls_run *run = ls_init(NULL, NULL, .seed = (uint64_t)(1 + job));
    ls_module *model = ls_linear_new(run, 4, 2);
    ls_optim *sgd = ls_sgd_new(run, model, .lr = 0.1);
    ls_prepare(run, model, sgd);
    for (int i = 0; i < 1000 && !ls_error(run); i++) {
        ls_mark mark = ls_scope_begin(run);
        ls_backward(run, ls_mean(ls_square(ls_forward(model, ls_randn(run, LS_F32, 2, 4)))));
        ls_step(sgd);
        ls_zero_grad(sgd);
        ls_scope_end(run, mark, NULL);
        usleep(20000);
    }
    snprintf(b->words[number], sizeof b->words[number], "%s", ls_error_message(run));
    return ls_finish(run);
}

/* Processes 0 and 1 are one job, 2 and 3 the other; they start in this order. */
static void run_jobs(const int order[4], const char *address)
{
    board *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int port = find_port(), codes[4];
    pid_t pids[4];
    fflush(NULL);
    for (int i = 0; i < 4; i++) {
        pids[order[i]] = fork();
        if (pids[order[i]] == 0) {
            fclose(stderr);
            _exit(train(b, order[i], address, port));
        }
        usleep(50000);
    }
    for (int i = 0; i < 4; i++) {
        int status = -1;
        waitpid(pids[i], &status, 0);
        codes[i] = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    bool told = false;
    for (int i = 0; i < 4; i++) {
        char pid[16];
        CHECK_MSG(codes[i] == 1 && b->words[i][0], "order %d%d%d%d, process %d: %d %s", order[0], order[1], order[2],
                  order[3], i, codes[i], b->words[i]);
        const char *at = strstr(b->words[i], "claimed twice, by process");
        if (!at) continue;
        bool first = snprintf(pid, sizeof pid, "%d", (int)pids[1]) && strstr(at, pid);
        told |= first && snprintf(pid, sizeof pid, "%d", (int)pids[3]) && strstr(at, pid);
    }
    CHECK_MSG(told, "who claimed rank 1 twice? \"%s\" \"%s\" \"%s\" \"%s\"", b->words[0], b->words[1], b->words[2],
              b->words[3]);
    munmap(b, sizeof *b);
}

static const int orders[][4] = {{0, 3, 2, 1}, {3, 0, 1, 2}, {0, 1, 2, 3}};

static void jobs_with_one_port_do_not_mix(void)
{
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) run_jobs(orders[i], "127.0.0.1");
}

/* Nothing says that they are on one host: they meet at the port itself. */
static void neither_do_those_that_may_be_on_several_hosts(void)
{
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) run_jobs(orders[i], "127.0.0.2");
}

/* Its processes come to rank 0 again and again, some before it is done with the run before. */
static int run_often(int rank, const char *address, int port)
{
    int code = 0;
    be_rank(rank, address, port);
    for (int i = 0; i < 5 && !code; i++) {
        ls_run *run = ls_init(NULL, NULL);
        code = ls_world(run) != 2;
        ls_wait_for_everyone(run);
        if (rank == 0) usleep(20000);
        code |= ls_finish(run);
    }
    return code;
}

static void a_job_may_have_several_runs(void)
{
    static const char *const addresses[] = {"127.0.0.1", "127.0.0.2"};
    for (int i = 0; i < 2; i++) {
        int port = find_port(), status = -1;
        fflush(NULL);
        pid_t other = fork();
        if (other == 0) _exit(run_often(1, addresses[i], port));
        pid_t first = fork();
        if (first == 0) _exit(run_often(0, addresses[i], port));
        waitpid(first, &status, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        waitpid(other, &status, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    CHECK_RUN_FORK(jobs_with_one_port_do_not_mix);
    CHECK_RUN_FORK(neither_do_those_that_may_be_on_several_hosts);
    CHECK_RUN_FORK(a_job_may_have_several_runs);
    return check_done();
}
