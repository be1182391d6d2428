/* resnet.c - residual networks: options, first weights, files of weights, what a frozen one costs.
 * tests/golden/models.c compares their numbers with timm's. */
#include "check.h"
#include "tensor/context.h"

#include <lockstep.h>

#include <unistd.h>

static void unknown_names_list_the_known(void)
{
    ls_run *run = ls_init(NULL, NULL);
    CHECK(ls_resnet_new(run, "resnet51") == NULL && ls_error(run) == LS_ERR_VALUE);
    const char *message = ls_error_message(run);
    CHECK_MSG(strstr(message, "\"resnet51\"") && strstr(message, "resnet10t, ") && strstr(message, "resnet200d"), "%s",
              message);
    CHECK_MSG(strstr(message, "; did you mean \"resnet50\"? known are "), "%s", message);
    ls_clear_error(run);
    CHECK(ls_resnet_new(run, NULL) == NULL && ls_error(run) == LS_ERR_VALUE);
    ls_clear_error(run);
    ls_finish(run);
}

static void senseless_options_are_refused(void)
{
    ls_run *run = ls_init(NULL, NULL);
    CHECK(ls_resnet_new(run, "resnet18", .classes = -1) == NULL && ls_error(run) == LS_ERR_VALUE);
    ls_clear_error(run);
    CHECK(ls_resnet_new(run, "resnet18", .width = 12) == NULL && ls_error(run) == LS_ERR_VALUE);
    ls_clear_error(run);
    CHECK(ls_classifier(ls_relu_new(run)) == NULL && ls_error(run) == LS_ERR_VALUE);
    ls_clear_error(run);
    CHECK(ls_classifier(NULL) == NULL && ls_finish(run) == 0);
}

static double deviation(ls_tensor *t)
{
    return sqrt(ls_item(ls_var(t, 0)));
}

static void first_weights_are_those_of_timm(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *net = ls_resnet_new(run, "resnet26d", .classes = 20);
    CHECK_NEAR(deviation(ls_module_tensor(net, "layer3.0.conv2.weight")), sqrt(2.0 / (256 * 9)), 0.001);
    CHECK_NEAR(deviation(ls_module_tensor(net, "layer4.1.conv3.weight")), sqrt(2.0 / 2048), 0.001);
    CHECK_NEAR(deviation(ls_module_tensor(net, "conv1.0.weight")), sqrt(2.0 / (32 * 9)), 0.01);
    CHECK(ls_item(ls_max(ls_module_tensor(net, "layer2.1.bn3.weight"))) == 0);
    CHECK(ls_item(ls_min(ls_module_tensor(net, "layer2.1.bn2.weight"))) == 1);
    CHECK(ls_item(ls_min(ls_module_tensor(net, "layer2.0.downsample.2.weight"))) == 1);
    double bound = 1 / sqrt(2048), largest = ls_item(ls_max(ls_abs(ls_module_tensor(net, "fc.weight"))));
    CHECK(largest <= bound && largest > 0.99 * bound);
    CHECK(ls_dim(ls_module_tensor(ls_classifier(net), "weight"), 0) == 20);
    CHECK(ls_finish(run) == 0);
}

static void other_widths_and_channels_run(void)
{
    ls_run *run = ls_init(NULL, NULL, .mixed_precision = LS_BF16);
    ls_module *net = ls_resnet_new(run, "resnet14t", .width = 8, .in_channels = 1, .classes = 3);
    ls_prepare(run, net);
    ls_tensor *x = ls_randn(run, LS_F32, 2, 1, 33, 47);
    ls_backward(run, ls_cross_entropy(ls_forward(net, x), ls_zeros(run, LS_I64, 2)));
    CHECK(ls_grad(ls_module_tensor(net, "conv1.0.weight")) != NULL);
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
    ls_finish(run);
}

/* ---- files ---- */

#define SMALL "resnet10t", .width = 8

static bool same(ls_module *a, ls_module *b, const char *name)
{
    return ls_item(ls_max(ls_abs(ls_sub(ls_module_tensor(a, name), ls_module_tensor(b, name))))) == 0;
}

