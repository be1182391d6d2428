/* gemm_asm.h - macros for the tile kernels, which are inline assembly because neither gcc nor clang keeps 24 sums in
 * registers.
 *
 * Registers v8 to v31 hold the sums, v0 to v7 elements of the panels. One panel is the wide one (12), the other the
 * narrow one (8). A tile is TALL when A is wide (12 x 8) and FLAT when B is (8 x 12). SQUARE tiles (8 x 8) have sums in
 * v8 to v23 only; A counts as the wide panel.
 *
 * Operands of the assembly: %[wide], %[narrow]: panels; %[k]: rounds of the loop; %[from]: partial tile or zero; %[to],
 * %[stride]: destination of the tile and bytes between its rows. */
#ifndef LOCKSTEP_KERNELS_NEON_GEMM_ASM_H
#define LOCKSTEP_KERNELS_NEON_GEMM_ASM_H

/* A tile is one string, longer than C compilers must accept; gcc and clang do. */
#pragma GCC diagnostic ignored "-Woverlength-strings"

/* One macro is one line of assembly. */
/* clang-format off */

#define LS_ASM_LOAD_WIDE2(first, second, offset) "ldp q" #first ", q" #second ", [%[wide], #" #offset "]\n"
#define LS_ASM_LOAD_NARROW2(first, second, offset) "ldp q" #first ", q" #second ", [%[narrow], #" #offset "]\n"

/* Both for all sums. */
#define LS_ASM_ZERO(r) "movi v" #r ".2d, #0\n"
#define LS_ASM_LOAD(r, s, offset) "ldp q" #r ", q" #s ", [%[from], #" #offset "]\n"
#define LS_ASM_STORE(r, s, offset) "stp q" #r ", q" #s ", [%[to], #" #offset "]\n"
#define LS_ASM_EACH_SUM(f)                                                                                             \
    f(8) f(9) f(10) f(11) f(12) f(13) f(14) f(15) f(16) f(17) f(18) f(19)                                              \
    f(20) f(21) f(22) f(23) f(24) f(25) f(26) f(27) f(28) f(29) f(30) f(31)
#define LS_ASM_EACH_SUM_PAIR(f)                                                                                        \
    f(8, 9, 0) f(10, 11, 32) f(12, 13, 64) f(14, 15, 96) f(16, 17, 128) f(18, 19, 160)                                 \
    f(20, 21, 192) f(22, 23, 224) f(24, 25, 256) f(26, 27, 288) f(28, 29, 320) f(30, 31, 352)

#define LS_ASM_EACH_SQUARE_SUM(f)                                                                                      \
    f(8) f(9) f(10) f(11) f(12) f(13) f(14) f(15) f(16) f(17) f(18) f(19) f(20) f(21) f(22) f(23)
#define LS_ASM_EACH_SQUARE_SUM_PAIR(f)                                                                                 \
    f(8, 9, 0) f(10, 11, 32) f(12, 13, 64) f(14, 15, 96) f(16, 17, 128) f(18, 19, 160) f(20, 21, 192) f(22, 23, 224)

/* Sums start from the partial tile, or from zero. */
#define LS_ASM_START                                                                                                   \
    "cbz %[from], 1f\n" LS_ASM_EACH_SUM_PAIR(LS_ASM_LOAD) "b 2f\n"                                                     \
    "1:\n" LS_ASM_EACH_SUM(LS_ASM_ZERO) "2:\n"
#define LS_ASM_SQUARE_START                                                                                            \
    "cbz %[from], 1f\n" LS_ASM_EACH_SQUARE_SUM_PAIR(LS_ASM_LOAD) "b 2f\n"                                              \
    "1:\n" LS_ASM_EACH_SQUARE_SUM(LS_ASM_ZERO) "2:\n"

/* `first` loads the data of the first round. Each round but the last loads the data of the next. */
#define LS_ASM_LOOP(first, round, last, wide_bytes, narrow_bytes)                                                      \
    first                                                                                                              \
    "subs %[k], %[k], #1\n"                                                                                            \
    "beq 4f\n"                                                                                                         \
    ".p2align 5\n"                                                                                                     \
    "3:\n" round                                                                                                       \
    "add %[wide], %[wide], #" #wide_bytes "\n"                                                                         \
    "add %[narrow], %[narrow], #" #narrow_bytes "\n"                                                                   \
    "subs %[k], %[k], #1\n"                                                                                            \
    "bne 3b\n"                                                                                                         \
    "4:\n" last

#define LS_ASM_NEXT_ROW "add %[to], %[to], %[stride]\n"
#define LS_ASM_ROW2(a, b) "stp q" #a ", q" #b ", [%[to]]\n" LS_ASM_NEXT_ROW
#define LS_ASM_ROW3(a, b, c) "stp q" #a ", q" #b ", [%[to]]\nstr q" #c ", [%[to], #32]\n" LS_ASM_NEXT_ROW

/* clang-format on */

#define LS_ASM_CLOBBERS                                                                                                \
    "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",     \
        "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29",       \
        "v30", "v31"

#endif
