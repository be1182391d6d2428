/* launched.c - runs of a process that launches: it may have none, except that of a model passed to the workers.
 *
 * A fork copies a run with everything it owns, except threads. A worker that used such a copy would train alone, as
 * rank 0 of 1. The run of a passed model becomes the worker's own instead: ls_init() starts it again around the model,
 * so that handles and memory stay the same, and pages are shared until they are written to. */
#include "run/launched.h"

#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/opts.h"
#include "base/parallel.h"
#include "launch/launch.h"
#include "nn/module.h"
#include "optim/scaler.h"
#include "run/session.h"

static ls_module *handed; /* the model passed to this process, until ls_init() takes it */

/* ---- before the launch ---- */

static bool refuse(const char *caller, const char *why)
{
    ls_log_line(LS_LOG_ERROR, "%s: %s", caller, why);
    return false;
}

static bool has_no_run(const char *caller)
{
    if (ls_runs_alive() == 0) return true;
    return refuse(caller, "this process has a run, and in copies of it every worker would train alone: call "
                          "ls_init() inside the launched function, or ls_finish() this run first; to pass a model, use "
                          ".model");
}

/* Is the object part of a model? Other objects have open files, threads or a position in the data. */
static bool is_of_a_model(const ls_object *object)
{
    switch (object->kind) {
    case LS_OBJECT_MODULE:
    case LS_OBJECT_STATE:
    case LS_OBJECT_NAMES:
    case LS_OBJECT_CONTENTS:
    case LS_OBJECT_HOOK:
    case LS_OBJECT_FORWARD_HOOK:
    case LS_OBJECT_SCALER: return true;
    default: return false;
    }
}

static bool can_be_passed(const ls_module *model)
{
    const ls_run *run = model->object.run;
    if (ls_failed(run)) return refuse("ls_launch", run->errors.message);
    if (ls_runs_alive() != 1)
        return refuse("ls_launch", ".model: this process has another run than the model's: ls_finish() it first");
    for (const ls_device *d = run->devices; d; d = d->next)
        if (!ls_device_is_host(d))
            return refuse("ls_launch",
                          ".model: its run uses a device that a fork would lose: create the model on the CPU, with "
                          "ls_init(..., .device = \"cpu\"); workers get theirs from the ls_init() inside the function");
    if (ls_world_size(run) > 1) return refuse("ls_launch", ".model: its run is already one of several processes");
    if (run->session->claims)
        return refuse("ls_launch", ".model: its run has written to its folder, which now belongs to the workers: save "
                                   "after the launch");
    for (const ls_object *o = run->objects; o; o = o->older) {
        if (o->prepared)
            return refuse("ls_launch", ".model: its run has prepared objects: call ls_prepare() inside the function");
        if (!is_of_a_model(o))
            return refuse("ls_launch", ".model: its run contains more than models: create optimisers, schedules, "
                                       "datasets, loaders and trackers inside the function");
    }
    return true;
}

/* ---- in the worker ---- */

typedef struct task {
    ls_worker_fn *function;
    void *argument;
    ls_module *model;
    pid_t launcher;
} task;

static int run_task(void *of)
{
    const task *e = of;
    if (getpid() != e->launcher) ls_parallel_reload();
    if (e->model) {
        ls_errors *errors = &e->model->object.run->errors;
        handed = e->model;
        errors->abort_on_fail = false;
        ls_fail(errors, LS_ERR_STATE,
                "this run belongs to the launching process: call ls_init() and ls_launched_model() first");
    }
    return e->function(e->argument);
}

/* Everything that a worker needs before the function matters: the others, and a device that a fork may have broken. */
static int try_start(void *of)
{
    const task *e = of;
    if (getpid() != e->launcher) ls_parallel_reload();
    ls_run *run = ls_init(NULL, NULL);
    ls_wait_for_everyone(run);
    return ls_finish(run);
}

static bool clear_gradient(void *user, const char *path, const ls_module_member *member)
{
    (void)user, (void)path;
    if (!member->is_buffer) ls_clear_grad(member->tensor);
    return true;
}

ls_run *ls_launched_run(ls_module **launched)
{
    ls_module *model = *launched = handed;
    if (!model) return NULL;
    handed = NULL;
    ls_run *run = model->object.run;
    ls_errors_clear(&run->errors);
    ls_session_close(run);
    ls_object_free(run->step->scaler);
    run->step->scaler = NULL;
    run->autocast_count = 0;
    run->no_grad = 0;
    ls_module_visit(model, clear_gradient, NULL); /* gradients of the launcher are not passed on */
    return run;
}

static bool move_member(void *to, const char *path, const ls_module_member *member)
{
    (void)path;
    if (member->on_host) return true;
    ls_tensor *t = member->tensor, *moved = ls_to_device(t, to);
    if (!ls_is_valid(moved)) return false;
    if (moved == t) return true;
    bool trained = ls_requires_grad(t);
    ls_set_requires_grad(t, false); /* keeps the memory of its gradient */
    ls_adopt(t, moved);
    if (trained) ls_set_requires_grad(t, true);
    return true;
}

void ls_launched_keep(ls_run *run, ls_module *launched)
{
    run->session->launched = launched;
    if (!launched || ls_device_is_host(run->device)) return;
    ls_mark mark = ls_scope_begin(run);
    ls_module_visit(launched, move_member, run->device->name);
    ls_scope_end(run, mark, NULL);
}

ls_module *ls_launched_model(ls_run *run)
{
    if (!ls_failed(run) && !run->session->launched)
        ls_fail(&run->errors, LS_ERR_STATE,
                "ls_launched_model: this process was launched without a model; pass .model to ls_launch()");
    return ls_failed(run) ? NULL : run->session->launched;
}

/* ---- launching ---- */

int ls_launch_program_sized(char *const *argv, const ls_launch_opts *opts, size_t opts_size)
{
    if (!has_no_run("ls_launch_program")) return LS_LAUNCH_REFUSED;
    ls_parallel_stop();
    return ls_launch_argv(argv, opts, opts_size);
}

int ls_launch_sized(ls_worker_fn *function, void *argument, const ls_launch_opts *opts, size_t opts_size)
{
    ls_launch_opts o = LS_OPTS_READ(ls_launch_opts, opts, opts_size);
    if (!function) {
        ls_log_line(LS_LOG_ERROR, "ls_launch: the function is NULL: give one that every process shall call");
        return LS_LAUNCH_REFUSED;
    }
    if (o.model ? !can_be_passed(o.model) : !has_no_run("ls_launch")) return LS_LAUNCH_REFUSED;
    ls_parallel_stop();
    return ls_launch_function(run_task, try_start, &(task){function, argument, o.model, getpid()}, opts, opts_size);
}
