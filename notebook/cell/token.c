/* token.c - the tokens of C. */
#include "token.h"

#include <ctype.h>
#include <string.h>

#include "base/memory.h"

typedef struct reader {
    const char *at, *end, *line_begin;
    int line;
    bool fresh; /* only blanks so far on this line: a # begins a directive */
    token_list list;
} reader;

static bool is_letter(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

static char peek(const reader *r, size_t ahead)
{
    return (size_t)(r->end - r->at) > ahead ? r->at[ahead] : '\0';
}

static void step(reader *r)
{
    if (*r->at++ != '\n') return;
    r->line++;
    r->line_begin = r->at;
    r->fresh = true;
}

static void skip_comment(reader *r)
{
    bool to_line_end = r->at[1] == '/';
    int begin = r->line;
    step(r);
    step(r);
    while (r->at < r->end) {
        if (to_line_end && *r->at == '\n' && r->at[-1] != '\\') return;
        if (!to_line_end && *r->at == '*' && peek(r, 1) == '/') {
            step(r);
            step(r);
            return;
        }
        step(r);
    }
    if (to_line_end) return;
    r->list.unfinished = true;
    r->list.open_comment = begin;
}

static bool at_comment(const reader *r)
{
    return peek(r, 0) == '/' && (peek(r, 1) == '/' || peek(r, 1) == '*');
}

static void skip_blanks(reader *r)
{
    while (r->at < r->end) {
        if (at_comment(r)) skip_comment(r);
        else if (isspace((unsigned char)*r->at) || *r->at == '\0' || (*r->at == '\\' && peek(r, 1) == '\n')) step(r);
        else return;
    }
}

/* A literal ends at its line's end at the latest, as for a compiler. */
static void skip_literal(reader *r)
{
    char quote = *r->at;
    step(r);
    while (r->at < r->end && *r->at != quote && *r->at != '\n') {
        if (*r->at == '\\' && r->at + 1 < r->end) step(r);
        step(r);
    }
    if (r->at < r->end && *r->at == quote) step(r);
    else r->list.unfinished = true;
}

static void skip_directive(reader *r)
{
    while (r->at < r->end && *r->at != '\n') {
        if (at_comment(r)) {
            bool to_line_end = r->at[1] == '/';
            skip_comment(r);
            if (to_line_end) return;
            continue;
        }
        if (*r->at == '"') {
            bool unfinished = r->list.unfinished; /* an odd quote is nothing to wait for: the line ends here */
            skip_literal(r);
            r->list.unfinished = unfinished;
            continue;
        }
        if (*r->at == '\\' && peek(r, 1) == '\n') step(r);
        step(r);
        if (r->at == r->end && r->at[-1] == '\n') r->list.unfinished = true; /* the line goes on, but the text ends */
    }
}

static token_kind skip_token(reader *r)
{
    char c = *r->at;
    if (c == '#' && r->fresh) {
        skip_directive(r);
        return TOKEN_DIRECTIVE;
    }
    if (c == '"' || c == '\'') {
        skip_literal(r);
        return c == '"' ? TOKEN_STRING : TOKEN_CHARACTER;
    }
    if (isdigit((unsigned char)c) || (c == '.' && isdigit((unsigned char)peek(r, 1)))) {
        while (is_letter(peek(r, 0)) || peek(r, 0) == '.' ||
               (strchr("+-", peek(r, 0)) && peek(r, 0) && strchr("eEpP", r->at[-1])))
            step(r);
        return TOKEN_NUMBER;
    }
    if (is_letter(c)) {
        while (is_letter(peek(r, 0))) step(r);
        return TOKEN_NAME;
    }
    step(r);
    if (strchr("=!<>+-*/%&|^", c) && peek(r, 0) == '=') step(r);
    return TOKEN_MARK;
}

static void add(reader *r, token t)
{
    token_list *list = &r->list;
    list->tokens = must_grow(list->tokens, list->count, sizeof *list->tokens);
    list->tokens[list->count++] = t;
}

token_list tokens_read(const char *code, size_t length)
{
    reader r = {.at = code, .end = code + length, .line_begin = code, .line = 1, .fresh = true};
    for (skip_blanks(&r); r.at < r.end; skip_blanks(&r)) {
        token t = {.begin = r.at, .line = r.line, .column = (int)(r.at - r.line_begin)};
        t.kind = skip_token(&r);
        t.length = (size_t)(r.at - t.begin);
        r.fresh = false;
        add(&r, t);
    }
    add(&r, (token){.kind = TOKEN_END, .begin = r.at, .line = r.line});
    r.list.count--;
    return r.list;
}

void tokens_free(token_list *list)
{
    ls_sys_free(list->tokens);
    *list = (token_list){0};
}

bool token_is(const token *t, const char *words)
{
    return t->length == strlen(words) && memcmp(t->begin, words, t->length) == 0;
}

bool token_among(const token *t, const char *words)
{
    if (t->kind != TOKEN_NAME) return false;
    for (const char *word = words + 1; *word;) {
        size_t length = strcspn(word, " ");
        if (length == t->length && memcmp(word, t->begin, length) == 0) return true;
        word += length + 1;
    }
    return false;
}

size_t tokens_close(const token *tokens, size_t open, size_t end)
{
    int depth = 0;
    for (size_t i = open; i < end; i++) {
        if (tokens[i].kind != TOKEN_MARK) continue;
        char mark = *tokens[i].begin;
        if (mark == '(' || mark == '[' || mark == '{') depth++;
        if (mark == ')' || mark == ']' || mark == '}') depth--;
        if (depth <= 0) return i + 1;
    }
    return end;
}

void tokens_join(string *to, const token *tokens, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++) {
        if (i > begin) text_add(to, " ");
        text_put(to, tokens[i].begin, tokens[i].length);
    }
}

void tokens_copy(string *to, const token *tokens, size_t begin, size_t end)
{
    if (begin >= end) return;
    const char *last = tokens[end - 1].begin + tokens[end - 1].length;
    text_put(to, tokens[begin].begin, (size_t)(last - tokens[begin].begin));
}
