/* claim.h - one run at a time writes into a folder. */
#ifndef LOCKSTEP_BASE_CLAIM_H
#define LOCKSTEP_BASE_CLAIM_H

#include "base/status.h"

typedef struct ls_claim ls_claim;

/* Reserve an existing folder for the owner of this list until ls_claims_end(); claiming it again is allowed. False,
 * with an error that names the other run, if it is reserved by another. The lock ends with its process. */
bool ls_claim_folder(ls_claim **claims, const char *folder, const char *who, ls_errors *errors);
void ls_claims_end(ls_claim **claims);

#endif
