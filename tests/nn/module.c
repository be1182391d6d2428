/* module.c - modules put together by hand: names, state, modes, errors, tables, lifetimes. */
#include <lockstep.h>

#include <stdlib.h>

#include "base/memory.h"
#include "check.h"
#include "nn/module.h"

/* ---- a network of one's own ---- */

static ls_tensor *net_forward(ls_module *net, ls_tensor *x, void *user)
{
    (void)user;
    x = ls_relu(ls_forward(ls_child(net, "fc1"), x));
    return ls_forward(ls_child(net, "head"), ls_mul(x, ls_module_tensor(net, "scale")));
}

static ls_module *net_new(ls_run *run)
{
    ls_module *net = ls_module_new(run, "net", net_forward, NULL);
    ls_register_parameter(net, "scale", ls_ones(run, LS_F32, 1));
    ls_register_buffer(net, "seen", ls_zeros(run, LS_I64, 1));
    ls_module_add(net, "fc1", ls_linear_new(run, 4, 8));
    ls_module_add(net, "head", ls_sequential_new(run, ls_batch_norm_new(run, 8), ls_linear_new(run, 8, 3)));
    return net;
}

static void names_are_pytorchs(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *net = net_new(run);
    static const char *const want[] = {"scale",
                                       "seen",
                                       "fc1.weight",
                                       "fc1.bias",
                                       "head.0.weight",
                                       "head.0.bias",
                                       "head.0.running_mean",
                                       "head.0.running_var",
                                       "head.0.num_batches_tracked",
                                       "head.1.weight",
                                       "head.1.bias"};
    ls_state *state = ls_state_dict(net);
    CHECK(ls_state_count(state) == 11);
    for (int i = 0; i < 11; i++) CHECK_TEXT(ls_state_name(state, i), want[i]);
    CHECK(ls_state_count(ls_parameters(net)) == 7);
    CHECK(ls_parameter_count(net) == 1 + 40 + 16 + 27);
    CHECK(ls_child(net, "head.1") == ls_child_at(ls_child(net, "head"), 1));
    CHECK(ls_module_tensor(net, "head.1.bias") == ls_state_find(state, "head.1.bias"));
    CHECK_TEXT(ls_module_name(ls_child(net, "head.0")), "0");
    CHECK_TEXT(ls_module_kind(ls_child(net, "head.0")), "BatchNorm");
    CHECK(ls_state_dict(net) == state && ls_state_name(state, 3) == ls_state_name(ls_state_dict(net), 3));
    CHECK(ls_finish(run) == 0);
}

static void forward_runs_in_scopes(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *net = net_new(run);
    ls_tensor *x = ls_randn(run, LS_F32, 5, 4);
    size_t before = 0;
    for (int i = 0; i < 3; i++) {
        ls_mark mark = ls_scope_begin(run);
        ls_tensor *y = ls_forward(net, x);
        CHECK(ls_dim(y, 0) == 5 && ls_dim(y, 1) == 3);
        ls_backward(run, ls_sum(y));
        CHECK(ls_grad(ls_module_tensor(net, "scale")) != NULL);
        ls_scope_end(run, mark, NULL);
        if (i > 0) CHECK(ls_memory(run).in_use == before);
        before = ls_memory(run).in_use;
    }
    CHECK(ls_item(ls_module_tensor(net, "head.0.num_batches_tracked")) == 3);
    CHECK(ls_finish(run) == 0);
}

static void errors_carry_the_path(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *net = net_new(run);
    ls_tensor *y = ls_forward(net, ls_zeros(run, LS_F32, 5, 3));
    CHECK(!ls_is_valid(y) && ls_error(run) == LS_ERR_SHAPE);
    CHECK_MSG(strncmp(ls_error_message(run), "net/fc1: linear: ", 17) == 0, "%s", ls_error_message(run));
    ls_clear_error(run);

    ls_module *deep = ls_module_new(run, "deep", net_forward, NULL);
    ls_module_add(deep, "fc1", ls_identity_new(run));
    ls_register_parameter(deep, "scale", ls_ones(run, LS_F32, 1));
    ls_module_add(deep, "head", ls_sequential_new(run, ls_identity_new(run), ls_linear_new(run, 3, 2)));
    ls_forward(deep, ls_zeros(run, LS_F32, 5, 4));
    CHECK_MSG(strncmp(ls_error_message(run), "deep/head.1: linear: ", 21) == 0, "%s", ls_error_message(run));
    ls_clear_error(run);
    ls_linear(ls_zeros(run, LS_F32, 2), ls_zeros(run, LS_F32, 3, 5), NULL, LS_ACT_NONE);
    CHECK_MSG(strncmp(ls_error_message(run), "linear: ", 8) == 0, "%s", ls_error_message(run));
    ls_clear_error(run);
    CHECK(ls_finish(run) == 0);
}

