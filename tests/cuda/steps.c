/* steps.c - a training step stays on the GPU: no operator runs on the CPU, the host does not wait, no memory is
 * allocated once training has settled. Only the loss scaler of f16 may wait, once in a step, for what the step before
 * found. LOCKSTEP_CUDA_WAITS logs what the plug-in does; the log is read back here. */
#include <lockstep.h>
#include <lockstep/models/bert.h>
#include <lockstep/models/resnet.h>

#include <fcntl.h>
#include <unistd.h>

#include "check.h"

enum { SETTLING = 3, STEPS = 3 };

/* ---- the log, while it is caught ---- */

#define CAUGHT "cuda_steps.log"

static int stderr_before;

static void catch_log(void)
{
    int file = open(CAUGHT, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    fflush(stderr);
    stderr_before = dup(STDERR_FILENO);
    dup2(file, STDERR_FILENO);
    close(file);
}

/* Lines of the plug-in are failures, but for some waits for events; the rest is ignored. */
static void check_log(const char *what, int events_allowed)
{
    char line[512];
    int events = 0;
    fflush(stderr);
    dup2(stderr_before, STDERR_FILENO);
    close(stderr_before);
    FILE *file = fopen(CAUGHT, "r");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (strstr(line, "waits for an event") && ++events <= events_allowed) continue;
        if (strstr(line, "cuda: ")) check_fail(__FILE__, __LINE__, "%s: %s", what, line);
    }
    if (file) fclose(file);
    remove(CAUGHT);
}

/* ---- networks ---- */

typedef struct network {
    ls_module *model;
    ls_tensor *input, *second, *labels;
    ls_optim *optim;
} network;

static network bert(ls_run *run)
{
    enum { BATCH = 4, LENGTH = 96, VOCABULARY = 500 };
    ls_module *model = ls_bert_for_sequence_classification_new(run, NULL, .num_labels = 3, .vocab_size = VOCABULARY,
                                                               .hidden_size = 128, .num_hidden_layers = 2,
                                                               .num_attention_heads = 2, .intermediate_size = 512);
    ls_tensor *ids = ls_cast(ls_uniform_shape(run, LS_F32, 1, VOCABULARY, LS_SHAPE(BATCH, LENGTH)), LS_I64);
    ls_tensor *mask = ls_ones(run, LS_I64, BATCH, LENGTH);
    return (network){.model = model,
                     .input = ids,
                     .second = mask,
                     .labels = ls_arange(run, LS_I64, BATCH, 0, 0),
                     .optim = ls_adamw_new(run, model, .lr = 1e-4, .weight_decay = 0.01)};
}

static network resnet(ls_run *run, const char *name)
{
    ls_module *model = ls_resnet_new(run, name, .classes = 10);
    return (network){.model = model,
                     .input = ls_channels_last(ls_randn(run, LS_F32, 8, 3, 64, 64)),
                     .labels = ls_arange(run, LS_I64, 8, 0, 1),
                     .optim = ls_sgd_new(run, model, .lr = 0.01, .momentum = 0.9)};
}

static network resnet18(ls_run *run)
{
    return resnet(run, "resnet18");
}

static network resnet50d(ls_run *run)
{
    return resnet(run, "resnet50d");
}

/* Of which only the classifier is trained. */
static network frozen(ls_run *run)
{
    network n = resnet50d(run);
    ls_freeze(n.model);
    ls_unfreeze(ls_classifier(n.model));
    return n;
}

static ls_tensor *step(ls_run *run, const network *n)
{
    ls_tensor *logits = n->second ? ls_forward(n->model, n->input, n->second) : ls_forward(n->model, n->input);
    ls_tensor *loss = ls_cross_entropy(logits, n->labels);
    ls_backward(run, loss);
    ls_clip_grad_norm(n->optim, 1);
    ls_step(n->optim);
    ls_zero_grad(n->optim);
    return loss;
}

