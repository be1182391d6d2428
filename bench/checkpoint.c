/* checkpoint.c - the cost of checkpoints in a training loop: steps of ResNet-50d with Adam, 306 MB of state, saved
 * every few steps by the loop itself, in the background, or not at all. The disk is that of TMPDIR. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "run/session.h"

enum { BATCH = 8, SIZE = 128, STEPS = 8 };

typedef enum saving { NOT, IN_BACKGROUND, IN_LOOP, SAVINGS } saving;

typedef struct loop_state {
    ls_run *run;
    ls_module *net;
    ls_optim *adam;
    ls_tensor *image, *label;
    char folder[256];
    saving how;
} loop_state;

static void steps_call(void *arg)
{
    loop_state *s = arg;
    for (int i = 0; i < STEPS; i++) {
        ls_mark mark = ls_scope_begin(s->run);
        ls_backward(s->run, ls_cross_entropy(ls_forward(s->net, s->image), s->label));
        ls_step(s->adam);
        ls_zero_grad(s->adam);
        ls_scope_end(s->run, mark, NULL);
    }
    if (s->how != NOT) ls_save_state(s->run, s->folder);
}

static void *steps_setup(ls_run *run, const bench_item *item)
{
    static loop_state s;
    const char *folder = getenv("TMPDIR");
    s = (loop_state){.run = run, .how = (saving)item->variant};
    snprintf(s.folder, sizeof s.folder, "%s/lockstep_bench_%d", folder ? folder : "/tmp", (int)getpid());
    s.net = ls_resnet_new(run, "resnet50d", .classes = 37);
    s.adam = ls_adam_new(run, s.net, .lr = 1e-3);
    s.image = ls_channels_last(ls_rand(run, LS_F32, BATCH, 3, SIZE, SIZE));
    s.label = ls_cast(ls_arange(run, LS_F32, BATCH, 0, 1), LS_I64);
    run->session->async_save = s.how == IN_BACKGROUND;
    ls_prepare(run, s.net, s.adam);
    return &s;
}

static void steps_release(void *arg)
{
    loop_state *s = arg;
    char command[300];
    ls_wait_for_save(s->run);
    snprintf(command, sizeof command, "rm -rf '%s'", s->folder);
    if (s->how != NOT && system(command) != 0) perror(s->folder);
}

void bench_add_checkpoints(int threads)
{
    static const char *const names[] = {"", ", saved in the background", ", saved in the loop"};
    for (int how = 0; how < SAVINGS; how++) {
        bench_item *item =
            bench_add(BENCH_MS, BENCH_PEAK_NONE, threads, 1, "checkpoint/f32/%d steps resnet50d%s", STEPS, names[how]);
        item->variant = how;
        item->setup = steps_setup;
        item->call = steps_call;
        item->release = steps_release;
    }
}
