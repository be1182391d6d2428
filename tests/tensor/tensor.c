/* tensor.c - handles, views, scopes, numbers in and out, number types, randomness. */
#include <lockstep.h>

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/parallel.h"
#include "check.h"
#include "expect.h"
#include "tensor/context.h"

static ls_run *run;

static void numbers_go_in_and_out(void)
{
    float in[6] = {1, 2, 3, 4, 5, 6}, out[6];
    ls_tensor *x = ls_from(run, LS_F32, LS_SHAPE(2, 3), in);
    CHECK(ls_read(ls_transpose(x, 0, 1), out, sizeof out));
    CHECK(out[0] == 1 && out[1] == 4 && out[2] == 2 && out[5] == 6);
    CHECK(ls_write(ls_transpose(x, 0, 1), in, sizeof in)); /* through a view, row-major in the view's order */
    CHECK(ls_read(x, out, sizeof out) && out[1] == 3 && out[3] == 2);
    CHECK(ls_item(ls_select(ls_select(x, 0, 1), 0, 2)) == 6);
}

static void every_type_holds_its_numbers(void)
{
    static const ls_dtype types[] = {LS_BOOL, LS_U8, LS_I8, LS_I32, LS_I64, LS_F16, LS_BF16, LS_F32, LS_F64};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        ls_tensor *x = ls_full(run, types[i], 1, 3, 5);
        CHECK(ls_dtype_of(x) == types[i] && ls_item(ls_sum(x)) == 15);
        for (size_t k = 0; k < sizeof types / sizeof *types; k++) CHECK(ls_item(ls_sum(ls_cast(x, types[k]))) == 15);
    }
    CHECK(ls_dtype_of(ls_add(ls_ones(run, LS_BF16, 1), ls_ones(run, LS_F16, 1))) == LS_F32);
    CHECK(ls_dtype_of(ls_div(ls_ones(run, LS_I64, 1), ls_ones(run, LS_I64, 1))) == LS_F32);
    CHECK(ls_dtype_of(ls_eq(ls_ones(run, LS_I64, 1), ls_ones(run, LS_F32, 1))) == LS_BOOL);
}

static void views_share_memory(void)
{
    ls_tensor *x = ls_zeros(run, LS_F32, 4, 6), *part = ls_slice(x, 1, 1, 6, 2);
    CHECK(ls_dim(part, 1) == 3 && !ls_is_contiguous(part));
    ls_assign(part, ls_ones(run, LS_F32, 1));
    CHECK(ls_item(ls_sum(x)) == 12);
    ls_tensor *flat = ls_reshape(x, -1), *wide = ls_expand(ls_reshape(ls_select(x, 1, 1), 4, 1), 4, 5);
    ls_assign(flat, ls_full(run, LS_F32, 2, 1));
    CHECK(ls_item(ls_sum(wide)) == 40);
    CHECK(ls_item(ls_sum(ls_reshape(ls_transpose(x, 0, 1), 24))) == 48); /* cannot be a view: copied */
    CHECK(ls_dim(ls_squeeze(ls_unsqueeze(x, -1), -1), -1) == 6);
}

/* Which of several numbers would stay depends on the device. */
static void elements_that_share_memory_are_not_written(void)
{
    float numbers[6] = {1, 2, 3, 4, 5, 6};
    ls_tensor *x = ls_zeros(run, LS_F32, 1, 3), *wide = ls_expand(x, 2, 3);
    ls_tensor *other = ls_from(run, LS_F32, LS_SHAPE(2, 3), numbers);
    FAILS(ls_assign(wide, other), LS_ERR_VALUE, "ls_assign: elements of [2,3] f32 share memory");
    FAILS(ls_write(wide, numbers, sizeof numbers), LS_ERR_VALUE, "ls_write: elements of ");
    FAILS(ls_register_parameter(ls_module_new(run, "wide", NULL, NULL), "w", wide), LS_ERR_VALUE,
          "ls_register_parameter: elements of ");
    FAILS(ls_register_buffer(ls_module_new(run, "wide", NULL, NULL), "b", wide), LS_ERR_VALUE,
          "ls_register_buffer: elements of ");
    FAILS(ls_init_normal(wide, 0, 1), LS_ERR_VALUE, "ls_init_normal: elements of ");
    FAILS(ls_init_constant(wide, 1), LS_ERR_VALUE, "ls_init_constant: elements of ");
    FAILS(ls_init_trunc_normal(wide, 0, 1, -2, 2), LS_ERR_VALUE, "ls_init_trunc_normal: elements of ");
    CHECK(ls_item(ls_sum(ls_abs(x))) == 0);
    ls_assign(ls_expand(x, 1, 3), ls_ones(run, LS_F32, 3)); /* repeats nothing */
    ls_assign(ls_expand(ls_slice(x, 1, 0, 0, 1), 2, 0), ls_ones(run, LS_F32, 1));
    CHECK(ls_item(ls_sum(x)) == 3 && !ls_error(run));
}

