/* steps.h - the kinds of steps of a transform, and the meaning of their numbers. */
#ifndef LOCKSTEP_DATA_IMAGE_STEPS_H
#define LOCKSTEP_DATA_IMAGE_STEPS_H

#include <lockstep/image.h>

typedef enum ls_step_kind {
    LS_STEP_NONE = 0,
    LS_STEP_RANDOM_RESIZED_CROP, /* value: minimum and maximum scale, minimum and maximum ratio */
    LS_STEP_RESIZE,
    LS_STEP_RESIZE_SHORTER, /* height: of the shorter side */
    LS_STEP_CENTER_CROP,
    LS_STEP_RANDOM_CROP,     /* value: padding */
    LS_STEP_FLIP_HORIZONTAL, /* value: probability */
    LS_STEP_FLIP_VERTICAL,   /* value: probability */
    LS_STEP_ROTATION,        /* value: minimum and maximum angle, fill of the three channels */
    LS_STEP_JITTER,          /* value: brightness, contrast, saturation, hue */
    LS_STEP_GRAYSCALE,       /* value: probability */
} ls_step_kind;

enum { LS_IMAGE_MAX_SIDE = 65500 }; /* of results; the limit of JPEG files */

#endif
