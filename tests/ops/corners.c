/* corners.c - unusual types and numbers that operators accept: the answers are PyTorch's. */
#include <lockstep.h>

#include "check.h"

static ls_run *run;

static void targets_of_both_integer_types(void)
{
    ls_tensor *x = ls_requires_grad(ls_randn(run, LS_F32, 3, 4), true);
    ls_tensor *wide = ls_from(run, LS_I64, LS_SHAPE(3), (int64_t[]){3, -100, 1}), *narrow = ls_cast(wide, LS_I32);
    CHECK(ls_item(ls_cross_entropy(x, narrow)) == ls_item(ls_cross_entropy(x, wide)));
    CHECK(ls_item(ls_nll_loss(x, narrow, (ls_loss_opts){0})) == ls_item(ls_nll_loss(x, wide, (ls_loss_opts){0})));
    ls_backward(run, ls_cross_entropy(x, narrow));
    ls_tensor *grad = ls_grad(x);
    CHECK(ls_item(ls_norm(ls_select(grad, 0, 1))) == 0 && ls_item(ls_norm(grad)) > 0);
    CHECK_TEXT(ls_error_message(run), "");
}

/* Numbers that are not whole, or no i64, make integers floating. */
static void integers_with_numbers_that_do_not_fit(void)
{
    ls_tensor *x = ls_full(run, LS_I32, 3, 2);
    CHECK(ls_dtype_of(ls_mul_scalar(x, -7)) == LS_I32);
    CHECK(ls_dtype_of(ls_mul_scalar(x, 0.5)) == LS_F32);
    CHECK_NEAR(ls_item(ls_max(ls_mul_scalar(x, 1e30))) / 3e30, 1, 1e-6);
    CHECK(isinf(ls_item(ls_max(ls_add_scalar(x, INFINITY)))));
    CHECK(isnan(ls_item(ls_max(ls_mul_scalar(x, NAN)))));
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    run = ls_init(NULL, NULL);
    CHECK_RUN(targets_of_both_integer_types);
    CHECK_RUN(integers_with_numbers_that_do_not_fit);
    ls_finish(run);
    return check_done();
}
