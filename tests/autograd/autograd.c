/* autograd.c - the backward walk: accumulation, hooks, gradients in the caller's memory, what is kept and released. */
#include <lockstep.h>

#include "check.h"

static ls_run *run;

static ls_tensor *leaf(double value, int64_t n)
{
    return ls_set_requires_grad(ls_full(run, LS_F32, value, n), true);
}

static void gradients_add_up(void)
{
    ls_tensor *w = leaf(3, 4);
    CHECK(ls_grad(w) == NULL);
    for (int i = 1; i <= 3; i++) {
        ls_backward(run, ls_sum(ls_mul(w, w))); /* 2 w */
        CHECK_NEAR(ls_item(ls_sum(ls_grad(w))), 24 * i, 1e-6);
    }
    ls_clear_grad(w);
    CHECK(ls_grad(w) == NULL);
    ls_backward(run, ls_sum(w));
    CHECK(ls_item(ls_sum(ls_grad(w))) == 4);
}

static void one_tensor_used_many_times(void)
{
    ls_tensor *x = leaf(2, 3);
    ls_tensor *y = ls_add(ls_add(x, x), ls_mul(x, ls_add(x, x))); /* 2x + 2x^2: 2 + 4x = 10 */
    ls_backward(run, ls_sum(ls_add(y, ls_detach(y))));
    CHECK_NEAR(ls_item(ls_sum(ls_grad(x))), 30, 1e-6);
    ls_tensor *a = leaf(1, 3),
              *b = leaf(1, 3); /* both leaves receive the same gradient tensor: they must not share it */
    ls_backward(run, ls_sum(ls_add(a, b)));
    ls_backward(run, ls_sum(a));
    CHECK(ls_item(ls_sum(ls_grad(a))) == 6 && ls_item(ls_sum(ls_grad(b))) == 3);
}

/* The gradient of a mean is one value repeated; later contributions must not be added into that one value. */
static void repeated_values_are_added_to(void)
{
    ls_tensor *x = leaf(1, 3), *w = ls_arange(run, LS_F32, 3, 10, 10), *h = ls_mul_scalar(x, 2);
    ls_tensor *weighted = ls_sum(ls_mul(h, w)), *mean = ls_mean(h); /* gradient 2 w + 2 */
    ls_backward(run, ls_add(weighted, ls_mul_scalar(mean, 3)));
    float dx[3] = {0};
    CHECK(ls_read(ls_grad(x), dx, sizeof dx) && dx[0] == 22 && dx[1] == 42 && dx[2] == 62);
}

static void gradients_live_where_they_are_put(void)
{
    ls_tensor *flat = ls_zeros(run, LS_F32, 20);
    ls_tensor *w = ls_set_requires_grad(ls_ones(run, LS_F32, 3, 4), true), *b = leaf(1, 3);
    ls_set_grad_memory(w, ls_reshape(ls_slice(flat, 0, 0, 12, 1), 3, 4));
    ls_set_grad_memory(b, ls_slice(flat, 0, 12, 15, 1));
    for (int i = 1; i <= 2; i++) {
        ls_backward(run, ls_sum(ls_linear(ls_ones(run, LS_F32, 5, 4), w, b, LS_ACT_NONE)));
        CHECK(ls_item(ls_sum(flat)) == 75 * i); /* 12 weights x 5 rows, 3 biases x 5 rows, straight into the buffer */
    }
    ls_clear_grad(w);
    ls_backward(run, ls_sum(ls_mul(w, w)));
    CHECK(ls_item(ls_sum(ls_slice(flat, 0, 0, 12, 1))) == 24);
    CHECK(ls_item(ls_sum(ls_slice(flat, 0, 15, 20, 1))) == 0);
}

static int calls;
static ls_tensor *order[8];
static double seen[8];

static void hook(ls_tensor *t, void *user)
{
    (void)user;
    order[calls] = t;
    seen[calls++] = ls_item(ls_sum(ls_grad(t)));
}

static void hooks_are_called_when_a_gradient_is_complete(void)
{
    ls_tensor *early = leaf(2, 1), *late = leaf(3, 1), *unused = leaf(1, 1);
    ls_register_grad_hook(early, hook, NULL);
    ls_register_grad_hook(late, hook, NULL);
    ls_register_grad_hook(unused, hook, NULL);
    calls = 0;
    ls_tensor *h = ls_mul(early, early);
    ls_backward(run, ls_sum(ls_mul(ls_mul(h, late), late)));    /* early^2 late^2 */
    CHECK(calls == 2 && order[0] == late && order[1] == early); /* closest to the loss first; once each, complete */
    CHECK_NEAR(seen[0], 24, 1e-6);
    CHECK_NEAR(seen[1], 36, 1e-6);
}

