/* models.c - whole networks against timm: names, logits, gradients, statistics of batches. Weights are those of
 * make_models.py, computed here again from names and indices. */
#include "golden/read.h"

enum { CLASSES = 10, STEPS = 3, SAMPLES = 6 };

#define LOGIT_TOLERANCE 1e-5 /* in f32, relative to the largest logit; 1e-4 is promised */
#define TRAIN_TOLERANCE                                                                                                \
    1e-5 /* in f64: in f32 a ReLU that flips somewhere moves gradients by a percent, in timm as well */

static uint64_t hash_text(const char *text, uint64_t value)
{
    for (; *text; text++) value = (value ^ (uint8_t)*text) * 0x100000001b3ull;
    return value;
}

static const uint64_t hash_start = 0xcbf29ce484222325ull;

/* Uniform in [-1, 1): splitmix64 of a hash and an index. */
static double noise(uint64_t hash, int64_t i)
{
    uint64_t z = hash + (uint64_t)(i + 1) * 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    z ^= z >> 31;
    return (double)(z >> 40) * 0x1p-23 - 1;
}

static void fill(ls_tensor *t, const char *name, double scale, double shift)
{
    int64_t n = ls_numel(t);
    uint64_t hash = hash_text(name, hash_start);
    float *values = malloc((size_t)n * sizeof *values);
    for (int64_t i = 0; values && i < n; i++) values[i] = (float)(noise(hash, i) * scale + shift);
    CHECK(values && ls_write(t, values, (size_t)n * sizeof *values));
    free(values);
}

static bool ends_with(const char *name, const char *end)
{
    return strlen(name) >= strlen(end) && strcmp(name + strlen(name) - strlen(end), end) == 0;
}

static void fill_model(ls_module *model)
{
    ls_state *state = ls_state_dict(model);
    for (int64_t i = 0; i < ls_state_count(state); i++) {
        ls_tensor *t = ls_state_tensor(state, i);
        const char *name = ls_state_name(state, i);
        if (ls_dtype_of(t) != LS_F32) continue;
        if (ls_ndim(t) > 1) fill(t, name, sqrt(6.0 / ((double)ls_numel(t) / (double)ls_dim(t, 0))), 0);
        else if (ends_with(name, "running_var")) fill(t, name, 0.25, 1);
        else if (ends_with(name, "weight")) fill(t, name, 0.0625, 0.25);
        else fill(t, name, 0.125, 0);
    }
}

static ls_tensor *images(ls_run *run, const char *name, ls_shape shape)
{
    ls_tensor *x = ls_empty_shape(run, LS_F32, shape);
    fill(x, name, 2, 0);
    return x;
}

/* ---- comparison ---- */

static void compare_logits(const golden *g, const char *name, ls_module *model)
{
    ls_run *run = ls_module_run(model);
    ls_mark mark = ls_scope_begin(run);
    ls_eval(model);
    ls_no_grad_begin(run);
    golden_compare(ls_forward(model, images(run, "evaluated", LS_SHAPE(2, 3, 75, 66))),
                   golden_find(g, "%s/logits", name), LOGIT_TOLERANCE);
    ls_no_grad_end(run);
    ls_train(model);
    ls_scope_end(run, mark, NULL);
}

/* Elements spread over a tensor, against row `row` of the wanted ones, relative to `size`. */
static void compare_samples(ls_tensor *t, const golden_entry *want, int64_t row, double size, const char *name)
{
    const float *expected = (const float *)want->data + row * SAMPLES;
    int64_t n = ls_numel(t);
    double *values = malloc((size_t)n * sizeof *values);
    CHECK(values && ls_read(ls_cast(t, LS_F64), values, (size_t)n * sizeof *values));
    for (int64_t i = 0; values && i < SAMPLES; i++) {
        double got = values[i * (n - 1) / (SAMPLES - 1)];
        CHECK_MSG(fabs(got - (double)expected[i]) <= TRAIN_TOLERANCE * size,
                  "%s of %s: sample %lld is %.9g, expected %.9g", name, want->name, (long long)i, got,
                  (double)expected[i]);
    }
    free(values);
}

static void compare_gradients(const golden *g, const char *name, ls_module *model)
{
    const golden_entry *samples = golden_find(g, "%s/gradients", name), *norms = golden_find(g, "%s/norms", name);
    ls_state *parameters = ls_parameters(model);
    CHECK(ls_state_count(parameters) == norms->shape.dim[0]);
    for (int64_t i = 0; i < ls_state_count(parameters); i++) {
        ls_tensor *gradient = ls_grad(ls_state_tensor(parameters, i));
        double norm = (double)((const float *)norms->data)[i], got = ls_item(ls_norm(gradient));
        CHECK_MSG(fabs(got - norm) <= TRAIN_TOLERANCE * norm, "%s: gradient of %s has norm %.9g, expected %.9g", name,
                  ls_state_name(parameters, i), got, norm);
        compare_samples(gradient, samples, i, norm, ls_state_name(parameters, i));
    }
}

