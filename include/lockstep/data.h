/* data.h - datasets and loaders: where samples come from, and how they become batches.
 *
 *     ls_dataset *set = ls_tensor_dataset_new(run, x, y);
 *     ls_dataset *train_set, *eval_set;
 *     ls_random_split(set, 0.8, &train_set, &eval_set);
 *     ls_loader *train = ls_loader_new(run, train_set, .batch = 64, .shuffle = true);
 *     for (ls_batch b; ls_next(train, &b);) ...
 *
 * A sample is a list of named fields; a batch is one tensor for each field, samples along its first dimension. The
 * batches depend only on the dataset, the loader's options and the seed: not on threads, machine or number of
 * processes. Datasets and loaders belong to the run and are freed with it. */
#ifndef LOCKSTEP_DATA_H
#define LOCKSTEP_DATA_H

#include <lockstep/image.h>
#include <lockstep/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_dataset ls_dataset;
typedef struct ls_sampler ls_sampler;
typedef struct ls_loader ls_loader;
typedef struct ls_batch ls_batch;

/* ---- Datasets of your own ----
 *
 *     static bool get(int64_t index, ls_sample *sample, void *user)
 *     {
 *         float *x = ls_sample_field(sample, 0);
 *         int64_t *label = ls_sample_field(sample, 1);
 *         ...
 *         return true;
 *     }
 *     ls_dataset *set = ls_dataset_new(run, .count = 1000, .get = get,
 *                                      .fields = {{.name = "x", .dtype = LS_F32, .shape = {2}},
 *                                                 {.name = "label", .dtype = LS_I64}});
 */

#define LS_MAX_FIELDS 16
#define LS_ANY (-1) /* a size that differs from sample to sample */

typedef struct ls_field {
    const char *name LS_DEFAULT(NULL);
    ls_dtype dtype LS_DEFAULT(LS_DTYPE_NONE);
    /* Of one sample, ended by 0; empty: a single number. LS_ANY: see ls_sample_resize(). */
    int64_t shape[LS_MAX_DIMS] LS_DEFAULT({});
    double pad LS_DEFAULT(0); /* fills up the shorter samples of a batch */
    /* A picture, channels last in memory: .transform and .dtype of the loader decide size and type. A shape [C,H,W] is
     * that of its plain pixels, before the transform: see ls_sample_pixels(). */
    bool image LS_DEFAULT(false);
} ls_field;

/* One sample on its way into a batch. */
typedef struct ls_sample ls_sample;

/* Write sample `index` and return true; or ls_sample_fail() and return false. Called by several threads at once (unless
 * .workers = 0) and in any order; it must not call functions that take the run. */
typedef bool ls_get_fn(int64_t index, ls_sample *sample, void *user);

/* Memory of a field for this sample, row-major, inside the batch itself; not initialised, except in ls_change_fn. */
LS_API void *ls_sample_field(ls_sample *sample, int field);
LS_API ls_shape ls_sample_shape(const ls_sample *sample, int field); /* its sizes; ls_change_fn: also where they vary */
/* The same for a field with a size of LS_ANY: this sample's sizes are `shape`. Batches take the largest sizes among
 * their samples; the rest is filled with the field's `pad`. NULL when out of memory. */
LS_API void *ls_sample_resize(ls_sample *sample, int field, ls_shape shape);
/* Decode a JPEG or PNG file held in memory into an image field, through the loader's transform.
 * False if it is not one. */
LS_API bool ls_sample_image(ls_sample *sample, int field, const void *bytes, size_t size);
/* Pixels 0..255, height x width x channels, into an image field that has a shape, through the loader's transform (for 1
 * or 3 channels). */
LS_API bool ls_sample_pixels(ls_sample *sample, int field, const uint8_t *pixels);
/* Scratch memory of at least that size, valid until the sample is done or the next call; NULL when out of memory. */
LS_API void *ls_sample_scratch(ls_sample *sample, size_t bytes);
/* 64 random bits: a function of the loader's seed, the epoch, the sample's index, and how many were drawn before. */
LS_API uint64_t ls_sample_random(ls_sample *sample);
/* Say why the sample cannot be read; LS_ERR_IO for data that is damaged or missing. Returns false. */
LS_PRINTF(3, 4) LS_API bool ls_sample_fail(ls_sample *sample, ls_status status, const char *format, ...);

