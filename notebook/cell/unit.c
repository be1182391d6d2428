/* unit.c - a cell as a translation unit. */
#include "unit.h"

#include <string.h>

#include "base/memory.h"
#include "base/message.h"
#include "declare.h"

typedef struct writer {
    const unit_request *request;
    definitions *known;
    string *removed;
    ls_message *why;
    const token *tokens;
    string storage, functions, body;
    string names; /* of variables and functions that this cell defines, ",a,b," */
    int nameless; /* structs without a tag, so far */
    bool failed;
} writer;

/* Text that stands where it stood in the cell, so that a compiler's line and column are the cell's. */
static void put_place(string *to, const writer *w, size_t at)
{
    const token *t = &w->tokens[at];
    text_print(to, "\n#line %d \"In[%d]\"\n%*s", t->line, w->request->shown_as, t->column, "");
}

static void put_source(string *to, const writer *w, size_t begin, size_t end)
{
    if (begin >= end) return;
    put_place(to, w, begin);
    tokens_copy(to, w->tokens, begin, end);
}

static char *take(string *from)
{
    char *taken = copy_text(text_view(from));
    text_free(from);
    return taken;
}

static void define(writer *w, definition_kind kind, string *names, string *source, string *code, size_t at)
{
    definition fresh = {.kind = kind, .names = take(names), .source = take(source), .code = take(code)};
    fresh.cell = w->request->shown_as;
    fresh.line = w->tokens[at].line;
    definitions_put(w->known, fresh, w->removed);
}

/* A variable or function may be defined once in a cell. */
static bool is_new(writer *w, const token *name)
{
    string wanted = {0};
    text_print(&wanted, ",%.*s,", (int)name->length, name->begin);
    if (!w->names.length) text_add(&w->names, ",");
    bool twice = strstr(w->names.bytes, wanted.bytes) != NULL;
    if (!twice) text_add(&w->names, wanted.bytes + 1);
    else if (!w->failed)
        ls_message_set(w->why, "In[%d]:%d: %.*s is defined twice in this cell", w->request->shown_as, name->line,
                       (int)name->length, name->begin);
    w->failed |= twice;
    text_free(&wanted);
    return !twice;
}

/* ---- Directives ---- */

/* "#define NAME" and "#undef NAME": the name; an empty token for all other directives. */
static token macro_name(const token *directive, bool *undefines)
{
    token_list words = tokens_read(directive->begin + 1, directive->length - 1);
    token name = {0};
    *undefines = words.count > 1 && token_is(&words.tokens[0], "undef");
    if (words.count > 1 && (*undefines || token_is(&words.tokens[0], "define"))) name = words.tokens[1];
    tokens_free(&words);
    return name;
}

static void put_directive(writer *w, part p)
{
    bool undefines;
    token name = macro_name(&w->tokens[p.begin], &undefines);
    string names = {0}, source = {0}, code = {0};
    tokens_copy(&source, w->tokens, p.begin, p.end);
    text_add(&names, ",");
    if (name.length) {
        text_print(&names, "%.*s,", (int)name.length, name.begin);
        if (!undefines) text_print(&code, "#undef %.*s", (int)name.length, name.begin);
    }
    put_source(&code, w, p.begin, p.end);
    define(w, name.length ? DEFINITION_MACRO : DEFINITION_DIRECTIVE, &names, &source, &code, p.begin);
}

/* ---- Types ---- */

/* Constants of an enum: names at the beginning, and behind commas outside brackets. */
static void add_constants(string *names, const writer *w, const declaration_pieces *d)
{
    const token *tokens = w->tokens;
    for (size_t i = d->tag_open; i + 1 < d->tag_close;) {
        if (tokens[i + 1].kind == TOKEN_NAME)
            text_print(names, "%.*s,", (int)tokens[i + 1].length, tokens[i + 1].begin);
        for (i++; i + 1 < d->tag_close && !token_is(&tokens[i], ",");)
            i = tokens[i].kind == TOKEN_MARK && strchr("([{", *tokens[i].begin)
                    ? tokens_close(tokens, i, d->tag_close - 1)
                    : i + 1;
    }
}

/* Names of a type: its tag, the constants of an enum, and what a typedef declares. */
static void type_names(string *names, const writer *w, const declaration_pieces *d)
{
    const token *tokens = w->tokens;
    text_add(names, ",");
    if (d->has_tag && d->tag_close > d->tag_open) {
        if (d->tag_name != d->tag_word) {
            tokens_join(names, tokens, d->tag_word, d->tag_word + 1);
            text_print(names, " %.*s,", (int)tokens[d->tag_name].length, tokens[d->tag_name].begin);
        }
        if (token_is(&tokens[d->tag_word], "enum")) add_constants(names, w, d);
    }
    for (size_t i = 0; d->is_typedef && i < d->count; i++) {
        size_t name = d->declarators[i].name;
        if (name < d->declarators[i].end) text_print(names, "%.*s,", (int)tokens[name].length, tokens[name].begin);
    }
}

