/* shard.c - an AdamW step on the parameters of a ResNet-50 between two single-threaded processes: gradients are
 * reduced, parameters updated; by every process, or by each only its part.
 *
 * The loss is the sum of all parameters, so that the backward pass is cheap. The second process makes steps until the
 * first has ended. */
#include "bench.h"

#include "base/parallel.h"
#include "comm/shm/shm.h"
#include "run/session.h"

#include <sys/wait.h>
#include <unistd.h>

typedef struct shard_state {
    ls_run *run;
    ls_module *model;
    ls_optim *adam;
    pid_t other;
} shard_state;

static void step(void *arg)
{
    shard_state *s = arg;
    ls_mark mark = ls_scope_begin(s->run);
    ls_state *parameters = ls_parameters(s->model);
    ls_tensor *loss = ls_zeros(s->run, LS_F32, 1);
    for (int64_t i = 0; i < ls_state_count(parameters); i++)
        loss = ls_add(loss, ls_sum(ls_state_tensor(parameters, i)));
    ls_backward(s->run, loss);
    ls_step(s->adam);
    ls_zero_grad(s->adam);
    ls_scope_end(s->run, mark, NULL);
}

static bool join(shard_state *s, int file, int rank, bool shard)
{
    ls_message why;
    ls_parallel_set_width(1);
    ls_segment *segment = ls_segment_open(file, 2, &why);
    ls_comm *comm = segment ? ls_shm_join(segment, rank, &why) : NULL;
    ls_segment_release(segment);
    if (!comm) return false;
    s->run = ls_init(NULL, NULL, .shard_optimizer = shard);
    ls_session_join(s->run, comm);
    s->model = ls_resnet_new(s->run, "resnet50");
    s->adam = ls_adamw_new(s->run, s->model, .lr = 1e-6);
    ls_prepare(s->run, s->model, s->adam);
    return !ls_error(s->run);
}

static void *shard_setup(ls_run *run, const bench_item *item)
{
    static shard_state s;
    (void)run;
    ls_message why;
    int file = ls_segment_make(2, &why);
    if (file < 0) return NULL;
    s = (shard_state){.other = fork()};
    if (s.other == 0) {
        if (join(&s, file, 1, item->variant))
            while (!ls_error(s.run)) step(&s);
        _exit(0);
    }
    return join(&s, file, 0, item->variant) ? &s : NULL;
}

static void shard_release(void *arg)
{
    shard_state *s = arg;
    ls_finish(s->run);
    waitpid(s->other, NULL, 0);
}

void bench_add_shards(void)
{
    static const char *const names[] = {"by each", "shared out"};
    for (int variant = 0; variant < 2; variant++) {
        bench_item *item = bench_add(BENCH_MS, BENCH_PEAK_NONE, 1, 1, "comm/f32/AdamW of resnet50 %s", names[variant]);
        item->variant = variant;
        item->setup = shard_setup;
        item->call = step;
        item->release = shard_release;
    }
}
