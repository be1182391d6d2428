/* checkpoint.h - saving models and whole runs to disk, and continuing from there.
 *
 * Models are saved in the form that Transformers, timm and Accelerate read: safetensors, one file or shards with an
 * index, parameters named as in PyTorch. A run is saved with all it needs to continue as if it had never been
 * interrupted:
 *
 *     ls_prepare(run, model, adam, cycle, train, eval);
 *     for (int epoch; ls_epoch(run, 5, &epoch);) {
 *         ...
 *         ls_save_state(run, NULL);                     project_dir/checkpoints/checkpoint_0, _1, ...
 *     }
 *
 * and, after a crash, the same program with --resume_from_checkpoint latest: the first ls_epoch() restores the newest
 * complete checkpoint, and every number that follows is, bit for bit, what it would have been.
 *
 * A checkpoint holds the prepared modules (and which parameters are frozen), optimisers (with gradients that still add
 * up), schedules and loaders (epoch, order and position), the loss scale, the random state of every process, the epoch
 * and what was registered. It is a folder:
 *
 *     model.safetensors  model_1.safetensors ...    modules, in the order of ls_prepare(): any tool reads them
 *     optimizer.safetensors  optimizer_1... ...     moments and counts of steps, by parameter
 *     optimizer.json  scheduler.json  dataloader.json  scaler.json  random_states_0.json ...
 *     accumulation.json                             the batch of an accumulation it is at, and the weights so far
 *     gradients.safetensors  gradients_1... ...     of each process, only between the batches of an accumulation
 *     settings.json                                 what is frozen, and switches that are compared: docs/checkpoints.md
 *     custom_NAME.safetensors  custom_NAME.bin      what was registered
 *     state.json                                    version, epoch, step, world size; every file's size and XXH64
 *
 * Folders appear complete or not at all: files are written to FOLDER.part, flushed to disk, then renamed. Whatever
 * happens in between (kill -9, a full disk, a power cut), the previous checkpoint is untouched.
 *
 * Save after ls_step(), not between ls_backward() and ls_step(). Saving inside a nested loop over batches is allowed,
 * but a restart continues with the outer loop. */
#ifndef LOCKSTEP_CHECKPOINT_H
#define LOCKSTEP_CHECKPOINT_H

#include <lockstep/formats.h>
#include <lockstep/nn.h>

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Models ---- */

typedef struct ls_save_model_opts {
    const char *max_shard_size LS_DEFAULT(NULL);  /* NULL is "10GB" */
    const ls_metadata *metadata LS_DEFAULT(NULL); /* for every file */
    bool sync LS_DEFAULT(true);                   /* see ls_state_write */
    ls_options_end _ LS_DEFAULT({});
} ls_save_model_opts;
#define ls_save_model_opts_defaults .sync = true

/* Write parameters and buffers to a folder that from_pretrained() opens: "model.safetensors", or shards (see
 * ls_state_write_sharded), and "config.json" if the model has one (models/bert.h). A tensor with several names is
 * written once, under the first; a warning lists the others.
 *
 * All processes must call it. The main one writes, and all return once the files exist, so any of them may load them
 * next. A warning names the first parameter whose values differ on another process. Returns false, with an error on all
 * processes, on failure. In a save hook, which only the main process runs, it does not wait for others. To write from a
 * single process use ls_state_write_sharded(). */
#define ls_save_model(run, model, ...) LS_CALL_3(ls_save_model, ls_save_model_opts, run, model, __VA_ARGS__, )
LS_API bool ls_save_model_sized(ls_run *run, ls_module *model, const char *folder, const ls_save_model_opts *opts,
                                size_t opts_size);

typedef struct ls_load_model_opts {
    bool partial LS_DEFAULT(false);         /* ignore names present on one side only */
    bool skip_mismatched LS_DEFAULT(false); /* leave tensors of another shape as they are */
    const char *optional LS_DEFAULT(NULL);  /* apply both only to the model's names that match: "*.extra|fc.*" */
    const char *only LS_DEFAULT(NULL);      /* names to load, as they are in the file */
    /* Prefix to remove from the file's names; some are removed automatically, see below. */
    const char *strip LS_DEFAULT(NULL);
    const char *prefix LS_DEFAULT(NULL); /* put in front of the file's names */
    ls_options_end _ LS_DEFAULT({});
} ls_load_model_opts;
#define ls_load_model_opts_defaults .partial = false

/* Load from any file, index or folder that ls_state_read() accepts, including PyTorch's. Numbers are converted to the
 * model's types and device. Of a tensor with several names the file needs only one. An error names what is missing,
 * unexpected or of another shape, and leaves the model unchanged.
 * The model owns the report (see ls_load_state_dict).
 *
 * If no name matches, the usual wrappings of PyTorch programs are tried: a dictionary with the model under
 * "state_dict", "model", "model_state_dict" or "net", and the prefixes "module." and "_orig_mod.". */