/* What to do with a sample whose data is damaged or missing (LS_ERR_IO). */
typedef enum ls_on_bad {
    LS_ON_BAD_FAIL, /* an error that names it */
    /* The next good sample of the dataset takes its place, so that batches keep their size and processes stay in step;
     * each pass ends with a warning that counts them. See ls_loader_bad_count(). */
    LS_ON_BAD_SKIP,
} ls_on_bad;

typedef struct ls_dataset_opts {
    int64_t count LS_DEFAULT(LS_AUTO); /* samples; must be given */
    ls_get_fn *get LS_DEFAULT(NULL);
    void *user LS_DEFAULT(NULL);
    ls_field fields[LS_MAX_FIELDS] LS_DEFAULT({}); /* ended by one without a name */
    ls_on_bad on_bad LS_DEFAULT(LS_ON_BAD_FAIL);
    void (*release)(void *user) LS_DEFAULT(NULL);    /* (optional) when the dataset is freed */
    int64_t class_count LS_DEFAULT(0);               /* see ls_class_count(); 0: unknown */
    const char *const *class_names LS_DEFAULT(NULL); /* (optional) class_count of them; copied */
    /* (optional) A hash of all samples: ls_prepare() refuses processes that have different ones. Ready-made datasets of
     * files compute it: of texts and labels, of MNIST's bytes, of the names of photos. 0: unknown. */
    uint64_t contents LS_DEFAULT(0);
    ls_options_end _ LS_DEFAULT({});
} ls_dataset_opts;
#define ls_dataset_opts_defaults .count = LS_AUTO
#define ls_dataset_new(...) LS_CALL_1(ls_dataset_new, ls_dataset_opts, __VA_ARGS__, )
LS_API ls_dataset *ls_dataset_new_sized(ls_run *run, const ls_dataset_opts *opts, size_t opts_size);

/* ---- Streams: datasets that are read in order and whose length is unknown ---- */

typedef struct ls_stream_dataset_opts {
    /* Write the next sample and return true; at the end, or after ls_sample_fail(), false. */
    bool (*next)(ls_sample *sample, void *user) LS_DEFAULT(NULL);
    /* (optional) A pass begins: go back to the first sample. Without it a pass continues where the last one ended. */
    void (*begin)(int64_t epoch, void *user) LS_DEFAULT(NULL);
    /* (optional) Skip n samples without reading them; returns how many there were. Without it they are read. */
    int64_t (*skip)(int64_t n, void *user) LS_DEFAULT(NULL);
    void *user LS_DEFAULT(NULL);
    ls_field fields[LS_MAX_FIELDS] LS_DEFAULT({});   /* ended by one without a name */
    ls_on_bad on_bad LS_DEFAULT(LS_ON_BAD_FAIL);     /* LS_ON_BAD_SKIP: continue with the next sample */
    void (*release)(void *user) LS_DEFAULT(NULL);    /* (optional) when the dataset is freed */
    int64_t class_count LS_DEFAULT(0);               /* see ls_class_count(); 0: unknown */
    const char *const *class_names LS_DEFAULT(NULL); /* (optional) class_count of them; copied */
    ls_options_end _ LS_DEFAULT({});
} ls_stream_dataset_opts;
#define ls_stream_dataset_opts_defaults .next = NULL
/* One thread at a time calls these functions, not always the same one. Each process reads the whole stream and keeps
 * its part; samples of other processes are not decoded. */
#define ls_stream_dataset_new(...) LS_CALL_1(ls_stream_dataset_new, ls_stream_dataset_opts, __VA_ARGS__, )
LS_API ls_dataset *ls_stream_dataset_new_sized(ls_run *run, const ls_stream_dataset_opts *opts, size_t opts_size);

/* ---- Ready-made datasets ---- */

