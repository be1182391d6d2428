/* yaml.c - convert YAML line by line to JSON, and read that with the JSON reader. */
#include "base/yaml.h"

#include "base/memory.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST_KEYS = 256, LONGEST_SCALAR = 4096 };

typedef struct reader {
    const char *at, *end; /* the rest of the file: `at` is the beginning of the line's content */
    int line, indent;     /* of the current line; indent -1: no lines left */
    int depth;
    ls_json_writer to;
    ls_message *why;
    bool failed;
} reader;

LS_PRINTF(2, 3) static bool fail(reader *r, const char *format, ...)
{
    if (r->failed) return false;
    r->failed = true;
    ls_message what;
    va_list args;
    va_start(args, format);
    ls_message_set_list(&what, format, args);
    va_end(args);
    ls_message_set(r->why, "line %d: %s", r->line, what.text);
    return false;
}

/* ---- Lines ---------------------------------------------------------------------------------------------------- */

static const char *line_end(const reader *r, const char *from)
{
    const char *end = from < r->end ? memchr(from, '\n', (size_t)(r->end - from)) : NULL;
    return end ? end : r->end;
}

/* Find the next line with content, at or after `from`, the beginning of a line. */
static void find_line(reader *r, const char *from)
{
    while (from < r->end) {
        const char *content = from, *end = line_end(r, from);
        r->line++;
        while (content < end && *content == ' ') content++;
        if (content < end && *content == '\t') fail(r, "indented with a tab: use blanks");
        bool blank = content == end || *content == '#' || *content == '\r';
        bool marker =
            end - from >= 3 && memcmp(from, "---", 3) == 0 && (end - from == 3 || isspace((unsigned char)from[3]));
        if (!blank && !marker) {
            r->at = content;
            r->indent = (int)(content - from);
            return;
        }
        if (marker && r->to.length) fail(r, "a second document");
        from = end + 1;
    }
    r->at = r->end;
    r->indent = -1;
}

static void next_line(reader *r)
{
    find_line(r, line_end(r, r->at) + 1);
}

static void skip_blanks(reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\r')) r->at++;
}

/* Nothing but a comment until the end of the line? */
static bool at_line_end(reader *r)
{
    skip_blanks(r);
    return r->at == r->end || *r->at == '\n' || (*r->at == '#' && isspace((unsigned char)r->at[-1]));
}

/* ---- Scalars -------------------------------------------------------------------------------------------------- */

typedef struct scalar {
    char text[LONGEST_SCALAR];
    size_t length;
    bool quoted;
} scalar;

static bool put_char(reader *r, scalar *s, char c)
{
    if (s->length + 1 >= sizeof s->text) return fail(r, "a value of more than %d characters", LONGEST_SCALAR);
    s->text[s->length++] = c;
    s->text[s->length] = '\0';
    return true;
}

static bool read_quoted(reader *r, scalar *s)
{
    static const char escapes[] = "n\nt\tr\r\"\"\\\\//"; /* pairs */
    char quote = *r->at++;
    s->quoted = true;
    for (;; r->at++) {
        if (r->at == r->end || *r->at == '\n') return fail(r, "unterminated quoted text");
        char c = *r->at;
        if (c == quote && quote == '\'' && r->at + 1 < r->end && r->at[1] == '\'') r->at++;
        else if (c == quote) break;
        else if (c == '\\' && quote == '"') {
            size_t pair = 0;
            while (r->at + 1 < r->end && escapes[pair] && escapes[pair] != r->at[1]) pair += 2;
            if (r->at + 1 == r->end || !escapes[pair]) return fail(r, "unsupported escape");
            c = escapes[pair + 1];
            r->at++;
        }
        if (!put_char(r, s, c)) return false;
    }
    r->at++;
    return true;
}

/* Plain text ends at a comment, at ": ", and inside brackets at , ] }. */
static bool read_plain(reader *r, scalar *s, bool inside)
{
    if (strchr("&*!|>%@`", *r->at)) return fail(r, "\"%c\" is not supported here; quote it if it is text", *r->at);
    if (*r->at == '?' && r->at + 1 < r->end && r->at[1] == ' ') return fail(r, "\"? \" is not supported");
    for (; r->at < r->end && *r->at != '\n'; r->at++) {
        char c = *r->at, next = r->at + 1 < r->end ? r->at[1] : '\n';
        if (c == ':' && (isspace((unsigned char)next) || (inside && strchr(",]}", next)))) break;
        if (c == '#' && s->length && isspace((unsigned char)r->at[-1])) break;
        if (inside && strchr(",[]{}", c)) break;
        if (!put_char(r, s, c)) return false;
    }
    while (s->length && isspace((unsigned char)s->text[s->length - 1])) s->text[--s->length] = '\0';
    return true;
}

