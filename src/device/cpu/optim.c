/* optim.c - operators that update in place: optimiser steps, gradient clipping and loss scaling. */
#include "kernels/optim.h"

#include "base/parallel.h"
#include "device/cpu/cpu.h"
#include "device/cpu/iterate.h"
#include "device/cpu/rows.h"
#include "kernels/element.h"

#include <stdatomic.h>

/* ---- steps ------------------------------------------------------------------------------------------------------- */

typedef struct step_run {
    ls_adam_fn *adam_kernel;
    ls_sgd_fn *sgd_kernel;
    ls_rmsprop_fn *rmsprop_kernel;
    ls_adagrad_fn *adagrad_kernel;
    ls_adam adam;
    ls_sgd sgd;
    ls_rmsprop rmsprop;
    ls_adagrad adagrad;
    bool has_momentum, is_centered;
} step_run;

static void run_adam(void *arg, int64_t first, int64_t n, void *const *p)
{
    const step_run *run = arg;
    (void)first;
    run->adam_kernel(n, p[0], p[1], p[2], p[3], &run->adam);
}

static void run_sgd(void *arg, int64_t first, int64_t n, void *const *p)
{
    const step_run *run = arg;
    (void)first;
    run->sgd_kernel(n, p[0], run->has_momentum ? p[1] : NULL, p[run->has_momentum ? 2 : 1], &run->sgd);
}

/* p: parameter, v, mean?, momentum?, gradient */
static void run_rmsprop(void *arg, int64_t first, int64_t n, void *const *p)
{
    const step_run *run = arg;
    (void)first;
    void *const *next = p + 2;
    void *mean = run->is_centered ? *next++ : NULL, *momentum = run->has_momentum ? *next++ : NULL;
    run->rmsprop_kernel(n, p[0], p[1], mean, momentum, *next, &run->rmsprop);
}

static void run_adagrad(void *arg, int64_t first, int64_t n, void *const *p)
{
    const step_run *run = arg;
    (void)first;
    run->adagrad_kernel(n, p[0], p[1], p[2], &run->adagrad);
}

/* Was a gradient not finite? Then there is no step. */
static bool found_nonfinite(const ls_call *call)
{
    const ls_operand *found = call->n_in > 1 ? call->in[1] : NULL;
    return found && ls_get(found->dtype, found->data, 0) != 0;
}

/* What gradients are multiplied by, besides the sign. */
static double factor_of(const ls_call *call)
{
    const ls_operand *factor = call->n_in > 2 ? call->in[2] : NULL;
    return factor ? ls_get(factor->dtype, factor->data, 0) : 1;
}

/* Write the half-precision copy of p, if the optimiser wants one; half may be NULL. */
static ls_status write_half(const ls_operand *p, const ls_operand *half, ls_message *why)
{
    if (!half) return LS_OK;
    return ls_cpu_copy(&(ls_call){.op = LS_OP_copy, .n_in = 1, .n_out = 1, .in = {p}, .out = {half}}, why);
}

/* in: g, found? (one element: nothing is done unless it is 0), factor? (one element that g is multiplied by; only for
 * devices with LS_TRAIT_STEP_FACTOR)  out: p, m, v, all of the shape of g, updated, and half? (becomes p in its own
 * type). Any floating types: computed in f64 where p is f64, else in f32.
 * attrs.adam: bias1 = 1 - beta1^t, bias2 = 1 - beta2^t; decoupled: AdamW, else weight decay is added to g. */
ls_status ls_cpu_adam_step(const ls_call *call, ls_message *why)
{
    if (found_nonfinite(call)) return LS_OK;
    ls_dtype as = ls_compute_dtype(call->out[0]->dtype);
    step_run run = {.adam_kernel = ls_optim_kernels_in_use()->adam[as], .adam = ls_adam_of(&call->attrs)};
    run.adam.gradient_sign *= factor_of(call);
    ls_iteration walk = {.count = 4,
                         .outputs = 3,
                         .operand = {call->out[0], call->out[1], call->out[2], call->in[0]},
                         .as = {as, as, as, as},
                         .updates = true,
                         .grain = ls_grain(1000)};
    ls_iterate(&walk, run_adam, &run);
    return write_half(call->out[0], call->n_out > 3 ? call->out[3] : NULL, why);
}

