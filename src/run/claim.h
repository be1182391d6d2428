/* claim.h - one run at a time writes into a folder. */
#ifndef LOCKSTEP_RUN_CLAIM_H
#define LOCKSTEP_RUN_CLAIM_H

#include "run/session.h"

/* From now until ls_finish() the folder, which is there, is this run's; a run may claim one again. False, with an error
 * that names the run it belongs to, when it is another's. The lock dies with its process. */
bool ls_claim_folder(ls_run *run, const char *folder, const char *who);
void ls_claims_end(ls_session *session);

#endif