/* As if all were read before the first is written, in whatever order and by however many threads. */
static void a_tensor_is_assigned_parts_of_itself(void)
{
    enum { N = 300 };
    ls_tensor *numbers = ls_reshape(ls_arange(run, LS_F32, N * N, 0, 1), N, N), *x = ls_clone(numbers);
    ls_assign(x, ls_transpose(x, 0, 1));
    CHECK(ls_item(ls_all(ls_eq(x, ls_transpose(numbers, 0, 1)))) == 1);
    ls_tensor *rows = ls_clone(numbers);
    ls_assign(ls_slice(rows, 0, 1, N, 1), ls_slice(rows, 0, 0, N - 1, 1));
    CHECK(ls_item(ls_all(ls_eq(ls_slice(rows, 0, 1, N, 1), ls_slice(numbers, 0, 0, N - 1, 1)))) == 1);
    ls_assign(x, ls_select(x, 0, 7));
    CHECK(ls_item(ls_all(ls_eq(x, ls_select(ls_transpose(numbers, 0, 1), 0, 7)))) == 1);
}

static void scopes_end_what_they_hold(void)
{
    size_t before = ls_memory(run).in_use;
    ls_mark outer = ls_scope_begin(run);
    ls_tensor *a = ls_zeros(run, LS_F32, 1000), *result;
    {
        ls_mark inner = ls_scope_begin(run);
        ls_tensor *b = ls_add(a, a);
        ls_scope_begin(run); /* left open: closed with the one around it */
        result = ls_scope_end(run, inner, ls_mul(b, b));
        CHECK(!ls_is_valid(b) && ls_is_valid(result) && ls_is_valid(a));
    }
    CHECK(ls_scope_end(run, outer, a) == a && ls_is_valid(a) && !ls_is_valid(result));
    ls_drop(a);
    CHECK(ls_memory(run).in_use == before);

    ls_mark mark = ls_scope_begin(run);
    ls_tensor *kept = ls_keep(ls_ones(run, LS_F32, 10)), *view = ls_slice(kept, 0, 0, 5, 1);
    ls_scope_end(run, mark, NULL);
    CHECK(ls_is_valid(kept) && !ls_is_valid(view) && ls_item(ls_sum(kept)) == 10);
    ls_drop(kept);
}

/* Also where another scope has been opened in the place of the closed one. */
static void a_mark_ends_one_scope_once(void)
{
    ls_mark outer = ls_scope_begin(run), mark = ls_scope_begin(run);
    ls_scope_end(run, mark, NULL);
    ls_mark other = ls_scope_begin(run);
    ls_tensor *t = ls_ones(run, LS_F32, 3);
    ls_scope_end(run, mark, NULL);
    CHECK(ls_error(run) == LS_ERR_STATE && strstr(ls_error_message(run), "no open scope has mark"));
    ls_clear_error(run);
    CHECK(ls_is_valid(t));
    ls_scope_end(run, outer, NULL);
    CHECK(!ls_is_valid(t) && !ls_error(run));
    ls_scope_end(run, other, NULL);
    CHECK(ls_error(run) == LS_ERR_STATE);
    ls_clear_error(run);
    ls_scope_end(run, 0, NULL);
    CHECK(ls_error(run) == LS_ERR_STATE);
    ls_clear_error(run);
}

