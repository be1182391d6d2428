/* introspect.c - complete a name, tell what one is, tell whether a cell is complete. */
#include <ctype.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "cell/split.h"
#include "kernel.h"
#include "manual.h"

static bool is_letter(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* The code of a request, and the byte at its cursor, which Jupyter counts in characters. */
static const char *code_at_cursor(const kernel *k, size_t *cursor)
{
    const char *code = ls_json_text(ls_json_get(k->request->content, "code"));
    if (!code) code = "";
    int64_t characters = ls_json_integer(ls_json_get(k->request->content, "cursor_pos"), INT64_MAX);
    size_t at = 0, length = strlen(code);
    for (; at < length && characters > 0; characters--) at += ls_utf8_length(code + at, length - at);
    *cursor = at;
    return code;
}

static int64_t characters(const char *bytes, size_t length)
{
    int64_t count = 0;
    for (size_t at = 0; at < length; count++) at += ls_utf8_length(bytes + at, length - at);
    return count;
}

/* ---- Completion ---- */

static const char *const words[] = {
    "break",  "case",   "char",   "const",   "continue", "default",  "double", "else",     "enum",   "extern",
    "float",  "for",    "goto",   "int",     "long",     "printf",   "return", "short",    "signed", "sizeof",
    "static", "struct", "switch", "typedef", "union",    "unsigned", "void",   "volatile", "while",
};

typedef struct matches {
    ls_json_writer *w;
    const char *prefix;
    size_t length;
    string seen; /* "\nname\nname\n" */
} matches;

static void offer(matches *m, const char *name, size_t length)
{
    if (length <= m->length || strncmp(name, m->prefix, m->length) != 0) return;
    string line = {0};
    text_print(&line, "\n%.*s\n", (int)length, name);
    if (!strstr(text_view(&m->seen), line.bytes)) {
        text_add(&m->seen, m->seen.length ? line.bytes + 1 : line.bytes);
        char *copy = copy_bytes(name, length);
        ls_json_put_text(m->w, NULL, copy);
        ls_sys_free(copy);
    }
    text_free(&line);
}

/* Calls with options are macros; the functions behind them, which end in _sized, are not for people. */
static void offer_from_manual(const char *name, size_t length, void *user)
{
    static const char inner[] = "_sized";
    size_t tail = strlen(inner);
    if (length < tail || strncmp(name + length - tail, inner, tail) != 0) offer(user, name, length);
}

void kernel_complete(kernel *k, void *socket)
{
    size_t cursor;
    const char *code = code_at_cursor(k, &cursor);
    size_t begin = cursor;
    while (begin > 0 && is_letter(code[begin - 1])) begin--;
    ls_json_writer w = {0};
    ls_json_put_object(&w, NULL);
    ls_json_put_text(&w, "status", "ok");
    ls_json_put_array(&w, "matches");
    matches m = {.w = &w, .prefix = code + begin, .length = cursor - begin};
    if (m.length) {
        for (size_t i = k->known.count; i-- > 0;)
            for (const char *name = k->known.list[i].names + 1; *name; name += strcspn(name, ",") + 1)
                offer(&m, name, strcspn(name, ","));
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) offer(&m, words[i], strlen(words[i]));
        manual_names(k->include, offer_from_manual, &m);
    }
    text_free(&m.seen);
    ls_json_put_end(&w);
    ls_json_put_integer(&w, "cursor_start", characters(code, begin));
    ls_json_put_integer(&w, "cursor_end", characters(code, cursor));
    ls_json_put_object(&w, "metadata");
    ls_json_put_end(&w);
    ls_json_put_end(&w);
    kernel_reply(k, socket, "complete_reply", &w);
}

/* ---- Inspection ---- */

void kernel_describe(const kernel *k, const char *name, size_t length, string *to)
{
    const definition *one = definitions_find(&k->known, name, length);
    if (one) text_print(to, "%s\n\ndefined in In[%d]", one->source, one->cell);
    else if (length) manual_entry(k->include, name, length, to);
}

void kernel_inspect(kernel *k, void *socket)
{
    size_t cursor, begin, end;
    const char *code = code_at_cursor(k, &cursor);
    for (begin = cursor; begin > 0 && is_letter(code[begin - 1]);) begin--;
    for (end = cursor; is_letter(code[end]);) end++;
    string found = {0};
    kernel_describe(k, code + begin, end - begin, &found);
    ls_json_writer w = {0};
    ls_json_put_object(&w, NULL);
    ls_json_put_text(&w, "status", "ok");
    ls_json_put_bool(&w, "found", found.length > 0);
    ls_json_put_object(&w, "data");
    if (found.length) ls_json_put_text(&w, "text/plain", found.bytes);
    ls_json_put_end(&w);
    ls_json_put_object(&w, "metadata");
    ls_json_put_end(&w);
    ls_json_put_end(&w);
    kernel_reply(k, socket, "inspect_reply", &w);
    text_free(&found);
}

/* ---- Completeness ---- */

void kernel_is_complete(kernel *k, void *socket)
{
    const char *code = ls_json_text(ls_json_get(k->request->content, "code"));
    token_list tokens = tokens_read(code ? code : "", code ? strlen(code) : 0);
    part_list parts = split(&tokens, NULL, NULL);
    ls_json_writer w = {0};
    ls_json_put_object(&w, NULL);
    ls_json_put_text(&w, "status", parts.unfinished ? "incomplete" : "complete");
    if (parts.unfinished) ls_json_put_text(&w, "indent", "    ");
    ls_json_put_end(&w);
    kernel_reply(k, socket, "is_complete_reply", &w);
    parts_free(&parts);
    tokens_free(&tokens);
}
