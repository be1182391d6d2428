/* profile.h - a profile of a run, from the spans of its process (base/spans.h) to files. */
#ifndef LOCKSTEP_RUN_PROFILE_H
#define LOCKSTEP_RUN_PROFILE_H

#include <lockstep/profile.h>

#include "base/message.h"
#include "base/spans.h"

/* Who measured. */
typedef struct ls_profiled {
    int rank, world;
    char host[128];
    bool asynchronous; /* the device returns before its operators are done */
    int64_t origin;    /* of the timeline: the same moment in all processes, as of ls_clock_ns() in this one */
} ls_profiled;

/* Files of a process in the folder, until they are joined: lines of JSON, and tables. Rank and number of processes. */
#define LS_PROFILE_EVENTS "rank_%d_of_%d.events"
#define LS_PROFILE_TABLES "rank_%d_of_%d.tables"
#define LS_PROFILE_TRACE "trace.json"
#define LS_PROFILE_TEXT "profile.txt"
/* The folder of a second run, and so on, in that of the first. */
#define LS_PROFILE_NEXT "%s/run_%d"
/* In the folder of a run that has begun, until what it leaves there is joined. */
#define LS_PROFILE_BEGUN "profile.begun"
enum { LS_PROFILE_PATH = 4096 };

/* The path of a file in the folder, and that of a process; false if it is too long. */
bool ls_profile_path(char path[LS_PROFILE_PATH], const char *folder, const char *name, ls_message *why);
bool ls_profile_part(char path[LS_PROFILE_PATH], const char *folder, int rank, int world, const char *format,
                     ls_message *why);

/* The processes that have left a profile in a folder, by rank. */
typedef struct ls_profile_parts {
    struct {
        int rank, world;
    } * of;
    int count;
} ls_profile_parts;

/* False: the folder cannot be read, or out of memory. The caller must ls_sys_free() `of`. */
bool ls_profile_list(ls_profile_parts *parts, const char *folder, ls_message *why);

/* Where the profile of a whole run goes: `folder`, or that of the next run if an earlier one, of this program or of
 * another, has begun there. The same for all processes, which must all call. False (and an error) on failure. */
bool ls_profile_claim(char room[LS_PROFILE_PATH], ls_run *run, const char *folder);
void ls_profile_unclaim(const char *room); /* nothing will be written there */

/* ls_profile_join() of what a job of this many processes has left; other parts are older, and removed. */
bool ls_profile_join_job(ls_run *run, const char *folder, int world);

/* What was measured as Chrome trace events, one a line. */
bool ls_profile_write_events(const ls_spans *spans, const ls_profiled *who, const char *path, ls_message *why);
/* The same as tables; the text is zero-terminated, and the caller must ls_sys_free() it. NULL: out of memory. */
char *ls_profile_tables(const ls_spans *spans, const ls_profiled *who);

/* LOCKSTEP_PROFILE: profile the whole run. */
void ls_profile_start(ls_run *run);
void ls_profile_finish(ls_run *run);

#endif
