/* gemm.h - matrix products in three steps: pack lines into panels, multiply two panels into a tile, finish the tile.
 *
 *     C [M,N] = A [M,K] B [K,N]      panels of A hold mr rows, panels of B hold nr columns, tiles of C are mr x nr
 *
 * The layout inside a panel is private to the kernel that packed it, except for one rule: a panel is a sequence of
 * slices, kr deep in k, so that slice s starts at element s * kr * width. Therefore a panel may be packed piecewise
 * along k, and a product may start in the middle of one.
 *
 * Sources are lists of pointers to lines of contiguous elements, not matrices with a stride: the same packing serves
 * matrices in any orientation and, with one pointer per pixel and NULL for the border, convolutions. */
#ifndef LOCKSTEP_KERNELS_GEMM_H
#define LOCKSTEP_KERNELS_GEMM_H

#include <lockstep/plugin.h>

#define LS_GEMM_MAX_WIDTH 64 /* of a panel */
#define LS_GEMM_MAX_KR 32

/* ---- What an ISA supplies -------------------------------------------------------------------------------------- */

/* How one side's panels are filled. Lines are complete and of the panel's type: ls_gemm_pack handles edges and
 * conversions. */
typedef struct ls_gemm_side {
    int width; /* rows of a panel of A (mr), columns of a panel of B (nr) */
    /* Fill one panel from `width` lines that run along k (row i of the panel is line[i]), k a multiple of kr. */
    void (*along)(void *panel, const void *const *line, int64_t k);
    /* Fill one slice of each of `count` panels, panel_stride elements apart, from kr lines that run across k (line[j]
     * has the count * width elements at k = j). */
    void (*across)(void *panels, int64_t panel_stride, const void *const *line, int64_t count);
} ls_gemm_side;

/* Memory that a later call reads, worth prefetching into L2 meanwhile. */
typedef struct ls_gemm_ahead {
    const char *at;
    int64_t lines; /* of cache */
} ls_gemm_ahead;

/* Rows of A multiplied in place, without packing: row i begins i * stride bytes after the first, and its slice s, kr
 * elements of the panels' type, offset[s] bytes further on. */
typedef struct ls_gemm_rows {
    const void *first;
    int64_t stride;
    int64_t slices;
    const int64_t *offset;
    /* (optional) Only where the kernel has in_place_run: row r begins r % in_place_run * stride bytes after
     * start[r / in_place_run], counted from the first. */
    const int64_t *start;
    /* (optional) Slices come in groups of so many, and of the last of each only the first `rest` elements are
     * multiplied with anything but zeros: a kernel may leave out the others. */
    int64_t group, rest;
    ls_gemm_ahead ahead;
} ls_gemm_rows;

/* Sums, over the rows of a product that count, of each column's distance from its pivot, and of the square of that. The
 * pivot is the column's first number, so that nothing cancels where its mean is large. */
typedef struct ls_gemm_moments {
    float pivot[LS_GEMM_MAX_WIDTH], sum[LS_GEMM_MAX_WIDTH], squares[LS_GEMM_MAX_WIDTH];
} ls_gemm_moments;

/* Panels of B side by side, `stride` elements apart. */
typedef struct ls_gemm_panels {
    const void *first;
    int64_t count, stride;
    /* (optional) Panels do not stay in L2: each is worth fetching while the one before is used. And this one, which the
     * next call probably begins with. */
    const void *next;
} ls_gemm_panels;

/* Where the first `columns` sums of row i of a product are stored: `offset` bytes after row[i], as f32 or rounded to
 * bf16; dropped where row[i] is NULL. */
typedef struct ls_gemm_targets {
    void *const *row;
    bool scattered; /* rows do not follow each other in memory: a CPU does not foresee where the next one is stored */
    int64_t offset;
    int64_t columns;
    ls_dtype dtype; /* LS_DTYPE_NONE: nothing is stored; row[i] only says whether the row counts */
    bool stream;    /* not read again soon: may bypass the caches. All addresses are then multiples of 64 bytes */
    /* Only where the kernel has in_place_finishes. Stored is sum * scale + bias + residual, or 0 if that is less and
     * `relu` is set. */
    bool relu;
    const float *bias, *scale; /* of the columns, or NULL; a scale only with a bias */
    void *const *residual;     /* rows like those of the result and of its type, or NULL */
    /* Of each panel: set to those of the sums themselves. Some row must count. NULL: not wanted. */
    ls_gemm_moments *moments;
} ls_gemm_targets;