/* in: g, found?, factor?  out: p, momentum?, of one shape, updated, half?. All as above.
 * attrs.sgd: first: momentum becomes the gradient, whatever it is. */
ls_status ls_cpu_sgd_step(const ls_call *call, ls_message *why)
{
    if (found_nonfinite(call)) return LS_OK;
    ls_dtype as = ls_compute_dtype(call->out[0]->dtype);
    const ls_operand *momentum = call->n_out > 1 ? call->out[1] : NULL;
    step_run run = {.sgd_kernel = ls_optim_kernels_in_use()->sgd[as],
                    .sgd = ls_sgd_of(&call->attrs),
                    .has_momentum = momentum != NULL};
    run.sgd.gradient_sign *= factor_of(call);
    ls_iteration walk = {.count = momentum ? 3 : 2,
                         .outputs = momentum ? 2 : 1,
                         .operand = {call->out[0], momentum ? momentum : call->in[0], call->in[0]},
                         .as = {as, as, as},
                         .updates = true,
                         .grain = ls_grain(600)};
    ls_iterate(&walk, run_sgd, &run);
    return write_half(call->out[0], call->n_out > 2 ? call->out[2] : NULL, why);
}

static ls_status rmsprop_step(const ls_call *call, bool centered, ls_message *why)
{
    if (found_nonfinite(call)) return LS_OK;
    ls_dtype as = ls_compute_dtype(call->out[0]->dtype);
    int last = centered ? 3 : 2;
    bool momentum = call->n_out > last && call->out[last];
    step_run run = {.rmsprop_kernel = ls_optim_kernels_in_use()->rmsprop[as],
                    .rmsprop = ls_rmsprop_of(&call->attrs),
                    .has_momentum = momentum,
                    .is_centered = centered};
    run.rmsprop.gradient_sign *= factor_of(call);
    int updated = last + momentum;
    ls_iteration walk = {.count = updated + 1, .outputs = updated, .updates = true, .grain = ls_grain(2000)};
    for (int i = 0; i < walk.count; i++) {
        walk.operand[i] = i < updated ? call->out[i] : call->in[0];
        walk.as[i] = as;
    }
    ls_iterate(&walk, run_rmsprop, &run);
    return write_half(call->out[0], call->n_out > last + 1 ? call->out[last + 1] : NULL, why);
}

/* in: g, found?, factor?  out: p, v, momentum?, of one shape, updated, half?. All as above. */
ls_status ls_cpu_rmsprop_step(const ls_call *call, ls_message *why)
{
    return rmsprop_step(call, false, why);
}

/* in: g, found?, factor?  out: p, v, mean, momentum?, of one shape, updated, half?. All as above.
 * attrs.rmsprop: alpha is also that of the mean. */
ls_status ls_cpu_centered_rmsprop_step(const ls_call *call, ls_message *why)
{
    return rmsprop_step(call, true, why);
}

/* in: g, found?, factor?  out: p, sum, of one shape, updated, half?. All as above. */
ls_status ls_cpu_adagrad_step(const ls_call *call, ls_message *why)
{
    if (found_nonfinite(call)) return LS_OK;
    ls_dtype as = ls_compute_dtype(call->out[0]->dtype);
    step_run run = {.adagrad_kernel = ls_optim_kernels_in_use()->adagrad[as], .adagrad = ls_adagrad_of(&call->attrs)};
    run.adagrad.gradient_sign *= factor_of(call);
    ls_iteration walk = {.count = 3,
                         .outputs = 2,
                         .operand = {call->out[0], call->out[1], call->in[0]},
                         .as = {as, as, as},
                         .updates = true,
                         .grain = ls_grain(2000)};
    ls_iterate(&walk, run_adagrad, &run);
    return write_half(call->out[0], call->n_out > 2 ? call->out[2] : NULL, why);
}

