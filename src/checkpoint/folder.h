/* folder.h - folders that appear complete or not at all, and their numbering: checkpoint_0, checkpoint_1, ...
 *
 * Needs no run: a thread of its own may use it. */
#ifndef LOCKSTEP_CHECKPOINT_FOLDER_H
#define LOCKSTEP_CHECKPOINT_FOLDER_H

#include "base/message.h"
#define LS_CHECKPOINT_STEM "checkpoint_"
#define LS_FOLDER_PART ".part"
/* Folders with larger numbers, or with zeros in front of them, are somebody else's. */
#define LS_CHECKPOINT_LAST INT64_C(999999999999)

/* ---- One folder ---- */

/* An empty folder FOLDER.part, and the path of it; what a killed process left there goes. Refuses a FOLDER that is
 * there and is neither empty nor a checkpoint. ls_sys_free() the path. NULL on failure. */
char *ls_folder_begin(const char *folder, ls_message *why);
/* The part becomes FOLDER, in place of what was there, and all is on the disk. */
bool ls_folder_publish(const char *folder, ls_message *why);
/* Remove the part. */
void ls_folder_discard(const char *folder);

/* ---- Numbered folders ---- */

/* The numbers of the checkpoint_N in a folder, ascending; ls_sys_free() them. Returns how many. NULL and 0: none. */
int64_t ls_folder_numbers(const char *parent, int64_t **numbers);
/* Path of number n, or NULL when memory is out; ls_sys_free() it. */
char *ls_folder_numbered(const char *parent, int64_t n);
/* Remove all but the last `limit`, and what earlier removals left. */
void ls_folder_prune(const char *parent, int64_t limit);

#endif
