/* held.c - how much memory modules hold while they run, and for how long. */
#include <lockstep.h>

#include "base/guard.h"
#include "check.h"

enum { NUMBERS = 1 << 16, BYTES = 4 * NUMBERS };

static ls_tensor *numbers_new(ls_run *run)
{
    return ls_reshape(ls_arange(run, LS_F32, NUMBERS, -2, 4.0 / NUMBERS), 1, 4, 128, 128);
}

/* What a forward pass without gradients holds at most, beside its input and the parameters. */
static size_t most_held(ls_run *run, ls_module *net, ls_tensor *x)
{
    size_t before = ls_memory(run).in_use;
    CHECK(before > ls_memory(run).peak / 2); /* else making the network may have held more */
    ls_no_grad_begin(run);
    ls_drop(ls_forward(net, x));
    ls_no_grad_end(run);
    return ls_memory(run).peak - before;
}

static void check_results_held(ls_run *run, ls_module *net, size_t results)
{
    size_t most = most_held(run, net, numbers_new(run));
    CHECK_MSG(most == results * (BYTES + LS_GUARD_GAP), "%zu", most);
    CHECK(ls_finish(run) == 0);
}

static void a_sequential_holds_two_results_at_a_time(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *net = ls_sequential_new(run, ls_tanh_new(run), ls_flatten_new(run), ls_relu_new(run),
                                       ls_dropout_new(run, 0), ls_tanh_new(run), ls_sigmoid_new(run));
    check_results_held(run, net, 2);
}

static void a_nested_one_holds_its_input_as_well(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *net = ls_sequential_new_n(run, NULL, 0);
    for (int i = 0; i < 3; i++)
        ls_module_append(
            net, ls_sequential_new(run, ls_tanh_new(run), ls_identity_new(run), ls_relu_new(run), ls_tanh_new(run)));
    check_results_held(run, net, 3);
}

static void inputs_and_outputs_stay(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *nothing = ls_sequential_new(run, ls_identity_new(run), ls_identity_new(run));
    ls_module *net = ls_sequential_new(run, nothing, ls_relu_new(run), nothing, ls_flatten_new(run), nothing);
    ls_tensor *x = numbers_new(run), *y = ls_forward(net, x);
    CHECK(ls_forward(nothing, x) == x);
    CHECK_NEAR(ls_item(ls_mean(x)), 0, 1e-3);
    CHECK_NEAR(ls_item(ls_mean(y)), 0.5, 1e-3);
    CHECK(ls_finish(run) == 0);
}

static void gradients_are_those_of_the_operators(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *net = ls_sequential_new(run, ls_tanh_new(run), ls_relu_new(run), ls_gelu_new(run), ls_flatten_new(run));
    ls_tensor *x = ls_set_requires_grad(numbers_new(run), true), *same = ls_set_requires_grad(numbers_new(run), true);
    for (int recomputed = 0; recomputed < 2; recomputed++) {
        ls_set_recompute(net, recomputed);
        ls_backward(run, ls_sum(ls_forward(net, x)));
        ls_backward(run, ls_sum(ls_gelu(ls_relu(ls_tanh(same)))));
        CHECK_NEAR(ls_item(ls_norm(ls_sub(ls_grad(x), ls_grad(same)))), 0, 1e-5);
    }
    CHECK(ls_finish(run) == 0);
}

/* ---- what the program remembers ---- */

static ls_tensor *remember(ls_module *self, ls_tensor *x, void *user)
{
    (void)self;
    *(ls_tensor **)user = x;
    return x;
}

static ls_tensor *add_remembered(ls_module *self, ls_tensor *x, void *user)
{
    (void)self;
    return ls_add(x, *(ls_tensor **)user);
}

static ls_tensor *make_and_remember(ls_module *self, ls_tensor *x, void *user)
{
    return remember(self, ls_neg(x), user);
}

static void modules_of_the_program_may_remember_what_they_see(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_tensor *seen = NULL, *made = NULL, *x = numbers_new(run);
    ls_module *inner = ls_sequential_new(run, ls_module_new(run, "Remember", remember, &seen));
    ls_module *net = ls_sequential_new(run, ls_tanh_new(run), ls_identity_new(run), inner, ls_identity_new(run),
                                       ls_tanh_new(run), ls_module_new(run, "Make", make_and_remember, &made),
                                       ls_relu_new(run), ls_module_new(run, "Add", add_remembered, &seen),
                                       ls_module_new(run, "Add", add_remembered, &made));
    ls_tensor *first = ls_tanh(x), *second = ls_tanh(first);
    ls_tensor *wanted = ls_sub(ls_add(ls_relu(ls_neg(second)), first), second);
    CHECK_NEAR(ls_item(ls_norm(ls_sub(ls_forward(net, x), wanted))), 0, 1e-5);
    CHECK(ls_finish(run) == 0);
}

