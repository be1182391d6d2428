/* gemm.c - f32 matrix products with NEON: 24 vectors of sums, FMLA by lane. Panels lie [k][width]. */
#include "kernels/gemm.inc"

#include "kernels/neon/gemm_asm.h"

#include <arm_neon.h>

/* ---- packing --------------------------------------------------------------------------------------------------- */

/* Lines along k become columns: transpose blocks of 4 x 4. */
static inline __attribute__((always_inline)) void along(float *to, const void *const *line, int64_t k, int width)
{
    const float *row[12]; /* a copy in registers, which stores to the panel cannot alias */
#pragma GCC unroll 12
    for (int i = 0; i < width; i++) row[i] = line[i];
    for (int64_t j = 0; j < k; j += 4, to += 4 * width) {
#pragma GCC unroll 3
        for (int i = 0; i < width; i += 4) {
            float32x4_t r0 = vld1q_f32(row[i] + j), r1 = vld1q_f32(row[i + 1] + j);
            float32x4_t r2 = vld1q_f32(row[i + 2] + j), r3 = vld1q_f32(row[i + 3] + j);
            float64x2_t even01 = vreinterpretq_f64_f32(vtrn1q_f32(r0, r1)),
                        odd01 = vreinterpretq_f64_f32(vtrn2q_f32(r0, r1));
            float64x2_t even23 = vreinterpretq_f64_f32(vtrn1q_f32(r2, r3)),
                        odd23 = vreinterpretq_f64_f32(vtrn2q_f32(r2, r3));
            vst1q_f32(to + i, vreinterpretq_f32_f64(vtrn1q_f64(even01, even23)));
            vst1q_f32(to + width + i, vreinterpretq_f32_f64(vtrn1q_f64(odd01, odd23)));
            vst1q_f32(to + 2 * width + i, vreinterpretq_f32_f64(vtrn2q_f64(even01, even23)));
            vst1q_f32(to + 3 * width + i, vreinterpretq_f32_f64(vtrn2q_f64(odd01, odd23)));
        }
    }
}

static inline __attribute__((always_inline)) void across(float *to, int64_t panel_stride, const void *const *line,
                                                         int64_t count, int width)
{
    for (int64_t at = 0; at < count * width; at += width, to += panel_stride)
        for (int j = 0; j < 4; j++)
            for (int i = 0; i < width; i += 4)
                vst1q_f32(to + j * width + i, vld1q_f32((const float *)line[j] + at + i));
}

static void along_12(void *panel, const void *const *line, int64_t k)
{
    along(panel, line, k, 12);
}

static void along_8(void *panel, const void *const *line, int64_t k)
{
    along(panel, line, k, 8);
}

static void across_12(void *panels, int64_t panel_stride, const void *const *line, int64_t count)
{
    across(panels, panel_stride, line, count, 12);
}

static void across_8(void *panels, int64_t panel_stride, const void *const *line, int64_t count)
{
    across(panels, panel_stride, line, count, 8);
}

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

/* One macro is one line of assembly. */
/* clang-format off */

#define FMLA(sum, vector, scalar, lane) "fmla v" #sum ".4s, v" #vector ".4s, v" #scalar ".s[" #lane "]\n"

/* One vector of the wide panel times both of the narrow one. TALL: its lanes are four rows of two vectors each. */
#define TALL(wide, n0, n1, s0, s1, s2, s3, s4, s5, s6, s7)                                                             \
    FMLA(s0, n0, wide, 0) FMLA(s1, n1, wide, 0) FMLA(s2, n0, wide, 1) FMLA(s3, n1, wide, 1)                            \
    FMLA(s4, n0, wide, 2) FMLA(s5, n1, wide, 2) FMLA(s6, n0, wide, 3) FMLA(s7, n1, wide, 3)
#define TALL_0(wide, n0, n1) TALL(wide, n0, n1, 8, 9, 10, 11, 12, 13, 14, 15)
#define TALL_1(wide, n0, n1) TALL(wide, n0, n1, 16, 17, 18, 19, 20, 21, 22, 23)
#define TALL_2(wide, n0, n1) TALL(wide, n0, n1, 24, 25, 26, 27, 28, 29, 30, 31)
/* FLAT: it is four columns of eight rows, which are the lanes of the narrow ones. */
#define FLAT(wide, n0, n1, s0, s1, s2, s3, s4, s5, s6, s7)                                                             \
    FMLA(s0, wide, n0, 0) FMLA(s1, wide, n0, 1) FMLA(s2, wide, n0, 2) FMLA(s3, wide, n0, 3)                            \
    FMLA(s4, wide, n1, 0) FMLA(s5, wide, n1, 1) FMLA(s6, wide, n1, 2) FMLA(s7, wide, n1, 3)
