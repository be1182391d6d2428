/* track.h - reporting on training: messages, a progress bar, recorded values, plots of them.
 *
 *     ls_tracker_new(run, "all", .name = "mnist");               files in runs/mnist: TensorBoard, JSON lines, CSV
 *     ls_track_config(run, {"lr", 1e-3}, {"batch", 64});
 *     ls_progress *bar = ls_progress_new(run, steps, .label = "train");
 *     ...
 *     ls_track(run, step, {"loss", loss}, {"lr", rate});
 *     ls_progress_show(bar, "loss", loss);
 *     ls_progress_step(bar, 1);
 *     ls_info(run, "epoch %d took %.1f s", epoch, seconds);
 *
 * Unless noted, only the main process reports: in the others these calls do nothing. Objects belong to the run and are
 * freed with it; every function accepts NULL. docs/tracking.md describes the files. */
#ifndef LOCKSTEP_TRACK_H
#define LOCKSTEP_TRACK_H

#include <lockstep/run.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Messages ----
 *
 * One line each on standard error. LOCKSTEP_LOG names the least severe level shown (default: info). A line begins with
 * the time if LOCKSTEP_LOG_TIME=1, with "[rank 2] " if there are several processes, and with the file and line of the
 * call at level debug. The run may be NULL if there is none yet. */

#define ls_info(run, ...) ls_log_main((run), LS_LOG_INFO, __VA_ARGS__)
#define ls_warn(run, ...) ls_log_main((run), LS_LOG_WARN, __VA_ARGS__)
#define ls_debug(run, ...) ls_log_main((run), LS_LOG_DEBUG, __VA_ARGS__)

#define ls_log_main(run, level, ...)                                                                                   \
    ls_log_at((run), (level), LS_LITERAL(ls_log_place){__FILE__, __LINE__, false, NULL}, __VA_ARGS__)
/* From every process. */
#define ls_log_all(run, level, ...)                                                                                    \
    ls_log_at((run), (level), LS_LITERAL(ls_log_place){__FILE__, __LINE__, true, NULL}, __VA_ARGS__)
/* A warning that is shown only the first time this line of the program is reached. */
#define ls_warn_once(run, ...)                                                                                         \
    do {                                                                                                               \
        static int warned_here_;                                                                                       \
        ls_log_at((run), LS_LOG_WARN, LS_LITERAL(ls_log_place){__FILE__, __LINE__, false, &warned_here_},              \
                  __VA_ARGS__);                                                                                        \
    } while (0)

typedef struct ls_log_place {
    const char *file;
    int line;
    bool every_process;
    int *once; /* NULL, or a flag that is set when the message is shown and suppresses it from then on */
} ls_log_place;
LS_API LS_PRINTF(4, 5) void ls_log_at(const ls_run *run, ls_log_level level, ls_log_place place, const char *format,
                                      ...);

/* ---- Progress ----
 *
 *     train 42% [=========>            ] 420/1000  8.1 steps/s  1:11 left  loss 0.1234
 *
 * A line at the bottom of the terminal, drawn at most ten times a second; output of the library appears above it. If
 * standard error is not a terminal there is one line at the end: "train: 1000 steps in 2:03, 8.1 steps/s, loss
 * 0.1234". In narrow terminals the bar is dropped first, then items from the right. */

typedef struct ls_progress ls_progress;
typedef struct ls_loader ls_loader; /* data.h */
typedef struct ls_batch ls_batch;

typedef struct ls_progress_opts {
    const char *label LS_DEFAULT(NULL); /* in front of everything */
    const char *unit LS_DEFAULT(NULL);  /* what is counted, in the singular; NULL is "step" */
    int64_t done LS_DEFAULT(0);         /* steps made earlier, as after a resume: part of the total, not of the rate */
    bool every_process LS_DEFAULT(false); /* show it in all of them, not only in the main process */
    bool quiet LS_DEFAULT(false);         /* show nothing */
    ls_options_end _ LS_DEFAULT({});
} ls_progress_opts;
#define ls_progress_opts_defaults .done = 0

