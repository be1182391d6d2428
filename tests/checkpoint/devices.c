/* devices.c - a run that was saved on one device resumes on another: parameters, moments, loss scale, random numbers
 * and the order of samples go along, bit for bit, and training continues as if it had stayed. `--device` names the
 * device beside the CPU. */
#include <lockstep.h>

#include <dirent.h>

#include "check.h"
#include "checkpoint/points.h"
#include "folder.h"

enum { EPOCHS = 3, BATCHES = 6, STEPS = EPOCHS * BATCHES };

static const char *other = "cpu"; /* the device beside it */
static char home[256], first[300], second[300];

typedef struct training {
    ls_run *run;
    ls_module *net;
    ls_optim *adam;
    ls_schedule *decay;
    ls_loader *loader;
} training;

static training start(const char *device, ls_dtype precision, const char *resume)
{
    ls_run *run = ls_init(NULL, NULL, .device = device, .mixed_precision = precision, .seed = 5, .project_dir = home,
                          .resume_from_checkpoint = resume);
    training t = {.run = run};
    t.net = ls_sequential_new(run, ls_linear_new(run, 4, 48), ls_batch_norm_new(run, 48), ls_gelu_new(run),
                              ls_dropout_new(run, 0.3), ls_linear_new(run, 48, 2));
    t.adam = ls_adamw_new(run, t.net, .lr = 1e-2, .weight_decay = 0.05);
    t.decay = ls_exponential_schedule_new(t.adam, 0.98);
    t.loader = ls_loader_new(run, points(run, 4 * BATCHES, 4), .batch = 4, .shuffle = true);
    ls_prepare(run, t.net, t.adam, t.decay, t.loader);
    return t;
}

/* From step `from`, where the run is, to the end, or until `to`, where it is saved. */
static void train(training *t, int from, int to, const char *folder, double loss[STEPS])
{
    int step = from;
    for (int epoch; ls_epoch(t->run, EPOCHS, &epoch);)
        for (ls_batch b; step < to && ls_next(t->loader, &b);) {
            ls_tensor *l = ls_cross_entropy(ls_forward(t->net, b.image), b.label);
            ls_backward(t->run, l);
            ls_step(t->adam);
            ls_schedule_step(t->decay);
            ls_zero_grad(t->adam);
            loss[step++] = ls_item(l);
            if (step == to && folder) ls_save_state(t->run, folder);
        }
    CHECK_MSG(!ls_error(t->run), "%s", ls_error_message(t->run));
    CHECK(step == to);
}

static void compare_files(const char *name)
{
    char a[600], b[600];
    size_t sizes[2] = {0};
    snprintf(a, sizeof a, "%s/%s", first, name);
    snprintf(b, sizeof b, "%s/%s", second, name);
    char *one = file_text(a, &sizes[0]), *two = file_text(b, &sizes[1]);
    CHECK_MSG(one && two && sizes[0] == sizes[1] && memcmp(one, two, sizes[0]) == 0, "%s differs", name);
    free(one);
    free(two);
}

/* Saved on one device, loaded on another and saved there: the same bytes. */
static void compare_states(const char *from, const char *to, ls_dtype precision)
{
    double loss[STEPS];
    folder_fresh(home);
    training t = start(from, precision, NULL);
    if (precision == LS_F16) ls_set_loss_scaler(t.run, (ls_loss_scaler_state){.scale = 512, .good_steps = 1998});
    train(&t, 0, BATCHES + 2, first, loss);
    CHECK(ls_finish(t.run) == 0);
    t = start(to, precision, NULL);
    int epoch;
    CHECK(ls_load_state(t.run, first) && ls_epoch(t.run, EPOCHS, &epoch) && ls_save_state(t.run, second));
    if (precision == LS_F16) CHECK(ls_loss_scaler(t.run).scale == 1024 && ls_loss_scaler(t.run).good_steps == 6);
    CHECK(ls_finish(t.run) == 0);
    int files = 0;
    DIR *folder = opendir(first);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (entry->d_name[0] != '.') compare_files(entry->d_name), files++;
    if (folder) closedir(folder);
    CHECK_MSG(files >= 7, "%d files", files);
    folder_remove(home);
}

static void a_state_survives_another_device(void)
{
    compare_states("cpu", other, LS_F32);
    compare_states(other, "cpu", LS_F32);
    compare_states("cpu", other, LS_F16);
    compare_states(other, "cpu", LS_F16);
}

/* Eight steps on one device, five on the other, the rest on the first. Devices round differently, and training adds
 * that up; other samples, other dropped elements or lost moments would change the losses by a tenth. */
static void compare_losses(const char *here, const char *there, ls_dtype precision, double tolerance)
{
    double stayed[STEPS], moved[STEPS];
    folder_fresh(home);
    training t = start(here, precision, NULL);
    train(&t, 0, STEPS, NULL, stayed);
    CHECK(ls_finish(t.run) == 0);
    t = start(here, precision, NULL);
    train(&t, 0, 8, first, moved);
    CHECK(ls_finish(t.run) == 0);
    t = start(there, precision, first);
    train(&t, 8, 13, second, moved);
    CHECK(ls_finish(t.run) == 0);
    t = start(here, precision, second);
    train(&t, 13, STEPS, NULL, moved);
    CHECK(ls_finish(t.run) == 0);
    for (int i = 0; i < STEPS; i++)
        CHECK_MSG(fabs(moved[i] - stayed[i]) <= tolerance, "step %d: %.7f after moving, else %.7f", i, moved[i],
                  stayed[i]);
    folder_remove(home);
}

static void training_continues_on_another_device(void)
{
    compare_losses("cpu", other, LS_F32, 1e-4);
    compare_losses(other, "cpu", LS_F32, 1e-4);
    compare_losses("cpu", other, LS_F16, 1e-2);
    compare_losses(other, "cpu", LS_F16, 1e-2);
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "--device") == 0) other = argv[2];
    else if (argc > 1) check_filter = argv[1];
    snprintf(home, sizeof home, "%s", home_of("devices"));
    snprintf(first, sizeof first, "%s/first", home);
    snprintf(second, sizeof second, "%s/second", home);
    CHECK_RUN(a_state_survives_another_device);
    CHECK_RUN(training_continues_on_another_device);
    return check_done();
}
