/* head.h - format, size and orientation of an image file, from its header. */
#ifndef LOCKSTEP_DATA_IMAGE_HEAD_H
#define LOCKSTEP_DATA_IMAGE_HEAD_H

#include "data/image/image.h"

typedef enum ls_image_format { LS_IMAGE_JPEG, LS_IMAGE_PNG } ls_image_format;

typedef struct ls_image_head {
    ls_image_format format;
    int64_t width, height; /* as stored */
    int orientation;       /* EXIF's 1 to 8; 1: upright */
} ls_image_head;

/* LS_ERR_IO with the actual format as the reason if the file is neither JPEG nor PNG or its header is damaged. */
ls_status ls_image_head_read(const uint8_t *bytes, size_t size, ls_image_head *head, ls_message *why);

/* False for a truncated file, whichever part of the image is needed. */
bool ls_image_is_whole(const uint8_t *bytes, size_t size, ls_image_format format);

static inline uint32_t ls_big_u16(const uint8_t *p)
{
    return (uint32_t)(p[0] << 8 | p[1]);
}

static inline uint32_t ls_big_u32(const uint8_t *p)
{
    return ls_big_u16(p) << 16 | ls_big_u16(p + 2);
}

#endif
