/* shlo.c - the text of a program: names, types, and the frame of an operation. */
#include "shlo.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} types[] = {
#define SHLO_TYPE(symbol, name, bytes, pjrt) [symbol] = {name, bytes},
    SHLO_TYPE_LIST(SHLO_TYPE)
#undef SHLO_TYPE
};

bool shlo_is_float(shlo_type type)
{
    return type >= SHLO_F16;
}

size_t shlo_size(shlo_type type)
{
    return types[type].bytes;
}

int64_t shlo_numel(shlo_dims dims)
{
    int64_t n = 1;
    for (int i = 0; i < dims.n; i++) n *= dims.at[i];
    return n;
}

bool shlo_same_dims(shlo_dims a, shlo_dims b)
{
    return a.n == b.n && memcmp(a.at, b.at, (size_t)a.n * sizeof *a.at) == 0;
}

static bool make_room(shlo *s, size_t bytes)
{
    if (s->used + bytes < s->room) return true;
    size_t room = (s->used + bytes) * 2 + 4096;
    char *text = realloc(s->text, room);
    if (!text) return s->failed = true, false;
    s->text = text;
    s->room = room;
    return true;
}

void shlo_print(shlo *s, const char *format, ...)
{
    enum { MOST = 400 };
    if (!make_room(s, MOST)) return;
    va_list list;
    va_start(list, format);
    int n = vsnprintf(s->text + s->used, MOST, format, list);
    va_end(list);
    if (n < 0 || n >= MOST) s->failed = true;
    else s->used += (size_t)n;
}

void shlo_append(shlo *s, const shlo *more)
{
    if (more->failed) s->failed = true;
    if (!more->used || !make_room(s, more->used)) return;
    memcpy(s->text + s->used, more->text, more->used);
    s->used += more->used;
}

void shlo_print_type(shlo *s, shlo_value v)
{
    shlo_print(s, "tensor<");
    for (int i = 0; i < v.dims.n; i++) shlo_print(s, "%lldx", (long long)v.dims.at[i]);
    shlo_print(s, "%s>", types[v.type].name);
}

void shlo_print_array(shlo *s, shlo_dims numbers)
{
    shlo_print(s, "array<i64");
    for (int i = 0; i < numbers.n; i++) shlo_print(s, "%s%lld", i ? ", " : ": ", (long long)numbers.at[i]);
    shlo_print(s, ">");
}

shlo_value shlo_name(shlo *s, shlo_type type, shlo_dims dims)
{
    return (shlo_value){.id = s->values++, .type = type, .dims = dims};
}

void shlo_begin(shlo *s, const char *op, const shlo_value *in, int n_in, shlo_value *out, int n_out)
{
    bool constant = true;
    for (int i = 0; i < n_in; i++) constant &= in[i].is_constant;
    shlo_print(s, "    ");
    for (int i = 0; i < n_out; i++) {
        out[i].id = s->values++;
        out[i].is_constant = constant;
        shlo_print(s, "%s%%%d", i ? ", " : "", out[i].id);
    }
    shlo_print(s, " = \"%s%s\"(", strchr(op, '.') ? "" : "stablehlo.", op);
    for (int i = 0; i < n_in; i++) shlo_print(s, "%s%%%d", i ? ", " : "", in[i].id);
    shlo_print(s, ")");
}

void shlo_end(shlo *s, const shlo_value *in, int n_in, const shlo_value *out, int n_out)
{
    shlo_print(s, " : (");
    for (int i = 0; i < n_in; i++) {
        shlo_print(s, i ? ", " : "");
        shlo_print_type(s, in[i]);
    }
    shlo_print(s, ") -> (");
    for (int i = 0; i < n_out; i++) {
        shlo_print(s, i ? ", " : "");
        shlo_print_type(s, out[i]);
    }
    shlo_print(s, ")\n");
}

void shlo_print_region(shlo *s, const char *op, shlo_type type)
{
    const char *t = types[type].name;
    shlo_print(s,
               "({ ^bb0(%%a: tensor<%s>, %%b: tensor<%s>): %%c = \"stablehlo.%s\"(%%a, %%b) : (tensor<%s>, tensor<%s>) "
               "-> tensor<%s> \"stablehlo.return\"(%%c) : (tensor<%s>) -> () })",
               t, t, op, t, t, t, t);
}