/* `count` tiles one below the other: panel i of A, a_stride elements after the one before, with one panel of B. Or,
 * with b_stride, side by side: panel i of B, b_stride elements after the one before, with one panel of A. */
typedef struct ls_gemm_column {
    int64_t count, k;
    const void *a, *b;
    int64_t a_stride, b_stride;
    const void *from; /* partial tiles to continue from, one after the other; NULL: start from zero */
    void *to;         /* rows of the column, ldc elements apart; or with ldc == 0 partial tiles, one after the other */
    int64_t ldc;
    /* For column_out, of tiles one below the other: */
    bool stream; /* not read again soon: may bypass the caches. Addresses of rows are then multiples of 64 bytes */
    /* Only where the kernel has column_finishes: */
    const float *bias;        /* of the columns, or NULL */
    ls_activation activation; /* none, ReLU or GELU */
    void *pre; /* rows of the input of the activation, of the type of the result, pre_stride elements apart, or NULL */
    int64_t pre_stride;
    ls_gemm_ahead ahead;
} ls_gemm_column;
typedef void ls_gemm_column_fn(const ls_gemm_column *column);

/* `count` tiles of one panel of A, tile i with panels of B half as wide: one at b[i], the other b_stride elements after
 * it. */
typedef struct ls_gemm_halves {
    int64_t count, k;
    const void *a;
    const void *const *b;
    int64_t b_stride;
    const void *from; /* partial tiles to continue from, one after the other; NULL: start from zero */
    void *to;         /* tiles one after the other: partial ones, or row-major without gaps */
    bool row_major;
    ls_gemm_ahead ahead[2];
} ls_gemm_halves;

/* How products are cut into blocks for the caches of the CPUs that a kernel is made for (device/cpu/gemm.c). */
typedef struct ls_gemm_blocks {
    int64_t rows;        /* of a block of A, at most */
    int64_t block_bytes; /* of that block, packed: stays in L2 while all panels of B pass */
    int64_t depth_bytes; /* of a row of that block, at most */
    int64_t panel_bytes; /* of a panel of B that stays in L1 */
    int64_t cut_bytes;   /* of that block and its partial sums, if k is cut */
    /* Where each task packs its part of B: rows of a block, bytes of one of them, and rows of a task that keeps sums of
     * all of them while k is cut; at most. Zeros: some 100, what a panel has, some 800. */
    int64_t own_rows, own_depth_bytes, own_task_rows;
    int64_t strip; /* columns of C finished together, roughly */
    int64_t tasks; /* per worker to aim for; columns are cut if rows give fewer */
    /* Of B up to which all workers pack it together once, instead of each its own part; and of how many numbers C is at
     * least: less is cut into tasks of few columns, each of which packs its rows of A again. */
    int64_t shared_bytes, shared_size;
    int64_t stream_bytes; /* of C from which on it bypasses the caches; 0: never */
    /* The same of products of rows in place. Those of f32 wait for their stores, which a shared cache takes faster than
     * memory as long as it holds the result. */
    int64_t in_place_stream_bytes;
    /* Rows in place at distances that are a multiple of so many bytes meet in the same few lines of L1; 0: not known.
     * From so many columns of C on these are rather packed. */
    int64_t meeting_bytes, meeting_columns;
    /* Multiplications of rows in place that take as long as moving a byte from or to memory; 0: unknown, but few. */
    int64_t products_per_byte;
} ls_gemm_blocks;

