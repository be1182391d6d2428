/* folder.h - folders that appear complete or not at all, and their numbering: checkpoint_0, checkpoint_1, ...
 *
 * Needs no run, so any thread may use it. */
#ifndef LOCKSTEP_CHECKPOINT_FOLDER_H
#define LOCKSTEP_CHECKPOINT_FOLDER_H

#include "base/message.h"
#define LS_CHECKPOINT_STEM "checkpoint_"
#define LS_FOLDER_PART ".part"
/* Folders with larger numbers, or with leading zeros, are not ours. */
#define LS_CHECKPOINT_LAST INT64_C(999999999999)

/* ---- One folder ---- */

/* Create an empty folder FOLDER.part, replacing what a killed process left there, and return its path, to be freed with
 * ls_sys_free(). Refuses if FOLDER exists and is neither empty nor a checkpoint. NULL on failure. */
char *ls_folder_begin(const char *folder, ls_message *why);
/* Flush the part to disk and rename it to FOLDER, replacing what was there. */
bool ls_folder_publish(const char *folder, ls_message *why);
/* Remove the part. */
void ls_folder_discard(const char *folder);

/* ---- Numbered folders ---- */

/* The numbers of the checkpoint_N in a folder, ascending, to be freed with ls_sys_free(). Returns how many; NULL and 0:
 * none. */
int64_t ls_folder_numbers(const char *parent, int64_t **numbers);
/* Path of number n, to be freed with ls_sys_free(); NULL: out of memory. */
char *ls_folder_numbered(const char *parent, int64_t n);
/* Remove all but the last `limit`, and remains of interrupted removals. */
void ls_folder_prune(const char *parent, int64_t limit);

#endif
