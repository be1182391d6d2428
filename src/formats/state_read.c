/* state_read.c - tensors from the contents of an archive. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/nearest.h"
#include "base/opts.h"
#include "formats/archive.h"
#include "tensor/state.h"

typedef struct loader {
    ls_run *run;
    ls_device *device;
    ls_archive archive;
    ls_state_read_opts opts;
    ls_storage **storages; /* by number; NULL: not needed yet */
} loader;

/* ---- one tensor ---- */

/* The entry as a view of real elements: a complex one gets a last dimension of 2. False if Lockstep cannot represent
 * it. */
static bool as_operand(ls_archive *a, const ls_archive_entry *entry, ls_operand *view, ls_element *element)
{
    bool pairs = ls_element_is_complex(entry->element);
    *element = entry->element == LS_ELEMENT_C64    ? LS_ELEMENT_F32
               : entry->element == LS_ELEMENT_C128 ? LS_ELEMENT_F64
                                                   : entry->element;
    if (!ls_element_becomes(*element))
        return ls_archive_fail_with(a, LS_ERR_UNSUPPORTED, "tensor %s has type %s, which Lockstep cannot represent",
                                    entry->name, ls_element_name(entry->element));
    if (entry->ndim + pairs > LS_MAX_DIMS)
        return ls_archive_fail_with(a, LS_ERR_UNSUPPORTED, "tensor %s has %d dimensions, Lockstep supports at most %d",
                                    entry->name, entry->ndim + pairs, LS_MAX_DIMS);
    ls_shape shape = {.ndim = entry->ndim + pairs};
    for (int d = 0; d < entry->ndim; d++) shape.dim[d] = entry->dim[d];
    if (pairs) shape.dim[entry->ndim] = 2;
    *view = (ls_operand){.data = entry->data, .dtype = ls_element_becomes(*element)};
    ls_view_set_contiguous(view, shape);
    for (int d = 0; entry->stride && d < entry->ndim; d++) view->stride[d] = entry->stride[d] * (pairs ? 2 : 1);
    return true;
}

/* Are all bytes 0 or 1? Kernels rely on that for bool. */
static bool only_bools(const ls_operand *view)
{
    if (!ls_view_contiguous(view)) return false;
    const uint8_t *bytes = view->data;
    uint8_t seen = 0;
    for (int64_t i = 0, n = ls_view_numel(view); i < n; i++) seen |= bytes[i];
    return seen <= 1;
}

static bool usable_in_place(const loader *l, const ls_archive_entry *entry, const ls_operand *view, ls_element element)
{
    return ls_device_is_host(l->device) && entry->pages && ls_element_is_direct(element) &&
           (uintptr_t)view->data % ls_dtype_size(view->dtype) == 0 && (element != LS_ELEMENT_BOOL || only_bools(view));
}

static ls_tensor *in_place(loader *l, const ls_archive_entry *entry, const ls_operand *view)
{
    ls_storage **storage = &l->storages[entry->storage];
    if (!*storage) {
        *storage = ls_storage_wrap(l->run, l->device, ls_pages_release, entry->pages);
        if (!*storage) return &l->run->poison;
        entry->pages->refs++;
    }
    ls_tensor *t = ls_tensor_over(l->run, *storage, view->data, view->dtype, ls_view_shape(view));
    if (t->life == LS_LIFE_LIVE) memcpy(t->view.stride, view->stride, sizeof view->stride);
    return t;
}

/* Row-major copy of the elements, converted, one innermost row at a time. */
static bool gather(const ls_operand *view, ls_element element, char *to)
{
    int64_t count = view->ndim ? view->dim[view->ndim - 1] : 1, step = view->ndim ? view->stride[view->ndim - 1] : 1;
    int64_t size = ls_element_bits(element) / 8, out = (int64_t)ls_dtype_size(view->dtype), at[LS_MAX_DIMS] = {0};
    bool fits = true;
    if (ls_view_contiguous(view)) return ls_element_convert(element, view->data, 1, to, ls_view_numel(view));
    for (int64_t rows = count ? ls_view_numel(view) / count : 0; rows > 0; rows--, to += count * out) {
        int64_t offset = 0;
        for (int d = 0; d < view->ndim - 1; d++) offset += at[d] * view->stride[d];
        fits = ls_element_convert(element, (const char *)view->data + offset * size, step, to, count) && fits;
        for (int d = view->ndim - 2; d >= 0 && ++at[d] == view->dim[d]; d--) at[d] = 0;
    }
    return fits;
}

static ls_tensor *copied(loader *l, const ls_archive_entry *entry, const ls_operand *view, ls_element element)
{
    /* A stride of zero repeats stored elements as often as the shape says. */
    size_t bytes = (size_t)ls_view_numel(view) * ls_dtype_size(view->dtype);
    if (!ls_archive_afford(&l->archive, bytes)) return &l->run->poison;
    ls_tensor *t = ls_tensor_new(l->run, l->device, view->dtype, ls_view_shape(view));
    if (t->life != LS_LIFE_LIVE) return t;
    bool host = ls_device_is_host(l->device);
    char *to = host ? t->view.data : ls_sys_alloc(bytes);
    if (!to && bytes) return LS_POISON(l->run, LS_ERR_MEMORY, "no memory for %zu bytes of %s", bytes, entry->name);
    bool ok = bytes == 0 || gather(view, element, to);
    if (!ok)
        ls_archive_fail_with(&l->archive, LS_ERR_UNSUPPORTED, "tensor %s: a U64 is too large for i64", entry->name);
    else ok = host || ls_write(t, to, bytes);
    if (!host) ls_sys_free(to);
    return ok ? t : &l->run->poison;
}

