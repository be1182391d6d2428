/* walk.c - walks the table of operator calls.
 *
 *   forward    every ISA and number type and 1 or 2 threads against the reference kernels in f64
 *   layouts    inputs strided, transposed in memory or broadcast give what contiguous ones give
 *   gradient   f64 gradients against finite differences; f32, bf16 and f16 gradients against the f64 ones
 *   devices    the device named in LOCKSTEP_TEST_DEVICE instead of the CPU
 *   complete   every row of ops.def is entered
 *
 * test_ops_walk [--device NAME] [--part K/N] [part of a case's label]
 *
 * With --part the table is divided among N processes, of which this is number K, from 1. */
#include <stdlib.h>

#include "base/parallel.h"
#include "check.h"
#include "kernels/kernels.h"
#include "op_inputs.h"
#include "ops/op.h"

static const char *device_name, *case_filter;
static int part = 1, parts = 1;

static bool is_chosen(int number)
{
    return number % parts == part - 1 && (!case_filter || strstr(op_cases[number].label, case_filter));
}

enum { SEED = 7 };

static ls_run *new_run(void)
{
    return ls_init(NULL, NULL, .seed = SEED, .device = device_name);
}

/* ---- results ---- */

typedef struct result {
    ls_dtype dtype;
    ls_shape shape;
    int64_t n;
    double *values;
    double *gradients[CASE_INPUTS];
} result;

static double *read_all(ls_tensor *t)
{
    int64_t n = ls_numel(t);
    double *values = malloc(sizeof(double) * (size_t)(n ? n : 1));
    CHECK(ls_read(ls_cast(t, LS_F64), values, sizeof(double) * (size_t)n));
    return values;
}

/* Run a case; with gradients when asked. On an error the result is empty and the check has failed. */
static result run_case(const op_case *c, ls_dtype dtype, layout how, const inputs *all, bool gradients)
{
    result r = {0};
    ls_run *run = new_run();
    ls_tensor *in[CASE_INPUTS] = {0}, *leaf[CASE_INPUTS] = {0};
    for (int i = 0; i < all->n; i++) {
        in[i] = make_input(run, &c->in[i], dtype, how, all->values[i]);
        bool wants = gradients && c->in[i].kind != INPUT_INDEX && c->in[i].kind != INPUT_BOOL && !c->in[i].no_gradient;
        if (wants) leaf[i] = in[i] = ls_set_requires_grad(ls_detach(in[i]), true);
    }
    ls_tensor *y = c->call(run, in);
    if (gradients) ls_backward(run, weighted_sum(run, y));
    if (ls_error(run)) {
        check_fail(__FILE__, __LINE__, "%s/%s %s layout %d: %s", ls_op_table[c->op].name, c->label,
                   ls_dtype_name(dtype), how, ls_error_message(run));
    } else {
        r.dtype = ls_dtype_of(y);
        r.shape = ls_shape_of(y);
        r.n = ls_numel(y);
        r.values = read_all(y);
        for (int i = 0; i < all->n; i++) {
            ls_tensor *g = leaf[i] ? ls_grad(leaf[i]) : NULL;
            if (g) r.gradients[i] = read_all(g);
        }
        CHECK_MSG(ls_error(run) == LS_OK, "%s: %s", c->label, ls_error_message(run));
    }
    if (ls_error(run)) ls_clear_error(run);
    ls_finish(run);
    return r;
}

static void result_free(result *r)
{
    free(r->values);
    for (int i = 0; i < CASE_INPUTS; i++) free(r->gradients[i]);
}

static double tolerance(ls_dtype dtype, const op_case *c)
{
    double slack = c->slack ? c->slack : 1;
    switch (dtype) {
    case LS_F64: return 1e-11 * slack;
    case LS_F32: return 4e-6 * slack;
    case LS_F16: return (c->exact ? 6e-4 : 4e-3) * slack;
    case LS_BF16: return (c->exact ? 4.5e-3 : 3e-2) * slack;
    default: return 0;
    }
}

/* Compare arrays relative to the largest magnitude around: sums of many terms lose digits against their terms. */
static void compare(const op_case *c, const char *what, const double *got, const double *want, int64_t n, double limit)
{
    double scale = 1;
    for (int64_t i = 0; i < n; i++) scale = fabs(want[i]) > scale ? fabs(want[i]) : scale;
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= limit * scale) && !(isnan(got[i]) && isnan(want[i])) && got[i] != want[i]) {
            check_fail(__FILE__, __LINE__, "%s/%s %s: element %lld is %.9g, expected %.9g (limit %.3g)",
                       ls_op_table[c->op].name, c->label, what, (long long)i, got[i], want[i], limit * scale);
            return;
        }
}

/* ---- the truth: reference kernels of the CPU, one thread, f64 ---- */