/* Photos in a folder, fields "image" and "label" (i64). The label is what the first group of `pattern`, a POSIX
 * extended regular expression, matches in the file name: beagle for beagle_32.jpg. Or, .by_folder, the name of the
 * sub-folder a photo is in, at any depth below it. Files and classes are sorted by name, byte by byte, so that all
 * machines number them alike. Files that do not match are left out with a warning; hidden ones silently. */
typedef struct ls_image_folder_opts {
    /* NULL is "^(.*)_[0-9]+\\.jpg$"; by folder: "\\.(jpg|jpeg|png)$"; both in upper or lower case */
    const char *pattern LS_DEFAULT(NULL);
    bool by_folder LS_DEFAULT(false);
    ls_on_bad on_bad LS_DEFAULT(LS_ON_BAD_FAIL);
    ls_options_end _ LS_DEFAULT({});
} ls_image_folder_opts;
#define ls_image_folder_opts_defaults .pattern = NULL
#define ls_image_folder_new(run, ...) LS_CALL_2(ls_image_folder_new, ls_image_folder_opts, run, __VA_ARGS__, )
LS_API ls_dataset *ls_image_folder_new_sized(ls_run *run, const char *folder, const ls_image_folder_opts *opts,
                                             size_t opts_size);
/* The file of sample `index`; "" for datasets that are not made of files. */
LS_API const char *ls_dataset_path(const ls_dataset *set, int64_t index);

/* MNIST and datasets in its format: idx files of images [n,H,W] and labels [n], plain or gzip. Fields "image" [1,H,W]
 * and "label"; classes are the numbers up to the largest label. */
LS_API ls_dataset *ls_mnist_new(ls_run *run, const char *images_path, const char *labels_path);

/* Sample i is row i of each tensor: ls_tensor_dataset_new(run, x, y). A tensor that has a name gives it to its field;
 * the others are "0", "1", ... Memory is shared with tensors that are contiguous and on the CPU. */
#define ls_tensor_dataset_new(run, ...) ls_tensor_dataset_new_n((run), LS_ITEMS(ls_tensor *, __VA_ARGS__))
LS_API ls_dataset *ls_tensor_dataset_new_n(ls_run *run, ls_tensor *const *tensors, int64_t count);

/* ---- Parts of datasets ---- */

/* Samples indices[0 .. count-1] of a dataset; the numbers are copied. */
LS_API ls_dataset *ls_subset_new(ls_dataset *set, const int64_t *indices, int64_t count);
/* Two disjoint parts in random order: floor(fraction * n) samples and the others. The order is a function of the run's
 * seed and of n, and drawing it disturbs no other random numbers. */
LS_API void ls_random_split(ls_dataset *set, double fraction, ls_dataset **first, ls_dataset **second);
/* Datasets with the same fields, one after the other: ls_concat_dataset_new(a, b). Classes are those of the first. */
#define ls_concat_dataset_new(...) ls_concat_dataset_new_n(LS_ITEMS(ls_dataset *, __VA_ARGS__))
LS_API ls_dataset *ls_concat_dataset_new_n(ls_dataset *const *sets, int64_t count);

/* Samples with the fields of all datasets, side by side; they have one length, and fields different names:
 * ls_zip_dataset_new(photos, captions). Classes are those of the first. */
#define ls_zip_dataset_new(...) ls_zip_dataset_new_n(LS_ITEMS(ls_dataset *, __VA_ARGS__))
LS_API ls_dataset *ls_zip_dataset_new_n(ls_dataset *const *sets, int64_t count);
/* The samples of a dataset, changed by a function: it finds their numbers in ls_sample_field() and changes them there.
 * Called like ls_get_fn. */
typedef bool ls_change_fn(ls_sample *sample, void *user);
LS_API ls_dataset *ls_map_dataset_new(ls_dataset *set, ls_change_fn *change, void *user);

/* One sample, as a batch of one: a tensor for each field, [1,...], in `fields`, which has room for LS_MAX_FIELDS.
 * Returns how many there are; 0 (and an error) on failure. Photos need a .transform that gives their size. */
