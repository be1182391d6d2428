/* runs.h - the runs in a folder: found again at every look, their values read as they grow.
 *
 * A run is a folder with the files of a tracker. Links are not followed, so that nothing outside the folder is read. */
#ifndef LOCKSTEP_WATCH_RUNS_H
#define LOCKSTEP_WATCH_RUNS_H

#include <time.h>

#include "track/history.h"

enum { LS_WATCH_RUNS = 500 /* most runs of a folder */ };

/* Values, and how far the file of JSON lines was read that they come from. */
typedef struct ls_followed {
    ls_history history;
    uint64_t file[2];        /* device and inode; 0: the values come from other files */
    int64_t read;            /* bytes that are in the history */
    uint64_t tail;           /* hash of the last of them: a file that was written anew has others there */
    int64_t size;            /* of the file, and */
    struct timespec changed; /* when it was changed last, as of the last reading */
    ls_message problem;      /* why the values cannot be read; "": they can */
} ls_followed;

typedef struct ls_watched_run {
    char *name;         /* path below the folder, any bytes; "." is the folder itself */
    uint64_t version;   /* changes when a file of the run does */
    uint64_t recorded;  /* changes when a file of its values does */
    uint64_t life;      /* changes with its signs of life (track/status.h); 0: there are none */
    ls_followed values; /* recorded by the program, as of `read_version` */
    ls_followed system; /* rates and memory */
    uint64_t read_version, read_recorded;
    bool found; /* by the current look */
} ls_watched_run;

typedef struct ls_watched_folder {
    const char *path;
    int count;
    ls_watched_run *runs[LS_WATCH_RUNS]; /* in alphabetical order */
    bool more;                           /* there are more runs than that, or too many files to look at all of them */
    char closed[256];                    /* the first folder below that may not be entered; "": there is none */
    int64_t looked;                      /* when, in ms */
} ls_watched_folder;

/* Find the runs, unless that was done in the last half second. */
void ls_watched_look(ls_watched_folder *folder);
/* NULL if there is no run of this name. */
ls_watched_run *ls_watched_find(const ls_watched_folder *folder, const char *name);
/* Bring the values of a run up to date. */
void ls_watched_read(const ls_watched_folder *folder, ls_watched_run *run);
/* Open a file of a run for reading, if it is an ordinary one; -1 otherwise. */
int ls_watched_open(const ls_watched_folder *folder, const ls_watched_run *run, const char *file);
void ls_watched_free(ls_watched_folder *folder);

#endif
