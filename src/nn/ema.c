/* ema.c - exponential moving averages of the parameters of a module. */
#include "nn/module.h"
#include "step/step.h"
#include "tensor/live.h"

struct ls_ema {
    ls_object object;
    ls_module *module;
    ls_state *averages; /* of floating parameters, in the order of ls_parameters() */
    double decay;
    bool applied; /* parameters and averages are exchanged */
};

/* Those that have the averages now: no optimiser may update them. */
static ls_state *parameters_replaced(void *object)
{
    const ls_ema *ema = object;
    return ema->applied ? ls_parameters(ema->module) : NULL;
}

ls_ema *ls_ema_new_sized(ls_module *module, const ls_ema_opts *given, size_t opts_size)
{
    ls_ema_opts opts = LS_OPTS_READ(ls_ema_opts, given, opts_size);
    if (!module || ls_failed(module->object.run)) return NULL;
    ls_run *run = module->object.run;
    if (!(opts.decay >= 0 && opts.decay <= 1))
        return ls_fail(&run->errors, LS_ERR_VALUE, "ls_ema_new: .decay = %g is not in [0, 1]", opts.decay), NULL;
    ls_ema *ema = ls_object_new(run, LS_OBJECT_EMA, sizeof *ema, NULL);
    if (!ema) return NULL;
    ema->object.parameters = parameters_replaced;
    ema->module = module;
    ema->decay = opts.decay;
    ema->averages = ls_state_copy(ls_parameters(module));
    if (ema->averages) return ema;
    ls_object_free(ema);
    return NULL;
}

void ls_ema_free(ls_ema *ema)
{
    if (!ema) return;
    if (ema->applied) ema->object.run->step->averaged--;
    ls_state_free(ema->averages);
    ls_object_free(ema);
}

ls_state *ls_ema_state(ls_ema *ema)
{
    return ema ? ema->averages : NULL;
}

/* The parameters, if they are those the averages were made of; NULL (and an error) if not, or after a failure. */
static const ls_state *parameters_of(ls_ema *ema, const char *who)
{
    ls_run *run = ema->object.run;
    if (ls_failed(run)) return NULL;
    const ls_state *parameters = ls_parameters(ema->module);
    if (ls_state_count(parameters) == ls_state_count(ema->averages)) return parameters;
    ls_fail(&run->errors, LS_ERR_STATE,
            "%s: the module has %lld parameters now, and had %lld when the average was made", who,
            (long long)ls_state_count(parameters), (long long)ls_state_count(ema->averages));
    return NULL;
}

/* average -= rate * (average - parameter), in place and in one call: a step of SGD in which the parameter is ascended
 * and the average decays with weight 1. */
static bool follow(ls_tensor *average, ls_tensor *parameter, double rate)
{
    ls_call call = {.op = LS_OP_sgd_step,
                    .n_in = 2,
                    .n_out = 1,
                    .in = {&parameter->view, NULL},
                    .out = {&average->view},
                    .attrs.sgd = {.lr = rate, .weight_decay = 1, .maximize = true}};
    if (!ls_submit_live(average->run, average->storage->device, &call)) return false;
    ls_written(average);
    return true;
}

/* Has the parameter the shape and the place that its average has? If not, an error says so. */
static bool is_as_before(ls_run *run, const char *name, const ls_tensor *average, const ls_tensor *parameter)
{
    char a[LS_TEXT], b[LS_TEXT];
    if (average->storage->device != parameter->storage->device)
        ls_fail(&run->errors, LS_ERR_DEVICE, "ls_ema_update: \"%s\" is on device %s, and its average on %s", name,
                parameter->storage->device->name, average->storage->device->name);
    else if (!ls_shape_equal(ls_view_shape(&average->view), ls_view_shape(&parameter->view)))
        ls_fail(&run->errors, LS_ERR_SHAPE, "ls_ema_update: \"%s\" is %s, and its average %s", name,
                ls_operand_text(&parameter->view, a), ls_operand_text(&average->view, b));
    return !ls_failed(run);
}

static void update_all(ls_ema *ema, const ls_state *parameters)
{
    for (int64_t i = 0; i < ls_state_count(parameters); i++) {
        ls_tensor *average = ls_state_tensor(ema->averages, i), *parameter = ls_state_tensor(parameters, i);
        if (!is_as_before(ema->object.run, ls_state_name(parameters, i), average, parameter)) return;
        if (ema->decay == 0) ls_assign(average, parameter); /* exactly, however large the average was */
        else if (!follow(average, parameter, 1 - ema->decay)) return;
    }
}

void ls_ema_update(ls_ema *ema)
{
    const ls_state *parameters = ema ? parameters_of(ema, "ls_ema_update") : NULL;
    if (!parameters) return;
    ls_run *run = ema->object.run;
    if (ema->applied) {
        ls_fail(&run->errors, LS_ERR_STATE, "ls_ema_update: the model has the averages; update outside ls_ema_apply()");
        return;
    }
    const char *outside = run->site;
    run->site = "ema"; /* profiles tell its steps from those of an optimiser */
    update_all(ema, parameters);
    run->site = outside;
}

/* After a failure, before it or inside, ema->applied stays what it was. */
static void exchange(ls_ema *ema, const char *who)
{
    const ls_state *parameters = parameters_of(ema, who);
    ls_run *run = ema->object.run;
    for (int64_t i = 0; i < ls_state_count(parameters) && !ls_failed(run); i++) {
        ls_mark mark = ls_scope_begin(run);
        ls_tensor *average = ls_state_tensor(ema->averages, i), *parameter = ls_state_tensor(parameters, i);
        ls_tensor *kept = ls_clone(average);
        ls_assign(average, ls_detach(parameter));
        ls_assign(parameter, kept);
        ls_scope_end(run, mark, NULL);
    }
    if (ls_failed(run)) return;
    ema->applied = !ema->applied;
    run->step->averaged += ema->applied ? 1 : -1;
    run->step->exchanges++;
}

bool ls_ema_apply_begin(ls_ema *ema)
{
    if (ema && ema->applied)
        ls_fail(&ema->object.run->errors, LS_ERR_STATE, "ls_ema_apply_begin: the model has the averages already");
    else if (ema) exchange(ema, "ls_ema_apply_begin");
    return true;
}

bool ls_ema_apply_end(ls_ema *ema)
{
    if (ema && ema->applied) exchange(ema, "ls_ema_apply_end");
    return false;
}
