/* scaler.c - the scale of the loss over time. */
#include "optim/scaler.h"

#include <math.h>

#define INITIAL_SCALE 65536.0
#define GROWTH 2.0
#define BACKOFF 0.5
enum { GROWTH_INTERVAL = 2000 };

static void clear(void *object)
{
    ls_scaler *scaler = object;
    scaler->object.run->scaler = NULL;
}

ls_scaler *ls_scaler_new(ls_run *run)
{
    ls_scaler *scaler = ls_object_new(run, LS_OBJECT_SCALER, sizeof *scaler, clear);
    if (scaler) scaler->scale = INITIAL_SCALE;
    return run->scaler = scaler;
}

ls_scaler *ls_scaler_of(const ls_run *run)
{
    return run->scaler;
}

double ls_scaler_scale(const ls_scaler *scaler)
{
    return scaler ? scaler->scale : 1;
}

void ls_scaler_update(ls_scaler *scaler, bool finite)
{
    if (!finite) {
        scaler->scale *= BACKOFF;
        scaler->good_steps = 0;
    } else if (++scaler->good_steps == GROWTH_INTERVAL) {
        /* The scale is applied in f32: it must not outgrow that. */
        if (isfinite((float)(scaler->scale * GROWTH))) scaler->scale *= GROWTH;
        scaler->good_steps = 0;
    }
}

ls_loss_scale ls_loss_scale_get(const ls_run *run)
{
    return run->scaler ? (ls_loss_scale){run->scaler->scale, run->scaler->good_steps} : (ls_loss_scale){.scale = 1};
}

void ls_loss_scale_set(ls_run *run, ls_loss_scale state)
{
    if (ls_failed(run)) return;
    if (!run->scaler) ls_fail(&run->errors, LS_ERR_STATE, "ls_loss_scale_set: this run has no loss scaler");
    else if (!(state.scale > 0)) ls_fail(&run->errors, LS_ERR_VALUE, "ls_loss_scale_set: the scale is %g", state.scale);
    else {
        run->scaler->scale = state.scale;
        run->scaler->good_steps = state.good_steps;
    }
}
