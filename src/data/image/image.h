/* image.h - from the bytes of a file, or plain pixels, to pixels in a batch: the interface for the loader.
 *
 * Every function is thread-safe. Working memory is the thread's scratch (base/parallel.h), so that nothing is allocated
 * in steady state; libjpeg and libpng, if needed, manage their own. */
#ifndef LOCKSTEP_DATA_IMAGE_H
#define LOCKSTEP_DATA_IMAGE_H

#include <lockstep/image.h>

#include "base/message.h"

/* Is this transform valid? LS_ERR_VALUE and the reason if not. */
ls_status ls_transform_check(const ls_transform *t, ls_message *why);
/* LS_F32 or LS_U8. */
ls_dtype ls_transform_dtype(const ls_transform *t);
/* The conversion of pixels to f32: (x / 255 - mean) / std, per channel. */
void ls_transform_scale(const ls_transform *t, float mean[3], float std[3]);
/* Convert `count` bytes with interleaved channels. */
void ls_transform_widen(const ls_transform *t, const uint8_t *pixels, int64_t count, float *to);
/* True if all results have the same size, whatever the image. */
bool ls_transform_size(const ls_transform *t, int64_t *height, int64_t *width);
/* The size of what becomes of an image of this size. */
void ls_transform_size_after(const ls_transform *t, int64_t *height, int64_t *width);
/* The largest image that is decoded. */
int64_t ls_transform_max_pixels(const ls_transform *t);

/* The destination: H x W x 3, channels last, of type ls_transform_dtype. */
typedef struct ls_image_out {
    void *memory; /* of `height` x `width` pixels; another size is LS_ERR_SHAPE */
    int64_t height, width;
    bool bytes; /* keep the pixels as bytes; ls_transform_widen() or a device converts them */
    /* Instead of these: called once, when the size is known; NULL (and a reason) refuses it. */
    void *(*room)(void *user, int64_t height, int64_t width, ls_message *why);
    void *user;
} ls_image_out;

/* Decode an image and transform it. `t` may be NULL: no transform. random: the key of the epoch's random numbers and
 * the sample number, which alone determine the random steps. LS_ERR_IO: not an image, or a damaged one. */
ls_status ls_image_decode_transform(const void *bytes, size_t size, const ls_transform *t, const uint64_t random[2],
                                    ls_image_out out, ls_message *why);

/* The same for pixels that are in memory, `channels` bytes each, 1 or 3: the result has as many channels. */
ls_status ls_image_transform_pixels(const uint8_t *pixels, int64_t height, int64_t width, int64_t channels,
                                    const ls_transform *t, const uint64_t random[2], ls_image_out out, ls_message *why);

/* Width and height as stored; reads only the header. */
ls_status ls_image_measure(const void *bytes, size_t size, int64_t *width, int64_t *height, ls_message *why);

#endif