typedef struct ls_dataset_sample_opts {
    ls_transform transform LS_DEFAULT({});
    ls_dtype dtype LS_DEFAULT(LS_DTYPE_NONE); /* of images, as in ls_loader_new() */
    ls_options_end _ LS_DEFAULT({});
} ls_dataset_sample_opts;
#define ls_dataset_sample_opts_defaults .dtype = LS_DTYPE_NONE
#define ls_dataset_sample(set, index, ...)                                                                             \
    LS_CALL_3(ls_dataset_sample, ls_dataset_sample_opts, set, index, __VA_ARGS__, )
LS_API int ls_dataset_sample_sized(ls_dataset *set, int64_t index, ls_tensor **fields,
                                   const ls_dataset_sample_opts *opts, size_t opts_size);

/* ---- Properties of a dataset ---- */

LS_API int64_t ls_dataset_len(const ls_dataset *set); /* -1 for a stream */
/* How many classes the labels stand for (0: unknown), the name of a class ("" if it has none), and the class of a
 * sample if it is known without reading it (-1 otherwise). */
LS_API int64_t ls_class_count(const ls_dataset *set);
LS_API const char *ls_class_name(const ls_dataset *set, int64_t label);
LS_API int64_t ls_dataset_class(const ls_dataset *set, int64_t index);
/* The length of a sample in tokens if it is known without reading it (-1 otherwise). */
LS_API int64_t ls_dataset_sample_length(const ls_dataset *set, int64_t index);
/* Freeing is deferred until the last loader and the last dataset made from it are freed. */
LS_API void ls_dataset_free(ls_dataset *set);

/* ---- Samplers: orders other than that of the dataset or a plain shuffle ----
 *
 * An order is a function of the loader's seed and the epoch, so a restart reproduces it. Samplers keep no state and may
 * be used by several loaders. */

/* Samples drawn at random: each at most once, or, with replacement, any number of times. */
typedef struct ls_random_sampler_opts {
    int64_t draws LS_DEFAULT(LS_AUTO); /* in an epoch; LS_AUTO: as many as there are samples */
    bool replacement LS_DEFAULT(false);
    ls_options_end _ LS_DEFAULT({});
} ls_random_sampler_opts;
#define ls_random_sampler_opts_defaults .draws = LS_AUTO
#define ls_random_sampler_new(...) LS_CALL_1(ls_random_sampler_new, ls_random_sampler_opts, __VA_ARGS__, )
LS_API ls_sampler *ls_random_sampler_new_sized(ls_run *run, const ls_random_sampler_opts *opts, size_t opts_size);

/* Sample i comes with a probability proportional to weights[i]; one for each sample, copied. */
typedef struct ls_weighted_sampler_opts {
    int64_t draws LS_DEFAULT(LS_AUTO); /* in an epoch; LS_AUTO: as many as there are samples */
    bool replacement LS_DEFAULT(true); /* false: each at most once */
    ls_options_end _ LS_DEFAULT({});
} ls_weighted_sampler_opts;
#define ls_weighted_sampler_opts_defaults .draws = LS_AUTO, .replacement = true
#define ls_weighted_sampler_new(run, weights, ...)                                                                     \
    LS_CALL_3(ls_weighted_sampler_new, ls_weighted_sampler_opts, run, weights, __VA_ARGS__, )
LS_API ls_sampler *ls_weighted_sampler_new_sized(ls_run *run, const double *weights, int64_t count,
                                                 const ls_weighted_sampler_opts *opts, size_t opts_size);

/* Every world-th sample beginning with rank, and the first ones again so that all ranks have the same number: for
 * programs that divide the samples themselves. Loaders passed to ls_prepare() are divided already. */
typedef struct ls_distributed_sampler_opts {
    int rank LS_DEFAULT(LS_AUTO), world_size LS_DEFAULT(LS_AUTO); /* LS_AUTO: the run's */
    bool shuffle LS_DEFAULT(false);                               /* before dividing, in the same order on all ranks */
    bool drop_last LS_DEFAULT(false);                             /* leave out the samples that do not divide evenly */
    ls_options_end _ LS_DEFAULT({});
} ls_distributed_sampler_opts;
#define ls_distributed_sampler_opts_defaults .rank = LS_AUTO, .world_size = LS_AUTO
#define ls_distributed_sampler_new(...)                                                                                \
    LS_CALL_1(ls_distributed_sampler_new, ls_distributed_sampler_opts, __VA_ARGS__, )
