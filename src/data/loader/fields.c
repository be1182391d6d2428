/* fields.c - size and type of the fields of batches, from what a dataset declares and a program asks for. */
#include "data/loader/fields.h"

#include "data/image/image.h"

/* Plain pixels have a size; a transform may change it. */
static bool resolve_pixels(ls_run *run, const char *who, const ls_transform *transform, ls_field *field)
{
    if (!transform->count && !transform->normalized) return true;
    if (field->shape[0] == 1 || field->shape[0] == 3) {
        ls_transform_size_after(transform, &field->shape[1], &field->shape[2]);
        return true;
    }
    ls_fail(&run->errors, LS_ERR_VALUE, "%s: .transform is for images of 1 or 3 channels; \"%s\" has %lld", who,
            field->name, (long long)field->shape[0]);
    return false;
}

/* Size and type of images, from the transform. */
static bool resolve_picture(ls_run *run, const char *who, const ls_fields_wanted *wanted, ls_field *field)
{
    ls_transform *transform = wanted->transform;
    ls_dtype dtype = wanted->dtype;
    if (dtype && dtype != LS_F32 && dtype != LS_U8) {
        ls_fail(&run->errors, LS_ERR_DTYPE, "%s: .dtype = %s; images must be f32 or u8", who, ls_dtype_name(dtype));
        return false;
    }
    ls_message why = {{0}};
    if (dtype) transform->dtype = (int32_t)dtype;
    ls_status status = ls_transform_check(transform, &why);
    if (status) return ls_fail(&run->errors, status, "%s: .transform: %s", who, why.text), false;
    field->dtype = ls_transform_dtype(transform);
    if (field->shape[0]) return resolve_pixels(run, who, transform, field);
    int64_t height, width;
    if (ls_transform_size(transform, &height, &width)) {
        field->shape[0] = 3, field->shape[1] = height, field->shape[2] = width;
        return true;
    }
    ls_fail(&run->errors, LS_ERR_VALUE,
            "%s: images of different sizes cannot form a batch; use a transform that gives one size, such as "
            ".transform = ls_resize(224)",
            who);
    return false;
}

/* Decoded bytes are a quarter of the size of f32: copy images as bytes if the device can convert them. */
static bool copied_as_bytes(const ls_device *device, const ls_field *declared, const ls_field *field)
{
    return declared->image && !declared->shape[0] && field->dtype == LS_F32 && !ls_device_is_host(device) &&
           ls_device_supports(device, LS_OP_normalize);
}

bool ls_fields_resolve(ls_run *run, const char *who, const ls_dataset *set, const ls_fields_wanted *wanted,
                       ls_reading *reading)
{
    bool pictures = false;
    for (int i = 0; i < set->field_count; i++) {
        wanted->fields[i] = set->fields[i];
        pictures = pictures || set->fields[i].image;
        if (set->fields[i].image && !resolve_picture(run, who, wanted, &wanted->fields[i])) return false;
    }
    if (!pictures && (wanted->transform->count || wanted->dtype))
        return ls_fail(&run->errors, LS_ERR_VALUE,
                       "%s: .transform and .dtype are for images, but this dataset has none", who),
               false;
    *reading = (ls_reading){.fields = wanted->fields,
                            .declared = set->fields,
                            .field_count = set->field_count,
                            .transform = wanted->transform,
                            .rounding = wanted->rounding};
    for (int i = 0; i < set->field_count; i++) {
        reading->as_bytes[i] = copied_as_bytes(run->device, &set->fields[i], &wanted->fields[i]);
        reading->bytes[i] = ls_field_bytes(&wanted->fields[i]);
        if (reading->as_bytes[i]) reading->bytes[i] /= ls_dtype_size(LS_F32);
    }
    return true;
}
