/* recorded.c - a step of training as one program: a device that records sees the same calls in every step, knows when
 * memory ends, and gives the CPU's numbers. */
#include <lockstep.h>

#include <dlfcn.h>

#include "check.h"
#include "folder.h"
#include "plugins/recording_device.h"

enum { STEPS = 20, ROWS = 6 };

static recording_report_fn *report_of_device;

typedef struct outcome {
    double loss[STEPS];
    double scale; /* of the loss, in the end */
} outcome;

typedef struct settings {
    const char *device;
    ls_dtype precision;
    bool clip;
} settings;

static ls_module *network(ls_run *run)
{
    return ls_sequential_new(run, ls_linear_new(run, 8, 32), ls_batch_norm_new(run, 32), ls_relu_new(run),
                             ls_dropout_new(run, 0.2), ls_linear_new(run, 32, 4));
}

/* Called after each step. */
typedef void look_fn(int step);

/* Twenty steps with a schedule of rate and momentum, and with dropout; with a scaler, infinite inputs in the 9th make
 * it skip one and lower the scale. */
static outcome train(settings s, look_fn *look)
{
    outcome out = {.scale = 1};
    ls_run *run = ls_init(NULL, NULL, .seed = 5, .device = s.device, .mixed_precision = s.precision);
    ls_module *net = network(run);
    ls_optim *adam = ls_adamw_new(run, net, .lr = 1e-2);
    ls_schedule *schedule = ls_one_cycle_schedule_new(adam, .max_lr = 1e-2, .total_steps = STEPS);
    float x[STEPS * ROWS * 8];
    int64_t label[STEPS * ROWS];
    for (int i = 0; i < STEPS * ROWS * 8; i++) x[i] = sinf((float)(i * i % 97));
    for (int i = 0; i < STEPS * ROWS; i++) label[i] = i * 7 % 4;
    if (s.precision == LS_F16) x[8 * ROWS * 8] = 3e38f;
    ls_loader *loader = ls_loader_new(run,
                                      ls_tensor_dataset_new(run, ls_from(run, LS_F32, LS_SHAPE(STEPS * ROWS, 8), x),
                                                            ls_from(run, LS_I64, LS_SHAPE(STEPS * ROWS), label)),
                                      .batch = ROWS);
    ls_prepare(run, net, adam, schedule, loader);
    int step = 0;
    ls_tensor *losses[STEPS];
    for (ls_batch b; ls_next(loader, &b); step++) {
        ls_tensor *loss = ls_cross_entropy(ls_forward(net, b.tensor[0]), b.tensor[1]);
        losses[step] = ls_keep(ls_detach(loss));
        ls_backward(run, loss);
        if (s.clip) ls_clip_grad_norm(adam, 0.5);
        ls_step(adam);
        ls_schedule_step(schedule);
        ls_zero_grad(adam);
        if (look) look(step);
    }
    CHECK(step == STEPS);
    for (int i = 0; i < step; i++) out.loss[i] = ls_item(losses[i]);
    out.scale = ls_loss_scaler(run).scale;
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
    CHECK(ls_finish(run) == 0);
    return out;
}

/* The host adds up squares of gradients in f64, and of all parameters in one go: clipping differs in the last place. */
static void same(const outcome *a, const outcome *b, double tolerance)
{
    for (int i = 0; i < STEPS; i++) CHECK_NEAR(a->loss[i], b->loss[i], tolerance);
    CHECK(a->scale == b->scale);
}

/* ---- every step is the same program, and one ---- */

static int64_t programs_before;

static void one_program_like_the_last(int step)
{
    recording_report now = report_of_device();
    if (step > 0)
        CHECK_MSG(now.programs - programs_before == 1, "step %d: %lld programs", step,
                  (long long)(now.programs - programs_before));
    if (step > 2) CHECK_MSG(now.same, "step %d: another program than in the step before", step);
    programs_before = now.programs;
}

static void steps_are_one_program(void)
{
    outcome here = train((settings){"cpu", LS_F32, true}, NULL);
    outcome there = train((settings){RECORDING_DEVICE, LS_F32, true}, one_program_like_the_last);
    same(&here, &there, 3e-7);
}

static void steps_in_bf16_are_one_program(void)
{
    outcome here = train((settings){"cpu", LS_BF16, true}, NULL);
    outcome there = train((settings){RECORDING_DEVICE, LS_BF16, true}, one_program_like_the_last);
    same(&here, &there, 3e-7);
}

/* A skipped step and the lower scale after it are numbers, not other programs. */
static void a_scale_that_changes_changes_no_program(void)
{
    outcome here = train((settings){"cpu", LS_F16, true}, NULL);
    outcome there = train((settings){RECORDING_DEVICE, LS_F16, true}, one_program_like_the_last);
    CHECK(here.scale == 32768);
    same(&here, &there, 3e-7);
}

/* Copies are complete when they return: a device that has stream_sync alone is not asked to wait for one. */
static void what_comes_from_the_host_does_not_cut_a_program(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = RECORDING_DEVICE);
    float one[] = {1, 2, 3}, out[3];
    ls_tensor *x = ls_from(run, LS_F32, LS_SHAPE(3), one);
    int64_t before = report_of_device().programs;
    ls_tensor *y = ls_mul(ls_add(x, x), ls_from(run, LS_F32, LS_SHAPE(3), one));
    ls_write(x, (float[]){7, 7, 7}, sizeof one);
    CHECK(report_of_device().programs == before);
    CHECK(ls_read(ls_add(y, x), out, sizeof out) && out[0] == 9 && out[2] == 25);
    CHECK(report_of_device().programs == before + 1);
    CHECK(ls_finish(run) == 0);
}

