/* log.h - messages for the person at the terminal: one line each on stderr, "lockstep: " in front.
 *
 * LOCKSTEP_LOG names the least severe level shown; unless it says otherwise, the library's warnings, turns
 * in the course of the job and what the program itself wants known (track.h) are. May be called from any thread. */
#ifndef LOCKSTEP_BASE_LOG_H
#define LOCKSTEP_BASE_LOG_H

#include <lockstep/base.h>

#include <stdarg.h>
#include <stdatomic.h>

/* True when messages of this level are shown, those of the library and those of the program; for callers whose message
 * is expensive to make. */
bool ls_log_shows(ls_log_level level);
bool ls_log_shows_of_program(ls_log_level level);

/* Text beyond about 2000 bytes is cut; ls_printable() is what is shown, so that text of others may stand in it. */
LS_PRINTF(2, 3) void ls_log_line(ls_log_level level, const char *format, ...);
/* Of the whole job, not of this process alone: only the first of its processes says it. Which one this is, ls_init()
 * tells by ls_log_set_rank(); before that LOCKSTEP_RANK or RANK does. A process that was told nothing is the first. */
LS_PRINTF(2, 3) void ls_log_of_job(ls_log_level level, const char *format, ...);
void ls_log_set_rank(int rank);
/* A turn in the course of the job that whoever reads its output has to see, although nothing is wrong: it goes on from
 * a checkpoint, or was told to end. Shown as the program's own messages are, of the first process alone. */
LS_PRINTF(1, 2) void ls_log_turn(const char *format, ...);
/* The same as ls_log_line() whatever the level in force, with another origin than "lockstep: " in front. */
LS_PRINTF(3, 0) void ls_log_from(const char *origin, ls_log_level level, const char *format, va_list args);

/* The first two, but only the first time this place is reached in the process. */
#define LS_LOG_ONCE(level, ...) LS_LOG_ONCE_BY(ls_log_line, level, __VA_ARGS__)
#define LS_LOG_ONCE_OF_JOB(level, ...) LS_LOG_ONCE_BY(ls_log_of_job, level, __VA_ARGS__)
#define LS_LOG_ONCE_BY(say, level, ...)                                                                                \
    do {                                                                                                               \
        static atomic_flag logged_here_ = ATOMIC_FLAG_INIT;                                                            \
        if (!atomic_flag_test_and_set(&logged_here_)) say(level, __VA_ARGS__);                                         \
    } while (0)

#endif
