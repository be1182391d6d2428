/* png.h - write PNG files without a library. */
#ifndef LOCKSTEP_BASE_PNG_H
#define LOCKSTEP_BASE_PNG_H

#include "base/buffer.h"

/* Append a PNG file of RGB pixels, width * height * 3 bytes, row by row from the top. For drawings: pixels equal to
 * those above cost next to nothing; photos become slightly larger than their raw pixels. */
void ls_png_put(ls_byte_buffer *to, const unsigned char *pixels, int width, int height);

#endif