static void remember_output(ls_module *module, ls_tensor *const *inputs, int64_t n, ls_outputs *outputs, void *user)
{
    (void)module, (void)inputs, (void)n;
    *(ls_tensor **)user = outputs->item[0];
}

static void remember_input(ls_module *module, ls_tensor **inputs, int64_t n, void *user)
{
    (void)module, (void)n;
    *(ls_tensor **)user = inputs[0];
}

static void keep_input(ls_module *module, ls_tensor **inputs, int64_t n, void *user)
{
    remember_input(module, inputs, n, user);
    ls_keep(inputs[0]);
}

static void subtract_remembered(ls_module *module, ls_tensor *const *inputs, int64_t n, ls_outputs *outputs, void *user)
{
    (void)module, (void)inputs, (void)n;
    outputs->item[0] = ls_sub(outputs->item[0], *(ls_tensor **)user);
}

static void hooks_may_remember_what_they_see(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_tensor *after = NULL, *before = NULL, *kept = NULL, *x = numbers_new(run);
    ls_module *relu = ls_relu_new(run), *squash = ls_tanh_new(run), *last = ls_identity_new(run);
    ls_module *net = ls_sequential_new(run, ls_tanh_new(run), ls_sequential_new(run, relu),
                                       ls_sequential_new(run, squash), ls_sigmoid_new(run), last);
    ls_register_forward_hook(relu, remember_output, &after);
    ls_register_forward_pre_hook(relu, remember_input, &before);
    ls_register_forward_pre_hook(squash, keep_input, &kept);
    ls_register_forward_hook(last, subtract_remembered, &after);
    ls_register_forward_hook(last, subtract_remembered, &before);
    ls_tensor *first = ls_tanh(x), *second = ls_relu(first);
    ls_tensor *wanted = ls_sub(ls_sub(ls_sigmoid(ls_tanh(second)), second), first);
    CHECK_NEAR(ls_item(ls_norm(ls_sub(ls_forward(net, x), wanted))), 0, 1e-5);
    CHECK_NEAR(ls_item(ls_norm(ls_sub(kept, second))), 0, 1e-5);
    CHECK(ls_finish(run) == 0);
}

/* A hook that is called once. */
typedef struct once {
    ls_hook *hook;
    ls_tensor *seen;
} once;

static void remember_once(ls_module *module, ls_tensor *const *inputs, int64_t n, ls_outputs *outputs, void *user)
{
    once *o = user;
    remember_output(module, inputs, n, outputs, &o->seen);
    ls_hook_remove(o->hook);
}

static void hooks_that_are_gone_may_have_remembered_it(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *net = ls_sequential_new(run, ls_tanh_new(run), ls_relu_new(run), ls_sigmoid_new(run));
    once o = {0};
    o.hook = ls_register_forward_hook(ls_child(net, "0"), remember_once, &o);
    ls_register_forward_hook(ls_child(net, "2"), subtract_remembered, &o.seen);
    ls_tensor *x = numbers_new(run), *first = ls_tanh(x), *wanted = ls_sub(ls_sigmoid(ls_relu(first)), first);
    CHECK_NEAR(ls_item(ls_norm(ls_sub(ls_forward(net, x), wanted))), 0, 1e-5);
    CHECK(ls_finish(run) == 0);
}

/* ---- residual networks ---- */

enum { PIXELS = 16 * 16, PHOTOS = 4 };

/* The block that holds most has an input of 8 channels, another 8 before its last convolution, and a shortcut and a
 * result of 32. */
static void a_residual_network_holds_one_block(void)
{
    static const char *const networks[] = {"resnet14t", "resnet26d", "resnet50d", "resnet50"};
    for (int i = 0; i < 4; i++) {
        ls_run *run = ls_init(NULL, NULL, .seed = 1);
        ls_module *net = ls_resnet_new(run, networks[i], .classes = 2, .width = 8);
        ls_tensor *photos = ls_randn(run, LS_F32, PHOTOS, 3, 64, 64);
        for (int training = 0; training < 2; training++) {
            if (!training) ls_eval(net);
            else ls_train(net);
            size_t most = most_held(run, net, photos), wanted = (size_t)PHOTOS * PIXELS * (8 + 8 + 32 + 32) * 4;
            CHECK_MSG(most <= wanted + 4096, "%s: %zu instead of %zu", networks[i], most, wanted);
        }
        CHECK(ls_finish(run) == 0);
    }
}

