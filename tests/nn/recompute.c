/* recompute.c - modules that are computed again in backward: the same numbers to the last bit, in less memory. */
#include <lockstep.h>

#include <stdlib.h>

#include "check.h"

/* ---- a network of blocks ---- */

enum { ROWS = 6, FEATURES = 8, BLOCKS = 4 };

static ls_tensor *block_forward(ls_module *block, ls_tensor *x, void *user)
{
    (void)user;
    ls_tensor *y = ls_forward(ls_child(block, "norm"), ls_forward(ls_child(block, "fc1"), x));
    y = ls_forward(ls_child(block, "drop"), ls_gelu(y));
    return ls_add(x, ls_dropout(ls_forward(ls_child(block, "fc2"), y), 0.25));
}

static ls_module *block_new(ls_run *run)
{
    ls_module *block = ls_module_new(run, "Block", block_forward, NULL);
    ls_module_add(block, "fc1", ls_linear_new(run, FEATURES, 4 * FEATURES));
    ls_module_add(block, "norm", ls_batch_norm_new(run, 4 * FEATURES));
    ls_module_add(block, "drop", ls_dropout_new(run, 0.5));
    ls_module_add(block, "fc2", ls_linear_new(run, 4 * FEATURES, FEATURES));
    return block;
}

/* "blocks.0" ...: blocks in pairs, so that replays nest. */
static ls_module *net_new(ls_run *run)
{
    ls_module *pairs[BLOCKS / 2];
    for (int i = 0; i < BLOCKS / 2; i++) pairs[i] = ls_sequential_new(run, block_new(run), block_new(run));
    ls_module *net = ls_sequential_new_n(run, pairs, BLOCKS / 2);
    return ls_module_append(net, ls_linear_new(run, FEATURES, 3)), net;
}

enum { NONE = 0, INNER = 1, OUTER = 2, WHOLE = 4 }; /* what is recomputed: blocks, pairs of them, all of it */

static void recompute(ls_module *net, int which)
{
    for (int i = 0; i < BLOCKS / 2; i++) {
        ls_module *pair = ls_child_at(net, i);
        ls_set_recompute(pair, which & OUTER);
        for (int j = 0; j < 2; j++) ls_set_recompute(ls_child_at(pair, j), which & INNER);
    }
    ls_set_recompute(net, which & WHOLE);
}

/* ---- the same numbers ---- */

typedef struct outcome {
    double loss, hash; /* of all gradients, parameters and buffers after some steps, exact */
    uint64_t offset;   /* of the random numbers */
} outcome;

/* Bits that differ change it. */
static double hash_of(double hash, ls_tensor *t)
{
    int64_t n = ls_numel(t);
    double *values = malloc((size_t)n * sizeof *values);
    CHECK(ls_read(ls_cast(t, LS_F64), values, (size_t)n * sizeof *values));
    for (int64_t i = 0; i < n; i++) hash = fmod(hash * 3 + values[i] * (double)(1 + i % 7), 1e6);
    free(values);
    return hash;
}

typedef struct settings {
    int which;
    ls_dtype precision;
    bool input_wants;   /* a gradient */
    bool partly_frozen; /* the first pair is */
    bool eval;
    int64_t accumulate;
} settings;

static outcome train(settings s)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 3, .mixed_precision = s.precision,
                          .gradient_accumulation_steps = s.accumulate ? s.accumulate : 1);
    ls_module *net = net_new(run);
    recompute(net, s.which);
    if (s.partly_frozen) ls_freeze(ls_child_at(net, 0));
    if (s.eval) ls_eval(net);
    ls_optim *sgd = ls_sgd_new(run, net, .lr = 0.01, .momentum = 0.9);
    ls_prepare(run, net, sgd);
    outcome got = {0};
    for (int step = 0; step < 4; step++) {
        ls_mark mark = ls_scope_begin(run);
        ls_tensor *x = ls_set_requires_grad(ls_randn(run, LS_F32, ROWS, FEATURES), s.input_wants);
        ls_tensor *target = ls_arange(run, LS_I64, ROWS, 0, 0.5);
        ls_tensor *loss = ls_cross_entropy(ls_forward(net, x), target);
        ls_backward(run, loss);
        got.loss = ls_item(loss);
        if (s.input_wants) got.hash = hash_of(got.hash, ls_grad(x));
        ls_state *parameters = ls_parameters(net);
        for (int64_t i = 0; i < ls_state_count(parameters); i++) {
            ls_tensor *gradient = ls_grad(ls_state_tensor(parameters, i));
            if (gradient) got.hash = hash_of(got.hash + 1, gradient);
        }
        ls_step(sgd);
        ls_zero_grad(sgd);
        ls_scope_end(run, mark, NULL);
    }
    ls_state *state = ls_state_dict(net);
    for (int64_t i = 0; i < ls_state_count(state); i++) got.hash = hash_of(got.hash, ls_state_tensor(state, i));
    got.offset = ls_rng(run).offset;
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
    CHECK(ls_finish(run) == 0);
    return got;
}

