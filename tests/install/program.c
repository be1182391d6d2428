/* program.c - a user's program, built against the installed tree alone: fits y = 2 x + 1. */
#include <lockstep.h>

#include <math.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    ls_run *run = ls_init(&argc, &argv, .seed = 1);
    ls_module *line = ls_linear_new(run, 1, 1);
    ls_optim *sgd = ls_sgd_new(run, line, .lr = 0.1, .momentum = 0.9);

    double loss = INFINITY;
    for (int step = 0; step < 200; step++) {
        ls_mark batch = ls_scope_begin(run);
        ls_tensor *x = ls_randn(run, LS_F32, 16, 1);
        ls_tensor *error = ls_mse_loss(ls_forward(line, x), ls_affine(x, 2, 1), LS_REDUCE_MEAN);
        ls_backward(run, error);
        ls_step(sgd);
        ls_zero_grad(sgd);
        loss = ls_item(error);
        ls_scope_end(run, batch, NULL);
    }
    printf("lockstep %s: loss %g\n", ls_version(), loss);
    return ls_finish(run) || !(loss < 1e-6);
}