static void train(network (*make)(ls_run *run), const char *name, ls_dtype precision)
{
    char what[64];
    snprintf(what, sizeof what, "%s, %s", name, ls_dtype_name(precision));
    ls_run *run = ls_init(NULL, NULL, .device = CUDA_DEVICE, .mixed_precision = precision);
    network n = make(run);
    ls_prepare(run, n.model, n.optim);
    ls_memory_stats settled = {0};
    double first = 0, last = 0;
    for (int i = 0; i < SETTLING + STEPS && !ls_error(run); i++) {
        ls_mark mark = ls_scope_begin(run);
        if (i == SETTLING) {
            settled = ls_memory(run);
            catch_log();
        }
        ls_tensor *loss = step(run, &n);
        if (i == 0) first = ls_item(loss);
        if (i == SETTLING + STEPS - 1) {
            check_log(what, precision == LS_F16 ? STEPS : 0);
            last = ls_item(loss);
        }
        ls_scope_end(run, mark, NULL);
    }
    CHECK_MSG(ls_error(run) == LS_OK, "%s: %s", what, ls_error_message(run));
    CHECK_MSG(isfinite(first) && isfinite(last), "%s: the loss went from %g to %g", what, first, last);
    CHECK(ls_memory(run).device_requests == settled.device_requests);
    ls_clear_error(run);
    ls_finish(run);
}

static void bert_stays_on_the_gpu_in_f32(void)
{
    train(bert, "bert", LS_F32);
}

static void bert_stays_on_the_gpu_in_bf16(void)
{
    train(bert, "bert", LS_BF16);
}

static void bert_stays_on_the_gpu_in_f16(void)
{
    train(bert, "bert", LS_F16);
}

static void resnet18_stays_on_the_gpu_in_f32(void)
{
    train(resnet18, "resnet18", LS_F32);
}

static void resnet18_stays_on_the_gpu_in_bf16(void)
{
    train(resnet18, "resnet18", LS_BF16);
}

static void resnet50d_stays_on_the_gpu_in_bf16(void)
{
    train(resnet50d, "resnet50d", LS_BF16);
}

static void resnet50d_stays_on_the_gpu_in_f16(void)
{
    train(resnet50d, "resnet50d", LS_F16);
}

static void a_frozen_network_stays_on_the_gpu(void)
{
    train(frozen, "frozen resnet50d", LS_F16);
}

enum { M = 256, K = 8192, N = 512, USES = 70 };

/* What a large product is, at the first use and at the last, in a program of its own. */
static void multiply(float *first, float *last)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 1, .device = CUDA_DEVICE);
    ls_tensor *a = ls_cast(ls_randn(run, LS_F32, M, K), LS_BF16), *b = ls_cast(ls_randn(run, LS_F32, K, N), LS_BF16);
    for (int i = 0; i < USES; i++) {
        ls_mark mark = ls_scope_begin(run);
        ls_tensor *c = ls_cast(ls_matmul(a, b), LS_F32);
        if (i == 0) ls_read(c, first, M * N * sizeof *first);
        if (i == USES - 1) ls_read(c, last, M * N * sizeof *last);
        ls_scope_end(run, mark, NULL);
    }
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
    ls_finish(run);
}

/* Else a training that is resumed would not go on as it would have. */
static void algorithms_found_by_one_program_are_used_by_the_next(void)
{
    static float c[4][M * N];
    multiply(c[0], c[1]);
    multiply(c[2], c[3]);
    for (int i = 2; i < 4; i++) CHECK(memcmp(c[1], c[i], sizeof c[1]) == 0);
}

static void operators_that_run_on_the_host_are_counted(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = CUDA_DEVICE);
    ls_tensor *q = ls_randn(run, LS_F32, 1, 1, 2, 257); /* heads that no kernel takes */
    CHECK(ls_device_stats(run).host_calls == 0);
    ls_read(ls_attention(q, q, q), (float[2 * 257]){0}, 2 * 257 * sizeof(float));
    ls_device_counts counts = ls_device_stats(run);
    CHECK_MSG(counts.host_calls == 1 && strcmp(counts.host_operators, "attention") == 0, "%llu: %s",
              (unsigned long long)counts.host_calls, counts.host_operators);
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
    ls_finish(run);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    setenv("LOCKSTEP_CUDA_WAITS", "1", 1);
    setenv("LOCKSTEP_LOG", "info", 1);
    CHECK_RUN(bert_stays_on_the_gpu_in_f32);
    CHECK_RUN(bert_stays_on_the_gpu_in_bf16);
    CHECK_RUN(bert_stays_on_the_gpu_in_f16);
    CHECK_RUN(resnet18_stays_on_the_gpu_in_f32);
    CHECK_RUN(resnet18_stays_on_the_gpu_in_bf16);
    CHECK_RUN(resnet50d_stays_on_the_gpu_in_bf16);
    CHECK_RUN(resnet50d_stays_on_the_gpu_in_f16);
    CHECK_RUN(a_frozen_network_stays_on_the_gpu);
    CHECK_RUN(algorithms_found_by_one_program_are_used_by_the_next);
    CHECK_RUN(operators_that_run_on_the_host_are_counted);
    return check_done();
}
