/* across.h - bytes of all processes, for the functions of a run that need them. */
#ifndef LOCKSTEP_RUN_ACROSS_H
#define LOCKSTEP_RUN_ACROSS_H

#include "run/session.h"

/* What ls_gather_object() does, in the name of another call. */
ls_gathered ls_gather_bytes(ls_run *run, const void *data, size_t size, const char *who);

#endif
