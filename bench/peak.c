/* peak.c - peak rates of this machine: multiply-adds from registers, bytes from memory. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/parallel.h"
#include "kernels/kernels.h"

enum { TURNS = 400000 };

/* Each function executes TURNS rounds of 24 independent multiply-add instructions and returns the FLOP of one. */
#if defined(__aarch64__)
/* clang-format off */
#define FOR_24(X)                                                                                                      \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)                                                      \
    X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23)
/* clang-format on */
#define CLOBBERS                                                                                                       \
    "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", \
        "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v30", "v31"
#define FMLA(n) "fmla v" #n ".4s, v30.4s, v31.4s\n"
#define CLEAR(n) "movi v" #n ".4s, #0\n" /* odd numbers left in a register can halve the rate */
#define BFMMLA(n) "bfmmla v" #n ".4s, v30.8h, v31.8h\n"

static double peak_f32(void)
{
    long turns = TURNS;
    __asm__ volatile(FOR_24(CLEAR) CLEAR(30) CLEAR(31) "1:\n" FOR_24(FMLA) "subs %0, %0, #1\nbne 1b\n"
                     : "+r"(turns)::CLOBBERS);
    return 8;
}

static double peak_bf16(void)
{
    long turns = TURNS;
    __asm__ volatile(".arch_extension bf16\n" FOR_24(CLEAR) CLEAR(30)
                         CLEAR(31) "1:\n" FOR_24(BFMMLA) "subs %0, %0, #1\nbne 1b\n"
                     : "+r"(turns)::CLOBBERS);
    return 32;
}

#elif defined(__x86_64__)
#define FOR_12(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

/* All registers start with zero: leftover subnormal numbers would be a hundred times as slow. */
#define ZERO512(n) "vpxorq %%zmm" #n ", %%zmm" #n ", %%zmm" #n "\n"
#define ZERO256(n) "vxorps %%ymm" #n ", %%ymm" #n ", %%ymm" #n "\n"
#define CLOBBERS_512                                                                                                   \
    "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm30",   \
        "xmm31"
#define CLOBBERS_256                                                                                                   \
    "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm14",   \
        "xmm15"

__attribute__((target("avx512f"))) static double peak_avx512(void)
{
    long turns = TURNS;
#define FMA512(n) "vfmadd231ps %%zmm30, %%zmm31, %%zmm" #n "\n"
    __asm__ volatile(FOR_12(ZERO512) ZERO512(30) ZERO512(31) "1:\n" FOR_12(FMA512) FOR_12(FMA512) "dec %0\njnz 1b\n"
                     : "+r"(turns)::CLOBBERS_512);
    return 32;
}

__attribute__((target("avx2,fma"))) static double peak_avx2(void)
{
    long turns = TURNS;
#define FMA256(n) "vfmadd231ps %%ymm14, %%ymm15, %%ymm" #n "\n"
    __asm__ volatile(FOR_12(ZERO256) ZERO256(14) ZERO256(15) "1:\n" FOR_12(FMA256) FOR_12(FMA256) "dec %0\njnz 1b\n"
                     : "+r"(turns)::CLOBBERS_256);
    return 16;
}

static double peak_f32(void)
{
    return __builtin_cpu_supports("avx512f") ? peak_avx512() : peak_avx2();
}

/* Four tile products in turn, 24 per round as six times four. The library requests the permission to use tiles. */
static double peak_amx(void)
{
    struct __attribute__((aligned(64))) {
        uint8_t palette, start, pad[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int i = 0; i < 8; i++) config.bytes[i] = 64, config.rows[i] = 16;
    long turns = TURNS / 16;
    __asm__ volatile("ldtilecfg %1\n"
                     "1:\n"
                     ".rept 6\n"
                     "tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n"
                     "tdpbf16ps %%tmm7, %%tmm4, %%tmm1\n"
                     "tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n"
                     "tdpbf16ps %%tmm7, %%tmm5, %%tmm3\n"
                     ".endr\n"
                     "dec %0\njnz 1b\n"
                     "tilerelease\n"
                     : "+r"(turns)
                     : "m"(config)
                     : "cc");
    return 16384.0 / 16;
}

__attribute__((target("avx512f"))) static double peak_avx512_bf16(void)
{
    long turns = TURNS;
#define DP512(n) "vdpbf16ps %%zmm30, %%zmm31, %%zmm" #n "\n"
    __asm__ volatile(FOR_12(ZERO512) ZERO512(30) ZERO512(31) "1:\n" FOR_12(DP512) FOR_12(DP512) "dec %0\njnz 1b\n"
                     : "+r"(turns)::CLOBBERS_512);
    return 64;
}
#endif

static double (*bf16_peak(void))(void)
{
#if defined(__aarch64__)
    return ls_isa_usable(LS_ISA_NEON_BF16) ? peak_bf16 : peak_f32;
#elif defined(__x86_64__)
    return ls_isa_usable(LS_ISA_AMX) ? peak_amx : ls_isa_usable(LS_ISA_AVX512_BF16) ? peak_avx512_bf16 : peak_f32;
#endif
}

typedef struct peak_state {
    double (*turns)(void);
    double flop;
    char *from, *to;
    size_t bytes;
} peak_state;

static void flop_worker(void *arg, ls_worker worker)
{
    peak_state *state = arg;
    ls_parallel_barrier(worker);
    double flop = state->turns();
    if (worker.index == 0) state->flop = flop;
}

static void flop_call(void *arg)
{
    ls_parallel(flop_worker, arg, 1 << 20);
}

static void *flop_setup(ls_run *run, const bench_item *item)
{
    static peak_state state;
    (void)run;
    state.turns = item->dtype == LS_BF16 ? bf16_peak() : peak_f32;
    return &state;
}

static void copy_worker(void *arg, ls_worker worker)
{
    peak_state *state = arg;
    int64_t begin, end;
    ls_worker_range(worker, (int64_t)state->bytes, 4096, &begin, &end);
    memcpy(state->to + begin, state->from + begin, (size_t)(end - begin));
}

static void copy_call(void *arg)
{
    ls_parallel(copy_worker, arg, 1 << 20);
}

static void *copy_setup(ls_run *run, const bench_item *item)
{
    static peak_state state;
    (void)run;
    state.bytes = (size_t)(item->work / 2);
    state.from = ls_sys_map(state.bytes);
    state.to = ls_sys_map(state.bytes);
    if (!state.from || !state.to) return NULL;
    memset(state.from, 1, state.bytes);
    memset(state.to, 1, state.bytes);
    return &state;
}

static void copy_release(void *arg)
{
    peak_state *state = arg;
    ls_sys_unmap(state->from, state->bytes);
    ls_sys_unmap(state->to, state->bytes);
}

void bench_add_peaks(int threads)
{
    for (int i = 0; i < 2; i++) {
        ls_dtype dtype = i ? LS_BF16 : LS_F32;
        double flop = (i ? bf16_peak() : peak_f32)(); /* FLOP of one instruction; runs once to find out */
        bench_item *item = bench_add(BENCH_GFLOPS, i ? BENCH_PEAK_BF16 : BENCH_PEAK_F32, threads,
                                     flop * 24 * TURNS * threads, "peak/%s", ls_dtype_name(dtype));
        item->dtype = dtype;
        item->setup = flop_setup;
        item->call = flop_call;
    }
    bench_item *item = bench_add(BENCH_GBS, BENCH_PEAK_MEMORY, threads, 2.0 * (256 << 20), "peak/memory");
    item->setup = copy_setup;
    item->call = copy_call;
    item->release = copy_release;
}
