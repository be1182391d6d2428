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
} ls_profiled;

/* Files of a process in the folder, until they are joined: lines of JSON, and tables. Rank and number of processes. */
#define LS_PROFILE_EVENTS "rank_%d_of_%d.events"
#define LS_PROFILE_TABLES "rank_%d_of_%d.tables"
#define LS_PROFILE_TRACE "trace.json"
#define LS_PROFILE_TEXT "profile.txt"
/* The folder of a second run, and so on, in that of the first. */
#define LS_PROFILE_NEXT "%s/run_%d"
enum { LS_PROFILE_PATH = 4096 };

/* The path of one of these files; false if it is too long. */
bool ls_profile_part(char path[LS_PROFILE_PATH], const char *folder, int rank, int world, const char *format,
                     ls_message *why);

/* What was measured as Chrome trace events, one a line. */
bool ls_profile_write_events(const ls_spans *spans, const ls_profiled *who, const char *path, ls_message *why);
/* The same as tables; the text is zero-terminated, and the caller must ls_sys_free() it. NULL: out of memory. */
char *ls_profile_tables(const ls_spans *spans, const ls_profiled *who);

/* LOCKSTEP_PROFILE: profile the whole run. */
void ls_profile_start(ls_run *run);
void ls_profile_finish(ls_run *run);

#endif
