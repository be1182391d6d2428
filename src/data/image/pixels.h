/* pixels.h - steps on an image in memory: colours, rotation, orientation. Pillow's arithmetic. */
#ifndef LOCKSTEP_DATA_IMAGE_PIXELS_H
#define LOCKSTEP_DATA_IMAGE_PIXELS_H

#include "data/image/rows.h"

/* Each of these is Pillow's ImageEnhance class of that name with that factor, in place. */
void ls_picture_brightness(ls_picture *p, float factor);
void ls_picture_contrast(ls_picture *p, float factor);
void ls_picture_saturation(ls_picture *p, float factor);
/* Rotate the hue by a fraction of the circle, -0.5 to 0.5: torchvision's adjust_hue. */
void ls_picture_hue(ls_picture *p, double part);
void ls_picture_grayscale(ls_picture *p);

/* Rotate about the centre, counter-clockwise, into a picture of the same size: Pillow's rotate. */
void ls_picture_rotate(const ls_picture *from, ls_picture *to, double degrees, ls_filter filter, const uint8_t fill[3]);

/* ---- EXIF orientation, 1 to 8 ---- */

/* True if width and height are exchanged. */
bool ls_orientation_turns(int orientation);
/* The position of a box of the upright image in the stored one, which has this size. */
ls_box ls_orientation_stored(int orientation, ls_box upright, int64_t width, int64_t height);
/* Rotate the stored image upright; `to` has the upright size. */
void ls_picture_upright(const ls_picture *from, ls_picture *to, int orientation);

#endif
