/* array.c - arrays on the chips of a team: a copy on each, or a part of their rows. */
#include "pjrt.h"

ls_status pjrt_array_upload(const pjrt *p, pjrt_team team, const void *from, pjrt_shape shape, size_t bytes,
                            bool is_divided, pjrt_array *array, ls_message *why)
{
    int64_t part[LS_MAX_DIMS];
    size_t step = is_divided ? bytes / (size_t)team.count : 0;
    ls_status status = LS_OK;
    for (int i = 0; i < shape.ndim; i++) part[i] = shape.dim[i];
    if (is_divided) part[0] /= team.count;
    shape.dim = part;
    for (int i = 0; i < team.count && !status; i++)
        status = pjrt_upload(p, team.first + i, (const char *)from + (size_t)i * step, shape, &array->on[i], why);
    if (status) pjrt_array_drop(p, array);
    return status;
}

ls_status pjrt_array_download(const pjrt *p, pjrt_team team, const pjrt_array *array, int ndim, void *to, size_t bytes,
                              bool is_divided, ls_message *why)
{
    int parts = is_divided ? team.count : 1;
    size_t step = bytes / (size_t)parts;
    for (int i = 0; i < parts; i++)
        XLA_TRY(pjrt_download(p, array->on[i], ndim, (char *)to + (size_t)i * step, step, why));
    return LS_OK;
}

void pjrt_array_drop(const pjrt *p, pjrt_array *array)
{
    if (!array->on[0]) return;
    for (int i = 0; i < PJRT_MOST_CHIPS && array->on[i]; i++) pjrt_drop(p, array->on[i]);
    *array = (pjrt_array){{0}};
}
