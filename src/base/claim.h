/* claim.h - one run at a time writes into a folder. */
#ifndef LOCKSTEP_BASE_CLAIM_H
#define LOCKSTEP_BASE_CLAIM_H

#include "base/status.h"

typedef struct ls_claim ls_claim;

/* From now until ls_claims_end() the folder, which is there, belongs to the owner of this list; it may claim one again.
 * False, with an error that names the run it belongs to, when it is another's. The lock dies with its process. */
bool ls_claim_folder(ls_claim **claims, const char *folder, const char *who, ls_errors *errors);
void ls_claims_end(ls_claim **claims);

#endif