/* A list holds a tensor beyond its scope; whoever has the handle may still keep it, let it escape or drop it. */
static void lists_and_scopes_hold_independently(void)
{
    size_t before = ls_memory(run).in_use;
    ls_state *list = ls_state_new(run);
    ls_mark outer = ls_scope_begin(run), inner = ls_scope_begin(run);
    ls_tensor *kept = ls_ones(run, LS_F32, 1000), *escaped = ls_ones(run, LS_F32, 10), *other;
    ls_state_add(list, "kept", kept);
    ls_state_add(list, "escaped", escaped);
    ls_scope_end(run, inner, NULL);
    ls_keep(kept);
    other = ls_keep(ls_ones(run, LS_F32, 10));
    ls_scope_end(run, outer, escaped);
    CHECK(ls_is_valid(kept) && ls_is_valid(escaped));
    ls_drop(escaped); /* no scope's: the list's stays */
    CHECK(ls_item(ls_sum(ls_state_find(list, "escaped"))) == 10);
    ls_state_free(list);
    CHECK(ls_is_valid(kept) && !ls_is_valid(escaped) && ls_is_valid(other));
    ls_drop(kept);
    ls_drop(other);
    CHECK(!ls_is_valid(kept) && ls_memory(run).in_use < before + 1000);
}

static void tensors_print_themselves(void)
{
    char text[512];
    CHECK_TEXT(ls_format(ls_arange(run, LS_F32, 3, 0, 0.5), text, sizeof text), "[0, 0.5, 1] [3] f32");
    ls_tensor *large = ls_zeros(run, LS_I64, 3);
    CHECK(ls_write(large, (int64_t[]){1234567, INT64_MAX, -1}, 3 * sizeof(int64_t)));
    CHECK_TEXT(ls_format(large, text, sizeof text), "[1234567, 9223372036854775807, -1] [3] i64");
    CHECK_TEXT(ls_format(ls_arange(run, LS_I32, 2, 1234567, 1), text, sizeof text), "[1234567, 1234568] [2] i32");
    CHECK_TEXT(ls_format(NULL, text, sizeof text), "(no tensor)");
    CHECK(strstr(ls_format(ls_zeros(run, LS_I64, 5000), text, sizeof text), "...") != NULL);
    CHECK(strlen(ls_format(ls_zeros(run, LS_F32, 100, 9), text, 16)) == 15);
}

/* Random numbers come from seed and order of calls alone. */
static void randomness_repeats(void)
{
    double first = 0;
    for (int threads = 1; threads <= 3; threads++) {
        ls_parallel_set_width(threads);
        ls_set_seed(run, 99);
        ls_tensor *x = ls_dropout(ls_randn(run, LS_F32, 333, 77), 0.4);
        double sum = ls_item(ls_sum(ls_mul(x, ls_rand(run, LS_F32, 77))));
        if (threads == 1) first = sum;
        CHECK(sum == first);
    }
    ls_parallel_set_width(0);
    ls_rng_state state = ls_rng(run);
    double next = ls_item(ls_rand(run, LS_F32, 1));
    ls_set_rng(run, state);
    CHECK(ls_item(ls_rand(run, LS_F32, 1)) == next);
    ls_set_seed(run, 100);
    CHECK(ls_item(ls_sum(ls_dropout(ls_randn(run, LS_F32, 333, 77), 0.4))) != first);
    double mean = ls_item(ls_mean(ls_rand(run, LS_F32, 100000))),
           var = ls_item(ls_var(ls_randn(run, LS_F32, 100000), 1));
    CHECK_NEAR(mean, 0.5, 0.01);
    CHECK_NEAR(var, 1, 0.03);
}

static void two_runs_do_not_meet(void)
{
    ls_run *other = ls_init(NULL, NULL, .seed = 5);
    ls_tensor *bad = ls_add(ls_zeros(other, LS_F32, 2), ls_zeros(other, LS_F32, 3));
    CHECK(!ls_is_valid(bad) && ls_error(other) == LS_ERR_SHAPE && ls_error(run) == LS_OK);
    CHECK(ls_item(ls_sum(ls_ones(run, LS_F32, 3))) == 3);
    ls_clear_error(other);
    CHECK(ls_finish(other) == 0);
}

static void tensors_end_with_their_run(void)
{
    ls_run *one = ls_init(NULL, NULL);
    ls_tensor *kept = ls_keep(ls_full(one, LS_F32, 1, 3)), *last = kept;
    CHECK(ls_finish(one) == 0);
    for (int makes = 0; makes < 2; makes++) { /* also where the next run has made nothing yet */
        ls_run *two = ls_init(NULL, NULL);
        for (int i = 0; makes && i < 100; i++) last = ls_full(two, LS_F32, 7, 3);
        CHECK(last != kept || !makes);
        CHECK(!ls_is_valid(kept));
        ls_sum(kept);
        CHECK_TEXT(ls_error_message(two), "sum: the run of this tensor has ended; no tensor outlives ls_finish()");
        CHECK(ls_error(two) == LS_ERR_SCOPE && ls_finish(two) == 1);
    }
}

