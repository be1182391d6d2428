/* verdict.c - whether a step is skipped because a gradient was not finite, as the host learns it.
 *
 * Devices skip the step by themselves. The host needs to know for its counts, schedules and the next loss scale, but it
 * must not wait for the step: then the device would have nothing to do until the next batch arrives. So a copy of the
 * flag is requested before the step is submitted, and waited for afterwards: the host continues while the device
 * updates the parameters. A device that records (LS_TRAIT_STORAGES) would have to execute half a step for that; there,
 * and on the host, the flag is read after the step. */
#include "optim/optim.h"

void ls_verdict_request(ls_optim *optim)
{
    ls_verdict *v = &optim->verdict;
    ls_device *device = optim->device;
    v->requested = false;
    if (!ls_is_valid(optim->found) || ls_device_is_host(device) || ls_device_has(device, LS_TRAIT_STORAGES)) return;
    if (!v->memory) v->memory = ls_device_host_alloc(device, sizeof *v->memory);
    ls_message ignored; /* a failure shows up in the read after the step */
    v->requested = v->memory &&
                   !ls_device_download_begin(device, v->memory, optim->found->view.data, sizeof *v->memory, &ignored) &&
                   !ls_device_note(device, &v->event);
}

bool ls_verdict_read(ls_optim *optim)
{
    ls_verdict *v = &optim->verdict;
    ls_run *run = optim->object.run;
    if (!v->requested) return ls_item(optim->found) != 0;
    ls_message why = {{0}};
    ls_status status = ls_device_event_wait(optim->device, v->event, &why);
    v->requested = false;
    if (status) ls_fail(&run->errors, status, "ls_step: %s", why.text);
    return !status && *v->memory != 0;
}

void ls_verdict_free(ls_optim *optim)
{
    ls_verdict *v = &optim->verdict;
    ls_message ignored;
    if (v->requested) ls_device_event_wait(optim->device, v->event, &ignored); /* it still writes to the memory */
    if (v->event) ls_device_event_free(optim->device, v->event);
    if (v->memory) ls_device_host_release(optim->device, v->memory, sizeof *v->memory);
}