static void misuse_is_an_error(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *net = net_new(run);
#define FAILS(call, code)                                                                                              \
    do {                                                                                                               \
        (void)(call);                                                                                                  \
        CHECK_MSG(ls_error(run) == (code), "%s: %s", #call, ls_error_message(run));                                    \
        ls_clear_error(run);                                                                                           \
    } while (0)
    FAILS(ls_module_add(net, "fc1", ls_relu_new(run)), LS_ERR_VALUE);
    FAILS(ls_module_add(net, "scale", ls_relu_new(run)), LS_ERR_VALUE);
    FAILS(ls_module_add(net, "a.b", ls_relu_new(run)), LS_ERR_VALUE);
    FAILS(ls_module_add(net, "", ls_relu_new(run)), LS_ERR_VALUE);
    FAILS(ls_module_add(net, "more", NULL), LS_ERR_VALUE);
    FAILS(ls_module_add(ls_child(net, "head"), "net", net), LS_ERR_VALUE);
    FAILS(ls_module_add(net, "net", net), LS_ERR_VALUE);
    FAILS(ls_register_parameter(net, "count", ls_zeros(run, LS_I64, 2)), LS_ERR_DTYPE);
    FAILS(ls_register_parameter(net, "none", NULL), LS_ERR_VALUE);
    FAILS(ls_child(net, "head.7"), LS_ERR_VALUE);
    CHECK(!ls_child(net, "haed.0"));
    CHECK_MSG(strstr(ls_error_message(run), "has no child \"haed.0\"; did you mean \"head\"?"), "%s",
              ls_error_message(run));
    ls_clear_error(run);
    CHECK(!ls_child(net, "decoder"));
    CHECK_MSG(strstr(ls_error_message(run), "has no child \"decoder\"; it has "), "%s", ls_error_message(run));
    CHECK(strstr(ls_error_message(run), "head") && strstr(ls_error_message(run), "fc1"));
    ls_clear_error(run);
    CHECK(!ls_child(net, "head.classifier"));
    CHECK_MSG(strstr(ls_error_message(run), "has no child \"head.classifier\"; head has 0, 1"), "%s",
              ls_error_message(run));
    ls_clear_error(run);
    CHECK(!ls_is_valid(ls_module_tensor(net, "head.0.wieght")));
    CHECK_MSG(strstr(ls_error_message(run), "\"head.0.wieght\"; did you mean \"head.0.weight\"?"), "%s",
              ls_error_message(run));
    ls_clear_error(run);
    FAILS(ls_module_tensor(net, "head.0.nothing"), LS_ERR_VALUE);
    FAILS(ls_forward(NULL, ls_zeros(run, LS_F32, 1)), LS_ERR_VALUE);
    FAILS(ls_forward(net, NULL), LS_ERR_VALUE);
    FAILS(ls_forward(net, ls_zeros(run, LS_F32, 1), ls_zeros(run, LS_F32, 1)), LS_ERR_VALUE);
    FAILS(ls_forward(ls_module_list_new_n(run, NULL, 0), ls_zeros(run, LS_F32, 1)), LS_ERR_STATE);
    FAILS(ls_module_free(ls_child(net, "head")), LS_ERR_STATE);
    FAILS(ls_linear_new(run, -1, 3), LS_ERR_SHAPE);
    FAILS(ls_conv2d_new(run, 3, 4, 3, .groups = 2), LS_ERR_VALUE);
    FAILS(ls_conv2d_new(run, 3, 4, 0), LS_ERR_VALUE);
    FAILS(ls_group_norm_new(run, 4, 6), LS_ERR_VALUE);
    FAILS(ls_multihead_attention_new(run, 8, 3), LS_ERR_VALUE);
    FAILS(ls_embedding_new(run, 8, 3, .padding_idx = 8), LS_ERR_VALUE);
    FAILS(ls_dropout_new(run, 1.5), LS_ERR_VALUE);
    FAILS(ls_sequential_new(run, ls_relu_new(run), NULL), LS_ERR_VALUE);
    FAILS(ls_forward(ls_multihead_attention_new(run, 8, 2), ls_zeros(run, LS_F32, 2, 8)), LS_ERR_SHAPE);
#undef FAILS
    ls_train(NULL);
    ls_freeze(NULL);
    ls_describe(NULL, stdout);
    ls_module_free(NULL);
    CHECK(ls_parameters(NULL) == NULL && ls_state_count(NULL) == 0);
    CHECK(ls_finish(run) == 0);
}

/* ---- modes ---- */

static void modes_reach_all_children(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 3);
    ls_module *net = ls_sequential_new(run, ls_dropout_new(run, 0.5), ls_sequential_new(run, ls_dropout_new(run, 0.5)));
    ls_tensor *x = ls_ones(run, LS_F32, 1000);
    CHECK(ls_is_training(net));
    double kept = ls_item(ls_sum(ls_forward(net, x))) / 4;
    CHECK_MSG(kept > 200 && kept < 300, "a quarter is kept, not %g of 1000", kept);
    ls_eval(net);
    CHECK(!ls_is_training(ls_child(net, "1.0")));
    CHECK(ls_forward(net, x) == x);
    ls_train(net);
    CHECK(ls_is_training(ls_child(net, "1.0")));
    CHECK(ls_finish(run) == 0);
}