static void compare(settings s, const char *what)
{
    s.which = NONE;
    outcome want = train(s);
    CHECK_MSG(isfinite(want.loss) && want.hash != 0, "%s: %g", what, want.loss);
    for (int which = 1; which < 8; which++) {
        s.which = which;
        outcome got = train(s);
        CHECK_MSG(got.loss == want.loss && got.hash == want.hash && got.offset == want.offset,
                  "%s, which %d: loss %.17g, not %.17g; hash %.17g, not %.17g", what, which, got.loss, want.loss,
                  got.hash, want.hash);
    }
}

static void training_is_the_same_to_the_last_bit(void)
{
    compare((settings){.precision = LS_F32}, "f32"); /* the input wants no gradient, parameters do */
    compare((settings){.precision = LS_F32, .input_wants = true}, "with a gradient of the input");
    compare((settings){.precision = LS_F32, .partly_frozen = true}, "partly frozen");
    compare((settings){.precision = LS_F32, .partly_frozen = true, .input_wants = true}, "through frozen blocks");
    compare((settings){.precision = LS_F32, .eval = true}, "in evaluation");
    compare((settings){.precision = LS_BF16}, "bf16");
    compare((settings){.precision = LS_F16, .input_wants = true}, "f16 with a scaled loss");
    compare((settings){.precision = LS_F32, .accumulate = 2}, "accumulating");
}

/* ---- several inputs and outputs ---- */

static ls_outputs branches(ls_module *self, ls_tensor *const *x, int64_t n, void *user)
{
    (void)user;
    ls_tensor *y = ls_tanh(ls_forward(ls_child(self, "fc"), x[0]));
    ls_tensor *z = n > 1 && x[1] ? ls_mul(y, x[1]) : ls_exp(y);
    return LS_OUTPUTS(y, ls_dropout(z, 0.5), ls_square(x[0]));
}

/* Gradients of two walks, each from some of the outputs. */
static void walk_branches(bool recompute, bool second_input, double gradients[3])
{
    ls_run *run = ls_init(NULL, NULL, .seed = 4);
    ls_module *net = ls_module_new_all(run, "Branches", branches, NULL);
    ls_module_add(net, "fc", ls_linear_new(run, 5, 5));
    ls_set_recompute(net, recompute);
    ls_tensor *x = ls_set_requires_grad(ls_randn(run, LS_F32, 3, 5), true);
    ls_tensor *other = ls_set_requires_grad(ls_randn(run, LS_F32, 3, 5), true);
    ls_outputs out = ls_forward_all(net, x, second_input ? other : NULL);
    CHECK(out.count == 3);
    ls_backward(run, ls_sum(out.item[2])); /* what it does not need stays for the next walk */
    ls_backward(run, ls_add(ls_sum(ls_square(out.item[1])), ls_sum(out.item[0])));
    gradients[0] = hash_of(0, ls_grad(x));
    gradients[1] = hash_of(0, ls_grad(ls_module_tensor(net, "fc.weight")));
    gradients[2] = second_input ? hash_of(0, ls_grad(other)) : 0;
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
    CHECK(ls_finish(run) == 0);
}

static void modules_with_several_outputs_and_optional_inputs_are_recomputed(void)
{
    for (int second = 0; second < 2; second++) {
        double want[3], got[3];
        walk_branches(false, second, want);
        walk_branches(true, second, got);
        for (int i = 0; i < 3; i++) CHECK_MSG(got[i] == want[i], "%d %d: %.17g %.17g", second, i, got[i], want[i]);
    }
}

