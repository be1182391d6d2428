/* image.h - from the bytes of a file to pixels in a batch: what the loader calls.
 *
 * Everything here may be called from any thread. Working memory is the thread's scratch (base/parallel.h), so that in a
 * steady state nothing is taken from the system; libjpeg and libpng, where they are needed, manage their own. */
#ifndef LOCKSTEP_DATA_IMAGE_H
#define LOCKSTEP_DATA_IMAGE_H

#include <lockstep/image.h>

#include "base/message.h"

/* Can this transform be used? LS_ERR_VALUE and the reason if not. */
ls_status ls_transform_check(const ls_transform *t, ls_message *why);
/* LS_F32 or LS_U8. */
ls_dtype ls_transform_dtype(const ls_transform *t);
/* What pixels become as f32: (x / 255 - mean) / std, by channel. */
void ls_transform_scale(const ls_transform *t, float mean[3], float std[3]);
/* Make that of `count` bytes, their channels side by side. */
void ls_transform_widen(const ls_transform *t, const uint8_t *pixels, int64_t count, float *to);
/* True when all results have one size, whatever the picture. */
bool ls_transform_size(const ls_transform *t, int64_t *height, int64_t *width);
/* The largest picture that is decoded. */
int64_t ls_transform_max_pixels(const ls_transform *t);

/* Where the result goes: H x W x 3, channels last, of ls_transform_dtype. */
typedef struct ls_image_out {
    void *memory; /* of `height` x `width` pixels; another size is LS_ERR_SHAPE */
    int64_t height, width;
    bool bytes; /* leave the pixels as they are, for ls_transform_widen() or a device to do the rest */
    /* Instead of these: called once, when the size is known; NULL (and a reason) refuses it. */
    void *(*room)(void *user, int64_t height, int64_t width, ls_message *why);
    void *user;
} ls_image_out;

/* Decode a picture and transform it. `t` may be NULL: as it is. random: the key of the epoch's random numbers and the
 * number of the sample; nothing else decides what a random step does. LS_ERR_IO: no picture, or a damaged one. */
ls_status ls_image_decode_transform(const void *bytes, size_t size, const ls_transform *t, const uint64_t random[2],
                                    ls_image_out out, ls_message *why);

/* Width and height as stored; looks at the head only. */
ls_status ls_image_measure(const void *bytes, size_t size, int64_t *width, int64_t *height, ls_message *why);

#endif
