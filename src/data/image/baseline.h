/* baseline.h - a decoder for baseline JPEG, the format of nearly all photos: several times as fast as libjpeg, because
 * only the needed part is transformed, and codes are read without examining each byte. The pixels are the same. */
#ifndef LOCKSTEP_DATA_IMAGE_BASELINE_H
#define LOCKSTEP_DATA_IMAGE_BASELINE_H

#include "data/image/rows.h"

/* Decode the box, which lies within the image, into a picture of its size. `block`: samples per side of a block of 8: 8
 * (all), 4, 2 or 1; image and box are measured in these. False if the file is of another kind (progressive, four
 * colours, ...) or invalid as far as it was read: libjpeg then decodes it or reports the error. */
bool ls_baseline_decode(const uint8_t *bytes, size_t size, ls_box box, int block, ls_picture *to);

#endif