/* ---- tied weights: hooks fire once, when all has arrived ---- */

static int fired;

static void count(ls_tensor *leaf, void *user)
{
    (void)leaf;
    *(int *)user += 1;
}

static void hooks_of_shared_parameters_fire_once(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 5);
    ls_module *one = ls_linear_new(run, 4, 4);
    ls_module *net = ls_sequential_new(run, ls_sequential_new(run, one, ls_tanh_new(run)), one,
                                       ls_sequential_new(run, one, ls_tanh_new(run)));
    ls_set_recompute(ls_child_at(net, 0), true);
    ls_set_recompute(ls_child_at(net, 2), true);
    fired = 0;
    ls_register_grad_hook(ls_module_tensor(one, "weight"), count, &fired);
    ls_backward(run, ls_sum(ls_forward(net, ls_randn(run, LS_F32, 3, 4))));
    CHECK(fired == 1);
    CHECK(ls_finish(run) == 0);
}

/* ---- memory ---- */

/* Bytes in use after the forward pass, and at most. */
typedef struct usage {
    size_t held, peak;
} usage;

static usage usage_of(int which, bool gradients)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 3);
    ls_module *net = net_new(run);
    recompute(net, which);
    ls_tensor *x = ls_randn(run, LS_F32, 512, FEATURES);
    if (!gradients) ls_no_grad_begin(run);
    ls_mark mark = ls_scope_begin(run);
    size_t start = ls_memory(run).in_use;
    ls_tensor *loss = ls_sum(ls_forward(net, x));
    usage used = {.held = ls_memory(run).in_use - start};
    if (gradients) ls_backward(run, loss);
    ls_scope_end(run, mark, NULL);
    if (!gradients) ls_no_grad_end(run);
    used.peak = ls_memory(run).peak - start;
    CHECK(ls_finish(run) == 0);
    return used;
}

static void memory_is_that_of_one_block(void)
{
    usage all = usage_of(NONE, true), inner = usage_of(INNER, true), outer = usage_of(OUTER, true),
          both = usage_of(INNER | OUTER, true);
    CHECK_MSG(inner.peak < all.peak * 6 / 10, "%zu of %zu", inner.peak, all.peak);
    CHECK_MSG(outer.peak < all.peak * 8 / 10 && outer.peak > inner.peak, "%zu of %zu", outer.peak, all.peak);
    CHECK_MSG(both.peak <= inner.peak + inner.peak / 8, "%zu and %zu", both.peak, inner.peak);
    CHECK_MSG(both.held == outer.held && outer.held < inner.held, "%zu %zu %zu", both.held, outer.held, inner.held);
    usage plain = usage_of(NONE, false), nothing = usage_of(INNER | OUTER, false);
    CHECK(plain.held == nothing.held && plain.peak == nothing.peak);
}

static void a_steady_step_takes_nothing_from_the_system(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 3);
    ls_module *net = net_new(run);
    recompute(net, INNER | OUTER);
    uint64_t requests = 0;
    size_t in_use = 0;
    for (int step = 0; step < 12; step++) {
        if (step == 8) requests = ls_memory(run).system_requests;
        ls_mark mark = ls_scope_begin(run);
        ls_tensor *loss = ls_sum(ls_forward(net, ls_randn(run, LS_F32, ROWS, FEATURES)));
        if (step % 2) ls_backward(run, loss); /* others are forgotten */
        ls_scope_end(run, mark, NULL);
        if (step == 8) in_use = ls_memory(run).in_use;
    }
    CHECK(ls_memory(run).system_requests == requests && ls_memory(run).in_use == in_use);
    CHECK(ls_finish(run) == 0);
}

/* ---- hooks of modules ---- */

static void count_forward(ls_module *module, ls_tensor *const *inputs, int64_t n, ls_outputs *outputs, void *user)
{
    (void)n;
    (void)inputs;
    (void)outputs;
    ((int *)user)[ls_is_recomputing(ls_module_run(module))]++;
}

