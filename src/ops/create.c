/* create.c - tensors of one number, of sequences and of random numbers. */
#include "ops/op.h"

/* Each makes the elements of a new tensor, and passes on poison. */

static ls_tensor *filled(ls_tensor *t, double value)
{
    if (t->life != LS_LIFE_LIVE) return t;
    if (!op_holds(t->view.dtype, value))
        return op_error(t->run, LS_OP_fill, LS_ERR_VALUE, "%g is not a number of %s; choose a type that has it", value,
                        ls_dtype_name(t->view.dtype));
    return ls_raw_fill(t, value) ? t : &t->run->poison;
}

static ls_tensor *drawn(ls_opcode op, ls_tensor *t, double a, double b)
{
    if (t->life != LS_LIFE_LIVE) return t;
    return op_draw(op, t, a, b) ? t : &t->run->poison;
}

static ls_tensor *drawn_float(ls_opcode op, ls_tensor *t, double a, double b)
{
    if (t->life == LS_LIFE_LIVE && !ls_dtype_is_float(t->view.dtype))
        return op_error(t->run, op, LS_ERR_DTYPE, "%s is not a floating type", ls_dtype_name(t->view.dtype));
    return drawn(op, t, a, b);
}

ls_tensor *ls_full_shape(ls_run *run, ls_dtype dtype, double value, ls_shape shape)
{
    return filled(ls_empty_shape(run, dtype, shape), value);
}

ls_tensor *ls_uniform_shape(ls_run *run, ls_dtype dtype, double low, double high, ls_shape shape)
{
    return drawn_float(LS_OP_uniform, ls_empty_shape(run, dtype, shape), low, high);
}

ls_tensor *ls_normal_shape(ls_run *run, ls_dtype dtype, double mean, double std, ls_shape shape)
{
    return drawn_float(LS_OP_normal, ls_empty_shape(run, dtype, shape), mean, std);
}

/* Of the shape and type of another tensor, on its device. */
static ls_tensor *empty_like(const ls_tensor *x, const char *who)
{
    ls_run *run = ls_run_of(x);
    if (ls_failed(run) || !ls_check_live(run, x, who)) return &run->poison;
    return ls_tensor_new(run, x->storage->device, x->view.dtype, ls_view_shape(&x->view));
}

ls_tensor *ls_empty_like(const ls_tensor *x)
{
    return empty_like(x, "ls_empty_like");
}

ls_tensor *ls_full_like(const ls_tensor *x, double value)
{
    return filled(empty_like(x, "ls_full_like"), value);
}

ls_tensor *ls_rand_like(const ls_tensor *x)
{
    return drawn_float(LS_OP_uniform, empty_like(x, "ls_rand_like"), 0, 1);
}

ls_tensor *ls_randn_like(const ls_tensor *x)
{
    return drawn_float(LS_OP_normal, empty_like(x, "ls_randn_like"), 0, 1);
}

ls_tensor *ls_bernoulli_shape(ls_run *run, ls_dtype dtype, double p, ls_shape shape)
{
    if (!ls_failed(run) && !(p >= 0 && p <= 1))
        return op_error(run, LS_OP_bernoulli, LS_ERR_VALUE, "probability %g is not in [0, 1]", p);
    return drawn(LS_OP_bernoulli, ls_empty_shape(run, dtype, shape), p, 0);
}

ls_tensor *ls_arange(ls_run *run, ls_dtype dtype, int64_t n, double start, double step)
{
    ls_tensor *t = ls_empty_shape(run, dtype, LS_SHAPE(n));
    ls_attrs attrs = {.affine = {.scale = step, .shift = start}};
    return t->life == LS_LIFE_LIVE && op_submit(LS_OP_arange, 0, NULL, 1, &t, &attrs) ? t : &run->poison;
}

ls_tensor *ls_randperm(ls_run *run, int64_t n)
{
    return drawn(LS_OP_randperm, ls_empty_shape(run, LS_I64, LS_SHAPE(n)), 0, 0);
}