LS_API ls_sampler *ls_distributed_sampler_new_sized(ls_run *run, const ls_distributed_sampler_opts *opts,
                                                    size_t opts_size);

/* Samples of similar length share a batch, so that little of it is padding: samples are shuffled, cut into pools of
 * batches, sorted by length within a pool, and the batches shuffled. For datasets that know the lengths of their
 * samples without reading them (ls_dataset_sample_length), and for loaders of this .batch. */
typedef struct ls_length_sampler_opts {
    int64_t batch LS_DEFAULT(LS_AUTO); /* samples in a batch; must be given */
    int64_t pool LS_DEFAULT(50);       /* batches; the more, the less padding and the less shuffled */
    ls_options_end _ LS_DEFAULT({});
} ls_length_sampler_opts;
#define ls_length_sampler_opts_defaults .batch = LS_AUTO, .pool = 50
#define ls_length_sampler_new(run, ...) LS_CALL_2(ls_length_sampler_new, ls_length_sampler_opts, run, __VA_ARGS__, )
LS_API ls_sampler *ls_length_sampler_new_sized(ls_run *run, ls_dataset *set, const ls_length_sampler_opts *opts,
                                               size_t opts_size);

/* Your own order: write the `draws` sample numbers of an epoch (LS_AUTO: as many as there are samples). */
typedef void ls_order_fn(int64_t epoch, int64_t *samples, int64_t draws, void *user);
LS_API ls_sampler *ls_order_sampler_new(ls_run *run, int64_t draws, ls_order_fn *order, void *user);
/* Your own batches, of any sizes: batch k is the next sizes[k] of `samples`. Both lists are copied.
 * Loaders then take no .batch. */
LS_API ls_sampler *ls_batch_sampler_new(ls_run *run, const int64_t *sizes, int64_t batches, const int64_t *samples);
LS_API void ls_sampler_free(ls_sampler *sampler); /* not before its loaders */

/* ---- Loaders ---- */

/* Called with each batch on the run's thread, where operators may be used; ls_batch_set_field()
 * replaces a field with their result. */
typedef void ls_collate_fn(ls_batch *batch, void *user);

typedef struct ls_loader_opts {
    int64_t batch LS_DEFAULT(LS_AUTO);      /* samples in a batch; LS_AUTO: 1, or as the sampler's batch list says */
    bool shuffle LS_DEFAULT(false);         /* in an order that is a function of seed and epoch alone */
    bool drop_last LS_DEFAULT(false);       /* leave out a last batch that is not full */
    uint64_t seed LS_DEFAULT(LS_AUTO_SEED); /* of the order and of random transforms; LS_AUTO_SEED: the run's */
    int prefetch LS_DEFAULT(2);             /* batches that workers make ahead; at least 1 */
    /* Threads that read samples; 0: they are read inside ls_next(). LS_AUTO: as many as CPUs, at most 8, and 0 for data
     * in memory. */
    int workers LS_DEFAULT(LS_AUTO);
    ls_transform transform LS_DEFAULT({}); /* of pictures: see image.h */
    /* Of pictures: LS_F32 (0..1), or LS_U8 (0..255) to convert on the device. LS_DTYPE_NONE: as the transform says. */
    ls_dtype dtype LS_DEFAULT(LS_DTYPE_NONE);
    ls_sampler *sampler LS_DEFAULT(NULL); /* instead of .shuffle */
    ls_collate_fn *collate LS_DEFAULT(NULL);
    void *user LS_DEFAULT(NULL); /* of collate */
    /* Sizes that vary are padded to a multiple of this. LS_AUTO: 1; for texts on a device that compiles every new shape
     * (xla), 64, but no more than the longest text has. */
    int64_t pad_multiple LS_DEFAULT(LS_AUTO);
    ls_options_end _ LS_DEFAULT({});
} ls_loader_opts;
#define ls_loader_opts_defaults                                                                                        \
    .batch = LS_AUTO, .seed = LS_AUTO_SEED, .prefetch = 2, .workers = LS_AUTO, .pad_multiple = LS_AUTO