static void hooks_inside_are_called_again(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 3);
    ls_module *block = block_new(run);
    ls_set_recompute(block, true);
    int outside[2] = {0}, inside[2] = {0};
    ls_register_forward_hook(block, count_forward, outside);
    ls_register_forward_hook(ls_child(block, "fc1"), count_forward, inside);
    ls_backward(run, ls_sum(ls_forward(block, ls_randn(run, LS_F32, ROWS, FEATURES))));
    CHECK(outside[0] == 1 && outside[1] == 0 && inside[0] == 1 && inside[1] == 1);
    CHECK(!ls_is_recomputing(run) && !ls_is_recomputing(NULL));
    CHECK(ls_finish(run) == 0);
}

/* ---- used wrongly ---- */

static ls_tensor *differs(ls_module *self, ls_tensor *x, void *user)
{
    (void)self;
    int *calls = user;
    ls_tensor *y = ls_exp(x);
    if (*calls == 1) return ++*calls, ls_sin(y);
    if (*calls == 3) return y;
    return ++*calls, *calls == 3 ? ls_exp(ls_tanh(y)) : ls_tanh(y);
}

static ls_tensor *secret;

static ls_tensor *uses_a_secret(ls_module *self, ls_tensor *x, void *user)
{
    (void)self;
    (void)user;
    return ls_linear(x, secret, NULL, LS_ACT_NONE);
}

static ls_tensor *kept;

static ls_tensor *keeps(ls_module *self, ls_tensor *x, void *user)
{
    (void)self;
    (void)user;
    ls_tensor *y = ls_exp(x);
    kept = ls_keep(ls_exp(y));
    return ls_exp(y);
}

#define FAILS(text)                                                                                                    \
    do {                                                                                                               \
        CHECK_MSG(strstr(ls_error_message(run), text), "%s", ls_error_message(run));                                   \
        ls_clear_error(run);                                                                                           \
    } while (0)

/* Saves no tensor that was there before. */
static ls_tensor *adds_a_buffer(ls_module *net, ls_tensor *x, void *user)
{
    (void)user;
    return ls_square(ls_add(x, ls_module_tensor(net, "shift")));
}

static void what_cannot_be_recomputed_is_an_error(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 3);
    ls_set_recompute(NULL, true);
    ls_set_recompute(ls_module_list_new_n(run, NULL, 0), true);
    FAILS("ls_set_recompute: ModuleList has no forward function; recompute its children");
    ls_set_recompute(ls_module_list_new_n(run, NULL, 0), false);
    ls_tensor *x = ls_set_requires_grad(ls_ones(run, LS_F32, ROWS, FEATURES), true);

    int calls = 0;
    ls_module *odd = ls_module_new(run, "Odd", differs, &calls), *net = ls_sequential_new(run, odd);
    ls_set_recompute(odd, true);
    ls_tensor *loss = ls_sum(ls_forward(net, x));
    ls_backward(run, loss);
    FAILS("Sequential.0: recomputed for its gradients, it did something different (step 1: sin, before it was "
          "tanh)");
    loss = ls_sum(ls_forward(net, x)); /* tanh, exp; then one operator less */
    ls_backward(run, loss);
    FAILS("(step 1: nothing more, before it was tanh)");

    ls_module *hiding = ls_module_new(run, "Hiding", uses_a_secret, NULL);
    ls_set_recompute(hiding, true);
    secret = ls_set_requires_grad(ls_ones(run, LS_F32, 3, FEATURES), true);
    ls_tensor *y = ls_sum(ls_forward(hiding, x));
    ls_set_requires_grad(secret, false);
    ls_backward(run, y);
    FAILS("Hiding: recomputed for its gradients, it did something different (step 0: linear has no gradient");
    ls_set_requires_grad(secret, true);
    y = ls_sum(ls_forward(hiding, x));
    ls_assign(secret, ls_zeros(run, LS_F32, 3, FEATURES));
    ls_backward(run, y);
    FAILS("Hiding: linear, which is recomputed for its gradients, needs [3,8] f32 as it was in the forward pass");

    ls_module *shifting = ls_module_new(run, "Shifting", adds_a_buffer, NULL);
    ls_register_buffer(shifting, "shift", ls_zeros(run, LS_F32, FEATURES));
    ls_set_recompute(shifting, true);
    y = ls_sum(ls_forward(shifting, x));
    ls_assign(ls_module_tensor(shifting, "shift"), ls_ones(run, LS_F32, FEATURES));
    ls_backward(run, y);
    FAILS("Shifting: add, which is recomputed for its gradients, reads a tensor that was modified in place");

    ls_module *block = block_new(run);
    ls_set_recompute(block, true);
    y = ls_sum(ls_forward(block, x));
    ls_eval(block);
    ls_backward(run, y);
    FAILS("Block: Block changed between its forward pass and ls_backward()");
    ls_train(block);
    y = ls_sum(ls_forward(block, x));
    ls_assign(ls_module_tensor(block, "fc1.bias"), ls_ones(run, LS_F32, 4 * FEATURES));
    ls_backward(run, y);
    FAILS("Block: Block changed between its forward pass and ls_backward()");
    ls_tensor *input = ls_mul_scalar(x, 1);
    y = ls_sum(ls_forward(block, input));
    ls_assign(input, ls_zeros(run, LS_F32, ROWS, FEATURES));
    ls_backward(run, y);
    FAILS("Block: input 0, [6,8] f32, was modified in place after the forward pass");
    y = ls_sum(ls_forward(block, x));
    ls_module_free(block);
    ls_backward(run, y);
    FAILS("Block: the module was freed, but is needed to recompute it");
    CHECK(ls_finish(run) == 0);
}

