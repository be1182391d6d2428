/* png.h - a PNG file from pixels, without any library. */
#ifndef LOCKSTEP_TRACK_PLOT_PNG_H
#define LOCKSTEP_TRACK_PLOT_PNG_H

#include "track/buffer.h"

/* Append a PNG file of RGB pixels, width * height * 3 bytes, row by row from the top. For drawings: what is like the
 * pixel above costs next to nothing, photos become a little larger than their pixels. */
void ls_png_put(ls_byte_buffer *to, const unsigned char *pixels, int width, int height);

#endif
