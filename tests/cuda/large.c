/* large.c - tensors of more than 2^31 elements on a GPU: no index of a kernel overflows. Needs 40 GiB of memory. */
#include <lockstep.h>

#include "check.h"

enum { COLUMNS = 1024, ROWS = (1 << 21) + 37 }; /* 2^31 + 37888 elements, 4 GiB in f16 */

static ls_run *run;

/* Elements that equal the value, counted exactly. */
static int64_t count_of(ls_tensor *x, double value)
{
    ls_mark mark = ls_scope_begin(run);
    ls_tensor *equal = ls_eq(x, ls_full(run, ls_dtype_of(x), value, 1));
    ls_tensor *of_rows = ls_sum_dim(ls_cast(equal, LS_F32), 1, false); /* below 2^24: exact */
    int64_t count = (int64_t)ls_item(ls_sum(ls_cast(of_rows, LS_F64)));
    ls_scope_end(run, mark, NULL);
    return count;
}

static const int64_t everything = (int64_t)ROWS * COLUMNS;

/* The last row is 3, all others 1. */
static ls_tensor *ones_and_threes(void)
{
    ls_tensor *x = ls_ones(run, LS_F16, ROWS, COLUMNS);
    ls_assign(ls_slice(x, 0, ROWS - 1, ROWS, 1), ls_full(run, LS_F16, 3, 1, COLUMNS));
    return x;
}

static void begin(void)
{
    run = ls_init(NULL, NULL, .device = CUDA_DEVICE);
    ls_drop(ls_empty(run, LS_U8, (int64_t)40 << 30));
    if (ls_error(run) == LS_ERR_MEMORY) check_skip("the GPU has less than 40 GiB free");
    if (ls_error(run) == LS_ERR_MEMORY) ls_clear_error(run);
}

static void end(void)
{
    CHECK_MSG(!ls_error(run), "%s", ls_error_message(run));
    ls_clear_error(run);
    ls_finish(run);
}

static void element_wise(void)
{
    ls_tensor *x = ones_and_threes(), *y = ls_add(x, x);
    CHECK(count_of(y, 2) == everything - COLUMNS && count_of(y, 6) == COLUMNS);
    y = ls_relu(ls_neg(y));
    CHECK(count_of(y, 0) == everything);
    CHECK(count_of(ls_cast(x, LS_BF16), 3) == COLUMNS);
}

static void copies(void)
{
    ls_tensor *x = ones_and_threes(), *turned = ls_contiguous(ls_transpose(x, 0, 1)); /* 3 is its last column */
    CHECK(count_of(ls_slice(turned, 1, ROWS - 1, ROWS, 1), 3) == COLUMNS);
    CHECK(count_of(ls_slice(turned, 1, 0, ROWS - 1, 1), 1) == everything - COLUMNS);
    CHECK(count_of(ls_contiguous(ls_slice(x, 0, 0, ROWS, 2)), 3) == COLUMNS); /* ROWS is odd */
}

static void reductions(void)
{
    ls_tensor *x = ones_and_threes();
    double mean = 1 + 2.0 * COLUMNS / (double)everything;
    CHECK_NEAR(ls_item(ls_mean(ls_cast(x, LS_F32))), mean, 1e-5);
    CHECK_NEAR(ls_item(ls_max(ls_sum_dim(x, 1, false))), 3 * COLUMNS, 0);
    CHECK_NEAR(ls_item(ls_sum_dim(ls_cast(ls_slice(x, 1, 0, 1, 1), LS_F32), 0, false)), ROWS + 2, 0);
    int64_t last = 0;
    CHECK(ls_read(ls_argmax_dim(ls_slice(x, 1, 7, 8, 1), 0, false), &last, sizeof last) && last == ROWS - 1);
}

static void rows_by_index(void)
{
    const int64_t chosen[] = {ROWS - 1, 0, 1 << 21, ROWS - 1}; /* the second but last begins at element 2^31 */
    ls_tensor *x = ones_and_threes(), *index = ls_from(run, LS_I64, LS_SHAPE(4), chosen);
    CHECK(count_of(ls_index_select(x, 0, index), 3) == 2 * COLUMNS);
    CHECK(count_of(ls_embedding(x, index), 3) == 2 * COLUMNS);
    ls_tensor *places = ls_expand(ls_reshape(index, 4, 1), 4, COLUMNS);
    CHECK(count_of(ls_take_along_dim(x, 0, places), 3) == 2 * COLUMNS);
    ls_tensor *sum = ls_scatter_add(x, 0, places, ls_ones(run, LS_F16, 4, COLUMNS));
    CHECK(count_of(sum, 5) == COLUMNS && count_of(sum, 2) == 2 * COLUMNS);
    CHECK(count_of(sum, 1) == everything - 3 * COLUMNS);
}

static void rows_by_themselves(void)
{
    ls_tensor *x = ones_and_threes();
    CHECK(count_of(ls_softmax(x, 1), 1.0 / COLUMNS) == everything);
    ls_tensor *kept = ls_dropout(x, 0.5);
    int64_t twos = count_of(kept, 2), sixes = count_of(kept, 6);
    CHECK_NEAR((double)twos, 0.5 * (double)everything, 1e6);
    CHECK_NEAR((double)sixes, 0.5 * COLUMNS, 200);
    ls_tensor *ends = ls_slice(kept, 0, ROWS - 2, ROWS, 1); /* rows beyond 2^31 draw numbers of their own */
    ls_tensor *same = ls_eq(ls_mul_scalar(ls_slice(ends, 0, 0, 1, 1), 3), ls_slice(ends, 0, 1, 2, 1));
    CHECK_NEAR(ls_item(ls_sum(ls_cast(same, LS_F32))), 0.5 * COLUMNS, 200);
}

static void every_element_is_reached(void)
{
    static void (*const parts[])(void) = {element_wise, copies, reductions, rows_by_index, rows_by_themselves};
    begin();
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !check_skip_reason[0] && !ls_error(run); i++) {
        ls_mark mark = ls_scope_begin(run);
        ls_no_grad(run) parts[i]();
        ls_scope_end(run, mark, NULL);
    }
    end();
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(every_element_is_reached);
    return check_done();
}
