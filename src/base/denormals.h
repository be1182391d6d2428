/* denormals.h - subnormal numbers, those below 1.2e-38 in f32: kept, or treated as zero by the calling thread. x86-64
 * CPUs are up to two hundred times slower with them. A new thread inherits the setting. */
#ifndef LOCKSTEP_BASE_DENORMALS_H
#define LOCKSTEP_BASE_DENORMALS_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__)

#define LS_FLUSH_BITS 0x8040u /* MXCSR: results (FTZ) and operands (DAZ) */
static inline uint64_t ls_float_control(void)
{
    return __builtin_ia32_stmxcsr();
}
static inline void ls_float_control_set(uint64_t bits)
{
    __builtin_ia32_ldmxcsr((unsigned)bits);
}

#elif defined(__aarch64__)

#define LS_FLUSH_BITS (1u << 24) /* FPCR.FZ: both */
static inline uint64_t ls_float_control(void)
{
    uint64_t bits;
    __asm__ volatile("mrs %0, fpcr" : "=r"(bits));
    return bits;
}
static inline void ls_float_control_set(uint64_t bits)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(bits));
}

#else

#define LS_FLUSH_BITS 0u
static inline uint64_t ls_float_control(void)
{
    return 0;
}
static inline void ls_float_control_set(uint64_t bits)
{
    (void)bits;
}

#endif

static inline bool ls_denormals_flushed(void)
{
    return LS_FLUSH_BITS != 0 && (ls_float_control() & LS_FLUSH_BITS) == LS_FLUSH_BITS;
}

static inline void ls_denormals_flush(bool on)
{
    uint64_t others = ls_float_control() & ~(uint64_t)LS_FLUSH_BITS;
    ls_float_control_set(on ? others | LS_FLUSH_BITS : others);
}

#endif