static bool read_scalar(reader *r, scalar *s, bool inside)
{
    s->length = 0;
    s->text[0] = '\0';
    s->quoted = false;
    if (r->at == r->end) return true; /* nothing: null */
    return *r->at == '\'' || *r->at == '"' ? read_quoted(r, s) : read_plain(r, s, inside);
}

static void put_scalar(reader *r, const char *key, const scalar *s)
{
    char *end;
    const char *digits = s->text + (s->text[0] == '-' || s->text[0] == '+');
    bool numeric = isdigit((unsigned char)*digits) || (*digits == '.' && isdigit((unsigned char)digits[1]));
    errno = 0;
    long long integer = strtoll(s->text, &end, 10);
    bool is_integer = numeric && !*end && !errno;
    double real = strtod(s->text, &end);
    bool is_real = numeric && !*end && isfinite(real) && !strpbrk(s->text, "xX");
    if (s->quoted) ls_json_put_text(&r->to, key, s->text);
    else if (!s->length || strcmp(s->text, "~") == 0 || strcasecmp(s->text, "null") == 0) ls_json_put_null(&r->to, key);
    else if (strcasecmp(s->text, "true") == 0) ls_json_put_bool(&r->to, key, true);
    else if (strcasecmp(s->text, "false") == 0) ls_json_put_bool(&r->to, key, false);
    else if (is_integer) ls_json_put_integer(&r->to, key, integer);
    else if (is_real) ls_json_put_number(&r->to, key, real);
    else ls_json_put_text(&r->to, key, s->text);
}

/* ---- Collections ---------------------------------------------------------------------------------------------- */

static bool read_flow(reader *r, const char *key);

static bool enter(reader *r)
{
    if (++r->depth > LS_JSON_DEPTH - 1) return fail(r, "nested more than %d deep", LS_JSON_DEPTH - 1);
    return true;
}

/* [a, b] or {a: b}, including the closing bracket. */
static bool read_brackets(reader *r, const char *key)
{
    bool list = *r->at == '[';
    char close = list ? ']' : '}';
    if (!enter(r)) return false;
    if (list) ls_json_put_array(&r->to, key);
    else ls_json_put_object(&r->to, key);
    r->at++;
    for (;;) {
        skip_blanks(r);
        if (r->at == r->end || *r->at == '\n') return fail(r, "a bracket is not closed on its line");
        if (*r->at == close) break;
        scalar name = {.length = 0};
        if (!list) {
            if (!read_scalar(r, &name, true)) return false;
            skip_blanks(r);
            if (r->at == r->end || *r->at != ':') return fail(r, "\"%s\" without a value", name.text);
            r->at++;
            skip_blanks(r);
        }
        if (!read_flow(r, list ? NULL : name.text)) return false;
        skip_blanks(r);
        if (r->at < r->end && *r->at == ',') r->at++;
        else if (r->at == r->end || *r->at != close) return fail(r, "a comma or %c is missing", close);
    }
    r->at++;
    r->depth--;
    ls_json_put_end(&r->to);
    return true;
}

static bool read_flow(reader *r, const char *key)
{
    scalar value;
    if (r->at < r->end && (*r->at == '[' || *r->at == '{')) return read_brackets(r, key);
    if (!read_scalar(r, &value, true)) return false;
    put_scalar(r, key, &value);
    return true;
}

static bool read_block(reader *r, const char *key, int indent);

static bool begins_item(const reader *r)
{
    return *r->at == '-' && (r->at + 1 == r->end || isspace((unsigned char)r->at[1]));
}

