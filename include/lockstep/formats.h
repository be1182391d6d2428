/* formats.h - reading and writing files of named tensors in the formats of the Python world.
 *
 *     ls_state *weights = ls_state_read(run, "resnet50d.safetensors");
 *     ls_state_write(ls_state_dict(model), "model.safetensors");
 *
 * Read: safetensors, PyTorch's .pt .pth .bin (zip and the older form), NumPy's .npy and .npz, the index of a sharded
 * checkpoint, or a folder that holds one of them; recognised by content, not by name. Written: safetensors, which
 * PyTorch, Transformers and all others read; or PyTorch's format if the name ends in .pt, .pth or .bin.
 *
 * No file is trusted: sizes, offsets and types are checked before use, and reading a pickle runs no code: anything but
 * tensors, numbers, text and plain containers is an error that names it. */
#ifndef LOCKSTEP_FORMATS_H
#define LOCKSTEP_FORMATS_H

#include <lockstep/state.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Reading ---- */

typedef struct ls_state_read_opts {
    /* The names to read, as they are in the file: "*.weight|fc.*" (see ls_state_matching); an error if nothing matches,
     * a warning for each pattern that matches nothing. NULL: all. */
    const char *only LS_DEFAULT(NULL);
    const char *strip LS_DEFAULT(NULL);       /* "module.": prefix removed from names that have it */
    const char *prefix LS_DEFAULT(NULL);      /* "backbone.": prefix added to every name, after strip */
    ls_dtype dtype LS_DEFAULT(LS_DTYPE_NONE); /* convert floating-point tensors to it; LS_DTYPE_NONE: do not */
    const char *device LS_DEFAULT(NULL);      /* device of the tensors; NULL: the run's device */
    ls_options_end _ LS_DEFAULT({});
} ls_state_read_opts;
#define ls_state_read_opts_defaults .only = NULL

/* The tensors of a file, an index or a folder, read into memory: later changes of the file do not reach the tensors,
 * nor the other way round. NULL, and an error, if something is wrong with the file.
 *
 * Nested containers of a pickle give dotted names, "state.0.exp_avg"; numbers are tensors without dimensions; a single
 * tensor without a name is called "tensor". Types that Lockstep does not have become the next larger one that holds all
 * their values: I16 U16 -> i32, U32 -> i64, F8 -> f32, U64 -> i64 (an error if a value does not fit); complex numbers
 * get a last dimension of 2. F4 and F6 are errors. */
#define ls_state_read(run, ...) LS_CALL_2(ls_state_read, ls_state_read_opts, run, __VA_ARGS__, )
LS_API ls_state *ls_state_read_sized(ls_run *run, const char *path, const ls_state_read_opts *opts, size_t opts_size);

/* ---- Writing ---- */

/* Lists of these end with a NULL key. */
typedef struct ls_metadata {
    const char *key, *value;
} ls_metadata;

typedef struct ls_state_write_opts {
    const ls_metadata *metadata LS_DEFAULT(NULL); /* in addition to {"format", "pt"} */
    bool sync LS_DEFAULT(true); /* flush to disk; false is quicker, but a power cut may lose the file */
    /* ls_state_write_sharded: "500MB", "2GiB", or a number of bytes. NULL is "10GB". */
    const char *max_shard_size LS_DEFAULT(NULL);
    ls_options_end _ LS_DEFAULT({});
} ls_state_write_opts;
#define ls_state_write_opts_defaults .sync = true

/* Write one file: safetensors, or for torch.load() if its name ends in .pt, .pth or .bin (up to 4 GB, without
 * metadata). It appears under its name once it is complete and on disk; after a failure (a full disk) a previous file
 * is unchanged and no partial file is left. The folder must exist. False, and an error, on failure. */
#define ls_state_write(state, ...) LS_CALL_2(ls_state_write, ls_state_write_opts, state, __VA_ARGS__, )
LS_API bool ls_state_write_sized(const ls_state *state, const char *path, const ls_state_write_opts *opts,
                                 size_t opts_size);

/* Write "model.safetensors" into a folder (created if missing) or, if that would be larger than max_shard_size,
 * "model-00001-of-00003.safetensors" ... and "model.safetensors.index.json", as Transformers names them. Tensors are
 * put into shards in the order of the list; a tensor above the limit has a shard of its own. Files of an earlier save
 * that are now stale are removed at the end. */
#define ls_state_write_sharded(state, ...) LS_CALL_2(ls_state_write_sharded, ls_state_write_opts, state, __VA_ARGS__, )
LS_API bool ls_state_write_sharded_sized(const ls_state *state, const char *folder, const ls_state_write_opts *opts,
                                         size_t opts_size);

/* ---- Looking inside without reading the numbers ---- */

typedef struct ls_file_tensor {
    const char *name, *type; /* type: as safetensors names it, "F32", "BF16", "F8_E4M3" */
    const char *file;        /* the shard it is in */
    int ndim;
    const int64_t *dim;
    uint64_t bytes; /* of its elements */
} ls_file_tensor;

typedef struct ls_contents {
    const char *format; /* "safetensors", "torch", "torch (legacy)", "npy", "npz", "sharded safetensors", ... */
    int64_t count, file_count, metadata_count;
    const ls_file_tensor *tensors;
    const char *const *files;
    const ls_metadata *metadata; /* for a pickle: the strings in it */
} ls_contents;

/* What a file, index or folder holds. It belongs to the run. NULL, and an error, if something is wrong with the file:
 * the checks are those of ls_state_read. */
LS_API const ls_contents *ls_contents_read(ls_run *run, const char *path);
LS_API void ls_contents_free(const ls_contents *contents);

/* ---- Hugging Face's local cache ---- */

/* Find the folder that from_pretrained(id) would open: id itself if it is the path of a folder that has `file`, else
 * the download of "org/name" or "name"; kind is "models" or "datasets". Names that got an owner later are found by
 * both ("bert-base-uncased", "google-bert/bert-base-uncased"). False if there is none; `folder` is then where it would
 * be. Looks in TRANSFORMERS_CACHE (for models), HF_HUB_CACHE, HF_HOME/hub, XDG_CACHE_HOME/huggingface/hub, or the
 * user's .cache/huggingface/hub. Downloads nothing. */
LS_API bool ls_hub_find(const char *kind, const char *id, const char *file, char *folder, size_t size);

#ifdef __cplusplus
}
#endif
#endif
