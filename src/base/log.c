/* log.c - one line per message, written in one piece. */
#include "base/log.h"

#include "base/config.h"
#include "base/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

/* The least severe level shown: that of LOCKSTEP_LOG, or `fallback` if it is not set. */
static ls_log_level shown_or(ls_log_level fallback)
{
    /* Not pthread_once: reading the settings may itself log, and come back here. */
    enum { UNREAD = LS_LOG_LEVEL_COUNT, UNSET };
    static atomic_int said = UNREAD;
    int level = atomic_load_explicit(&said, memory_order_relaxed);
    if (level == UNREAD) {
        const char *wanted = ls_config_text(LS_SETTING_LOG);
        level = (int)level_named(wanted);
        bool known = level != LS_LOG_LEVEL_COUNT || !*wanted;
        if (level == LS_LOG_LEVEL_COUNT) level = UNSET;
        atomic_store(&said, level);
        if (!known) {
            LS_LOG_ONCE_OF_JOB(LS_LOG_WARN, "%s=%s is not one of error, warn, info, debug; using warn",
                               ls_config_row(LS_SETTING_LOG)->name, wanted);
            ls_config_refuse(LS_SETTING_LOG);
        }
    }
    return level == UNSET ? fallback : (ls_log_level)level;
}

bool ls_log_shows(ls_log_level level)
{
    return level <= shown_or(LS_LOG_WARN);
}

bool ls_log_shows_of_program(ls_log_level level)
{
    return level <= shown_or(LS_LOG_INFO);
}

/* "2026-01-31 12:34:56.789 " in local time; returns its length. */
static size_t write_time(char *to, size_t size)
{
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &parts);
    size_t length = strftime(to, size, "%Y-%m-%d %H:%M:%S", &parts);
    return length + (size_t)snprintf(to + length, size - length, ".%03d ", (int)(now.tv_nsec / 1000000));
}

void ls_log_from(const char *origin, ls_log_level level, const char *format, va_list args)
{
    char line[2048];
    size_t lead = ls_config_switch(LS_SETTING_LOG_TIME) ? write_time(line, sizeof line) : 0;
    int more = snprintf(line + lead, 1024, "%s%s", origin, levels[level].lead);
    lead += (size_t)(more < 1024 ? more : 1023);
    vsnprintf(line + lead, sizeof line - lead - 1, format, args); /* leaves room for the line break */
    size_t length = strlen(ls_printable(line, sizeof line, line));
    line[length] = '\n';
    ls_terminal_write(stderr, line, length + 1);
}

void ls_log_line(ls_log_level level, const char *format, ...)
{
    if (!ls_log_shows(level)) return;
    va_list args;
    va_start(args, format);
    ls_log_from("lockstep: ", level, format, args);
    va_end(args);
}

/* ---- for the job ---- */

static atomic_int known_rank = -1; /* set by a run; -1: not yet */

void ls_log_set_rank(int rank)
{
    atomic_store(&known_rank, rank);
}

static bool is_first(void)
{
    int rank = atomic_load_explicit(&known_rank, memory_order_relaxed);
    if (rank >= 0) return rank == 0;
    const char *text = ls_config_text(LS_SETTING_RANK);
    if (!*text) text = getenv("RANK"); /* Lockstep's launcher, and torchrun */
    return !text || !*text || strcmp(text, "0") == 0;
}

void ls_log_of_job(ls_log_level level, const char *format, ...)
{
    if (!ls_log_shows(level) || !is_first()) return;
    va_list args;
    va_start(args, format);
    ls_log_from("lockstep: ", level, format, args);
    va_end(args);
}

void ls_log_event(const char *format, ...)
{
    if (!ls_log_shows_of_program(LS_LOG_INFO) || !is_first()) return;
    va_list args;
    va_start(args, format);
    ls_log_from("lockstep: ", LS_LOG_INFO, format, args);
    va_end(args);
}