/* `total` is the number of steps, including those in .done; 0 if unknown. */
#define ls_progress_new(run, ...) LS_CALL_2(ls_progress_new, ls_progress_opts, run, __VA_ARGS__, )
LS_API ls_progress *ls_progress_new_sized(ls_run *run, int64_t total, const ls_progress_opts *opts, size_t opts_size);

/* Count steps. Takes less than 0.1 us if nothing is drawn. */
LS_API void ls_progress_step(ls_progress *bar, int64_t steps);
/* The next batch of a loader, counting the one before it as a step:
 * for (ls_batch b; ls_progress_next(bar, train, &b);) */
LS_API bool ls_progress_next(ls_progress *bar, ls_loader *loader, ls_batch *batch);
/* Show a value at the end of the line, from the next time it is drawn; up to eight names,
 * of which 23 bytes are kept. */
LS_API void ls_progress_show(ls_progress *bar, const char *name, double value);
/* Leave the line as it is now, and free the bar. ls_finish() does so for bars that are left. */
LS_API void ls_progress_free(ls_progress *bar);

/* Bars for another place than a terminal, such as a notebook. From now on a function of the program shows all bars that
 * this process would show; NULL: the terminal does again. Bars that exist stay where they are. */
typedef struct ls_progress_state {
    int64_t number;      /* of the bar, counted from 1 in this process */
    const char *line;    /* as on a terminal of 100 columns; valid until the function returns */
    int64_t done, total; /* steps; a total of 0 is unknown */
    bool ended;          /* it will not change any more */
} ls_progress_state;
typedef void ls_progress_fn(const ls_progress_state *state, void *user);
LS_API void ls_progress_register_display(ls_progress_fn *show, void *user);

/* ---- Recorded values ----
 *
 * A tracker writes recorded values into a folder:
 *     "tensorboard"  events.out.tfevents.*    for TensorBoard, a new file in every session
 *     "jsonl"        values.jsonl             {"step":10,"time":1790000000.123,"loss":0.25,"lr":0.001}, a line per call
 *     "csv"          values.csv               a column per name; when a new name comes, older rows get an empty cell
 * and the configuration into config.json. Existing files are appended to. Every call is written at once; a line that
 * was cut off by a crash is removed when the folder is opened again. If something cannot be written (disk full), there
 * is one warning, and training continues. */

typedef struct ls_tracker ls_tracker;

typedef struct ls_tracker_opts {
    const char *project_dir LS_DEFAULT(NULL); /* NULL is "runs" in the project_dir of ls_init() */
    /* Folder of this run in it, also "a/b"; NULL: a new one, by date and time. "." puts the files into project_dir. */
    const char *name LS_DEFAULT(NULL);
    ls_options_end _ LS_DEFAULT({});
} ls_tracker_opts;
#define ls_tracker_opts_defaults .name = NULL

/* `kinds`: one of those above, several separated by commas, or "all". A run may have several trackers; ls_track()
 * and the others write to each. NULL in processes that record nothing. */
#define ls_tracker_new(run, ...) LS_CALL_2(ls_tracker_new, ls_tracker_opts, run, __VA_ARGS__, )
LS_API ls_tracker *ls_tracker_new_sized(ls_run *run, const char *kinds, const ls_tracker_opts *opts, size_t opts_size);
LS_API const char *ls_tracker_folder(const ls_tracker *tracker); /* "" for NULL */
/* Close the files and free it. ls_finish() does so for trackers that are left. */
LS_API void ls_tracker_free(ls_tracker *tracker);

typedef struct ls_value {
    const char *name;
    double number;
} ls_value;