static void weights_come_from_files(void)
{
    char file[64];
    snprintf(file, sizeof file, "resnet-%d.safetensors", (int)getpid());
    ls_run *run = ls_init(NULL, NULL);
    ls_module *old = ls_resnet_new(run, SMALL, .classes = 5);
    ls_init_normal(ls_module_tensor(old, "bn1.running_mean"), 0, 1);
    CHECK(ls_state_write(ls_state_without(ls_state_dict(old), "*.num_batches_tracked"), file));

    ls_module *copy = ls_resnet_new(run, SMALL, .classes = 5, .weights = file);
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
    CHECK(same(old, copy, "layer4.0.conv2.weight") && same(old, copy, "bn1.running_mean") &&
          same(old, copy, "fc.bias"));

    ls_module *other = ls_resnet_new(run, SMALL, .classes = 7, .weights = file);
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
    CHECK(same(old, other, "layer4.0.conv2.weight") && same(old, other, "conv1.6.weight"));
    CHECK(ls_dim(ls_module_tensor(other, "fc.weight"), 0) == 7 && deviation(ls_module_tensor(other, "fc.weight")) > 0);

    /* as a program of PyTorch keeps them, with what else it needs */
    CHECK(ls_state_write(ls_state_read(run, file, .prefix = "state_dict.module."), file));
    copy = ls_resnet_new(run, SMALL, .classes = 5, .weights = file);
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
    CHECK(same(old, copy, "layer4.0.conv2.weight"));
    CHECK(ls_state_write(ls_state_dict(old), file));

    CHECK(ls_resnet_new(run, "resnet10t", .width = 16, .classes = 5, .weights = file) == NULL);
    CHECK_MSG(ls_error(run) == LS_ERR_SHAPE && strstr(ls_error_message(run), "conv1.0.weight of resnet10t is"), "%s",
              ls_error_message(run));
    CHECK_MSG(strncmp(ls_error_message(run), file, strlen(file)) == 0, "%s", ls_error_message(run));
    ls_clear_error(run);
    CHECK(ls_state_write(ls_state_without(ls_state_dict(old), "layer1.0.conv1.weight|layer3.0.bn1.bias"), file));
    CHECK(ls_resnet_new(run, SMALL, .classes = 7, .weights = file) == NULL);
    CHECK_MSG(strstr(ls_error_message(run), "missing layer1.0.conv1.weight, layer3.0.bn1.bias"), "%s",
              ls_error_message(run));
    ls_clear_error(run);
    CHECK(ls_resnet_new(run, SMALL, .weights = "nowhere.safetensors") == NULL && ls_error(run) == LS_ERR_IO);
    ls_clear_error(run);
    unlink(file);
    CHECK(ls_finish(run) == 0);
}

/* ---- frozen ---- */

static ls_tensor *loss_of(ls_module *net, ls_tensor *x)
{
    ls_tensor *labels = ls_zeros(ls_module_run(net), LS_I64, ls_dim(x, 0));
    return ls_cross_entropy(ls_forward(net, ls_imagenet_normalize(x)), labels);
}

/* Neither are its activations kept for backward nor its operators recorded;
 * its batch norms go on learning what they see. */
static void a_frozen_backbone_is_not_differentiated(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *net = ls_resnet_new(run, SMALL, .classes = 5);
    ls_tensor *x = ls_rand(run, LS_F32, 4, 3, 64, 64);
    size_t held[2];
    uint64_t recorded[2];
    for (int frozen = 0; frozen < 2; frozen++) {
        if (frozen) {
            ls_freeze(net);
            ls_unfreeze(ls_classifier(net));
        }
        ls_mark mark = ls_scope_begin(run);
        size_t before = ls_memory(run).in_use;
        uint64_t nodes = run->node_serial;
        double mean = ls_item(ls_sum(ls_module_tensor(net, "layer4.0.bn2.running_var")));
        ls_tensor *loss = loss_of(net, x);
        held[frozen] = ls_memory(run).in_use - before;
        recorded[frozen] = run->node_serial - nodes;
        CHECK(ls_item(ls_sum(ls_module_tensor(net, "layer4.0.bn2.running_var"))) != mean);
        ls_backward(run, loss);
        ls_scope_end(run, mark, NULL);
    }
    CHECK_MSG(recorded[1] <= 3 && recorded[0] > 20, "%d operators recorded, %d of them frozen", (int)recorded[0],
              (int)recorded[1]);
    size_t normalised = 4 * 3 * 64 * 64 * sizeof(float); /* belongs to this scope, not to the tape */
    CHECK_MSG(held[1] < normalised + 20000 && held[0] > 500000, "%zu bytes held, %zu when frozen", held[0], held[1]);

    ls_state *parameters = ls_parameters(net);
    for (int64_t i = 0; i < ls_state_count(parameters); i++) {
        ls_tensor *p = ls_state_tensor(parameters, i);
        CHECK(ls_requires_grad(p) == (strncmp(ls_state_name(parameters, i), "fc.", 3) == 0));
    }
    CHECK(ls_item(ls_module_tensor(net, "bn1.num_batches_tracked")) == 2);
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
    ls_finish(run);
}