/* A gradient from before freezing is not seen, and does not come back. */
static void freezing_forgets_gradients(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *m = ls_linear_new(run, 2, 1, .bias = false);
    ls_tensor *w = ls_module_tensor(m, "weight"), *x = ls_ones(run, LS_F32, 1, 2);
    ls_backward(run, ls_sum(ls_forward(m, x)));
    ls_freeze(m);
    CHECK(ls_grad(w) == NULL && !ls_requires_grad(ls_forward(m, x)));
    ls_unfreeze(m);
    CHECK(ls_grad(w) == NULL);
    ls_backward(run, ls_sum(ls_forward(m, x)));
    CHECK(ls_item(ls_max(ls_grad(w))) == 1);
    ls_freeze(m);
    ls_module_cast(m, LS_F64);
    ls_unfreeze(m);
    ls_backward(run, ls_sum(ls_forward(m, ls_cast(x, LS_F64))));
    CHECK(ls_dtype_of(ls_grad(w)) == LS_F64 && ls_item(ls_max(ls_grad(w))) == 1);
    CHECK(ls_finish(run) == 0);
}

static void frozen_parts_get_no_gradient(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *net = net_new(run);
    ls_freeze(net);
    CHECK(ls_trainable_count(net) == 0);
    ls_unfreeze(ls_child(net, "head.1"));
    CHECK(ls_trainable_count(net) == 27);
    ls_backward(run, ls_sum(ls_forward(net, ls_randn(run, LS_F32, 5, 4))));
    CHECK(ls_grad(ls_module_tensor(net, "head.1.weight")) != NULL);
    CHECK(ls_grad(ls_module_tensor(net, "fc1.weight")) == NULL);
    CHECK(ls_finish(run) == 0);
}

/* ---- state ---- */

static void state_is_copied(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 1);
    ls_module *a = net_new(run), *b = net_new(run);
    ls_load_report report = ls_load_state_dict(b, ls_state_dict(a));
    CHECK(report.loaded == 11 && !report.missing_count && !report.unexpected_count && !report.mismatched_count);
    ls_state *copy = ls_state_copy(ls_state_dict(a));
    for (int64_t i = 0; i < ls_state_count(copy); i++) {
        ls_tensor *mine = ls_state_find(ls_state_dict(b), ls_state_name(copy, i));
        CHECK(mine != ls_state_tensor(copy, i));
        CHECK(ls_item(ls_min(ls_eq(mine, ls_state_tensor(copy, i)))) == 1);
    }
    ls_init_constant(ls_module_tensor(a, "fc1.bias"), 7);
    CHECK(ls_item(ls_max(ls_state_find(copy, "fc1.bias"))) < 7);
    ls_load_state_dict(a, copy);
    CHECK(ls_item(ls_max(ls_module_tensor(a, "fc1.bias"))) < 7);
    ls_state_free(copy);
    CHECK(ls_finish(run) == 0);
}

