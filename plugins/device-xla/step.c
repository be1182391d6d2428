/* step.c - executes what was recorded. */
#include <stdlib.h>
#include <string.h>

#include "cache.h"

/* ---- one program at a time ---- */

/* A condition of the program that was not met; see xla_lowering.fault. */
static ls_status check_fault(xla_device *d, ls_message *why)
{
    int32_t fault = 0;
    if (d->fault) XLA_TRY(pjrt_download(d->pjrt, d->fault, 0, &fault, sizeof fault, why));
    if (!fault) return LS_OK;
    ls_status status = xla_refuse(why, LS_ERR_VALUE, "an index or target is out of range; the CPU says which");
    d->host->blame(NULL, (ls_opcode)(fault - 1), why);
    return status;
}

ls_status xla_wait(xla_device *d, ls_message *why)
{
    if (!d->running) return LS_OK;
    ls_status status = pjrt_await(d->pjrt, d->running, "a step failed on the device", why);
    d->running = NULL;
    if (!status) status = check_fault(d, why);
    pjrt_drop(d->pjrt, d->fault);
    d->fault = NULL;
    /* To destroy an array earlier would wait for the program that it was given to. */
    for (size_t i = 0; i < d->donated_count; i++) pjrt_drop(d->pjrt, d->donated[i]);
    free(d->donated);
    d->donated = NULL;
    d->donated_count = 0;
    return status;
}

static xla_storage *mentioned(xla_device *d, size_t mention)
{
    return &d->storages[d->recording.mentioned[mention]];
}

/* Arguments that were donated are the program's now. */
static void give_away(xla_device *d, const xla_program *program, pjrt_buffer **arguments)
{
    d->donated = arguments;
    for (size_t i = 0; i < program->n_in; i++) {
        if (!program->in[i].is_donated) continue;
        xla_storage *s = mentioned(d, program->in[i].mention);
        d->donated[d->donated_count++] = s->chip;
        s->chip = NULL;
    }
}

static void take_results(xla_device *d, const xla_program *program, pjrt_buffer **results)
{
    for (size_t i = 0; i < program->n_out; i++) {
        xla_storage *s = mentioned(d, program->out[i]);
        pjrt_drop(d->pjrt, s->chip);
        free(s->host);
        s->host = NULL;
        s->chip = results[i];
    }
}

static ls_status execute(xla_device *d, const xla_program *program, ls_message *why)
{
    pjrt_buffer **arguments = malloc((program->n_in + 1) * sizeof *arguments);
    pjrt_buffer **results = calloc(program->n_out + 1, sizeof *results); /* and whether it failed */
    ls_status status = LS_OK;
    if (!arguments || !results) status = xla_refuse(why, LS_ERR_MEMORY, "no host memory to execute a step");
    for (size_t i = 0; i < program->n_in && !status; i++) {
        xla_storage *s = mentioned(d, program->in[i].mention);
        status = xla_to_chip(d, s, why);
        if (!status) arguments[i] = s->chip;
    }
    if (!status) status = xla_wait(d, why);
    if (!status) status = pjrt_execute(d->pjrt, program->loaded, arguments, program->n_in, results, &d->running, why);
    if (!status) {
        d->counts.executed++;
        give_away(d, program, arguments);
        take_results(d, program, results);
        d->fault = results[program->n_out];
    } else {
        free(arguments);
    }
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
    if (!d->recording.first) return LS_OK;
    const xla_program *program;
    ls_status status = xla_program_get(d, &program, why);
    if (!status && program->n_out) {
        status = xla_is_rehearsal(d) ? xla_run_recording_on_host(d, why) : execute(d, program, why);
        remember(d, program);
    }
    xla_recording_clear(d);
    return status;
}
