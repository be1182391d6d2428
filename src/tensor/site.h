/* site.h - the module at work, as an address that lasts as long as the run: nodes of the tape and calls that a device
 * will report on later remember it. ls_errors.path has the same words, but only until the module is left. */
#ifndef LOCKSTEP_TENSOR_SITE_H
#define LOCKSTEP_TENSOR_SITE_H

#include <lockstep/run.h>

typedef struct ls_site ls_site;

/* The path of the module at work (ls_errors.path). `last`: what this returned for the same module before, or NULL; most
 * often it is still right. NULL when memory is out. */
const char *ls_site_here(ls_run *run, const char *last);
void ls_sites_free(ls_run *run);

#endif
