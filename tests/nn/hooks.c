/* hooks.c - functions that are called around modules. */
#include <lockstep.h>

#include "check.h"

static char calls[400]; /* what was called, in order */

static double total(ls_tensor *t)
{
    return ls_item(ls_sum(t));
}

static void note_before(ls_module *module, ls_tensor **inputs, int64_t n, void *user)
{
    (void)inputs;
    snprintf(calls + strlen(calls), sizeof calls - strlen(calls), "%s before %s %d, ", (const char *)user,
             ls_module_kind(module), (int)n);
}

static void note_after(ls_module *module, ls_tensor *const *inputs, int64_t n, ls_outputs *outputs, void *user)
{
    (void)inputs;
    snprintf(calls + strlen(calls), sizeof calls - strlen(calls), "%s after %s %d %d, ", (const char *)user,
             ls_module_kind(module), (int)n, (int)outputs->count);
}

static void hooks_are_called_in_the_order_they_were_added_in(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *net = ls_sequential_new(run, ls_relu_new(run), ls_tanh_new(run));
    ls_tensor *x = ls_ones(run, LS_F32, 2);
    char a[] = "a", b[] = "b", c[] = "c";
    ls_register_forward_hook(net, note_after, a);
    ls_register_forward_hook(net, note_after, b);
    ls_register_forward_pre_hook(net, note_before, a);
    ls_hook *second = ls_register_forward_pre_hook(net, note_before, b);
    ls_register_forward_pre_hook(ls_child(net, "1"), note_before, c);
    calls[0] = '\0';
    ls_forward(net, x);
    CHECK_TEXT(calls, "a before Sequential 1, b before Sequential 1, c before Tanh 1, a after Sequential 1 1, "
                      "b after Sequential 1 1, ");
    ls_hook_remove(second);
    calls[0] = '\0';
    ls_forward_all(net, x);
    CHECK_TEXT(calls, "a before Sequential 1, c before Tanh 1, a after Sequential 1 1, b after Sequential 1 1, ");
    calls[0] = '\0';
    ls_forward(ls_batch_norm_new(run, 2), ls_ones(run, LS_F32, 3, 2), ls_ones(run, LS_F32, 3, 2));
    CHECK_TEXT(calls, "");
    CHECK(ls_finish(run) == 0);
}

static void doubles(ls_module *module, ls_tensor **inputs, int64_t n, void *user)
{
    (void)module;
    (void)user;
    inputs[n - 1] = ls_mul_scalar(inputs[n - 1], 2);
}

static void adds_one(ls_module *module, ls_tensor *const *inputs, int64_t n, ls_outputs *outputs, void *user)
{
    (void)module;
    (void)n;
    *(double *)user = total(inputs[0]);
    outputs->item[0] = ls_add_scalar(outputs->item[0], 1);
}

static void hooks_replace_inputs_and_outputs(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *net = ls_linear_new(run, 2, 2);
    ls_tensor *x = ls_set_requires_grad(ls_ones(run, LS_F32, 1, 2), true), *kept = x;
    double y = total(ls_forward(net, ls_mul_scalar(x, 2))), seen = 0;
    ls_hook *first = ls_register_forward_pre_hook(net, doubles, NULL),
            *second = ls_register_forward_hook(net, adds_one, &seen);
    ls_tensor *out = ls_forward(net, x);
    CHECK_NEAR(total(out), y + 2, 1e-6);
    CHECK(seen == 4 && x == kept);
    ls_backward(run, ls_sum(out)); /* through what the hooks did */
    ls_tensor *w = ls_module_tensor(net, "weight");
    CHECK_NEAR(total(ls_grad(x)), 2 * total(w), 1e-5);
    ls_hook_remove(first);
    ls_hook_remove(second);
    CHECK_NEAR(total(ls_forward(net, ls_mul_scalar(x, 2))), y, 1e-6);
    CHECK(ls_finish(run) == 0);
}

static void makes_three(ls_module *module, ls_tensor *const *inputs, int64_t n, ls_outputs *outputs, void *user)
{
    (void)module;
    (void)n;
    (void)user;
    *outputs = LS_OUTPUTS(outputs->item[0], ls_neg(inputs[0]), inputs[0]);
}

static void what_hooks_compute_goes_with_the_module_but_outputs(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *net = ls_relu_new(run);
    ls_tensor *x = ls_ones(run, LS_F32, 1024);
    ls_register_forward_pre_hook(net, doubles, NULL);
    ls_register_forward_hook(net, makes_three, NULL);
    size_t before = ls_memory(run).in_use;
    ls_outputs out = ls_forward_all(net, x);
    ls_mark mark = ls_scope_begin(run);
    CHECK(out.count == 3 && total(out.item[0]) == 2048 && total(out.item[1]) == -2048 && total(out.item[2]) == 2048);
    ls_scope_end(run, mark, NULL);
    for (int i = 0; i < 3; i++) ls_drop(out.item[i]);
    CHECK(ls_memory(run).in_use == before);
    CHECK(ls_finish(run) == 0);
}

