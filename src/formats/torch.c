/* torch.c - files of torch.save(): a zip file of a pickle and storages, or, before version 1.6, five pickles in a row
 * followed by the storages. Flattens what the pickle built into tensors with dotted names. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "formats/bytes.h"
#include "formats/pickle.h"
#include "formats/zip.h"

/* ---- values to entries ---- */

enum {
    MAX_DEPTH = 64,
    MAX_NAME = 4096,
    MAX_VISITS = 1 << 22, /* containers may share parts: a short file may expand to very many values */
};

typedef struct walk {
    ls_pickle *pickle;
    char path[MAX_NAME];
    size_t length;
    int depth, visits;
} walk;

/* The name of the value being visited, for messages. */
static const char *here(walk *w)
{
    w->path[w->length] = 0;
    return w->length ? w->path : "tensor";
}

static bool add_entry(walk *w, ls_archive_entry entry)
{
    entry.name = ls_archive_text(w->pickle->archive, here(w), strlen(here(w)));
    return entry.name && ls_archive_add(w->pickle->archive, entry);
}

static bool add_number(walk *w, const ls_pickle_value *value)
{
    ls_archive *a = w->pickle->archive;
    ls_archive_entry entry = {.data = ls_archive_take(a, 8), .storage = a->storages++};
    if (!entry.data) return false;
    entry.element = value->kind == LS_PICKLE_INT     ? LS_ELEMENT_I64
                    : value->kind == LS_PICKLE_FLOAT ? LS_ELEMENT_F64
                                                     : LS_ELEMENT_BOOL;
    if (value->kind == LS_PICKLE_BOOL) *entry.data = (char)(value->integer != 0);
    else memcpy(entry.data, &value->integer, 8); /* both have eight bytes */
    return add_entry(w, entry);
}

/* Elements from the first to the last of a view; -1 on overflow. */
static int64_t reach(const ls_pickle_tensor *t)
{
    int64_t last = t->offset, step = 1;
    for (int d = t->ndim; d-- > 0;) {
        int64_t stride = t->stride ? t->stride[d] : step, far;
        if (t->dim[d] == 0) return 0;
        if (__builtin_mul_overflow(t->dim[d] - 1, stride, &far) || __builtin_add_overflow(last, far, &last)) return -1;
        if (!t->stride && __builtin_mul_overflow(step, t->dim[d], &step)) return -1;
    }
    return last < INT64_MAX ? last + 1 : -1;
}

static bool add_tensor(walk *w, const ls_pickle_tensor *t)
{
    ls_archive *a = w->pickle->archive;
    ls_archive_entry entry = {.element = t->element, .ndim = t->ndim, .dim = t->dim, .stride = t->stride};
    uint64_t bytes, element_size = (uint64_t)ls_element_bits(t->element) / 8, wanted;
    int64_t elements = reach(t);
    if (!ls_element_bytes(t->element, t->ndim, t->dim, &bytes) || elements < 0 ||
        __builtin_mul_overflow((uint64_t)elements, element_size, &wanted))
        return ls_archive_fail(a, "tensor %s: its shape overflows", here(w));
    uint64_t room = t->storage ? t->storage->size : t->size;
    if (wanted > room)
        return ls_archive_fail(a, "tensor %s extends to byte %llu of a storage of %llu", here(w),
                               (unsigned long long)wanted, (unsigned long long)room);
    /* Array data inside the pickle is unaligned, so it is copied. */
    entry.pages = t->storage ? t->storage->pages : NULL;
    entry.storage = t->storage ? t->storage->number : a->storages++;
    entry.data = t->storage ? t->storage->bytes : NULL;
    if (!t->storage && !(entry.data = ls_archive_take(a, t->size))) return false;
    if (!t->storage && t->size) memcpy(entry.data, t->bytes, t->size);
    if (elements > 0) entry.data += (uint64_t)t->offset * element_size;
    return add_entry(w, entry);
}

static bool add_text(walk *w, const ls_pickle_value *value)
{
    ls_archive *a = w->pickle->archive;
    const char *bytes = value->text.bytes;
    for (size_t at = 0, length; at < value->text.length; at += length) {
        length = ls_utf8_length(bytes + at, value->text.length - at);
        if (!length || !bytes[at]) return true; /* not printable */
    }
    const char *key = ls_archive_text(a, w->path, w->length), *text = ls_archive_text(a, bytes, value->text.length);
    return key && text && ls_archive_add_metadata(a, key, text);
}

static bool visit(walk *w, const ls_pickle_value *value);

/* Visit a value under one more component of the path. */
static bool visit_part(walk *w, const char *name, size_t length, const ls_pickle_value *value)
{
    size_t before = w->length;
    if (length + 2 > sizeof w->path - w->length) return ls_archive_fail(w->pickle->archive, "a name is too long");
    if (before) w->path[w->length++] = '.';
    memcpy(w->path + w->length, name, length);
    w->length += length;
    bool ok = visit(w, value);
    w->length = before;
    return ok;
}

static bool visit_numbered(walk *w, int64_t number, const ls_pickle_value *value)
{
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%lld", (long long)number);
    return visit_part(w, digits, (size_t)length, value);
}

