/* sink.h - an output format for recorded values: a table of functions. */
#ifndef LOCKSTEP_TRACK_SINK_H
#define LOCKSTEP_TRACK_SINK_H

#include <lockstep/track.h>

#include "base/message.h"
#include "data/image/paint.h"

/* What one call records. At most one of the last three is not NULL: it is the only value, which then has no number. */
typedef struct ls_track_record {
    int64_t step;
    double time; /* seconds since 1970 */
    size_t count;
    const ls_value *values;
    const char *text;
    const ls_painting *picture;
    const ls_histogram *histogram;
} ls_track_record;

/* histogram.c: count the elements of a tensor. False (and an error) on failure. */
bool ls_track_count(ls_run *run, ls_tensor *values, ls_histogram *histogram);

/* A setting of the run. */
typedef struct ls_track_setting {
    char *name;
    char *text; /* NULL: a number */
    double number;
} ls_track_setting;

typedef struct ls_sink_format {
    const char *name;
    /* Open or continue the file in an existing folder; NULL on failure. */
    void *(*open)(const char *folder, ls_message *why);
    /* On return the record is written; after a failure the file is as before. */
    bool (*write)(void *sink, const ls_track_record *record, ls_message *why);
    /* (optional) Called once, before the first record. */
    bool (*configure)(void *sink, const ls_track_setting *settings, size_t count, ls_message *why);
    void (*close)(void *sink, bool succeeded);
    bool takes_all; /* also pictures and histograms */
} ls_sink_format;

extern const ls_sink_format ls_sink_csv, ls_sink_jsonl, ls_sink_tensorboard;

/* File names in the folder. */
#define LS_TRACK_CSV "values.csv"
#define LS_TRACK_JSONL "values.jsonl"
#define LS_TRACK_EVENTS "events.out.tfevents." /* prefix */
#define LS_TRACK_CONFIG "config.json"

/* "folder/name"; either may be "." for none. False, with the reason, if it is too long. */
enum { LS_TRACK_PATH = 4096 };
bool ls_track_path(char path[LS_TRACK_PATH], const char *folder, const char *name, ls_message *why);

#endif