#define ls_loader_new(run, ...) LS_CALL_2(ls_loader_new, ls_loader_opts, run, __VA_ARGS__, )
LS_API ls_loader *ls_loader_new_sized(ls_run *run, ls_dataset *set, const ls_loader_opts *opts, size_t opts_size);
LS_API void ls_loader_free(ls_loader *loader);

/* Batches of a pass, for this process; -1 for a stream. */
LS_API int64_t ls_loader_len(const ls_loader *loader);
/* The batches of a loader, or the samples of a dataset. */
#ifdef __cplusplus
extern "C++" {
inline int64_t ls_len(const ls_loader *loader)
{
    return ls_loader_len(loader);
}
inline int64_t ls_len(const ls_dataset *set)
{
    return ls_dataset_len(set);
}
}
#else
#define ls_len(x)                                                                                                      \
    _Generic((x),                                                                                                      \
        ls_loader *: ls_loader_len,                                                                                    \
        const ls_loader *: ls_loader_len,                                                                              \
        ls_dataset *: ls_dataset_len,                                                                                  \
        const ls_dataset *: ls_dataset_len)(x)
#endif
/* How far a schedule moves in a pass, counted as .schedule_policy says: optimiser steps, which are fewer than batches
 * under gradient accumulation. With .accumulate_across_epochs passes may differ by one: the larger. -1 for a stream.
 *     ls_warmup_cosine_schedule_new(adam, 100, epochs * ls_steps_per_epoch(train)) */
LS_API int64_t ls_steps_per_epoch(const ls_loader *loader);

struct ls_batch {
    ls_tensor *image, *label; /* the fields of these names; else the first and the second (or NULL) */
    int count;                /* fields, in the dataset's order */
    ls_tensor *const *tensor;
    int64_t size;         /* samples */
    const int64_t *index; /* which samples of the dataset these are; until the next ls_next() */
    bool last;            /* of this pass */
    ls_loader *loader;
};

/* The next batch; false at the end of the pass, after which the next call begins another, in the order of the next
 * epoch. Also false after an error. Tensors computed from a batch live until the next call for the same loader: their
 * scope opens here and closes there. Loops over loaders may be nested.
 *
 * After `break` the next call continues with the next batch; ls_loader_rewind() and ls_epoch() begin a new pass
 * instead. */
LS_API bool ls_next(ls_loader *loader, ls_batch *batch);
LS_API void ls_loader_rewind(ls_loader *loader);

/* The field of that name; an error (and poison) if there is none. */
LS_API ls_tensor *ls_batch_field(const ls_batch *batch, const char *name);
/* Replace the field of that name. */
LS_API void ls_batch_set_field(ls_batch *batch, const char *name, ls_tensor *tensor);
/* Sizes of a sample's field before padding, e.g. ls_batch_sample_shape(&b, "tokens", 3).dim[0]. */
LS_API ls_shape ls_batch_sample_shape(const ls_batch *batch, const char *name, int64_t sample);

/* Leave out the first n batches of the next pass, and of that one only; costs nothing unless the dataset is a stream.
 * Ends a pass in progress, except in an epoch that was just restored from a checkpoint: there the call does nothing,
 * since the loader is already past those batches; ls_loader_rewind() starts it over. */
LS_API void ls_skip_first_batches(ls_loader *loader, int64_t n);
/* Set the epoch that decides the order of the next pass; later passes count on from it. The first pass is epoch 0. */
LS_API void ls_loader_set_epoch(ls_loader *loader, int64_t epoch);
LS_API int64_t ls_loader_epoch(const ls_loader *loader); /* of the pass in progress, else of the next one */
/* Bad samples that were replaced since the beginning of the pass in progress, else of the last one. */
LS_API int64_t ls_loader_bad_count(const ls_loader *loader);

#ifdef __cplusplus
}
#endif
#endif
