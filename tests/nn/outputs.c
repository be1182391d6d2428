/* outputs.c - modules with several outputs. */
#include <lockstep.h>

#include <stdlib.h>

#include "check.h"

/* [N,4] -> sequence [N,8], pooled [N,2] */
static ls_outputs encode(ls_module *self, ls_tensor *const *x, int64_t n, void *user)
{
    (void)n;
    (void)user;
    ls_tensor *sequence = ls_relu(ls_forward(ls_child(self, "body"), x[0]));
    ls_tensor *unused = ls_neg(sequence);
    (void)unused;
    return LS_OUTPUTS(sequence, ls_forward(ls_child(self, "pool"), sequence));
}

static ls_module *encoder_new(ls_run *run)
{
    ls_module *encoder = ls_module_new_all(run, "Encoder", encode, NULL);
    ls_module_add(encoder, "body", ls_linear_new(run, 4, 8));
    ls_module_add(encoder, "pool", ls_linear_new(run, 8, 2));
    return encoder;
}

static double total(ls_tensor *t)
{
    return ls_item(ls_sum(ls_cast(t, LS_F64)));
}

static void all_outputs_come_back_with_history(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 1);
    ls_module *encoder = encoder_new(run);
    ls_tensor *x = ls_randn(run, LS_F32, 5, 4);
    ls_tensor *w = ls_module_tensor(encoder, "body.weight"), *v = ls_module_tensor(encoder, "pool.weight");
    ls_tensor *sequence = ls_relu(ls_linear(x, w, ls_module_tensor(encoder, "body.bias"), LS_ACT_NONE));
    ls_tensor *pooled = ls_linear(sequence, v, ls_module_tensor(encoder, "pool.bias"), LS_ACT_NONE);
    ls_backward(run, ls_add(ls_sum(sequence), ls_sum(ls_square(pooled))));
    double want_w = total(ls_grad(w)), want_v = total(ls_grad(v));
    ls_clear_grad(w);
    ls_clear_grad(v);

    ls_outputs out = ls_forward_all(encoder, x);
    CHECK(out.count == 2 && out.item[2] == NULL && out.item[LS_MAX_MODULE_OUTPUTS - 1] == NULL);
    CHECK(ls_shape_equal(ls_shape_of(out.item[0]), LS_SHAPE(5, 8)));
    CHECK(ls_shape_equal(ls_shape_of(out.item[1]), LS_SHAPE(5, 2)));
    CHECK(total(out.item[0]) == total(sequence) && total(out.item[1]) == total(pooled));
    ls_backward(run, ls_add(ls_sum(out.item[0]), ls_sum(ls_square(out.item[1]))));
    CHECK(total(ls_grad(w)) == want_w && total(ls_grad(v)) == want_v);
    CHECK(ls_finish(run) == 0);
}

static void outputs_outlive_the_module_and_nothing_else_does(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 1);
    ls_module *encoder = encoder_new(run);
    ls_tensor *x = ls_randn(run, LS_F32, 5, 4);
    ls_no_grad_begin(run);
    ls_mark mark = ls_scope_begin(run);
    ls_forward_all(encoder, x);
    ls_scope_end(run, mark, NULL);
    size_t before = ls_memory(run).in_use;
    mark = ls_scope_begin(run);
    ls_outputs out = ls_forward_all(encoder, x);
    CHECK(ls_is_valid(out.item[0]) && ls_is_valid(out.item[1]));
    size_t held = ls_memory(run).in_use;
    ls_drop(out.item[0]);
    CHECK(ls_memory(run).in_use < held);
    ls_drop(out.item[1]);
    CHECK(ls_memory(run).in_use == before);
    ls_scope_end(run, mark, NULL);
    ls_no_grad_end(run);
    CHECK(ls_finish(run) == 0);
}

static ls_outputs twice(ls_module *self, ls_tensor *const *x, int64_t n, void *user)
{
    (void)self;
    (void)user;
    ls_tensor *y = ls_neg(x[0]);
    return n > 1 ? LS_OUTPUTS(x[1], y, y) : LS_OUTPUTS(y, y);
}

static void an_output_may_come_twice_or_be_an_input(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *net = ls_module_new_all(run, "Twice", twice, NULL);
    ls_tensor *x = ls_full(run, LS_F32, 3, 2), *kept = ls_full(run, LS_F32, 5, 2);
    ls_outputs out = ls_forward_all(net, x, kept);
    CHECK(out.count == 3 && out.item[0] == kept && out.item[1] == out.item[2]);
    CHECK(total(out.item[2]) == -6 && total(kept) == 10);
    out = ls_forward_all(net, x);
    CHECK(out.count == 2 && total(out.item[0]) == -6);
    CHECK(ls_finish(run) == 0);
}

