/* pupil.c - a program that trains one of the tutorials' networks on numbers that mean nothing:
 *
 *     pupil mlp|resnet50d|bert BATCH SIZE STEPS
 *
 * SIZE: features, edge of pictures, tokens of texts. Prints the loss of every step. */
#include <lockstep.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ls_module *network(ls_run *run, const char *name, int64_t size)
{
    if (strcmp(name, "resnet50d") == 0) return ls_resnet_new(run, "resnet50d", .classes = 37);
    if (strcmp(name, "bert") == 0) return ls_bert_for_sequence_classification_new(run, NULL, .num_labels = 2);
    return ls_sequential_new(run, ls_linear_new(run, size, 64), ls_relu_new(run), ls_linear_new(run, 64, 10));
}

static ls_tensor *inputs(ls_run *run, const char *name, int64_t count, int64_t size)
{
    if (strcmp(name, "resnet50d") == 0) return ls_randn(run, LS_F32, count, 3, size, size);
    if (strcmp(name, "bert") == 0) return ls_ones(run, LS_I64, count, size);
    return ls_randn(run, LS_F32, count, size);
}

int main(int argc, char **argv)
{
    if (argc < 5) return 2;
    int64_t batch = atoi(argv[2]), size = atoi(argv[3]), count = batch * atoi(argv[4]);
    ls_run *run = ls_init(&argc, &argv, .seed = 1);
    ls_module *net = network(run, argv[1], size);
    ls_optim *optim = ls_adamw_new(run, net, .lr = 1e-3);
    ls_dataset *data = ls_tensor_dataset_new(run, inputs(run, argv[1], count, size), ls_ones(run, LS_I64, count));
    ls_loader *loader = ls_loader_new(run, data, .batch = batch);
    ls_prepare(run, net, optim, loader);
    for (ls_batch b; ls_next(loader, &b);) {
        ls_tensor *loss = ls_cross_entropy(ls_forward(net, b.tensor[0]), b.tensor[1]);
        ls_backward(run, loss);
        ls_step(optim);
        ls_zero_grad(optim);
        printf("loss %.4f\n", ls_item(loss));
    }
    return ls_finish(run);
}
