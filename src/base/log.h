/* log.h - messages for the person at the terminal: one line each on stderr, "lockstep: " in front.
 *
 * LOCKSTEP_LOG names the least severe level shown (default: warn). May be called from any thread. */
#ifndef LOCKSTEP_BASE_LOG_H
#define LOCKSTEP_BASE_LOG_H

#include <lockstep/base.h>

#include <stdatomic.h>

/* LS_LOG_LEVEL(symbol, "name", "what stands before the text"), most severe first. */
#define LS_LOG_LEVEL_LIST(LS_LOG_LEVEL)                                                                                \
    LS_LOG_LEVEL(LS_LOG_ERROR, "error", "error: ")                                                                     \
    LS_LOG_LEVEL(LS_LOG_WARN, "warn", "warning: ")                                                                     \
    LS_LOG_LEVEL(LS_LOG_INFO, "info", "")                                                                              \
    LS_LOG_LEVEL(LS_LOG_DEBUG, "debug", "debug: ")

typedef enum ls_log_level {
#define LS_LOG_LEVEL(symbol, name, lead) symbol,
    LS_LOG_LEVEL_LIST(LS_LOG_LEVEL)
#undef LS_LOG_LEVEL
        LS_LOG_LEVEL_COUNT
} ls_log_level;

/* True when messages of this level are shown; for callers whose message is expensive to make. */
bool ls_log_shows(ls_log_level level);

/* Text beyond about 2000 bytes is cut; line breaks become spaces. */
LS_PRINTF(2, 3) void ls_log_line(ls_log_level level, const char *format, ...);

/* The same, but only the first time this place is reached in the process. */
#define LS_LOG_ONCE(level, ...)                                                                                        \
    do {                                                                                                               \
        static atomic_flag logged_here_ = ATOMIC_FLAG_INIT;                                                            \
        if (!atomic_flag_test_and_set(&logged_here_)) ls_log_line(level, __VA_ARGS__);                                      \
    } while (0)

#endif
