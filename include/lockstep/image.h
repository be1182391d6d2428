/* image.h - pictures: reading photos, and the transforms that make training data of them.
 *
 *     ls_loader_new(run, photos, .transform = ls_random_resized_crop(224, .min_scale = 0.5));
 *     ls_loader_new(run, photos, .transform = ls_compose(ls_resize_shorter(256), ls_center_crop(224)));
 *     ls_tensor *x = ls_image_read(run, "cat.jpg", .transform = ls_resize(224));
 *
 * A transform is a plain value: a short list of steps, copied like a number, owned by nobody. Steps have torchvision's
 * names, arithmetic and defaults: on the same photo, with the same random numbers, the pixels are those of its PIL path
 * (Pillow's antialiased filters, its 8-bit rounding). All random numbers of a picture are a function of the seed, the
 * epoch and the number of the sample, whoever computes it and when.
 *
 * JPEG (baseline, progressive, grayscale, CMYK) and PNG (all kinds) are read, as Pillow's convert("RGB") would. The
 * content decides, not the name. A file that is damaged, ends early or is something else is an error that says so. */
#ifndef LOCKSTEP_IMAGE_H
#define LOCKSTEP_IMAGE_H

#include <lockstep/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How pixels are combined when the size changes. Filters widen when a picture shrinks (antialiasing), except
 * NEAREST. */
typedef enum ls_filter {
    LS_FILTER_DEFAULT = 0, /* bilinear; nearest for rotations */
    LS_FILTER_NEAREST,
    LS_FILTER_BILINEAR,
    LS_FILTER_BICUBIC,
    LS_FILTER_BOX,
    LS_FILTER_HAMMING,
    LS_FILTER_LANCZOS,
} ls_filter;

/* ---- Transforms ---- */

enum { LS_TRANSFORM_STEPS = 12 };

/* Made by the functions below; what stands in it is the library's business. All zero is a transform that changes
 * nothing: pictures keep their size and become f32 in 0..1. One that was made with impossible values carries the reason
 * along and is refused where it is used. */
typedef struct ls_transform_step {
    int32_t kind, filter;
    int32_t height, width;
    double value[6];
} ls_transform_step;

typedef struct ls_transform {
    int32_t count;
    int32_t dtype;      /* of the result: LS_F32, or LS_U8 where ls_to_tensor says so */
    int32_t normalized; /* mean and std are given */
    int32_t upright, fast;
    int64_t max_pixels;
    float mean[3], std[3];
    ls_transform_step step[LS_TRANSFORM_STEPS];
    char problem[96]; /* why it cannot be used; "" */
} ls_transform;

/* One after another: ls_compose(ls_resize_shorter(256), ls_center_crop(224), ls_random_flip()). */
#define ls_compose(...)                                                                                                \
    ls_compose_list((const ls_transform[]){__VA_ARGS__},                                                               \
                    sizeof((const ls_transform[]){__VA_ARGS__}) / sizeof(ls_transform))
LS_API ls_transform ls_compose_list(const ls_transform *transforms, size_t count);

/* A random part of the picture, scaled to size x size: of min_scale to max_scale of its area, and of a ratio of width
 * to height between min_ratio and max_ratio; the middle where ten attempts do not fit. */
typedef struct ls_random_resized_crop_opts {
    int _;
    double min_scale, max_scale; /* 0.08 and 1 */
    double min_ratio, max_ratio; /* 3/4 and 4/3 */
    ls_filter filter;            /* LS_FILTER_BILINEAR */
    int width;                   /* size */
} ls_random_resized_crop_opts;
#define ls_random_resized_crop(...) LS_RANDOM_RESIZED_CROP_(__VA_ARGS__, ._ = 0)
#define LS_RANDOM_RESIZED_CROP_(size, ...)                                                                             \
    ls_random_resized_crop_sized((size), LS_OPTS(ls_random_resized_crop_opts, __VA_ARGS__))
LS_API ls_transform ls_random_resized_crop_sized(int size, const ls_random_resized_crop_opts *opts, size_t opts_size);

/* The whole picture, scaled to exactly size x size (or size high and .width wide):
 * torchvision's Resize((size, size)). */
typedef struct ls_resize_opts {
    int _;
    ls_filter filter; /* LS_FILTER_BILINEAR */
    int width;        /* size */
} ls_resize_opts;
#define ls_resize(...) LS_RESIZE_(__VA_ARGS__, ._ = 0)
#define LS_RESIZE_(size, ...) ls_resize_sized((size), LS_OPTS(ls_resize_opts, __VA_ARGS__))
LS_API ls_transform ls_resize_sized(int size, const ls_resize_opts *opts, size_t opts_size);

/* The whole picture, scaled so that its shorter side is `size`: torchvision's Resize(size). */
#define ls_resize_shorter(...) LS_RESIZE_SHORTER_(__VA_ARGS__, ._ = 0)
#define LS_RESIZE_SHORTER_(size, ...) ls_resize_shorter_sized((size), LS_OPTS(ls_resize_opts, __VA_ARGS__))
LS_API ls_transform ls_resize_shorter_sized(int size, const ls_resize_opts *opts, size_t opts_size);

/* The middle, size x size (or size high and .width wide); black is added around what is smaller. */
typedef struct ls_center_crop_opts {
    int _;
    int width; /* size */
} ls_center_crop_opts;
#define ls_center_crop(...) LS_CENTER_CROP_(__VA_ARGS__, ._ = 0)
#define LS_CENTER_CROP_(size, ...) ls_center_crop_sized((size), LS_OPTS(ls_center_crop_opts, __VA_ARGS__))
LS_API ls_transform ls_center_crop_sized(int size, const ls_center_crop_opts *opts, size_t opts_size);

