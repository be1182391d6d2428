/* futex.h - wait for a word to change: spin a little, then sleep in the kernel. */
#ifndef LOCKSTEP_BASE_FUTEX_H
#define LOCKSTEP_BASE_FUTEX_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef _Atomic uint32_t ls_futex;

/* Slow a spinning loop down, by 15 to 50 ns. On arm64 "yield" does nothing on most cores;
 * "isb" flushes the pipeline. */
static inline void ls_spin_hint(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

/* Sleep while the word holds `value`; may return early. */
static inline void ls_futex_wait(ls_futex *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static inline void ls_futex_wake_all(ls_futex *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* The same for a word that processes share, for at most `nanoseconds`, which is less than a second. */
static inline void ls_futex_wait_shared(ls_futex *word, uint32_t value, long nanoseconds)
{
    struct timespec limit = {.tv_nsec = nanoseconds};
    syscall(SYS_futex, word, FUTEX_WAIT, value, &limit, NULL, 0);
}

static inline void ls_futex_wake_shared(ls_futex *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

#endif
