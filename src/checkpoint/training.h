/* training.h - everything a training run consists of, as lists: to a snapshot and back. */
#ifndef LOCKSTEP_CHECKPOINT_TRAINING_H
#define LOCKSTEP_CHECKPOINT_TRAINING_H

#include <lockstep/checkpoint.h>
#include <lockstep/data.h>
#include <lockstep/nn.h>
#include <lockstep/optim.h>

#include "checkpoint/snapshot.h"

/* An object registered by the program. */
typedef struct ls_custom {
    char *name;
    ls_register_for_checkpointing_opts opts;
    struct ls_custom *next;
} ls_custom;

/* Initial state of a run that no prepared object knows. */
typedef struct ls_begun {
    uint64_t seed;
    ls_dtype precision, compression;
    int64_t accumulation;  /* initial gradient_accumulation_steps */
    int64_t epochs;        /* total of the epoch loop; 0: no loop yet */
    int64_t epochs_before; /* the same in the checkpoint it resumed from; 0: unknown */
    char *frozen;          /* names of initially frozen parameters; NULL: not known yet */
    char *evaluating;      /* names of parts initially in evaluation mode in models in training; NULL: likewise */
} ls_begun;

typedef struct ls_training {
    ls_run *run;
    ls_begun *begun;
    int module_count, optim_count, schedule_count, loader_count;
    ls_module *const *modules;
    ls_optim *const *optims;
    ls_schedule *const *schedules;
    ls_loader *const *loaders;
    const ls_custom *customs;
    int64_t epoch;   /* to continue with */
    bool epoch_over; /* it is the next one: loaders start over */
    int rank, world;
    /* of every rank; only for saving */
    const ls_rng_state *randoms;
    double weights;             /* weight of the batches in the accumulated gradients: mean over all ranks */
    ls_state *const *gradients; /* of an unfinished accumulation: ls_gradients_collect(); NULL: none */
} ls_training;

/* Fill a snapshot. False on failure, with an error in the run. */
bool ls_training_collect(const ls_training *training, ls_snapshot *snapshot);
/* Restore from a folder whose manifest was checked. The caller restores the run's epoch. */
bool ls_training_restore(const ls_training *training, const char *folder, const ls_manifest *manifest);

/* settings.c: settings that affect results. Differences are reported as warnings, or as an error if the rest of the
 * checkpoint would not make sense. */
#define LS_SETTINGS "settings.json"
#define LS_SETTINGS_FROZEN "frozen" /* key in it: an array of names */
#define LS_SETTINGS_EVALUATING "in evaluation"
bool ls_settings_collect(const ls_training *training, ls_snapshot *snapshot);
/* For comparing processes: one object of texts that includes what a checkpoint's tensors would tell, without what
 * ls_init() has compared. */
void ls_settings_describe(const ls_training *training, ls_json_writer *to);
bool ls_settings_compare(const ls_training *training, const char *folder, const ls_json *saved);

/* gradients.c: gradients of an unfinished accumulation, one file per rank. */
#define LS_GRADIENTS "gradients"
bool ls_gradients_restore(const ls_training *training, const char *folder, const ls_manifest *manifest);

/* "model", 1, ".safetensors" -> "model_1.safetensors"; no number for 0. */
enum { LS_FILE_NAME = 160 };
char *ls_file_numbered(char name[LS_FILE_NAME], const char *stem, int n, const char *extension);
/* "custom_NAME.bin" or "custom_NAME.safetensors" */
char *ls_file_custom(char name[LS_FILE_NAME], const ls_custom *custom);

#endif
