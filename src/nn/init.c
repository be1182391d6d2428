/* init.c - initialisers: PyTorch's distributions, drawn from the run's random numbers. */
#include <math.h>

#include "nn/module.h"
#include "ops/op.h"

void ls_init_constant(ls_tensor *t, double value)
{
    ls_run *run = ls_run_of(t);
    if (ls_failed(run) || !ls_check_writable(run, t, "ls_init_constant")) return;
    ls_begin_at(t, value);
    ls_written(t);
}

/* `drawn` is in the CPU's memory. */
static void write_drawn(ls_tensor *t, const ls_tensor *drawn)
{
    if (ls_is_valid(drawn))
        ls_write(t, drawn->view.data, (size_t)ls_view_numel(&t->view) * ls_dtype_size(t->view.dtype));
}

/* For a device that compiles, the CPU draws, whose random numbers are the same: see ls_begin_at(). */
static void fill_drawn(ls_tensor *t, ls_opcode op, double a, double b, const char *who)
{
    ls_run *run = ls_run_of(t);
    if (ls_failed(run) || !ls_check_writable(run, t, who)) return;
    if (!ls_dtype_is_float(t->view.dtype)) {
        ls_fail(&run->errors, LS_ERR_DTYPE, "%s: %s is not a floating type", who, ls_dtype_name(t->view.dtype));
        return;
    }
    if (ls_device_records(t->storage->device)) {
        ls_mark mark = ls_scope_begin(run);
        ls_tensor *drawn = ls_on_host_like(t, t->view.dtype);
        if (ls_is_valid(drawn) && op_draw(op, drawn, a, b)) write_drawn(t, drawn);
        ls_scope_end(run, mark, NULL);
    } else {
        op_draw(op, t, a, b);
    }
    ls_written(t);
}

void ls_init_uniform(ls_tensor *t, double low, double high)
{
    fill_drawn(t, LS_OP_uniform, low, high, "ls_init_uniform");
}

void ls_init_normal(ls_tensor *t, double mean, double std)
{
    fill_drawn(t, LS_OP_normal, mean, std, "ls_init_normal");
}

/* ---- truncated normal ---- */

/* The inverse of erf, |y| < 1: an approximation good to three digits, then Newton steps. */
static double inverse_erf(double y)
{
    double w = log(1 - y * y), a = 2 / (3.14159265358979323846 * 0.147) + w / 2;
    double x = copysign(sqrt(sqrt(a * a - w / 0.147) - a), y);
    for (int i = 0; i < 3; i++) x -= (erf(x) - y) * exp(x * x) * 0.88622692545275801365; /* sqrt(pi) / 2 */
    return x;
}

static double normal_below(double x)
{
    return (1 + erf(x / sqrt(2.0))) / 2;
}

void ls_init_trunc_normal(ls_tensor *t, double mean, double std, double low, double high)
{
    ls_run *run = ls_run_of(t);
    if (ls_failed(run) || !ls_check_writable(run, t, "ls_init_trunc_normal")) return;
    if (!(std > 0) || !(low < high)) {
        ls_fail(&run->errors, LS_ERR_VALUE, "ls_init_trunc_normal: std %g in [%g, %g]", std, low, high);
        return;
    }
    ls_mark mark = ls_scope_begin(run);
    ls_tensor *drawn = ls_on_host_like(t, LS_F32);
    if (ls_is_valid(drawn) && op_draw(LS_OP_uniform, drawn, 0, 1)) {
        float *x = drawn->view.data;
        double from = 2 * normal_below((low - mean) / std) - 1, to = 2 * normal_below((high - mean) / std) - 1;
        for (int64_t i = 0; i < ls_numel(drawn); i++) {
            double value = mean + std * sqrt(2.0) * inverse_erf(from + (to - from) * ((double)x[i] + 0x1p-25));
            x[i] = (float)fmin(fmax(value, low), high);
        }
        write_drawn(t, ls_cast(drawn, t->view.dtype));
    }
    ls_scope_end(run, mark, NULL);
}

/* ---- scaled by the size of the layer ---- */

static double fan(const ls_tensor *t, ls_fan which)
{
    double rest = 1;
    for (int d = 2; d < ls_ndim(t); d++) rest *= (double)ls_dim(t, d);
    return rest * (double)ls_dim(t, which == LS_FAN_IN ? 1 : 0);
}

static bool has_fans(ls_tensor *t, const char *who)
{
    ls_run *run = ls_run_of(t);
    if (ls_failed(run) || !ls_check_live(run, t, who)) return false;
    if (ls_ndim(t) >= 2) return ls_numel(t) > 0;
    ls_fail(&run->errors, LS_ERR_SHAPE, "%s: fan-in and fan-out of %s are undefined; it needs two dimensions or more",
            who, ls_operand_text(&t->view, (char[LS_TEXT]){0}));
    return false;
}

void ls_init_kaiming_uniform(ls_tensor *t, double gain, ls_fan which)
{
    if (!has_fans(t, "ls_init_kaiming_uniform")) return;
    double bound = sqrt(3.0) * gain / sqrt(fan(t, which));
    ls_init_uniform(t, -bound, bound);
}

void ls_init_kaiming_normal(ls_tensor *t, double gain, ls_fan which)
{
    if (has_fans(t, "ls_init_kaiming_normal")) ls_init_normal(t, 0, gain / sqrt(fan(t, which)));
}

void ls_init_xavier_uniform(ls_tensor *t, double gain)
{
    if (!has_fans(t, "ls_init_xavier_uniform")) return;
    double bound = gain * sqrt(6.0 / (fan(t, LS_FAN_IN) + fan(t, LS_FAN_OUT)));
    ls_init_uniform(t, -bound, bound);
}

void ls_init_xavier_normal(ls_tensor *t, double gain)
{
    if (has_fans(t, "ls_init_xavier_normal"))
        ls_init_normal(t, 0, gain * sqrt(2.0 / (fan(t, LS_FAN_IN) + fan(t, LS_FAN_OUT))));
}