static result truth_of(const op_case *c, const inputs *all, bool gradients)
{
    ls_isa in_use = ls_isa_in_use();
    const char *tested = device_name;
    ls_isa_cap(LS_ISA_REF);
    ls_parallel_set_width(1);
    device_name = "cpu";
    result r = run_case(c, LS_F64, PLAIN, all, gradients);
    device_name = tested;
    ls_parallel_set_width(0);
    ls_isa_cap(in_use);
    return r;
}

static const ls_dtype float_types[] = {LS_F64, LS_F32, LS_BF16, LS_F16};

static bool is_random_tensor(const op_case *c)
{
    return c->in[0].kind == INPUT_NONE;
}

static void compare_case(const op_case *c, const result *got, const result *want, ls_dtype dtype, const char *how)
{
    if (!got->values || !want->values) return;
    char what[96];
    snprintf(what, sizeof what, "%s %s", ls_dtype_name(dtype), how);
    CHECK_MSG(ls_shape_equal(got->shape, want->shape), "%s %s: shapes differ", c->label, what);
    if (!ls_shape_equal(got->shape, want->shape)) return;
    double limit = tolerance(
        ls_dtype_is_float(got->dtype) ? (dtype == LS_F64 && got->dtype == LS_F32 ? LS_F32 : dtype) : LS_BOOL, c);
    if (is_random_tensor(c)) limit = 0;
    compare(c, what, got->values, want->values, got->n, limit);
    for (int i = 0; i < CASE_INPUTS; i++) {
        if (!want->gradients[i] || !got->gradients[i]) continue;
        snprintf(what, sizeof what, "%s %s gradient %d", ls_dtype_name(dtype), how, i);
        compare(c, what, got->gradients[i], want->gradients[i], ls_shape_numel(c->in[i].shape), 3 * limit);
    }
}

static void forward_and_gradient_on_every_isa(void)
{
    ls_isa best = ls_isa_in_use();
    for (int i = 0; i < op_case_count; i++) {
        const op_case *c = &op_cases[i];
        if (!is_chosen(i)) continue;
        inputs all = inputs_make(c, PLAIN);
        bool gradients = is_differentiable(c);
        result want = truth_of(c, &all, gradients);
        for (int isa = device_name ? (int)best : 0; isa <= (int)best; isa++) { /* the CPU's, not a plug-in's */
            if (!ls_isa_usable((ls_isa)isa)) continue;
            ls_isa_cap((ls_isa)isa);
            for (size_t t = 0; t < sizeof float_types / sizeof *float_types; t++)
                for (int threads = device_name ? 2 : 1; threads <= 2; threads++) {
                    ls_parallel_set_width(threads);
                    result got = run_case(c, float_types[t], PLAIN, &all, gradients);
                    compare_case(c, &got, &want, float_types[t], ls_isa_name((ls_isa)isa));
                    result_free(&got);
                }
        }
        ls_parallel_set_width(0);
        ls_isa_cap(best);
        result_free(&want);
        inputs_free(&all);
    }
}

static void every_layout(void)
{
    static const char *const names[] = {"plain", "gaps", "turned", "repeated"};
    for (int i = 0; i < op_case_count; i++) {
        const op_case *c = &op_cases[i];
        if (!is_chosen(i) || is_random_tensor(c)) continue;
        for (int how = GAPS; how < LAYOUT_COUNT; how++) {
            bool ordered = false; /* repeated elements have no order: which one is chosen is not what is tested here */
            for (int k = 0; k < CASE_INPUTS; k++) ordered |= c->in[k].kind == INPUT_DISTINCT;
            if (how == REPEATED && (ordered || c->op == LS_OP_batch_norm))
                continue; /* nor does a repeated batch vary */
            inputs all = inputs_make(c, (layout)how);
            bool gradients = is_differentiable(c);
            result want = truth_of(c, &all, gradients);
            for (int t = 1; t < 3; t++) {
                result got = run_case(c, float_types[t], (layout)how, &all, gradients);
                compare_case(c, &got, &want, float_types[t], names[how]);
                result_free(&got);
            }
            result_free(&want);
            inputs_free(&all);
        }
    }
}

/* ---- finite differences ---- */

static double loss_at(ls_run *run, const op_case *c, const inputs *all)
{
    ls_mark mark = ls_scope_begin(run);
    ls_set_seed(run, SEED); /* the same chance each time */
    ls_tensor *in[CASE_INPUTS] = {0};
    for (int i = 0; i < all->n; i++) in[i] = make_input(run, &c->in[i], LS_F64, PLAIN, all->values[i]);
    double loss = ls_item(ls_cast(weighted_sum(run, c->call(run, in)), LS_F64));
    ls_scope_end(run, mark, NULL);
    return loss;
}

