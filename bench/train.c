/* train.c - a training program for benchmarks: steps of a residual network on generated images, with as many processes
 * as were started. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLASSES = 37, WARM = 2 };

/* `--train NETWORK BATCH SIZE DTYPE SECONDS`: the batch is per process. Rank 0 prints the total images per second in
 * the best step: all processes end a step together, so its time is that of the slowest. */
int bench_train(char **arguments)
{
    int64_t batch = strtoll(arguments[1], NULL, 10), size = strtoll(arguments[2], NULL, 10);
    bool half = strcmp(arguments[3], "bf16") == 0;
    double seconds = strtod(arguments[4], NULL), best = 1e30, begin = 0;
    ls_run *run = ls_init(NULL, NULL, .seed = 1, .mixed_precision = half ? LS_BF16 : LS_F32);
    ls_module *net = ls_resnet_new(run, arguments[0], .classes = CLASSES);
    ls_optim *adam = ls_adam_new(run, net, .lr = 1e-3);
    ls_tensor *image = ls_channels_last(ls_rand(run, LS_F32, batch, 3, size, size));
    ls_tensor *label = ls_cast(ls_arange(run, LS_F32, batch, 0, 0.5), LS_I64);
    ls_prepare(run, net, adam);
    double last = bench_now();
    for (int step = 0; !ls_error(run); step++) {
        ls_mark mark = ls_scope_begin(run);
        ls_backward(run, ls_cross_entropy(ls_forward(net, ls_imagenet_normalize(image)), label));
        ls_step(adam);
        ls_zero_grad(adam);
        ls_scope_end(run, mark, NULL);
        double now = bench_now(), taken = now - last;
        last = now;
        if (step < WARM) continue;
        if (step == WARM) begin = now;
        else if (taken < best) best = taken;
        /* Clocks differ between processes: rank 0 decides when to stop. */
        if (now - begin > seconds) ls_set_trigger(run);
        if (ls_check_trigger(run)) break;
    }
    if (ls_is_main(run) && !ls_error(run)) printf("%.6g\n", (double)(batch * ls_world_size(run)) / best);
    return ls_finish(run);
}
