/* output.c - lines of many workers on one terminal. */
#include "launch/supervise/output.h"

#include "base/log.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define UNFINISHED_WAITS 0.2 /* seconds, after which a line without a break, such as a prompt, is shown */

/* ---- Sinks ---------------------------------------------------------------------------------------------------- */

/* Write without blocking: a pipe that poll() reports as writable takes PIPE_BUF bytes. */
static void flush(ls_output_sink *sink)
{
    size_t done = 0;
    while (done < sink->queued && !sink->broken) {
        struct pollfd ready = {.fd = sink->watch.fd, .events = POLLOUT};
        if (poll(&ready, 1, 0) != 1) break;
        size_t piece = sink->queued - done < PIPE_BUF ? sink->queued - done : PIPE_BUF;
        ssize_t written = write(sink->watch.fd, sink->queue + done, piece);
        if (written >= 0) done += (size_t)written;
        else if (errno != EINTR && errno != EAGAIN) sink->broken = true;
    }
    if (sink->broken) done = sink->queued;
    sink->queued -= done;
    if (sink->queued) memmove(sink->queue, sink->queue + done, sink->queued);
}

/* Write what can be written; while something is left, the pipes that feed this sink are not read. */
static void settle(ls_output_sink *sink)
{
    flush(sink);
    bool full = sink->queued > 0;
    ls_loop_watch(sink->loop, &sink->watch, full ? EPOLLOUT : 0);
    for (ls_output_stream *stream = sink->feeds; stream; stream = stream->next)
        ls_loop_watch(sink->loop, &stream->watch, full ? 0 : EPOLLIN);
}

static bool sink_ready(ls_watched_fd *watch, uint32_t events)
{
    (void)events;
    settle(watch->owner);
    return true;
}

void ls_output_sink_open(ls_output_sink *sink, int loop, int fd)
{
    memset(sink, 0, sizeof *sink);
    sink->loop = loop;
    sink->watch = (ls_watched_fd){.fd = fd, .ready = sink_ready, .owner = sink};
}

void ls_output_sink_close(ls_output_sink *sink)
{
    ls_loop_watch(sink->loop, &sink->watch, 0);
    ls_sys_free(sink->queue);
    memset(sink, 0, sizeof *sink);
}

void ls_output_sink_drain(ls_output_sink *sink, int64_t deadline)
{
    flush(sink);
    while (sink->queued) {
        int64_t left = (deadline - ls_now()) / 1000000;
        struct pollfd ready = {.fd = sink->watch.fd, .events = POLLOUT};
        if (left <= 0 || poll(&ready, 1, left < INT_MAX ? (int)left : INT_MAX) < 1) return;
        flush(sink);
    }
}

static void put(ls_output_sink *sink, const char *text, size_t length)
{
    if (sink->broken || !length) return;
    if (sink->room - sink->queued < length) {
        size_t room = sink->queued + length + 4096;
        char *larger = ls_sys_realloc(sink->queue, room);
        if (!larger) return; /* lose output, not the job */
        sink->queue = larger;
        sink->room = room;
    }
    memcpy(sink->queue + sink->queued, text, length);
    sink->queued += length;
}

void ls_output_sink_say(ls_output_sink *sink, const char *text)
{
    put(sink, text, strlen(text));
    settle(sink);
}

/* ---- Streams -------------------------------------------------------------------------------------------------- */

/* A full disk ends the log, not the job. */
static void copy_to_file(ls_output_stream *stream, const char *text, size_t length)
{
    while (length && stream->file >= 0) {
        ssize_t written = write(stream->file, text, length);
        if (written >= 0) {
            text += written;
            length -= (size_t)written;
        } else if (errno != EINTR) {
            ls_log_line(LS_LOG_WARN, "launch: a log file ends here, and the job continues: %s", strerror(errno));
            close(stream->file);
            stream->file = -1;
        }
    }
}

static void remember(ls_output_stream *stream, const char *text, size_t length)
{
    if (length > LS_TAIL) {
        text += length - LS_TAIL;
        length = LS_TAIL;
    }
    size_t keep = stream->tail_length < LS_TAIL - length ? stream->tail_length : LS_TAIL - length;
    memmove(stream->tail, stream->tail + stream->tail_length - keep, keep);
    memcpy(stream->tail + keep, text, length);
    stream->tail_length = keep + length;
}

static void show(ls_output_stream *stream, const char *text, size_t length)
{
    if (!stream->sink) return;
    put(stream->sink, stream->prefix, strlen(stream->prefix));
    put(stream->sink, text, length);
}