static ls_tensor *alternates(ls_module *self, ls_tensor *x, void *user)
{
    int *calls = user;
    return ls_forward(ls_child(self, "last"), ls_tanh(ls_forward(ls_child(self, ++*calls == 1 ? "a" : "b"), x)));
}

static void other_parameters_of_the_same_shape_are_named(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 3);
    int calls = 0;
    ls_module *m = ls_module_new(run, "Alternates", alternates, &calls);
    static const char *const names[] = {"a", "b", "last"};
    for (int i = 0; i < 3; i++) ls_module_add(m, names[i], ls_linear_new(run, FEATURES, FEATURES));
    ls_set_recompute(m, true);
    ls_tensor *x = ls_set_requires_grad(ls_ones(run, LS_F32, ROWS, FEATURES), true);
    ls_backward(run, ls_sum(ls_forward(m, x)));
    FAILS("Alternates/b: linear, which is recomputed for its gradients, takes another tensor as input 1 than in the "
          "forward pass (there it was in Alternates/a)");
    ls_backward(run, ls_sum(ls_forward(m, x))); /* b both times */
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
    CHECK(ls_finish(run) == 0);
}

/* ---- numbers of the host ---- */

static struct {
    ls_run *run;
    double number;
    int64_t size;
} host;

#define FORWARD(name, value)                                                                                           \
    static ls_tensor *name(ls_module *self, ls_tensor *x, void *user)                                                  \
    {                                                                                                                  \
        (void)self;                                                                                                    \
        (void)user;                                                                                                    \
        return ls_exp(value);                                                                                          \
    }
FORWARD(multiplies, ls_mul_scalar(x, host.number))
FORWARD(raises, ls_pow_scalar(x, host.number))
FORWARD(drops, ls_dropout(x, host.number))
FORWARD(adds_a_constant, ls_add(x, ls_full(host.run, LS_F32, host.number, FEATURES)))
FORWARD(slices, ls_slice(x, 1, host.size, host.size + 2, 1))
FORWARD(widens, ls_mul_scalar(ls_slice(x, 1, 0, host.size, 1), 2))
FORWARD(sums, ls_sum_dims(x, LS_SHAPE(host.size), true))

