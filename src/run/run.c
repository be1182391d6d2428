/* run.c - a run from ls_init to ls_finish: devices, errors, randomness, memory, backward. */
#include <lockstep/checkpoint.h>
#include <lockstep/device.h>

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "autograd/replay.h"
#include "base/config.h"
#include "base/denormals.h"
#include "base/descriptors.h"
#include "base/library.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/opts.h"
#include "base/pin.h"
#include "optim/scaler.h"
#include "run/course.h"
#include "run/device.h"
#include "run/init.h"
#include "run/launched.h"
#include "run/prepare.h"
#include "run/profile/profile.h"
#include "run/report.h"
#include "run/session.h"
#include "tensor/live.h"

/* A run and its parts, in one allocation. */
typedef struct whole_run {
    ls_run run; /* first, so that freeing it frees everything */
    ls_training_step step;
} whole_run;

/* Returned if there is no memory even for a run: it only carries the error. */
static ls_run *run_without_memory(void)
{
    static whole_run empty;
    ls_run_ended(&empty.run);
    empty = (whole_run){.run = {.errors = {.code = LS_ERR_MEMORY, .message = "ls_init: no memory for a run"},
                                .step = &empty.step,
                                .poison = {.run = &empty.run, .life = LS_LIFE_POISON}}};
    return &empty.run;
}

static ls_run *run_new(void)
{
    whole_run *whole = ls_sys_alloc(sizeof *whole);
    ls_run *run = whole ? &whole->run : run_without_memory();
    ls_run_begun(run);
    if (!whole) return run;
    run->step = &whole->step;
    run->poison.run = run;
    run->poison.life = LS_LIFE_POISON;
    run->poison.view.dtype = LS_F32;
    run->tensors = ls_handles_ring();
    run->storages = (ls_slab){.size = sizeof(ls_storage), .link = offsetof(ls_storage, link)};
    run->nodes = (ls_slab){.size = sizeof(ls_node), .link = offsetof(ls_node, link)};
    run->leaves = (ls_slab){.size = sizeof(ls_leaf), .link = offsetof(ls_leaf, node.link)};
    run->step->mixed_precision = LS_F32;
    run->comm = ls_comm_self();
    ls_scope_begin(run);
    return run;
}

ls_run *ls_init_sized(int *argc, char ***argv, const ls_init_opts *opts, size_t opts_size)
{
    ls_descriptors_fill();
    ls_init_opts o = LS_OPTS_READ(ls_init_opts, opts, opts_size);
    ls_module *launched;
    ls_run *run = ls_launched_run(&launched);
    if (!run) run = run_new();
    if (!run->tensors.stride) return run; /* the run without memory */
    run->errors.abort_on_fail = o.abort_on_error;
    run->check_finite = o.check_finite || ls_config_switch(LS_SETTING_CHECK_FINITE);
    /* Before any thread is created: threads inherit the mode. */
    bool flushes = false;
    if ((o.flush_denormals || ls_config_switch(LS_SETTING_FLUSH_DENORMALS)) && !ls_denormals_flushed())
        flushes = ls_set_flush_denormals(true);
    run->step->accumulation = (ls_accumulation){.steps = 1, .sync = true, .planned = 1, .unit = 1, .measure = 1};
    if (!ls_failed(run) && ls_init_settle(run, argc, argv, &o)) ls_session_open(run, &o);
    if (run->session) run->session->flushes_denormals = flushes;
    else if (flushes) ls_set_flush_denormals(false);
    run->random = (ls_rng_state){.seed = o.seed};
    if (!ls_failed(run)) ls_run_open_device(run, o.device);
    if (!ls_failed(run)) ls_launched_keep(run, launched);
    run->step->mixed_precision = o.mixed_precision ? o.mixed_precision : LS_F32;
    if (!ls_failed(run) && o.mixed_precision == LS_F16) ls_scaler_new(run);
    ls_profile_start(run);
    return run;
}

bool ls_set_flush_denormals(bool flush)
{
    ls_denormals_flush(flush);
    return ls_denormals_flushed() == flush;
}

/* Devices report what failed when they are waited for, and nothing may have been read since the last step. */
static void wait_for_devices(ls_run *run)
{
    for (ls_device *d = run->devices; d && !ls_failed(run); d = d->next) {
        ls_message why = {{0}};
        ls_status status = ls_device_sync(d, &why);
        if (status) ls_fail(&run->errors, status, "%s", *why.text ? why.text : ls_status_text(status));
    }
}

int ls_finish(ls_run *run)
{
    ls_wait_for_save(run);
    wait_for_devices(run);
    ls_profile_finish(run);
    int told = run->session ? run->session->stop_signal : 0;
    if (told) ls_wait_for_everyone(run); /* otherwise a process that ends first would appear to have failed */
    if (told && !ls_failed(run)) ls_session_tell_stop(run->session);
    if (told) ls_session_end_stop();
    ls_run_report(run, told != 0);
    int code = ls_failed(run) ? 1 : told ? 128 + told : 0;
    ls_run_explain_memory(run);
    ls_errors_print(&run->errors, false);
    ls_run_ended(run);
    if (!run->tensors.stride) return code; /* the run without memory */
    if (run->session && run->session->flushes_denormals) ls_set_flush_denormals(false);
    ls_session_close(run);
    ls_objects_free(run);
    ls_finite_clear(run);
    ls_live_free(run);
    if (run->scope_count > 0) {
        ls_scopes_close(run);
        for (ls_tensor *t; (t = run->scopes[0].first);) ls_drop(t);
    }
    for (ls_device *d = run->devices, *next; d; d = next) {
        next = d->next;
        ls_device_close(d);
    }
    ls_sites_free(run);
    ls_ring_leave(&run->tensors);
    ls_slab_free(&run->storages);
    ls_slab_free(&run->nodes);
    ls_replay_free_all(run);
    ls_slab_free(&run->leaves);
    ls_sys_free(run->scopes);
    ls_sys_free(run->autocast);
    ls_sys_free(run);
    return code;
}