static void copy_output(ls_module *module, ls_tensor *const *inputs, int64_t n, ls_outputs *outputs, void *user)
{
    (void)module, (void)inputs, (void)n, (void)user;
    outputs->item[0] = ls_add_scalar(outputs->item[0], 0);
}

static void double_output(ls_module *module, ls_tensor *const *inputs, int64_t n, ls_outputs *outputs, void *user)
{
    (void)module, (void)inputs, (void)n, (void)user;
    ls_assign(outputs->item[0], ls_mul_scalar(ls_detach(outputs->item[0]), 2));
}

static void copy_and_double_output(ls_module *module, ls_tensor *const *inputs, int64_t n, ls_outputs *outputs,
                                   void *user)
{
    copy_output(module, inputs, n, outputs, user);
    double_output(module, inputs, n, outputs, user);
}

typedef struct training {
    size_t held;  /* for backward */
    double slope; /* of the weights that read averages */
} training;

/* What is done to the three blocks whose shortcuts begin with averages. */
typedef struct change {
    ls_forward_hook_fn *hook; /* of the averages */
    const char *recomputed, *frozen;
} change;

static training train(change with)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 1);
    ls_module *net = ls_resnet_new(run, "resnet14t", .classes = 2, .width = 8);
    ls_tensor *photos = ls_set_requires_grad(ls_randn(run, LS_F32, PHOTOS, 3, 64, 64), true);
    ls_module *blocks[3];
    for (int i = 0; i < 3; i++) {
        char name[] = {'l', 'a', 'y', 'e', 'r', (char)('2' + i), '.', '0', '\0'};
        blocks[i] = ls_child(net, name);
        ls_init_constant(ls_module_tensor(blocks[i], "bn3.weight"), 0.5);
        if (with.hook) ls_register_forward_hook(ls_child(blocks[i], "downsample.0"), with.hook, NULL);
        if (with.recomputed) ls_set_recompute(ls_child(blocks[i], with.recomputed), true);
        if (with.frozen) ls_freeze(ls_child(blocks[i], with.frozen));
    }
    size_t before = ls_memory(run).in_use;
    ls_tensor *loss = ls_sum(ls_square(ls_forward(net, photos)));
    training done = {.held = ls_memory(run).in_use - before};
    ls_backward(run, loss);
    for (int i = 0; i < 3; i++)
        done.slope += ls_item(ls_norm(ls_grad(ls_module_tensor(blocks[i], "downsample.1.weight"))));
    CHECK(done.slope > 0);
    CHECK(ls_finish(run) == 0);
    return done;
}

static void averages_before_shortcuts_are_made_again(void)
{
    training made = train((change){0}), kept = train((change){.hook = copy_output});
    size_t averages = (size_t)PHOTOS * PIXELS * (32 / 4 + 64 / 16 + 128 / 64) * 4 + 3 * LS_GUARD_GAP;
    CHECK_MSG(kept.held - made.held == averages, "%zu and %zu, a difference of %zu", kept.held, made.held, averages);
    CHECK(made.slope == kept.slope);
}

static void averages_are_kept_if_nobody_keeps_what_they_are_made_from(void)
{
    training all = train((change){.hook = copy_output}), few = train((change){.frozen = "conv1"});
    size_t inputs = (size_t)PHOTOS * PIXELS * (32 + 64 / 4 + 128 / 16) * 4 + 3 * LS_GUARD_GAP;
    CHECK_MSG(all.held - few.held == inputs, "%zu and %zu, a difference of %zu", all.held, few.held, inputs);
    CHECK(all.slope == few.slope);
}

static void averages_may_be_recomputed_as_well(void)
{
    static const char *const parts[] = {"downsample", "downsample.0", "downsample.1", "conv1"};
    double slope = train((change){0}).slope;
    for (int i = 0; i < 4; i++) CHECK(train((change){.recomputed = parts[i]}).slope == slope);
}

static void averages_that_were_changed_are_kept(void)
{
    double slope = train((change){.hook = double_output}).slope;
    CHECK(slope == train((change){.hook = copy_and_double_output}).slope && slope != train((change){0}).slope);
}

static void keep_output(ls_module *module, ls_tensor *const *inputs, int64_t n, ls_outputs *outputs, void *user)
{
    remember_output(module, inputs, n, outputs, user);
    ls_keep(outputs->item[0]);
}

