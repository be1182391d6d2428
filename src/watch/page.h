/* page.h - the files of the page, which are part of the library (embed.cmake). */
#ifndef LOCKSTEP_WATCH_PAGE_H
#define LOCKSTEP_WATCH_PAGE_H

#include <stddef.h>

typedef struct ls_page_file {
    const char *name; /* "watch.js" */
    const char *bytes;
    size_t size;
} ls_page_file;

/* Ends with an empty row. */
extern const ls_page_file ls_page_files[];

#endif