static void nothing_is_recorded_without_gradients(void)
{
    ls_tensor *w = leaf(1, 3);
    ls_no_grad_begin(run);
    ls_no_grad(run) CHECK(!ls_is_grad_enabled(run));
    CHECK(!ls_is_grad_enabled(run) && !ls_requires_grad(ls_mul(w, w)));
    ls_no_grad_end(run);
    CHECK(ls_is_grad_enabled(run) && ls_requires_grad(ls_mul(w, w)));
    CHECK(!ls_requires_grad(ls_mul(ls_detach(w), ls_detach(w))) && !ls_requires_grad(ls_argmax(w)) &&
          !ls_requires_grad(ls_gt(w, w)));
    ls_set_requires_grad(w, false);
    CHECK(!ls_requires_grad(ls_mul(w, w)));
}

/* What backward needs survives its scope, and is released during the walk. */
static void the_tape_keeps_and_releases(void)
{
    ls_tensor *w = ls_set_requires_grad(ls_ones(run, LS_F32, 1000), true);
    ls_backward(run, ls_sum(w)); /* memory for the gradient */
    ls_clear_grad(w);
    size_t before = ls_memory(run).in_use;
    ls_mark mark = ls_scope_begin(run);
    ls_tensor *loss;
    {
        ls_mark inner = ls_scope_begin(run);
        ls_tensor *y = w;
        for (int i = 0; i < 50; i++) y = ls_mul(y, w);
        loss = ls_scope_end(run, inner, ls_sum(y));
    }
    CHECK(ls_memory(run).in_use >= before + 49 * 4000); /* kept only by the tape */
    ls_backward(run, loss);
    CHECK(ls_memory(run).in_use < before + 3 * 4096);
    CHECK_NEAR(ls_item(ls_sum(ls_grad(w))), 51000, 1e-6);
    ls_scope_end(run, mark, NULL);
    ls_clear_grad(w);
    CHECK(ls_memory(run).in_use == before);

    mark = ls_scope_begin(run); /* a graph that is never walked is freed with its handles, however long it is */
    ls_tensor *y = w;
    for (int i = 0; i < 20000; i++) y = ls_mul(y, w);
    ls_scope_end(run, mark, NULL);
    CHECK(ls_memory(run).in_use == before);
}

static void autocast_nests(void)
{
    ls_tensor *x = ls_ones(run, LS_F32, 4, 8), *w = ls_set_requires_grad(ls_ones(run, LS_F32, 3, 8), true);
    ls_autocast_begin(run, LS_BF16);
    CHECK(ls_dtype_of(ls_linear(x, w, NULL, LS_ACT_NONE)) == LS_BF16 &&
          ls_dtype_of(ls_matmul(x, ls_transpose(w, 0, 1))) == LS_BF16);
    CHECK(ls_dtype_of(ls_add(x, x)) == LS_F32 &&
          ls_dtype_of(ls_cross_entropy(ls_cast(x, LS_BF16), ls_zeros(run, LS_I64, 4))) == LS_F32);
    ls_autocast_begin(run, LS_F32);
    CHECK(ls_dtype_of(ls_linear(x, w, NULL, LS_ACT_NONE)) == LS_F32);
    ls_autocast_end(run);
    ls_autocast_begin(run, LS_F16);
    ls_tensor *y = ls_linear(x, w, NULL, LS_ACT_NONE);
    CHECK(ls_dtype_of(y) == LS_F16);
    ls_autocast_end(run);
    ls_autocast_end(run);
    CHECK(ls_dtype_of(ls_linear(x, w, NULL, LS_ACT_NONE)) == LS_F32);
    ls_backward(run, ls_sum(y));
    CHECK(ls_dtype_of(ls_grad(w)) == LS_F32 &&
          ls_item(ls_sum(ls_grad(w))) == 96); /* gradients of f32 weights are f32 */
    CHECK(ls_dtype_of(ls_linear(ls_ones(run, LS_F64, 2, 2), ls_ones(run, LS_F64, 2, 2), NULL, LS_ACT_NONE)) == LS_F64);
}

/* The tape keeps a weight's numbers, and where it is frozen nothing but those: forms that the device made of it live
 * with the parameter, which goes first here, and others are made in its place. */
