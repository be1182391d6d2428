/* watch.h - runs in the browser, while they train or afterwards: curves, settings, checkpoints, the health of each
 * process. `lockstep watch` is these two calls; docs/watch.md shows the page. */
#ifndef LOCKSTEP_WATCH_H
#define LOCKSTEP_WATCH_H

#include <lockstep/run.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { LS_WATCH_PORT = 6116 };

typedef struct ls_watch_opts {
    int port LS_DEFAULT(LS_WATCH_PORT); /* 0: any that is free */
    ls_options_end _ LS_DEFAULT({});
} ls_watch_opts;
#define ls_watch_opts_defaults .port = LS_WATCH_PORT

/* Serve a page on 127.0.0.1 that shows the runs in a folder and in the folders below it. Prints the address on standard
 * output and returns when the process is told to end (ls_should_stop). Nothing is written, and nothing outside the
 * folder is read. Returns whether it could be served. */
#define ls_watch(run, ...) LS_CALL_2(ls_watch, ls_watch_opts, run, __VA_ARGS__, )
LS_API bool ls_watch_sized(ls_run *run, const char *folder, const ls_watch_opts *opts, size_t opts_size);

/* Write the same page, as the runs are now, into one HTML file that needs no server. Returns whether it was written. */
LS_API bool ls_watch_export(ls_run *run, const char *folder, const char *path);

#ifdef __cplusplus
}
#endif
#endif
