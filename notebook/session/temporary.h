/* temporary.h - where both programs put files that nobody keeps. */
#ifndef LOCKSTEP_NOTEBOOK_TEMPORARY_H
#define LOCKSTEP_NOTEBOOK_TEMPORARY_H

#include <stdlib.h>

static inline const char *temporary_folder(void)
{
    const char *folder = getenv("TMPDIR");
    return folder && *folder ? folder : "/tmp";
}

#endif