static void gradients_match_finite_differences(void)
{
    ls_run *run = new_run();
    for (int k = 0; k < op_case_count; k++) {
        const op_case *c = &op_cases[k];
        if (!is_chosen(k) || !is_differentiable(c)) continue;
        if (c->op == LS_OP_copy && strcmp(c->label, "cast_f32") == 0) continue; /* rounds to f32: no f64 difference */
        inputs all = inputs_make(c, PLAIN);
        result r = run_case(c, LS_F64, PLAIN, &all, true);
        for (int i = 0; i < all.n && r.values; i++) {
            if (!r.gradients[i]) continue;
            int64_t n = ls_shape_numel(c->in[i].shape);
            for (int64_t e = 0; e < n; e += 1 + n / 24) { /* a sample of the elements is enough */
                double h = 1e-5, *x = &all.values[i][e], x0 = *x;
                *x = x0 + h;
                double up = loss_at(run, c, &all);
                *x = x0 - h;
                double down = loss_at(run, c, &all);
                *x = x0;
                double want = (up - down) / (2 * h);
                CHECK_MSG(fabs(r.gradients[i][e] - want) <= 2e-6 * (1 + fabs(want)),
                          "%s/%s input %d element %lld: %.9g, difference %.9g", ls_op_table[c->op].name, c->label, i,
                          (long long)e, r.gradients[i][e], want);
            }
        }
        result_free(&r);
        inputs_free(&all);
    }
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
    ls_clear_error(run);
    ls_finish(run);
}

/* ---- sizes: one and none ---- */

static void small_and_empty_inputs(void)
{
    for (int i = 0; i < op_case_count; i++) {
        const op_case *c = &op_cases[i];
        if (!is_chosen(i) || is_random_tensor(c)) continue;
        for (int size = 0; size <= 1; size++) {
            op_case small = *c;
            for (int k = 0; k < CASE_INPUTS; k++)
                for (int d = 0; d < small.in[k].shape.ndim; d++) small.in[k].shape.dim[d] = size;
            inputs all = {0};
            for (; all.n < CASE_INPUTS && c->in[all.n].kind != INPUT_NONE; all.n++)
                all.values[all.n] = calloc(1, sizeof(double));
            ls_run *run = new_run();
            ls_tensor *in[CASE_INPUTS] = {0};
            for (int k = 0; k < all.n; k++) {
                in[k] = make_input(run, &small.in[k], LS_F32, PLAIN, all.values[k]);
                if (small.in[k].kind == INPUT_NORMAL && !small.in[k].no_gradient) ls_set_requires_grad(in[k], true);
            }
            /* An error is a fine answer (a window larger than the image), a crash is not;
             * what succeeds must also go back. */
            ls_tensor *y = c->call(run, in);
            if (!ls_error(run) && ls_requires_grad(y)) ls_backward(run, weighted_sum(run, y));
            if (ls_error(run)) {
                CHECK_MSG(strlen(ls_error_message(run)) > 8 && ls_error(run) != LS_ERR_INTERNAL &&
                              ls_error(run) != LS_ERR_UNSUPPORTED && ls_error(run) != LS_ERR_DEVICE,
                          "%s size %d: %s", c->label, size, ls_error_message(run));
                ls_clear_error(run);
            }
            ls_finish(run);
            inputs_free(&all);
        }
    }
}

/* ---- none at all ---- */

static void missing_inputs_are_errors(void)
{
    for (int i = 0; i < op_case_count; i++) {
        const op_case *c = &op_cases[i];
        if (!is_chosen(i) || is_random_tensor(c)) continue;
        ls_run *run = new_run();
        ls_tensor *y = c->call(run, (ls_tensor *[CASE_INPUTS]){0});
        CHECK_MSG(y && !ls_is_valid(y) && ls_error(run) == LS_ERR_VALUE, "%s of NULL: %s", c->label,
                  ls_error_message(run));
        ls_clear_error(run);
        ls_finish(run);
    }
}

/* ---- completeness ---- */

static void every_row_is_entered(void)
{
    /* Rows of kind GRAD are entered through the gradient of their forward row;
     * UPDATE rows through the optimisers' tests. */
    for (int op = 0; op < LS_OP_COUNT; op++) {
        bool found = ls_op_table[op].kind == LS_KIND_GRAD || ls_op_table[op].kind == LS_KIND_UPDATE;
        for (int i = 0; i < op_case_count; i++) found |= op_cases[i].op == (ls_opcode)op;
        CHECK_MSG(found, "%s has no case in op_cases.c", ls_op_table[op].name);
    }
}

static void read_part(const char *text)
{
    if (sscanf(text, "%d/%d", &part, &parts) == 2 && part >= 1 && part <= parts) return;
    fprintf(stderr, "--part %s: write 1/4, 2/4, 3/4 and 4/4 for four processes\n", text);
    exit(2);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--device") == 0 && i + 1 < argc) device_name = argv[++i];
        else if (strcmp(argv[i], "--part") == 0 && i + 1 < argc) read_part(argv[++i]);
        else case_filter = argv[i];
    }
    CHECK_RUN(every_row_is_entered);
    CHECK_RUN(missing_inputs_are_errors);
    CHECK_RUN(small_and_empty_inputs);
    CHECK_RUN_SLOW(gradients_match_finite_differences);
    CHECK_RUN(every_layout);
    CHECK_RUN(forward_and_gradient_on_every_isa);
    return check_done();
}