#define LS_MAX_BINS 64
typedef struct ls_histogram {
    int64_t count;                     /* elements */
    double min, max, sum, sum_squares; /* of them */
    int bins;
    double limit[LS_MAX_BINS]; /* upper ends of the bins, ascending */
    double size[LS_MAX_BINS];  /* elements in each */
} ls_histogram;

/* ---- A tracker of one's own ----
 *
 *     ls_custom_tracker_new(run, .values = send_values, .user = &connection);
 *
 * Functions that get what is recorded, in the main process, when it is recorded; each may be NULL. What they are passed
 * is valid during the call. */
typedef void ls_track_values_fn(int64_t step, const ls_value *values, int64_t count, void *user);
typedef void ls_track_text_fn(int64_t step, const char *name, const char *text, void *user);
/* A setting: `text` is NULL for a number. */
typedef void ls_track_config_fn(const char *name, double number, const char *text, void *user);
/* Rows of RGB bytes [height, width, 3]. */
typedef void ls_track_image_fn(int64_t step, const char *name, const uint8_t *rgb, int64_t height, int64_t width,
                               void *user);
typedef void ls_track_histogram_fn(int64_t step, const char *name, const ls_histogram *histogram, void *user);
/* The tracker is freed, at the latest by ls_finish(); did the run succeed? */
typedef void ls_track_close_fn(bool succeeded, void *user);

typedef struct ls_custom_tracker_opts {
    ls_track_values_fn *values LS_DEFAULT(NULL);
    ls_track_text_fn *text LS_DEFAULT(NULL);
    ls_track_config_fn *config LS_DEFAULT(NULL);
    ls_track_image_fn *image LS_DEFAULT(NULL);
    ls_track_histogram_fn *histogram LS_DEFAULT(NULL);
    ls_track_close_fn *close LS_DEFAULT(NULL);
    void *user LS_DEFAULT(NULL);
    ls_options_end _ LS_DEFAULT({});
} ls_custom_tracker_opts;
#define ls_custom_tracker_opts_defaults .user = NULL

/* NULL in processes that record nothing. It has no folder. */
#define ls_custom_tracker_new(...) LS_CALL_1(ls_custom_tracker_new, ls_custom_tracker_opts, __VA_ARGS__, )
LS_API ls_tracker *ls_custom_tracker_new_sized(ls_run *run, const ls_custom_tracker_opts *opts, size_t opts_size);

/* ---- Recording ---- */

/* Record numbers: ls_track(run, step, {"loss", loss}, {"lr", rate}).
 * Names may have slashes to group them ("eval/loss"). */
#define ls_track(run, step, ...) ls_track_n((run), (step), LS_ITEMS(ls_value, __VA_ARGS__))
LS_API void ls_track_n(ls_run *run, int64_t step, const ls_value *values, int64_t count);
/* Record a text. */
LS_API void ls_track_text(ls_run *run, int64_t step, const char *name, const char *text);

/* Record pictures: [C,H,W], or a grid of [N,C,H,W], as for ls_image_write(): C is 1 or 3, numbers are u8 or
 * floating in 0..1. For TensorBoard and for trackers of one's own: the other formats hold no pictures. */
LS_API void ls_track_image(ls_run *run, int64_t step, const char *name, ls_tensor *image);

/* How many of a tensor's elements lie where, e.g. of a weight or its gradient. Those that are not finite are left out.
 * For the same formats as pictures. */
LS_API void ls_track_histogram(ls_run *run, int64_t step, const char *name, ls_tensor *values);

/* Record the settings of the run: ls_track_config(run, {"lr", 1e-3}, {"epochs", 3}). Settings recorded before the first
 * value become TensorBoard's hyperparameters; a name recorded again replaces its value. */
#define ls_track_config(run, ...) ls_track_config_n((run), LS_ITEMS(ls_value, __VA_ARGS__))
LS_API void ls_track_config_n(ls_run *run, const ls_value *values, int64_t count);
LS_API void ls_track_config_text(ls_run *run, const char *name, const char *text);