#define FLAT_0(wide, n0, n1) FLAT(wide, n0, n1, 8, 11, 14, 17, 20, 23, 26, 29)
#define FLAT_1(wide, n0, n1) FLAT(wide, n0, n1, 9, 12, 15, 18, 21, 24, 27, 30)
#define FLAT_2(wide, n0, n1) FLAT(wide, n0, n1, 10, 13, 16, 19, 22, 25, 28, 31)

/* Two k. All loads are of pairs, to have fewer, and as far ahead of their use as possible: the wide panel's six vectors
 * are in 0, 1, 2 and 7, 0, 1, the narrow panel's in 3, 4 and 5, 6. */
#define TWO(shape, wide_12, narrow_1, next_wide_2, next_wide_0, next_narrow)                                           \
    shape##_0(0, 3, 4) narrow_1 shape##_1(1, 3, 4) wide_12 shape##_2(2, 3, 4)                                          \
    next_narrow shape##_0(7, 5, 6) shape##_1(0, 5, 6) next_wide_2 shape##_2(1, 5, 6) next_wide_0
#define FIRST LS_ASM_LOAD_NARROW2(3, 4, 0) LS_ASM_LOAD_WIDE2(0, 1, 0) LS_ASM_LOAD_WIDE2(2, 7, 32)
#define FOUR(shape, next_wide_2, next_wide_0, next_narrow)                                                             \
    TWO(shape, LS_ASM_LOAD_WIDE2(0, 1, 64), LS_ASM_LOAD_NARROW2(5, 6, 32), LS_ASM_LOAD_WIDE2(2, 7, 128),               \
        LS_ASM_LOAD_WIDE2(0, 1, 96), LS_ASM_LOAD_NARROW2(3, 4, 64))                                                    \
    TWO(shape, LS_ASM_LOAD_WIDE2(0, 1, 160), LS_ASM_LOAD_NARROW2(5, 6, 96), next_wide_2, next_wide_0, next_narrow)
#define ROUND(shape)                                                                                                   \
    FOUR(shape, LS_ASM_LOAD_WIDE2(2, 7, 224), LS_ASM_LOAD_WIDE2(0, 1, 192), LS_ASM_LOAD_NARROW2(3, 4, 128))
#define LAST(shape) FOUR(shape, "", "", "")

#define TALL_LOOP LS_ASM_START LS_ASM_LOOP(FIRST, ROUND(TALL), LAST(TALL), 192, 128)
#define FLAT_LOOP LS_ASM_START LS_ASM_LOOP(FIRST, ROUND(FLAT), LAST(FLAT), 192, 128)

/* A square tile: two vectors of either panel per k; four k take turns in v0 to v7 and v24 to v31. */
#define SQUARE_STEP(a0, a1, n0, n1, load_a, load_n)                                                                    \
    load_a TALL(a0, n0, n1, 8, 9, 10, 11, 12, 13, 14, 15)                                                              \
    load_n TALL(a1, n0, n1, 16, 17, 18, 19, 20, 21, 22, 23)
#define SQUARE_STEPS(next_a, next_n)                                                                                   \
    SQUARE_STEP(0, 1, 2, 3, LS_ASM_LOAD_WIDE2(4, 5, 32), LS_ASM_LOAD_NARROW2(6, 7, 32))                                \
    SQUARE_STEP(4, 5, 6, 7, LS_ASM_LOAD_WIDE2(24, 25, 64), LS_ASM_LOAD_NARROW2(26, 27, 64))                            \
    SQUARE_STEP(24, 25, 26, 27, LS_ASM_LOAD_WIDE2(28, 29, 96), LS_ASM_LOAD_NARROW2(30, 31, 96))                        \
    SQUARE_STEP(28, 29, 30, 31, next_a, next_n)
