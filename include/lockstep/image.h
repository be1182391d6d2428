/* image.h - pictures: reading photos, and the transforms that make training data of them.
 *
 *     ls_loader_new(run, photos, .transform = ls_random_resized_crop(224, .min_scale = 0.5));
 *     ls_loader_new(run, photos, .transform = ls_compose(ls_resize_shorter(256), ls_center_crop(224)));
 *     ls_tensor *x = ls_image_read(run, "cat.jpg", .transform = ls_resize(224));
 *
 * A transform is a plain value: a short list of steps, copied like a number, never freed. Steps have torchvision's
 * names, arithmetic and defaults: on the same photo, with the same random numbers, the pixels are those of its PIL path
 * (Pillow's antialiased filters, its 8-bit rounding). All random numbers of a picture are a function of the seed, the
 * epoch and the number of the sample, on any thread or process.
 *
 * JPEG (baseline, progressive, grayscale, CMYK) and PNG (all kinds) are read as Pillow's convert("RGB") does, and told
 * apart by content, not by name. A file that is damaged, truncated or of another kind is an error that says so. */
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

enum { LS_MAX_TRANSFORM_STEPS = 12 };

/* Made by the functions below; its members are private to the library. All zero is the identity: pictures keep their
 * size and become f32 in 0..1. A transform made with invalid values keeps the reason in `problem`, and using it is an
 * error. */
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
    ls_transform_step step[LS_MAX_TRANSFORM_STEPS];
    char problem[96]; /* why it cannot be used; "" if it can */
} ls_transform;

/* Several in sequence: ls_compose(ls_resize_shorter(256), ls_center_crop(224), ls_random_flip()). */
#define ls_compose(...) ls_compose_n(LS_ITEMS(ls_transform, __VA_ARGS__))
LS_API ls_transform ls_compose_n(const ls_transform *transforms, int64_t count);

/* A random part of the picture, scaled to size x size: min_scale to max_scale of its area, with a ratio of width to
 * height between min_ratio and max_ratio; the middle if ten attempts do not fit. */
typedef struct ls_random_resized_crop_opts {
    double min_scale LS_DEFAULT(0.08), max_scale LS_DEFAULT(1);
    double min_ratio LS_DEFAULT(3.0 / 4), max_ratio LS_DEFAULT(4.0 / 3);
    ls_filter filter LS_DEFAULT(LS_FILTER_DEFAULT);
    int width LS_DEFAULT(LS_AUTO); /* LS_AUTO: size */
    ls_options_end _ LS_DEFAULT({});
} ls_random_resized_crop_opts;
#define ls_random_resized_crop_opts_defaults                                                                           \
    .min_scale = 0.08, .max_scale = 1, .min_ratio = 3.0 / 4, .max_ratio = 4.0 / 3, .width = LS_AUTO
#define ls_random_resized_crop(...) LS_CALL_1(ls_random_resized_crop, ls_random_resized_crop_opts, __VA_ARGS__, )
LS_API ls_transform ls_random_resized_crop_sized(int size, const ls_random_resized_crop_opts *opts, size_t opts_size);

/* The whole picture, scaled to exactly size x size (or size high and .width wide):
 * torchvision's Resize((size, size)). */
typedef struct ls_resize_opts {
    ls_filter filter LS_DEFAULT(LS_FILTER_DEFAULT);
    int width LS_DEFAULT(LS_AUTO); /* LS_AUTO: size */
    ls_options_end _ LS_DEFAULT({});
} ls_resize_opts;
#define ls_resize_opts_defaults .width = LS_AUTO
#define ls_resize(...) LS_CALL_1(ls_resize, ls_resize_opts, __VA_ARGS__, )
LS_API ls_transform ls_resize_sized(int size, const ls_resize_opts *opts, size_t opts_size);

/* The whole picture, scaled so that its shorter side is `size`: torchvision's Resize(size). */
#define ls_resize_shorter(...) LS_CALL_1(ls_resize_shorter, ls_resize_opts, __VA_ARGS__, )
LS_API ls_transform ls_resize_shorter_sized(int size, const ls_resize_opts *opts, size_t opts_size);

/* The middle, size x size (or size high and .width wide); smaller pictures are padded with black. */
typedef struct ls_center_crop_opts {
    int width LS_DEFAULT(LS_AUTO); /* LS_AUTO: size */
    ls_options_end _ LS_DEFAULT({});
} ls_center_crop_opts;
#define ls_center_crop_opts_defaults .width = LS_AUTO
#define ls_center_crop(...) LS_CALL_1(ls_center_crop, ls_center_crop_opts, __VA_ARGS__, )
LS_API ls_transform ls_center_crop_sized(int size, const ls_center_crop_opts *opts, size_t opts_size);

