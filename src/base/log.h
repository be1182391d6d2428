/* log.h - messages for the user: one line each on stderr, prefixed with "lockstep: ".
 *
 * LOCKSTEP_LOG names the least severe level shown; by default the library's warnings, events of the job
 * (ls_log_event) and the program's own messages (track.h) are shown. May be called from any thread. */
#ifndef LOCKSTEP_BASE_LOG_H
#define LOCKSTEP_BASE_LOG_H

#include <lockstep/base.h>

#include <stdarg.h>
#include <stdatomic.h>

/* True if messages of this level are shown, of both the library and the program; for callers whose message is
 * expensive to make. */
bool ls_log_shows(ls_log_level level);
bool ls_log_shows_of_program(ls_log_level level);

/* Text beyond about 2000 bytes is cut off; it passes through ls_printable(), so it may contain untrusted text. */
LS_PRINTF(2, 3) void ls_log_line(ls_log_level level, const char *format, ...);
/* About the whole job, not only this process: printed by its first process only. The rank comes from ls_log_set_rank(),
 * which ls_init() calls, and before that from LOCKSTEP_RANK or RANK. A process without a rank is the first. */
LS_PRINTF(2, 3) void ls_log_of_job(ls_log_level level, const char *format, ...);
void ls_log_set_rank(int rank);
/* An event of the job that every reader of its output should see, although nothing is wrong: it resumes from a
 * checkpoint, or was told to end. Shown like the program's own messages, by the first process only. */
LS_PRINTF(1, 2) void ls_log_event(const char *format, ...);
/* Like ls_log_line(), but regardless of the level in force and with `origin` as the prefix. */
LS_PRINTF(3, 0) void ls_log_from(const char *origin, ls_log_level level, const char *format, va_list args);

/* The first two, but only the first time this line is reached in the process. */
#define LS_LOG_ONCE(level, ...) LS_LOG_ONCE_BY(ls_log_line, level, __VA_ARGS__)
#define LS_LOG_ONCE_OF_JOB(level, ...) LS_LOG_ONCE_BY(ls_log_of_job, level, __VA_ARGS__)
#define LS_LOG_ONCE_BY(say, level, ...)                                                                                \
    do {                                                                                                               \
        static atomic_flag logged_here_ = ATOMIC_FLAG_INIT;                                                            \
        if (!atomic_flag_test_and_set(&logged_here_)) say(level, __VA_ARGS__);                                         \
    } while (0)

#endif
