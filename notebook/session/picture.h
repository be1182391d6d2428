/* picture.h - tensors that hold pictures, as a PNG file. */
#ifndef LOCKSTEP_NOTEBOOK_PICTURE_H
#define LOCKSTEP_NOTEBOOK_PICTURE_H

#include <lockstep.h>

/* Is it [C,H,W] or [N,C,H,W], with 1 or 3 channels and sides of at least 8 pixels? */
bool is_picture(const ls_tensor *t);
/* Such a tensor as a PNG file, whose size is *size; free() it. Several pictures are side by side, the first 32 of them.
 * Small ones are magnified. Bytes are shown as they are, and so are numbers from 0 to 1; if others occur, the smallest
 * is black and the largest white. NULL if it cannot be read. */
char *picture_of(ls_tensor *t, size_t *size);

#endif
