/* failure.c - what failed in a cell that ran to its end: a run, a launched job. */
#include <stdarg.h>
#include <stdio.h>

#include "session.h"

/* Of the running cell, as cells have no session to pass around. The first failure explains those that follow. */
static char failed_kind[WIRE_NAME], failed_words[2048];

void failure_begin(void)
{
    failed_kind[0] = '\0';
}

void failure_note(const char *kind, const char *format, ...)
{
    if (failed_kind[0]) return;
    snprintf(failed_kind, sizeof failed_kind, "%s", kind);
    va_list values;
    va_start(values, format);
    vsnprintf(failed_words, sizeof failed_words, format, values);
    va_end(values);
}

const char *failure_kind(void)
{
    return failed_kind;
}

const char *failure_words(void)
{
    return failed_words;
}