static ls_tensor *make_tensor(loader *l, const ls_archive_entry *entry)
{
    ls_operand view;
    ls_element element;
    if (!as_operand(&l->archive, entry, &view, &element)) return &l->run->poison;
    ls_tensor *t =
        usable_in_place(l, entry, &view, element) ? in_place(l, entry, &view) : copied(l, entry, &view, element);
    ls_dtype wanted = l->opts.dtype;
    if (t->life != LS_LIFE_LIVE || !wanted || !ls_dtype_is_float(view.dtype) || wanted == view.dtype) return t;
    if (!ls_archive_afford(&l->archive, (uint64_t)ls_numel(t) * ls_dtype_size(wanted))) return &l->run->poison;
    ls_tensor *converted = ls_tensor_new_like(t, wanted);
    return converted->life == LS_LIFE_LIVE && ls_raw_copy(converted, t) ? converted : &l->run->poison;
}

/* ---- all of them ---- */

static bool add(loader *l, ls_state *state, const ls_archive_entry *entry)
{
    const char *strip = l->opts.strip ? l->opts.strip : "", *prefix = l->opts.prefix ? l->opts.prefix : "";
    const char *rest = entry->name;
    if (strncmp(rest, strip, strlen(strip)) == 0) rest += strlen(strip);
    size_t size = strlen(prefix) + strlen(rest) + 1;
    char *name = ls_archive_take(&l->archive, size);
    if (!name) return false;
    snprintf(name, size, "%s%s", prefix, rest);
    l->archive.file = entry->file; /* for messages */
    ls_mark mark = ls_scope_begin(l->run);
    ls_tensor *t = make_tensor(l, entry);
    bool ok = t->life == LS_LIFE_LIVE && ls_state_append(state, name, t);
    ls_scope_end(l->run, mark, NULL);
    return ok;
}

/* List names of the file, best matches of a pattern first. */
static const char *names_near(const loader *l, const char *pattern, char *text, size_t size)
{
    ls_nearest nearest = ls_nearest_to(pattern, strlen(pattern));
    for (int64_t i = 0; i < l->archive.count; i++) {
        const char *name = l->archive.entries[i].name;
        ls_nearest_add(&nearest, name, ls_name_distance(pattern, name));
    }
    return ls_nearest_names(&nearest, text, size);
}

static bool load(loader *l, ls_state *state, const char *path)
{
    const char *only = l->opts.only, *strip = l->opts.strip ? l->opts.strip : "";
    bool stripped = !*strip;
    uint64_t matched = 0; /* patterns of .only */
    for (int64_t i = 0; i < l->archive.count; i++) {
        const ls_archive_entry *entry = &l->archive.entries[i];
        uint64_t matches = only ? ls_name_matches(only, entry->name) : 1;
        matched |= matches;
        if (!matches) continue;
        if (!add(l, state, entry)) return false;
        stripped |= strncmp(entry->name, strip, strlen(strip)) == 0;
    }
    char names[400];
    if (only && !state->count && l->archive.count) {
        ls_fail(&l->run->errors, LS_ERR_VALUE, "%s: no name matches .only = \"%s\"; there are %s", path, only,
                names_near(l, only, names, sizeof names));
        return false;
    }
    char unmatched[200];
    if (only && l->archive.count && *ls_patterns_unmatched(only, matched, unmatched, sizeof unmatched))
        ls_log_of_job(LS_LOG_WARN, "%s: no name matches \"%s\" of .only = \"%s\"; there are %s", path, unmatched, only,
                      names_near(l, unmatched, names, sizeof names));
    if (!stripped && l->archive.count)
        ls_log_of_job(LS_LOG_WARN, "%s: no name begins with .strip = \"%s\"; there are %s", path, strip,
                      names_near(l, strip, names, sizeof names));
    return ls_state_check_names(state);
}

ls_state *ls_state_read_sized(ls_run *run, const char *path, const ls_state_read_opts *opts, size_t opts_size)
{
    if (ls_failed(run)) return NULL;
    loader l = {.run = run, .device = run->device};
    l.opts = LS_OPTS_READ(ls_state_read_opts, opts, opts_size);
    if (!path) return ls_fail(&run->errors, LS_ERR_VALUE, "ls_state_read: the path is NULL"), NULL;
    if (l.opts.dtype && !ls_dtype_is_float(l.opts.dtype))
        return ls_fail(&run->errors, LS_ERR_DTYPE, "ls_state_read: .dtype = %s is not a floating type",
                       ls_dtype_name(l.opts.dtype)),
               NULL;
    if (l.opts.device) l.device = ls_device_named(run, l.opts.device);
    ls_state *state = l.device ? ls_state_new(run) : NULL;
    if (!state) return NULL;
    bool ok = ls_archive_open(&l.archive, &run->errors, path, false);
    if (ok) {
        l.storages = ls_archive_take(&l.archive, (size_t)l.archive.storages * sizeof(void *));
        ok = l.storages && load(&l, state, path);
    }
    for (int64_t i = 0; l.storages && i < l.archive.storages; i++)
        if (l.storages[i]) ls_storage_release(run, l.storages[i]); /* the tensors hold their own references */
    ls_archive_close(&l.archive);
    if (ok) return state;
    ls_state_free(state);
    return NULL;
}
