/* show.c - the value of a cell's last expression. */
#include <lockstep/notebook.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "display.h"
#include "picture.h"
#include "table.h"

static void show(const char *words, size_t size)
{
    session_message message = {.event = SESSION_RESULT};
    display_send(&message, &(display_data){"text/plain", words, size}, 1);
}

LS_PRINTF(1, 2) static void show_words(const char *format, ...)
{
    char words[512];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    show(words, strlen(words));
}

void ls_notebook_show_bool(bool value)
{
    show_words("%s", value ? "true" : "false");
}

void ls_notebook_show_character(char value)
{
    if (value >= ' ' && value <= '~') show_words("'%c'", value);
    else show_words("'\\x%02x'", (unsigned)(unsigned char)value);
}

void ls_notebook_show_integer(long long value)
{
    show_words("%lld", value);
}

void ls_notebook_show_natural(unsigned long long value)
{
    show_words("%llu", value);
}

void ls_notebook_show_real(double value)
{
    show_words("%.7g", value);
}

void ls_notebook_show_text(const char *value)
{
    if (value) show(value, strlen(value));
    else show_words("NULL");
}

void ls_notebook_show_pointer(const void *value)
{
    if (value) show_words("%p", value);
    else show_words("NULL");
}

void ls_notebook_show_struct(size_t size)
{
    show_words("a struct of %zu bytes: name a member to see its value", size);
}

void ls_notebook_show_shape(ls_shape value)
{
    char words[32 * LS_MAX_DIMS + 3] = "[";
    for (int i = 0; i < value.ndim; i++)
        snprintf(words + strlen(words), 32, "%s%lld", i ? "," : "", (long long)value.dim[i]);
    strcat(words, "]");
    show(words, strlen(words));
}

void ls_notebook_show_tensor(ls_tensor *value)
{
    enum { MOST = 1 << 16 };
    char *words = value ? malloc(MOST) : NULL;
    if (!words) {
        show_words("NULL");
        return;
    }
    ls_format(value, words, MOST);
    size_t size = 0;
    char *table = table_of(value), *png = is_picture(value) ? picture_of(value, &size) : NULL;
    display_data forms[] = {{"text/plain", words, strlen(words)}, {"text/html", table, table ? strlen(table) : 0}};
    if (png) forms[1] = (display_data){"image/png", png, size};
    display_send(&(session_message){.event = SESSION_RESULT}, forms, table || png ? 2 : 1);
    free(table);
    free(png);
    free(words);
}

void ls_notebook_show_module(ls_module *value)
{
    char *words = NULL;
    size_t size = 0;
    FILE *to = value ? open_memstream(&words, &size) : NULL;
    if (!to) {
        show_words("NULL");
        return;
    }
    ls_describe(value, to);
    if (fclose(to) == 0) show(words, size);
    free(words);
}
