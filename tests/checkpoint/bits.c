/* bits.c - a training that is stopped and resumed goes on bit for bit, in every precision: the first step of a program,
 * which has no half copies of parameters yet, computes what a later one does. `--device`: on this one. */
#include <lockstep.h>

#include "check.h"
#include "checkpoint/points.h"
#include "folder.h"

enum { BATCH = 16, STEPS = 8, STOP = 4, CLASSES = 5, LENGTH = 24, WIDTH = 128, SIDE = 12 };

static const char *device = "cpu";
static char home[256], saved[300];

static ls_module *transformer(ls_run *run, ls_tensor **input)
{
    *input = ls_randn(run, LS_F32, BATCH, LENGTH, WIDTH);
    ls_module *layer[2];
    for (int i = 0; i < 2; i++) layer[i] = ls_transformer_layer_new(run, WIDTH, 2, .feedforward = 256, .dropout = 0.1);
    return ls_sequential_new(run, layer[0], layer[1], ls_flatten_new(run), ls_linear_new(run, WIDTH * LENGTH, CLASSES));
}

static ls_module *convolutions(ls_run *run, ls_tensor **input)
{
    enum { CHANNELS = 32, POOLED = SIDE / 2 * SIDE / 2 };
    *input = ls_randn(run, LS_F32, BATCH, 3, SIDE, SIDE);
    return ls_sequential_new(run, ls_conv2d_new(run, 3, CHANNELS, 3, .padding = 1, .bias = false),
                             ls_batch_norm_new(run, CHANNELS), ls_relu_new(run),
                             ls_conv2d_new(run, CHANNELS, CHANNELS, 3, .padding = 1), ls_relu_new(run),
                             ls_max_pool2d_new(run, 2), ls_flatten_new(run), ls_dropout_new(run, 0.2),
                             ls_linear_new(run, CHANNELS * POOLED, CLASSES));
}

typedef ls_module *make_network(ls_run *run, ls_tensor **input);

/* Losses of steps [from, STEPS); what is there before step STOP is saved. */
static void train(make_network *make, ls_dtype precision, int from, double loss[STEPS])
{
    ls_run *run = ls_init(NULL, NULL, .device = device, .mixed_precision = precision, .seed = 4, .project_dir = home);
    ls_tensor *input, *labels = ls_remainder_scalar(ls_arange(run, LS_I64, BATCH, 0, 1), CLASSES);
    ls_module *net = make(run, &input);
    ls_optim *adam = ls_adamw_new(run, net, .lr = 1e-3);
    ls_prepare(run, net, adam);
    if (from) ls_load_state(run, saved);
    for (int i = from; i < STEPS && !ls_error(run); i++) {
        ls_mark mark = ls_scope_begin(run);
        if (i == STOP && !from) ls_save_state(run, saved);
        ls_tensor *now = ls_cross_entropy(ls_forward(net, input), labels);
        ls_backward(run, now);
        ls_clip_grad_norm(adam, 1);
        ls_step(adam);
        ls_zero_grad(adam);
        loss[i] = ls_item(now);
        ls_scope_end(run, mark, NULL);
    }
    CHECK_MSG(!ls_error(run), "%s", ls_error_message(run));
    CHECK(ls_finish(run) == 0);
}

static void resume(make_network *make, const char *name)
{
    static const ls_dtype precisions[] = {LS_F32, LS_BF16, LS_F16};
    for (int p = 0; p < 3; p++) {
        double whole[STEPS] = {0}, parts[STEPS] = {0};
        folder_fresh(home);
        train(make, precisions[p], 0, whole);
        train(make, precisions[p], STOP, parts);
        for (int i = STOP; i < STEPS; i++)
            CHECK_MSG(whole[i] == parts[i], "%s, %s, step %d: %.9g, resumed %.9g", name, ls_dtype_name(precisions[p]),
                      i, whole[i], parts[i]);
        folder_remove(home);
    }
}

static void a_transformer_resumes_bit_for_bit(void)
{
    resume(transformer, "transformer");
}

static void a_convolutional_network_resumes_bit_for_bit(void)
{
    resume(convolutions, "convolutions");
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "--device") == 0) device = argv[2];
    else if (argc > 1) check_filter = argv[1];
    setenv("LOCKSTEP_CUDA_DETERMINISTIC", "1", 1);
    snprintf(home, sizeof home, "%s", home_of("bits"));
    snprintf(saved, sizeof saved, "%s/saved", home);
    CHECK_RUN(a_transformer_resumes_bit_for_bit);
    CHECK_RUN(a_convolutional_network_resumes_bit_for_bit);
    return check_done();
}
