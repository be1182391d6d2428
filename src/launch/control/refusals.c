/* refusals.c - a few lines per time window, and a count of the rest. */
#include "launch/control/refusals.h"

#include "base/log.h"
#include "launch/control/loop.h"

#include <stdarg.h>
#include <stdio.h>

enum { MOST_SHOWN = 5 };
#define WINDOW 10.0 /* seconds */

void ls_refusals_sum_up(ls_refusals *r, bool now)
{
    bool over = ls_now() > r->since + (int64_t)(WINDOW * 1e9);
    if (!over && !now) return;
    if (r->hidden) ls_log_line(LS_LOG_WARN, "refused %ld more connections", r->hidden);
    *r = (ls_refusals){.since = ls_now()};
}

void ls_refusals_tell(ls_refusals *r, const char *format, ...)
{
    ls_refusals_sum_up(r, false);
    if (r->shown == MOST_SHOWN) {
        r->hidden++;
        return;
    }
    char words[600];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    r->shown++;
    ls_log_line(LS_LOG_WARN, "%s", words);
}
