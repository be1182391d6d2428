/* spiral.c - classify points on the three arms of a spiral. Needs no data: the points are generated. */
#include <lockstep.h>

#include <math.h>
#include <stdio.h>

enum { ARMS = 3, TRAIN = 6000, TEST = 1500, BATCH = 100, EPOCHS = 10 };

/* n points [n,2] on the arms of a spiral, with noise, and the arm of each [n]. */
static void spiral(ls_run *run, int64_t n, ls_tensor **points, ls_tensor **arms)
{
    static float xy[TRAIN][2], noise[TRAIN];
    static int64_t label[TRAIN];
    ls_read(ls_randn(run, LS_F32, n), noise, sizeof noise[0] * (size_t)n);
    for (int64_t i = 0; i < n; i++) {
        float t = (float)(i / ARMS) / (float)(n / ARMS); /* 0 at the centre, 1 at the rim */
        float angle = 2.09439510f * (float)(i % ARMS) + 5 * t + 0.12f * noise[i];
        xy[i][0] = t * cosf(angle);
        xy[i][1] = t * sinf(angle);
        label[i] = i % ARMS;
    }
    *points = ls_keep(ls_from(run, LS_F32, LS_SHAPE(n, 2), xy));
    *arms = ls_keep(ls_from(run, LS_I64, LS_SHAPE(n), label));
}

int main(int argc, char **argv)
{
    ls_run *run = ls_init(&argc, &argv, .seed = 42);

    ls_tensor *train_x, *train_y, *test_x, *test_y;
    spiral(run, TRAIN, &train_x, &train_y);
    spiral(run, TEST, &test_x, &test_y);

    ls_module *net =
        ls_sequential_new(run, ls_linear_new(run, 2, 64, .activation = LS_ACT_GELU),
                          ls_linear_new(run, 64, 64, .activation = LS_ACT_GELU), ls_linear_new(run, 64, ARMS));
    ls_optim *adam = ls_adamw_new(run, net, .lr = 1e-2);
    ls_schedule *cycle =
        ls_one_cycle_schedule_new(adam, .max_lr = 1e-2, .epochs = EPOCHS, .steps_per_epoch = TRAIN / BATCH);
    ls_prepare(run, net, adam);
    ls_describe(net, stdout);

    for (int epoch = 0; epoch < EPOCHS && !ls_error(run); epoch++) {
        ls_mark epoch_scope = ls_scope_begin(run);
        ls_tensor *order = ls_randperm(run, TRAIN);
        double total = 0;
        for (int step = 0; step < TRAIN / BATCH; step++) {
            ls_mark batch_scope = ls_scope_begin(run);
            ls_tensor *batch = ls_slice(order, 0, step * BATCH, (step + 1) * BATCH, 1);
            ls_tensor *logits = ls_forward(net, ls_index_select(train_x, 0, batch));
            ls_tensor *loss = ls_cross_entropy(logits, ls_index_select(train_y, 0, batch));
            ls_backward(run, loss);
            ls_step(adam);
            ls_schedule_step(cycle);
            ls_zero_grad(adam);
            total += ls_item(loss);
            ls_scope_end(run, batch_scope, NULL);
        }
        double right = 0;
        ls_no_grad(run) right = ls_item(ls_sum(ls_eq(ls_argmax(ls_forward(net, test_x)), test_y)));
        printf("epoch %d: loss %.4f, accuracy %.2f %%\n", epoch, total / (TRAIN / BATCH), 100 * right / TEST);
        ls_scope_end(run, epoch_scope, NULL);
    }
    return ls_finish(run);
}
