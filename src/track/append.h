/* append.h - a file that grows by whole records: each is there completely or not at all, for this process and later
 * ones. */
#ifndef LOCKSTEP_TRACK_APPEND_H
#define LOCKSTEP_TRACK_APPEND_H

#include "base/message.h"
typedef struct ls_append {
    int descriptor;
    int64_t size; /* bytes of whole records */
    char *path;
} ls_append;

/* Open or create. Anything after the last line break of an existing file was left by a crash and is removed. On failure
 * there is nothing to close. */
bool ls_append_open(ls_append *file, const char *path, ls_message *why);
/* Append in one write; after a failure the file is as long as before. */
bool ls_append_write(ls_append *file, const void *bytes, size_t size, ls_message *why);
void ls_append_close(ls_append *file);

#endif