typedef struct ls_gemm_kernel {
    const char *name;
    ls_dtype panel; /* number type that panels are packed from: LS_F32, LS_BF16 or LS_F64 */
    int packed;     /* bytes of a number in a panel, where that is not the size of its type; 0 */
    int kr;
    /* (optional) The most k of a call, a multiple of kr: deeper products are sums of parts that begin at multiples of
     * it, whatever the blocks, so that sums always round the same way. */
    int most_k;
    ls_gemm_side a, b;
    /* Convert n elements of any floating type to the type of the panels. */
    void (*convert)(void *to, const void *from, ls_dtype from_dtype, int64_t n);
    /* to = from + A B over k (a multiple of kr, at least kr) of one panel each, summed in f64 for F64 panels, else in
     * f32. from: a partial tile to continue from, or NULL to start from zero. to: with ldc > 0 the mr x nr tile,
     * row-major, ldc elements from row to row, always written whole; with ldc == 0 a partial tile: mr * nr sums in a
     * layout private to the kernel. */
    void (*tile)(int64_t k, const void *a, const void *b, const void *from, void *to, int64_t ldc);
    /* (optional) tile() with panels of B half as wide, the second one b_stride elements after the first, which
     * half_b fills and in which k may begin at any multiple of half_step. */
    void (*tile_halves)(int64_t k, const void *a, const void *b, int64_t b_stride, const void *from, void *to,
                        int64_t ldc);
    ls_gemm_side half_b;
    int half_step;
    void (*halves)(const ls_gemm_halves *tiles); /* (optional) several of them */
    /* (optional) The tiles of count * in_place_rows rows of A in place, which are all read, with panels of B. */
    void (*in_place)(int64_t count, const ls_gemm_rows *a, const ls_gemm_panels *b, const ls_gemm_targets *to);
    int64_t in_place_columns; /* of C up to which that is faster than packing A first; and if A has to */
    int64_t copied_columns;   /* be copied for that, into rows at equal distances */
    int in_place_rows;        /* of such a tile */
    int in_place_run;         /* rows that may begin anywhere, together; 0: none */
    bool in_place_finishes;   /* it can do more with sums than store them */
    /* (optional) The same with tiles of in_place_run rows. */
    void (*in_place_few)(int64_t count, const ls_gemm_rows *a, const ls_gemm_panels *b, const ls_gemm_targets *to);

    /* (optional) Columns of tiles: sums as in `tile`, and results of type `out`: bf16, rounded from them, or f32. */
    ls_gemm_column_fn *column, *column_out;
    ls_dtype out;
    bool column_finishes;         /* column_out can do more with sums than round them */
    const ls_gemm_blocks *blocks; /* NULL: defaults that suit most CPUs */
    /* (optional) Called around every run of tiles on a thread: acquire and release CPU state (AMX tiles). */
    void (*begin)(void);
    void (*end)(void);
} ls_gemm_kernel;

/* Steps applied to finished sums, row by row, in this order. */
typedef struct ls_gemm_finish {
    ls_activation activation;
    bool accumulate; /* out += result, rather than out = */
    ls_dtype out_dtype, pre_dtype;
    /* A column's scale, applied before its bias, is stored this many elements after the bias; 0: no scale. */
    int64_t scale_after;
    bool residual; /* pre is an input, added before the activation */
} ls_gemm_finish;

/* Finish rows of n sums, ld apart: add bias unless NULL (it has the type of the sums), store row i to out[i] and,
 * unless pre is NULL, the input of the activation to pre[i]. */
typedef void ls_gemm_finish_fn(const ls_gemm_finish *how, int64_t rows, int64_t n, const void *sums, int64_t ld,
                               const void *bias, void *const *out, void *const *pre);

/* Moments of the n columns, at most LS_GEMM_MAX_WIDTH, of rows of sums in f32, ld apart. */
typedef void ls_gemm_moments_fn(const float *sums, int64_t ld, int64_t rows, int64_t n, ls_gemm_moments *found);

/* What to pack. Lines run along k: line[i] holds successive k of row i of the operand; or across it: line[j] holds
 * successive rows of the operand at k = j. ("Row" means column where panels of B are packed.) */
typedef struct ls_gemm_lines {
    const void *const *line; /* NULL: a line of zeros */
    int64_t more;            /* lines listed after those to be packed, which are needed next and may be prefetched */
    int64_t offset;          /* elements to skip at the start of every line */
    ls_dtype dtype;          /* any floating type */
    bool across;
} ls_gemm_lines;

/* sums[c] += u[0][c] v[0][c] + ... + u[count-1][c] v[count-1][c] for c in [0, n): depthwise convolution and its
 * gradients, pixel by pixel. A NULL line counts as zeros; `across` is ignored. */
