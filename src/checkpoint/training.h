/* training.h - all that a training run consists of, as lists: to a snapshot and back. */
#ifndef LOCKSTEP_CHECKPOINT_TRAINING_H
#define LOCKSTEP_CHECKPOINT_TRAINING_H

#include <lockstep/checkpoint.h>
#include <lockstep/data.h>
#include <lockstep/nn.h>
#include <lockstep/optim.h>

#include "checkpoint/snapshot.h"

/* What a program registered. */
typedef struct ls_custom {
    char *name;
    ls_register_for_checkpointing_opts opts;
    struct ls_custom *next;
} ls_custom;

/* How a run began, as far as no prepared object knows it. */
typedef struct ls_begun {
    uint64_t seed;
    ls_dtype precision, compression;
    int64_t accumulation;  /* gradient_accumulation_steps; the run may have changed them since */
    int64_t epochs;        /* of the loop over them; 0: there was none yet */
    int64_t epochs_before; /* the same, of the checkpoint it goes on from; 0: not known */
    char *frozen;          /* names of parameters that were frozen then; NULL: not known yet */
    char *evaluating;      /* names of parts of models in training that were in evaluation then; NULL: the same */
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
    int64_t epoch;   /* to go on with */
    bool epoch_over; /* it is the one after that at hand: loaders begin anew */
    int rank, world;
    /* of every rank; for saving */
    const ls_rng_state *randoms;
    double weights;             /* of the batches that gradients still add up from: the mean of all ranks' sums */
    ls_state *const *gradients; /* that still add up: ls_gradients_collect(); NULL: there are none */
} ls_training;

/* Fill a snapshot. False, and an error of the run, on failure. */
bool ls_training_collect(const ls_training *training, ls_snapshot *snapshot);
/* Put back what is in a folder whose manifest was checked. The run's epoch is for the caller. */
bool ls_training_restore(const ls_training *training, const char *folder, const ls_manifest *manifest);

/* settings.c: switches that change numbers. Differing ones are named in warnings; an error, where the rest of a
 * checkpoint would mean something else. */
#define LS_SETTINGS "settings.json"
#define LS_SETTINGS_FROZEN "frozen" /* in it: an array of names */
#define LS_SETTINGS_EVALUATING "in evaluation"
bool ls_settings_collect(const ls_training *training, ls_snapshot *snapshot);
/* For processes that compare theirs: one object of texts, with what tensors of a checkpoint would tell; without what
 * ls_init() has compared. */
void ls_settings_describe(const ls_training *training, ls_json_writer *to);
bool ls_settings_compare(const ls_training *training, const char *folder, const ls_json *saved);

/* gradients.c: gradients that still add up, a file for each rank. */
#define LS_GRADIENTS "gradients"
bool ls_gradients_restore(const ls_training *training, const char *folder, const ls_manifest *manifest);

/* "model", 1, ".safetensors" -> "model_1.safetensors"; no number for 0. */
enum { LS_FILE_NAME = 160 };
char *ls_file_numbered(char name[LS_FILE_NAME], const char *stem, int n, const char *extension);
/* "custom_NAME.bin" or "custom_NAME.safetensors" */
char *ls_file_custom(char name[LS_FILE_NAME], const ls_custom *custom);

#endif
