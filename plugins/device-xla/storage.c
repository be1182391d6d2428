/* storage.c - memory of the device: where its contents are, and how they get from one place to the other. */
#include <stdlib.h>
#include <string.h>

#include "lower.h"
#include "xla.h"

static const pjrt_type pjrt_types[] = {
#define SHLO_TYPE(symbol, name, bytes, pjrt) [symbol] = pjrt,
    SHLO_TYPE_LIST(SHLO_TYPE)
#undef SHLO_TYPE
};

/* ---- numbers ---- */

static bool grow(xla_device *d)
{
    if (d->storage_count < d->storage_room) return true;
    size_t room = d->storage_room ? d->storage_room * 2 : 256;
    xla_storage *storages = realloc(d->storages, room * sizeof *storages);
    if (storages) d->storages = storages;
    size_t *spare = realloc(d->spare, room * sizeof *spare);
    if (spare) d->spare = spare;
    if (!storages || !spare) return false;
    if (!d->storage_room) d->storages[0] = (xla_storage){.bytes = 0}, d->storage_count = 1;
    d->storage_room = room;
    return true;
}

size_t xla_storage_new(xla_device *d, size_t bytes)
{
    if (!d->spares && !grow(d)) return 0;
    bool is_spare = d->spares > 0;
    size_t number = is_spare ? d->spare[--d->spares] : d->storage_count++;
    if (!is_spare) d->storages[number] = (xla_storage){.bytes = 0};
    d->storages[number].bytes = bytes;
    return number;
}

void xla_storage_free(xla_device *d, size_t number)
{
    xla_storage *s = &d->storages[number];
    xla_drop_host(s);
    xla_drop_chips(d, s);
    s->bytes = s->mention = 0;
    s->dtype = LS_DTYPE_NONE;
    s->is_batch = s->is_exact = s->is_released = false;
    s->dims.n = 0;
    d->spare[d->spares++] = number;
}

/* ---- contents ---- */

bool xla_has_contents(const xla_storage *s)
{
    return s->host || s->chips.on[0];
}

bool xla_is_divided(const xla_device *d, const xla_storage *s)
{
    return s->is_batch && d->team.count > 1 && s->dims.n > 0 && s->dims.at[0] % d->team.count == 0;
}

void xla_drop_host(xla_storage *s)
{
    free(s->host);
    s->host = NULL;
}

void xla_drop_chips(xla_device *d, xla_storage *s)
{
    pjrt_array_drop(d->pjrt, &s->chips);
}

shlo_type xla_storage_memory(const xla_storage *s)
{
    return s->is_exact ? xla_own_type(s->dtype) : xla_type_of(s->dtype);
}

size_t xla_storage_size(const xla_storage *s)
{
    if (!s->dtype) return s->bytes; /* not known yet */
    return s->bytes / shlo_size(xla_own_type(s->dtype)) * shlo_size(xla_storage_memory(s));
}

/* Room for the numbers of a storage as they are on the chips; NULL: as on the host, or out of memory. */
static ls_status narrow_room(const xla_storage *s, void **room, size_t *bytes, ls_message *why)
{
    *room = NULL;
    *bytes = xla_storage_size(s);
    if (*bytes == s->bytes) return LS_OK;
    *room = malloc(*bytes);
    return *room ? LS_OK : xla_refuse(why, LS_ERR_MEMORY, "no host memory of %zu bytes", *bytes);
}

static ls_status download(xla_device *d, const xla_storage *s, char *host, ls_message *why)
{
    void *room;
    size_t bytes;
    XLA_TRY(narrow_room(s, &room, &bytes, why));
    ls_status status = pjrt_array_download(d->pjrt, d->team, &s->chips, s->dims.n, room ? room : host, bytes,
                                           xla_is_divided(d, s), why);
    if (!status && room) xla_widen(s->dtype, room, host, (size_t)shlo_numel(s->dims));
    free(room);
    return status;
}

static ls_status upload(xla_device *d, xla_storage *s, ls_message *why)
{
    pjrt_shape shape = {pjrt_types[xla_storage_memory(s)], s->dims.n, s->dims.at};
    void *room;
    size_t bytes;
    XLA_TRY(narrow_room(s, &room, &bytes, why));
    if (room) xla_narrow(s->dtype, s->host, room, (size_t)shlo_numel(s->dims));
    ls_status status =
        pjrt_array_upload(d->pjrt, d->team, room ? room : s->host, shape, bytes, xla_is_divided(d, s), &s->chips, why);
    free(room);
    return status;
}

ls_status xla_to_host(xla_device *d, xla_storage *s, ls_message *why)
{
    if (s->host) return LS_OK;
    size_t room = (s->bytes + 63) / 64 * 64;
    char *host = aligned_alloc(64, room);
    if (!host) return xla_refuse(why, LS_ERR_MEMORY, "no host memory of %zu bytes", room);
    ls_status status = LS_OK;
    if (s->chips.on[0]) status = download(d, s, host, why);
    else memset(host, 0, s->bytes);
    if (status) free(host);
    else s->host = host;
    return status;
}

ls_status xla_to_chips(xla_device *d, xla_storage *s, ls_message *why)
{
    if (s->chips.on[0]) return LS_OK;
    XLA_TRY(xla_to_host(d, s, why)); /* zeros, if it was never written */
    XLA_TRY(upload(d, s, why));
    xla_drop_host(s);
    return LS_OK;
}

/* Do elements of this size fill the storage as they lie in the operand, in row-major order? */
static bool fills(const xla_storage *s, const ls_operand *x, size_t size)
{
    int64_t stride = 1;
    for (int i = x->ndim - 1; i >= 0; i--) {
        if (x->dim[i] != 1 && x->stride[i] != stride) return false;
        stride *= x->dim[i];
    }
    return xla_offset(x->data) == 0 && (size_t)stride * size == s->bytes;
}

void xla_storage_type(xla_device *d, xla_storage *s, const ls_operand *x)
{
    size_t size = d->host->dtype_size(x->dtype);
    s->dtype = x->dtype;
    if (fills(s, x, size)) {
        s->dims.n = x->ndim;
        for (int i = 0; i < x->ndim; i++) s->dims.at[i] = x->dim[i];
    } else if (s->bytes % size == 0) {
        s->dims = SHLO_DIMS((int64_t)(s->bytes / size));
    } else {
        s->dtype = LS_U8;
        s->dims = SHLO_DIMS((int64_t)s->bytes);
    }
}

ls_status xla_storage_renew(xla_device *d, size_t number, ls_message *why)
{
    if (d->storages[number].mention) {
        size_t old = xla_storage_new(d, d->storages[number].bytes);
        if (!old) return xla_refuse(why, LS_ERR_MEMORY, "no host memory for a list of arrays");
        xla_storage *s = &d->storages[number];
        d->storages[old] = *s;
        d->storages[old].is_released = true;
        d->recording.mentioned[s->mention] = old;
        *s = (xla_storage){.bytes = s->bytes, .dtype = s->dtype, .dims = s->dims, .is_exact = s->is_exact};
    }
    xla_drop_host(&d->storages[number]);
    xla_drop_chips(d, &d->storages[number]);
    return LS_OK;
}