/* ---- texts of any length are few programs ---- */

#define FOLDER "recorded_texts"

static ls_loader *texts(ls_run *run)
{
    folder_fresh(FOLDER);
    file_append(FOLDER "/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n");
    file_append(FOLDER "/texts.tsv", "sentence\n");
    static const int words[] = {1, 3, 2, 70, 68};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (int w = 0; w < words[i]; w++) file_append(FOLDER "/texts.tsv", w + 1 < words[i] ? "a " : "a\n");
    ls_tokenizer *tokenizer = ls_tokenizer_new(run, FOLDER "/vocab.txt");
    return ls_loader_new(run, ls_text_dataset_new(tokenizer, FOLDER "/texts.tsv", .text = "sentence"));
}

/* With the token at either end, texts have 3, 5, 4, 72 and 70 tokens. */
static void texts_have_few_lengths(void)
{
    static const int64_t recorded[] = {64, 64, 64, 72, 72}, plain[] = {3, 5, 4, 72, 70};
    for (int device = 0; device < 2; device++) {
        ls_run *run = ls_init(NULL, NULL, .device = device ? RECORDING_DEVICE : "cpu");
        ls_module *model =
            ls_bert_new(run, NULL, .vocab_size = 6, .hidden_size = 4, .num_hidden_layers = 1, .num_attention_heads = 1,
                        .intermediate_size = 4, .max_position_embeddings = 72, .unpad = true);
        ls_loader *loader = texts(run);
        ls_prepare(run, model, loader);
        ls_eval(model);
        int64_t i = 0;
        for (ls_batch b; ls_next(loader, &b); i++) {
            if (device && i == 3) CHECK(report_of_device().same); /* the third text's program, and the second's */
            ls_tensor *ids = ls_batch_field(&b, "input_ids");
            int64_t want = (device ? recorded : plain)[i];
            CHECK_MSG(ls_dim(ids, 1) == want, "%lld tokens instead of %lld", (long long)ls_dim(ids, 1),
                      (long long)want);
            ls_forward_all(model, ids, ls_batch_field(&b, "length"));
        }
        CHECK(i == 5);
        CHECK_MSG(ls_finish(run) == 0, "%s", ls_error_message(run));
    }
    folder_remove(FOLDER);
}

static bool get_numbers(int64_t index, ls_sample *sample, void *user)
{
    (void)user;
    float *numbers = ls_sample_resize(sample, 0, LS_SHAPE(index + 1));
    for (int64_t i = 0; numbers && i <= index; i++) numbers[i] = 1;
    return numbers != NULL;
}

/* Of a part of a dataset, too, which does not know what its samples are. */
static void samples_that_are_not_texts_keep_their_sizes(void)
{
    static const int64_t chosen[] = {6, 2};
    ls_run *run = ls_init(NULL, NULL, .device = RECORDING_DEVICE);
    ls_dataset *set = ls_dataset_new(run, .count = 8, .get = get_numbers,
                                     .fields = {{.name = "x", .dtype = LS_F32, .shape = {LS_ANY}}});
    ls_loader *loader = ls_loader_new(run, ls_subset_new(set, chosen, 2), .shuffle = false);
    int seen = 0;
    for (ls_batch b; ls_next(loader, &b); seen++) {
        int64_t size = ls_dim(b.tensor[0], 1);
        CHECK_MSG(size == chosen[seen] + 1, "%lld numbers", (long long)size);
    }
    CHECK(seen == 2);
    CHECK_MSG(ls_finish(run) == 0, "%s", ls_error_message(run));
}

/* ---- memory ends when nobody can ask for it any more ---- */

static void little_outlives_a_step(int step)
{
    recording_report now = report_of_device();
    if (step < 2) return;
    /* 6 parameters, their gradients and 12 moments, 3 buffers, 4 tensors of the batch, the trace of losses that are not
     * finite, the loss that was kept, and its copy: no activation */
    CHECK_MSG(now.outputs <= 6 + 6 + 12 + 3 + 4 + 3, "step %d: %lld pieces of memory outlive it", step,
              (long long)now.outputs);
}

static void activations_end_within_their_step(void)
{
    outcome here = train((settings){"cpu", LS_F32, false}, NULL);
    outcome there = train((settings){RECORDING_DEVICE, LS_F32, false}, little_outlives_a_step);
    same(&here, &there, 0);
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    void *library = dlopen(RECORDING_DEVICE, RTLD_NOW);
    void *symbol = library ? dlsym(library, "recording_report_get") : NULL;
    if (!symbol) return fprintf(stderr, "%s\n", dlerror()), 1;
    memcpy(&report_of_device, &symbol, sizeof symbol);
    CHECK_RUN(steps_are_one_program);
    CHECK_RUN(steps_in_bf16_are_one_program);
    CHECK_RUN(a_scale_that_changes_changes_no_program);
    CHECK_RUN(what_comes_from_the_host_does_not_cut_a_program);
    CHECK_RUN(texts_have_few_lengths);
    CHECK_RUN(samples_that_are_not_texts_keep_their_sizes);
    CHECK_RUN(activations_end_within_their_step);
    return check_done();
}
