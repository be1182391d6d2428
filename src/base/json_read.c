/* json_read.c - the reader: recursive descent over the text, values and strings in one arena. */
#include <locale.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/utf8.h"

/* Objects with more members than this get an index; searching few is quicker than hashing. */
enum { FEW_MEMBERS = 8 };

/* ls_json_read() returns a pointer to the first member of this. */
typedef struct document {
    ls_json root;
    ls_arena arena; /* of all other values and strings */
} document;

typedef struct reader {
    const char *begin, *at, *end;
    document *document;
    int depth;
    ls_message *why;
} reader;

/* ---- positions and memory ---- */

LS_PRINTF(2, 3) static bool refuse(reader *r, const char *format, ...)
{
    long long line = 1, column = 1;
    for (const char *c = r->begin; c < r->at; c++) {
        column = *c == '\n' ? 1 : column + (((unsigned char)*c & 0xc0) != 0x80);
        line += *c == '\n';
    }
    ls_message what;
    va_list args;
    va_start(args, format);
    ls_message_set_list(&what, format, args);
    va_end(args);
    ls_message_set(r->why, "line %lld, column %lld: %s", line, column, what.text);
    return false;
}

static void *take(reader *r, size_t bytes)
{
    void *block = ls_arena_take(&r->document->arena, bytes);
    if (!block) refuse(r, "no memory");
    return block;
}

/* ---- strings ---- */

/* The four digits after \u. */
static bool read_unit(reader *r, uint32_t *unit)
{
    *unit = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        int digit = r->at < r->end ? ls_hex_digit(*r->at) : -1;
        if (digit < 0) return refuse(r, "\\u needs four hexadecimal digits");
        *unit = *unit << 4 | (uint32_t)digit;
    }
    return true;
}

static bool read_unicode_escape(reader *r, char **to)
{
    uint32_t code, low;
    if (!read_unit(r, &code)) return false;
    if (code == 0) return refuse(r, "the character U+0000 is not accepted");
    if (code >= 0xdc00 && code < 0xe000) return refuse(r, "\\u%04x without the first half of its pair", code);
    if (code >= 0xd800 && code < 0xdc00) {
        if (r->end - r->at < 2 || r->at[0] != '\\' || r->at[1] != 'u')
            return refuse(r, "\\u%04x without the second half of its pair", code);
        r->at += 2;
        if (!read_unit(r, &low)) return false;
        if (low < 0xdc00 || low >= 0xe000) return refuse(r, "\\u%04x without the second half of its pair", code);
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    *to += ls_utf8_encode(code, *to);
    return true;
}

static bool read_escape(reader *r, char **to)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    if (r->at == r->end) return refuse(r, "unterminated string");
    if (*r->at == 'u') {
        r->at++;
        return read_unicode_escape(r, to);
    }
    const char *letter = *r->at ? strchr(letters, *r->at) : NULL;
    if (!letter) return refuse(r, "unknown escape in a string");
    *(*to)++ = meanings[letter - letters];
    r->at++;
    return true;
}

/* At an opening quote. The text is never longer than its source. */
static bool read_string(reader *r, const char **text, int64_t *length)
{
    const char *close = ++r->at;
    while (close < r->end && *close != '"') close += *close == '\\' ? 2 : 1;
    if (close >= r->end) return refuse(r, "unterminated string");
    char *start = take(r, (size_t)(close - r->at) + 1), *to = start;
    if (!start) return false;
    while (*r->at != '"') {
        unsigned char c = (unsigned char)*r->at;
        if (c == '\\') {
            r->at++;
            if (!read_escape(r, &to)) return false;
        } else if (c < 0x20) {
            return refuse(r, "a control character (0x%02x) in a string", c);
        } else if (c < 0x80) {
            *to++ = *r->at++;
        } else {
            size_t bytes = ls_utf8_length(r->at, (size_t)(close - r->at));
            if (!bytes) return refuse(r, "invalid UTF-8 (0x%02x)", c);
            memcpy(to, r->at, bytes);
            to += bytes;
            r->at += bytes;
        }
    }
    r->at++;
    *to = 0;
    *text = start;
    *length = to - start;
    return true;
}

