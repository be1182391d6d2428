/* clock.h - the time, in the two ways that are needed. */
#ifndef LOCKSTEP_BASE_CLOCK_H
#define LOCKSTEP_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* ns since some moment: for durations, whatever happens to the date. */
static inline int64_t ls_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The same in ms. */
static inline int64_t ls_clock_ms(void)
{
    return ls_clock_ns() / 1000000;
}

/* The same in seconds. */
static inline double ls_clock_seconds(void)
{
    return 1e-9 * (double)ls_clock_ns();
}

/* ns since 1970: for what people read, and for moments that hosts agree on. */
static inline int64_t ls_clock_date_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The same in seconds. */
static inline double ls_clock_date(void)
{
    return 1e-9 * (double)ls_clock_date_ns();
}

#endif