#define SQUARE_FIRST LS_ASM_LOAD_WIDE2(0, 1, 0) LS_ASM_LOAD_NARROW2(2, 3, 0)
#define SQUARE_ROUND SQUARE_STEPS(LS_ASM_LOAD_WIDE2(0, 1, 128), LS_ASM_LOAD_NARROW2(2, 3, 128))
#define SQUARE_LAST SQUARE_STEPS("", "")
#define SQUARE_LOOP LS_ASM_SQUARE_START LS_ASM_LOOP(SQUARE_FIRST, SQUARE_ROUND, SQUARE_LAST, 128, 128)
#define SQUARE_END                                                                                                     \
    LS_ASM_ROW2(8, 9) LS_ASM_ROW2(10, 11) LS_ASM_ROW2(12, 13) LS_ASM_ROW2(14, 15)                                      \
    LS_ASM_ROW2(16, 17) LS_ASM_ROW2(18, 19) LS_ASM_ROW2(20, 21) LS_ASM_ROW2(22, 23)

#define TALL_END                                                                                                       \
    LS_ASM_ROW2(8, 9) LS_ASM_ROW2(10, 11) LS_ASM_ROW2(12, 13) LS_ASM_ROW2(14, 15) LS_ASM_ROW2(16, 17)                  \
    LS_ASM_ROW2(18, 19) LS_ASM_ROW2(20, 21) LS_ASM_ROW2(22, 23) LS_ASM_ROW2(24, 25) LS_ASM_ROW2(26, 27)                \
    LS_ASM_ROW2(28, 29) LS_ASM_ROW2(30, 31)
#define FLAT_END                                                                                                       \
    LS_ASM_ROW3(8, 9, 10) LS_ASM_ROW3(11, 12, 13) LS_ASM_ROW3(14, 15, 16) LS_ASM_ROW3(17, 18, 19)                      \
    LS_ASM_ROW3(20, 21, 22) LS_ASM_ROW3(23, 24, 25) LS_ASM_ROW3(26, 27, 28) LS_ASM_ROW3(29, 30, 31)

/* A partial tile is a row-major one without gaps. */
#define TILE(shape, wide_panel, narrow_panel, columns)                                                                 \
    const void *wide = (wide_panel), *narrow = (narrow_panel);                                                         \
    int64_t rounds = k / 4, stride = (ldc ? ldc : (columns)) * (int64_t)sizeof(float);                                 \
    __asm__ volatile(shape##_LOOP shape##_END                                                                          \
                     : [wide] "+r"(wide), [narrow] "+r"(narrow), [k] "+r"(rounds), [to] "+r"(to)                       \
                     : [from] "r"(from), [stride] "r"(stride)                                                          \
                     : LS_ASM_CLOBBERS)

/* clang-format on */

static void tile_12x8(int64_t k, const void *a, const void *b, const void *from, void *to, int64_t ldc)
{
    TILE(TALL, a, b, 8);
}

static void tile_8x12(int64_t k, const void *a, const void *b, const void *from, void *to, int64_t ldc)
{
    TILE(FLAT, b, a, 12);
}

static void tile_8x8(int64_t k, const void *a, const void *b, const void *from, void *to, int64_t ldc)
{
    TILE(SQUARE, a, b, 8);
}

static const ls_gemm_kernel tall = {
    .name = "neon f32 12x8",
    .panel = LS_F32,
    .kr = 4,
    .a = {12, along_12, across_12},
    .b = {8, along_8, across_8},
    .convert = ls_gemm_convert_f32,
    .tile = tile_12x8,
};

static const ls_gemm_kernel flat = {
    .name = "neon f32 8x12",
    .panel = LS_F32,
    .kr = 4,
    .a = {8, along_8, across_8},
    .b = {12, along_12, across_12},
    .convert = ls_gemm_convert_f32,
    .tile = tile_8x12,
};

static const ls_gemm_kernel square = {
    .name = "neon f32 8x8",
    .panel = LS_F32,
    .kr = 4,
    .a = {8, along_8, across_8},
    .b = {8, along_8, across_8},
    .convert = ls_gemm_convert_f32,
    .tile = tile_8x8,
};

const ls_gemm_table ls_gemm_neon = {
    .f32 = {&tall, &flat, &square},
    .bf16 = {&tall, &flat},
    .f16 = {&tall, &flat, &square},
    .finish_f32 = ls_gemm_finish_f32,
    .moments_f32 = ls_gemm_moments_f32,
    .channelwise_f32 = ls_gemm_channelwise_f32,
};
