/* trainee.c - a small training of several processes that may be killed, stopped or spread anew at any moment:
 *
 *     trainee FOLDER [STEPS [PAUSE [WIDTH]]]
 *
 * It goes on from the latest checkpoint in FOLDER, saves every few steps and when it is told to end, and leaves its
 * weights in FOLDER/final. FOLDER/steps.RANK has a line for each step made: number, samples, loss. The batch of all
 * processes together is always 24 samples, an epoch 10 steps. PAUSE: milliseconds of sleep in every step from the tenth
 * on, as long as there is no FOLDER/hurry: whoever wants to disturb the training finds it at work. WIDTH: of the hidden
 * layer; each costs 80 bytes of weights. */
#include <lockstep.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FEATURES = 16, SAMPLES = 240, BATCH = 24, SAVE_EVERY = 4, SLOW_FROM = 10 };

static bool get(int64_t index, ls_sample *sample, void *user)
{
    (void)user;
    float *x = ls_sample_field(sample, 0);
    *(int64_t *)ls_sample_field(sample, 1) = index % 3;
    for (int i = 0; i < FEATURES; i++) x[i] = (i % 3 == index % 3) + (float)(ls_sample_random(sample) >> 40) * 0x1p-24f;
    return true;
}

static void note_step(FILE *log, int64_t step, const ls_batch *b, double loss)
{
    fprintf(log, "%lld %a", (long long)step, loss);
    for (int64_t i = 0; i < b->size; i++) fprintf(log, " %lld", (long long)b->index[i]);
    fputc('\n', log);
    fflush(log);
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : ".";
    int64_t steps = argc > 2 ? atoll(argv[2]) : 200;
    useconds_t pause = argc > 3 ? (useconds_t)(1000 * atof(argv[3])) : 0;
    int64_t width = argc > 4 ? atoll(argv[4]) : 32;
    ls_run *run = ls_init(NULL, NULL, .seed = 5, .project_dir = folder, .resume_from_checkpoint = "latest",
                          .split_batches = true, .total_limit = 2, .async_save = true);
    char path[4096], hurry[4096];
    snprintf(hurry, sizeof hurry, "%s/hurry", folder);
    snprintf(path, sizeof path, "%s/steps.%d", folder, ls_rank(run));
    FILE *log = fopen(path, "a");
    ls_dataset *set = ls_dataset_new(
        run, .count = SAMPLES, .get = get,
        .fields = {{.name = "x", .dtype = LS_F32, .shape = {FEATURES}}, {.name = "label", .dtype = LS_I64}});
    ls_loader *train = ls_loader_new(run, set, .batch = BATCH, .shuffle = true, .workers = 0);
    ls_module *net = ls_sequential_new(run, ls_linear_new(run, FEATURES, width), ls_relu_new(run),
                                       ls_dropout_new(run, 0.1), ls_linear_new(run, width, 3));
    ls_optim *adam = ls_adamw_new(run, net, .lr = 1e-2);
    ls_prepare(run, net, adam, train);

    int epochs = (int)((steps * BATCH + SAMPLES - 1) / SAMPLES);
    for (int epoch; log && ls_epoch(run, epochs, &epoch);) {
        for (ls_batch b; ls_next(train, &b);) {
            ls_tensor *loss = ls_cross_entropy(ls_forward(net, b.tensor[0]), b.label);
            ls_backward(run, loss);
            ls_step(adam);
            ls_zero_grad(adam);
            int64_t step = ls_optim_steps_taken(adam);
            if (pause && step >= SLOW_FROM && access(hurry, F_OK) != 0) usleep(pause);
            if (ls_error(run)) break;
            note_step(log, step, &b, ls_item(loss));
            bool stop = ls_should_stop(run);
            if (stop || step % SAVE_EVERY == 0) ls_save_state(run, NULL);
            if (stop) return ls_finish(run);
        }
    }
    snprintf(path, sizeof path, "%s/final", folder);
    ls_save_model(run, net, path);
    return ls_finish(run);
}
