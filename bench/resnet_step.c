/* resnet_step.c - time training steps of a residual network: resnet_step [options]
 *
 *     resnet_step --batch 256 --device cuda --mixed_precision fp16
 *     resnet_step --frozen
 *
 * Like examples/pets.c: photos as bytes, Adam, and with --frozen only the classifier, with batch norm in training mode.
 * Prints milliseconds per step of the best group of steps, of the median one, and of the host alone; seconds from the
 * start of the process to the end of the first step; and what tensors held at most. */
#include <lockstep.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "started.h"

enum { CLASSES = 37, WARM = 5, STRETCH = 10, STRETCHES = 7 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Photos as bytes [N,3,size,size], channels last: what they are computed from is freed, and is no part of a step. */
static ls_tensor *photos_new(ls_run *run, int64_t batch, int64_t size)
{
    ls_mark mark = ls_scope_begin(run);
    ls_tensor *photos = ls_channels_last(ls_rand(run, LS_F32, batch, 3, size, size));
    return ls_scope_end(run, mark, ls_cast(ls_mul_scalar(photos, 255), LS_U8));
}

int main(int argc, char **argv)
{
    int64_t batch = 64, size = 224;
    bool frozen = false;
    const char *network = "resnet50d";
    ls_run *run = ls_init(&argc, &argv, .seed = 1);
    ls_flag flags[] = {
        LS_FLAG("batch", &batch, "images per step"),
        LS_FLAG("size", &size, "width and height of an image"),
        LS_FLAG("frozen", &frozen, "train only the classifier"),
        LS_FLAG("network", &network, "resnet50d, resnet18, ..."),
    };
    if (!ls_flags_read(run, &argc, &argv, flags, .about = "time steps of a residual network")) return ls_finish(run);
    ls_module *net = ls_resnet_new(run, network, .classes = CLASSES);
    if (frozen) {
        ls_freeze(net);
        ls_unfreeze(ls_classifier(net));
    }
    ls_optim *adam = ls_adam_new(run, net, .lr = 1e-3);
    ls_tensor *image = photos_new(run, batch, size);
    ls_tensor *label = ls_cast(ls_arange(run, LS_F32, batch, 0, 37.0 / (double)batch), LS_I64);
    ls_prepare(run, net, adam);
    double took[STRETCHES], least_host = 1e30, first = 0;
    for (int stretch = -2; stretch < STRETCHES && !ls_error(run); stretch++) {
        double begun = now(), loss = 0;
        int steps = stretch == -2 ? 1 : stretch < 0 ? WARM : STRETCH;
        for (int i = 0; i < steps; i++) {
            ls_mark mark = ls_scope_begin(run);
            ls_tensor *normalised = NULL;
            ls_autocast(run, ls_mixed_precision(run)) normalised = ls_imagenet_normalize(image);
            ls_tensor *out = ls_cross_entropy(ls_forward(net, normalised), label);
            ls_backward(run, out);
            ls_step(adam);
            ls_zero_grad(adam);
            if (i + 1 == steps) {
                double host = (now() - begun) / steps;
                if (stretch >= 0 && host < least_host) least_host = host;
                loss = ls_item(out);
            }
            ls_scope_end(run, mark, NULL);
        }
        if (stretch == -2) first = seconds_since_start();
        else if (stretch < 0) printf("%d steps %.0f ms, loss %g\n", steps, 1e3 * (now() - begun), loss);
        else took[stretch] = 1e3 * (now() - begun) / steps;
    }
    if (!ls_error(run)) {
        qsort(took, STRETCHES, sizeof *took, by_size);
        printf("%s batch %lld%s: %.3f ms per step (median %.3f), %.0f images/s; the host was done after %.3f ms; first "
               "step after %.2f s; %.2f GiB\n",
               network, (long long)batch, frozen ? " frozen" : "", took[0], took[STRETCHES / 2],
               1e3 * (double)batch / took[0], 1e3 * least_host, first, (double)ls_memory(run).peak / (1 << 30));
    }
    return ls_finish(run);
}
