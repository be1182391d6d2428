/* attention_asm.h - turn a tile of scores into weights or gradients while drawing the random numbers of the next tile.
 *
 * Philox is all multiplications, which only half of the vector units can do, in a dependency chain of ten rounds;
 * weights are a polynomial, also a chain, that any vector unit can compute; and the integer units would idle. So all
 * three are interleaved, instruction by instruction: a round of two groups of blocks as vectors, a round of four blocks
 * as integers, and six pieces of the computation of weights. Eight rounds are half a tile. (Rounds 1 and 2 are done
 * before.)
 *
 * A group is the blocks of four queries at the same four keys; a tile has six groups. Groups 0 to 3 are vectors, a lane
 * per query; 4 and 5 are integers. */
#ifndef LOCKSTEP_KERNELS_NEON_BF16_ATTENTION_ASM_H
#define LOCKSTEP_KERNELS_NEON_BF16_ATTENTION_ASM_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC diagnostic ignored "-Woverlength-strings"

/* First element of a tile. */
typedef struct attention_place {
    int64_t head, query, key;
} attention_place;

/* State of a tile, at offsets that the assembly hard-codes. */
typedef struct attention_frame {
    float score[96];           /* input of 2^(c score), in registers of the tile kernel: 4 * (w / 2) + n / 2 */
    float dweight[96];         /* backward: gradients of weights */
    uint32_t kept[96];         /* masks: of scores (backward), or 16 bits each, of the panel of weights (forward) */
    float lanes[4];            /* c, P3, and the multipliers of Philox */
    float numbers[4][4];       /* P2, P1, -127 / c, magic */
    uint8_t shuffle[2][16];    /* to_wide, to_narrow */
    uint32_t vector_key[8][8]; /* of rounds 3 to 10, four times each */
    uint32_t vector[4][4][4];  /* words of groups 0 to 3: group, word, query; word 3 before round 3 is low2 */
    uint32_t key[8][2];        /* of rounds 3 to 10 */
    uint32_t scalar[2][4][4];  /* words of groups 4 and 5: group, query, word; likewise */
    uint32_t low2[4];
    uint32_t ramp[6][4];   /* counters of the queries of each group, from the first of the tile on */
    attention_place drawn; /* the tile that these words are for */
} attention_frame;

_Static_assert(offsetof(attention_frame, lanes) == 1152 && offsetof(attention_frame, vector_key) == 1264 &&
                   offsetof(attention_frame, vector) == 1520 && offsetof(attention_frame, key) == 1776 &&
                   offsetof(attention_frame, low2) == 1776 + 192,
               "the assembly below hard-codes these offsets");

/* One macro is a few lines of assembly. */
/* clang-format off */

/* ---- Philox ------------------------------------------------------------------------------------------------------ */

/* v0 to v7: words of two groups; v8 to v11: products; v12, v13: keys of the round; v14: lanes. The new word 2 is made
 * in the place of the old word 0 and the other way round, so these two change names with every round. */
#define VECTOR_1(c0, c1, c2, c3)                                                                                       \
    "umull v8.2d, v" #c0 ".2s, v14.s[2]\n eor v" #c1 ".16b, v" #c1 ".16b, v12.16b\n"                                   \
    "umull2 v9.2d, v" #c0 ".4s, v14.s[2]\n eor v" #c3 ".16b, v" #c3 ".16b, v13.16b\n"
#define VECTOR_2(c0, c1, c2, c3)                                                                                       \
    "umull v10.2d, v" #c2 ".2s, v14.s[3]\n uzp2 v" #c0 ".4s, v8.4s, v9.4s\n"                                           \
    "umull2 v11.2d, v" #c2 ".4s, v14.s[3]\n eor v" #c0 ".16b, v" #c0 ".16b, v" #c3 ".16b\n"
#define VECTOR_3(c0, c1, c2, c3)                                                                                       \
    "uzp1 v" #c3 ".4s, v8.4s, v9.4s\n uzp2 v" #c2 ".4s, v10.4s, v11.4s\n"                                              \
    "eor v" #c2 ".16b, v" #c2 ".16b, v" #c1 ".16b\n uzp1 v" #c1 ".4s, v10.4s, v11.4s\n"
