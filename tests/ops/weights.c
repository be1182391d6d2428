/* weights.c - weights that change between products, written through whatever handle: forms that devices keep of them
 * (packed, in half precision) are made anew, and handles follow a parameter that a step moves. */
#include <lockstep.h>
#include <math.h>

#include "check.h"

static ls_run *run;

/* ---- handles ----------------------------------------------------------------------------------------------------- */

/* Half of what a handle shows of a weight. */
typedef void halve_fn(ls_tensor *w);

static void halve(ls_tensor *part)
{
    ls_assign(part, ls_mul_scalar(ls_clone(part), 0.5));
}

static void itself(ls_tensor *w)
{
    halve(w);
}

static void detached(ls_tensor *w)
{
    halve(ls_detach(w));
}

static void reshaped(ls_tensor *w)
{
    halve(ls_reshape(w, -1));
}

static void rows(ls_tensor *w)
{
    for (int64_t i = 0; i < ls_dim(w, 0); i++) halve(ls_select(w, 0, i));
}

static void slices(ls_tensor *w)
{
    halve(ls_slice(w, 0, 0, 1, 1));
    halve(ls_slice(w, 0, 1, ls_dim(w, 0), 1));
}

static void bytes(ls_tensor *w)
{
    float half[64 * 64];
    ls_tensor *flat = ls_reshape(w, -1);
    const size_t size = (size_t)ls_numel(w) * sizeof *half;
    CHECK(size <= sizeof half && ls_read(flat, half, size));
    for (int64_t i = 0; i < ls_numel(w); i++) half[i] /= 2;
    ls_write(flat, half, size);
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

typedef ls_tensor *multiply_fn(ls_tensor *w);

static ls_tensor *linear(ls_tensor *w)
{
    return ls_linear(ls_ones(run, LS_F32, 64, 64), w, NULL, LS_ACT_NONE);
}

static ls_tensor *product(ls_tensor *w)
{
    return ls_matmul(ls_ones(run, LS_F32, 8, 64), w);
}

static ls_tensor *convolution(ls_tensor *w)
{
    return ls_conv2d(ls_ones(run, LS_F32, 2, 64, 3, 3), w, NULL, .stride = 1);
}

/* Is the mean of the products of `shown` half as much after each write to `written`? */
static void follows(const char *name, multiply_fn *multiply, ls_tensor *shown, halve_fn *write, ls_tensor *written)
{
    for (int half = 0; half < 2; half++) {
        double before = 0;
        for (int step = 0; step < 5; step++) {
            ls_autocast(run, half ? LS_BF16 : LS_F32)
            {
                for (int again = 0; again < 3; again++) { /* kept from the second on */
                    double now = ls_item(ls_mean(ls_cast(multiply(shown), LS_F32)));
                    double expected = again || !step ? before : before / 2;
                    CHECK_MSG((!step && !again) || now == expected, "%s, %s, step %d: %g instead of %g", name,
                              half ? "bf16" : "f32", step, now, expected);
                    before = now;
                }
            }
            ls_no_grad(run) write(written);
        }
    }
}

static const struct {
    const char *name;
    halve_fn *write;
} ways[] = {{"itself", itself}, {"detached", detached}, {"reshaped", reshaped},
            {"rows", rows},     {"slices", slices},     {"bytes", bytes}};
enum { WAYS = sizeof ways / sizeof *ways };

static const struct {
    multiply_fn *multiply;
    bool is_convolution;
} products[] = {{linear, false}, {product, false}, {convolution, true}};
enum { PRODUCTS = sizeof products / sizeof *products };

static ls_tensor *weight(int number)
{
    ls_tensor *w = products[number].is_convolution ? ls_ones(run, LS_F32, 64, 64, 1, 1) : ls_ones(run, LS_F32, 64, 64);
    return ls_set_requires_grad(w, true);
}

static void a_write_through_any_handle_counts(void)
{
    for (int p = 0; p < PRODUCTS; p++)
        for (int i = 0; i < WAYS; i++) {
            ls_tensor *w = weight(p);
            follows(ways[i].name, products[p].multiply, w, ways[i].write, w);
        }
}

static void so_does_one_of_a_frozen_weight(void)
{
    for (int p = 0; p < PRODUCTS; p++)
        for (int i = 0; i < WAYS; i++) {
            ls_tensor *w = ls_set_requires_grad(weight(p), false);
            follows(ways[i].name, products[p].multiply, w, ways[i].write, w);
        }
}

static void two_leaves_may_have_the_same_memory(void)
{
    for (int p = 0; p < PRODUCTS; p++) {
        ls_tensor *w = weight(p), *other = ls_set_requires_grad(ls_detach(w), true);
        follows("another leaf", products[p].multiply, w, itself, other);
        follows("the first leaf", products[p].multiply, other, itself, w);
        ls_drop(w);
        follows("the leaf that is left", products[p].multiply, other, detached, other);
    }
}

/* An optimiser moves its parameters into a block of memory. */
static void a_parameter_that_was_moved_is_followed(void)
{
    ls_module *layer = ls_linear_new(run, 64, 64);
    ls_tensor *w = ls_module_tensor(layer, "weight");
    ls_optim *sgd = ls_sgd_new(run, layer, .lr = 0);
    ls_backward(run, ls_mean(ls_forward(layer, ls_ones(run, LS_F32, 2, 64))));
    CHECK(ls_step(sgd));
    for (int i = 0; i < WAYS; i++) {
        ls_no_grad(run) ls_assign(w, ls_ones(run, LS_F32, 64, 64));
        follows(ways[i].name, linear, w, ways[i].write, w);
    }
}

/* A step with this rate, which moves the parameters of a layer unless they are to be scattered. */
static void step_with(ls_module *layer, double lr, bool scattered)
{
    ls_optim *sgd = ls_sgd_new(run, layer, .lr = lr, .scattered = scattered);
    ls_backward(run, ls_mean(ls_forward(layer, ls_ones(run, LS_F32, 2, 64))));
    CHECK(ls_step(sgd));
}

static void a_view_stays_one_when_its_parameter_is_moved(void)
{
    for (int scattered = 0; scattered < 2; scattered++) {
        ls_module *layer = ls_linear_new(run, 64, 64);
        ls_tensor *w = ls_module_tensor(layer, "weight"), *leaf = ls_set_requires_grad(ls_detach(w), true);
        ls_tensor *views[] = {ls_detach(w), ls_reshape(ls_detach(w), -1), ls_transpose(ls_detach(w), 0, 1), leaf};
        ls_tensor *corner = ls_slice(ls_detach(w), 1, 32, 64, 2);
        step_with(layer, 1, scattered);
        const double now = ls_item(ls_sum(ls_detach(w))), part = ls_item(ls_sum(ls_slice(ls_detach(w), 1, 32, 64, 2)));
        CHECK_MSG(ls_item(ls_sum(corner)) == part, "a slice shows the step");
        enum { VIEWS = sizeof views / sizeof *views };
        for (int i = 0; i < VIEWS; i++)
            CHECK_MSG(fabs(ls_item(ls_sum(ls_detach(views[i]))) - now) < 1e-3, "view %d shows the step", i);
        for (int i = 0; i < VIEWS; i++) {
            ls_no_grad(run) ls_assign(views[i], ls_ones_like(views[i]));
            follows("a view from before", linear, w, itself, views[i]);
            follows("the parameter", linear, views[i] == leaf ? leaf : w, itself, w);
        }
    }
}

/* Whoever holds the tensor that it is a part of must see it, too: it stays where it is. */
static void so_does_a_parameter_that_is_one_itself(void)
{
    ls_tensor *all = ls_ones(run, LS_F32, 3, 64, 64), *w = ls_set_requires_grad(ls_select(all, 0, 1), true);
    ls_state *list = ls_state_new(run);
    ls_state_add(list, "w", w);
    ls_optim *sgd = ls_sgd_new(run, NULL, .lr = 1, .parameters = list);
    ls_backward(run, ls_mean(linear(w)));
    CHECK(ls_step(sgd));
    const double sum = ls_item(ls_sum(ls_detach(w)));
    CHECK_MSG(fabs(sum - 64 * 63) < 1, "a step took the sum of the weights to %g", sum);
    CHECK(fabs(ls_item(ls_sum(all)) - sum - 2 * 64 * 64) < 1);
}

/* Two parameters may have the same memory; a step changes it by the gradients of both. */
static void two_parameters_may_share_memory(void)
{
    for (int scattered = 0; scattered < 2; scattered++) {
        ls_tensor *w = ls_set_requires_grad(ls_ones(run, LS_F32, 64, 64), true);
        ls_tensor *other = ls_set_requires_grad(ls_detach(w), true);
        ls_state *both = ls_state_new(run);
        ls_state_add(both, "w", w);
        ls_state_add(both, "other", other);
        ls_optim *sgd = ls_sgd_new(run, NULL, .lr = 1, .parameters = both, .scattered = scattered);
        for (int step = 1; step < 3; step++) {
            ls_backward(run, ls_mean(ls_add(linear(w), linear(other))));
            CHECK(ls_step(sgd));
            ls_zero_grad(sgd);
            const double sum = ls_item(ls_sum(ls_detach(w))), right = 64 * 64 - step * 2 * 64;
            CHECK_MSG(fabs(sum - right) < 1, "after step %d the sum is %g, not %g", step, sum, right);
            CHECK(sum == ls_item(ls_sum(ls_detach(other))));
        }
    }
}

/* Two optimisers have parameters with the same memory; neither momentum nor moments tell them where it is. */
static void another_optimiser_may_move_it_away(void)
{
    for (int shared = 0; shared < 2; shared++) {
        ls_tensor *w[] = {ls_set_requires_grad(ls_full(run, LS_F32, 0, 64), true),
                          ls_set_requires_grad(ls_full(run, LS_F32, 0, 64), true)};
        ls_tensor *other = ls_set_requires_grad(ls_detach(w[shared]), true);
        ls_state *lists[] = {ls_state_new(run), ls_state_new(run)};
        for (int i = 0; i < 2; i++) ls_state_add(lists[0], i ? "1" : "0", w[i]);
        ls_state_add(lists[1], "other", other);
        ls_optim *optims[] = {ls_sgd_new(run, NULL, .lr = 1, .parameters = lists[0]),
                              ls_sgd_new(run, NULL, .lr = 1, .parameters = lists[1])};
        for (int step = 1; step < 4; step++) {
            ls_backward(run, ls_add(ls_sum(w[0]), ls_add(ls_sum(w[1]), ls_sum(other))));
            for (int i = 0; i < 2; i++) CHECK(ls_step(optims[i]));
            for (int i = 0; i < 2; i++) ls_zero_grad(optims[i]);
            for (int i = 0; i < 2; i++)
                CHECK_NEAR(ls_item(ls_mean(ls_detach(w[i]))), i == shared ? -2 * step : -step, 1e-6);
        }
    }
}

/* So do gradients, unless the program gave them their place. */
static void a_gradient_is_followed_or_stays(void)
{
    for (int given = 0; given < 2; given++) {
        ls_module *layer = ls_linear_new(run, 64, 64);
        ls_tensor *w = ls_module_tensor(layer, "weight"), *flat = ls_zeros(run, LS_F32, 2 * 64 * 64);
        if (given) ls_set_grad_memory(w, ls_reshape(ls_slice(flat, 0, 64 * 64, 2 * 64 * 64, 1), 64, 64));
        ls_optim *sgd = ls_sgd_new(run, layer, .lr = 1e-3);
        ls_tensor *gradient = NULL;
        for (int step = 0; step < 3; step++) {
            ls_backward(run, ls_mean(ls_square(ls_forward(layer, ls_ones(run, LS_F32, 2, 64)))));
            if (!gradient) gradient = ls_detach(ls_grad(w));
            CHECK(ls_step(sgd));
            const double now = ls_item(ls_sum(ls_square(ls_detach(ls_grad(w)))));
            CHECK(now > 0);
            CHECK_NEAR(ls_item(ls_sum(ls_square(gradient))), now, 1e-6 * now);
            if (given) CHECK_NEAR(ls_item(ls_sum(ls_square(flat))), now, 1e-6 * now);
            ls_zero_grad(sgd);
        }
    }
}

/* Backward needs the weights that forward saw. */
static void a_step_that_moves_is_a_write_for_the_tape(void)
{
    ls_module *layer = ls_linear_new(run, 64, 64);
    ls_tensor *x = ls_set_requires_grad(ls_ones(run, LS_F32, 2, 64), true);
    ls_tensor *late = ls_mean(ls_forward(layer, x));
    step_with(layer, 1, false);
    ls_backward(run, late);
    CHECK_MSG(ls_error(run) == LS_ERR_STATE, "backward after a step: %s", ls_error_message(run));
    ls_clear_error(run);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    run = ls_init(NULL, NULL, .device = "cpu");
    CHECK_RUN(a_write_through_any_handle_counts);
    CHECK_RUN(so_does_one_of_a_frozen_weight);
    CHECK_RUN(two_leaves_may_have_the_same_memory);
    CHECK_RUN(a_parameter_that_was_moved_is_followed);
    CHECK_RUN(a_view_stays_one_when_its_parameter_is_moved);
    CHECK_RUN(so_does_a_parameter_that_is_one_itself);
    CHECK_RUN(two_parameters_may_share_memory);
    CHECK_RUN(another_optimiser_may_move_it_away);
    CHECK_RUN(a_gradient_is_followed_or_stays);
    CHECK_RUN(a_step_that_moves_is_a_write_for_the_tape);
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
    ls_finish(run);
    return check_done();
}