static void evaluation_changes_nothing(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *net = ls_resnet_new(run, SMALL, .classes = 5);
    ls_state *before = ls_state_copy(ls_state_dict(net));
    ls_eval(net);
    ls_forward(net, ls_randn(run, LS_F32, 2, 3, 32, 32));
    ls_state *after = ls_state_dict(net);
    for (int64_t i = 0; i < ls_state_count(after); i++)
        CHECK(ls_item(ls_max(ls_ne(ls_state_tensor(after, i), ls_state_tensor(before, i)))) == 0);
    CHECK(ls_finish(run) == 0);
}

/* ---- real weights ---- */

/* A copy of the name of a file of test data; "" where it is not there, and the test counts as skipped. */
typedef struct file_name {
    char text[1024];
} file_name;

static file_name find_file(const char *name)
{
    file_name found;
    const char *path = check_data(name);
    snprintf(found.text, sizeof found.text, "%s", path ? path : "");
    return found;
}

/* The numbers of an .npy file of f32. */
static ls_tensor *tensor_of_file(ls_run *run, const char *path, ls_shape shape)
{
    ls_tensor *t = ls_empty_shape(run, LS_F32, shape);
    size_t bytes = (size_t)ls_numel(t) * sizeof(float);
    uint8_t start[10];
    float *values = malloc(bytes);
    FILE *file = fopen(path, "rb");
    CHECK(values && file && fread(start, 1, sizeof start, file) == sizeof start);
    if (file) fseek(file, start[8] + 256 * start[9], SEEK_CUR); /* the length of the header */
    CHECK(file && values && fread(values, 1, bytes, file) == bytes && ls_write(t, values, bytes));
    if (file) fclose(file);
    free(values);
    return t;
}

static void imagenet_weights_give_known_logits(void)
{
    file_name weights = find_file("resnet50_imagenet/resnet50_v1_imagenet.safetensors");
    file_name input = find_file("resnet50_imagenet/ref_input_2x3x224x224.npy");
    file_name logits = find_file("resnet50_imagenet/ref_logits_2x1000.npy");
    if (!weights.text[0] || !input.text[0] || !logits.text[0]) return;
    ls_run *run = ls_init(NULL, NULL);
    ls_module *net = ls_resnet_new(run, "resnet50", .weights = weights.text, .v1_strides = true);
    ls_tensor *x = tensor_of_file(run, input.text, LS_SHAPE(2, 3, 224, 224));
    ls_tensor *want = tensor_of_file(run, logits.text, LS_SHAPE(2, 1000));
    ls_eval(net);
    ls_tensor *got = ls_forward(net, x);
    CHECK_NEAR(ls_item(ls_max(ls_abs(ls_sub(got, want)))), 0, 1e-3);
    ls_tensor *best = ls_argmax(got);
    CHECK(ls_item(ls_select(best, 0, 0)) == 0 && ls_item(ls_select(best, 0, 1)) == 1); /* tench, goldfish */
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
    ls_finish(run);
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    CHECK_RUN(unknown_names_list_the_known);
    CHECK_RUN(senseless_options_are_refused);
    CHECK_RUN(first_weights_are_those_of_timm);
    CHECK_RUN(other_widths_and_channels_run);
    CHECK_RUN(weights_come_from_files);
    CHECK_RUN(a_frozen_backbone_is_not_differentiated);
    CHECK_RUN(evaluation_changes_nothing);
    CHECK_RUN_SLOW(imagenet_weights_give_known_logits);
    return check_done();
}
