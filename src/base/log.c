/* log.c - one line per message, written in one piece. */
#include "base/log.h"

#include "base/config.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *lead;
} levels[LS_LOG_LEVEL_COUNT] = {
#define LS_LOG_LEVEL(symbol, name, lead) [symbol] = {name, lead},
    LS_LOG_LEVEL_LIST(LS_LOG_LEVEL)
#undef LS_LOG_LEVEL
};

static ls_log_level level_named(const char *name)
{
    for (int i = 0; i < LS_LOG_LEVEL_COUNT; i++) {
        if (strcmp(name, levels[i].name) == 0) return (ls_log_level)i;
    }
    return LS_LOG_LEVEL_COUNT;
}

bool ls_log_shows(ls_log_level level)
{
    /* Not pthread_once: reading the settings may itself log, and come back here. */
    static atomic_int least_severe = LS_LOG_LEVEL_COUNT;
    ls_log_level shown = (ls_log_level)atomic_load_explicit(&least_severe, memory_order_relaxed);
    if (shown == LS_LOG_LEVEL_COUNT) {
        const ls_setting_row *row = ls_config_row(LS_SETTING_LOG);
        const char *wanted = ls_config_text(LS_SETTING_LOG);
        shown = level_named(wanted);
        bool known = shown != LS_LOG_LEVEL_COUNT;
        if (!known) shown = level_named(row->fallback);
        atomic_store(&least_severe, (int)shown);
        if (!known) {
            LS_LOG_ONCE(LS_LOG_WARN, "%s=%s is not one of error, warn, info, debug; using %s", row->name, wanted,
                        row->fallback);
        }
    }
    return level <= shown;
}

void ls_log_line(ls_log_level level, const char *format, ...)
{
    if (!ls_log_shows(level)) return;
    char line[2048];
    int lead = snprintf(line, sizeof line, "lockstep: %s", levels[level].lead);
    va_list args;
    va_start(args, format);
    vsnprintf(line + lead, sizeof line - (size_t)lead - 1, format, args); /* leaves room for the line break */
    va_end(args);
    size_t length = strlen(line);
    for (size_t i = 0; i < length; i++) {
        if (line[i] == '\n' || line[i] == '\r') line[i] = ' ';
    }
    line[length] = '\n';
    fwrite(line, 1, length + 1, stderr);
}