/* A line ends after \n, and after the \r of a progress bar. */
static void show_lines(ls_output_stream *stream, size_t fresh)
{
    size_t from = 0, length = stream->length, known = length - fresh;
    for (size_t i = known ? known - 1 : 0; i < length; i++) { /* only now is it known whether a last \r ends a line */
        bool ends =
            stream->text[i] == '\n' || (stream->text[i] == '\r' && i + 1 < length && stream->text[i + 1] != '\n');
        if (!ends) continue;
        show(stream, stream->text + from, i + 1 - from);
        from = i + 1;
    }
    if (length - from >= LS_LONGEST_LINE) {
        show(stream, stream->text + from, length - from);
        from = length;
    }
    stream->length = length - from;
    memmove(stream->text, stream->text + from, stream->length);
    stream->show_at = stream->length ? ls_after(UNFINISHED_WAITS) : LS_NEVER;
}

static void show_rest(ls_output_stream *stream)
{
    if (stream->length) show(stream, stream->text, stream->length);
    stream->length = 0;
    stream->show_at = LS_NEVER;
}

/* The end of a stream ends its line, if lines are kept apart. */
static void show_last(ls_output_stream *stream)
{
    bool unfinished = stream->length > 0;
    show_rest(stream);
    if (unfinished && stream->sink && stream->prefix[0]) put(stream->sink, "\n", 1);
}

/* One read; returns the result of read(). */
static ssize_t take(ls_output_stream *stream)
{
    if (stream->room - stream->length < 4096) {
        size_t room = stream->room ? 2 * stream->room : 16384;
        char *larger = ls_sys_realloc(stream->text, room);
        if (!larger && !stream->text) return 0;
        if (larger) stream->text = larger;
        if (larger) stream->room = room;
        else show_rest(stream);
    }
    char *fresh = stream->text + stream->length;
    ssize_t got = read(stream->watch.fd, fresh, stream->room - stream->length);
    if (got <= 0) return got;
    remember(stream, fresh, (size_t)got);
    copy_to_file(stream, fresh, (size_t)got);
    stream->length += (size_t)got;
    show_lines(stream, (size_t)got);
    return got;
}

static void end(ls_output_stream *stream)
{
    ls_loop_watch(stream->loop, &stream->watch, 0);
    close(stream->watch.fd);
    stream->watch.fd = -1;
    if (stream->file >= 0) close(stream->file);
    stream->file = -1;
    if (stream->sink) {
        ls_output_stream **link = &stream->sink->feeds;
        while (*link && *link != stream) link = &(*link)->next;
        if (*link) *link = stream->next;
    }
}

static bool stream_ready(ls_watched_fd *watch, uint32_t events)
{
    (void)events;
    ls_output_stream *stream = watch->owner;
    ssize_t got = take(stream);
    bool over = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
    /* Nobody reads the output: let the worker notice it in the usual way, through a broken pipe. */
    bool unread = stream->sink && stream->sink->broken && stream->file < 0;
    if (over) show_last(stream);
    if (over || unread) end(stream);
    if (stream->sink) settle(stream->sink);
    return true;
}

int ls_output_stream_open(ls_output_stream *stream, int loop, ls_output_sink *sink, int file)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return -1;
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    stream->watch = (ls_watched_fd){.fd = ends[0], .ready = stream_ready, .owner = stream};
    stream->loop = loop;
    stream->sink = sink;
    stream->file = file;
    stream->show_at = LS_NEVER;
    stream->length = stream->tail_length = 0;
    if (sink) {
        stream->next = sink->feeds;
        sink->feeds = stream;
    }
    if (!sink || !sink->queued) ls_loop_watch(loop, &stream->watch, EPOLLIN);
    return ends[1];
}

void ls_output_stream_close(ls_output_stream *stream)
{
    if (stream->watch.ready && stream->watch.fd >= 0) {
        while (take(stream) > 0) {}
        show_last(stream);
        end(stream);
        if (stream->sink) settle(stream->sink);
    }
    ls_sys_free(stream->text);
    stream->text = NULL;
    stream->length = stream->room = 0;
}

int64_t ls_output_stream_tick(ls_output_stream *stream, int64_t now)
{
    if (!stream->watch.ready || stream->watch.fd < 0 || !stream->length) return LS_NEVER;
    if (stream->show_at <= now) {
        show_rest(stream);
        if (stream->sink) settle(stream->sink);
        return LS_NEVER;
    }
    return stream->show_at;
}
