/* rows.h - pixels on their way: boxes, pictures in memory, decoders that deliver rows.
 *
 * Pixels are three bytes: red, green, blue. Behind a picture's last row stand LS_IMAGE_SLACK bytes that kernels may
 * read. */
#ifndef LOCKSTEP_DATA_IMAGE_ROWS_H
#define LOCKSTEP_DATA_IMAGE_ROWS_H

#include "base/parallel.h"
#include "data/image/image.h"
#include "kernels/image.h"

/* A part of a picture. */
typedef struct ls_box {
    int64_t x, y, width, height;
} ls_box;

typedef struct ls_picture {
    uint8_t *pixels;
    int64_t width, height;
    size_t stride; /* bytes from row to row */
} ls_picture;

/* The thread's scratch memory and what lies in it. Pictures alternate between the first two. */
typedef enum ls_image_slot {
    LS_SLOT_PICTURE,
    LS_SLOT_OTHER_PICTURE,
    LS_SLOT_WORK,
    LS_SLOT_DECODER,
    LS_SLOT_CODES = LS_SCRATCH_LASTING, /* of the JPEG file before: most files have the same */
} ls_image_slot;

static inline void *ls_image_scratch(ls_image_slot slot, size_t bytes)
{
    return ls_scratch((ls_worker){0, 1}, (int)slot, bytes);
}

/* Room for a picture in a slot; pixels NULL when memory is out. */
static inline ls_picture ls_picture_in(ls_image_slot slot, int64_t width, int64_t height)
{
    size_t stride = (size_t)width * 3;
    uint8_t *pixels = ls_image_scratch(slot, stride * (size_t)height + LS_IMAGE_SLACK);
    return (ls_picture){pixels, width, height, stride};
}

static inline ls_status ls_image_out_of_memory(ls_message *why, int64_t width, int64_t height)
{
    return ls_explain(why, LS_ERR_MEMORY, "out of memory for a picture of %lld x %lld pixels", (long long)width,
                      (long long)height);
}

/* ---- Decoders: the pixels of a box, into a picture of its size ---- */

/* Sides of picture and box are counted in samples, of which each block of 8 gives `block`: 8 (all), 4, 2 or 1. */
ls_status ls_jpeg_decode(const uint8_t *bytes, size_t size, ls_box box, int block, ls_picture *to, ls_message *why);
ls_status ls_png_decode(const uint8_t *bytes, size_t size, ls_box box, ls_picture *to, ls_message *why);

/* ---- And back ---- */

/* Rows of a dense picture as a file. Unlike the decoders', the message names it. */
ls_status ls_jpeg_encode(const char *path, const uint8_t *rgb, int64_t width, int64_t height, int quality,
                         ls_message *why);

#endif