#define ls_load_model(run, model, ...) LS_CALL_3(ls_load_model, ls_load_model_opts, run, model, __VA_ARGS__, )
LS_API ls_load_report ls_load_model_sized(ls_run *run, ls_module *model, const char *path,
                                          const ls_load_model_opts *opts, size_t opts_size);

/* ---- Runs: saving ---- */

/* Save to a folder, replacing a checkpoint that is there; or, with NULL, to the next automatic folder. Of the automatic
 * ones the last total_limit (ls_init) are kept; older ones are deleted once the new one is safe. All processes must
 * call it. False, and an error, if it could not be written. Objects that are trained but were not passed to
 * ls_prepare() are not saved: one warning names them.
 *
 * With .async_save of ls_init() only a copy in memory is made here; it is written while training goes on. A failure is
 * then reported by the next save, ls_wait_for_save() or ls_finish(), all of which wait for it. */
LS_API bool ls_save_state(ls_run *run, const char *folder);
LS_API bool ls_wait_for_save(ls_run *run);

/* ---- Runs: resuming ---- */

/* Restore everything from a folder, given by path or by its name in project_dir/checkpoints; or, with NULL or "latest",
 * from the newest complete automatic one: damaged ones are skipped with a warning. The size and checksum of every file
 * are verified before anything is changed. The next ls_epoch() then enters the epoch that was saved. Settings that
 * differ are named in warnings. False, and an error, if there is no such checkpoint, it is damaged (which file, and
 * how) or does not match what was prepared. */
LS_API bool ls_load_state(ls_run *run, const char *folder);

/* The folder that the run was restored from, by ls_load_state() or --resume_from_checkpoint (from the first ls_epoch()
 * on); NULL if it was not. Owned by the run and valid until the next restore. */
LS_API const char *ls_resumed_from(const ls_run *run);

/* ---- Runs: state of the program's own ---- */

typedef struct ls_bytes {
    const void *data;
    size_t size;
} ls_bytes;

typedef struct ls_register_for_checkpointing_opts {
    void *data LS_DEFAULT(NULL); /* either: memory of fixed size, saved and written back as it is, */
    size_t size LS_DEFAULT(0);
    ls_state *tensors LS_DEFAULT(NULL); /* or: tensors, whose numbers are saved and copied back, */
    /* or: bytes, valid until the next call, and a function that takes them back; false when it cannot use them. */
    ls_bytes (*save)(void *user) LS_DEFAULT(NULL);
    bool (*load)(const void *data, size_t size, void *user) LS_DEFAULT(NULL);
    void *user LS_DEFAULT(NULL);
    ls_options_end _ LS_DEFAULT({});
} ls_register_for_checkpointing_opts;
#define ls_register_for_checkpointing_opts_defaults .data = NULL

/* Make something a part of checkpoints, under a name of letters, digits, `_`, `-` and `.`:
 *     ls_register_for_checkpointing(run, "best", .data = &best, .size = sizeof best);
 * A checkpoint must have exactly what is registered when it is loaded. */
#define ls_register_for_checkpointing(run, ...)                                                                        \
    LS_CALL_2(ls_register_for_checkpointing, ls_register_for_checkpointing_opts, run, __VA_ARGS__, )
LS_API void ls_register_for_checkpointing_sized(ls_run *run, const char *name,
                                                const ls_register_for_checkpointing_opts *opts, size_t opts_size);

/* ---- Runs: hooks; ls_hook_remove() removes one ---- */

typedef void ls_checkpoint_fn(ls_run *run, const char *folder, void *user);
/* Called in every save, on the main process, with the folder before it is published: files written there, also in
 * sub-folders, become part of the checkpoint. */
LS_API ls_hook *ls_register_save_hook(ls_run *run, ls_checkpoint_fn *function, void *user);
/* Called in every load, with the verified folder, before anything is restored. */
LS_API ls_hook *ls_register_load_hook(ls_run *run, ls_checkpoint_fn *function, void *user);

/* ---- Looking inside ---- */

/* Print the contents of a file, index or folder of tensors (see ls_contents_read), as a table for people or as JSON;
 * for a folder made by ls_save_state(), print a summary and verify the checksums of its files. This is what
 * `lockstep inspect` shows. False, and an error, if something is wrong with it. */
LS_API bool ls_inspect(ls_run *run, const char *path, FILE *to, bool json);

#ifdef __cplusplus
}
#endif
#endif