static void loading_is_strict_unless_partial(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *net = net_new(run);
    ls_state *list = ls_state_new(run);
    ls_state_add(list, "fc1.bias", ls_full(run, LS_F64, 2, 8));
    ls_state_add(list, "fc9.bias", ls_full(run, LS_F32, 2, 8));
    ls_load_state_dict(net, list);
    CHECK(ls_error(run) == LS_ERR_VALUE);
    CHECK(strstr(ls_error_message(run), "missing scale, seen, fc1.weight and 6 more") != NULL);
    CHECK(strstr(ls_error_message(run), "unexpected fc9.bias") != NULL);
    ls_clear_error(run);
    CHECK(ls_item(ls_max(ls_module_tensor(net, "fc1.bias"))) < 2);

    ls_load_report report = ls_load_state_dict(net, list, .partial = true);
    CHECK(report.loaded == 1 && report.missing_count == 10 && report.unexpected_count == 1);
    CHECK_TEXT(report.missing[2], "fc1.weight");
    CHECK_TEXT(report.unexpected[0], "fc9.bias");
    CHECK(ls_item(ls_min(ls_module_tensor(net, "fc1.bias"))) == 2);

    ls_state_add(list, "fc1.weight", ls_zeros(run, LS_F32, 8, 5));
    ls_load_state_dict(net, list, .partial = true);
    CHECK(ls_error(run) == LS_ERR_SHAPE);
    CHECK(
        strstr(ls_error_message(run), "fc1.weight of net is [8,4], the list has [8,5]; .skip_mismatched = true skips"));
    ls_clear_error(run);
    ls_state *two = ls_state_new(run);
    ls_state_add(two, "fc1.weight", ls_zeros(run, LS_F32, 8, 5));
    ls_state_add(two, "fc1.bias", ls_zeros(run, LS_F32, 9));
    ls_load_state_dict(net, two, .partial = true);
    CHECK_MSG(strstr(ls_error_message(run), "the list has [8,5]; others differ too: fc1.bias; .skip_mismatched = true"),
              "%s", ls_error_message(run));
    CHECK(strstr(ls_error_message(run), ".optional = \"fc1.weight\""));
    ls_clear_error(run);
    report = ls_load_state_dict(net, list, .partial = true, .skip_mismatched = true);
    CHECK(report.loaded == 1 && report.mismatched_count == 1);
    CHECK_TEXT(report.mismatched[0], "fc1.weight");
    CHECK(ls_finish(run) == 0);
}

static void patterns_select_names(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_state *all = ls_parameters(net_new(run));
    CHECK(ls_state_count(ls_state_matching(all, "*.bias")) == 3);
    CHECK(ls_state_count(ls_state_matching(all, "head.*.bias|scale")) == 3);
    CHECK(ls_state_count(ls_state_matching(all, "fc1.weight")) == 1);
    CHECK(ls_state_count(ls_state_without(all, "*.bias|*.weight")) == 1);
    CHECK(ls_state_count(ls_state_matching(all, "*e*d*0*")) == 2);
    CHECK(ls_finish(run) == 0);
}

static void patterns_that_match_nothing_are_an_error(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_state *all = ls_parameters(net_new(run));
    CHECK(!ls_state_matching(all, "*.biass|*.gamma") && ls_error(run) == LS_ERR_VALUE);
    CHECK(strstr(ls_error_message(run), "no name matches \"*.biass|*.gamma\"; there are fc1.bias, ") != NULL);
    ls_clear_error(run);
    CHECK(!ls_state_matching(all, "fc1.wieght") && ls_error(run) == LS_ERR_VALUE);
    CHECK(strstr(ls_error_message(run), "; there are fc1.weight, ") != NULL);
    ls_clear_error(run);
    CHECK(!ls_state_matching(all, "") && ls_error(run) == LS_ERR_VALUE);
    ls_clear_error(run);
    CHECK(!ls_state_matching(ls_state_new(run), "*"));
    CHECK_TEXT(ls_error_message(run), "ls_state_matching: no name matches \"*\": the list is empty");
    ls_clear_error(run);
    /* One of the patterns is enough. */
    CHECK(ls_state_count(ls_state_matching(all, "*.gamma|fc1.*")) == 2);
    CHECK(ls_finish(run) == 0);
}

