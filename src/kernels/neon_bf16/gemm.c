/* gemm.c - bf16 matrix products with BFMMLA: each multiplies two rows by two columns, four deep, and adds the 2 x 2
 * block to its sums. Panels lie [k / 4][width][4], so that a register holds four k of two neighbours. */
#include "kernels/gemm.inc"

#include "kernels/neon/gemm_asm.h"

#include <arm_neon.h>

/* ---- packing --------------------------------------------------------------------------------------------------- */

static inline __attribute__((always_inline)) void along(uint16_t *to, const void *const *line, int64_t k, int width)
{
    const uint16_t *row[12]; /* a copy in registers, which stores to the panel cannot alias */
#pragma GCC unroll 12
    for (int i = 0; i < width; i++) row[i] = line[i];
    for (int64_t j = 0; j < k; j += 8, to += 8 * width) {
#pragma GCC unroll 3
        for (int i = 0; i < width; i += 4) { /* four rows: adjacent stores merge */
            uint64x2_t r0 = vreinterpretq_u64_u16(vld1q_u16(row[i] + j)),
                       r1 = vreinterpretq_u64_u16(vld1q_u16(row[i + 1] + j));
            uint64x2_t r2 = vreinterpretq_u64_u16(vld1q_u16(row[i + 2] + j)),
                       r3 = vreinterpretq_u64_u16(vld1q_u16(row[i + 3] + j));
            uint16_t *low = to + 4 * i, *high = to + 4 * (width + i);
            vst1q_u16(low, vreinterpretq_u16_u64(vzip1q_u64(r0, r1)));
            vst1q_u16(low + 8, vreinterpretq_u16_u64(vzip1q_u64(r2, r3)));
            vst1q_u16(high, vreinterpretq_u16_u64(vzip2q_u64(r0, r1)));
            vst1q_u16(high + 8, vreinterpretq_u16_u64(vzip2q_u64(r2, r3)));
        }
    }
}

/* Four lines of eight elements to eight groups of four: the first half to one place, the second to another. */
static inline void transpose_8(uint16_t *to, uint16_t *to_second, const uint16_t *const line[4], int64_t at)
{
    uint16x8_t r0 = vld1q_u16(line[0] + at), r1 = vld1q_u16(line[1] + at);
    uint16x8_t r2 = vld1q_u16(line[2] + at), r3 = vld1q_u16(line[3] + at);
    uint32x4_t low01 = vreinterpretq_u32_u16(vzip1q_u16(r0, r1)), high01 = vreinterpretq_u32_u16(vzip2q_u16(r0, r1));
    uint32x4_t low23 = vreinterpretq_u32_u16(vzip1q_u16(r2, r3)), high23 = vreinterpretq_u32_u16(vzip2q_u16(r2, r3));
    vst1q_u16(to, vreinterpretq_u16_u32(vzip1q_u32(low01, low23)));
    vst1q_u16(to + 8, vreinterpretq_u16_u32(vzip2q_u32(low01, low23)));
    vst1q_u16(to_second, vreinterpretq_u16_u32(vzip1q_u32(high01, high23)));
    vst1q_u16(to_second + 8, vreinterpretq_u16_u32(vzip2q_u32(high01, high23)));
}

static inline void transpose_4(uint16_t *to, const uint16_t *const line[4], int64_t at)
{
    uint16x4_t r0 = vld1_u16(line[0] + at), r1 = vld1_u16(line[1] + at);
    uint16x4_t r2 = vld1_u16(line[2] + at), r3 = vld1_u16(line[3] + at);
    uint32x4_t r01 = vreinterpretq_u32_u16(vcombine_u16(vzip1_u16(r0, r1), vzip2_u16(r0, r1)));
    uint32x4_t r23 = vreinterpretq_u32_u16(vcombine_u16(vzip1_u16(r2, r3), vzip2_u16(r2, r3)));
    vst1q_u16(to, vreinterpretq_u16_u32(vzip1q_u32(r01, r23)));
    vst1q_u16(to + 8, vreinterpretq_u16_u32(vzip2q_u32(r01, r23)));
}

static void across_8(void *panels, int64_t panel_stride, const void *const *lines, int64_t count)
{
    for (int j = 0; j < 8; j += 4) {
        const uint16_t *line[4] = {lines[j], lines[j + 1], lines[j + 2], lines[j + 3]};
        uint16_t *to = (uint16_t *)panels + j * 8;
        for (int64_t p = 0; p < count; p++, to += panel_stride) transpose_8(to, to + 16, line, 8 * p);
    }
}

