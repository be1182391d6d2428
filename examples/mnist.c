/* mnist.c - recognise handwritten digits: a small convolutional network on MNIST.
 *
 *     mnist --data_dir DIR        the four idx files, train-images-idx3-ubyte.gz and so on, plain or gzip
 *
 * Prints the accuracy on the test digits after each epoch; with --with_tracking it also records values in runs/mnist
 * and plots them (docs/tracking.md). */
#include <lockstep.h>

#include <stdio.h>
#include <unistd.h>

#include "accuracy.h"
#include "saving.h"

/* Images [N,1,28,28] and labels; "train" or "t10k", with or without .gz. */
static ls_dataset *digits(ls_run *run, const char *folder, const char *which)
{
    char images[1024], labels[1024];
    const char *end = ".gz";
    snprintf(images, sizeof images, "%s/%s-images-idx3-ubyte", folder, which);
    if (access(images, R_OK) == 0) end = "";
    snprintf(images, sizeof images, "%s/%s-images-idx3-ubyte%s", folder, which, end);
    snprintf(labels, sizeof labels, "%s/%s-labels-idx1-ubyte%s", folder, which, end);
    return ls_mnist_new(run, images, labels);
}

/* Convolution, batch normalisation, ReLU, pooling: [N,in,H,W] -> [N,out,H/2,W/2]. */
static ls_module *stage(ls_run *run, int64_t in, int64_t out)
{
    return ls_sequential_new(run, ls_conv2d_new(run, in, out, 3, .padding = 1, .bias = false),
                             ls_batch_norm_new(run, out), ls_relu_new(run), ls_max_pool2d_new(run, 2));
}

int main(int argc, char **argv)
{
    const char *data_dir = "mnist";
    int epochs = 3;
    int64_t batch_size = 128;
    double lr = 1e-2, weight_decay = 0.01;
    bool with_tracking = false;
    saving save = {.when = NULL};
    const ls_flag flags[] = {
        LS_FLAG("data_dir", &data_dir, "folder with the idx files"),
        LS_FLAG("epochs", &epochs, "passes over the training digits"),
        LS_FLAG("batch_size", &batch_size, "digits per step"),
        LS_FLAG("lr", &lr, "highest learning rate"),
        LS_FLAG("weight_decay", &weight_decay, "weight decay of AdamW"),
        SAVING_FLAG(&save),
        LS_FLAG("with_tracking", &with_tracking, "record loss, learning rate and accuracy"),
    };
    ls_run *run = ls_init(&argc, &argv, .seed = 42, .project_dir = "runs/mnist", .total_limit = 2);
    if (!ls_flags_read(run, &argc, &argv, flags, .about = "train a network to recognise handwritten digits") ||
        !saving_fits(run, &save))
        return ls_finish(run);

    ls_loader *train = ls_loader_new(run, digits(run, data_dir, "train"), .batch = batch_size, .shuffle = true);
    ls_loader *test = ls_loader_new(run, digits(run, data_dir, "t10k"), .batch = 500);
    ls_module *net =
        ls_sequential_new(run, stage(run, 1, 16), stage(run, 16, 32), stage(run, 32, 64), ls_flatten_new(run),
                          ls_dropout_new(run, 0.2), ls_linear_new(run, 64 * 3 * 3, 10));
    ls_optim *adam = ls_adamw_new(run, net, .lr = lr / 25, .weight_decay = weight_decay);
    ls_schedule *cycle =
        ls_one_cycle_schedule_new(adam, .max_lr = lr, .epochs = epochs, .steps_per_epoch = ls_steps_per_epoch(train));
    ls_prepare(run, net, adam, cycle, train, test);
    if (with_tracking) {
        ls_tracker_new(run, "all", .project_dir = ls_project_dir(run), .name = ".");
        ls_track_config(run, {"lr", lr}, {"epochs", epochs}, {"batch_size", (double)batch_size});
    }

    for (int epoch; ls_epoch(run, epochs, &epoch);) {
        ls_progress *bar = ls_progress_new(run, ls_len(train), .label = "train");
        for (ls_batch b; ls_progress_next(bar, train, &b);) {
            ls_tensor *loss = ls_cross_entropy(ls_forward(net, b.image), b.label);
            ls_backward(run, loss);
            bool stepped = ls_step(adam);
            ls_schedule_step(cycle);
            ls_zero_grad(adam);
            ls_progress_show(bar, "loss", ls_item(loss));
            if (!stepped) continue; /* gradients accumulate, or were not finite */
            int64_t step = ls_optim_steps_taken(adam);
            ls_track(run, step, {"loss", ls_item(loss)}, {"lr", ls_optim_lr(adam)});
            save_after_step(run, &save, step, false);
        }
        ls_progress_free(bar);
        double percent = accuracy(run, net, test, NULL);
        ls_track(run, ls_optim_steps_taken(adam), {"accuracy", percent});
        ls_print(run, "epoch %d: %.2f %%\n", epoch, percent);
        save_after_epoch(run, &save);
    }
    if (with_tracking && ls_is_main(run) && !ls_error(run)) {
        char path[1100];
        snprintf(path, sizeof path, "%s/curve.svg", ls_project_dir(run));
        ls_plot *plot = ls_plot_new(run, .title = "MNIST", .smooth = 0.95);
        ls_plot_add_history(plot, ls_history_read(run, ls_project_dir(run)), "loss,accuracy");
        if (ls_plot_write(plot, path)) ls_info(run, "%s", path);
    }
    return ls_finish(run);
}