static void a_forked_child_computes(void)
{
    ls_item(ls_sum(ls_matmul(ls_ones(run, LS_F32, 300, 300), ls_ones(run, LS_F32, 300, 300)))); /* the team is up */
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        double sum = ls_item(ls_sum(ls_matmul(ls_ones(run, LS_F32, 300, 300), ls_ones(run, LS_F32, 300, 300))));
        _exit(sum == 27e6 ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void an_error_can_stop_the_program(void)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr)) _exit(2);
        ls_run *strict = ls_init(NULL, NULL, .abort_on_error = true);
        ls_add(ls_zeros(strict, LS_F32, 2), ls_zeros(strict, LS_F32, 3));
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void count_release(void *user)
{
    ++*(int *)user;
}

static void foreign_memory_is_used_in_place_and_given_back_once(void)
{
    ls_run *own = ls_init(NULL, NULL);
    float memory[6] = {1, 2, 3, 4, 5, 6};
    int released = 0;
    ls_mark mark = ls_scope_begin(own);
    ls_storage *storage = ls_storage_wrap(own, own->device, count_release, &released);
    ls_tensor *a = ls_tensor_over(own, storage, memory, LS_F32, LS_SHAPE(2, 2));
    ls_tensor *b = ls_tensor_over(own, storage, memory + 4, LS_F32, LS_SHAPE(2));
    ls_storage_release(own, storage);
    CHECK_NEAR(ls_item(ls_sum(a)), 10, 0);
    ls_assign(b, ls_full(own, LS_F32, 7, 2));
    CHECK(memory[4] == 7 && memory[5] == 7);
    ls_drop(a);
    CHECK(released == 0);
    ls_tensor *view = ls_keep(ls_reshape(b, 1, 2));
    ls_scope_end(own, mark, NULL);
    CHECK(released == 0);
    ls_drop(view);
    CHECK(released == 1);
    CHECK(ls_finish(own) == 0);
}

static void a_tensor_like_another_has_its_shape_and_type(void)
{
    ls_run *other = ls_init(NULL, NULL, .seed = 1);
    ls_tensor *x = ls_full(other, LS_F64, 3, 2, 50);
    ls_tensor *like[] = {ls_zeros_like(x), ls_ones_like(x), ls_full_like(x, 7),
                         ls_empty_like(x), ls_rand_like(x), ls_randn_like(x)};
    for (int i = 0; i < 6; i++)
        CHECK(ls_dtype_of(like[i]) == LS_F64 && ls_shape_equal(ls_shape_of(like[i]), ls_shape_of(x)));
    CHECK(ls_item(ls_sum(like[0])) == 0 && ls_item(ls_sum(like[1])) == 100 && ls_item(ls_sum(like[2])) == 700);
    CHECK(ls_item(ls_min(like[4])) >= 0 && ls_item(ls_max(like[4])) < 1);
    CHECK(ls_item(ls_min(like[5])) < 0 && ls_item(ls_max(like[5])) > 1);
    CHECK(!ls_is_valid(ls_rand_like(ls_zeros(other, LS_I64, 2))) && ls_error(other) == LS_ERR_DTYPE);
    CHECK(!ls_is_valid(ls_zeros_like(ls_rand_like(x))));
    ls_finish(other);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    run = ls_init(NULL, NULL, .seed = 1);
    CHECK_RUN(numbers_go_in_and_out);
    CHECK_RUN(every_type_holds_its_numbers);
    CHECK_RUN(views_share_memory);
    CHECK_RUN(elements_that_share_memory_are_not_written);
    CHECK_RUN(a_tensor_is_assigned_parts_of_itself);
    CHECK_RUN(scopes_end_what_they_hold);
    CHECK_RUN(a_mark_ends_one_scope_once);
    CHECK_RUN(lists_and_scopes_hold_independently);
    CHECK_RUN(tensors_print_themselves);
    CHECK_RUN(randomness_repeats);
    CHECK_RUN(two_runs_do_not_meet);
    CHECK_RUN(tensors_end_with_their_run);
    CHECK_RUN_FORK(a_forked_child_computes);
    CHECK_RUN(an_error_can_stop_the_program);
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
    ls_finish(run);
    CHECK_RUN(foreign_memory_is_used_in_place_and_given_back_once);
    CHECK_RUN(a_tensor_like_another_has_its_shape_and_type);
    return check_done();
}