/* Two panels are three times eight columns. */
static void across_12(void *panels, int64_t panel_stride, const void *const *lines, int64_t count)
{
    for (int j = 0; j < 8; j += 4) {
        const uint16_t *line[4] = {lines[j], lines[j + 1], lines[j + 2], lines[j + 3]};
        uint16_t *to = (uint16_t *)panels + j * 12;
        int64_t p = 0;
        for (; p + 2 <= count; p += 2, to += 2 * panel_stride) {
            transpose_8(to, to + 16, line, 12 * p);
            transpose_8(to + 32, to + panel_stride, line, 12 * p + 8);
            transpose_8(to + panel_stride + 16, to + panel_stride + 32, line, 12 * p + 16);
        }
        if (p < count) {
            transpose_8(to, to + 16, line, 12 * p);
            transpose_4(to + 32, line, 12 * p + 8);
        }
    }
}

static void along_12(void *panel, const void *const *line, int64_t k)
{
    along(panel, line, k, 12);
}

static void along_8(void *panel, const void *const *line, int64_t k)
{
    along(panel, line, k, 8);
}

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

/* One macro is one line of assembly. */
/* clang-format off */

/* A register of the wide panel is a pair of rows of a TALL tile, of columns of a FLAT one. Sums of pair w of the wide
 * panel with the four pairs of the narrow one are in registers <shape>_SUMS_<w>;
 * those of a pair of rows are neighbours. */
#define TALL_MMLA(sum, wide, narrow) "bfmmla v" #sum ".4s, v" #wide ".8h, v" #narrow ".8h\n"
#define TALL_SUMS_0 8, 9, 10, 11
#define TALL_SUMS_1 12, 13, 14, 15
#define TALL_SUMS_2 16, 17, 18, 19
#define TALL_SUMS_3 20, 21, 22, 23
#define TALL_SUMS_4 24, 25, 26, 27
#define TALL_SUMS_5 28, 29, 30, 31

#define FLAT_MMLA(sum, wide, narrow) "bfmmla v" #sum ".4s, v" #narrow ".8h, v" #wide ".8h\n"
#define FLAT_SUMS_0 8, 14, 20, 26
#define FLAT_SUMS_1 9, 15, 21, 27
#define FLAT_SUMS_2 10, 16, 22, 28
#define FLAT_SUMS_3 11, 17, 23, 29
#define FLAT_SUMS_4 12, 18, 24, 30
#define FLAT_SUMS_5 13, 19, 25, 31

/* One pair of the wide panel with all of the narrow one (v0 to v3). */
#define PAIR(shape, wide, sums) PAIR_(shape##_MMLA, wide, sums)
#define PAIR_(mmla, wide, ...) PAIR__(mmla, wide, __VA_ARGS__)
#define PAIR__(mmla, wide, s0, s1, s2, s3) mmla(s0, wide, 0) mmla(s1, wide, 1) mmla(s2, wide, 2) mmla(s3, wide, 3)

/* The last two pairs go together, so that the narrow registers become free early and can be loaded for the next
 * step. */