static bool visit_member(walk *w, const ls_pickle_value *key, const ls_pickle_value *value)
{
    if (key->kind == LS_PICKLE_INT) return visit_numbered(w, key->integer, value);
    if (key->kind != LS_PICKLE_TEXT)
        return ls_archive_fail(w->pickle->archive, "a key in %s is neither text nor an integer", here(w));
    for (size_t at = 0, length; at < key->text.length; at += length) {
        length = ls_utf8_length(key->text.bytes + at, key->text.length - at);
        if (!length || !key->text.bytes[at]) return ls_archive_fail(w->pickle->archive, "a name is not text");
    }
    return visit_part(w, key->text.bytes, key->text.length, value);
}

static bool visit_container(walk *w, const ls_pickle_value *value)
{
    bool ok = ++w->depth <= MAX_DEPTH ||
              ls_archive_fail(w->pickle->archive, "containers are nested more than %d deep", MAX_DEPTH);
    bool dict = value->kind == LS_PICKLE_DICT;
    for (int64_t i = 0; ok && i < value->list.count; i += dict ? 2 : 1)
        ok = dict ? visit_member(w, value->list.items[i], value->list.items[i + 1])
                  : visit_numbered(w, i, value->list.items[i]);
    w->depth--;
    return ok;
}

static bool visit(walk *w, const ls_pickle_value *value)
{
    if (++w->visits > MAX_VISITS) return ls_archive_fail(w->pickle->archive, "more than %d values", MAX_VISITS);
    switch (value->kind) {
    case LS_PICKLE_TUPLE:
    case LS_PICKLE_LIST:
    case LS_PICKLE_DICT: return visit_container(w, value);
    case LS_PICKLE_TENSOR:
    case LS_PICKLE_STORAGE:
    case LS_PICKLE_ARRAY: return add_tensor(w, &value->tensor);
    case LS_PICKLE_BOOL:
    case LS_PICKLE_INT:
    case LS_PICKLE_FLOAT: return add_number(w, value);
    case LS_PICKLE_TEXT: return add_text(w, value);
    case LS_PICKLE_BIG_INT:
        return ls_archive_fail_with(w->pickle->archive, LS_ERR_UNSUPPORTED, "%s is an integer of more than 64 bits",
                                    here(w));
    case LS_PICKLE_NONE: /* not tensors: ignored */
    case LS_PICKLE_BYTES:
    case LS_PICKLE_GLOBAL:
    case LS_PICKLE_DTYPE:
    case LS_PICKLE_MARK: break;
    }
    return true;
}

static bool add_all(ls_pickle *p, const ls_pickle_value *root)
{
    walk w = {.pickle = p};
    return visit(&w, root);
}

/* ---- zip files ---- */

static bool find_storages(ls_pickle *p, ls_zip *zip, const char *prefix)
{
    ls_archive *a = p->archive;
    for (ls_pickle_storage *s = p->storages; s; s = s->next) {
        char name[MAX_NAME];
        if (snprintf(name, sizeof name, "%sdata/%s", prefix, s->key) >= (int)sizeof name)
            return ls_archive_fail(a, "the name of a storage is too long");
        ls_zip_file *file = ls_zip_find(zip, name);
        if (!file) return ls_archive_fail(a, "the storage %s is missing", name);
        if (!ls_zip_fetch(a, zip, file)) return false;
        s->pages = file->pages;
        s->bytes = file->bytes;
        s->size = file->size;
    }
    return true;
}

static bool read_torch(ls_archive *a, ls_zip *zip, ls_zip_file *program)
{
    a->format = "torch";
    char prefix[MAX_NAME], order[MAX_NAME + 16];
    size_t length = strlen(program->name) - strlen("data.pkl");
    if (length >= sizeof prefix) return ls_archive_fail(a, "a name in it is too long");
    memcpy(prefix, program->name, length);
    prefix[length] = 0;
    snprintf(order, sizeof order, "%sbyteorder", prefix);
    ls_zip_file *byte_order = ls_zip_find(zip, order);
    if (byte_order && !ls_zip_fetch(a, zip, byte_order)) return false;
    if (byte_order && (byte_order->size != 6 || memcmp(byte_order->bytes, "little", 6) != 0))
        return ls_archive_fail_with(a, LS_ERR_UNSUPPORTED,
                                    "it was written on a big-endian machine, which is not supported");
    if (!ls_zip_fetch(a, zip, program)) return false;
    ls_pickle *p = ls_archive_take(a, sizeof *p);
    if (!p) return false;
    p->archive = a;
    p->begin = p->at = program->bytes;
    p->end = program->bytes + program->size;
    const ls_pickle_value *root = ls_pickle_run(p);
    return root && find_storages(p, zip, prefix) && add_all(p, root);
}

