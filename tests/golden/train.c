/* train.c - three small networks trained for 20 steps: losses against PyTorch's. */
#include "golden/read.h"

enum { STEPS = 20, BATCHES = 4 };
#define LOSS_TOLERANCE 1e-5
#define STATE_TOLERANCE 1e-4

/* ---- the networks of make.py ---- */

static ls_module *mlp_new(ls_run *run)
{
    return ls_sequential_new(run, ls_linear_new(run, 10, 32), ls_relu_new(run), ls_linear_new(run, 32, 16),
                             ls_tanh_new(run), ls_linear_new(run, 16, 5));
}

static ls_tensor *cnn_forward(ls_module *net, ls_tensor *x, void *user)
{
    (void)user;
    x = ls_forward(ls_child(net, "bn1"), ls_forward(ls_child(net, "conv1"), x));
    x = ls_max_pool2d(ls_relu(x), 2);
    x = ls_relu(ls_forward(ls_child(net, "bn2"), ls_forward(ls_child(net, "conv2"), x)));
    return ls_forward(ls_child(net, "fc"), ls_flatten(ls_adaptive_avg_pool2d(x, 1, 1), 1, -1));
}

static ls_module *cnn_new(ls_run *run)
{
    ls_module *net = ls_module_new(run, "cnn", cnn_forward, NULL);
    ls_module_add(net, "conv1", ls_conv2d_new(run, 2, 8, 3, .padding = 1, .bias = false));
    ls_module_add(net, "bn1", ls_batch_norm_new(run, 8));
    ls_module_add(net, "conv2", ls_conv2d_new(run, 8, 12, 3, .stride = 2, .padding = 1, .bias = false));
    ls_module_add(net, "bn2", ls_batch_norm_new(run, 12));
    ls_module_add(net, "fc", ls_linear_new(run, 12, 5));
    return net;
}

static ls_tensor *transformer_forward(ls_module *net, ls_tensor *x, void *user)
{
    (void)user;
    ls_tensor *y = ls_add(ls_forward(ls_child(net, "tokens"), x), ls_module_tensor(net, "positions"));
    ls_module *layers = ls_child(net, "layers");
    for (int i = 0; i < ls_child_count(layers); i++) y = ls_forward(ls_child_at(layers, i), y);
    return ls_forward(ls_child(net, "head"), ls_forward(ls_child(net, "norm"), y));
}

static ls_module *transformer_new(ls_run *run)
{
    ls_module *net = ls_module_new(run, "transformer", transformer_forward, NULL);
    ls_register_parameter(net, "positions", ls_randn(run, LS_F32, 10, 16));
    ls_module_add(net, "tokens", ls_embedding_new(run, 30, 16, .padding_idx = 0));
    ls_module *layers = ls_module_add(net, "layers", ls_module_list_new_n(run, NULL, 0));
    for (int i = 0; i < 2; i++)
        ls_module_append(
            layers, ls_transformer_layer_new(run, 16, 2, .feedforward = 32, .dropout = 0, .activation = LS_ACT_GELU));
    ls_module_add(net, "norm", ls_layer_norm_new(run, 16));
    ls_module_add(net, "head", ls_linear_new(run, 16, 30));
    return net;
}

/* ---- training ---- */

/* Attention does not depend on the bias of its keys: what an optimiser makes of that gradient is noise. */
static bool is_noise(const char *name)
{
    return strstr(name, "in_proj_bias") != NULL;
}

static void compare_state(const golden *g, const char *name, ls_module *model)
{
    char prefix[64];
    snprintf(prefix, sizeof prefix, "%s/after/", name);
    for (int i = 0; i < g->count; i++)
        if (strncmp(g->entries[i].name, prefix, strlen(prefix)) == 0 && !is_noise(g->entries[i].name))
            golden_compare(ls_module_tensor(model, g->entries[i].name + strlen(prefix)), &g->entries[i],
                           STATE_TOLERANCE);
}

typedef struct training {
    const char *name;
    ls_module *(*make)(ls_run *run);
    ls_optim *(*optimiser)(ls_run *run, ls_module *model);
    ls_schedule *(*schedule)(ls_optim *optim);
    double max_norm; /* 0: gradients are not clipped */
} training;