static void numbers_that_change_are_named(void)
{
    static const struct {
        ls_forward_fn *forward;
        const char *complaint;
    } cases[] = {
        {multiplies, "Uses: affine, which is recomputed for its gradients, is given different values"},
        {raises, "Uses: pow_scalar, which"},
        {drops, "Uses: dropout, which"},
        {adds_a_constant, "Uses: add, which is recomputed for its gradients, reads a tensor with different values"},
        {slices, "Uses: slice, which"},
        {widens, "Uses: affine, which"},
        {sums, "Uses: sum, which"},
    };
    ls_run *run = ls_init(NULL, NULL, .seed = 3);
    host.run = run;
    ls_tensor *x = ls_set_requires_grad(ls_full(run, LS_F32, 0.5, ROWS, FEATURES), true);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_module *m = ls_module_new(run, "Uses", cases[i].forward, NULL);
        ls_set_recompute(m, true);
        for (int changed = 0; changed < 2; changed++) {
            host.number = 0.25;
            host.size = 1;
            ls_tensor *loss = ls_sum(ls_forward(m, x));
            host.number = changed ? 0.5 : 0.25;
            host.size = changed ? 0 : 1;
            ls_backward(run, loss);
            if (!changed) CHECK_MSG(ls_error(run) == LS_OK, "%zu: %s", i, ls_error_message(run));
            else FAILS(cases[i].complaint);
        }
    }
    CHECK(ls_finish(run) == 0);
}

/* Operators with many attributes: what their structures leave unset is not compared. */
static ls_tensor *uses_many(ls_module *self, ls_tensor *x, void *user)
{
    (void)user;
    ls_tensor *y = ls_relu(ls_forward(ls_child(self, "norm"), ls_forward(ls_child(self, "conv"), x)));
    y = ls_add(ls_max_pool2d(y, 2), ls_avg_pool2d(y, 2));
    ls_tensor *rows = ls_reshape(ls_interpolate(y, 4, 4, LS_INTERPOLATE_BILINEAR), 2, 16, 8);
    rows = ls_forward(ls_child(self, "layer"), ls_forward(ls_child(self, "attention"), rows));
    ls_tensor *labels = ls_zeros(host.run, LS_I64, 32);
    ls_tensor *a = ls_cross_entropy(ls_reshape(rows, 32, 8), labels, .label_smoothing = 0.1);
    return ls_add(a, ls_smooth_l1_loss(rows, ls_zeros(host.run, LS_F32, 2, 16, 8), .beta = 0.5));
}

static void unchanged_attributes_are_the_same(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 3);
    host.run = run;
    ls_module *m = ls_module_new(run, "Many", uses_many, NULL);
    ls_module_add(m, "conv", ls_conv2d_new(run, 3, 8, 3, .padding = 1));
    ls_module_add(m, "norm", ls_group_norm_new(run, 2, 8));
    ls_module_add(m, "attention", ls_multihead_attention_new(run, 8, 2, .dropout = 0.1));
    ls_module_add(m, "layer", ls_layer_norm_new(run, 8));
    ls_set_recompute(m, true);
    ls_tensor *x = ls_set_requires_grad(ls_rand(run, LS_F32, 2, 3, 8, 8), true);
    for (int i = 0; i < 20; i++) {
        ls_mark mark = ls_scope_begin(run);
        ls_backward(run, ls_forward(m, x));
        ls_scope_end(run, mark, NULL);
    }
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
    CHECK(ls_finish(run) == 0);
}

static void the_second_tape_is_not_walked(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 3);
    ls_module *net = ls_module_new(run, "Keeps", keeps, NULL);
    ls_set_recompute(net, true);
    ls_tensor *x = ls_set_requires_grad(ls_ones(run, LS_F32, 2), true);
    ls_backward(run, ls_sum(ls_forward(net, x)));
    ls_backward(run, ls_sum(kept));
    FAILS("this graph was used before");
    CHECK(ls_finish(run) == 0);
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    CHECK_RUN(training_is_the_same_to_the_last_bit);
    CHECK_RUN(modules_with_several_outputs_and_optional_inputs_are_recomputed);
    CHECK_RUN(hooks_of_shared_parameters_fire_once);
    CHECK_RUN(memory_is_that_of_one_block);
    CHECK_RUN(a_steady_step_takes_nothing_from_the_system);
    CHECK_RUN(hooks_inside_are_called_again);
    CHECK_RUN(what_cannot_be_recomputed_is_an_error);
    CHECK_RUN(other_parameters_of_the_same_shape_are_named);
    CHECK_RUN(numbers_that_change_are_named);
    CHECK_RUN(unchanged_attributes_are_the_same);
    CHECK_RUN(the_second_tape_is_not_walked);
    return check_done();
}
