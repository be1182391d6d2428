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

static ls_tensor *created(ls_opcode op, ls_tensor *t, ls_attrs attrs, bool is_random)
{
    if (t->life != LS_LIFE_LIVE) return t;
    ls_tensor *live = NULL;
    if (is_random)
        live = ls_draw(t->run, t->storage->device, ls_view_numel(&t->view), &attrs.random.seed, &attrs.random.offset);
    return op_submit_live(op, 0, NULL, 1, &t, &attrs, live) ? t : &t->run->poison;
}

static ls_tensor *drawn(ls_opcode op, ls_tensor *t, double a, double b)
{
    if (t->life == LS_LIFE_LIVE && !ls_dtype_is_float(t->view.dtype))
        return op_error(t->run, op, LS_ERR_DTYPE, "%s is not a floating type", ls_dtype_name(t->view.dtype));
    return created(op, t, (ls_attrs){.random = {.a = a, .b = b}}, true);
}

ls_tensor *ls_full_shape(ls_run *run, ls_dtype dtype, double value, ls_shape shape)
{
    return filled(ls_empty_shape(run, dtype, shape), value);
}

ls_tensor *ls_uniform_shape(ls_run *run, ls_dtype dtype, double low, double high, ls_shape shape)
{
    return drawn(LS_OP_uniform, ls_empty_shape(run, dtype, shape), low, high);
}

ls_tensor *ls_normal_shape(ls_run *run, ls_dtype dtype, double mean, double std, ls_shape shape)
{
    return drawn(LS_OP_normal, ls_empty_shape(run, dtype, shape), mean, std);
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
    return drawn(LS_OP_uniform, empty_like(x, "ls_rand_like"), 0, 1);
}

ls_tensor *ls_randn_like(const ls_tensor *x)
{
    return drawn(LS_OP_normal, empty_like(x, "ls_randn_like"), 0, 1);
}

ls_tensor *ls_bernoulli_shape(ls_run *run, ls_dtype dtype, double p, ls_shape shape)
{
    if (!ls_failed(run) && !(p >= 0 && p <= 1))
        return op_error(run, LS_OP_bernoulli, LS_ERR_VALUE, "probability %g is not in [0, 1]", p);
    return created(LS_OP_bernoulli, ls_empty_shape(run, dtype, shape), (ls_attrs){.random = {.a = p}}, true);
}

ls_tensor *ls_arange(ls_run *run, ls_dtype dtype, int64_t n, double start, double step)
{
    return created(LS_OP_arange, ls_empty_shape(run, dtype, LS_SHAPE(n)),
                   (ls_attrs){.affine = {.scale = step, .shift = start}}, false);
}

ls_tensor *ls_randperm(ls_run *run, int64_t n)
{
    return created(LS_OP_randperm, ls_empty_shape(run, LS_I64, LS_SHAPE(n)), (ls_attrs){.random = {0}}, true);
}