static void a_weight_may_go_before_the_walk(void)
{
    enum { N = 64 };
    for (int frozen = 0; frozen < 3; frozen++) { /* never, before the forward pass, after it */
        ls_module *net = ls_sequential_new(run, ls_linear_new(run, N, N), ls_linear_new(run, N, N));
        if (frozen == 1) ls_freeze(net);
        ls_tensor *x = ls_set_requires_grad(ls_rand(run, LS_F32, N, N), true);
        ls_backward(run, ls_sum(ls_square(ls_forward(net, x)))); /* forms for both ways are made */
        double want = ls_item(ls_sum(ls_grad(x)));
        ls_clear_grad(x);
        ls_tensor *loss = ls_sum(ls_square(ls_forward(net, x)));
        if (frozen == 2) ls_freeze(net);
        ls_module_free(net);
        ls_module *others[8];
        for (int i = 0; i < 8; i++) others[i] = ls_linear_new(run, N, N);
        for (int i = 0; i < 8; i++) ls_forward(others[i], x);
        ls_backward(run, loss);
        CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
        CHECK_MSG(ls_item(ls_sum(ls_grad(x))) == want, "%d: %g, %g", frozen, ls_item(ls_sum(ls_grad(x))), want);
        for (int i = 0; i < 8; i++) ls_module_free(others[i]);
    }
}

/* A loss of gradients alone says why it has no gradient. */
static void gradients_of_gradients_are_refused_by_name(void)
{
    ls_tensor *x = leaf(1, 2);
    ls_backward(run, ls_sum(ls_square(x)));
    ls_backward(run, ls_norm(ls_grad(x)));
    CHECK_MSG(ls_error(run) == LS_ERR_STATE &&
                  strstr(ls_error_message(run), "gradients of gradients are not supported"),
              "%s", ls_error_message(run));
    ls_clear_error(run);
}

static ls_tensor *one_and_two(void)
{
    return ls_set_requires_grad(ls_from(run, LS_F32, LS_SHAPE(2), (float[]){1, 2}), true);
}

static void a_loss_with_gradients_in_it_is_refused(void)
{
    ls_tensor *x = one_and_two();
    ls_backward(run, ls_sum(ls_square(x)));
    ls_tensor *penalty = ls_square(ls_add_scalar(ls_norm(ls_reshape(ls_grad(x), 1, 2)), -1));
    ls_backward(run, ls_add(ls_sum(ls_square(x)), ls_mul_scalar(penalty, 10)));
    CHECK_MSG(ls_error(run) == LS_ERR_UNSUPPORTED && strstr(ls_error_message(run), "ls_detach() the gradient"), "%s",
              ls_error_message(run));
    ls_clear_error(run);
    CHECK(ls_item(ls_sum(ls_grad(x))) == 2 * (1 + 2)); /* nothing was added */
}

/* Constants by intent: updates by hand, what was detached or computed without recording, and what only compares. */
static void gradients_may_be_constants(void)
{
    ls_tensor *x = one_and_two(), *kept = NULL;
    ls_backward(run, ls_sum(ls_square(x)));
    ls_tensor *next = ls_sub(x, ls_mul_scalar(ls_grad(x), 0.25));
    CHECK(ls_item(ls_sum(ls_detach(next))) == 1.5);
    ls_no_grad(run) kept = ls_mul_scalar(ls_grad(x), 2);
    ls_tensor *mask = ls_cast(ls_gt_scalar(ls_grad(x), 3), LS_F32), *again = ls_detach(ls_grad(x));
    ls_clear_grad(x);
    ls_backward(run, ls_sum(ls_mul(x, ls_add(ls_add(kept, mask), again))));
    CHECK_TEXT(ls_error_message(run), "");
    CHECK(ls_item(ls_sum(ls_grad(x))) == 3 * (2 + 4) + 1);
    ls_tensor *start = ls_set_requires_grad(ls_grad(x), true); /* a leaf from now on */
    ls_backward(run, ls_sum(ls_square(start)));
    CHECK_TEXT(ls_error_message(run), "");
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    run = ls_init(NULL, NULL, .seed = 1);
    CHECK_RUN(gradients_add_up);
    CHECK_RUN(one_tensor_used_many_times);
    CHECK_RUN(repeated_values_are_added_to);
    CHECK_RUN(gradients_live_where_they_are_put);
    CHECK_RUN(hooks_are_called_when_a_gradient_is_complete);
    CHECK_RUN(nothing_is_recorded_without_gradients);
    CHECK_RUN(the_tape_keeps_and_releases);
    CHECK_RUN(a_weight_may_go_before_the_walk);
    CHECK_RUN(autocast_nests);
    CHECK_RUN(gradients_of_gradients_are_refused_by_name);
    CHECK_RUN(a_loss_with_gradients_in_it_is_refused);
    CHECK_RUN(gradients_may_be_constants);
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
    ls_finish(run);
    return check_done();
}