#define GROUP_0_EVEN 0, 1, 2, 3
#define GROUP_1_EVEN 4, 5, 6, 7
#define GROUP_0_ODD 2, 1, 0, 3
#define GROUP_1_ODD 6, 5, 4, 7

/* w20, w21: multipliers; w22, w23: keys of the round. A block keeps words 0 and 2 in place; its products become words 3
 * and 1, in the pair of registers that the block before it left. Upper halves are garbage that is never read. */
#define SCALAR_1(c0, c2, c1, c3, n1, n3)                                                                               \
    "umull x" #n3 ", w" #c0 ", w20\n umull x" #n1 ", w" #c2 ", w21\n eor x" #c1 ", x" #c1 ", x22\n"
#define SCALAR_2(c0, c2, c1, c3, n1, n3)                                                                               \
    "eor x" #c3 ", x" #c3 ", x23\n"                                                                                    \
    "eor x" #c0 ", x" #c1 ", x" #n1 ", lsr #32\n eor x" #c2 ", x" #c3 ", x" #n3 ", lsr #32\n"
#define BLOCK_0 2, 3
#define BLOCK_1 4, 5
#define BLOCK_2 6, 7
#define BLOCK_3 8, 9
#define PAIR_0 10, 11
#define PAIR_1 12, 13
#define PAIR_2 14, 15
#define PAIR_3 16, 17
#define PAIR_4 24, 25

#define APPLY(macro, ...) macro(__VA_ARGS__)

/* A round of group g, of block x, whose words 1 and 3 go from pair p to pair f, and of block y, where they go from q to
 * p, with four pieces of something else. */
