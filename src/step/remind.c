/* remind.c - reminders of ls_prepare(). */
#include "step/remind.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"
#include "step/step.h"

void ls_remind_of_prepare(ls_run *run, ls_reminder reason, const char *format, ...)
{
    if (run->step->share.rank != 0 || run->step->reminded & (unsigned)reason) return;
    run->step->reminded |= (unsigned)reason;
    char text[800];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ls_log_line(LS_LOG_WARN, "%s: it was not passed to ls_prepare()", text);
}
