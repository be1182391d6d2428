/* split.c - a cell in parts. */
#include "split.h"

#include <ctype.h>
#include <string.h>

#include "base/memory.h"

#define STATEMENT_WORDS                                                                                                \
    " if else for while do switch case default return goto break continue _Static_assert static_assert asm __asm__ "
#define EXPRESSION_WORDS " sizeof _Alignof _Generic __extension__ "
#define DECLARATION_WORDS                                                                                              \
    " void char short int long float double signed unsigned _Bool bool _Complex struct union enum typedef static "     \
    "extern "                                                                                                          \
    "inline const volatile restrict register auto _Atomic _Noreturn _Thread_local _Alignas __attribute__ typeof "      \
    "__typeof__ "
#define QUALIFIERS " const volatile restrict _Atomic "

typedef struct splitter {
    const token *tokens;
    size_t count;
    is_value_fn *is_value;
    const void *user;
    part_list list;
} splitter;

static bool mark_at(const splitter *s, size_t i, char mark)
{
    return i < s->count && s->tokens[i].kind == TOKEN_MARK && s->tokens[i].length == 1 && *s->tokens[i].begin == mark;
}

static bool name_at(const splitter *s, size_t i)
{
    return i < s->count && s->tokens[i].kind == TOKEN_NAME;
}

static bool word_at(const splitter *s, size_t i, const char *word)
{
    return name_at(s, i) && token_is(&s->tokens[i], word);
}

/* Behind the bracket at `open`; a bracket that is not closed leaves the cell unfinished. */
static size_t close(splitter *s, size_t open)
{
    size_t behind = tokens_close(s->tokens, open, s->count);
    const token *last = &s->tokens[behind - 1];
    if (last->kind != TOKEN_MARK || !strchr(")]}", *last->begin)) s->list.unfinished = true;
    return behind;
}

static bool opens(const splitter *s, size_t i)
{
    return mark_at(s, i, '(') || mark_at(s, i, '[') || mark_at(s, i, '{');
}

/* Behind the semicolon that ends what begins at i, or at the end of the cell or a directive. */
static size_t to_semicolon(splitter *s, size_t i)
{
    while (i < s->count && s->tokens[i].kind != TOKEN_DIRECTIVE) {
        if (mark_at(s, i, ';')) return i + 1;
        i = opens(s, i) ? close(s, i) : i + 1;
    }
    return i;
}

static size_t statement(splitter *s, size_t i, int depth);

static size_t body(splitter *s, size_t i, int depth)
{
    if (i >= s->count) s->list.unfinished = true;
    return statement(s, i, depth + 1);
}

/* if (...) ... else ... */
static size_t condition(splitter *s, size_t i, int depth)
{
    i = mark_at(s, i + 1, '(') ? close(s, i + 1) : i + 1;
    i = body(s, i, depth);
    return word_at(s, i, "else") ? body(s, i + 1, depth) : i;
}

/* An expression; a macro that begins a loop ends with its block. */
static size_t expression(splitter *s, size_t i)
{
    if (name_at(s, i) && mark_at(s, i + 1, '(')) {
        size_t behind = close(s, i + 1);
        if (mark_at(s, behind, '{')) return close(s, behind);
    }
    return to_semicolon(s, i);
}

/* Behind the statement that begins at i. Deep nesting without brackets is cut off: the compiler will complain. */
static size_t statement(splitter *s, size_t i, int depth)
{
    enum { DEEPEST = 200 };
    if (i >= s->count || depth > DEEPEST) return s->count;
    if (mark_at(s, i, '{')) return close(s, i);
    if (word_at(s, i, "if")) return condition(s, i, depth);
    if (word_at(s, i, "for") || word_at(s, i, "while") || word_at(s, i, "switch"))
        return body(s, mark_at(s, i + 1, '(') ? close(s, i + 1) : i + 1, depth);
    if (word_at(s, i, "do")) return to_semicolon(s, body(s, i + 1, depth));
    if (name_at(s, i) && mark_at(s, i + 1, ':')) return i + 2 < s->count ? statement(s, i + 2, depth + 1) : i + 2;
    return expression(s, i);
}