/* The rest of a line, after "key:" or "-". */
static bool read_inline(reader *r, const char *key)
{
    if (*r->at == '[' || *r->at == '{') {
        if (!read_brackets(r, key)) return false;
    } else {
        scalar value;
        if (!read_scalar(r, &value, false)) return false;
        put_scalar(r, key, &value);
    }
    if (!at_line_end(r)) {
        int shown = r->end - r->at < 20 ? (int)(r->end - r->at) : 20; /* the text is not zero-terminated */
        return fail(r, "unexpected text after a value: \"%.*s\"", shown, r->at);
    }
    next_line(r);
    return !r->failed;
}

/* The value of "key:" or "-" at the end of a line: the deeper lines that follow.
 * A list may be indented like its key. */
static bool read_below(reader *r, const char *key, int indent, bool list_may_align)
{
    next_line(r);
    if (r->failed) return false;
    bool deeper = r->indent > indent, aligned = list_may_align && r->indent == indent && begins_item(r);
    if (deeper || aligned) return read_block(r, key, r->indent);
    ls_json_put_null(&r->to, key);
    return true;
}

static bool read_list(reader *r, const char *key, int indent)
{
    ls_json_put_array(&r->to, key);
    while (!r->failed && r->indent == indent && begins_item(r)) {
        const char *dash = r->at++;
        if (at_line_end(r)) {
            if (!read_below(r, NULL, indent, false)) return false;
            continue;
        }
        /* "- key: value": a mapping indented like its first key. */
        reader probe = *r;
        ls_message unused;
        scalar first;
        probe.why = &unused;
        bool is_mapping = *r->at != '[' && *r->at != '{' && read_scalar(&probe, &first, false) &&
                          probe.at < probe.end && *probe.at == ':';
        if (is_mapping || begins_item(r)) {
            r->indent = indent + (int)(r->at - dash);
            if (!read_block(r, NULL, r->indent)) return false;
        } else if (!read_inline(r, NULL)) {
            return false;
        }
    }
    return true;
}

static bool read_mapping(reader *r, const char *key, int indent)
{
    const char *seen[MOST_KEYS];
    size_t lengths[MOST_KEYS], count = 0;
    ls_json_put_object(&r->to, key);
    while (!r->failed && r->indent == indent && !begins_item(r)) {
        scalar name;
        const char *begin = r->at;
        if (!read_scalar(r, &name, false)) return false;
        size_t length = (size_t)(r->at - begin);
        skip_blanks(r);
        if (r->at == r->end || *r->at != ':' || !name.length)
            return fail(r, "\"%.40s\" is not \"key: value\"", name.text);
        if (strcmp(name.text, "<<") == 0) return fail(r, "\"<<\" is not supported");
        for (size_t i = 0; i < count; i++)
            if (lengths[i] == length && memcmp(seen[i], begin, length) == 0)
                return fail(r, "duplicate key \"%s\"", name.text);
        if (count == MOST_KEYS) return fail(r, "more than %d keys", MOST_KEYS);
        seen[count] = begin;
        lengths[count++] = length;
        r->at++;
        if (at_line_end(r) ? !read_below(r, name.text, indent, true) : !read_inline(r, name.text)) return false;
    }
    return !r->failed;
}

static bool read_block(reader *r, const char *key, int indent)
{
    bool list = begins_item(r);
    if (!enter(r)) return false;
    if (list ? !read_list(r, key, indent) : !read_mapping(r, key, indent)) return false;
    if (r->failed) return false;
    if (r->indent > indent) return fail(r, "unexpected indentation");
    if (!list && r->indent == indent) return fail(r, "a list item among keys");
    r->depth--;
    ls_json_put_end(&r->to);
    return true;
}

ls_json *ls_yaml_read(const char *text, size_t length, ls_message *why)
{
    reader r = {.at = text, .end = text + length, .why = why};
    find_line(&r, text);
    if (!r.failed && r.indent >= 0 && *r.at == '{') return ls_json_read(r.at, (size_t)(r.end - r.at), why);
    if (!r.failed && r.indent < 0) ls_json_put_null(&r.to, NULL);
    else if (!r.failed && read_block(&r, NULL, r.indent) && r.indent >= 0)
        fail(&r, "indented less than the lines before");
    size_t size;
    char *json = ls_json_take(&r.to, &size);
    if (!json && !r.failed) ls_message_set(why, "out of memory");
    ls_json *root = json && !r.failed ? ls_json_read(json, size, why) : NULL;
    ls_sys_free(json);
    return root;
}