/* ---- sum of squares ---------------------------------------------------------------------------------------------- */

#define MAX_PARTS 1024

typedef struct squares_run {
    ls_squares_fn *kernel;
    const char *data;
    size_t size;
    int64_t count, part_elements; /* parts depend only on the count, so the sum does not depend on threads */
    double part[MAX_PARTS];
} squares_run;

static void run_parts(void *arg, int64_t begin, int64_t end)
{
    squares_run *run = arg;
    for (int64_t part = begin; part < end; part++) {
        int64_t from = part * run->part_elements, n = run->count - from;
        if (n > run->part_elements) n = run->part_elements;
        run->part[part] = run->kernel(n, run->data + from * (int64_t)run->size);
    }
}

/* Layouts with gaps: one piece after the other on one thread. */
static void run_squares_piece(void *arg, int64_t first, int64_t n, void *const *p)
{
    squares_run *run = arg;
    (void)first;
    run->part[0] += run->kernel(n, p[0]);
}

static double sum_of_squares(const ls_operand *x)
{
    squares_run run;
    run.kernel = ls_optim_kernels_in_use()->squares[x->dtype];
    ls_layout layout = ls_layout_of(&x, 1, false);
    run.size = ls_dtype_size(x->dtype);
    run.part[0] = 0;
    if (layout.ndim > 1 || (layout.stride[0][0] != (int64_t)run.size && layout.count > 1)) {
        ls_iteration walk = {.count = 1, .operand = {x}};
        ls_iterate(&walk, run_squares_piece, &run);
        return run.part[0];
    }
    run.data = x->data;
    run.count = layout.count;
    run.part_elements = 16384;
    while (run.part_elements * MAX_PARTS < run.count) run.part_elements *= 2;
    int64_t parts = (run.count + run.part_elements - 1) / run.part_elements;
    ls_parallel_for(parts, ls_grain(250) / run.part_elements + 1, run_parts, &run);
    double sum = 0;
    for (int64_t i = 0; i < parts; i++) sum += run.part[i];
    return sum;
}

/* in: x, floating  out: total, one element, f32 or f64; total += sum of squares of x, summed in f64 */
ls_status ls_cpu_sum_squares(const ls_call *call, ls_message *why)
{
    const ls_operand *x = call->in[0], *total = call->out[0];
    if (!ls_dtype_is_float(x->dtype))
        return ls_explain(why, LS_ERR_DTYPE, "sum_squares does not support %s", ls_dtype_name(x->dtype));
    ls_put(total->dtype, total->data, 0, ls_get(total->dtype, total->data, 0) + sum_of_squares(x));
    return LS_OK;
}

/* ---- loss scaling ------------------------------------------------------------------------------------------------ */

typedef struct unscale_run {
    ls_unscale_fn *kernel;
    double factor;
    atomic_bool found;
} unscale_run;

static void run_unscale(void *arg, int64_t first, int64_t n, void *const *p)
{
    unscale_run *run = arg;
    (void)first;
    if (!run->kernel(n, p[0], run->factor)) atomic_store_explicit(&run->found, true, memory_order_relaxed);
}

/* in: none  out: g, floating, and found, one element; g *= attrs.scalar.value; found = 1 if any g was not finite,
 * else it is unchanged */
ls_status ls_cpu_unscale(const ls_call *call, ls_message *why)
{
    const ls_operand *g = call->out[0], *found = call->out[1];
    unscale_run run = {.kernel = ls_optim_kernels_in_use()->unscale[g->dtype], .factor = call->attrs.scalar.value};
    if (!run.kernel) return ls_explain(why, LS_ERR_DTYPE, "unscale does not support %s", ls_dtype_name(g->dtype));
    ls_iteration walk = {.count = 1, .outputs = 1, .operand = {g}, .updates = true, .grain = ls_grain(250)};
    ls_iterate(&walk, run_unscale, &run);
    if (atomic_load(&run.found)) ls_put(found->dtype, found->data, 0, 1);
    return LS_OK;
}