/* Does a declaration begin at i, where the first word is no keyword? */
static bool declares(const splitter *s, size_t i, size_t end)
{
    const token *t = &s->tokens[i];
    if (!name_at(s, i)) return false;
    if (name_at(s, i + 1)) return true;
    if (s->is_value && s->is_value(t->begin, t->length, s->user)) return false;
    if (mark_at(s, i + 1, '(') && mark_at(s, i + 2, '*') && name_at(s, i + 3) && mark_at(s, i + 4, ')'))
        return mark_at(s, i + 5, '('); /* T (*f)(...) */
    size_t star = i + 1;
    while (mark_at(s, star, '*') || (star > i + 1 && star < s->count && token_among(&s->tokens[star], QUALIFIERS)))
        star++;
    if (star == i + 1 || !name_at(s, star)) return false;
    if (mark_at(s, star + 1, '(') && mark_at(s, tokens_close(s->tokens, star + 1, s->count), '{'))
        return true; /* T *f(...) { */
    /* T *x ... ; without the semicolon it is a product to be shown */
    return mark_at(s, end - 1, ';') && (star + 2 == end || mark_at(s, star + 1, '=') || mark_at(s, star + 1, ',') ||
                                        mark_at(s, star + 1, '[') || mark_at(s, star + 1, '('));
}

/* Behind "struct tag { ... }" at i, attributes included. */
static size_t tag(splitter *s, size_t i)
{
    i++;
    while (word_at(s, i, "__attribute__") && mark_at(s, i + 1, '(')) i = close(s, i + 1);
    if (name_at(s, i)) i++;
    return mark_at(s, i, '{') ? close(s, i) : i;
}

/* Behind the declaration at i; a function ends with its body. */
static size_t declaration(splitter *s, size_t i, part_kind *kind)
{
    bool assigned = false;
    while (i < s->count && s->tokens[i].kind != TOKEN_DIRECTIVE) {
        if (mark_at(s, i, ';')) return i + 1;
        if (mark_at(s, i, '=')) assigned = true;
        if (mark_at(s, i, '{') && !assigned) {
            *kind = PART_FUNCTION;
            return close(s, i);
        }
        if (word_at(s, i, "struct") || word_at(s, i, "union") || word_at(s, i, "enum")) i = tag(s, i);
        else i = opens(s, i) ? close(s, i) : i + 1;
    }
    return i;
}

/* The word behind the # of a directive. */
static bool directive_is(const token *t, const char *word)
{
    const char *at = t->begin + 1, *end = t->begin + t->length;
    while (at < end && (*at == ' ' || *at == '\t')) at++;
    size_t length = strlen(word);
    return (size_t)(end - at) >= length && memcmp(at, word, length) == 0;
}

/* Behind a directive, or behind the #endif of an #if. */
static size_t directive(splitter *s, size_t i)
{
    int depth = 0;
    for (; i < s->count; i++) {
        if (s->tokens[i].kind != TOKEN_DIRECTIVE) continue;
        if (directive_is(&s->tokens[i], "if")) depth++;
        if (directive_is(&s->tokens[i], "endif")) depth--;
        if (depth <= 0) return i + 1;
    }
    s->list.unfinished = true;
    return i;
}

static part next_part(splitter *s, size_t i)
{
    const token *t = &s->tokens[i];
    if (t->kind == TOKEN_DIRECTIVE) return (part){PART_DIRECTIVE, i, directive(s, i)};
    part next = {PART_DECLARATION, i, i};
    if (token_among(t, DECLARATION_WORDS)) {
        next.end = declaration(s, i, &next.kind);
        return next;
    }
    if (!token_among(t, STATEMENT_WORDS) && !token_among(t, EXPRESSION_WORDS) && declares(s, i, to_semicolon(s, i))) {
        next.end = declaration(s, i, &next.kind);
        return next;
    }
    next.end = statement(s, i, 0);
    bool ended = mark_at(s, next.end - 1, ';') || mark_at(s, next.end - 1, '}') || token_among(t, STATEMENT_WORDS);
    next.kind = ended || next.end < s->count ? PART_STATEMENT : PART_EXPRESSION;
    return next;
}

part_list split(const token_list *tokens, is_value_fn *is_value, const void *user)
{
    splitter s = {.tokens = tokens->tokens, .count = tokens->count, .is_value = is_value, .user = user};
    for (size_t i = 0; i < s.count;) {
        if (mark_at(&s, i, ';')) {
            i++;
            continue;
        }
        part next = next_part(&s, i);
        s.list.parts = must_grow(s.list.parts, s.list.count, sizeof *s.list.parts);
        s.list.parts[s.list.count++] = next;
        i = next.end;
    }
    s.list.unfinished |= tokens->unfinished;
    return s.list;
}

void parts_free(part_list *list)
{
    ls_sys_free(list->parts);
    *list = (part_list){0};
}