static void follow_losses(const golden *g, const training *t, ls_run *run, double tolerance)
{
    char prefix[64];
    snprintf(prefix, sizeof prefix, "%s/state/", t->name);
    ls_module *model = t->make(run);
    ls_load_state_dict(model, golden_state(run, g, prefix));
    ls_optim *optim = t->optimiser(run, model);
    ls_schedule *schedule = t->schedule(optim);
    ls_prepare(run, model, optim);
    const float *losses = golden_find(g, "%s/losses", t->name)->data;
    const golden_entry *norms = golden_find(g, "%s/norms", t->name);
    int quiet_steps = 0; /* that ask for no memory */
    for (int i = 0; i < STEPS && !ls_error(run); i++) {
        ls_memory_stats before = ls_memory(run);
        ls_mark mark = ls_scope_begin(run);
        ls_tensor *x = golden_tensor(run, golden_find(g, "%s/x%d", t->name, i % BATCHES));
        ls_tensor *target = golden_tensor(run, golden_find(g, "%s/t%d", t->name, i % BATCHES));
        ls_tensor *logits = ls_forward(model, x);
        ls_tensor *loss = ls_cross_entropy(ls_reshape(logits, -1, ls_dim(logits, -1)), ls_reshape(target, -1));
        double got = ls_item(loss), want = (double)losses[i];
        CHECK_MSG(fabs(got - want) <= tolerance * fabs(want), "%s: loss of step %d is %.9g, expected %.9g", t->name, i,
                  got, want);
        ls_backward(run, loss);
        if (t->max_norm > 0) {
            double norm = ls_item(ls_clip_grad_norm(optim, t->max_norm));
            CHECK_NEAR(norm, ((const float *)norms->data)[i], 10 * tolerance);
        }
        ls_step(optim);
        ls_schedule_step(schedule);
        ls_zero_grad(optim);
        ls_scope_end(run, mark, NULL);
        ls_memory_stats after = ls_memory(run);
        quiet_steps +=
            after.system_requests == before.system_requests && after.device_requests == before.device_requests;
    }
    /* A thread that gets its first piece of a large operator late still needs scratch memory of its own. */
    CHECK_MSG(quiet_steps > STEPS / 2, "%s: %d of %d steps ask for memory", t->name, STEPS - quiet_steps, STEPS);
    if (tolerance <= LOSS_TOLERANCE) compare_state(g, t->name, model);
    CHECK_MSG(ls_error(run) == LS_OK, "%s: %s", t->name, ls_error_message(run));
    ls_clear_error(run);
}

/* ---- the optimisers and schedules of make.py ---- */

static ls_optim *adam(ls_run *run, ls_module *model)
{
    return ls_adam_new(run, model, .lr = 0.01);
}

static ls_optim *sgd(ls_run *run, ls_module *model)
{
    return ls_sgd_new(run, model, .lr = 0.05, .momentum = 0.9, .weight_decay = 1e-3);
}

static ls_optim *adamw(ls_run *run, ls_module *model)
{
    return ls_adamw_new(run, model, .lr = 5e-3, .weight_decay = 0.1);
}

static ls_schedule *constant(ls_optim *optim)
{
    (void)optim;
    return NULL;
}

static ls_schedule *one_cycle(ls_optim *optim)
{
    return ls_one_cycle_schedule_new(optim, .max_lr = 0.1, .total_steps = STEPS + 5);
}

static ls_schedule *warmup(ls_optim *optim)
{
    return ls_warmup_linear_schedule_new(optim, 5, 25);
}

static const training trainings[] = {
    {"mlp", mlp_new, adam, constant, 0},
    {"cnn", cnn_new, sgd, one_cycle, 0},
    {"transformer", transformer_new, adamw, warmup, 1.0},
};

static void follow_all(ls_dtype precision, double tolerance)
{
    golden g = golden_open(GOLDEN_DIR "/train.safetensors");
    for (size_t i = 0; i < sizeof trainings / sizeof *trainings; i++) {
        ls_run *run = golden_run(precision);
        follow_losses(&g, &trainings[i], run, tolerance);
        ls_finish(run);
    }
    golden_close(&g);
}

static void losses_match(void)
{
    follow_all(LS_F32, LOSS_TOLERANCE);
}

static void bf16_comes_close(void)
{
    follow_all(LS_BF16, 0.05);
}

static void f16_comes_close(void)
{
    follow_all(LS_F16, 0.01);
}

int main(int argc, char **argv)
{
    golden_arguments(argc, argv);
    CHECK_RUN(losses_match);
    CHECK_RUN(bf16_comes_close);
    CHECK_RUN(f16_comes_close);
    return check_done();
}