/* ---- numbers ---- */

static const char *skip_digits(const char *at, const char *end)
{
    while (at < end && *at >= '0' && *at <= '9') at++;
    return at;
}

static bool fits_integer(const char *at, const char *end, int64_t *value)
{
    bool negative = *at == '-';
    int64_t v = 0;
    for (at += negative; at < end; at++) {
        int digit = *at - '0';
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_sub_overflow(v, digit, &v)) return false;
    }
    if (!negative && v == INT64_MIN) return false;
    *value = negative ? v : -v;
    return true;
}

/* Like strtod(), but in the C locale. */
static bool real_value(const char *text, size_t length, double *value)
{
    char copy[512]; /* far more digits than a double has; longer numbers are rejected */
    if (length >= sizeof copy) return false;
    memcpy(copy, text, length);
    copy[length] = 0;
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!plain) return false;
    *value = strtod_l(copy, NULL, plain);
    freelocale(plain);
    return *value - *value == 0;
}

static bool read_number(reader *r, ls_json *value)
{
    const char *at = r->at + (*r->at == '-'), *digits = at;
    at = skip_digits(at, r->end);
    if (at == digits) return refuse(r, "a number needs a digit");
    if (*digits == '0' && at - digits > 1) return refuse(r, "a number with a leading zero");
    const char *whole = at;
    if (at < r->end && *at == '.') {
        digits = at + 1;
        if ((at = skip_digits(digits, r->end)) == digits) return refuse(r, "a number needs a digit after the point");
    }
    if (at < r->end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < r->end && (*at == '+' || *at == '-')) at++;
        digits = at;
        if ((at = skip_digits(digits, r->end)) == digits) return refuse(r, "a number needs digits in its exponent");
    }
    if (at == whole && fits_integer(r->at, at, &value->integer)) value->type = LS_JSON_INTEGER;
    else if (real_value(r->at, (size_t)(at - r->at), &value->real)) value->type = LS_JSON_REAL;
    else return refuse(r, "a number out of range");
    r->at = at;
    return true;
}

/* ---- objects ---- */

/* Slots of the index of an object: a power of two, at least twice as many as members. */
static uint64_t index_slots(int64_t count)
{
    uint64_t slots = 32;
    while (slots < 2 * (uint64_t)count) slots *= 2;
    return slots;
}

/* The slot with this key, or the empty slot for it. */
static const ls_json **index_slot(const ls_json *object, const char *key)
{
    uint64_t mask = index_slots(object->count) - 1, i = ls_hash_keyed(key, strlen(key)) & mask;
    while (object->index[i] && strcmp(object->index[i]->key, key) != 0) i = (i + 1) & mask;
    return &object->index[i];
}

static const ls_json *duplicate(const ls_json *member, const ls_json *object)
{
    for (const ls_json *m = object->first; m != member; m = m->next)
        if (strcmp(m->key, member->key) == 0) return m;
    return NULL;
}

/* All members have been read: check for duplicate keys. */
static bool finish_object(reader *r, ls_json *object)
{
    if (object->count > FEW_MEMBERS) {
        object->index = take(r, index_slots(object->count) * sizeof *object->index);
        if (!object->index) return false;
    }
    for (const ls_json *m = object->first; m; m = m->next) {
        const ls_json **slot = object->index ? index_slot(object, m->key) : NULL;
        if (slot ? *slot : duplicate(m, object)) return refuse(r, "duplicate key \"%s\" in this object", m->key);
        if (slot) *slot = m;
    }
    return true;
}

const ls_json *ls_json_get(const ls_json *object, const char *key)
{
    if (!object || object->type != LS_JSON_OBJECT) return NULL;
    if (object->index) return *index_slot(object, key);
    for (const ls_json *m = object->first; m; m = m->next)
        if (strcmp(m->key, key) == 0) return m;
    return NULL;
}

/* ---- values ---- */

static bool read_value(reader *r, ls_json *value);

static void skip_blanks(reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r')) r->at++;
}

