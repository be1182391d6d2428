/* safetensors_write.c - header and data, in the order of the reference implementation. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "formats/element.h"
#include "formats/safetensors.h"

uint64_t ls_plain_bytes(const ls_plain_tensor *t)
{
    return (uint64_t)ls_shape_numel(t->shape) * ls_dtype_size(t->dtype);
}

static int compare(const void *a, const void *b)
{
    const ls_plain_tensor *x = *(const ls_plain_tensor *const *)a, *y = *(const ls_plain_tensor *const *)b;
    int order = (int)ls_element_of(y->dtype) - (int)ls_element_of(x->dtype);
    return order ? order : strcmp(x->name, y->name);
}

static void put_tensor(ls_json_writer *w, const ls_plain_tensor *t, uint64_t begin)
{
    ls_json_put_object(w, t->name);
    ls_json_put_text(w, "dtype", ls_element_name(ls_element_of(t->dtype)));
    ls_json_put_array(w, "shape");
    for (int d = 0; d < t->shape.ndim; d++) ls_json_put_integer(w, NULL, t->shape.dim[d]);
    ls_json_put_end(w);
    ls_json_put_array(w, "data_offsets");
    ls_json_put_integer(w, NULL, (int64_t)begin);
    ls_json_put_integer(w, NULL, (int64_t)(begin + ls_plain_bytes(t)));
    ls_json_put_end(w);
    ls_json_put_end(w);
}

/* The header preceded by its length, padded with blanks so that the data starts at a multiple of eight. */
static char *make_header(const ls_plain_list *list, const ls_plain_tensor *const *order, size_t *length)
{
    ls_json_writer w = {0};
    uint64_t begin = 0;
    ls_json_put_object(&w, NULL);
    ls_json_put_object(&w, "__metadata__");
    ls_json_put_text(&w, "format", "pt");
    for (const ls_metadata *m = list->metadata; m && m->key; m++) ls_json_put_text(&w, m->key, m->value);
    ls_json_put_end(&w);
    for (int64_t i = 0; i < list->count; i++) {
        put_tensor(&w, order[i], begin);
        begin += ls_plain_bytes(order[i]);
    }
    ls_json_put_end(&w);
    size_t text_length;
    char *text = ls_json_take(&w, &text_length);
    if (!text) return NULL;
    uint64_t padded = (text_length + 7) / 8 * 8;
    char *header = ls_sys_alloc(8 + padded);
    if (header) {
        for (int i = 0; i < 8; i++) header[i] = (char)(padded >> 8 * i & 0xff);
        memset(header + 8, ' ', padded);
        memcpy(header + 8, text, text_length);
    }
    ls_sys_free(text);
    *length = 8 + padded;
    return header;
}

static bool put_numbers(ls_file_out *out, const ls_plain_list *list, const ls_plain_tensor *t, ls_message *why)
{
    size_t bytes = ls_plain_bytes(t);
    if (t->data || bytes == 0) return ls_file_put(out, t->data, bytes, why);
    void *staging = ls_sys_alloc(bytes);
    bool fetched = staging && list->fetch(list->user, t - list->tensors, staging, bytes, why);
    if (!staging) ls_message_set(why, "no memory to stage %zu bytes of %s", bytes, t->name);
    bool ok = fetched && ls_file_put(out, staging, bytes, why);
    if (!fetched) ls_file_discard(out);
    ls_sys_free(staging);
    return ok;
}

static bool refuse_name(const ls_plain_list *list, const ls_plain_tensor *const *order, ls_message *why)
{
    for (int64_t i = 0; i < list->count; i++) {
        bool twice = i > 0 && strcmp(order[i - 1]->name, order[i]->name) == 0;
        if (!twice && strcmp(order[i]->name, "__metadata__") != 0) continue;
        ls_message_set(why, "%s is not allowed as the name of %s", order[i]->name, twice ? "two tensors" : "a tensor");
        return true;
    }
    return false;
}

bool ls_safetensors_put(ls_file_out *out, const char *path, const ls_plain_list *list, bool sync, ls_message *why)
{
    *out = (ls_file_out){.descriptor = -1};
    size_t length = 0;
    const ls_plain_tensor **order = ls_sys_alloc((size_t)(list->count + 1) * sizeof *order);
    for (int64_t i = 0; order && i < list->count; i++) order[i] = &list->tensors[i];
    if (order) qsort(order, (size_t)list->count, sizeof *order, compare);
    char *header = order ? make_header(list, order, &length) : NULL;
    if (!header) ls_message_set(why, "no memory for the header of %s", path);
    bool ok = header && !refuse_name(list, order, why) && ls_file_create(out, path, sync, why) &&
              ls_file_put(out, header, length, why);
    for (int64_t i = 0; ok && i < list->count; i++) ok = put_numbers(out, list, order[i], why);
    ok = ok && ls_file_seal(out, why);
    ls_sys_free(header);
    ls_sys_free(order);
    return ok;
}

bool ls_safetensors_write(const char *path, const ls_plain_list *list, bool sync, ls_message *why)
{
    ls_file_out out;
    return ls_safetensors_put(&out, path, list, sync, why) && ls_file_publish(&out, why);
}
