/* backward.c - gradients that meet: tensors used several times, walks that are repeated or must not be. */
#include <lockstep.h>

#include "check.h"

static ls_run *run;

static ls_tensor *leaf_of(int n, const float *values)
{
    return ls_requires_grad(ls_from(run, LS_F32, LS_SHAPE(n), values), true);
}

static void check_gradient(int line, ls_tensor *leaf, int n, const float *expected)
{
    float got[8] = {0};
    ls_tensor *grad = ls_grad(leaf);
    if (!grad || !ls_read(grad, got, (size_t)n * sizeof *got)) {
        check_fail(__FILE__, line, "no gradient: %s", ls_error_message(run));
        return;
    }
    for (int i = 0; i < n; i++)
        if (!(fabsf(got[i] - expected[i]) <= 1e-6F))
            check_fail(__FILE__, line, "gradient[%d] is %g, expected %g", i, (double)got[i], (double)expected[i]);
}
#define CHECK_GRADIENT(leaf, ...)                                                                                      \
    check_gradient(__LINE__, leaf, (int)(sizeof((float[]){__VA_ARGS__}) / sizeof(float)), (float[]){__VA_ARGS__})

/* The gradient of a mean is one number repeated; what arrives next must not be added into that one number. */
static void expanded_gradients_are_added_to(void)
{
    ls_tensor *x = leaf_of(3, (float[]){1, 2, 3}), *w = ls_from(run, LS_F32, LS_SHAPE(3), (float[]){10, 20, 30});
    ls_tensor *h = ls_mul_scalar(x, 2);
    ls_tensor *weighted = ls_sum(ls_mul(h, w)), *sum = ls_sum(h), *mean = ls_mean(h);
    ls_backward(run, ls_add(ls_add(weighted, sum), ls_mul_scalar(mean, 3)));
    CHECK_GRADIENT(x, 24, 44, 64);
}

static void a_leaf_used_often_gets_all(void)
{
    ls_tensor *x = leaf_of(2, (float[]){3, 5});
    ls_backward(run, ls_sum(ls_add(ls_mul(x, x), ls_add(x, x))));
    CHECK_GRADIENT(x, 8, 12);
    ls_backward(run, ls_sum(x));
    CHECK_GRADIENT(x, 9, 13);
    ls_grad_clear(x);
    CHECK(ls_grad(x) == NULL);
    ls_backward(run, ls_sum(ls_mul(x, ls_detach(x))));
    CHECK_GRADIENT(x, 3, 5);
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    run = ls_init(NULL, NULL);
    CHECK_RUN(expanded_gradients_are_added_to);
    CHECK_RUN(a_leaf_used_often_gets_all);
    ls_finish(run);
    return check_done();
}
