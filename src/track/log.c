/* log.c - messages of the program, with the process and the source location. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <lockstep/track.h>

#include "base/log.h"

/* True on the first call for this word; thread-safe. */
static bool first_time(int *word)
{
    int unseen = 0;
    return __atomic_compare_exchange_n(word, &unseen, 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

void ls_log_at(const ls_run *run, ls_log_level level, ls_log_place place, const char *format, ...)
{
    if ((int)level < 0 || level >= LS_LOG_LEVEL_COUNT || !ls_log_shows_of_program(level)) return;
    if (run && !ls_is_main(run) && !place.every_process) return;
    if (place.once && !first_time(place.once)) return;

    char origin[320] = "";
    int length = 0;
    if (run && ls_world_size(run) > 1) length = snprintf(origin, sizeof origin, "[rank %d] ", ls_rank(run));
    if (ls_log_shows_of_program(LS_LOG_DEBUG)) {
        const char *slash = strrchr(place.file, '/');
        snprintf(origin + length, sizeof origin - (size_t)length, "%.200s:%d: ", slash ? slash + 1 : place.file,
                 place.line);
    }
    va_list args;
    va_start(args, format);
    ls_log_from(origin, level, format, args);
    va_end(args);
}
