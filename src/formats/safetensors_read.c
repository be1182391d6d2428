/* safetensors_read.c - safetensors: eight bytes with the length of a JSON header, the header, the data.
 *
 * {"__metadata__":{"format":"pt"},"fc.weight":{"dtype":"F32","shape":[10,512],"data_offsets":[0,20480]},...}
 *
 * Offsets count from the end of the header. Together the tensors must cover the rest of the file without holes or
 * overlaps: nothing can be hidden in it, and a truncated file is detected. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "formats/archive.h"

typedef struct span {
    uint64_t begin, end;
    const char *name;
} span;

static int compare_spans(const void *a, const void *b)
{
    const span *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static bool read_shape(ls_archive *a, const ls_json *tensor, ls_archive_entry *entry)
{
    const ls_json *shape = ls_json_get(tensor, "shape");
    if (!shape || shape->type != LS_JSON_ARRAY) return ls_archive_fail(a, "tensor %s has no shape", entry->name);
    if (shape->count > INT32_MAX) return ls_archive_fail(a, "tensor %s has too many dimensions", entry->name);
    int64_t *dim = ls_archive_take(a, (size_t)shape->count * sizeof *dim);
    if (!dim) return false;
    int d = 0;
    for (const ls_json *size = shape->first; size; size = size->next) {
        dim[d] = ls_json_integer(size, -1);
        if (dim[d++] < 0) return ls_archive_fail(a, "tensor %s has an invalid size", entry->name);
    }
    entry->ndim = d;
    entry->dim = dim;
    return true;
}

static bool read_tensor(ls_archive *a, const ls_json *tensor, ls_archive_entry *entry, span *at)
{
    entry->name = ls_archive_text(a, tensor->key, strlen(tensor->key));
    if (!entry->name) return false;
    if (tensor->type != LS_JSON_OBJECT) return ls_archive_fail(a, "tensor %s has no description", entry->name);
    const char *dtype = ls_json_text(ls_json_get(tensor, "dtype"));
    if (!dtype) return ls_archive_fail(a, "tensor %s has no dtype", entry->name);
    entry->element = ls_element_named(dtype);
    if (entry->element == LS_ELEMENT_COUNT || entry->element == LS_ELEMENT_C128)
        return ls_archive_fail_with(a, LS_ERR_UNSUPPORTED, "tensor %s has unknown type %s", entry->name, dtype);
    if (!read_shape(a, tensor, entry)) return false;

    const ls_json *offsets = ls_json_get(tensor, "data_offsets"), *begin = ls_json_first(offsets);
    int64_t from = ls_json_integer(begin, -1), to = ls_json_integer(begin ? begin->next : NULL, -1);
    if (!offsets || offsets->type != LS_JSON_ARRAY || offsets->count != 2 || from < 0 || to < 0)
        return ls_archive_fail(a, "tensor %s has no valid data_offsets", entry->name);
    uint64_t bytes;
    if (!ls_element_bytes(entry->element, entry->ndim, entry->dim, &bytes))
        return ls_archive_fail(a, "tensor %s: the size of its shape and type overflows", entry->name);
    if (from > to || (uint64_t)to - (uint64_t)from != bytes)
        return ls_archive_fail(a, "tensor %s has %llu bytes, but offsets %lld and %lld", entry->name,
                               (unsigned long long)bytes, (long long)from, (long long)to);
    *at = (span){(uint64_t)from, (uint64_t)to, entry->name};
    return true;
}

static bool read_metadata(ls_archive *a, const ls_json *metadata)
{
    if (metadata->type != LS_JSON_OBJECT) return ls_archive_fail(a, "__metadata__ is not an object");
    for (const ls_json *m = metadata->first; m; m = m->next) {
        if (m->type != LS_JSON_STRING) return ls_archive_fail(a, "__metadata__: %s is not a string", m->key);
        const char *key = ls_archive_text(a, m->key, strlen(m->key)),
                   *value = ls_archive_text(a, m->text, strlen(m->text));
        if (!key || !value || !ls_archive_add_metadata(a, key, value)) return false;
    }
    return true;
}

/* Do the spans cover exactly `size` bytes? */
static bool check_cover(ls_archive *a, span *spans, int64_t count, uint64_t size)
{
    uint64_t end = 0;
    qsort(spans, (size_t)count, sizeof *spans, compare_spans);
    for (int64_t i = 0; i < count; i++) {
        if (spans[i].end > size)
            return ls_archive_fail(a, "tensor %s ends at byte %llu of %llu: the file is truncated", spans[i].name,
                                   (unsigned long long)spans[i].end, (unsigned long long)size);
        if (spans[i].begin != end)
            return ls_archive_fail(
                a, "tensor %s begins at byte %llu, %s %llu", spans[i].name, (unsigned long long)spans[i].begin,
                spans[i].begin < end ? "inside the one before, which ends at" : "after a hole that starts at",
                (unsigned long long)end);
        end = spans[i].end;
    }
    if (end != size)
        return ls_archive_fail(a, "%llu bytes after the last tensor belong to none", (unsigned long long)(size - end));
    return true;
}

static bool read_tensors(ls_archive *a, const ls_json *header, ls_pages *pages, size_t data)
{
    span *spans = ls_archive_take(a, (size_t)header->count * sizeof *spans);
    int64_t count = 0, first = a->count;
    if (!spans) return false;
    for (const ls_json *m = header->first; m; m = m->next) {
        if (strcmp(m->key, "__metadata__") == 0) {
            if (!read_metadata(a, m)) return false;
            continue;
        }
        ls_archive_entry entry = {.pages = pages, .storage = a->storages++};
        if (!read_tensor(a, m, &entry, &spans[count]) || !ls_archive_add(a, entry)) return false;
        /* Checked below, before it is used. */
        if (!pages->head_only && spans[count].begin <= pages->size - data)
            a->entries[first + count].data = pages->bytes + data + spans[count].begin;
        count++;
    }
    return check_cover(a, spans, count, pages->size - data);
}

bool ls_read_safetensors(ls_archive *a, ls_pages *pages)
{
    a->format = "safetensors";
    uint64_t length = 0;
    for (int i = 8; i-- > 0 && pages->size >= 8;) length = length << 8 | (unsigned char)pages->bytes[i];
    if (pages->size < 8) return ls_archive_fail(a, "%zu bytes are too short for a safetensors header", pages->size);
    if (length > LS_SAFETENSORS_HEADER)
        return ls_archive_fail(a, "a header of %llu bytes is too large", (unsigned long long)length);
    if (length > pages->size - 8)
        return ls_archive_fail(a, "a header of %llu bytes in a file of %zu: the file is truncated",
                               (unsigned long long)length, pages->size);
    if (length < 2 || pages->bytes[8] != '{') return ls_archive_fail(a, "the header does not start with {");
    ls_message why;
    ls_json *header = ls_json_read(pages->bytes + 8, length, &why);
    if (!header) return ls_archive_fail(a, "the header is damaged: %s", why.text);
    bool ok = read_tensors(a, header, pages, 8 + length); /* begins with {, so it is an object */
    ls_json_free(header);
    return ok;
}