/* A random part, size x size (or size high and .width wide), of the picture with .padding black pixels on every side:
 * torchvision's RandomCrop. A picture that is too small even then is padded with more black. */
typedef struct ls_random_crop_opts {
    int padding LS_DEFAULT(0);
    int width LS_DEFAULT(LS_AUTO); /* LS_AUTO: size */
    ls_options_end _ LS_DEFAULT({});
} ls_random_crop_opts;
#define ls_random_crop_opts_defaults .width = LS_AUTO
#define ls_random_crop(...) LS_CALL_1(ls_random_crop, ls_random_crop_opts, __VA_ARGS__, )
LS_API ls_transform ls_random_crop_sized(int size, const ls_random_crop_opts *opts, size_t opts_size);

/* Mirror left and right, or top and bottom, with a probability. */
typedef struct ls_random_flip_opts {
    double probability LS_DEFAULT(0.5);
    bool vertical LS_DEFAULT(false);
    ls_options_end _ LS_DEFAULT({});
} ls_random_flip_opts;
#define ls_random_flip_opts_defaults .probability = 0.5
#define ls_random_flip(...) LS_CALL_0(ls_random_flip, ls_random_flip_opts, __VA_ARGS__)
LS_API ls_transform ls_random_flip_sized(const ls_random_flip_opts *opts, size_t opts_size);

/* Rotate about the centre by an angle between -degrees and degrees, counter-clockwise; the size stays the same. */
typedef struct ls_random_rotation_opts {
    double min_degrees LS_DEFAULT(LS_AUTO_REAL);    /* LS_AUTO_REAL: -degrees */
    ls_filter filter LS_DEFAULT(LS_FILTER_DEFAULT); /* LS_FILTER_NEAREST or LS_FILTER_BILINEAR */
    uint8_t fill[3] LS_DEFAULT({0, 0, 0});          /* colour of the corners */
    ls_options_end _ LS_DEFAULT({});
} ls_random_rotation_opts;
#define ls_random_rotation_opts_defaults .min_degrees = LS_AUTO_REAL
#define ls_random_rotation(...) LS_CALL_1(ls_random_rotation, ls_random_rotation_opts, __VA_ARGS__, )
LS_API ls_transform ls_random_rotation_sized(double degrees, const ls_random_rotation_opts *opts, size_t opts_size);

/* Multiply brightness, contrast and saturation by a number between 1 - x and 1 + x, and rotate the hue by up to x of
 * the circle (at most 0.5), in random order. Zero leaves one unchanged. */
typedef struct ls_color_jitter_opts {
    double brightness LS_DEFAULT(0), contrast LS_DEFAULT(0), saturation LS_DEFAULT(0), hue LS_DEFAULT(0);
    ls_options_end _ LS_DEFAULT({});
} ls_color_jitter_opts;
#define ls_color_jitter_opts_defaults .brightness = 0
#define ls_color_jitter(...) LS_CALL_0(ls_color_jitter, ls_color_jitter_opts, __VA_ARGS__)
LS_API ls_transform ls_color_jitter_sized(const ls_color_jitter_opts *opts, size_t opts_size);

/* Convert to gray, still in three channels, with a probability. */
typedef struct ls_grayscale_opts {
    double probability LS_DEFAULT(1);
    ls_options_end _ LS_DEFAULT({});
} ls_grayscale_opts;
#define ls_grayscale_opts_defaults .probability = 1
#define ls_grayscale(...) LS_CALL_0(ls_grayscale, ls_grayscale_opts, __VA_ARGS__)
LS_API ls_transform ls_grayscale_sized(const ls_grayscale_opts *opts, size_t opts_size);

/* The type of the result: LS_F32 in 0..1 (the default, also without this), or LS_U8 in 0..255. */
typedef struct ls_to_tensor_opts {
    ls_dtype dtype LS_DEFAULT(LS_F32);
    ls_options_end _ LS_DEFAULT({});
} ls_to_tensor_opts;
#define ls_to_tensor_opts_defaults .dtype = LS_F32
#define ls_to_tensor(...) LS_CALL_0(ls_to_tensor, ls_to_tensor_opts, __VA_ARGS__)
LS_API ls_transform ls_to_tensor_sized(const ls_to_tensor_opts *opts, size_t opts_size);

