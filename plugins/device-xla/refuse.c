/* refuse.c - why something failed. */
#include <stdarg.h>
#include <stdio.h>

#include "pjrt.h"

ls_status xla_refuse(ls_message *why, ls_status status, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(why->text, sizeof why->text, format, list);
    va_end(list);
    return status;
}