static bool ends_with(const char *text, const char *end)
{
    size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

static bool read_npz(ls_archive *a, ls_zip *zip)
{
    a->format = "npz";
    for (int64_t i = 0; i < zip->count; i++) {
        ls_zip_file *file = &zip->files[i];
        if (!ends_with(file->name, ".npy")) return ls_archive_fail(a, "%s in it is not a NumPy array", file->name);
        const char *name = ls_archive_text(a, file->name, strlen(file->name) - strlen(".npy"));
        if (!name || !ls_zip_fetch(a, zip, file) || !ls_read_npy_array(a, file->pages, file->bytes, file->size, name))
            return false;
    }
    return true;
}

bool ls_read_zip(ls_archive *a, ls_pages *pages)
{
    ls_zip zip;
    if (!ls_zip_open(a, pages, &zip)) return false;
    int64_t arrays = 0;
    ls_zip_file *program = NULL; /* the one closest to the root, if there are several */
    for (int64_t i = 0; i < zip.count; i++) {
        const char *name = zip.files[i].name;
        arrays += ends_with(name, ".npy");
        bool fits = strcmp(name, "data.pkl") == 0 || ends_with(name, "/data.pkl");
        if (fits && (!program || strlen(name) < strlen(program->name))) program = &zip.files[i];
    }
    if (program) return read_torch(a, &zip, program);
    if (arrays) return read_npz(a, &zip);
    return ls_archive_fail(a, "a zip file, but neither of PyTorch nor of NumPy");
}

/* ---- the older form ---- */

static bool is_magic(const ls_pickle_value *value)
{
    static const char magic[] = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
    return value->kind == LS_PICKLE_BIG_INT && value->text.length == 10 && memcmp(value->text.bytes, magic, 10) == 0;
}

static bool check_system(ls_pickle *p, const ls_pickle_value *system)
{
    for (int64_t i = 0; system->kind == LS_PICKLE_DICT && i < system->list.count; i += 2) {
        const ls_pickle_value *key = system->list.items[i], *value = system->list.items[i + 1];
        bool wanted =
            key->kind == LS_PICKLE_TEXT && key->text.length == 13 && memcmp(key->text.bytes, "little_endian", 13) == 0;
        if (!wanted) continue;
        if (value->kind == LS_PICKLE_BOOL && value->integer) return true;
        return ls_archive_fail_with(p->archive, LS_ERR_UNSUPPORTED,
                                    "it was written on a big-endian machine, which is not supported");
    }
    return ls_pickle_fail(p, "the description of the writer is missing");
}

/* After the pickles, for every key: a count of elements (8 bytes) and their bytes. */
static bool read_storages(ls_pickle *p, ls_pages *pages, const ls_pickle_value *keys)
{
    if (keys->kind != LS_PICKLE_LIST) return ls_pickle_fail(p, "the list of storages is missing");
    for (int64_t i = 0; i < keys->list.count; i++) {
        const ls_pickle_value *key = keys->list.items[i];
        if (key->kind != LS_PICKLE_TEXT) return ls_pickle_fail(p, "the key of a storage is not text");
        ls_pickle_storage *s = ls_pickle_storage_of(p, key->text.bytes, key->text.length);
        if (!s) return false;
        if (s->element == LS_ELEMENT_COUNT) return ls_pickle_fail(p, "storage %s has no description", s->key);
        uint64_t room = (uint64_t)(p->end - p->at), count = room < 8 ? 0 : ls_u64(p->at), bytes;
        if (room < 8 || count != (uint64_t)s->count ||
            __builtin_mul_overflow(count, (uint64_t)ls_element_bits(s->element) / 8, &bytes) || bytes > room - 8)
            return ls_archive_fail(p->archive, "storage %s is truncated or damaged", s->key);
        s->pages = pages;
        s->bytes = pages->bytes + (p->at - pages->bytes) + 8;
        s->size = bytes;
        p->at += 8 + bytes;
    }
    for (const ls_pickle_storage *s = p->storages; s; s = s->next)
        if (!s->pages) return ls_archive_fail(p->archive, "the storage %s is missing", s->key);
    if (p->at != p->end)
        return ls_archive_fail(p->archive, "%zu bytes at the end belong to no storage", (size_t)(p->end - p->at));
    return true;
}

bool ls_read_pickle(ls_archive *a, ls_pages *pages)
{
    ls_pickle *p = ls_archive_take(a, sizeof *p);
    if (!p) return false;
    p->archive = a;
    p->begin = p->at = pages->bytes;
    p->end = pages->bytes + pages->size;
    const ls_pickle_value *root = ls_pickle_run(p);
    if (!root) return false;
    if (!is_magic(root)) { /* not a pickle of torch.save() */
        a->format = "pickle";
        if (p->storages) return ls_archive_fail(a, "the storages are missing");
        return add_all(p, root);
    }
    a->format = "torch (legacy)";
    const ls_pickle_value *version = ls_pickle_run(p), *system = version ? ls_pickle_run(p) : NULL;
    if (!system) return false;
    if (version->kind != LS_PICKLE_INT || version->integer != 1001) return ls_pickle_fail(p, "unknown version");
    if (!check_system(p, system)) return false;
    root = ls_pickle_run(p);
    const ls_pickle_value *keys = root ? ls_pickle_run(p) : NULL;
    return keys && read_storages(p, pages, keys) && add_all(p, root);
}
