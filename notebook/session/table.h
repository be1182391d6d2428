/* table.h - a tensor as an HTML table. */
#ifndef LOCKSTEP_NOTEBOOK_TABLE_H
#define LOCKSTEP_NOTEBOOK_TABLE_H

#include <lockstep.h>

/* A vector or matrix with its shape, type and device; of a large one, the beginning of its rows and columns. free() it.
 * NULL for all others, for types that C does not have, and if its elements cannot be read. */
char *table_of(ls_tensor *t);

#endif