static void one_output_is_a_case_of_several(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_tensor *x = ls_full(run, LS_F32, 3, 2);
    ls_outputs out = ls_forward_all(ls_relu_new(run), x);
    CHECK(out.count == 1 && total(out.item[0]) == 6 && !out.item[1]);
    out = ls_forward_all(ls_batch_norm_new(run, 2), ls_zeros(run, LS_F32, 4, 2), ls_ones(run, LS_F32, 4, 2));
    CHECK(out.count == 1 && total(out.item[0]) == 8);
    CHECK(ls_finish(run) == 0);
}

static ls_outputs returns_what_it_is_told(ls_module *self, ls_tensor *const *x, int64_t n, void *user)
{
    (void)self;
    (void)n;
    ls_outputs out = LS_OUTPUTS(x[0], NULL, x[0]);
    out.count = *(const int *)user;
    return out;
}

#define FAILS(call, text)                                                                                              \
    do {                                                                                                               \
        (void)(call);                                                                                                  \
        CHECK_MSG(strstr(ls_error_message(run), text), "%s: %s", #call, ls_error_message(run));                        \
        ls_clear_error(run);                                                                                           \
    } while (0)

static void one_output_is_asked_of_modules_that_have_one(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *encoder = encoder_new(run);
    ls_tensor *x = ls_zeros(run, LS_F32, 5, 4);
    FAILS(ls_forward(encoder, x), "Encoder: Encoder has 2 outputs, but one is expected here; ls_forward_all()");
    FAILS(ls_forward(encoder, x), "Encoder has 2 outputs");
    ls_module *row = ls_sequential_new(run, ls_relu_new(run), encoder, ls_linear_new(run, 2, 2));
    FAILS(ls_forward(row, x), "Sequential.1: Encoder has 2 outputs");
    int told = 3;
    ls_module *odd = ls_module_new_all(run, "Odd", returns_what_it_is_told, &told);
    FAILS(ls_forward_all(odd, x), "Odd: output 1 of 3 that the forward function returned is NULL");
    told = 0;
    FAILS(ls_forward_all(odd, x), "returned 0 outputs; a module has 1 to 8");
    told = 9;
    FAILS(ls_forward_all(odd, x), "returned 9 outputs; a module has 1 to 8");
    told = 1;
    CHECK(ls_forward(odd, x) == x);
    FAILS(ls_forward_all(NULL, x), "the module is NULL");
    FAILS(ls_neg(ls_forward_all(odd, x).item[1]), "the tensor is NULL");
    CHECK(ls_finish(run) == 0);
}

static void after_a_failure_all_outputs_are_poison(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *encoder = encoder_new(run);
    ls_outputs out = ls_forward_all(encoder, ls_zeros(run, LS_F32, 5, 3));
    CHECK(out.count == 0 && strstr(ls_error_message(run), "Encoder/body: linear: "));
    for (int i = 0; i < LS_MAX_MODULE_OUTPUTS; i++) CHECK(out.item[i] && !ls_is_valid(out.item[i]));
    out = ls_forward_all(encoder, ls_zeros(run, LS_F32, 5, 4)); /* the run has failed already */
    CHECK(out.count == 0 && !ls_is_valid(ls_add(out.item[0], out.item[1])));
    ls_clear_error(run);
    CHECK(ls_finish(run) == 0);
}

static void a_prepared_module_returns_f32_in_every_output(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 1, .mixed_precision = LS_BF16);
    ls_module *encoder = encoder_new(run);
    ls_prepare(run, encoder);
    ls_outputs out = ls_forward_all(encoder, ls_randn(run, LS_F32, 5, 4));
    CHECK(ls_dtype_of(out.item[0]) == LS_F32 && ls_dtype_of(out.item[1]) == LS_F32);
    ls_autocast_begin(run, LS_BF16);
    CHECK(ls_dtype_of(ls_forward(ls_child(encoder, "pool"), out.item[0])) == LS_BF16);
    ls_autocast_end(run);
    CHECK(ls_finish(run) == 0);
}

static void the_table_shows_every_output(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *encoder = encoder_new(run);
    ls_forward_all(encoder, ls_zeros(run, LS_F32, 5, 4));
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    ls_describe(encoder, to);
    fclose(to);
    CHECK_MSG(strstr(text, "Encoder  [5,8] [5,2] "), "%s", text);
    free(text);
    CHECK(ls_finish(run) == 0);
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    CHECK_RUN(all_outputs_come_back_with_history);
    CHECK_RUN(outputs_outlive_the_module_and_nothing_else_does);
    CHECK_RUN(an_output_may_come_twice_or_be_an_input);
    CHECK_RUN(one_output_is_a_case_of_several);
    CHECK_RUN(one_output_is_asked_of_modules_that_have_one);
    CHECK_RUN(after_a_failure_all_outputs_are_poison);
    CHECK_RUN(a_prepared_module_returns_f32_in_every_output);
    CHECK_RUN(the_table_shows_every_output);
    return check_done();
}