/* ---- hooks that come and go ---- */

static ls_hook *list[3];

static void removes_all(ls_module *module, ls_tensor **inputs, int64_t n, void *user)
{
    note_before(module, inputs, n, user);
    for (int i = 0; i < 3; i++) ls_hook_remove(list[i]);
    ls_register_forward_pre_hook(module, note_before, user);
}

static void a_hook_may_remove_itself_and_others_and_add_some(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *net = ls_relu_new(run);
    ls_tensor *x = ls_ones(run, LS_F32, 2);
    char name[] = "x";
    list[0] = ls_register_forward_pre_hook(net, removes_all, name);
    list[1] = ls_register_forward_pre_hook(net, note_before, name);
    list[2] = ls_register_forward_hook(net, note_after, name);
    calls[0] = '\0';
    ls_forward(net, x);
    CHECK_TEXT(calls, "x before ReLU 1, ");
    ls_forward(net, x);
    CHECK_TEXT(calls, "x before ReLU 1, x before ReLU 1, ");
    CHECK(ls_finish(run) == 0);
}

static void hooks_go_with_their_module(void)
{
    ls_run *run = ls_init(NULL, NULL);
    char name[] = "x";
    for (int i = 0; i < 3; i++) {
        ls_module *net = ls_sequential_new(run, ls_relu_new(run), ls_relu_new(run));
        ls_register_forward_hook(net, note_after, name);
        ls_register_forward_hook(ls_child(net, "0"), note_after, name);
        ls_hook_remove(ls_register_forward_hook(ls_child(net, "0"), note_after, name));
        if (i < 2) ls_module_free(net);
    }
    ls_hook_remove(NULL);
    CHECK(ls_finish(run) == 0); /* the sanitizers look for what is left */
}

/* ---- errors ---- */

static void fails_before(ls_module *module, ls_tensor **inputs, int64_t n, void *user)
{
    (void)module;
    (void)n;
    *(int *)user += 1;
    ls_add(inputs[0], ls_ones(ls_module_run(module), LS_F32, 7));
}

static void counts_after(ls_module *module, ls_tensor *const *inputs, int64_t n, ls_outputs *outputs, void *user)
{
    (void)module;
    (void)n;
    (void)inputs;
    (void)outputs;
    *(int *)user += 1;
}

static void forgets_the_output(ls_module *module, ls_tensor *const *inputs, int64_t n, ls_outputs *outputs, void *user)
{
    (void)module;
    (void)n;
    (void)inputs;
    (void)user;
    outputs->item[0] = NULL;
}

static void errors_in_hooks_are_the_modules(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *net = ls_sequential_new(run, ls_relu_new(run), ls_relu_new(run));
    ls_tensor *x = ls_ones(run, LS_F32, 2);
    int befores = 0, afters = 0;
    ls_hook *failing = ls_register_forward_pre_hook(ls_child(net, "1"), fails_before, &befores);
    ls_register_forward_pre_hook(ls_child(net, "1"), fails_before, &befores);
    ls_hook *counting = ls_register_forward_hook(ls_child(net, "1"), counts_after, &afters);
    CHECK(!ls_is_valid(ls_forward(net, x)));
    CHECK_MSG(strncmp(ls_error_message(run), "Sequential.1: add: ", 19) == 0, "%s", ls_error_message(run));
    CHECK(befores == 1 && afters == 0);
    ls_clear_error(run);

    ls_module *single = ls_child(net, "0");
    ls_hook_remove(failing);
    ls_hook_remove(counting);
    ls_hook *forgetting = ls_register_forward_hook(single, forgets_the_output, NULL);
    CHECK(!ls_is_valid(ls_forward(single, x)));
    CHECK_TEXT(ls_error_message(run), "0: a forward hook returned NULL");
    ls_clear_error(run);
    ls_hook_remove(forgetting);
    ls_register_forward_hook(single, makes_three, NULL);
    CHECK(!ls_is_valid(ls_forward(single, x)));
    CHECK_MSG(strstr(ls_error_message(run), "ReLU has 3 outputs, but one is expected here"), "%s",
              ls_error_message(run));
    ls_clear_error(run);

    CHECK(!ls_register_forward_hook(net, NULL, NULL) && ls_error(run) == LS_ERR_VALUE);
    ls_clear_error(run);
    CHECK(!ls_register_forward_pre_hook(NULL, doubles, NULL) && ls_error(run) == LS_OK);
    ls_tensor *many[LS_MAX_MODULE_INPUTS + 1] = {0};
    for (int i = 0; i <= LS_MAX_MODULE_INPUTS; i++) many[i] = x;
    CHECK(!ls_is_valid(ls_forward_n(net, many, LS_MAX_MODULE_INPUTS + 1)));
    CHECK_TEXT(ls_error_message(run), "ls_forward: 17 inputs; a module takes up to 16");
    ls_clear_error(run);
    CHECK(ls_finish(run) == 0);
}

