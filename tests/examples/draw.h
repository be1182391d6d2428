/* draw.h - numbers that look random and are the same everywhere. */
#ifndef LOCKSTEP_TESTS_DRAW_H
#define LOCKSTEP_TESTS_DRAW_H

#include <stdint.h>

static inline uint32_t draw(uint32_t *state, uint32_t below)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % below;
}

#endif