static void put_type(writer *w, const declaration_pieces *d, size_t end)
{
    string names = {0}, source = {0}, code = {0};
    type_names(&names, w, d);
    tokens_join(&source, w->tokens, d->begin, end);
    put_source(&code, w, d->begin, end);
    text_add(&code, ";");
    define(w, DEFINITION_TYPE, &names, &source, &code, d->begin);
}

/* "struct { int a; } x": the type gets a tag, so that later cells can declare x. Appends what x is then declared
 * with. */
static void put_tagged(writer *w, const declaration_pieces *d, string *specifiers)
{
    const token *tokens = w->tokens;
    string names = {0}, source = {0}, code = {0}, tag = {0};
    type_names(&names, w, d);
    if (d->tag_name != d->tag_word) tokens_join(&tag, tokens, d->tag_name, d->tag_name + 1);
    else text_print(&tag, "c%d_type_%d", w->request->number, ++w->nameless);
    tokens_join(&source, tokens, d->tag_word, d->tag_close);
    put_place(&code, w, d->tag_word);
    text_print(&code, "%.*s %s ", (int)tokens[d->tag_word].length, tokens[d->tag_word].begin, tag.bytes);
    tokens_copy(&code, tokens, d->tag_open, d->tag_close);
    text_add(&code, ";");
    define(w, DEFINITION_TYPE, &names, &source, &code, d->begin);
    for (size_t i = d->begin; i < d->declarators_begin; i++) {
        if (i == d->tag_word) {
            text_print(specifiers, "%.*s %s ", (int)tokens[i].length, tokens[i].begin, tag.bytes);
            i = d->tag_close - 1;
        } else if (!is_storage_word(&tokens[i])) {
            text_print(specifiers, "%.*s ", (int)tokens[i].length, tokens[i].begin);
        }
    }
    text_free(&tag);
}

/* ---- Variables and functions ---- */

/* Declare it under the symbol of this cell: "extern int x __asm__("c3_x");". */
static void put_declared(writer *w, const char *specifiers, const declarator *one, definition_kind kind, bool foreign)
{
    const token *tokens = w->tokens, *name = &tokens[one->name];
    string names = {0}, source = {0}, code = {0};
    text_print(&names, ",%.*s,", (int)name->length, name->begin);
    text_add(&source, specifiers);
    tokens_join(&source, tokens, one->begin, one->attributes_end);
    put_place(&code, w, one->begin);
    text_print(&code, "extern %s", specifiers);
    tokens_join(&code, tokens, one->begin, one->end);
    if (!foreign) text_print(&code, " __asm__(\"c%d_%.*s\") ", w->request->number, (int)name->length, name->begin);
    tokens_join(&code, tokens, one->end, one->attributes_end);
    text_add(&code, ";");
    define(w, kind, &names, &source, &code, one->begin);
}

/* The initialiser runs with the statements, where it may call functions. An array without a size needs its initialiser
 * to have one: that must be constant, and the session reports the size. */
static void put_variable(writer *w, const char *specifiers, const declarator *one)
{
    const token *tokens = w->tokens, *name = &tokens[one->name];
    int length = (int)name->length;
    if (one->unsized && one->has_value) {
        put_place(&w->storage, w, one->begin);
        text_print(&w->storage, "%s", specifiers);
        tokens_join(&w->storage, tokens, one->begin, one->end);
        text_add(&w->storage, " =");
        put_source(&w->storage, w, one->value_begin, one->value_end);
        text_add(&w->storage, ";");
        text_print(&w->body, "\nls_notebook_size(\"%.*s\", sizeof %.*s / sizeof *%.*s);", length, name->begin, length,
                   name->begin, length, name->begin);
        return;
    }
    put_place(&w->storage, w, one->name);
    text_print(&w->storage, "LS_NOTEBOOK_STORAGE(%.*s, c%d_%.*s)", length, name->begin, w->request->number, length,
               name->begin);
    if (!one->has_value) return;
    put_place(&w->body, w, one->begin);
    text_print(&w->body, "{ __typeof__(%.*s) ls_value_%.*s =", length, name->begin, length, name->begin);
    put_source(&w->body, w, one->value_begin, one->value_end);
    text_print(&w->body, "; LS_NOTEBOOK_SET(%.*s, ls_value_%.*s); }", length, name->begin, length, name->begin);
}

