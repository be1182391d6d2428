/* models.c - small forms of the networks of the tutorials train on device xla as on the CPU: every operator is
 * compiled, and after the first step nothing more is. */
#include <lockstep.h>

#include "check.h"

enum { STEPS = 5, BATCH = 4 };

typedef struct outcome {
    double loss[STEPS];
    ls_device_counts settled, end; /* when nothing new should happen any more, and in the end */
} outcome;

typedef ls_module *network_fn(ls_run *run);
typedef ls_tensor *loss_fn(ls_module *net, ls_batch *b);

typedef struct training {
    network_fn *network;
    loss_fn *loss;
    ls_tensor *(*inputs)(ls_run *run); /* of all steps */
    ls_dtype precision;
    bool sgd;
} training;

static outcome train(const training *t, const char *device)
{
    outcome out = {0};
    ls_run *run = ls_init(NULL, NULL, .seed = 3, .device = device, .mixed_precision = t->precision);
    ls_module *net = t->network(run);
    ls_optim *optim = t->sgd ? ls_sgd_new(run, net, .lr = 0.05, .momentum = 0.9) : ls_adamw_new(run, net, .lr = 1e-3);
    ls_schedule *schedule = ls_cosine_schedule_new(optim, STEPS, 0);
    int64_t label[STEPS * BATCH];
    for (int i = 0; i < STEPS * BATCH; i++) label[i] = i * 5 % 3;
    ls_tensor *labels = ls_from(run, LS_I64, LS_SHAPE(STEPS * BATCH), label);
    ls_loader *loader =
        ls_loader_new(run, ls_tensor_dataset_new(run, t->inputs(run), labels), .batch = BATCH, .shuffle = false);
    ls_prepare(run, net, optim, schedule, loader);
    ls_tensor *losses[STEPS] = {0};
    int step = 0;
    for (ls_batch b; ls_next(loader, &b); step++) {
        if (step == 1) out.settled = ls_device_stats(run);
        ls_tensor *loss = t->loss(net, &b);
        losses[step] = ls_keep(ls_detach(loss));
        ls_backward(run, loss);
        ls_clip_grad_norm(optim, 1);
        ls_step(optim);
        ls_schedule_step(schedule);
        ls_zero_grad(optim);
    }
    CHECK(step == STEPS);
    out.end = ls_device_stats(run);
    for (int i = 0; i < step; i++) out.loss[i] = ls_item(losses[i]);
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
    ls_finish(run);
    return out;
}

static uint64_t programs(const ls_device_counts *counts)
{
    return counts->compiled + counts->loaded;
}

static void compare(const training *t, double tolerance)
{
    outcome cpu = train(t, "cpu"), xla = train(t, XLA_DEVICE);
    for (int i = 0; i < STEPS; i++) CHECK_NEAR(xla.loss[i], cpu.loss[i], tolerance);
    CHECK_MSG(xla.end.host_calls == 0, "%llu operators ran on the host: %s", (unsigned long long)xla.end.host_calls,
              xla.end.host_operators);
    CHECK_MSG(programs(&xla.end) == programs(&xla.settled), "%llu programs were made late",
              (unsigned long long)(programs(&xla.end) - programs(&xla.settled)));
}

/* ---- pictures ---- */

static ls_module *resnet(ls_run *run)
{
    return ls_resnet_new(run, "resnet14t", .width = 8, .classes = 3);
}

static ls_tensor *pictures(ls_run *run)
{
    return ls_randn(run, LS_F32, STEPS * BATCH, 3, 32, 32);
}

static ls_tensor *class_loss(ls_module *net, ls_batch *b)
{
    return ls_cross_entropy(ls_forward(net, b->tensor[0]), b->tensor[1]);
}

static void a_resnet_trains_as_on_the_cpu(void)
{
    compare(&(training){.network = resnet, .loss = class_loss, .inputs = pictures, .sgd = true}, 2e-3);
}

/* ---- texts ---- */

static ls_module *bert(ls_run *run)
{
    return ls_bert_for_sequence_classification_new(run, NULL, .num_labels = 3, .vocab_size = 50, .hidden_size = 32,
                                                   .num_hidden_layers = 2, .num_attention_heads = 4,
                                                   .intermediate_size = 64, .max_position_embeddings = 20);
}

static ls_tensor *texts(ls_run *run)
{
    int64_t ids[STEPS * BATCH * 12];
    for (int i = 0; i < STEPS * BATCH * 12; i++) ids[i] = 1 + i * 31 % 49;
    return ls_from(run, LS_I64, LS_SHAPE(STEPS * BATCH, 12), ids);
}

static ls_tensor *text_loss(ls_module *net, ls_batch *b)
{
    return ls_bert_classification_loss(net, ls_forward(net, b->tensor[0]), b->tensor[1]);
}

static void bert_trains_as_on_the_cpu(void)
{
    compare(&(training){.network = bert, .loss = text_loss, .inputs = texts}, 1e-4);
}

static void bert_trains_in_half_precision(void)
{
    compare(&(training){.network = bert, .loss = text_loss, .inputs = texts, .precision = LS_BF16}, 2e-2);
}

int main(void)
{
    CHECK_RUN(a_resnet_trains_as_on_the_cpu);
    CHECK_RUN(bert_trains_as_on_the_cpu);
    CHECK_RUN(bert_trains_in_half_precision);
    return check_done();
}
