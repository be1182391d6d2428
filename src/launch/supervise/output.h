/* output.h - output of workers: from their pipes, line by line, to this process's stdout or stderr and to files.
 *
 * A reader that does not read (a pager, a full pipe) must not stop the supervision. So nothing here blocks: a sink that
 * cannot take more is watched until it can, and meanwhile the pipes that feed it are not read, so that in the end the
 * workers block as if they wrote there themselves. */
#ifndef LOCKSTEP_LAUNCH_SUPERVISE_OUTPUT_H
#define LOCKSTEP_LAUNCH_SUPERVISE_OUTPUT_H

#include "launch/control/loop.h"

#include <stddef.h>

enum { LS_TAIL = 2048, LS_LONGEST_LINE = 1 << 20 };

/* stdout or stderr of this process. */
typedef struct ls_output_sink {
    ls_watched_fd watch;
    int loop;
    bool broken; /* its reader is gone */
    char *queue; /* not written yet: at most one read of one stream */
    size_t queued, room;
    struct ls_output_stream *feeds; /* streams that write here; they add themselves */
} ls_output_sink;

/* One stream of one worker. */
typedef struct ls_output_stream {
    ls_watched_fd watch; /* of the pipe's reading end; fd -1: closed or no pipe */
    int loop;
    ls_output_sink *sink; /* NULL: not shown */
    int file;             /* receives a copy; -1: none */
    char prefix[128];
    char *text; /* an unfinished line */
    size_t length, room;
    int64_t show_at;    /* when to show the unfinished line as it is */
    char tail[LS_TAIL]; /* the last bytes seen, in order */
    size_t tail_length;
    struct ls_output_stream *next; /* next stream of the same sink */
} ls_output_stream;

void ls_output_sink_open(ls_output_sink *sink, int loop, int fd);
void ls_output_sink_close(ls_output_sink *sink); /* does not close the file */
/* Insert a message of this process itself, in one piece. */
void ls_output_sink_say(ls_output_sink *sink, const char *text);
/* Write what is queued, waiting for the reader until the deadline. Other files are not handled meanwhile. */
void ls_output_sink_drain(ls_output_sink *sink, int64_t deadline);

/* Create the pipe and watch it. `stream` is closed or all zero; the caller sets its prefix. Returns the writing end,
 * for the worker; -1 if no file descriptors are left. */
int ls_output_stream_open(ls_output_stream *stream, int loop, ls_output_sink *sink, int file);
/* Read the rest, deliver all of it, close pipe and file. The last bytes stay in `tail`. */
void ls_output_stream_close(ls_output_stream *stream);
/* Show an unfinished line that has waited long enough; returns when to be called again. */
int64_t ls_output_stream_tick(ls_output_stream *stream, int64_t now);

#endif