/* (x - mean) / std of each channel, after everything else. The defaults are those of ImageNet. A model that normalises
 * on its device (ls_imagenet_normalize) must not be given normalised pictures. */
typedef struct ls_normalize_image_opts {
    float mean[3] LS_DEFAULT({0.485f, 0.456f, 0.406f});
    float std[3] LS_DEFAULT({0.229f, 0.224f, 0.225f});
    ls_options_end _ LS_DEFAULT({});
} ls_normalize_image_opts;
#define ls_normalize_image_opts_defaults .mean = {0.485f, 0.456f, 0.406f}, .std = {0.229f, 0.224f, 0.225f}
#define ls_normalize_image(...) LS_CALL_0(ls_normalize_image, ls_normalize_image_opts, __VA_ARGS__)
LS_API ls_transform ls_normalize_image_sized(const ls_normalize_image_opts *opts, size_t opts_size);

/* How files are decoded; may be anywhere in a composition. */
typedef struct ls_decode_opts {
    /* Rotate the picture as its EXIF orientation says; otherwise it is used as stored, like torchvision. */
    bool upright LS_DEFAULT(false);
    /* If the file has at least twice the pixels needed, let the JPEG decoder scale: quicker, with slightly different
     * pixels (a level or two in smooth parts, more at edges). */
    bool fast LS_DEFAULT(false);
    /* Larger pictures are errors. LS_AUTO: 178,956,970, Pillow's limit, or what is plausible for the size of the file
     * (64 MiB plus 1032 bytes for each byte of the file). */
    int64_t max_pixels LS_DEFAULT(LS_AUTO);
    ls_options_end _ LS_DEFAULT({});
} ls_decode_opts;
#define ls_decode_opts_defaults .max_pixels = LS_AUTO
#define ls_decode(...) LS_CALL_0(ls_decode, ls_decode_opts, __VA_ARGS__)
LS_API ls_transform ls_decode_sized(const ls_decode_opts *opts, size_t opts_size);

/* ---- Files ---- */

typedef struct ls_image_read_opts {
    ls_transform transform LS_DEFAULT({}); /* random steps draw from the run */
    ls_options_end _ LS_DEFAULT({});
} ls_image_read_opts;
#define ls_image_read_opts_defaults LS_OPTIONS_END_

/* A picture as a batch of one, [1,3,H,W] in channels-last memory, f32 in 0..1 unless the transform says otherwise. */
#define ls_image_read(run, ...) LS_CALL_2(ls_image_read, ls_image_read_opts, run, __VA_ARGS__, )
LS_API ls_tensor *ls_image_read_sized(ls_run *run, const char *path, const ls_image_read_opts *opts, size_t opts_size);

/* Size of the picture in a file, as stored; reads the header only. False (and an error) if it is not a picture. */
LS_API bool ls_image_size(ls_run *run, const char *path, int64_t *height, int64_t *width);

/* Write pictures: [C,H,W], or [N,C,H,W] in a grid, C 1 or 3; u8, or floating in 0..1 (what is outside is cut off). The
 * name of the file ends in .png, .jpg or .jpeg. torchvision's save_image. False (and an error) on failure. */
typedef struct ls_image_write_opts {
    int columns LS_DEFAULT(8);  /* of the grid */
    int padding LS_DEFAULT(2);  /* black pixels around each picture of a grid */
    int quality LS_DEFAULT(95); /* of a JPEG file, 1 to 100 */
    ls_options_end _ LS_DEFAULT({});
} ls_image_write_opts;
#define ls_image_write_opts_defaults .columns = 8, .padding = 2, .quality = 95
#define ls_image_write(x, ...) LS_CALL_2(ls_image_write, ls_image_write_opts, x, __VA_ARGS__, )
LS_API bool ls_image_write_sized(ls_tensor *x, const char *path, const ls_image_write_opts *opts, size_t opts_size);

/* Write rows of RGB bytes [height, width, 3] as a JPEG file; quality 1 to 100. False (and an error) on failure. */
LS_API bool ls_jpeg_write(ls_run *run, const char *path, const uint8_t *rgb, int64_t height, int64_t width,
                          int quality);
/* The same as a PNG file, which keeps every pixel. In a build without libpng it is about as large as the bytes. */
LS_API bool ls_png_write(ls_run *run, const char *path, const uint8_t *rgb, int64_t height, int64_t width);

#ifdef __cplusplus
}
#endif
#endif
