/* paint.h - the pixels of tensors that hold pictures. */
#ifndef LOCKSTEP_DATA_IMAGE_PAINT_H
#define LOCKSTEP_DATA_IMAGE_PAINT_H

#include <lockstep/tensor.h>

/* Rows of RGB bytes [height, width, 3]; the owner must ls_sys_free() rgb. */
typedef struct ls_painting {
    uint8_t *rgb;
    int64_t height, width;
} ls_painting;

/* Paint [C,H,W], or [N,C,H,W] in a grid, C 1 or 3; u8, or floating in 0..1. `who`: the public function, for errors.
 * False (and an error) on failure. */
bool ls_image_paint(ls_tensor *x, const char *who, int columns, int padding, ls_painting *to);
/* Report what is wrong with a tensor. Returns false. */
bool ls_image_refuse(ls_tensor *x, const char *who, const char *why);

#endif