typedef void ls_gemm_channelwise_fn(void *sums, int64_t n, int64_t count, const ls_gemm_lines *u,
                                    const ls_gemm_lines *v);

/* Successive points of two images in place: `count` of them. */
typedef struct ls_gemm_point_run {
    const char *a, *b;
    int64_t count;
} ls_gemm_point_run;

/* A tile of sums over points: to[i][j] = from[i][j] + the products, over all points of the runs, of number i of a and
 * number j of b, `rows` and `columns` of them. These begin a_offset and b_offset bytes after the addresses in a run,
 * and are a_stride and b_stride bytes apart from point to point. */
typedef struct ls_gemm_points {
    const ls_gemm_point_run *run;
    int64_t runs;
    int rows, columns;
    int64_t a_offset, b_offset, a_stride, b_stride;
    const float *from; /* NULL: start from zero */
    float *to;         /* row-major without gaps, like `from` */
    ls_gemm_ahead ahead;
} ls_gemm_points;

/* Gradients of weights without packing: their rows and columns are numbers that are contiguous in both images. */
typedef struct ls_gemm_over_points {
    int rows, columns; /* of a tile: so many or fewer, and so many or half of them */
    int64_t channels;  /* of both pixels of a point, up to which that is faster: tiles of wide ones see many pages */
    void (*sum)(const ls_gemm_points *points);
} ls_gemm_over_points;

/* Kernels by compute type, in up to three shapes, so that the one that wastes least at the edges can be chosen; the
 * first is best if nothing is wasted, the third may be NULL. Panels may be wider than the requested type (bf16 on a CPU
 * without it). */
#define LS_GEMM_SHAPES 3
typedef struct ls_gemm_table {
    const ls_gemm_kernel *f32[LS_GEMM_SHAPES], *f64[LS_GEMM_SHAPES], *bf16[LS_GEMM_SHAPES], *f16[LS_GEMM_SHAPES];
    ls_gemm_finish_fn *finish_f32, *finish_f64; /* by the type of the sums */
    ls_gemm_moments_fn *moments_f32;
    ls_gemm_channelwise_fn *channelwise_f32, *channelwise_f64;
    const ls_gemm_over_points *points_f32; /* NULL: packing is as fast */
    /* (optional) Products of f32 whose factors are both packed, where they are large: takes longer to pack. */
    const ls_gemm_kernel *large_f32;
} ls_gemm_table;

extern const ls_gemm_table ls_gemm_ref, ls_gemm_neon, ls_gemm_neon_bf16;
extern const ls_gemm_table ls_gemm_avx2, ls_gemm_avx512, ls_gemm_avx512_bf16, ls_gemm_amx;

/* ---- What callers use ------------------------------------------------------------------------------------------ */

/* The table of this CPU. */
const ls_gemm_table *ls_gemm(void);
/* Its kernels for products computed in `compute`. */
const ls_gemm_kernel *const *ls_gemm_kernels(ls_dtype compute);

/* Bytes of a number in a panel. */
static inline int64_t ls_gemm_packed_bytes(const ls_gemm_kernel *kernel)
{
    return kernel->packed ? kernel->packed : (int64_t)ls_dtype_size(kernel->panel);
}

static inline int64_t ls_gemm_round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* A column of tiles, sums as in `tile`, by the best means the kernel has. */
void ls_gemm_run_column(const ls_gemm_kernel *kernel, const ls_gemm_column *column);
/* The same for tiles with half panels of B. */
void ls_gemm_run_halves(const ls_gemm_kernel *kernel, const ls_gemm_halves *tiles);

/* Pack rows [0, rows) and k in [0, k) of the source, as side `side` of the kernel, into ceil(rows / width) panels that
 * start panel_stride elements apart. Rows up to a multiple of width and k up to one of kr are filled with zeros. */
#define LS_GEMM_AHEAD                                                                                                  \
    8192 /* bytes of the source prefetched before they are packed; listing `more` lines beyond that is useless */
void ls_gemm_pack(const ls_gemm_kernel *kernel, const ls_gemm_side *side, void *panels, int64_t panel_stride,
                  const ls_gemm_lines *source, int64_t rows, int64_t k);

#endif
