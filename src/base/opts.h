/* opts.h - reading the options of a call: the library's defaults, overwritten by the caller's struct, which is shorter
 * if the caller was built against an older library. */
#ifndef LOCKSTEP_BASE_OPTS_H
#define LOCKSTEP_BASE_OPTS_H

#include <lockstep/call.h>

#include <string.h>

/* Options as a value of `type`. `given` may be NULL: then all are defaults. */
#define LS_OPTS_READ(type, given, given_size)                                                                          \
    (*(const type *)ls_opts_read(&(type){type##_defaults}, LS_OPTS_SIZE(type), (given), (given_size)))

static inline const void *ls_opts_read(void *defaults, size_t size, const void *given, size_t given_size)
{
    if (given) memcpy(defaults, given, given_size < size ? given_size : size);
    return defaults;
}

/* An option, or another value if it was not given. */
static inline double ls_opts_real(double given, double otherwise)
{
    return given == LS_AUTO_REAL ? otherwise : given;
}

static inline int64_t ls_opts_integer(int64_t given, int64_t otherwise)
{
    return given == LS_AUTO ? otherwise : given;
}

#endif