/* For trainings that go on: settings that names and shapes of parameters do not show. */
static void layers_say_what_changes_their_numbers(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *const pairs[][2] = {
        {ls_conv2d_new(run, 1, 1, 3), ls_conv2d_new(run, 1, 1, 3, .dilation_hw = {LS_AUTO, 2})},
        {ls_conv2d_new(run, 1, 1, 3), ls_conv2d_new(run, 1, 1, 3, .padding_hw = {1, LS_AUTO})},
        {ls_conv_transpose2d_new(run, 1, 1, 3, .stride = 2),
         ls_conv_transpose2d_new(run, 1, 1, 3, .stride = 2, .output_padding = 1)},
        {ls_max_pool2d_new(run, 3), ls_max_pool2d_new(run, 3, .ceil_mode = true)},
        {ls_max_pool2d_new(run, 3), ls_max_pool2d_new(run, 3, .kernel_hw = {LS_AUTO, 2})},
        {ls_avg_pool2d_new(run, 3), ls_avg_pool2d_new(run, 3, .count_include_pad = false)},
        {ls_upsample_new(run, 2, LS_INTERPOLATE_NEAREST), ls_upsample_new(run, 2, LS_INTERPOLATE_BILINEAR)},
        {ls_adaptive_avg_pool2d_new(run, 1, 1), ls_adaptive_avg_pool2d_new(run, 1, 2)},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        CHECK_MSG(strcmp(pairs[i][0]->says, pairs[i][1]->says) != 0, "%zu: %s", i, pairs[i][0]->says);
    CHECK(ls_finish(run) == 0);
}

static void tied_parameters_are_one(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *net = ls_module_new(run, "tied", NULL, NULL);
    ls_module *embedding = ls_module_add(net, "in", ls_embedding_new(run, 6, 4));
    ls_module *head = ls_module_add(net, "out", ls_module_new(run, "head", NULL, NULL));
    ls_register_parameter(head, "weight", ls_module_tensor(embedding, "weight"));
    CHECK(ls_state_count(ls_state_dict(net)) == 2 && ls_state_count(ls_parameters(net)) == 1);
    CHECK(ls_parameter_count(net) == 24);
    ls_module_free(net);
    CHECK(ls_error(run) == LS_OK);
    CHECK(ls_finish(run) == 0);
}

static void parameters_can_be_cast(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *net = net_new(run);
    ls_tensor *weight = ls_module_tensor(net, "fc1.weight");
    ls_module_cast(net, LS_BF16);
    CHECK(ls_dtype_of(weight) == LS_BF16 && ls_requires_grad(weight));
    CHECK(ls_dtype_of(ls_module_tensor(net, "head.0.running_mean")) == LS_F32);
    CHECK(ls_finish(run) == 0);
}

static void description_is_a_table(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *net = net_new(run);
    ls_freeze(ls_child(net, "fc1"));
    ls_forward(net, ls_zeros(run, LS_F32, 5, 4));
    char text[2000] = {0};
    FILE *file = fmemopen(text, sizeof text - 1, "w");
    ls_describe(net, file);
    fclose(file);
    CHECK_TEXT(text, "layer   kind        output      parameters\n"
                     "net     net         [5,3]               84  partly frozen\n"
                     "  fc1   Linear      [5,8]               40  frozen\n"
                     "  head  Sequential  [5,3]               43\n"
                     "    0   BatchNorm   [5,8]               16\n"
                     "    1   Linear      [5,3]               27\n"
                     "84 parameters, 44 of them trained\n");
    CHECK(ls_finish(run) == 0);
}

static void modules_can_be_freed_early(void)
{
    ls_run *run = ls_init(NULL, NULL);
    size_t before = ls_memory(run).in_use;
    ls_module *net = net_new(run);
    ls_state_dict(net);
    CHECK(ls_memory(run).in_use > before);
    ls_module_free(net);
    CHECK(ls_memory(run).in_use == before);
    CHECK(ls_finish(run) == 0);
}

/* Every request for memory fails once: an error, no crash, nothing lost. */
static void memory_may_run_out(void)
{
    uint64_t n = 1;
    for (bool done = false; !done && n < 2000; n++) {
        uint64_t before = ls_sys_calls();
        ls_sys_fail_at(n);
        ls_run *run = ls_init(NULL, NULL);
        ls_module *net = net_new(run);
        ls_module *layer = ls_transformer_layer_new(run, 8, 2);
        ls_load_state_dict(net, ls_state_dict(net));
        ls_forward(net, ls_randn(run, LS_F32, 5, 4));
        ls_forward(layer, ls_randn(run, LS_F32, 2, 3, 8));
        CHECK_MSG(!ls_error(run) || ls_error(run) == LS_ERR_MEMORY, "%s", ls_error_message(run));
        ls_clear_error(run);
        ls_finish(run);
        done = ls_sys_calls() - before < n;
    }
    ls_sys_fail_at(0);
    CHECK(n > 10 && n < 2000);
}

/* What a constructor has made by then goes at once, not with the run. */
static void constructors_that_fail_leave_nothing(void)
{
    ls_run *run = ls_init(NULL, NULL);
    const ls_object *latest = run->objects;
    size_t before = ls_memory(run).in_use;
    bool done = false;
    for (uint64_t n = 1; !done && n < 2000; n++) {
        ls_mark mark = ls_scope_begin(run);
        uint64_t asked = ls_sys_calls();
        ls_sys_fail_at(n);
        ls_module *layer = ls_transformer_layer_new(run, 8, 2);
        done = ls_sys_calls() - asked < n;
        ls_sys_fail_at(0);
        ls_scope_end(run, mark, NULL);
        CHECK(layer ? ls_error(run) == LS_OK : ls_error(run) == LS_ERR_MEMORY);
        ls_clear_error(run);
        ls_module_free(layer);
        CHECK_MSG(run->objects == latest && ls_memory(run).in_use == before, "request %d: %zu bytes are left", (int)n,
                  ls_memory(run).in_use - before);
    }
    CHECK(done && ls_finish(run) == 0);
}

static void modules_given_to_one_that_fails_stay(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *first = ls_linear_new(run, 8, 8), *second = ls_linear_new(run, 8, 8);
    ls_sys_fail_at(5); /* the name of the second */
    CHECK(!ls_sequential_new(run, first, second) && ls_error(run) == LS_ERR_MEMORY);
    ls_sys_fail_at(0);
    ls_clear_error(run);
    ls_module *net = ls_sequential_new(run, first, second);
    CHECK(ls_child(net, "1") == second && ls_dim(ls_forward(net, ls_randn(run, LS_F32, 3, 8)), 1) == 8);
    CHECK(ls_finish(run) == 0);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(names_are_pytorchs);
    CHECK_RUN(forward_runs_in_scopes);
    CHECK_RUN(errors_carry_the_path);
    CHECK_RUN(misuse_is_an_error);
    CHECK_RUN(modes_reach_all_children);
    CHECK_RUN(freezing_forgets_gradients);
    CHECK_RUN(frozen_parts_get_no_gradient);
    CHECK_RUN(state_is_copied);
    CHECK_RUN(loading_is_strict_unless_partial);
    CHECK_RUN(patterns_select_names);
    CHECK_RUN(patterns_that_match_nothing_are_an_error);
    CHECK_RUN(layers_say_what_changes_their_numbers);
    CHECK_RUN(tied_parameters_are_one);
    CHECK_RUN(parameters_can_be_cast);
    CHECK_RUN(description_is_a_table);
    CHECK_RUN(modules_can_be_freed_early);
    CHECK_RUN(memory_may_run_out);
    CHECK_RUN(constructors_that_fail_leave_nothing);
    CHECK_RUN(modules_given_to_one_that_fails_stay);
    return check_done();
}