/* ---- Reading back ---- */

/* Points joined by a line, in the order of x. A y that is not a number leaves a gap. */
typedef struct ls_curve {
    const char *name;
    int64_t count;
    const double *x, *y;
} ls_curve;

typedef struct ls_history ls_history;

/* What a run has recorded, from its folder or from one of the files in it, also while it is still running. If a step
 * was recorded twice, because a run was resumed from an earlier step, the later values count. */
LS_API ls_history *ls_history_read(ls_run *run, const char *path);
LS_API int64_t ls_history_count(const ls_history *history);
/* The values of one name over the steps, owned by the history. No points if there is no such name. */
LS_API ls_curve ls_history_at(const ls_history *history, int64_t i);
LS_API ls_curve ls_history_find(const ls_history *history, const char *name);
LS_API void ls_history_free(ls_history *history);

/* ---- Plots ----
 *
 *     ls_plot *plot = ls_plot_new(run, .smooth = 0.9);
 *     ls_plot_add_history(plot, ls_history_read(run, "runs/mnist"), "loss,accuracy");
 *     ls_plot_write(plot, "curve.svg");
 *
 * A plot has one panel or several, side by side, each with axes of its own. */

typedef struct ls_plot ls_plot;

typedef struct ls_plot_opts {
    const char *title LS_DEFAULT(NULL);   /* above everything */
    const char *x_label LS_DEFAULT(NULL); /* NULL is "step" */
    /* Pixels; LS_AUTO: 880 x 520 for one panel, 520 x 360 for each of several. */
    int width LS_DEFAULT(LS_AUTO), height LS_DEFAULT(LS_AUTO);
    /* 0 to below 1: draw exponential running means with this weight on the past, per point of the densest curve. */
    double smooth LS_DEFAULT(0);
    bool log_x LS_DEFAULT(false), log_y LS_DEFAULT(false); /* logarithmic axes; points not above zero are left out */
    /* Curves of a panel side by side, each with the same axes, instead of on top of each other. */
    bool beside LS_DEFAULT(false);
    ls_options_end _ LS_DEFAULT({});
} ls_plot_opts;
#define ls_plot_opts_defaults .width = LS_AUTO, .height = LS_AUTO
#define ls_plot_new(...) LS_CALL_1(ls_plot_new, ls_plot_opts, __VA_ARGS__, )
LS_API ls_plot *ls_plot_new_sized(ls_run *run, const ls_plot_opts *opts, size_t opts_size);

/* Draw a curve in the panel of this title, which is created if missing. The points are copied. If a panel has several
 * curves, a legend shows their names. */
LS_API void ls_plot_add(ls_plot *plot, const char *panel, ls_curve curve);
/* Draw what was recorded. `keys` are names separated by commas, each in a panel of its own; names joined by "+" share
 * one: "lr,loss+eval/loss". NULL: all, each in its own. A key that was not recorded is an error. */
typedef struct ls_plot_add_history_opts {
    const char *name LS_DEFAULT(NULL); /* of the run, for plots of several runs */
    ls_options_end _ LS_DEFAULT({});
} ls_plot_add_history_opts;
#define ls_plot_add_history_opts_defaults .name = NULL
#define ls_plot_add_history(plot, history, ...)                                                                        \
    LS_CALL_3(ls_plot_add_history, ls_plot_add_history_opts, plot, history, __VA_ARGS__, )
LS_API void ls_plot_add_history_sized(ls_plot *plot, const ls_history *history, const char *keys,
                                      const ls_plot_add_history_opts *opts, size_t opts_size);
/* Write the plot as .svg or .png, by the end of the path. Returns whether it was written. */
LS_API bool ls_plot_write(ls_plot *plot, const char *path);
LS_API void ls_plot_free(ls_plot *plot);

#ifdef __cplusplus
}
#endif
#endif
