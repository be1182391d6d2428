/* step.c - executes what was recorded. */
#include <stdlib.h>
#include <string.h>

#include "cache.h"

/* ---- one program at a time ---- */

/* A condition of the program that was not met; see xla_lowering.fault. */
static ls_status check_fault(xla_device *d, ls_message *why)
{
    int32_t fault = 0;
    if (d->fault.on[0]) XLA_TRY(pjrt_download(d->pjrt, d->fault.on[0], 0, &fault, sizeof fault, why));
    if (!fault) return LS_OK;
    ls_status status = xla_refuse(why, LS_ERR_VALUE, "an index or target is out of range; the CPU says which");
    d->host->blame(NULL, (ls_opcode)(fault - 1), why);
    return status;
}

ls_status xla_wait(xla_device *d, ls_message *why)
{
    ls_message other;
    ls_status status = LS_OK;
    if (!d->is_running) return LS_OK;
    d->is_running = false;
    for (int i = 0; i < d->team.count; i++) { /* all have ended, whatever the first failure is */
        ls_status ended = pjrt_await(d->pjrt, d->running[i], "a step failed on the device", status ? &other : why);
        if (!status) status = ended;
    }
    if (!status) status = check_fault(d, why);
    pjrt_array_drop(d->pjrt, &d->fault);
    /* To destroy an array earlier would wait for the program that it was given to. */
    for (size_t i = 0; i < d->donated_count; i++) pjrt_array_drop(d->pjrt, &d->donated[i]);
    free(d->donated);
    d->donated = NULL;
    d->donated_count = 0;
    return status;
}

/* Arguments that were donated are the program's now. */
static void give_away(xla_device *d, const xla_program *program, pjrt_array *donated)
{
    d->donated = donated;
    for (size_t i = 0; i < program->n_in; i++) {
        if (!program->in[i].is_donated) continue;
        xla_storage *s = xla_mentioned(d, program->in[i].mention);
        d->donated[d->donated_count++] = s->chips;
        s->chips = (pjrt_array){{0}};
    }
}

/* Result i of all chips, of [chips][count]. */
static pjrt_array result(const xla_device *d, pjrt_buffer *const *results, size_t count, size_t i)
{
    pjrt_array array = {{0}};
    for (size_t chip = 0; chip < (size_t)d->team.count; chip++) array.on[chip] = results[chip * count + i];
    return array;
}

static void take_results(xla_device *d, const xla_program *program, pjrt_buffer *const *results)
{
    size_t count = program->n_out + program->can_fail;
    for (size_t i = 0; i < program->n_out; i++) {
        xla_storage *s = xla_mentioned(d, program->out[i]);
        xla_drop_host(s);
        xla_drop_chips(d, s);
        s->chips = result(d, results, count, i);
    }
    if (program->can_fail) d->fault = result(d, results, count, program->n_out);
}

static ls_status bring_arguments(xla_device *d, const xla_program *program, pjrt_buffer **arguments, ls_message *why)
{
    for (size_t i = 0; i < program->n_in; i++) {
        xla_storage *s = xla_mentioned(d, program->in[i].mention);
        XLA_TRY(xla_to_chips(d, s, why));
        for (size_t chip = 0; chip < (size_t)d->team.count; chip++)
            arguments[chip * program->n_in + i] = s->chips.on[chip];
    }
    return LS_OK;
}

static ls_status execute(xla_device *d, const xla_program *program, ls_message *why)
{
    size_t chips = (size_t)d->team.count, n_in = program->n_in, n_out = program->n_out + program->can_fail;
    pjrt_buffer **arguments = malloc(chips * n_in * sizeof *arguments + 1);
    pjrt_buffer **results = calloc(chips * n_out + 1, sizeof *results);
    pjrt_array *donated = malloc(n_in * sizeof *donated + 1);
    bool has_room = arguments && results && donated;
    ls_status status = has_room ? LS_OK : xla_refuse(why, LS_ERR_MEMORY, "no host memory to execute a step");
    if (!status) status = bring_arguments(d, program, arguments, why);
    if (!status) status = xla_wait(d, why);
    if (!status)
        status = pjrt_execute(d->pjrt, d->team, program->loaded, arguments, n_in, results, n_out, program->is_joint,
                              d->running, why);
    if (!status) {
        d->is_running = true;
        d->counts.executed++;
        d->counts.divided += program->is_divided;
        give_away(d, program, donated);
        take_results(d, program, results);
    } else {
        free(donated);
    }
    free(arguments);
    free(results);
    return status;
}

static void remember(xla_device *d, const xla_program *program)
{
    size_t at = 0;
    while (at < XLA_RECENT - 1 && d->recent[at] != program) at++;
    memmove(d->recent + 1, d->recent, at * sizeof *d->recent);
    d->recent[0] = program;
}

ls_status xla_flush(xla_device *d, ls_message *why)
{
    if (!d->recording.calls) return LS_OK;
    const xla_program *program;
    ls_status status = xla_program_get(d, &program, why);
    if (!status && program->n_out) {
        status = xla_is_rehearsal(d) ? xla_run_recording_on_host(d, why) : execute(d, program, why);
        remember(d, program);
    }
    xla_recording_clear(d);
    return status;
}
