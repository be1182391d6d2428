/* cause.h - the first cause: which worker failed first, how, and with which message. */
#ifndef LOCKSTEP_LAUNCH_SUPERVISE_CAUSE_H
#define LOCKSTEP_LAUNCH_SUPERVISE_CAUSE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct ls_cause {
    bool any;
    bool unstarted; /* the program could not be executed: do not retry */
    int rank, local_rank, pid, attempt;
    int status;     /* as wait() gives it */
    double seconds; /* run time */
    double stamp;   /* when it failed, by its own clock, from the error file; 0: unknown */
    char host[65];
    char words[1024]; /* message in the error file; "": none */
    char tail[2048];  /* the last lines of its stderr; "": none */
    char calls[2048]; /* the last collective calls of the workers, one line each; "": none */
} ls_cause;

/* The exit code that reports it: 1 to 127, or 128 + signal. */
int ls_cause_exit_code(const ls_cause *cause);

/* Read what a worker left in its error file (torchrun's error.json), if there is one. */
void ls_cause_read(ls_cause *cause, const char *error_file);

/* Keep the last `lines` lines of a text that may start in the middle of one. */
void ls_cause_tail(ls_cause *cause, const char *text, size_t length, int lines);

/* The first line of a report without its prefix: for those who wait for the failed worker. */
void ls_cause_headline(const char *report, char *line, size_t size);

/* The whole report, several lines, each with a line break. Truncated to `size`. */
void ls_cause_tell(const ls_cause *cause, char *text, size_t size);

#endif
