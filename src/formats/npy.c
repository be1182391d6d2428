/* npy.c - NumPy arrays: .npy, and .npz, which is a zip file of them.
 *
 * "\x93NUMPY", two bytes of version, the length of the header (2 or 4 bytes), the header - a Python dict: {'descr':
 * '<f4', 'fortran_order': False, 'shape': (2, 3), } - and the data. */
#include <string.h>

#include "formats/archive.h"
#include "formats/bytes.h"
#include "formats/numpy.h"

/* ---- types ---- */

ls_element ls_numpy_element(const char *text, size_t length)
{
    static const struct {
        const char *text;
        ls_element element;
    } rows[] = {{"b1", LS_ELEMENT_BOOL}, {"u1", LS_ELEMENT_U8},   {"i1", LS_ELEMENT_I8},  {"u2", LS_ELEMENT_U16},
                {"i2", LS_ELEMENT_I16},  {"u4", LS_ELEMENT_U32},  {"i4", LS_ELEMENT_I32}, {"u8", LS_ELEMENT_U64},
                {"i8", LS_ELEMENT_I64},  {"f2", LS_ELEMENT_F16},  {"f4", LS_ELEMENT_F32}, {"f8", LS_ELEMENT_F64},
                {"c8", LS_ELEMENT_C64},  {"c16", LS_ELEMENT_C128}};
    if (length && strchr("<|=", *text)) text++, length--;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strlen(rows[i].text) == length && memcmp(rows[i].text, text, length) == 0) return rows[i].element;
    return LS_ELEMENT_COUNT;
}

const int64_t *ls_fortran_strides(ls_archive *a, int ndim, const int64_t *dim)
{
    int64_t *stride = ls_archive_take(a, (size_t)ndim * sizeof *stride), step = 1;
    for (int d = 0; stride && d < ndim; d++) {
        stride[d] = step;
        step *= dim[d] > 0 ? dim[d] : 1; /* cannot overflow: the size of the array was checked */
    }
    return stride;
}

/* ---- the header ---- */

typedef struct text {
    const char *at, *end;
} text;

static void skip_blanks(text *t)
{
    while (t->at < t->end && (*t->at == ' ' || *t->at == '\n' || *t->at == '\t')) t->at++;
}

static bool skip(text *t, const char *word)
{
    size_t length = strlen(word);
    skip_blanks(t);
    if ((size_t)(t->end - t->at) < length || memcmp(t->at, word, length) != 0) return false;
    t->at += length;
    return true;
}

static bool read_quoted(text *t, const char **begin, size_t *length)
{
    skip_blanks(t);
    if (t->at == t->end || (*t->at != '\'' && *t->at != '"')) return false;
    char quote = *t->at++;
    const char *close = memchr(t->at, quote, (size_t)(t->end - t->at));
    if (!close) return false;
    *begin = t->at;
    *length = (size_t)(close - t->at);
    t->at = close + 1;
    return true;
}

static bool read_count(text *t, int64_t *count)
{
    skip_blanks(t);
    const char *begin = t->at;
    for (*count = 0; t->at < t->end && *t->at >= '0' && *t->at <= '9'; t->at++)
        if (__builtin_mul_overflow(*count, 10, count) || __builtin_add_overflow(*count, *t->at - '0', count))
            return false;
    if (t->at < t->end && *t->at == 'L') t->at++; /* Python 2 */
    return t->at > begin;
}

static bool read_shape(text *t, int *ndim, int64_t dim[32])
{
    if (!skip(t, "(")) return false;
    for (*ndim = 0; !skip(t, ")");) {
        if (*ndim == 32 || !read_count(t, &dim[(*ndim)++])) return false;
        if (!skip(t, ",") && !(skip(t, ")") && t->at--)) return false;
    }
    return true;
}

typedef struct header {
    const char *descr;
    size_t descr_length;
    bool fortran;
    int ndim;
    int64_t dim[32]; /* a former limit of NumPy; more than Lockstep's */
} header;

static bool read_header(text *t, header *h)
{
    unsigned seen = 0;
    if (!skip(t, "{")) return false;
    while (!skip(t, "}")) {
        const char *key;
        size_t length;
        if (!read_quoted(t, &key, &length) || !skip(t, ":")) return false;
        if (length == 5 && memcmp(key, "descr", 5) == 0) {
            if (!read_quoted(t, &h->descr, &h->descr_length)) return false;
            seen |= 1;
        } else if (length == 13 && memcmp(key, "fortran_order", 13) == 0) {
            h->fortran = skip(t, "True");
            if (!h->fortran && !skip(t, "False")) return false;
            seen |= 2;
        } else if (length == 5 && memcmp(key, "shape", 5) == 0) {
            if (!read_shape(t, &h->ndim, h->dim)) return false;
            seen |= 4;
        } else {
            return false;
        }
        if (!skip(t, ",") && !(skip(t, "}") && t->at--)) return false;
    }
    return seen == 7;
}

/* ---- arrays ---- */

bool ls_read_npy_array(ls_archive *a, ls_pages *pages, const char *bytes, size_t size, const char *name)
{
    if (size < 12 || memcmp(bytes, "\x93NUMPY", 6) != 0) return ls_archive_fail(a, "%s is not a NumPy array", name);
    bool narrow = bytes[6] == 1;
    if (bytes[6] < 1 || bytes[6] > 3)
        return ls_archive_fail_with(a, LS_ERR_UNSUPPORTED, "%s has version %d of the format, which is unknown", name,
                                    bytes[6]);
    size_t begin = narrow ? 10 : 12, length = narrow ? ls_u16(bytes + 8) : ls_u32(bytes + 8);
    if (length > size - begin) return ls_archive_fail(a, "the header of %s is truncated", name);
    header h = {0};
    if (!read_header(&(text){bytes + begin, bytes + begin + length}, &h))
        return ls_archive_fail(a, "the header of %s is damaged, or describes structures", name);
    ls_archive_entry entry = {.name = name, .pages = pages, .ndim = h.ndim, .storage = a->storages++};
    entry.element = ls_numpy_element(h.descr, h.descr_length);
    if (entry.element == LS_ELEMENT_COUNT)
        return ls_archive_fail_with(a, LS_ERR_UNSUPPORTED, "%s has type %.*s, which is not supported%s", name,
                                    (int)(h.descr_length < 40 ? h.descr_length : 40), h.descr,
                                    h.descr_length && *h.descr == '>' ? ": big-endian" : "");
    uint64_t wanted;
    int64_t *dim = ls_archive_take(a, (size_t)h.ndim * sizeof *dim);
    if (!dim) return false;
    memcpy(dim, h.dim, (size_t)h.ndim * sizeof *dim);
    entry.dim = dim;
    if (!ls_element_bytes(entry.element, entry.ndim, dim, &wanted) || wanted != size - begin - length)
        return ls_archive_fail(a, "%s: its shape does not match %zu bytes of data", name, size - begin - length);
    if (h.fortran && !(entry.stride = ls_fortran_strides(a, h.ndim, dim))) return false;
    entry.data = pages->bytes + (bytes - pages->bytes) + begin + length;
    return ls_archive_add(a, entry);
}

bool ls_read_npy(ls_archive *a, ls_pages *pages)
{
    a->format = "npy";
    return ls_read_npy_array(a, pages, pages->bytes, pages->size, "tensor");
}