static void put_declaration(writer *w, part p)
{
    declaration_pieces d = declaration_read(w->tokens, p);
    string specifiers = {0};
    if (d.is_typedef || d.count == 0) put_type(w, &d, d.end);
    else if (d.has_tag && d.tag_close > d.tag_open) put_tagged(w, &d, &specifiers);
    else specifiers_join(&specifiers, w->tokens, &d);
    for (size_t i = 0; !d.is_typedef && i < d.count; i++) {
        const declarator *one = &d.declarators[i];
        const token *name = &w->tokens[one->name];
        if (one->name >= one->end) { /* not C: as it is, for the compiler to refuse */
            put_source(&w->storage, w, p.begin, p.end);
        } else if (one->is_function) { /* a function of a library, or one that a cell defines */
            if (!definitions_find(w->known, name->begin, name->length))
                put_declared(w, text_view(&specifiers), one, DEFINITION_FUNCTION, true);
        } else if (is_new(w, name)) {
            put_declared(w, text_view(&specifiers), one, DEFINITION_VARIABLE, d.is_extern);
            if (!d.is_extern) put_variable(w, text_view(&specifiers), one);
        }
    }
    text_free(&specifiers);
    declaration_free(&d);
}

/* As it was written, with blanks in the place of words such as static. */
static void put_function(writer *w, part p)
{
    declaration_pieces d = declaration_read(w->tokens, p);
    if (d.count != 1 || !d.declarators[0].is_function) {
        put_source(&w->functions, w, p.begin, p.end);
    } else if (is_new(w, &w->tokens[d.declarators[0].name])) {
        string specifiers = {0};
        specifiers_join(&specifiers, w->tokens, &d);
        put_declared(w, text_view(&specifiers), &d.declarators[0], DEFINITION_FUNCTION, false);
        text_free(&specifiers);
        const token *first = &w->tokens[p.begin], *last = &w->tokens[p.end - 1];
        put_source(&w->functions, w, p.begin, p.end);
        char *copy = w->functions.bytes + w->functions.length - (last->begin + (ptrdiff_t)last->length - first->begin);
        for (size_t i = d.begin; i < d.declarators_begin; i++)
            if (is_storage_word(&w->tokens[i]))
                memset(copy + (w->tokens[i].begin - first->begin), ' ', w->tokens[i].length);
    }
    declaration_free(&d);
}

/* ---- The whole ---- */

static void put_shown(writer *w, part p)
{
    if (w->request->shows) text_add(&w->body, "\n__auto_type ls_shown =");
    put_source(&w->body, w, p.begin, p.end);
    text_add(&w->body, w->request->shows ? "\n;\nLS_NOTEBOOK_SHOW(ls_shown);" : "\n;");
}

static void put_part(writer *w, part p)
{
    switch (p.kind) {
    case PART_DIRECTIVE: put_directive(w, p); return;
    case PART_DECLARATION: put_declaration(w, p); return;
    case PART_FUNCTION: put_function(w, p); return;
    case PART_STATEMENT: put_source(&w->body, w, p.begin, p.end); return;
    case PART_EXPRESSION: put_shown(w, p); return;
    }
}

static bool is_value(const char *name, size_t length, const void *user)
{
    const definition *found = definitions_find(user, name, length);
    return found && found->kind >= DEFINITION_VARIABLE;
}

bool unit_write(string *unit, definitions *known, const unit_request *request, string *removed, ls_message *why)
{
    token_list tokens = tokens_read(request->code, strlen(request->code));
    part_list parts = split(&tokens, is_value, known);
    writer w = {.request = request, .known = known, .removed = removed, .why = why, .tokens = tokens.tokens};
    for (size_t i = 0; i < parts.count; i++) put_part(&w, parts.parts[i]);
    if (tokens.open_comment) { /* the compiler will not see it: comments are not part of a unit */
        ls_message_set(why, "In[%d]:%d: the comment that begins here does not end: */ is missing", request->shown_as,
                       tokens.open_comment);
        w.failed = true;
    }
    for (size_t i = 0; i < known->count; i++) text_print(unit, "%s\n", known->list[i].code);
    text_print(unit, "%s\n%s\nvoid ls_cell_%d(void);\nvoid ls_cell_%d(void)\n{%s\n}\n", text_view(&w.storage),
               text_view(&w.functions), request->number, request->number, text_view(&w.body));
    text_free(&w.storage);
    text_free(&w.functions);
    text_free(&w.body);
    text_free(&w.names);
    parts_free(&parts);
    tokens_free(&tokens);
    return !w.failed;
}