static void types_of(ls_module *module, ls_tensor *const *inputs, int64_t n, ls_outputs *outputs, void *user)
{
    (void)module;
    (void)n;
    (void)inputs;
    *(ls_dtype *)user = ls_dtype_of(outputs->item[0]);
    ls_tensor *w = ls_ones(ls_module_run(module), LS_F32, 2, 2);
    CHECK(ls_dtype_of(ls_matmul(w, w)) == LS_F32); /* autocast is over */
}

static void hooks_of_a_prepared_module_see_f32(void)
{
    ls_run *run = ls_init(NULL, NULL, .mixed_precision = LS_BF16);
    ls_module *net = ls_linear_new(run, 4, 4);
    ls_prepare(run, net);
    ls_dtype seen = LS_BF16;
    ls_register_forward_hook(net, types_of, &seen);
    ls_forward(net, ls_ones(run, LS_F32, 2, 4));
    CHECK(seen == LS_F32);
    CHECK(ls_finish(run) == 0);
}

/* ---- what would stay behind, or never end ---- */

static void removing_a_hook_twice_is_once(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *net = ls_relu_new(run);
    ls_hook *hook = ls_register_forward_pre_hook(net, doubles, NULL);
    ls_hook_remove(hook);
    ls_hook_remove(hook);
    CHECK_NEAR(total(ls_forward(net, ls_ones(run, LS_F32, 2))), 2, 0);
    hook = ls_register_forward_pre_hook(net, doubles, NULL);
    ls_module_free(net);
    ls_hook_remove(hook); /* it went with its module */
    CHECK(ls_finish(run) == 0);
}

static ls_tensor *runs_itself(ls_module *net, ls_tensor *x, void *user)
{
    (void)user;
    return ls_forward(net, x);
}

static ls_tensor *switches(ls_module *net, ls_tensor *x, void *user)
{
    ls_run *run = ls_module_run(net);
    const char *what = user;
    if (strcmp(what, "autocast on") == 0) ls_autocast_begin(run, LS_BF16);
    if (strcmp(what, "gradients off") == 0) ls_no_grad_begin(run);
    if (strcmp(what, "gradients on") == 0) ls_no_grad_end(run);
    return ls_relu(x);
}

static void frees_it(ls_module *module, ls_tensor *const *inputs, int64_t n, ls_outputs *outputs, void *user)
{
    (void)n;
    (void)inputs;
    (void)outputs;
    (void)user;
    ls_module_free(module);
}

static void fails_with(ls_run *run, ls_module *module, const char *words)
{
    CHECK(!ls_is_valid(ls_forward(module, ls_ones(run, LS_F32, 2))));
    CHECK_MSG(strstr(ls_error_message(run), words), "\"%s\" does not say \"%s\"", ls_error_message(run), words);
    ls_clear_error(run);
}

static void what_a_module_does_to_itself_or_the_run_is_refused(void)
{
    ls_run *run = ls_init(NULL, NULL);
    fails_with(run, ls_module_new(run, "Net", runs_itself, NULL), "Net runs inside itself 1000 times");
    ls_module *freed = ls_relu_new(run);
    ls_register_forward_hook(freed, frees_it, NULL);
    fails_with(run, freed, "ls_module_free: ReLU is running");
    char autocast[] = "autocast on", off[] = "gradients off", on[] = "gradients on";
    fails_with(run, ls_module_new(run, "Net", switches, autocast), "ls_autocast_begin() without ls_autocast_end()");
    fails_with(run, ls_module_new(run, "Net", switches, off), "ls_no_grad_begin() without ls_no_grad_end()");
    CHECK(ls_is_grad_enabled(run));
    ls_no_grad_begin(run);
    fails_with(run, ls_module_new(run, "Net", switches, on), "ls_no_grad_end() without ls_no_grad_begin()");
    CHECK(!ls_is_grad_enabled(run));
    ls_no_grad_end(run);
    CHECK(ls_finish(run) == 0);
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    CHECK_RUN(hooks_are_called_in_the_order_they_were_added_in);
    CHECK_RUN(hooks_replace_inputs_and_outputs);
    CHECK_RUN(what_hooks_compute_goes_with_the_module_but_outputs);
    CHECK_RUN(a_hook_may_remove_itself_and_others_and_add_some);
    CHECK_RUN(hooks_go_with_their_module);
    CHECK_RUN(errors_in_hooks_are_the_modules);
    CHECK_RUN(hooks_of_a_prepared_module_see_f32);
    CHECK_RUN(removing_a_hook_twice_is_once);
    CHECK_RUN(what_a_module_does_to_itself_or_the_run_is_refused);
    return check_done();
}
