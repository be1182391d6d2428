/* detect.c - query CPU and operating system, per architecture. */
#include "kernels/detect.h"

#include <string.h>

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>

static void detect_native(bool *usable)
{
    usable[LS_ISA_NEON] = getauxval(AT_HWCAP) & HWCAP_ASIMD;
    usable[LS_ISA_NEON_BF16] = usable[LS_ISA_NEON] && getauxval(AT_HWCAP2) & HWCAP2_BF16;
}

bool ls_isa_is_native(ls_isa isa)
{
    return isa <= LS_ISA_NEON_BF16;
}

#elif defined(__x86_64__)
#include <cpuid.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Feature bits that gcc and clang name differently in <cpuid.h>. */
#define LEAF7_EDX_AMX (1u << 24 | 1u << 22) /* tiles, and their bf16 product */
#define LEAF7_1_EAX_AVX512_BF16 (1u << 5)

/* State saved on a task switch, by bit of XCR0. */
#define STATE_YMM 0x6u            /* SSE and AVX registers */
#define STATE_ZMM 0xe6u           /* plus mask registers, upper halves, upper sixteen registers */
#define STATE_TILES 0x60000u      /* tile configuration and data */
#define STATE_TILE_DATA 18        /* number of the bit */
#define REQUEST_PERMISSION 0x1023 /* ARCH_REQ_XCOMP_PERM; older headers lack it */

static uint64_t saved_state(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static bool has(uint32_t word, uint32_t bits)
{
    return (word & bits) == bits;
}

static void detect_native(bool *usable)
{
    uint32_t a, b, c, d, b7, d7, a71 = 0, c1;
    if (!__get_cpuid(1, &a, &b, &c1, &d) || !has(c1, bit_OSXSAVE)) return;
    if (!__get_cpuid_count(7, 0, &a, &b7, &c, &d7)) return;
    if (a >= 1) __get_cpuid_count(7, 1, &a71, &b, &c, &d);
    uint64_t saved = saved_state();

    usable[LS_ISA_AVX2] =
        has(c1, bit_AVX | bit_FMA | bit_F16C) && has(b7, bit_AVX2) && (saved & STATE_YMM) == STATE_YMM;
    usable[LS_ISA_AVX512] = usable[LS_ISA_AVX2] && (saved & STATE_ZMM) == STATE_ZMM &&
                            has(b7, bit_BMI2 | bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL);
    usable[LS_ISA_AVX512_BF16] = usable[LS_ISA_AVX512] && has(a71, LEAF7_1_EAX_AVX512_BF16);
    usable[LS_ISA_AMX] = usable[LS_ISA_AVX512_BF16] && has(d7, LEAF7_EDX_AMX) && (saved & STATE_TILES) == STATE_TILES &&
                         syscall(SYS_arch_prctl, REQUEST_PERMISSION, STATE_TILE_DATA) == 0;
}

bool ls_isa_is_native(ls_isa isa)
{
    return isa == LS_ISA_REF || isa >= LS_ISA_AVX2;
}

#else

static void detect_native(bool *usable)
{
    (void)usable;
}

bool ls_isa_is_native(ls_isa isa)
{
    return isa == LS_ISA_REF;
}
#endif

void ls_isa_detect(bool usable[LS_ISA_COUNT])
{
    memset(usable, 0, LS_ISA_COUNT * sizeof *usable);
    usable[LS_ISA_REF] = true;
    detect_native(usable);
}
