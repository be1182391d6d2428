/* widen.c - images copied as bytes become numbers on the device, bit-identical to the CPU's. */
#include "data/image/image.h"
#include "data/loader/batch_slot.h"

/* Samples whose numbers the program wrote itself replace those made from their bytes. */
static bool lay_over(ls_run *run, ls_batch_slot *slot, const ls_reading *reading, int i)
{
    ls_device *device = run->device;
    char *to = slot->tensor[i]->view.data;
    size_t bytes = ls_field_bytes(&reading->fields[i]);
    ls_message why = {{0}};
    ls_status status = LS_OK;
    bool any = false;
    for (int64_t j = 0; !status && j < slot->count; j++) {
        const ls_cell *cell = &slot->cells[i][j];
        if (cell->shape.ndim < 0) continue;
        status = ls_device_upload_begin(device, to + (size_t)j * bytes, cell->data, bytes, &why);
        any = true;
    }
    if (any && !status) status = ls_device_uploads_note(device, &slot->event, &why);
    if (any && !status) status = ls_device_uploads_join(device, slot->event, &why);
    if (status) ls_fail(&run->errors, status, "loader: %s", why.text[0] ? why.text : ls_status_text(status));
    return status == LS_OK;
}

bool ls_batch_slot_widen(ls_run *run, ls_batch_slot *slot, const ls_reading *reading, int i)
{
    ls_tensor *bytes = slot->tensor[i];
    ls_tensor *numbers = ls_field_tensor(run, &reading->fields[i], ls_view_shape(&bytes->view));
    if (!numbers) return false;
    ls_call call = {.op = LS_OP_normalize, .n_in = 1, .n_out = 1, .in = {&bytes->view}, .out = {&numbers->view}};
    float mean[3], std[3];
    ls_transform_scale(reading->transform, mean, std);
    for (int c = 0; c < 3; c++) {
        call.attrs.normalize.mean[c] = (double)mean[c];
        call.attrs.normalize.std[c] = (double)std[c];
    }
    bool submitted = ls_submit(run, run->device, &call);
    slot->tensor[i] = numbers;
    ls_release(bytes);
    return submitted && lay_over(run, slot, reading, i);
}
