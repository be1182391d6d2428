/* gemm.h - matrix products in three steps: pack lines into panels, multiply two panels into a tile, finish the tile.
 *
 *     C [M,N] = A [M,K] B [K,N]      panels of A hold mr rows, panels of B hold nr columns, tiles of C are mr x nr
 *
 * How numbers lie inside a panel is the private matter of the kernel that packed it, but for one rule: a panel is a
 * sequence of slices, kr deep in k, one after the other, so that slice s of a panel starts at element s * kr * width.
 * So a panel may be packed piecewise along k, and a product may start in the middle of one.
 *
 * Sources are lists of pointers to lines of contiguous numbers, not matrices with a stride: the same packing serves
 * matrices in any orientation and, with one pointer per pixel and NULL for the border, convolutions. */
#ifndef LOCKSTEP_KERNELS_GEMM_H
#define LOCKSTEP_KERNELS_GEMM_H

#include <lockstep/plugin.h>

#define LS_GEMM_MAX_WIDTH 64 /* of a panel */
#define LS_GEMM_MAX_KR 32

/* ---- What an ISA supplies -------------------------------------------------------------------------------------- */

/* How one side's panels are filled. Lines are whole and of the panel's type:
 * edges and conversions are ls_gemm_pack's. */
typedef struct ls_gemm_side {
    int width; /* rows of a panel of A (mr), columns of a panel of B (nr) */
    /* Fill one panel from `width` lines that run along k (row i of the panel is line[i]), k a multiple of kr. */
    void (*along)(void *panel, const void *const *line, int64_t k);
    /* Fill one slice of each of `count` panels, panel_stride elements apart, from kr lines that run across k (line[j]
     * is the count * width numbers at k = j). */
    void (*across)(void *panels, int64_t panel_stride, const void *const *line, int64_t count);
} ls_gemm_side;

/* Rows of A that are multiplied where they lie: row i begins i * stride bytes after the first, and its slice s, kr
 * numbers of the panels' type, offset[s] bytes further on. */
typedef struct ls_gemm_rows {
    const void *first;
    int64_t stride;
    int64_t slices;
    const int64_t *offset;
} ls_gemm_rows;

/* Where the first `columns` sums of row i of a product go: `offset` bytes after row[i], as f32 or rounded to bf16;
 * where row[i] is NULL they are dropped. */
typedef struct ls_gemm_targets {
    void *const *row;
    int64_t offset;
    int64_t columns;
    ls_dtype dtype;
    bool stream; /* nobody reads them soon: they may bypass the caches. All addresses are multiples of 64 bytes */
} ls_gemm_targets;

/* `count` tiles one below the other: panel i of A, a_stride elements after the one before, with one panel of B. */
typedef struct ls_gemm_column {
    int64_t count, k;
    const void *a, *b;
    int64_t a_stride;
    const void *from; /* partial tiles, one after the other, to go on from; NULL: start with zero */
    void *to;         /* rows of the column, ldc elements apart; or with ldc == 0 partial tiles, one after the other */
    int64_t ldc;
    /* Of column_bf16: */
    const float *bias; /* of the columns, or NULL; only where the kernel has column_bias */
    bool stream; /* nobody reads the result soon: it may bypass the caches. `to` and rows are multiples of 64 bytes */
    /* Memory that the next call reads and that is worth fetching into L2 meanwhile, and how many cache lines of it. */
    const char *ahead;
    int64_t ahead_lines;
} ls_gemm_column;
typedef void ls_gemm_column_fn(const ls_gemm_column *column);

/* How products are cut into blocks for the caches of the CPUs that a kernel is made for (device/cpu/gemm.c). */
typedef struct ls_gemm_blocks {
    int64_t rows;         /* of a block of A, at most */
    int64_t block_bytes;  /* of that block, packed: it stays in L2 while all panels of B go by */
    int64_t depth_bytes;  /* of a row of that block, at most */
    int64_t panel_bytes;  /* of a panel of B as deep as it stays in L1 */
    int64_t sums_bytes;   /* of partial sums beside a block, where all of k does not fit into one */
    int64_t strip;        /* columns of C that are finished together, about */
    int64_t tasks;        /* a worker should have, by cutting columns where rows make fewer */
    int64_t shared_bytes; /* of B, at most, for which all workers pack it together, once, rather than each its part */
    int64_t stream_bytes; /* of C, from which on it does not stay in the caches */
} ls_gemm_blocks;

