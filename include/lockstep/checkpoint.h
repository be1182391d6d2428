/* checkpoint.h - what a training program leaves on disk and comes back to.
 *
 * Models are saved in the form that Transformers, timm and Accelerate read: safetensors, one file or shards with an index,
 * parameters named as in PyTorch. */
#ifndef LOCKSTEP_CHECKPOINT_H
#define LOCKSTEP_CHECKPOINT_H

#include <lockstep/formats.h>
#include <lockstep/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Models ---- */

typedef struct ls_save_model_opts {
    int _;
    const char *max_shard_size;  /* "10GB" */
    const ls_metadata *metadata; /* for every file */
    bool no_sync;                /* see ls_state_write */
} ls_save_model_opts;

/* Parameters and buffers to a folder: "model.safetensors", or shards (see ls_state_write_sharded). Tensors that are one
 * under several names are written once, under the first; the others are named in a warning. The first process writes, the
 * others do nothing. False, and an error, on failure. */
#define ls_save_model(run, model, ...) LS_SAVE_MODEL_(run, model, __VA_ARGS__, ._ = 0)
#define LS_SAVE_MODEL_(run, model, folder, ...)                                                                        \
    ls_save_model_sized((run), (model), (folder), LS_OPTS(ls_save_model_opts, __VA_ARGS__))
LS_API bool ls_save_model_sized(ls_run *run, ls_module *model, const char *folder, const ls_save_model_opts *opts,
                                size_t opts_size);

typedef struct ls_load_model_opts {
    int _;
    bool partial;         /* names that are missing here or there are no error */
    bool skip_mismatched; /* neither are tensors of another shape: they stay as they are */
    const char *optional; /* both for names of the model that match only: "*.num_batches_tracked|fc.*" */
    const char *only;     /* names to take, as the file has them */
    const char *strip; /* taken off the front of the file's names; "module." and "_orig_mod.", which wrappers of PyTorch
                             leave there, go without being asked */
    const char *prefix; /* put in front of the file's names */
} ls_load_model_opts;

/* The other way: from any file, index or folder that ls_state_read() takes, also one of PyTorch. Numbers are converted to the
 * model's types and device. Tensors that are one under several names need only one of them. An error names what is missing,
 * unexpected or of another shape, and leaves the model as it was. The report is the model's (see ls_load_state_dict). */
#define ls_load_model(run, model, ...) LS_LOAD_MODEL_(run, model, __VA_ARGS__, ._ = 0)
#define LS_LOAD_MODEL_(run, model, path, ...)                                                                          \
    ls_load_model_sized((run), (model), (path), LS_OPTS(ls_load_model_opts, __VA_ARGS__))
LS_API ls_load_report ls_load_model_sized(ls_run *run, ls_module *model, const char *path,
                                          const ls_load_model_opts *opts, size_t opts_size);

#ifdef __cplusplus
}
#endif
#endif
