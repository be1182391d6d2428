/* rows.h - boxes, pictures in memory, and decoders that deliver rows.
 *
 * Pixels are three bytes: red, green, blue. After a picture's last row there are LS_IMAGE_SLACK bytes that kernels may
 * read. */
#ifndef LOCKSTEP_DATA_IMAGE_ROWS_H
#define LOCKSTEP_DATA_IMAGE_ROWS_H

#include "base/parallel.h"
#include "data/image/image.h"
#include "kernels/image.h"

/* A rectangular part of an image. */
typedef struct ls_box {
    int64_t x, y, width, height;
} ls_box;

typedef struct ls_picture {
    uint8_t *pixels;
    int64_t width, height;
    size_t stride; /* bytes from row to row */
} ls_picture;

/* Uses of the thread's scratch memory. Pictures alternate between the first two. */
typedef enum ls_image_slot {
    LS_SLOT_PICTURE,
    LS_SLOT_OTHER_PICTURE,
    LS_SLOT_WORK,
    LS_SLOT_DECODER,
    LS_SLOT_CODES = LS_SCRATCH_LASTING, /* code tables of the previous JPEG file: most files have the same */
} ls_image_slot;

static inline void *ls_image_scratch(ls_image_slot slot, size_t bytes)
{
    return ls_scratch((ls_worker){0, 1}, (int)slot, bytes);
}

/* Memory for a picture in a slot; pixels NULL if out of memory. */
static inline ls_picture ls_picture_in(ls_image_slot slot, int64_t width, int64_t height)
{
    size_t stride = (size_t)width * 3;
    uint8_t *pixels = ls_image_scratch(slot, stride * (size_t)height + LS_IMAGE_SLACK);
    return (ls_picture){pixels, width, height, stride};
}

static inline ls_status ls_image_out_of_memory(ls_message *why, int64_t width, int64_t height)
{
    return ls_explain(why, LS_ERR_MEMORY, "no memory for an image of %lld x %lld pixels", (long long)width,
                      (long long)height);
}

/* ---- Decoders: read the pixels of a box into a picture of its size ---- */

/* Image and box are measured in samples, of which each block of 8 has `block` per side: 8 (all), 4, 2 or 1. */
ls_status ls_jpeg_decode(const uint8_t *bytes, size_t size, ls_box box, int block, ls_picture *to, ls_message *why);
ls_status ls_png_decode(const uint8_t *bytes, size_t size, ls_box box, ls_picture *to, ls_message *why);

/* ---- Writing ---- */

/* Write the rows of a dense picture as a file. Unlike those of the decoders, the message names the file. */
ls_status ls_jpeg_encode(const char *path, const uint8_t *rgb, int64_t width, int64_t height, int quality,
                         ls_message *why);
ls_status ls_png_encode(const char *path, const uint8_t *rgb, int64_t width, int64_t height, ls_message *why);

#endif