#define MIX(g, x, p, f, y, q, piece_1, piece_2, piece_3, piece_4)                                                      \
    APPLY(VECTOR_1, GROUP_##g)                                                                                         \
    APPLY(SCALAR_1, BLOCK_##x, PAIR_##p, PAIR_##f) piece_1 APPLY(VECTOR_2, GROUP_##g)                                  \
        APPLY(SCALAR_2, BLOCK_##x, PAIR_##p, PAIR_##f) piece_2                                                         \
        APPLY(VECTOR_3, GROUP_##g) APPLY(SCALAR_1, BLOCK_##y, PAIR_##q, PAIR_##p) piece_3                              \
        APPLY(SCALAR_2, BLOCK_##y, PAIR_##q, PAIR_##p) piece_4

/* A round of all: blocks find words 1 and 3 in pairs a to d, pair f is free; afterwards they are in f, a, b, c. */
#define ROUND(keys, key, parity, a, b, c, d, f, p1, p2, p3, p4, p5, p6, p7, p8)                                        \
    "ldr q12, [%[frame], #1264 + " #keys "]\n ldr q13, [%[frame], #1280 + " #keys "]\n"                                \
    "ldp w22, w23, [%[key], #" #key "]\n" MIX(0_##parity, 0, a, f, 1, b, p1, p2, p3, p4)                               \
        MIX(1_##parity, 2, c, b, 3, d, p5, p6, p7, p8)

#define LOAD_GROUPS(vectors, scalars)                                                                                  \
    "ldr q0, [%[frame], #1520 + " #vectors "]\n ldr q1, [%[frame], #1536 + " #vectors "]\n"                            \
    "ldr q2, [%[frame], #1552 + " #vectors "]\n ldr q3, [%[key], #192]\n"                                              \
    "ldr q4, [%[frame], #1584 + " #vectors "]\n ldr q5, [%[frame], #1600 + " #vectors "]\n"                            \
    "ldr q6, [%[frame], #1616 + " #vectors "]\n ldr q7, [%[key], #192]\n"                                              \
    "ldp w2, w10, [%[key], #64 + " #scalars "]\n ldr w3, [%[key], #72 + " #scalars                                     \
    "]\n ldp w11, w13, [%[key], #192]\n"                                                                               \
    "ldp w4, w12, [%[key], #80 + " #scalars "]\n ldr w5, [%[key], #88 + " #scalars "]\n"                               \
    "ldp w6, w14, [%[key], #96 + " #scalars "]\n ldr w7, [%[key], #104 + " #scalars                                    \
    "]\n ldp w15, w17, [%[key], #192]\n"                                                                               \
    "ldp w8, w16, [%[key], #112 + " #scalars "]\n ldr w9, [%[key], #120 + " #scalars "]\n"
/* After eight rounds. */
#define STORE_GROUPS(vectors, scalars)                                                                                 \
    "str q0, [%[frame], #1520 + " #vectors "]\n str q1, [%[frame], #1536 + " #vectors "]\n"                            \
    "str q2, [%[frame], #1552 + " #vectors "]\n str q3, [%[frame], #1568 + " #vectors "]\n"                            \
    "str q4, [%[frame], #1584 + " #vectors "]\n str q5, [%[frame], #1600 + " #vectors "]\n"                            \
    "str q6, [%[frame], #1616 + " #vectors "]\n str q7, [%[frame], #1632 + " #vectors "]\n"                            \
    "stp w2, w14, [%[key], #64 + " #scalars "]\n stp w3, w15, [%[key], #72 + " #scalars "]\n"                          \
    "stp w4, w16, [%[key], #80 + " #scalars "]\n stp w5, w17, [%[key], #88 + " #scalars "]\n"                          \
    "stp w6, w24, [%[key], #96 + " #scalars "]\n stp w7, w25, [%[key], #104 + " #scalars "]\n"                         \
    "stp w8, w10, [%[key], #112 + " #scalars "]\n stp w9, w11, [%[key], #120 + " #scalars "]\n"

#define START_DRAWING                                                                                                  \
    "ldr q14, [%[frame], #1152]\n"                                                                                     \
    "mov w20, #0x1F53\n movk w20, #0xD251, lsl #16\n mov w21, #0x8D57\n movk w21, #0xCD9E, lsl #16\n"

#define DRAW_CLOBBERS                                                                                                  \
    "memory", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17",  \
        "x20", "x21", "x22", "x23", "x24", "x25", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10",   \
        "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25",       \
        "v26", "v27", "v28", "v29", "v30", "v31"

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* A lot is four registers of scores: (w, n), (w, n + 1), (w + 1, n), (w + 1, n + 1), where w and n count pairs on the
 * wide and the narrow side. They go through x (v16 to v19), n (v20 to v23), p (v24 to v27) and q (v28 to v31), with v15
 * as a temporary, as in powers_of_2(), and end up as weights in n. A lot is named by offsets: of the first register in
 * a tile; of what belongs to w; of what belongs to n; of its first register in a wide panel. */
#define LOT_A 0, 0, 0, 0
#define LOT_B 32, 0, 32, 96
#define LOT_C 128, 32, 0, 32
#define LOT_D 160, 32, 32, 128
#define LOT_E 256, 64, 0, 64
#define LOT_F 288, 64, 32, 160
#define PIECE(name, lot) APPLY(name, LOT_##lot)

#define LOAD(at, w, n, panel)                                                                                          \
    "ldp q16, q17, [%[frame], #" #at "]\n ldp q18, q19, [%[frame], #64 + " #at "]\n ldr q15, [%[frame], #1200]\n"
#define POWER_1                                                                                                        \
    "ldr q20, [%[frame], #1216]\n ldr q21, [%[frame], #1216]\n ldr q22, [%[frame], #1216]\n ldr q23, [%[frame], "      \
    "#1216]\n"                                                                                                         \
    "fmax v16.4s, v16.4s, v15.4s\n fmax v17.4s, v17.4s, v15.4s\n"                                                      \
    "fmax v18.4s, v18.4s, v15.4s\n fmax v19.4s, v19.4s, v15.4s\n"
#define POWER_2                                                                                                        \
    "ldr q15, [%[frame], #1216]\n"                                                                                     \
    "fmla v20.4s, v16.4s, v14.s[0]\n fmla v21.4s, v17.4s, v14.s[0]\n"                                                  \
    "fmla v22.4s, v18.4s, v14.s[0]\n fmla v23.4s, v19.4s, v14.s[0]\n"
#define POWER_3                                                                                                        \
    "ldr q28, [%[frame], #1168]\n ldr q29, [%[frame], #1168]\n ldr q30, [%[frame], #1168]\n ldr q31, [%[frame], "      \
    "#1168]\n"                                                                                                         \
    "fsub v24.4s, v15.4s, v20.4s\n fsub v25.4s, v15.4s, v21.4s\n"                                                      \
    "fsub v26.4s, v15.4s, v22.4s\n fsub v27.4s, v15.4s, v23.4s\n"
#define POWER_4                                                                                                        \
    "fmla v24.4s, v16.4s, v14.s[0]\n fmla v25.4s, v17.4s, v14.s[0]\n"                                                  \
    "fmla v26.4s, v18.4s, v14.s[0]\n fmla v27.4s, v19.4s, v14.s[0]\n"
#define POWER_5                                                                                                        \
    "ldr q16, [%[frame], #1184]\n ldr q17, [%[frame], #1184]\n ldr q18, [%[frame], #1184]\n ldr q19, [%[frame], "      \
    "#1184]\n"                                                                                                         \
    "shl v20.4s, v20.4s, #23\n shl v21.4s, v21.4s, #23\n"                                                              \
    "shl v22.4s, v22.4s, #23\n shl v23.4s, v23.4s, #23\n"
#define POWER_6                                                                                                        \
    "fmla v28.4s, v24.4s, v14.s[1]\n fmla v29.4s, v25.4s, v14.s[1]\n"                                                  \
    "fmla v30.4s, v26.4s, v14.s[1]\n fmla v31.4s, v27.4s, v14.s[1]\n"
#define POWER_7                                                                                                        \
    "fmla v16.4s, v24.4s, v28.4s\n fmla v17.4s, v25.4s, v29.4s\n"                                                      \
    "fmla v18.4s, v26.4s, v30.4s\n fmla v19.4s, v27.4s, v31.4s\n"
#define POWER_8                                                                                                        \
    "fmul v24.4s, v24.4s, v20.4s\n fmul v25.4s, v25.4s, v21.4s\n"                                                      \
    "fmul v26.4s, v26.4s, v22.4s\n fmul v27.4s, v27.4s, v23.4s\n"
#define POWER_9                                                                                                        \
    "fmla v20.4s, v24.4s, v16.4s\n fmla v21.4s, v25.4s, v17.4s\n"                                                      \
    "fmla v22.4s, v26.4s, v18.4s\n fmla v23.4s, v27.4s, v19.4s\n"
#define NARROW_WEIGHTS                                                                                                 \
    "bfcvtn v24.4h, v20.4s\n bfcvtn v25.4h, v22.4s\n bfcvtn2 v24.8h, v21.4s\n bfcvtn2 v25.8h, v23.4s\n"

/* Forward: sum, round, reorder for the panel, apply dropout. */
#define WEIGH_1(at, w, n, panel)                                                                                       \
    NARROW_WEIGHTS "ldr q28, [%[frame], #1232]\n"                                                                      \
                   "ldr q30, [%[sums], #" #w "]\n ldr q31, [%[sums], #16 + " #w "]\n"
#define WEIGH_2(at, w, n, panel)                                                                                       \
    "fadd v30.4s, v30.4s, v20.4s\n fadd v31.4s, v31.4s, v22.4s\n"                                                      \
    "tbl v24.16b, {v24.16b}, v28.16b\n tbl v25.16b, {v25.16b}, v28.16b\n"                                              \
    "ldr q26, [%[frame], #768 + " #panel "]\n ldr q27, [%[frame], #784 + " #panel "]\n"
#define WEIGH_3(at, w, n, panel)                                                                                       \
    "fadd v30.4s, v30.4s, v21.4s\n fadd v31.4s, v31.4s, v23.4s\n"                                                      \
    "and v24.16b, v24.16b, v26.16b\n and v25.16b, v25.16b, v27.16b\n"
#define WEIGH_4(at, w, n, panel)                                                                                       \
    "str q30, [%[sums], #" #w "]\n str q31, [%[sums], #16 + " #w "]\n"                                                 \
    "str q24, [%[weights], #" #panel "]\n str q25, [%[weights], #16 + " #panel "]\n"

/* Backward: x becomes the weight before dropout times delta, minus the weight times its gradient. */
#define GRADE_1(at, w, n, panel) "ldr q28, [%[delta], #" #n "]\n ldr q29, [%[delta], #16 + " #n "]\n"
#define GRADE_2(at, w, n, panel)                                                                                       \
    "fmul v16.4s, v20.4s, v28.4s\n fmul v17.4s, v21.4s, v29.4s\n"                                                      \
    "fmul v18.4s, v22.4s, v28.4s\n fmul v19.4s, v23.4s, v29.4s\n"                                                      \
    "ldr q24, [%[frame], #768 + " #at "]\n ldr q25, [%[frame], #784 + " #at "]\n"                                      \
    "ldr q26, [%[frame], #832 + " #at "]\n ldr q27, [%[frame], #848 + " #at "]\n"
#define GRADE_3(at, w, n, panel)                                                                                       \
    "ldp q28, q29, [%[frame], #384 + " #at "]\n ldp q30, q31, [%[frame], #448 + " #at "]\n"                            \
    "and v20.16b, v20.16b, v24.16b\n and v21.16b, v21.16b, v25.16b\n"                                                  \
    "and v22.16b, v22.16b, v26.16b\n and v23.16b, v23.16b, v27.16b\n"
#define GRADE_4 NARROW_WEIGHTS "ldr q26, [%[frame], #1232]\n"
#define GRADE_5                                                                                                        \
    "fmls v16.4s, v20.4s, v28.4s\n fmls v17.4s, v21.4s, v29.4s\n"                                                      \
    "fmls v18.4s, v22.4s, v30.4s\n fmls v19.4s, v23.4s, v31.4s\n"
#define GRADE_6(at, w, n, panel)                                                                                       \
    "tbl v24.16b, {v24.16b}, v26.16b\n tbl v25.16b, {v25.16b}, v26.16b\n"                                              \
    "str q24, [%[weights], #" #panel "]\n str q25, [%[weights], #16 + " #panel "]\n ldr q24, [%[frame], #1248]\n"
#define GRADE_7 "bfcvtn v28.4h, v16.4s\n bfcvtn v29.4h, v18.4s\n bfcvtn2 v28.8h, v17.4s\n bfcvtn2 v29.8h, v19.4s\n"
#define GRADE_8(at, w, n, panel)                                                                                       \
    "tbl v30.16b, {v28.16b}, v26.16b\n tbl v31.16b, {v29.16b}, v26.16b\n"                                              \
    "trn1 v26.2d, v28.2d, v29.2d\n trn2 v27.2d, v28.2d, v29.2d\n"                                                      \
    "str q30, [%[dscores], #" #panel "]\n str q31, [%[dscores], #16 + " #panel "]\n"
#define GRADE_9(by_query, offset)                                                                                      \
    "tbl v26.16b, {v26.16b}, v24.16b\n tbl v27.16b, {v27.16b}, v24.16b\n stp q26, q27, [%[" #by_query "], #" #offset   \
    "]\n"

/* clang-format on */

/* weights (a wide panel) = those of frame->score, where frame->kept says so; sums grow by them, before dropout; the
 * words of the groups advance from round 2 to round 10. */
static void weigh_and_draw(attention_frame *frame, float sums[24], uint16_t *weights)
{
    /* clang-format off */
    __asm__ volatile(START_DRAWING LOAD_GROUPS(0, 0)
        ROUND(0, 0, EVEN, 0, 1, 2, 3, 4, PIECE(LOAD, A), POWER_1, "", POWER_2, POWER_3, "", POWER_4, POWER_5)
        ROUND(32, 8, ODD, 4, 0, 1, 2, 3, "", POWER_6, POWER_7, "", POWER_8, POWER_9, "", PIECE(LOAD, B))
        ROUND(64, 16, EVEN, 3, 4, 0, 1, 2, PIECE(WEIGH_1, A), "", PIECE(WEIGH_2, A), PIECE(WEIGH_3, A), "", POWER_1,
              PIECE(WEIGH_4, A), "")
        ROUND(96, 24, ODD, 2, 3, 4, 0, 1, POWER_2, POWER_3, "", POWER_4, POWER_5, "", POWER_6, "")
        ROUND(128, 32, EVEN, 1, 2, 3, 4, 0, POWER_7, POWER_8, "", POWER_9, PIECE(LOAD, C), "", PIECE(WEIGH_1, B),
              PIECE(WEIGH_2, B))
        ROUND(160, 40, ODD, 0, 1, 2, 3, 4, "", PIECE(WEIGH_3, B), POWER_1, "", PIECE(WEIGH_4, B), POWER_2, "", POWER_3)
        ROUND(192, 48, EVEN, 4, 0, 1, 2, 3, POWER_4, "", POWER_5, POWER_6, "", POWER_7, POWER_8, "")
        ROUND(224, 56, ODD, 3, 4, 0, 1, 2, POWER_9, PIECE(LOAD, D), "", PIECE(WEIGH_1, C), PIECE(WEIGH_2, C), "",
              PIECE(WEIGH_3, C), "")
        STORE_GROUPS(0, 0) LOAD_GROUPS(128, 64)
        ROUND(0, 0, EVEN, 0, 1, 2, 3, 4, POWER_1, PIECE(WEIGH_4, C), "", POWER_2, POWER_3, "", POWER_4, POWER_5)
        ROUND(32, 8, ODD, 4, 0, 1, 2, 3, "", POWER_6, POWER_7, "", POWER_8, POWER_9, "", PIECE(LOAD, E))
        ROUND(64, 16, EVEN, 3, 4, 0, 1, 2, PIECE(WEIGH_1, D), "", PIECE(WEIGH_2, D), PIECE(WEIGH_3, D), "", POWER_1,
              PIECE(WEIGH_4, D), "")
        ROUND(96, 24, ODD, 2, 3, 4, 0, 1, POWER_2, POWER_3, "", POWER_4, POWER_5, "", POWER_6, "")
        ROUND(128, 32, EVEN, 1, 2, 3, 4, 0, POWER_7, POWER_8, "", POWER_9, PIECE(LOAD, F), "", PIECE(WEIGH_1, E),
              PIECE(WEIGH_2, E))
        ROUND(160, 40, ODD, 0, 1, 2, 3, 4, "", PIECE(WEIGH_3, E), POWER_1, "", PIECE(WEIGH_4, E), POWER_2, "", POWER_3)
        ROUND(192, 48, EVEN, 4, 0, 1, 2, 3, POWER_4, "", POWER_5, POWER_6, "", POWER_7, POWER_8, "")
        ROUND(224, 56, ODD, 3, 4, 0, 1, 2, POWER_9, PIECE(WEIGH_1, F), "", PIECE(WEIGH_2, F), PIECE(WEIGH_3, F), "",
              PIECE(WEIGH_4, F), "")
        STORE_GROUPS(128, 64)
        : : [frame] "r"(frame), [key] "r"(frame->key), [sums] "r"(sums), [weights] "r"(weights) : DRAW_CLOBBERS);
    /* clang-format on */
}

/* weights and dscores (wide panels) and dscores by query (pairs 0, 1 at by_query_0, pairs 2, 3 at by_query_1) of
 * frame->score and frame->dweight, with frame->kept; the words of the groups advance from round 2 to round 10. */
static void grad_and_draw(attention_frame *frame, const float delta[16], uint16_t *weights, uint16_t *dscores,
                          uint16_t *by_query_0, uint16_t *by_query_1)
{
    /* clang-format off */
    __asm__ volatile(START_DRAWING LOAD_GROUPS(0, 0)
        ROUND(0, 0, EVEN, 0, 1, 2, 3, 4, PIECE(LOAD, A), POWER_1, POWER_2, POWER_3, POWER_4, POWER_5, "", POWER_6)
        ROUND(32, 8, ODD, 4, 0, 1, 2, 3, POWER_7, POWER_8, PIECE(GRADE_1, A) POWER_9, PIECE(GRADE_2, A), "",
              PIECE(GRADE_3, A), GRADE_4, GRADE_5)
        ROUND(64, 16, EVEN, 3, 4, 0, 1, 2, PIECE(GRADE_6, A), GRADE_7, PIECE(LOAD, B), "", PIECE(GRADE_8, A), POWER_1,
              GRADE_9(by_query_0, 0), POWER_2)
        ROUND(96, 24, ODD, 2, 3, 4, 0, 1, POWER_3, "", POWER_4, POWER_5, POWER_6, POWER_7, POWER_8, "")
        ROUND(128, 32, EVEN, 1, 2, 3, 4, 0, PIECE(GRADE_1, B) POWER_9, PIECE(GRADE_2, B), PIECE(GRADE_3, B), GRADE_4,
              GRADE_5, PIECE(GRADE_6, B), "", GRADE_7)
        ROUND(160, 40, ODD, 0, 1, 2, 3, 4, PIECE(LOAD, C), PIECE(GRADE_8, B), POWER_1, GRADE_9(by_query_1, 0), "",
              POWER_2, POWER_3, POWER_4)
        ROUND(192, 48, EVEN, 4, 0, 1, 2, 3, POWER_5, POWER_6, POWER_7, "", POWER_8, PIECE(GRADE_1, C) POWER_9,
              PIECE(GRADE_2, C), PIECE(GRADE_3, C))
        ROUND(224, 56, ODD, 3, 4, 0, 1, 2, GRADE_4, "", GRADE_5, PIECE(GRADE_6, C), GRADE_7, PIECE(LOAD, D),
              PIECE(GRADE_8, C), "")
        STORE_GROUPS(0, 0) LOAD_GROUPS(128, 64)
        ROUND(0, 0, EVEN, 0, 1, 2, 3, 4, POWER_1, GRADE_9(by_query_0, 96), POWER_2, POWER_3, POWER_4, POWER_5, "",
              POWER_6)
        ROUND(32, 8, ODD, 4, 0, 1, 2, 3, POWER_7, POWER_8, PIECE(GRADE_1, D) POWER_9, PIECE(GRADE_2, D), "",
              PIECE(GRADE_3, D), GRADE_4, GRADE_5)
        ROUND(64, 16, EVEN, 3, 4, 0, 1, 2, PIECE(GRADE_6, D), GRADE_7, PIECE(LOAD, E), "", PIECE(GRADE_8, D), POWER_1,
              GRADE_9(by_query_1, 96), POWER_2)
        ROUND(96, 24, ODD, 2, 3, 4, 0, 1, POWER_3, "", POWER_4, POWER_5, POWER_6, POWER_7, POWER_8, "")
        ROUND(128, 32, EVEN, 1, 2, 3, 4, 0, PIECE(GRADE_1, E) POWER_9, PIECE(GRADE_2, E), PIECE(GRADE_3, E), GRADE_4,
              GRADE_5, PIECE(GRADE_6, E), "", GRADE_7)
        ROUND(160, 40, ODD, 0, 1, 2, 3, 4, PIECE(LOAD, F), PIECE(GRADE_8, E), POWER_1, GRADE_9(by_query_0, 192), "",
              POWER_2, POWER_3, POWER_4)
        ROUND(192, 48, EVEN, 4, 0, 1, 2, 3, POWER_5, POWER_6, POWER_7, "", POWER_8, PIECE(GRADE_1, F) POWER_9,
              PIECE(GRADE_2, F), PIECE(GRADE_3, F))
        ROUND(224, 56, ODD, 3, 4, 0, 1, 2, GRADE_4, "", GRADE_5, PIECE(GRADE_6, F), GRADE_7, PIECE(GRADE_8, F),
              GRADE_9(by_query_1, 192), "")
        STORE_GROUPS(128, 64)
        : : [frame] "r"(frame), [key] "r"(frame->key), [delta] "r"(delta), [weights] "r"(weights),
            [dscores] "r"(dscores), [by_query_0] "r"(by_query_0), [by_query_1] "r"(by_query_1) : DRAW_CLOBBERS);
    /* clang-format on */
}

#endif
