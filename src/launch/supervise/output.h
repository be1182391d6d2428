/* output.h - what workers write: from their pipes, line by line, to this process's stdout or stderr and to files.
 *
 * A reader that does not read (a pager, a full pipe) must not stop the supervision. So nothing here blocks: a sink that
 * cannot take more is watched until it can, and until then the pipes that feed it are not read, which in the end makes
 * the workers wait, as if they wrote there themselves. */
#ifndef LOCKSTEP_LAUNCH_SUPERVISE_OUTPUT_H
#define LOCKSTEP_LAUNCH_SUPERVISE_OUTPUT_H

#include "launch/control/loop.h"

#include <stddef.h>

enum { LS_TAIL = 2048, LS_LONGEST_LINE = 1 << 20 };

/* stdout or stderr of this process. */
typedef struct ls_output_sink {
    ls_watch watch;
    int loop;
    bool broken; /* nobody reads there any more */
    char *queue; /* what could not be written yet: at most what one stream gave at once */
    size_t queued, room;
    struct ls_output_stream *feeds; /* the streams that end here; they enter by themselves */
} ls_output_sink;

/* One stream of one worker. */
typedef struct ls_output_stream {
    ls_watch watch; /* of the pipe's reading end; fd -1: closed, or there is no pipe */
    int loop;
    ls_output_sink *sink; /* NULL: not shown */
    int file;             /* a copy goes here; -1: nowhere */
    char prefix[128];
    char *text; /* an unfinished line */
    size_t length, room;
    int64_t show_at;    /* when the unfinished line is shown as it is */
    char tail[LS_TAIL]; /* the last bytes seen, in order */
    size_t tail_length;
    struct ls_output_stream *next; /* another one that feeds the same sink */
} ls_output_stream;

void ls_output_sink_open(ls_output_sink *sink, int loop, int fd);
void ls_output_sink_close(ls_output_sink *sink); /* the file stays open */
/* Put in, as a whole, a message of this process itself. */
void ls_output_sink_say(ls_output_sink *sink, const char *text);
/* Give what is queued to the reader, waiting for it, up to the deadline. Other files are not looked after meanwhile. */
void ls_output_sink_drain(ls_output_sink *sink, int64_t deadline);

/* Make the pipe and watch it. `stream` is one that was closed, or all zero; its prefix is the caller's business.
 * Returns the writing end, for the worker; -1 when there are no more files. */
int ls_output_stream_open(ls_output_stream *stream, int loop, ls_output_sink *sink, int file);
/* Read what is left, hand all of it on, close pipe and file. What was seen last stays in `tail`. */
void ls_output_stream_close(ls_output_stream *stream);
/* Show an unfinished line that has waited long enough; returns when to come again. */
int64_t ls_output_stream_tick(ls_output_stream *stream, int64_t now);

#endif
