/* norm_together.c - batch normalisation by the batches of all processes: sums are taken over them, and their gradients
 * with them. */
#include <lockstep/comm.h>

#include "nn/layers.h"
#include "ops/op.h"

/* running += momentum * (now - running); now is detached. */
static void follow(ls_tensor *running, ls_tensor *now, double momentum)
{
    ls_assign(running, ls_lerp(running, ls_cast(now, ls_dtype_of(running)), momentum));
}

static bool inputs_fit(ls_run *run, ls_tensor *x, ls_tensor *residual)
{
    int n = ls_ndim(x);
    if (!ls_dtype_is_float(ls_dtype_of(x)))
        ls_fail(&run->errors, LS_ERR_DTYPE, "BatchNorm: %s: a floating type is needed", OP_TEXT(x));
    else if (n < 2 || ls_dim(x, 1) < 1)
        ls_fail(&run->errors, LS_ERR_SHAPE, "BatchNorm: an input of %d dimensions is not [N,C] or [N,C,...]", n);
    else if (residual && !ls_shape_equal(ls_shape_of(x), ls_shape_of(residual)))
        ls_fail(&run->errors, LS_ERR_SHAPE, "BatchNorm: %s and residual %s", OP_TEXT(x), OP_TEXT(residual));
    return !ls_failed(run);
}

ls_tensor *ls_batch_norm_together(const ls_norm_layer *m, ls_tensor *x, ls_tensor *residual)
{
    ls_run *run = m->module.object.run;
    if (ls_failed(run) || !inputs_fit(run, x, residual)) return &run->poison;
    int n = ls_ndim(x);
    ls_dtype dtype = ls_dtype_of(x), type = dtype == LS_F64 ? LS_F64 : LS_F32;
    int64_t channels = ls_dim(x, 1), count = ls_numel(x) / channels;
    ls_shape over = {.ndim = n - 1}, wide = {.ndim = n};
    for (int d = 0; d < n; d++) wide.dim[d] = d == 1 ? channels : 1;
    for (int d = 2; d < n; d++) over.dim[d - 1] = d; /* 0, 2, 3, ... */
    ls_tensor *exact = ls_cast(x, type), *here = ls_full(run, type, (double)count, 1);
    ls_tensor *sums = ls_all_reduce(m->comm, ls_concat(0, ls_sum_dims(exact, over, false), here), LS_REDUCE_SUM);
    ls_tensor *total = ls_slice(sums, 0, channels, channels + 1, 1);
    ls_tensor *mean = ls_div(ls_slice(sums, 0, 0, channels, 1), total);
    ls_tensor *centred = ls_sub(exact, ls_reshape_shape(mean, wide));
    ls_tensor *squares = ls_all_reduce(m->comm, ls_sum_dims(ls_square(centred), over, false), LS_REDUCE_SUM);
    ls_tensor *var = ls_div(squares, total);
    if (m->running_mean && !ls_is_recomputing(run)) {
        ls_tensor *unbiased = ls_div(ls_detach(squares), ls_clamp(ls_add_scalar(ls_detach(total), -1), 1, INFINITY));
        follow(m->running_mean, ls_detach(mean), m->momentum);
        follow(m->running_var, unbiased, m->momentum);
    }
    ls_tensor *y = ls_mul(centred, ls_reshape_shape(ls_rsqrt(ls_add_scalar(var, m->epsilon)), wide));
    if (m->weight) y = ls_mul(y, ls_reshape_shape(m->weight, wide));
    if (m->bias) y = ls_add(y, ls_reshape_shape(m->bias, wide));
    if (residual) y = ls_add(y, residual);
    if (m->activation == LS_ACT_RELU) y = ls_relu(y);
    return ls_cast(y, dtype);
}
