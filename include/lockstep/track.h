/* track.h - what a program tells about its training: messages and a progress bar.
 *
 *     ls_progress *bar = ls_progress_new(run, steps, .label = "train");
 *     ...
 *     ls_progress_show(bar, "loss", loss);
 *     ls_progress_step(bar, 1);
 *     ls_info(run, "epoch %d took %.1f s", epoch, seconds);
 *
 * All of this is done by the main process alone, unless said otherwise: in the others these calls do nothing. What the
 * functions make belongs to the run and is freed with it; every function accepts NULL. */
#ifndef LOCKSTEP_TRACK_H
#define LOCKSTEP_TRACK_H

#include <lockstep/run.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Messages ----
 *
 * One line each on standard error. LOCKSTEP_LOG names the least severe level shown (info, when it is not set); with
 * LOCKSTEP_LOG_TIME=1 the line begins with the time, where there are several processes with "[rank 2] ", and at level debug
 * with the file and line of the call. The run may be NULL, where there is none yet. */

#define ls_info(run, ...) ls_log_main((run), LS_LOG_INFO, __VA_ARGS__)
#define ls_warn(run, ...) ls_log_main((run), LS_LOG_WARN, __VA_ARGS__)
#define ls_debug(run, ...) ls_log_main((run), LS_LOG_DEBUG, __VA_ARGS__)

#define ls_log_main(run, level, ...)                                                                                   \
    ls_log_at((run), (level), (ls_log_place){__FILE__, __LINE__, false, NULL}, __VA_ARGS__)
/* From every process. */
#define ls_log_all(run, level, ...)                                                                                    \
    ls_log_at((run), (level), (ls_log_place){__FILE__, __LINE__, true, NULL}, __VA_ARGS__)
/* A warning that is shown the first time this line of the program is reached, and never again. */
#define ls_warn_once(run, ...)                                                                                         \
    do {                                                                                                               \
        static int warned_here_;                                                                                       \
        ls_log_at((run), LS_LOG_WARN, (ls_log_place){__FILE__, __LINE__, false, &warned_here_}, __VA_ARGS__);          \
    } while (0)

typedef struct ls_log_place {
    const char *file;
    int line;
    bool every_process;
    int *once; /* NULL, or what becomes 1 when the message is shown, and keeps it from being shown again */
} ls_log_place;
LS_API LS_PRINTF(4, 5) void ls_log_at(const ls_run *run, ls_log_level level, ls_log_place place, const char *format,
                                      ...);

/* ---- Progress ----
 *
 *     train 42% [=========>            ] 420/1000  8.1 steps/s  1:11 left  loss 0.1234
 *
 * A line at the bottom of the terminal, drawn at most ten times a second; what the library prints appears above it. Where
 * standard error is not a terminal there is one line at the end: "train: 1000 steps in 2:03, 8.1 steps/s, loss 0.1234".
 * In narrow terminals first the bar goes, then what stands at the right. */

typedef struct ls_progress ls_progress;

typedef struct ls_progress_opts {
    int _;
    const char *label;  /* in front of everything; none */
    const char *unit;   /* of what is counted; "step" */
    int64_t done;       /* steps that were made before, as after a resume: they count, but not for the rate */
    bool every_process; /* show it in all of them, not in the main process alone */
    bool quiet;         /* show nothing */
} ls_progress_opts;

/* `total` is the number of steps to come and done before; 0 when it is not known. */
#define ls_progress_new(run, ...) LS_PROGRESS_NEW_(run, __VA_ARGS__, ._ = 0)
#define LS_PROGRESS_NEW_(run, total, ...) ls_progress_sized((run), (total), LS_OPTS(ls_progress_opts, __VA_ARGS__))
LS_API ls_progress *ls_progress_sized(ls_run *run, int64_t total, const ls_progress_opts *opts, size_t opts_size);

/* Count steps. Below 0.1 us where nothing is drawn. */
LS_API void ls_progress_step(ls_progress *bar, int64_t steps);
/* Show a value at the end of the line, from the next time it is drawn; up to eight names, of which 23 bytes are kept. */
LS_API void ls_progress_show(ls_progress *bar, const char *name, double value);
/* Leave the line as it is now, and free the bar. The run does so where the program does not. */
LS_API void ls_progress_end(ls_progress *bar);

#ifdef __cplusplus
}
#endif
#endif
