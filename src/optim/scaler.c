/* scaler.c - adjust the loss scale over time. */
#include "optim/scaler.h"

#include <math.h>

#include "base/log.h"
#include "base/opts.h"

/* Gradients are multiplied by the inverse, and by up to the number of batches of a step, in f32: infinity would turn
 * zeros into NaN. */
#define LOWEST_SCALE 0x1p-100
#define HIGHEST_SCALE 0x1p127

static void clear(void *object)
{
    ls_scaler *scaler = object;
    scaler->object.run->step->scaler = NULL;
}

ls_scaler *ls_scaler_new(ls_run *run)
{
    ls_scaler *scaler = ls_object_new(run, LS_OBJECT_SCALER, sizeof *scaler, clear);
    if (scaler) scaler->rule = LS_OPTIONS(ls_loss_scaling_opts, );
    if (scaler) scaler->now.scale = scaler->rule.init_scale;
    return run->step->scaler = scaler;
}

ls_scaler *ls_scaler_of(const ls_run *run)
{
    return run->step->scaler;
}

double ls_scaler_scale(const ls_scaler *scaler)
{
    return scaler ? scaler->now.scale : 1;
}

static bool usable(double scale)
{
    return scale >= LOWEST_SCALE && scale <= HIGHEST_SCALE;
}

/* The scale of the next group, from the steps of the last. */
static ls_loss_scaler_state next_scale(const ls_scaler *scaler)
{
    ls_loss_scaler_state next = scaler->now;
    if (!scaler->stepped) return next;
    if (!scaler->overflow && ++next.good_steps < scaler->rule.growth_interval) return next;
    double scale = next.scale * (scaler->overflow ? scaler->rule.backoff_factor : scaler->rule.growth_factor);
    return (ls_loss_scaler_state){.scale = usable(scale) ? scale : next.scale};
}

static void set(ls_scaler *scaler, ls_loss_scaler_state scale)
{
    scaler->now = scale;
    scaler->stepped = scaler->overflow = false;
}

void ls_scaler_settle(ls_scaler *scaler)
{
    if (!scaler) return;
    set(scaler, next_scale(scaler));
    if (scaler->now.scale >= 1 || scaler->told) return;
    scaler->told = true;
    ls_log_of_job(LS_LOG_WARN,
                  "the loss scale has fallen below 1: gradients overflow at any scale, and no step is taken; bf16 "
                  "needs no scale, and LOCKSTEP_CHECK_FINITE=1 names results that are not finite");
}

void ls_scaler_stepped(ls_scaler *scaler, bool finite)
{
    scaler->stepped = true;
    scaler->overflow |= !finite;
}

ls_loss_scaler_state ls_loss_scaler(const ls_run *run)
{
    return run->step->scaler ? next_scale(run->step->scaler) : (ls_loss_scaler_state){.scale = 1};
}

void ls_set_loss_scaler(ls_run *run, ls_loss_scaler_state state)
{
    if (ls_failed(run)) return;
    if (!run->step->scaler) ls_fail(&run->errors, LS_ERR_STATE, "ls_set_loss_scaler: this run has no loss scaler");
    else if (!usable(state.scale))
        ls_fail(&run->errors, LS_ERR_VALUE, "ls_set_loss_scaler: the scale is %g; it must be between 2^-100 and 2^127",
                state.scale);
    else set(run->step->scaler, state);
}

void ls_set_loss_scaling_sized(ls_run *run, const ls_loss_scaling_opts *given, size_t opts_size)
{
    ls_loss_scaling_opts o = LS_OPTS_READ(ls_loss_scaling_opts, given, opts_size);
    if (ls_failed(run)) return;
    bool factors = o.growth_factor >= 1 && isfinite(o.growth_factor) && o.backoff_factor > 0 && o.backoff_factor < 1;
    if (!usable(o.init_scale) || !factors || o.growth_interval < 1) {
        ls_fail(
            &run->errors, LS_ERR_VALUE,
            "ls_set_loss_scaling: .init_scale = %g must be between 2^-100 and 2^127, .growth_factor = %g at least 1, "
            ".backoff_factor = %g between 0 and 1, .growth_interval = %lld at least 1",
            o.init_scale, o.growth_factor, o.backoff_factor, (long long)o.growth_interval);
        return;
    }
    if (!run->step->scaler) return;
    run->step->scaler->rule = o;
    set(run->step->scaler, (ls_loss_scaler_state){.scale = o.init_scale});
}