static void compare_running(const golden *g, const char *name, ls_module *model)
{
    const golden_entry *want = golden_find(g, "%s/running", name);
    ls_state *running = ls_state_matching(ls_state_dict(model), "*running*");
    CHECK(ls_state_count(running) == want->shape.dim[0]);
    for (int64_t i = 0; i < ls_state_count(running); i++)
        compare_samples(ls_state_tensor(running, i), want, i, 1, ls_state_name(running, i));
}

static void follow_steps(const golden *g, const char *name, ls_module *model)
{
    ls_run *run = ls_module_run(model);
    ls_module_cast(model, LS_F64);
    ls_optim *optim = ls_sgd_new(run, model, .lr = 0.01);
    const float *losses = golden_find(g, "%s/losses", name)->data;
    for (int step = 0; step < STEPS; step++) {
        char seed[16];
        int64_t labels[2] = {0, 3};
        snprintf(seed, sizeof seed, "step%d", step);
        ls_mark mark = ls_scope_begin(run);
        ls_tensor *x = ls_cast(images(run, seed, LS_SHAPE(2, 3, 64, 64)), LS_F64);
        ls_tensor *loss = ls_cross_entropy(ls_forward(model, x), ls_from(run, LS_I64, LS_SHAPE(2), labels));
        CHECK_NEAR(ls_item(loss), losses[step], TRAIN_TOLERANCE);
        ls_backward(run, loss);
        if (step == 0) compare_gradients(g, name, model);
        ls_step(optim);
        ls_zero_grad(optim);
        ls_scope_end(run, mark, NULL);
    }
    compare_running(g, name, model);
}

static void compare_model(const char *golden_name, const char *name, bool v1_strides)
{
    golden g = golden_open(GOLDEN_DIR "/models.safetensors");
    ls_run *run = golden_run(LS_F32);
    ls_module *model = ls_resnet_new(run, name, .classes = CLASSES, .v1_strides = v1_strides);
    fill_model(model);
    compare_logits(&g, golden_name, model);
    follow_steps(&g, golden_name, model);
    CHECK_MSG(ls_error(run) == LS_OK, "%s: %s", golden_name, ls_error_message(run));
    ls_finish(run);
    golden_close(&g);
}

static void resnet10t_is_timms(void)
{
    compare_model("resnet10t", "resnet10t", false);
}

static void resnet18_is_timms(void)
{
    compare_model("resnet18", "resnet18", false);
}

static void resnet50_is_timms(void)
{
    compare_model("resnet50", "resnet50", false);
}

static void resnet50d_is_timms(void)
{
    compare_model("resnet50d", "resnet50d", false);
}

static void resnet50_with_v1_strides_is_timms(void)
{
    compare_model("resnet50v1", "resnet50", true);
}

/* ---- all of them ---- */

/* Hash of the lines "name:[2,3]" of the state. */
static uint64_t hash_names(ls_state *state)
{
    uint64_t hash = hash_start;
    for (int64_t i = 0; i < ls_state_count(state); i++) {
        char text[256];
        ls_shape shape = ls_shape_of(ls_state_tensor(state, i));
        hash = hash_text(ls_state_name(state, i), hash);
        hash = hash_text(":[", hash);
        for (int d = 0; d < shape.ndim; d++) {
            snprintf(text, sizeof text, "%s%lld", d ? "," : "", (long long)shape.dim[d]);
            hash = hash_text(text, hash);
        }
        hash = hash_text("]\n", hash);
    }
    return hash;
}

static void names_and_shapes_are_timms(void)
{
    FILE *file = fopen(GOLDEN_DIR "/models.txt", "r");
    char name[64];
    long long entries, parameters;
    unsigned long long hash;
    int models = 0;
    CHECK(file);
    while (file && fscanf(file, "%63s %lld %lld %llx", name, &entries, &parameters, &hash) == 4) {
        ls_run *run = golden_run(LS_F32);
        ls_module *model = ls_resnet_new(run, name);
        CHECK_MSG(ls_state_count(ls_state_dict(model)) == entries, "%s: another number of entries", name);
        CHECK_MSG(ls_parameter_count(model) == parameters, "%s: another number of parameters", name);
        CHECK_MSG(hash_names(ls_state_dict(model)) == hash, "%s: other names or shapes", name);
        CHECK_MSG(ls_finish(run) == 0, "%s", name);
        models++;
    }
    if (file) fclose(file);
    CHECK(models == 18);
}

int main(int argc, char **argv)
{
    golden_arguments(argc, argv);
    CHECK_RUN(resnet10t_is_timms);
    CHECK_RUN(resnet18_is_timms);
    CHECK_RUN_SLOW(resnet50_is_timms);
    CHECK_RUN_SLOW(resnet50d_is_timms);
    CHECK_RUN_SLOW(resnet50_with_v1_strides_is_timms);
    CHECK_RUN_SLOW(names_and_shapes_are_timms);
    return check_done();
}
