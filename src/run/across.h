/* across.h - gather the bytes of all processes, for functions of a run. */
#ifndef LOCKSTEP_RUN_ACROSS_H
#define LOCKSTEP_RUN_ACROSS_H

#include "run/session.h"

/* ls_gather_object() on behalf of another function, named in errors. */
ls_gathered ls_gather_bytes(ls_run *run, const void *data, size_t size, const char *who);

#endif
