/* create.c - tensors of one number, of sequences and of random numbers. */
#include "ops/op.h"

ls_tensor *ls_full_shape(ls_run *run, ls_dtype dtype, double value, ls_shape shape)
{
    ls_tensor *t = ls_empty_shape(run, dtype, shape); /* checks the type */
    if (t->life == LS_LIFE_LIVE && !op_holds(dtype, value))
        return op_error(run, LS_OP_fill, LS_ERR_VALUE, "%g is not a number of %s; choose a type that has it", value,
                        ls_dtype_name(dtype));
    return t->life == LS_LIFE_LIVE && ls_raw_fill(t, value) ? t : &run->poison;
}

static ls_tensor *created(ls_run *run, ls_opcode op, ls_dtype dtype, ls_shape shape, ls_attrs attrs, bool is_random)
{
    ls_tensor *t = ls_empty_shape(run, dtype, shape);
    if (t->life != LS_LIFE_LIVE) return t;
    ls_tensor *live = NULL;
    if (is_random)
        live = ls_draw(run, t->storage->device, ls_view_numel(&t->view), &attrs.random.seed, &attrs.random.offset);
    return op_submit_live(op, 0, NULL, 1, &t, &attrs, live) ? t : &run->poison;
}

ls_tensor *ls_uniform_shape(ls_run *run, ls_dtype dtype, double low, double high, ls_shape shape)
{
    if (!ls_failed(run) && !ls_dtype_is_float(dtype))
        return op_error(run, LS_OP_uniform, LS_ERR_DTYPE, "%s is not a floating type", ls_dtype_name(dtype));
    return created(run, LS_OP_uniform, dtype, shape, (ls_attrs){.random = {.a = low, .b = high}}, true);
}

ls_tensor *ls_normal_shape(ls_run *run, ls_dtype dtype, double mean, double std, ls_shape shape)
{
    if (!ls_failed(run) && !ls_dtype_is_float(dtype))
        return op_error(run, LS_OP_normal, LS_ERR_DTYPE, "%s is not a floating type", ls_dtype_name(dtype));
    return created(run, LS_OP_normal, dtype, shape, (ls_attrs){.random = {.a = mean, .b = std}}, true);
}

/* Of the shape and type of another tensor; poison begets poison, without another message. */
ls_tensor *ls_full_like(const ls_tensor *x, double value)
{
    ls_run *run = ls_run_of(x);
    return ls_is_valid(x) ? ls_full_shape(run, ls_dtype_of(x), value, ls_shape_of(x)) : &run->poison;
}

ls_tensor *ls_rand_like(const ls_tensor *x)
{
    ls_run *run = ls_run_of(x);
    return ls_is_valid(x) ? ls_uniform_shape(run, ls_dtype_of(x), 0, 1, ls_shape_of(x)) : &run->poison;
}

ls_tensor *ls_randn_like(const ls_tensor *x)
{
    ls_run *run = ls_run_of(x);
    return ls_is_valid(x) ? ls_normal_shape(run, ls_dtype_of(x), 0, 1, ls_shape_of(x)) : &run->poison;
}

ls_tensor *ls_empty_like(const ls_tensor *x)
{
    ls_run *run = ls_run_of(x);
    return ls_is_valid(x) ? ls_empty_shape(run, ls_dtype_of(x), ls_shape_of(x)) : &run->poison;
}

ls_tensor *ls_bernoulli_shape(ls_run *run, ls_dtype dtype, double p, ls_shape shape)
{
    if (!ls_failed(run) && !(p >= 0 && p <= 1))
        return op_error(run, LS_OP_bernoulli, LS_ERR_VALUE, "probability %g is not in [0, 1]", p);
    return created(run, LS_OP_bernoulli, dtype, shape, (ls_attrs){.random = {.a = p}}, true);
}

ls_tensor *ls_arange(ls_run *run, ls_dtype dtype, int64_t n, double start, double step)
{
    return created(run, LS_OP_arange, dtype, LS_SHAPE(n), (ls_attrs){.affine = {.scale = step, .shift = start}}, false);
}

ls_tensor *ls_randperm(ls_run *run, int64_t n)
{
    return created(run, LS_OP_randperm, LS_I64, LS_SHAPE(n), (ls_attrs){.random = {0}}, true);
}
