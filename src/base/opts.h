/* opts.h - reading the options of a constructor: an older caller's struct is shorter, zero means the default. */
#ifndef LOCKSTEP_BASE_OPTS_H
#define LOCKSTEP_BASE_OPTS_H

#include <math.h>
#include <stddef.h>
#include <string.h>

/* Copy what the caller gave into `to` (of to_size bytes, this library's idea of the struct); the rest is zero. */
static inline void ls_opts_read(void *to, size_t to_size, const void *from, size_t from_size)
{
    memset(to, 0, to_size);
    if (from) memcpy(to, from, from_size < to_size ? from_size : to_size);
}

/* A number option: the default for zero, zero for LS_ZERO. */
static inline double ls_opts_number(double given, double fallback)
{
    if (given != 0) return given;
    return signbit(given) ? 0.0 : fallback;
}

#endif
