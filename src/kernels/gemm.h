/* gemm.h - matrix products in three steps: pack lines into panels, multiply two panels into a tile, finish the tile.
 *
 *     C [M,N] = A [M,K] B [K,N]      panels of A hold mr rows, panels of B hold nr columns, tiles of C are mr x nr
 *
 * How numbers lie inside a panel is the private matter of the kernel that packed it, but for one rule: a panel is a
 * sequence of slices, kr deep in k, one after the other, so that slice s of a panel `width` wide starts at element
 * s * kr * width. So a panel may be packed piecewise along k, and a product may start in the middle of one.
 *
 * Sources are lists of pointers to lines of contiguous numbers, not matrices with a stride: the same packing serves
 * matrices in any orientation and, with one pointer per pixel and NULL for the border, convolutions. */
#ifndef LOCKSTEP_KERNELS_GEMM_H
#define LOCKSTEP_KERNELS_GEMM_H

#include <lockstep/plugin.h>

#define LS_GEMM_MAX_MR 32
#define LS_GEMM_MAX_NR 64
#define LS_GEMM_MAX_KR 32

/* What to pack. Lines run along k: line[i] holds k successive numbers of row i of the panel; or across it: line[j]
 * holds the numbers of successive rows of the panel at k = j. ("Row" means column where panels of B are packed.) */
typedef struct ls_gemm_lines {
    const void *const *line; /* NULL: a line of zeros */
    int64_t offset;          /* elements to skip at the start of every line */
    ls_dtype dtype;          /* any floating type: converted to the type of the panels while packing */
    bool across;
} ls_gemm_lines;

/* Pack rows [0, rows) and [0, k) of the source into ceil(rows / width) panels that start panel_stride elements apart.
 * Rows up to a multiple of width and k up to a multiple of kr are filled with zeros. */
typedef void ls_gemm_pack_fn(void *panels, int64_t panel_stride, const ls_gemm_lines *source, int64_t rows, int64_t k);

/* to = from + A B over k (a multiple of kr, at least kr) of one panel each. Accumulators are f64 for F64 panels, else
 * f32. from: partial tile to go on from, or NULL to start with zero. to: with ldc > 0 the mr x nr tile, row-major, ldc
 * elements from row to row, always written whole; with ldc == 0 a partial tile: mr * nr accumulators in the kernel's
 * own order. */
typedef void ls_gemm_tile_fn(int64_t k, const void *a, const void *b, const void *from, void *to, int64_t ldc);

typedef struct ls_gemm_kernel {
    const char *name;
    ls_dtype panel; /* number type of packed panels: LS_F32, LS_BF16 or LS_F64 */
    int mr, nr, kr;
    ls_gemm_pack_fn *pack_a, *pack_b;
    ls_gemm_tile_fn *tile;
    /* (optional) Bracket every run of tiles on a thread: set up and give back what the CPU needs for them (AMX tiles).
     */
    void (*begin)(void);
    void (*end)(void);
} ls_gemm_kernel;

/* What happens to finished sums on their way out, row by row, in this order. */
typedef struct ls_gemm_finish {
    const void *bias; /* [n] accumulators, or NULL */
    ls_activation activation;
    bool accumulate; /* out += result, rather than out = */
    ls_dtype out_dtype, pre_dtype;
} ls_gemm_finish;

/* One row of n accumulators to out; what goes into the activation also to pre, unless NULL. */
typedef void ls_gemm_finish_fn(const ls_gemm_finish *how, int64_t n, const void *sums, void *out, void *pre);

/* sums[c] += u[0][c] v[0][c] + ... + u[count-1][c] v[count-1][c] for c in [0, n): depthwise convolution and its
 * gradients, pixel by pixel. A line that is NULL counts as zeros. */
typedef void ls_gemm_channelwise_fn(void *sums, int64_t n, int64_t count, const ls_gemm_lines *u,
                                    const ls_gemm_lines *v);

/* Kernels by the type a product is computed in. Two shapes each, so that the one that wastes less on the edges can be
 * chosen; the second may equal the first. Panels may be wider than the type asked for (bf16 on a CPU without it). */
typedef struct ls_gemm_table {
    const ls_gemm_kernel *f32[2], *f64[2], *bf16[2], *f16[2];
    ls_gemm_finish_fn *finish_f32, *finish_f64; /* by the type of the accumulators */
    ls_gemm_channelwise_fn *channelwise_f32, *channelwise_f64;
} ls_gemm_table;

/* The table of this CPU. */
const ls_gemm_table *ls_gemm(void);
/* Its two kernels for products computed in `compute`. */
const ls_gemm_kernel *const *ls_gemm_kernels(ls_dtype compute);

#endif