static void averages_that_a_walk_has_used_up_are_an_error(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 1);
    ls_module *net = ls_resnet_new(run, "resnet14t", .classes = 2, .width = 8);
    ls_tensor *averages = NULL;
    ls_register_forward_hook(ls_child(net, "layer4.0.downsample.0"), keep_output, &averages);
    ls_tensor *loss = ls_sum(ls_forward(net, ls_randn(run, LS_F32, PHOTOS, 3, 64, 64)));
    ls_backward(run, ls_sum(averages));
    CHECK(ls_error(run) == LS_OK);
    ls_backward(run, loss);
    CHECK(ls_error(run) == LS_ERR_STATE);
    CHECK_MSG(strstr(ls_error_message(run), "avg_pool2d: this graph was used before"), "%s", ls_error_message(run));
    ls_clear_error(run);
    CHECK(ls_finish(run) == 0);
}

/* ---- batch norms with residuals ---- */

/* y = relu(x normalised + residual) */
typedef struct joined {
    ls_tensor *x, *residual, *y;
} joined;

static joined join(ls_run *run, ls_dtype dtype, bool last)
{
    ls_tensor *numbers[2];
    for (int i = 0; i < 2; i++) {
        ls_tensor *drawn = ls_cast(ls_randn(run, LS_F32, 4, 16, 32, 32), dtype);
        numbers[i] = ls_set_requires_grad(ls_detach(last ? ls_channels_last(drawn) : drawn), true);
    }
    joined j = {.x = numbers[0], .residual = numbers[1]};
    j.y = ls_batch_norm(j.x, .residual = j.residual, .training = true, .activation = LS_ACT_RELU);
    return j;
}

static void the_gradient_of_a_residual_takes_the_place_of_the_sums(void)
{
    static const ls_dtype dtypes[] = {LS_F32, LS_BF16, LS_F16, LS_F64};
    for (int i = 0; i < 8; i++) {
        ls_run *run = ls_init(NULL, NULL, .seed = 1);
        ls_dtype dtype = dtypes[i / 2];
        joined j = join(run, dtype, i % 2);
        size_t before = ls_memory(run).in_use, bytes = NUMBERS * ls_dtype_size(dtype);
        ls_backward(run, ls_sum(ls_leaky_relu(j.y, 0.5))); /* dy = 1, or 0.5 where y is 0 */
        size_t most = ls_memory(run).peak - before;
        CHECK_MSG(most < bytes * 7 / 2, "%d: %zu", i, most); /* the result, dy and the gradient of x */
        CHECK(ls_item(ls_norm(ls_sub(ls_grad(j.residual), ls_cast(ls_gt_scalar(j.y, 0), dtype)))) == 0);
        CHECK(ls_finish(run) == 0);
    }
}

static void gradients_that_others_need_are_left_alone(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 1);
    joined a = join(run, LS_F32, true), b = join(run, LS_F32, true);
    ls_tensor *sum = ls_add(a.y, b.y);
    ls_backward(run, ls_mul_scalar(ls_sum(ls_square(sum)), 0.5)); /* the gradient of both is their sum */
    joined both[] = {a, b};
    for (int i = 0; i < 2; i++) {
        ls_tensor *wanted = ls_mul(sum, ls_cast(ls_gt_scalar(both[i].y, 0), LS_F32));
        CHECK_NEAR(ls_item(ls_norm(ls_sub(ls_grad(both[i].residual), wanted))), 0, 1e-5);
    }
    CHECK(ls_finish(run) == 0);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(a_sequential_holds_two_results_at_a_time);
    CHECK_RUN(a_nested_one_holds_its_input_as_well);
    CHECK_RUN(inputs_and_outputs_stay);
    CHECK_RUN(gradients_are_those_of_the_operators);
    CHECK_RUN(modules_of_the_program_may_remember_what_they_see);
    CHECK_RUN(hooks_may_remember_what_they_see);
    CHECK_RUN(hooks_that_are_gone_may_have_remembered_it);
    CHECK_RUN(a_residual_network_holds_one_block);
    CHECK_RUN(averages_before_shortcuts_are_made_again);
    CHECK_RUN(averages_are_kept_if_nobody_keeps_what_they_are_made_from);
    CHECK_RUN(averages_may_be_recomputed_as_well);
    CHECK_RUN(averages_that_were_changed_are_kept);
    CHECK_RUN(averages_that_a_walk_has_used_up_are_an_error);
    CHECK_RUN(the_gradient_of_a_residual_takes_the_place_of_the_sums);
    CHECK_RUN(gradients_that_others_need_are_left_alone);
    return check_done();
}
