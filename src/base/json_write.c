/* json_write.c - the writer: text that grows, with or without indentation. */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/utf8.h"

/* Room for `length` more bytes; one stays free for the terminating zero. */
void ls_json_reserve(ls_json_writer *w, size_t length)
{
    if (w->failed || w->capacity - w->length > length) return;
    size_t capacity = w->capacity ? w->capacity * 2 : 256;
    while (capacity - w->length <= length) capacity *= 2;
    char *grown = ls_sys_realloc(w->text, capacity);
    w->failed = !grown;
    if (!grown) return;
    w->text = grown;
    w->capacity = capacity;
}

static void append(ls_json_writer *w, const char *text, size_t length)
{
    ls_json_reserve(w, length);
    if (w->failed) return;
    memcpy(w->text + w->length, text, length);
    w->length += length;
    w->text[w->length] = 0;
}

static void append_text(ls_json_writer *w, const char *text)
{
    append(w, text, strlen(text));
}

static void append_escape(ls_json_writer *w, uint32_t code)
{
    static const char meanings[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    char escape[16];
    const char *meaning = code && code < 0x80 ? strchr(meanings, (int)code) : NULL;
    if (meaning) snprintf(escape, sizeof escape, "\\%c", letters[meaning - meanings]);
    else if (code < 0x10000) snprintf(escape, sizeof escape, "\\u%04x", code);
    else snprintf(escape, sizeof escape, "\\u%04x\\u%04x", 0xd7c0 + (code >> 10), 0xdc00 + (code & 0x3ff));
    append_text(w, escape);
}

static void append_quoted(ls_json_writer *w, const char *text)
{
    append(w, "\"", 1);
    for (size_t left = strlen(text), length; left; text += length, left -= length) {
        bool valid = (length = ls_utf8_length(text, left)) > 0;
        uint32_t code = valid ? ls_utf8_decode(text, length) : 0xfffd;
        if (!valid) length = 1;
        if (code < 0x20 || code == '"' || code == '\\' || (code > 0x7e && w->ascii)) append_escape(w, code);
        else if (valid) append(w, text, length);
        else append_text(w, "\xef\xbf\xbd");
    }
    append(w, "\"", 1);
}

static void new_line(ls_json_writer *w)
{
    if (!w->indent) return;
    append(w, "\n", 1);
    for (int i = 0; i < w->depth * w->indent; i++) append(w, " ", 1);
}

/* Written before every value: comma, line break, key. */
static void begin_value(ls_json_writer *w, const char *key)
{
    if (w->depth) {
        if (w->filled) append(w, ",", 1);
        new_line(w);
    }
    if (key) {
        append_quoted(w, key);
        append_text(w, w->indent ? ": " : ":");
    }
    w->filled = true;
}

static void begin_container(ls_json_writer *w, const char *key, bool array)
{
    begin_value(w, key);
    append(w, array ? "[" : "{", 1);
    if (++w->depth >= LS_JSON_DEPTH) w->failed = true; /* the reader would reject it */
    uint64_t bit = 1ull << (w->depth & 63);
    w->arrays = array ? w->arrays | bit : w->arrays & ~bit;
    w->filled = false;
}

void ls_json_put_object(ls_json_writer *w, const char *key)
{
    begin_container(w, key, false);
}

void ls_json_put_array(ls_json_writer *w, const char *key)
{
    begin_container(w, key, true);
}

void ls_json_put_end(ls_json_writer *w)
{
    bool array = w->arrays >> (w->depth & 63) & 1;
    w->depth--;
    if (w->filled) new_line(w);
    append(w, array ? "]" : "}", 1);
    w->filled = true;
}

void ls_json_put_text(ls_json_writer *w, const char *key, const char *text)
{
    begin_value(w, key);
    if (text) append_quoted(w, text);
    else append_text(w, "null");
}

void ls_json_put_integer(ls_json_writer *w, const char *key, int64_t value)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%lld", (long long)value);
    begin_value(w, key);
    append_text(w, digits);
}

/* The shortest of 15 to 17 digits that reads back as the same number, in any locale, recognisable as a real. */
static void format_real(double value, char text[40])
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, 36, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    const char *point = localeconv()->decimal_point;
    char *at = point && strcmp(point, ".") != 0 ? strstr(text, point) : NULL;
    if (at) {
        memmove(at + 1, at + strlen(point), strlen(at + strlen(point)) + 1);
        *at = '.';
    }
    if (!strpbrk(text, ".e")) strcat(text, ".0");
}

void ls_json_put_number(ls_json_writer *w, const char *key, double value)
{
    char text[40] = "null";
    if (value - value == 0) format_real(value, text);
    begin_value(w, key);
    append_text(w, text);
}

void ls_json_put_bool(ls_json_writer *w, const char *key, bool value)
{
    begin_value(w, key);
    append_text(w, value ? "true" : "false");
}

void ls_json_put_null(ls_json_writer *w, const char *key)
{
    begin_value(w, key);
    append_text(w, "null");
}

void ls_json_put_value(ls_json_writer *w, const char *key, const ls_json *value)
{
    ls_json_type type = value ? value->type : LS_JSON_NULL;
    switch (type) {
    case LS_JSON_NULL: ls_json_put_null(w, key); break;
    case LS_JSON_BOOL: ls_json_put_bool(w, key, value->boolean); break;
    case LS_JSON_INTEGER: ls_json_put_integer(w, key, value->integer); break;
    case LS_JSON_REAL: ls_json_put_number(w, key, value->real); break;
    case LS_JSON_STRING: ls_json_put_text(w, key, value->text); break;
    case LS_JSON_ARRAY:
    case LS_JSON_OBJECT:
        begin_container(w, key, type == LS_JSON_ARRAY);
        for (const ls_json *item = value->first; item; item = item->next) ls_json_put_value(w, item->key, item);
        ls_json_put_end(w);
        break;
    }
}

char *ls_json_take(ls_json_writer *w, size_t *length)
{
    append(w, "", 0); /* allocates even if the text is empty */
    char *text = w->text;
    if (w->failed) {
        ls_sys_free(text);
        text = NULL;
    }
    if (length) *length = w->length;
    *w = (ls_json_writer){.indent = w->indent, .ascii = w->ascii};
    return text;
}

void ls_json_restart(ls_json_writer *w)
{
    *w = (ls_json_writer){.indent = w->indent, .ascii = w->ascii, .text = w->text, .capacity = w->capacity};
}

const char *ls_json_view(ls_json_writer *w, size_t *length)
{
    append(w, "", 0); /* allocates even if the text is empty */
    if (length) *length = w->length;
    return w->failed ? NULL : w->text;
}
