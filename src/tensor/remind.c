/* remind.c - reminders of ls_prepare(). */
#include "tensor/remind.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"
#include "tensor/context.h"

void ls_remind_of_prepare(ls_run *run, ls_reminder reason, const char *format, ...)
{
    if (run->share.rank != 0 || run->reminded & (unsigned)reason) return;
    run->reminded |= (unsigned)reason;
    char text[800];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ls_log_line(LS_LOG_WARN, "%s: it was not handed to ls_prepare()", text);
}