/* Left and right exchanged, or top and bottom, with a probability. */
typedef struct ls_random_flip_opts {
    int _;
    double probability; /* 0.5 */
    bool vertical;
} ls_random_flip_opts;
#define ls_random_flip(...) ls_random_flip_sized(LS_OPTS(ls_random_flip_opts, ._ = 0, __VA_ARGS__))
LS_API ls_transform ls_random_flip_sized(const ls_random_flip_opts *opts, size_t opts_size);

/* Turned about the middle by an angle between -degrees and degrees, counter-clockwise; the size stays. */
typedef struct ls_random_rotation_opts {
    int _;
    double min_degrees; /* -degrees */
    ls_filter filter;   /* LS_FILTER_NEAREST or LS_FILTER_BILINEAR */
    uint8_t fill[3];    /* what appears in the corners; black */
} ls_random_rotation_opts;
#define ls_random_rotation(...) LS_RANDOM_ROTATION_(__VA_ARGS__, ._ = 0)
#define LS_RANDOM_ROTATION_(degrees, ...)                                                                              \
    ls_random_rotation_sized((degrees), LS_OPTS(ls_random_rotation_opts, __VA_ARGS__))
LS_API ls_transform ls_random_rotation_sized(double degrees, const ls_random_rotation_opts *opts, size_t opts_size);

/* Brightness, contrast and saturation are multiplied by a number between 1 - x and 1 + x, the hue is turned by up to x
 * of the circle (at most 0.5), in random order. Zero leaves one alone. */
typedef struct ls_color_jitter_opts {
    int _;
    double brightness, contrast, saturation, hue;
} ls_color_jitter_opts;
#define ls_color_jitter(...) ls_color_jitter_sized(LS_OPTS(ls_color_jitter_opts, ._ = 0, __VA_ARGS__))
LS_API ls_transform ls_color_jitter_sized(const ls_color_jitter_opts *opts, size_t opts_size);

/* Shades of gray, still in three channels, with a probability. */
typedef struct ls_grayscale_opts {
    int _;
    double probability; /* 1 */
} ls_grayscale_opts;
#define ls_grayscale(...) ls_grayscale_sized(LS_OPTS(ls_grayscale_opts, ._ = 0, __VA_ARGS__))
LS_API ls_transform ls_grayscale_sized(const ls_grayscale_opts *opts, size_t opts_size);

/* The type of the result: LS_F32 in 0..1 (the default, also without this), or LS_U8 in 0..255 as it is. */
typedef struct ls_to_tensor_opts {
    int _;
    ls_dtype dtype; /* LS_F32 */
} ls_to_tensor_opts;
#define ls_to_tensor(...) ls_to_tensor_sized(LS_OPTS(ls_to_tensor_opts, ._ = 0, __VA_ARGS__))
LS_API ls_transform ls_to_tensor_sized(const ls_to_tensor_opts *opts, size_t opts_size);

/* (x - mean) / std of each channel, after everything else. The defaults are those of ImageNet. A model that normalises
 * on its device (ls_imagenet_normalize) must not be given normalised pictures. */
typedef struct ls_normalize_image_opts {
    int _;
    float mean[3]; /* 0.485, 0.456, 0.406, unless std is given */
    float std[3];  /* 0.229, 0.224, 0.225, unless mean is given; then 1 */
} ls_normalize_image_opts;
#define ls_normalize_image(...) ls_normalize_image_sized(LS_OPTS(ls_normalize_image_opts, ._ = 0, __VA_ARGS__))
LS_API ls_transform ls_normalize_image_sized(const ls_normalize_image_opts *opts, size_t opts_size);

/* How files are decoded; stands anywhere in a composition. */
typedef struct ls_decode_opts {
    int _;
    bool upright; /* turn the picture as the camera noted (EXIF orientation); default: as stored, like torchvision */
    bool fast;    /* where at least twice the pixels are there, let the JPEG decoder scale: quicker, slightly other
                         * pixels (a level or two in smooth parts, more at edges) */
    int64_t max_pixels; /* refuse pictures of more; else of more than 178,956,970, Pillow's limit, or than the size of
                         * the file makes likely (64 MiB and 1032 bytes for each of its own) */
} ls_decode_opts;
#define ls_decode(...) ls_decode_sized(LS_OPTS(ls_decode_opts, ._ = 0, __VA_ARGS__))
LS_API ls_transform ls_decode_sized(const ls_decode_opts *opts, size_t opts_size);

/* ---- Files ---- */

typedef struct ls_image_read_opts {
    int _;
    ls_transform transform; /* random steps take numbers of the run */
} ls_image_read_opts;

/* A picture as a batch of one, [1,3,H,W] in channels-last memory, f32 in 0..1 unless the transform says otherwise. */
#define ls_image_read(run, ...) LS_IMAGE_READ_(run, __VA_ARGS__, ._ = 0)
#define LS_IMAGE_READ_(run, path, ...) ls_image_read_sized((run), (path), LS_OPTS(ls_image_read_opts, __VA_ARGS__))
LS_API ls_tensor *ls_image_read_sized(ls_run *run, const char *path, const ls_image_read_opts *opts, size_t opts_size);

/* Size of the picture in a file, as stored; reads its head only. False (and an error) when it is none. */
LS_API bool ls_image_size(ls_run *run, const char *path, int64_t *width, int64_t *height);

/* Write rows of RGB bytes [height, width, 3] as a JPEG file; quality 1 to 100. False (and an error) on failure. */
LS_API bool ls_jpeg_write(ls_run *run, const char *path, const uint8_t *rgb, int64_t width, int64_t height,
                          int quality);

#ifdef __cplusplus
}
#endif
#endif