#define LAST_PAIRS(shape, w4, w5, load_low, load_high)                                                                 \
    LAST_PAIRS_(shape##_MMLA, w4, w5, load_low, load_high, shape##_SUMS_4, shape##_SUMS_5)
#define LAST_PAIRS_(mmla, w4, w5, load_low, load_high, ...) LAST_PAIRS__(mmla, w4, w5, load_low, load_high, __VA_ARGS__)
#define LAST_PAIRS__(mmla, w4, w5, load_low, load_high, s0, s1, s2, s3, t0, t1, t2, t3)                                \
    mmla(s0, w4, 0) mmla(t0, w5, 0) mmla(s1, w4, 1) mmla(t1, w5, 1) load_low                                           \
    mmla(s2, w4, 2) mmla(t2, w5, 2) mmla(s3, w4, 3) mmla(t3, w5, 3) load_high

/* Four k. Pairs 0 and 1 of the wide panel have been loaded to w0, w1; those of what follows will be in x0, x1. */
#define STEP(shape, w0, w1, x0, x1, load_23, load_45, next_wide, next_low, next_high)                                  \
    load_23 PAIR(shape, w0, shape##_SUMS_0) PAIR(shape, w1, shape##_SUMS_1)                                            \
    load_45 PAIR(shape, x0, shape##_SUMS_2) PAIR(shape, x1, shape##_SUMS_3)                                            \
    next_wide LAST_PAIRS(shape, w0, w1, next_low, next_high)
#define STEPS(shape, next_wide, next_low, next_high)                                                                   \
    STEP(shape, 4, 5, 6, 7, LS_ASM_LOAD_WIDE2(6, 7, 32), LS_ASM_LOAD_WIDE2(4, 5, 64), LS_ASM_LOAD_WIDE2(6, 7, 96),     \
         LS_ASM_LOAD_NARROW2(0, 1, 64), LS_ASM_LOAD_NARROW2(2, 3, 96))                                                 \
    STEP(shape, 6, 7, 4, 5, LS_ASM_LOAD_WIDE2(4, 5, 128), LS_ASM_LOAD_WIDE2(6, 7, 160), next_wide, next_low, next_high)

#define FIRST LS_ASM_LOAD_NARROW2(0, 1, 0) LS_ASM_LOAD_WIDE2(4, 5, 0) LS_ASM_LOAD_NARROW2(2, 3, 32)
#define ROUND(shape)                                                                                                   \
    STEPS(shape, LS_ASM_LOAD_WIDE2(4, 5, 192), LS_ASM_LOAD_NARROW2(0, 1, 128), LS_ASM_LOAD_NARROW2(2, 3, 160))
#define LAST(shape) STEPS(shape, "", "", "")

#define TALL_LOOP LS_ASM_START LS_ASM_LOOP(FIRST, ROUND(TALL), LAST(TALL), 192, 128)
#define FLAT_LOOP LS_ASM_START LS_ASM_LOOP(FIRST, ROUND(FLAT), LAST(FLAT), 192, 128)

/* 2 x 2 blocks to rows: the lower halves of a pair's sums are its first row, the upper halves the second. */
#define ZIP(half, to, a, b) "zip" #half " v" #to ".2d, v" #a ".2d, v" #b ".2d\n"
#define TALL_ROWS(a, b, c, d)                                                                                          \
    ZIP(1, 0, a, b) ZIP(1, 1, c, d) ZIP(2, 2, a, b) ZIP(2, 3, c, d) LS_ASM_ROW2(0, 1) LS_ASM_ROW2(2, 3)
#define TALL_END                                                                                                       \
    TALL_ROWS(8, 9, 10, 11) TALL_ROWS(12, 13, 14, 15) TALL_ROWS(16, 17, 18, 19)                                        \
    TALL_ROWS(20, 21, 22, 23) TALL_ROWS(24, 25, 26, 27) TALL_ROWS(28, 29, 30, 31)
#define FLAT_ROWS(a, b, c, d, e, f)                                                                                    \
    ZIP(1, 0, a, b) ZIP(1, 1, c, d) ZIP(1, 2, e, f) ZIP(2, 3, a, b) ZIP(2, 4, c, d) ZIP(2, 5, e, f)                    \
    LS_ASM_ROW3(0, 1, 2) LS_ASM_ROW3(3, 4, 5)
#define FLAT_END                                                                                                       \
    FLAT_ROWS(8, 9, 10, 11, 12, 13) FLAT_ROWS(14, 15, 16, 17, 18, 19)                                                  \
    FLAT_ROWS(20, 21, 22, 23, 24, 25) FLAT_ROWS(26, 27, 28, 29, 30, 31)

/* A partial tile is the registers as they are. */
#define TILE(shape, wide_panel, narrow_panel)                                                                          \
    const void *wide = (wide_panel), *narrow = (narrow_panel);                                                         \
    int64_t rounds = k / 8, stride = ldc * (int64_t)sizeof(float);                                                     \
    __asm__ volatile(shape##_LOOP "cbz %[stride], 5f\n" shape##_END "b 6f\n"                                           \
                     "5:\n" LS_ASM_EACH_SUM_PAIR(LS_ASM_STORE) "6:\n"                                                  \
                     : [wide] "+r"(wide), [narrow] "+r"(narrow), [k] "+r"(rounds), [to] "+r"(to)                       \
                     : [from] "r"(from), [stride] "r"(stride)                                                          \
                     : LS_ASM_CLOBBERS)

/* The same in bf16. Two blocks, rounded first, are eight elements: pairs of the first row and of the second
 * alternate. */
#define HALVES(to, a, b) "bfcvtn v" #to ".4h, v" #a ".4s\nbfcvtn2 v" #to ".8h, v" #b ".4s\n"
#define UNZIP(half, to, a, b) "uzp" #half " v" #to ".4s, v" #a ".4s, v" #b ".4s\n"
#define HALF_ROW_8(a) "str q" #a ", [%[to]]\n" LS_ASM_NEXT_ROW
#define HALF_ROW_12(a, b) "str q" #a ", [%[to]]\nstr d" #b ", [%[to], #16]\n" LS_ASM_NEXT_ROW
#define TALL_HALF_ROWS(a, b, c, d)                                                                                     \
    HALVES(0, a, b) HALVES(1, c, d) UNZIP(1, 2, 0, 1) UNZIP(2, 3, 0, 1) HALF_ROW_8(2) HALF_ROW_8(3)
#define TALL_HALF_END                                                                                                  \
    TALL_HALF_ROWS(8, 9, 10, 11) TALL_HALF_ROWS(12, 13, 14, 15) TALL_HALF_ROWS(16, 17, 18, 19)                         \
    TALL_HALF_ROWS(20, 21, 22, 23) TALL_HALF_ROWS(24, 25, 26, 27) TALL_HALF_ROWS(28, 29, 30, 31)
#define FLAT_HALF_ROWS(a, b, c, d, e, f)                                                                               \
    HALVES(0, a, b) HALVES(1, c, d) HALVES(2, e, f) UNZIP(1, 3, 0, 1) UNZIP(2, 4, 0, 1) UNZIP(1, 5, 2, 2)              \
    UNZIP(2, 6, 2, 2) HALF_ROW_12(3, 5) HALF_ROW_12(4, 6)
#define FLAT_HALF_END                                                                                                  \
    FLAT_HALF_ROWS(8, 9, 10, 11, 12, 13) FLAT_HALF_ROWS(14, 15, 16, 17, 18, 19)                                        \
    FLAT_HALF_ROWS(20, 21, 22, 23, 24, 25) FLAT_HALF_ROWS(26, 27, 28, 29, 30, 31)

/* Tiles one below the other. `moving` and `still` say which of wide and narrow is A and moves on, and which is B. */
#define COLUMN(shape, moving, still)                                                                                   \
    const char *wide, *narrow, *a_at = c->a, *from = c->from;                                                          \
    char *to = c->to;                                                                                                  \
    int64_t k_left, count = c->count, rounds = c->k / 8, bytes = (int64_t)sizeof(uint16_t);                            \
    int64_t stride = c->ldc * bytes, a_step = c->a_stride * bytes;                                                     \
    __asm__ volatile("7:\n"                                                                                            \
                     "mov %[" #moving "], %[a_at]\n"                                                                   \
                     "mov %[" #still "], %[b]\n"                                                                       \
                     "mov %[k], %[rounds]\n"                                                                           \
                     shape##_LOOP shape##_HALF_END                                                                     \
                     "add %[a_at], %[a_at], %[a_step]\n"                                                               \
                     "cbz %[from], 8f\n"                                                                               \
                     "add %[from], %[from], #384\n"                                                                    \
                     "8:\n"                                                                                            \
                     "subs %[count], %[count], #1\n"                                                                   \
                     "bne 7b\n"                                                                                        \
                     : [wide] "=&r"(wide), [narrow] "=&r"(narrow), [k] "=&r"(k_left), [a_at] "+r"(a_at), [to] "+r"(to),\
                       [from] "+r"(from), [count] "+r"(count)                                                          \
                     : [b] "r"(c->b), [rounds] "r"(rounds), [a_step] "r"(a_step), [stride] "r"(stride)                 \
                     : LS_ASM_CLOBBERS)

/* clang-format on */

static void tile_12x8(int64_t k, const void *a, const void *b, const void *from, void *to, int64_t ldc)
{
    TILE(TALL, a, b);
}

static void tile_8x12(int64_t k, const void *a, const void *b, const void *from, void *to, int64_t ldc)
{
    TILE(FLAT, b, a);
}

static void column_12x8(const ls_gemm_column *c)
{
    COLUMN(TALL, wide, narrow);
}

static void column_8x12(const ls_gemm_column *c)
{
    COLUMN(FLAT, narrow, wide);
}

static const ls_gemm_kernel tall = {
    .name = "neon bf16 12x8",
    .panel = LS_BF16,
    .kr = 8,
    .a = {12, along_12, across_12},
    .b = {8, along_8, across_8},
    .convert = ls_gemm_convert_bf16,
    .tile = tile_12x8,
    .column_out = column_12x8,
    .out = LS_BF16,
};

static const ls_gemm_kernel flat = {
    .name = "neon bf16 8x12",
    .panel = LS_BF16,
    .kr = 8,
    .a = {8, along_8, across_8},
    .b = {12, along_12, across_12},
    .convert = ls_gemm_convert_bf16,
    .tile = tile_8x12,
    .column_out = column_8x12,
    .out = LS_BF16,
};

const ls_gemm_table ls_gemm_neon_bf16 = {
    .bf16 = {&tall, &flat},
    .finish_f32 = ls_gemm_finish_f32,
    .channelwise_f32 = ls_gemm_channelwise_f32,
};
