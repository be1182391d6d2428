/* baseline.h - the JPEG files that nearly all photos are, decoded here: several times as fast as libjpeg does it,
 * because only what is wanted is transformed, and codes are read without a look at each byte. Pixels are the same. */
#ifndef LOCKSTEP_DATA_IMAGE_BASELINE_H
#define LOCKSTEP_DATA_IMAGE_BASELINE_H

#include "data/image/rows.h"

/* Decode the box, which lies within the picture, into a picture of its size. `block`: samples that each side of a
 * block of 8 gives, 8 (all of them), 4, 2 or 1; picture and box are counted in these. False when the file is of
 * another kind (progressive, four colours, ...), or not sound as far as it was read: libjpeg knows what to do, and
 * what to say. */
bool ls_baseline_decode(const uint8_t *bytes, size_t size, ls_box box, int block, ls_picture *to);

#endif
