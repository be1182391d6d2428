/* unit.h - a cell as a translation unit.
 *
 *     declarations      of all definitions, this cell's included
 *     storage           for the variables of this cell
 *     functions         of this cell
 *     void ls_cell_3()   statements and initialisers, in the order of the cell
 *
 * #line directives make a compiler speak of "In[3]" and its lines. */
#ifndef LOCKSTEP_NOTEBOOK_UNIT_H
#define LOCKSTEP_NOTEBOOK_UNIT_H

#include <lockstep/base.h>

#include "definitions.h"

typedef struct unit_request {
    const char *code;
    int number;   /* of the cell: its symbols begin with c<number>_ */
    int shown_as; /* n of In[n] in messages */
    bool shows;   /* the value of an expression at the end; a call that returns nothing has none */
} unit_request;

/* Appends the unit to `unit` and this cell's definitions to `known`; names that became invalid to `removed`. False: the
 * cell contradicts itself, and `why` says how. */
bool unit_write(string *unit, definitions *known, const unit_request *request, string *removed, ls_message *why);

#endif