typedef struct ls_gemm_kernel {
    const char *name;
    ls_dtype panel; /* number type of packed panels: LS_F32, LS_BF16 or LS_F64 */
    int kr;
    ls_gemm_side a, b;
    /* n numbers of any floating type, converted to the type of the panels. */
    void (*convert)(void *to, const void *from, ls_dtype from_dtype, int64_t n);
    /* to = from + A B over k (a multiple of kr, at least kr) of one panel each, summed in f64 for F64 panels, else in
     * f32. from: a partial tile to go on from, or NULL to start with zero. to: with ldc > 0 the mr x nr tile,
     * row-major, ldc elements from row to row, always written whole; with ldc == 0 a partial tile: mr * nr sums in an
     * order of the kernel's own. */
    void (*tile)(int64_t k, const void *a, const void *b, const void *from, void *to, int64_t ldc);
    /* (optional) tile() with panels of B half as wide, the second one b_stride elements after the first, which
     * half_b fills and in which k may begin at any multiple of half_step. */
    void (*tile_halves)(int64_t k, const void *a, const void *b, int64_t b_stride, const void *from, void *to,
                        int64_t ldc);
    ls_gemm_side half_b;
    int half_step;
    /* (optional) `count` tiles one below the other, of rows of A where they lie with one panel of B. All
     * count * mr rows are read. */
    void (*in_place)(int64_t count, const ls_gemm_rows *a, const void *b, const ls_gemm_targets *to);
    int64_t in_place_columns; /* of C, up to which that is faster than packing A first: later it pays */
    /* (optional) Columns of tiles: sums as `tile` leaves them, and rounded to bf16. */
    ls_gemm_column_fn *column, *column_bf16;
    bool column_bias;             /* column_bf16 adds a bias, too */
    const ls_gemm_blocks *blocks; /* NULL: what suits most CPUs */
    /* (optional) Bracket every run of tiles on a thread: take and give back what the CPU needs for them (AMX tiles). */
    void (*begin)(void);
    void (*end)(void);
} ls_gemm_kernel;

/* What happens to finished sums on their way out, row by row, in this order. */
typedef struct ls_gemm_finish {
    ls_activation activation;
    bool accumulate; /* out += result, rather than out = */
    ls_dtype out_dtype, pre_dtype;
    /* What a column is multiplied by before its bias is added lies so many numbers after that bias; 0: nothing does. */
    int64_t scale_after;
    bool residual; /* pre is not written, but added to what goes into the activation */
} ls_gemm_finish;

/* Rows of n sums, ld apart, bias added unless NULL (it has the type of the sums), row i to out[i]; what goes into the
 * activation also to pre[i], unless pre is NULL. */
typedef void ls_gemm_finish_fn(const ls_gemm_finish *how, int64_t rows, int64_t n, const void *sums, int64_t ld,
                               const void *bias, void *const *out, void *const *pre);

/* What to pack. Lines run along k: line[i] holds successive k of row i of the operand; or across it: line[j] holds
 * successive rows of the operand at k = j. ("Row" means column where panels of B are packed.) */
typedef struct ls_gemm_lines {
    const void *const *line; /* NULL: a line of zeros */
    int64_t more;            /* lines listed after those to be packed: they will be wanted next and may be prefetched */
    int64_t offset;          /* elements to skip at the start of every line */
    ls_dtype dtype;          /* any floating type */
    bool across;
} ls_gemm_lines;

/* sums[c] += u[0][c] v[0][c] + ... + u[count-1][c] v[count-1][c] for c in [0, n): depthwise convolution and its
 * gradients, pixel by pixel. A line that is NULL counts as zeros; `across` means nothing here. */
typedef void ls_gemm_channelwise_fn(void *sums, int64_t n, int64_t count, const ls_gemm_lines *u,
                                    const ls_gemm_lines *v);

/* Kernels by the type a product is computed in, in up to three shapes, so that the one that wastes least on the edges
 * can be chosen; the first is the best where nothing is wasted, the third may be NULL. Panels may be wider than the
 * type asked for (bf16 on a CPU without it). */
#define LS_GEMM_SHAPES 3
typedef struct ls_gemm_table {
    const ls_gemm_kernel *f32[LS_GEMM_SHAPES], *f64[LS_GEMM_SHAPES], *bf16[LS_GEMM_SHAPES], *f16[LS_GEMM_SHAPES];
    ls_gemm_finish_fn *finish_f32, *finish_f64; /* by the type of the sums */
    ls_gemm_channelwise_fn *channelwise_f32, *channelwise_f64;
} ls_gemm_table;

extern const ls_gemm_table ls_gemm_ref, ls_gemm_neon, ls_gemm_neon_bf16;
extern const ls_gemm_table ls_gemm_avx2, ls_gemm_avx512, ls_gemm_avx512_bf16, ls_gemm_amx;

/* ---- What callers use ------------------------------------------------------------------------------------------ */

/* The table of this CPU. */
const ls_gemm_table *ls_gemm(void);
/* Its kernels for products computed in `compute`. */
const ls_gemm_kernel *const *ls_gemm_kernels(ls_dtype compute);

static inline int64_t ls_gemm_round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* A column of tiles, sums as `tile` leaves them, by whatever the kernel has for it. */
void ls_gemm_run_column(const ls_gemm_kernel *kernel, const ls_gemm_column *column);

/* Pack rows [0, rows) and k in [0, k) of the source, as side `side` of the kernel, into ceil(rows / width) panels that
 * start panel_stride elements apart. Rows up to a multiple of width and k up to one of kr are filled with zeros. */
#define LS_GEMM_AHEAD                                                                                                  \
    8192 /* bytes of the source that are fetched before they are packed; `more` lines beyond are useless */
void ls_gemm_pack(const ls_gemm_kernel *kernel, const ls_gemm_side *side, void *panels, int64_t panel_stride,
                  const ls_gemm_lines *source, int64_t rows, int64_t k);

#endif
