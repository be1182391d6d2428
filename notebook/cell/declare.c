/* declare.c - a declaration in pieces. */
#include "declare.h"

#include <string.h>

#include "base/memory.h"

#define STORAGE_WORDS " typedef static extern inline register auto "
#define QUALIFIER_WORDS " const volatile restrict _Atomic _Noreturn __extension__ __restrict "
#define TYPE_WORDS " void char short int long float double signed unsigned _Bool bool _Complex "
#define WORDS_WITH_BRACKETS " __attribute__ _Alignas typeof __typeof__ _Atomic "

bool is_storage_word(const token *t)
{
    return token_among(t, STORAGE_WORDS);
}

static bool is_mark(const token *t, char mark)
{
    return t->kind == TOKEN_MARK && t->length == 1 && *t->begin == mark;
}

/* struct, union or enum at i; returns the index behind it and its body. */
static size_t read_tag(declaration_pieces *d, const token *tokens, size_t i)
{
    d->has_tag = true;
    d->tag_word = d->tag_name = i++;
    while (i < d->end && token_is(&tokens[i], "__attribute__")) i = tokens_close(tokens, i + 1, d->end);
    if (i < d->end && tokens[i].kind == TOKEN_NAME) d->tag_name = i++;
    if (i < d->end && is_mark(&tokens[i], '{')) {
        d->tag_open = i;
        i = d->tag_close = tokens_close(tokens, i, d->end);
    }
    return i;
}

static void read_specifiers(declaration_pieces *d, const token *tokens)
{
    bool typed = false;
    size_t i = d->begin;
    while (i < d->end && tokens[i].kind == TOKEN_NAME) {
        const token *t = &tokens[i];
        if (token_is(t, "typedef")) d->is_typedef = true;
        if (token_is(t, "extern")) d->is_extern = true;
        if (token_among(t, " struct union enum ") && !d->has_tag) { /* a second one is the compiler's to refuse */
            i = read_tag(d, tokens, i);
            typed = true;
        } else if (token_among(t, WORDS_WITH_BRACKETS) && i + 1 < d->end && is_mark(&tokens[i + 1], '(')) {
            typed |= !token_among(t, " __attribute__ _Alignas ");
            i = tokens_close(tokens, i + 1, d->end);
        } else if (token_among(t, TYPE_WORDS)) {
            typed = true;
            i++;
        } else if (is_storage_word(t) || token_among(t, QUALIFIER_WORDS " _Thread_local ")) {
            i++;
        } else if (!typed) {
            typed = true; /* the name of a type */
            i++;
        } else break;
    }
    d->declarators_begin = i;
}

/* The name is the first that is neither a qualifier nor an attribute: float *const w, int (*f)(int x). */
static void read_name(declarator *one, const token *tokens)
{
    int depth = 0;
    for (size_t i = one->begin; i < one->end; i++) {
        if (is_mark(&tokens[i], '(')) depth++;
        if (is_mark(&tokens[i], ')')) depth--;
        if (tokens[i].kind != TOKEN_NAME || token_among(&tokens[i], QUALIFIER_WORDS)) continue;
        one->name = i;
        one->is_function = depth == 0 && i + 1 < one->end && is_mark(&tokens[i + 1], '(');
        if (i + 2 < one->end && is_mark(&tokens[i + 1], '[') && is_mark(&tokens[i + 2], ']')) one->unsized = i + 1;
        return;
    }
    one->name = one->end;
}

static void add_declarator(declaration_pieces *d, const token *tokens, declarator one)
{
    read_name(&one, tokens);
    d->declarators = must_grow(d->declarators, d->count, sizeof *d->declarators);
    d->declarators[d->count++] = one;
}

static declarator read_declarator(const declaration_pieces *d, const token *tokens, size_t begin, size_t *behind)
{
    declarator one = {.begin = begin};
    size_t i = begin, equals = 0, attributes = 0;
    while (i < d->end && !is_mark(&tokens[i], ',')) {
        if (!equals && is_mark(&tokens[i], '=')) equals = i;
        if (!equals && !attributes && token_is(&tokens[i], "__attribute__")) attributes = i;
        bool opens = tokens[i].kind == TOKEN_MARK && strchr("([{", *tokens[i].begin);
        i = opens ? tokens_close(tokens, i, d->end) : i + 1;
    }
    *behind = i;
    one.end = equals ? equals : i;
    one.value_begin = equals ? equals + 1 : i;
    one.value_end = i;
    one.has_value = equals != 0;
    one.attributes_end = one.end;
    if (attributes) one.end = attributes;
    return one;
}

declaration_pieces declaration_read(const token *tokens, part p)
{
    declaration_pieces d = {.begin = p.begin, .end = p.end};
    if (p.kind == PART_FUNCTION) {
        /* the body is the last bracket at the outermost level */
        for (size_t i = p.begin, next; i < p.end; i = next) {
            bool opens = tokens[i].kind == TOKEN_MARK && strchr("([{", *tokens[i].begin);
            next = opens ? tokens_close(tokens, i, p.end) : i + 1;
            if (is_mark(&tokens[i], '{')) d.end = i;
        }
    } else if (d.end > d.begin && is_mark(&tokens[d.end - 1], ';')) {
        d.end--;
    }
    read_specifiers(&d, tokens);
    for (size_t i = d.declarators_begin; i < d.end; i++) {
        declarator one = read_declarator(&d, tokens, i, &i);
        add_declarator(&d, tokens, one);
    }
    return d;
}

void declaration_free(declaration_pieces *pieces)
{
    ls_sys_free(pieces->declarators);
    *pieces = (declaration_pieces){0};
}

void specifiers_join(string *to, const token *tokens, const declaration_pieces *pieces)
{
    for (size_t i = pieces->begin; i < pieces->declarators_begin; i++) {
        if (is_storage_word(&tokens[i])) continue;
        text_put(to, tokens[i].begin, tokens[i].length);
        text_add(to, " ");
    }
}
