/* manifest.h - state.json: the list of a checkpoint's files, written last and checked first. */
#ifndef LOCKSTEP_CHECKPOINT_MANIFEST_H
#define LOCKSTEP_CHECKPOINT_MANIFEST_H

#include "base/json.h"

#define LS_MANIFEST "state.json"
enum { LS_CHECKPOINT_VERSION = 1 };

/* Properties of the checkpoint besides its files. */
typedef struct ls_manifest {
    int64_t epoch, step;
    int world;
    int modules, optims, schedules, loaders;
} ls_manifest;

/* List every file of the folder with size and checksum. Runs on any thread. */
bool ls_manifest_write(const char *folder, const ls_manifest *manifest, ls_message *why);

/* Read it and compare every file with it. False if anything differs, with the file and the reason in `why`. */
bool ls_manifest_check(const char *folder, ls_manifest *manifest, ls_message *why);

#endif
