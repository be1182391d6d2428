/* append.h - a file that grows by whole pieces: one is there completely or not at all,
 * for this process and the next. */
#ifndef LOCKSTEP_TRACK_APPEND_H
#define LOCKSTEP_TRACK_APPEND_H

#include "base/message.h"
typedef struct ls_append {
    int descriptor;
    int64_t size; /* bytes of whole pieces */
    char *path;
} ls_append;

/* Open or create. Of a file that is there, what stands behind the last line break was cut off by a crash: it is
 * removed. On failure there is nothing to close. */
bool ls_append_open(ls_append *file, const char *path, ls_message *why);
/* Behind what is there, in one write; after a failure the file is as long as it was. */
bool ls_append_write(ls_append *file, const void *bytes, size_t size, ls_message *why);
void ls_append_close(ls_append *file);

#endif
