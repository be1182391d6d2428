/* host.c - run an operator without a lowering on the host's CPU: correct but slow, since everything recorded before it
 * must be executed first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../names.h"
#include "xla.h"

/* The operand in host memory. */
static ls_status bring(xla_device *d, const ls_operand *x, ls_operand *here, ls_message *why)
{
    *here = *x;
    here->derived = NULL;
    if (xla_numel(x) == 0) return LS_OK;
    xla_storage *s = xla_behind(d, x->data, xla_extent(d, x));
    if (!s) return xla_refuse(why, LS_ERR_DEVICE, "an operand is not in memory of this device");
    XLA_TRY(xla_to_host(d, s, why));
    here->data = s->host + xla_offset(x->data);
    return LS_OK;
}

/* Copies on chips are out of date. */
static void outdate(xla_device *d, const ls_operand *x)
{
    if (!x || xla_numel(x) == 0) return;
    xla_drop_chips(d, xla_behind(d, x->data, xla_extent(d, x)));
}

static void count(xla_device *d, ls_opcode op)
{
    char text[120];
    d->counts.host_calls++;
    if (d->is_on_host[op]) return;
    d->is_on_host[op] = true;
    names_add(d->counts.host_operators, sizeof d->counts.host_operators, d->host->op_name(op));
    snprintf(text, sizeof text, "xla: %s runs on the host", d->host->op_name(op));
    d->host->log(text);
}

/* Operands are in memory of the device. */
static ls_status run(xla_device *d, const ls_call *call, ls_message *why)
{
    ls_operand in[LS_MAX_INPUTS], out[LS_MAX_OUTPUTS], live;
    ls_call here = *call;
    for (int i = 0; i < call->n_in; i++) {
        if (!call->in[i]) continue;
        XLA_TRY(bring(d, call->in[i], &in[i], why));
        here.in[i] = &in[i];
    }
    for (int i = 0; i < call->n_out; i++) {
        if (!call->out[i]) continue;
        XLA_TRY(bring(d, call->out[i], &out[i], why));
        here.out[i] = &out[i];
    }
    if (call->live) {
        XLA_TRY(bring(d, call->live, &live, why));
        here.live = &live;
    }
    XLA_TRY(d->host->run_on_cpu(&here, why));
    for (int i = 0; i < call->n_out; i++) outdate(d, call->out[i]);
    return LS_OK;
}

ls_status xla_run_on_host(xla_device *d, const ls_call *call, ls_message *why)
{
    count(d, call->op);
    XLA_TRY(xla_flush(d, why));
    return run(d, call, why);
}

/* Give the operands of a recorded call their addresses back: those of storages in place of mentions. */
static void unrecord(const xla_device *d, xla_recorded *r)
{
    int count = r->call.n_in + r->call.n_out + 1;
    for (ls_operand *x = r->operand; x < r->operand + count; x++)
        if (x->data) x->data = xla_address(d->recording.mentioned[xla_number(x->data)], xla_offset(x->data));
}

ls_status xla_run_recording_on_host(xla_device *d, ls_message *why)
{
    xla_reader reader = {0};
    for (xla_recorded r; xla_read(d, &reader, &r);) {
        unrecord(d, &r);
        XLA_TRY(run(d, &r.call, why));
    }
    return LS_OK;
}
