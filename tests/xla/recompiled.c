/* recompiled.c - a step that had to be compiled again says why. Each part is a process of its own: what it writes is
 * read. */
#include <lockstep.h>

#include "base/capture.h"
#include "check.h"

/* Rows of a batch, a factor, and whether there is one more operator. */
static void step(ls_run *run, int rows, double factor, bool more)
{
    ls_tensor *x = ls_ones(run, LS_F32, rows, 3), *w = ls_ones(run, LS_F32, 3, 2);
    ls_tensor *y = ls_mul_scalar(ls_matmul(x, w), factor);
    ls_item(ls_sum(more ? ls_tanh(y) : y));
}

static int with_another(int rows, double factor, bool more)
{
    ls_run *run = ls_init(NULL, NULL, .device = XLA_DEVICE);
    step(run, 4, 2, false);
    step(run, rows, factor, more);
    return ls_finish(run);
}

static int with_another_shape(void)
{
    return with_another(3, 2, false);
}

static int with_another_constant(void)
{
    return with_another(4, 2.5, false);
}

static int with_another_graph(void)
{
    return with_another(4, 2, true);
}

static int with_the_same(void)
{
    return with_another(4, 2, false);
}

static void check_says(int (*body)(void), const char *reason)
{
    char text[4000];
    CHECK(run_captured("LOCKSTEP_LOG=info", body, text, sizeof text) == 0);
    CHECK_MSG(strstr(text, reason), "\"%s\" is not in: %s", reason, text);
}

static void another_shape_is_named_with_options_of_the_loader(void)
{
    check_says(with_another_shape, "xla: compiled a step again: shape: ");
    check_says(with_another_shape, "[3,3]");
    check_says(with_another_shape, "[4,3]");
    check_says(with_another_shape, "drop_last");
    check_says(with_another_shape, "pad_multiple");
}

static void another_constant_is_named(void)
{
    check_says(with_another_constant, "compiled a step again: constant: affine got another number");
}

static void another_graph_is_named(void)
{
    check_says(with_another_graph, "compiled a step again: graph: it has ");
}

static void a_step_that_is_found_again_says_nothing(void)
{
    char text[4000];
    CHECK(run_captured("LOCKSTEP_LOG=info", with_the_same, text, sizeof text) == 0);
    CHECK_MSG(!strstr(text, "compiled a step again"), "%s", text);
}

int main(void)
{
    CHECK_RUN_FORK(another_shape_is_named_with_options_of_the_loader);
    CHECK_RUN_FORK(another_constant_is_named);
    CHECK_RUN_FORK(another_graph_is_named);
    CHECK_RUN_FORK(a_step_that_is_found_again_says_nothing);
    return check_done();
}
