/* definitions.c - what earlier cells defined. */
#include "definitions.h"

#include <string.h>

#include "base/memory.h"
#include "token.h"

static void definition_free(definition *one)
{
    ls_sys_free(one->names);
    ls_sys_free(one->source);
    ls_sys_free(one->code);
}

void definitions_copy(definitions *to, const definitions *from)
{
    *to = (definitions){0};
    for (size_t i = 0; i < from->count; i++) {
        const definition *one = &from->list[i];
        to->list = must_grow(to->list, to->count, sizeof *to->list);
        to->list[to->count++] = (definition){
            one->kind, copy_text(one->names), copy_text(one->source), copy_text(one->code), one->cell, one->line};
    }
}

void definitions_free(definitions *what)
{
    for (size_t i = 0; i < what->count; i++) definition_free(&what->list[i]);
    ls_sys_free(what->list);
    *what = (definitions){0};
}

/* Is a name in a list ",a,b,"? */
static bool lists(const char *names, const char *name, size_t length)
{
    for (const char *at = names + 1; *at; at++) {
        size_t this = strcspn(at, ",");
        if (this == length && memcmp(at, name, length) == 0) return true;
        at += this;
    }
    return false;
}

static bool share_a_name(const definition *a, const definition *b)
{
    for (const char *at = a->names + 1; *at; at++) {
        size_t length = strcspn(at, ",");
        if (lists(b->names, at, length)) return true;
        at += length;
    }
    return false;
}

/* Does a text use one of the names? "struct node" is one name. */
static bool mentions(const char *source, const char *names)
{
    token_list list = tokens_read(source, strlen(source));
    bool found = false;
    for (size_t i = 0; i < list.count && !found; i++) {
        const token *t = &list.tokens[i];
        if (t->kind == TOKEN_DIRECTIVE) { /* its words */
            token_list inside = tokens_read(t->begin + 1, t->length - 1);
            for (size_t k = 0; k < inside.count && !found; k++)
                found = inside.tokens[k].kind == TOKEN_NAME &&
                        lists(names, inside.tokens[k].begin, inside.tokens[k].length);
            tokens_free(&inside);
        }
        if (t->kind != TOKEN_NAME) continue;
        string name = {0};
        if (token_among(t, " struct union enum ") && i + 1 < list.count) tokens_join(&name, list.tokens, i, i + 2);
        else text_put(&name, t->begin, t->length);
        found = lists(names, name.bytes, name.length);
        if (token_among(t, " struct union enum ")) i++;
        text_free(&name);
    }
    tokens_free(&list);
    return found;
}

static void remove_at(definitions *from, size_t i)
{
    definition_free(&from->list[i]);
    memmove(&from->list[i], &from->list[i + 1], (from->count - i - 1) * sizeof *from->list);
    from->count--;
}

static void note_removed(string *removed, const definition *one)
{
    const char *name = one->names + 1;
    if (*name) text_print(removed, "%s%.*s", removed->length ? ", " : "", (int)strcspn(name, ","), name);
}

/* A variable's name in a declaration is a parameter or a member of that name, unless the type of the variable is asked
 * for. */
static bool depends(const definition *one, const char *names, definition_kind changed)
{
    if (one->kind == DEFINITION_DIRECTIVE || !mentions(one->source, names)) return false;
    return changed < DEFINITION_VARIABLE || strstr(one->source, "typeof") || strstr(one->source, "sizeof");
}

/* Remove what was written in terms of these names, and in terms of that, and so on. Macros stay, since they are
 * expanded where they are used, but what uses them goes. */
static void remove_users(definitions *in, const char *changed, definition_kind kind, string *removed)
{
    string names = {0};
    text_add(&names, changed);
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < in->count; i++) {
            definition *one = &in->list[i];
            if (!depends(one, names.bytes, kind)) continue;
            bool own = one->names[1] && lists(names.bytes, one->names + 1, strcspn(one->names + 1, ","));
            if (own) continue;
            text_add(&names, one->names + 1);
            more = true;
            if (one->kind == DEFINITION_MACRO) continue;
            note_removed(removed, one);
            remove_at(in, i--);
        }
    }
    text_free(&names);
}

void definitions_put(definitions *to, definition fresh, string *removed)
{
    for (size_t i = 0; i < to->count; i++) {
        definition *old = &to->list[i];
        bool same = old->kind == fresh.kind && strcmp(old->source, fresh.source) == 0;
        if (same && (fresh.kind < DEFINITION_VARIABLE || share_a_name(old, &fresh))) {
            definition_free(old);
            *old = fresh;
            return;
        }
    }
    bool changes = false;
    for (size_t i = 0; i < to->count; i++) {
        if (!share_a_name(&to->list[i], &fresh)) continue;
        remove_at(to, i--);
        changes = true;
    }
    if (changes && fresh.kind != DEFINITION_FUNCTION) remove_users(to, fresh.names, fresh.kind, removed);
    to->list = must_grow(to->list, to->count, sizeof *to->list);
    to->list[to->count++] = fresh;
}

void definitions_remove(definitions *from, const char *name)
{
    for (size_t i = from->count; i-- > 0;)
        if (lists(from->list[i].names, name, strlen(name))) remove_at(from, i);
}

const definition *definitions_find(const definitions *in, const char *name, size_t length)
{
    for (size_t i = 0; i < in->count; i++)
        if (lists(in->list[i].names, name, length)) return &in->list[i];
    return NULL;
}

void definitions_set_size(definitions *in, const char *name, long long size)
{
    for (size_t i = 0; i < in->count; i++) {
        definition *one = &in->list[i];
        char *bracket = one->kind == DEFINITION_VARIABLE ? strstr(one->code, "[ ]") : NULL;
        if (!bracket || !lists(one->names, name, strlen(name))) continue;
        string code = {0};
        text_print(&code, "%.*s[%lld]%s", (int)(bracket - one->code), one->code, size, bracket + 3);
        ls_sys_free(one->code);
        one->code = copy_text(code.bytes);
        text_free(&code);
    }
}
