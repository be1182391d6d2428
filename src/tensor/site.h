/* site.h - the path of the running module, as a string that lives as long as the run: kept by tape nodes, and by calls
 * on which a device may report later. ls_errors.path has the same text, but only until the module returns. */
#ifndef LOCKSTEP_TENSOR_SITE_H
#define LOCKSTEP_TENSOR_SITE_H

#include <lockstep/run.h>

typedef struct ls_site ls_site;

/* The path of the running module (ls_errors.path). `last`: a previous result for the same module, or NULL; it is
 * usually still right. NULL when out of memory. */
const char *ls_site_here(ls_run *run, const char *last);
void ls_sites_free(ls_run *run);

#endif
