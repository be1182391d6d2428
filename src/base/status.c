/* status.c - record the first failure. */
#include "base/status.h"

#include "base/caller.h"
#include "base/config.h"
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ls_status ls_fail(ls_errors *errors, ls_status code, const char *format, ...)
{
    if (errors->code != LS_OK || code == LS_OK) return code;
    errors->code = code;
    int lead = errors->path[0] ? snprintf(errors->message, sizeof errors->message, "%s: ", errors->path) : 0;
    va_list args;
    va_start(args, format);
    vsnprintf(errors->message + lead, sizeof errors->message - (size_t)lead, format, args);
    va_end(args);
    ls_printable(errors->message, sizeof errors->message, errors->message);
    ls_caller_text(errors->caller, sizeof errors->caller);
    if (errors->abort_on_fail || ls_config_switch(LS_SETTING_ABORT)) {
        ls_log_line(LS_LOG_ERROR, "%s: %s", ls_status_text(code), errors->message);
        abort();
    }
    return code;
}

void ls_fail_more(ls_errors *errors, const char *format, ...)
{
    if (errors->code == LS_OK) return;
    size_t used = strlen(errors->message);
    va_list args;
    va_start(args, format);
    vsnprintf(errors->message + used, sizeof errors->message - used, format, args);
    va_end(args);
    ls_printable(errors->message, sizeof errors->message, errors->message);
}

void ls_errors_print(ls_errors *errors, bool of_job)
{
    const char *caller = errors->caller;
    if (errors->code == LS_OK || errors->printed) return;
    errors->printed = true;
    (of_job ? ls_log_of_job : ls_log_line)(LS_LOG_ERROR, "%s%s%s%s", errors->message, caller[0] ? " (called from " : "",
                                           caller, caller[0] ? ")" : "");
}

void ls_errors_clear(ls_errors *errors)
{
    errors->code = LS_OK;
    errors->printed = false;
    errors->message[0] = errors->caller[0] = '\0';
}
