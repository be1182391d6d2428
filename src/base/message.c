/* message.c - write down why something failed. */
#include "base/message.h"

#include <stdio.h>

void ls_message_set_list(ls_message *why, const char *format, va_list args)
{
    if (why) vsnprintf(why->text, sizeof why->text, format, args);
}

void ls_message_set(ls_message *why, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    ls_message_set_list(why, format, args);
    va_end(args);
}

ls_status ls_explain(ls_message *why, ls_status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    ls_message_set_list(why, format, args);
    va_end(args);
    return code;
}