/* ---- errors ---- */

ls_status ls_error(const ls_run *run)
{
    return run->errors.code;
}

const char *ls_error_message(const ls_run *run)
{
    return run->errors.message;
}

void ls_clear_error(ls_run *run)
{
    if (run->device) ls_errors_clear(&run->errors); /* a run that never started stays failed */
}

void ls_set_error(ls_run *run, ls_status status, const char *format, ...)
{
    char text[sizeof run->errors.message];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ls_fail(&run->errors, status, "%s", text);
}

/* ---- randomness ---- */

void ls_set_seed_sized(ls_run *run, uint64_t seed, const ls_set_seed_opts *given, size_t opts_size)
{
    ls_set_seed_opts opts = LS_OPTS_READ(ls_set_seed_opts, given, opts_size);
    run->random = (ls_rng_state){.seed = seed + (opts.device_specific ? (uint64_t)ls_rank(run) : 0)};
}

ls_rng_state ls_rng(const ls_run *run)
{
    return run->random;
}

void ls_set_rng(ls_run *run, ls_rng_state state)
{
    run->random = state;
}

/* ---- memory ---- */

ls_memory_stats ls_memory(ls_run *run)
{
    ls_memory_stats sum = {.system_requests = ls_sys_calls()};
    for (ls_device *d = run->devices; d; d = d->next) {
        ls_pool_stats stats = ls_pool_get_stats(d->pool);
        sum.in_use += stats.in_use;
        sum.cached += stats.cached;
        sum.peak += stats.peak;
        sum.device_requests += stats.requests;
    }
    return sum;
}

ls_device_counts ls_device_stats(const ls_run *run)
{
    ls_device_counts counts = {0};
    const ls_device *d = run->device;
    ls_device_stats_fn *stats = NULL;
    if (d && d->library) stats = (ls_device_stats_fn *)ls_library_function(d->library, "ls_plugin_stats");
    if (stats) stats(d->handle, &counts);
    return counts;
}

/* ---- mixed precision ---- */

ls_dtype ls_mixed_precision(const ls_run *run)
{
    return run->step->mixed_precision ? run->step->mixed_precision : LS_F32;
}

/* ---- backward ---- */

static void backward(ls_run *run, ls_tensor *loss, double weight, bool weighted)
{
    if (ls_failed(run) || !ls_check_live(run, loss, "ls_backward")) return;
    if (ls_view_numel(&loss->view) != 1) {
        ls_fail(&run->errors, LS_ERR_SHAPE,
                "ls_backward: the loss is %s, not a single number; use ls_mean() or ls_sum()",
                ls_operand_text(&loss->view, (char[LS_TEXT]){0}));
        return;
    }
    if (run->walking) {
        ls_fail(&run->errors, LS_ERR_STATE, "ls_backward: a gradient hook cannot start another backward pass");
        return;
    }
    if (!loss->node) {
        ls_fail(&run->errors, LS_ERR_STATE,
                "ls_backward: the loss does not depend on anything that collects gradients%s",
                run->no_grad ? "; gradients are off: ls_no_grad_begin() without ls_no_grad_end()"
                : loss->is_gradient
                    ? "; what ls_grad() returns has no history: gradients of gradients are not supported yet"
                    : "");
        return;
    }
    if (!(weight > 0 && isfinite(weight))) {
        ls_fail(&run->errors, LS_ERR_VALUE, "ls_backward_weighted: the weight is %g, not a positive number", weight);
        return;
    }
    double factor = ls_accumulation_backward(run, weight, weighted);
    if (ls_failed(run)) return;
    ls_pin_watch();
    ls_mark mark = ls_scope_begin(run);
    ls_tensor *seed = NULL;
    if (ls_accumulation_begins(run)) ls_scaler_settle(ls_scaler_of(run));
    factor *= ls_scaler_scale(ls_scaler_of(run));
    if (factor != 1) {
        seed = ls_tensor_new_like(loss, loss->view.dtype);
        ls_call fill = {.op = LS_OP_fill, .n_out = 1, .out = {&seed->view}, .attrs.affine = {.shift = factor}};
        if (seed->life == LS_LIFE_LIVE) ls_submit_live(run, seed->storage->device, &fill);
    }
    ls_reducer *reducer = run->step->reducer;
    bool odd = !ls_finite_look(run, loss), shared = odd && ls_reducer_odd_loss(reducer);
    if (odd && !shared && !ls_failed(run)) ls_finite_note(run, "the loss", ls_run_step(run), run->step->share.rank);
    if (!ls_failed(run)) ls_reducer_walk_begins(reducer, run->step->accumulation.sync, ls_course_of(run));
    if (!ls_failed(run)) ls_walk_back(run, loss, seed);
    ls_reducer_walk_ended(reducer);
    if (ls_reducer_parted(reducer) && !ls_failed(run)) ls_course_compare(run);
    int rank = ls_reducer_odd_rank(reducer);
    if (rank >= 0 && !ls_failed(run)) ls_finite_note(run, "the loss", ls_run_step(run), rank);
    if (run->step->full_precision_forwards) ls_look_for_full_precision(run);
    ls_scope_end(run, mark, NULL);
}

void ls_backward(ls_run *run, ls_tensor *loss)
{
    backward(run, loss, 1, false);
}

void ls_backward_weighted(ls_run *run, ls_tensor *loss, double weight)
{
    backward(run, loss, weight, true);
}