static bool next_is(reader *r, char c)
{
    skip_blanks(r);
    if (r->at == r->end || *r->at != c) return false;
    r->at++;
    return true;
}

static bool read_key(reader *r, ls_json *member)
{
    int64_t length;
    skip_blanks(r);
    if (r->at == r->end || *r->at != '"') return refuse(r, "expected a key in quotes");
    if (!read_string(r, &member->key, &length)) return false;
    return next_is(r, ':') || refuse(r, "expected a colon after the key \"%s\"", member->key);
}

/* At the opening bracket of an array or object. */
static bool read_container(reader *r, ls_json *value)
{
    bool object = *r->at++ == '{';
    char close = object ? '}' : ']';
    const ls_json **link = &value->first;
    value->type = object ? LS_JSON_OBJECT : LS_JSON_ARRAY;
    if (++r->depth > LS_JSON_DEPTH) return refuse(r, "nested deeper than %d levels", LS_JSON_DEPTH);
    if (!next_is(r, close)) {
        do {
            ls_json *item = take(r, sizeof *item);
            if (!item || (object && !read_key(r, item)) || !read_value(r, item)) return false;
            *link = item;
            link = &item->next;
            value->count++;
        } while (next_is(r, ','));
        if (!next_is(r, close)) return refuse(r, "expected a comma or %c", close);
    }
    r->depth--;
    return !object || finish_object(r, value);
}

static bool read_word(reader *r, const char *word)
{
    size_t length = strlen(word);
    if ((size_t)(r->end - r->at) < length || memcmp(r->at, word, length) != 0) return refuse(r, "expected a value");
    r->at += length;
    return true;
}

static bool read_value(reader *r, ls_json *value)
{
    skip_blanks(r);
    if (r->at == r->end) return refuse(r, "the text ends where a value is expected");
    switch (*r->at) {
    case '{':
    case '[': return read_container(r, value);
    case '"': value->type = LS_JSON_STRING; return read_string(r, &value->text, &value->count);
    case 't':
    case 'f':
        value->type = LS_JSON_BOOL;
        value->boolean = *r->at == 't';
        return read_word(r, value->boolean ? "true" : "false");
    case 'n': value->type = LS_JSON_NULL; return read_word(r, "null");
    default:
        if (*r->at == '-' || (*r->at >= '0' && *r->at <= '9')) return read_number(r, value);
        return refuse(r, "expected a value");
    }
}

ls_json *ls_json_read(const char *text, size_t length, ls_message *why)
{
    reader r = {.begin = text, .at = text, .end = text + length, .why = why};
    r.document = ls_sys_alloc(sizeof *r.document);
    if (!r.document) return refuse(&r, "no memory"), NULL;
    bool ok = read_value(&r, &r.document->root);
    if (ok) {
        skip_blanks(&r);
        ok = r.at == r.end || refuse(&r, "unexpected text after the value");
    }
    if (ok) return &r.document->root;
    ls_json_free(&r.document->root);
    return NULL;
}

void ls_json_free(ls_json *root)
{
    document *d = (document *)root;
    if (!d) return;
    ls_arena_free(&d->arena);
    ls_sys_free(d);
}

/* ---- queries ---- */

const ls_json *ls_json_first(const ls_json *value)
{
    return value && (value->type == LS_JSON_ARRAY || value->type == LS_JSON_OBJECT) ? value->first : NULL;
}

const ls_json *ls_json_members(const ls_json *object)
{
    return object && object->type == LS_JSON_OBJECT ? object->first : NULL;
}

const char *ls_json_text(const ls_json *value)
{
    return value && value->type == LS_JSON_STRING ? value->text : NULL;
}

int64_t ls_json_integer(const ls_json *value, int64_t fallback)
{
    return value && value->type == LS_JSON_INTEGER ? value->integer : fallback;
}

double ls_json_number(const ls_json *value, double fallback)
{
    if (value && value->type == LS_JSON_INTEGER) return (double)value->integer;
    return value && value->type == LS_JSON_REAL ? value->real : fallback;
}

bool ls_json_bool(const ls_json *value, bool fallback)
{
    return value && value->type == LS_JSON_BOOL ? value->boolean : fallback;
}
