/* pickle.c - the stack machine: those opcodes of protocols 2 to 5 that data needs. */
#include "formats/pickle.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "formats/bytes.h"

bool ls_pickle_fail(ls_pickle *p, const char *format, ...)
{
    char text[500];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return ls_archive_fail(p->archive, "pickle, byte %zu: %s", (size_t)(p->at - p->begin), text);
}

ls_pickle_value *ls_pickle_new(ls_pickle *p, ls_pickle_kind kind)
{
    ls_pickle_value *value = ls_archive_take(p->archive, sizeof *value);
    if (value) value->kind = kind;
    return value;
}

bool ls_pickle_append(ls_pickle *p, ls_pickle_list *list, ls_pickle_value *value)
{
    if (!value) return false;
    if (list->count == list->capacity) {
        int64_t capacity = list->capacity ? list->capacity * 2 : 8;
        ls_pickle_value **items = ls_archive_take(p->archive, (size_t)capacity * sizeof *items);
        if (!items) return false;
        if (list->count) memcpy(items, list->items, (size_t)list->count * sizeof *items);
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = value;
    return true;
}

/* ---- the stack ---- */

static bool push(ls_pickle *p, ls_pickle_value *value)
{
    return ls_pickle_append(p, &p->stack, value);
}

static bool push_new(ls_pickle *p, ls_pickle_kind kind, int64_t integer)
{
    ls_pickle_value *value = ls_pickle_new(p, kind);
    if (!value) return false;
    if (kind == LS_PICKLE_INT || kind == LS_PICKLE_BOOL) value->integer = integer;
    return push(p, value);
}

/* The value on top; NULL (and an error) if there is none or it is a mark. */
static ls_pickle_value *pop(ls_pickle *p)
{
    if (p->stack.count && p->stack.items[p->stack.count - 1]->kind != LS_PICKLE_MARK)
        return p->stack.items[--p->stack.count];
    return ls_pickle_fail(p, "a value is missing"), NULL;
}

static ls_pickle_value *top(ls_pickle *p, ls_pickle_kind kind)
{
    ls_pickle_value *value = pop(p);
    if (!value) return NULL;
    if (value->kind != kind) return ls_pickle_fail(p, "a value is of the wrong kind"), NULL;
    p->stack.count++;
    return value;
}

/* Position of the value above the last mark; -1 (and an error) if there is no mark. */
static int64_t last_mark(ls_pickle *p)
{
    for (int64_t i = p->stack.count; i-- > 0;)
        if (p->stack.items[i]->kind == LS_PICKLE_MARK) return i + 1;
    return ls_pickle_fail(p, "a mark is missing"), -1;
}

/* Append the values from `from` on to a container. */
static bool move_to(ls_pickle *p, int64_t from, ls_pickle_list *list)
{
    for (int64_t i = from; i < p->stack.count; i++)
        if (!ls_pickle_append(p, list, p->stack.items[i])) return false;
    return true;
}

/* Pop the values above the last mark into a new container. */
static bool collect(ls_pickle *p, ls_pickle_kind kind)
{
    int64_t from = last_mark(p);
    ls_pickle_value *value = from < 0 ? NULL : ls_pickle_new(p, kind);
    if (!value || !move_to(p, from, &value->list)) return false;
    p->stack.count = from - 1;
    if (kind == LS_PICKLE_DICT && value->list.count % 2) return ls_pickle_fail(p, "a dict has an odd number of values");
    return push(p, value);
}

static bool collect_tuple(ls_pickle *p, int count)
{
    ls_pickle_value *value = ls_pickle_new(p, LS_PICKLE_TUPLE), *items[3];
    for (int i = count; value && i-- > 0;)
        if (!(items[i] = pop(p))) return false;
    for (int i = 0; value && i < count; i++)
        if (!ls_pickle_append(p, &value->list, items[i])) return false;
    return push(p, value);
}

/* Append the values above the last mark to the container below it. */
static bool extend(ls_pickle *p, ls_pickle_kind kind)
{
    int64_t from = last_mark(p);
    if (from < 0) return false;
    if (from < 2 || p->stack.items[from - 2]->kind != kind)
        return ls_pickle_fail(p, "there is no container for values");
    if (kind == LS_PICKLE_DICT && (p->stack.count - from) % 2) return ls_pickle_fail(p, "a key without a value");
    if (!move_to(p, from, &p->stack.items[from - 2]->list)) return false;
    p->stack.count = from - 1;
    return true;
}

static bool append_one(ls_pickle *p)
{
    ls_pickle_value *value = pop(p), *list = value ? top(p, LS_PICKLE_LIST) : NULL;
    return list && ls_pickle_append(p, &list->list, value);
}

static bool set_one(ls_pickle *p)
{
    ls_pickle_value *value = pop(p), *key = value ? pop(p) : NULL, *dict = key ? top(p, LS_PICKLE_DICT) : NULL;
    return dict && ls_pickle_append(p, &dict->list, key) && ls_pickle_append(p, &dict->list, value);
}

/* ---- arguments in the program ---- */

static const char *take_bytes(ls_pickle *p, uint64_t count)
{
    if (count > (uint64_t)(p->end - p->at)) return ls_pickle_fail(p, "truncated"), NULL;
    const char *bytes = p->at;
    p->at += count;
    return bytes;
}

static bool take_number(ls_pickle *p, int bytes, uint64_t *number)
{
    const char *at = take_bytes(p, (uint64_t)bytes);
    if (at) *number = ls_little_endian(at, bytes);
    return at != NULL;
}

static bool push_text(ls_pickle *p, ls_pickle_kind kind, int length_bytes)
{
    uint64_t length;
    const char *bytes = take_number(p, length_bytes, &length) ? take_bytes(p, length) : NULL;
    ls_pickle_value *value = bytes ? ls_pickle_new(p, kind) : NULL;
    if (!value) return false;
    value->text.bytes = bytes;
    value->text.length = length;
    return push(p, value);
}

static bool push_integer(ls_pickle *p, int bytes, bool is_signed)
{
    uint64_t number;
    if (!take_number(p, bytes, &number)) return false;
    return push_new(p, LS_PICKLE_INT, is_signed ? (int64_t)(int32_t)number : (int64_t)number);
}

/* Two's complement of any length. */
static bool push_long(ls_pickle *p, int length_bytes)
{
    uint64_t length;
    const char *bytes = take_number(p, length_bytes, &length) ? take_bytes(p, length) : NULL;
    if (!bytes) return false;
    if (length <= 8) {
        uint64_t number = ls_little_endian(bytes, (int)length);
        if (length && length < 8 && (bytes[length - 1] & 0x80)) number |= ~0ull << 8 * length;
        return push_new(p, LS_PICKLE_INT, (int64_t)number);
    }
    ls_pickle_value *value = ls_pickle_new(p, LS_PICKLE_BIG_INT);
    if (!value) return false;
    value->text.bytes = bytes;
    value->text.length = length;
    return push(p, value);
}

static bool push_float(ls_pickle *p)
{
    const char *at = take_bytes(p, 8);
    ls_pickle_value *value = at ? ls_pickle_new(p, LS_PICKLE_FLOAT) : NULL;
    if (!value) return false;
    uint64_t bits = __builtin_bswap64(ls_u64(at)); /* the only big-endian number */
    memcpy(&value->real, &bits, sizeof bits);
    return push(p, value);
}

/* ---- memory ---- */

static bool put(ls_pickle *p, uint64_t index)
{
    ls_pickle_value *value = pop(p);
    if (!value) return false;
    p->stack.count++;
    if (index > (uint64_t)(p->end - p->begin)) return ls_pickle_fail(p, "a memo index is too large");
    while (p->memo.count <= (int64_t)index)
        if (!ls_pickle_append(p, &p->memo, value)) return false;
    p->memo.items[index] = value;
    return true;
}

static bool get(ls_pickle *p, uint64_t index)
{
    if (index >= (uint64_t)p->memo.count) return ls_pickle_fail(p, "a memo entry is empty");
    return push(p, p->memo.items[index]);
}

static bool put_at(ls_pickle *p, int bytes)
{
    uint64_t index;
    return take_number(p, bytes, &index) && put(p, index);
}

static bool get_at(ls_pickle *p, int bytes)
{
    uint64_t index;
    return take_number(p, bytes, &index) && get(p, index);
}

/* ---- globals ---- */

static bool push_global(ls_pickle *p, const char *module, size_t module_length, const char *name, size_t name_length)
{
    const ls_pickle_global *global = ls_pickle_global_named(p, module, module_length, name, name_length);
    ls_pickle_value *value = global ? ls_pickle_new(p, LS_PICKLE_GLOBAL) : NULL;
    if (!value) return false;
    value->global = global;
    return push(p, value);
}

static bool global_by_lines(ls_pickle *p)
{
    const char *lines[2];
    size_t lengths[2];
    for (int i = 0; i < 2; i++) {
        const char *end = memchr(p->at, '\n', (size_t)(p->end - p->at));
        if (!end) return ls_pickle_fail(p, "truncated");
        lines[i] = p->at;
        lengths[i] = (size_t)(end - p->at);
        p->at = end + 1;
    }
    return push_global(p, lines[0], lengths[0], lines[1], lengths[1]);
}

static bool global_by_stack(ls_pickle *p)
{
    ls_pickle_value *name = pop(p), *module = name ? pop(p) : NULL;
    if (!module) return false;
    if (name->kind != LS_PICKLE_TEXT || module->kind != LS_PICKLE_TEXT) return ls_pickle_fail(p, "a name is not text");
    return push_global(p, module->text.bytes, module->text.length, name->text.bytes, name->text.length);
}

static bool reduce(ls_pickle *p)
{
    ls_pickle_value *arguments = pop(p), *callee = arguments ? pop(p) : NULL;
    return callee && push(p, ls_pickle_reduce(p, callee, arguments));
}

static bool build(ls_pickle *p)
{
    ls_pickle_value *state = pop(p), *value = state ? pop(p) : NULL;
    return value && ls_pickle_build(p, value, state) && push(p, value);
}

static bool persistent(ls_pickle *p)
{
    ls_pickle_value *id = pop(p);
    return id && push(p, ls_pickle_persistent(p, id));
}

static bool pop_mark(ls_pickle *p)
{
    int64_t from = last_mark(p);
    if (from < 0) return false;
    p->stack.count = from - 1;
    return true;
}

static bool duplicate(ls_pickle *p)
{
    ls_pickle_value *value = pop(p);
    return value && push(p, value) && push(p, value);
}

/* ---- the program ---- */

static bool step(ls_pickle *p, unsigned char opcode)
{
    switch (opcode) {
    case 0x80: { /* PROTO */
        uint64_t protocol;
        return take_number(p, 1, &protocol) && (protocol <= 5 || ls_pickle_fail(p, "protocol %d", (int)protocol));
    }
    case 0x95: return take_bytes(p, 8) != NULL; /* FRAME: a hint how much to read */
    case '(': return push_new(p, LS_PICKLE_MARK, 0);
    case '0': return pop(p) != NULL;
    case '1': return pop_mark(p);
    case '2': return duplicate(p);
    case 'N': return push_new(p, LS_PICKLE_NONE, 0);
    case 0x88: return push_new(p, LS_PICKLE_BOOL, 1);
    case 0x89: return push_new(p, LS_PICKLE_BOOL, 0);
    case 'K': return push_integer(p, 1, false);
    case 'M': return push_integer(p, 2, false);
    case 'J': return push_integer(p, 4, true);
    case 0x8a: return push_long(p, 1);
    case 0x8b: return push_long(p, 4);
    case 'G': return push_float(p);
    case 0x8c: return push_text(p, LS_PICKLE_TEXT, 1);
    case 'X': return push_text(p, LS_PICKLE_TEXT, 4);
    case 0x8d: return push_text(p, LS_PICKLE_TEXT, 8);
    case 'U': return push_text(p, LS_PICKLE_TEXT, 1); /* strings of Python 2 */
    case 'T': return push_text(p, LS_PICKLE_TEXT, 4);
    case 'C': return push_text(p, LS_PICKLE_BYTES, 1);
    case 'B': return push_text(p, LS_PICKLE_BYTES, 4);
    case 0x8e: return push_text(p, LS_PICKLE_BYTES, 8);
    case 0x96: return push_text(p, LS_PICKLE_BYTES, 8); /* a bytearray */
    case ')': return push_new(p, LS_PICKLE_TUPLE, 0);
    case 0x85: return collect_tuple(p, 1);
    case 0x86: return collect_tuple(p, 2);
    case 0x87: return collect_tuple(p, 3);
    case 't': return collect(p, LS_PICKLE_TUPLE);
    case ']': return push_new(p, LS_PICKLE_LIST, 0);
    case 'l': return collect(p, LS_PICKLE_LIST);
    case 'a': return append_one(p);
    case 'e': return extend(p, LS_PICKLE_LIST);
    case 0x8f: return push_new(p, LS_PICKLE_LIST, 0); /* EMPTY_SET */
    case 0x90: return extend(p, LS_PICKLE_LIST);      /* ADDITEMS */
    case 0x91: return collect(p, LS_PICKLE_LIST);     /* FROZENSET */
    case '}': return push_new(p, LS_PICKLE_DICT, 0);
    case 'd': return collect(p, LS_PICKLE_DICT);
    case 's': return set_one(p);
    case 'u': return extend(p, LS_PICKLE_DICT);
    case 'q': return put_at(p, 1);
    case 'r': return put_at(p, 4);
    case 0x94: return put(p, (uint64_t)p->memo.count);
    case 'h': return get_at(p, 1);
    case 'j': return get_at(p, 4);
    case 'c': return global_by_lines(p);
    case 0x93: return global_by_stack(p);
    case 'R':
    case 0x81: return reduce(p); /* NEWOBJ: a class is called the same way */
    case 'b': return build(p);
    case 'Q': return persistent(p);
    default: return ls_pickle_fail(p, "opcode 0x%02x is not allowed", opcode);
    }
}

ls_pickle_value *ls_pickle_run(ls_pickle *p)
{
    p->stack.count = p->memo.count = 0;
    while (p->at < p->end) {
        unsigned char opcode = (unsigned char)*p->at++;
        if (opcode == '.') return pop(p);
        if (!step(p, opcode)) return NULL;
    }
    return ls_pickle_fail(p, "truncated"), NULL;
}
