/* gemm.c - bf16 matrix products with AMX: four tiles of sums, two by two or one below the other, that advance 32 k at a
 * time. A slice of a panel is as many tiles as the panel is wide, each of them 1 KiB without gaps.
 *
 * A step (32 k of a tile) keeps the multiplier busy for 64 cycles; everything else a tile costs should overlap with
 * such steps. So in a column of tiles the sums of one tile are stored during the first step of the next, one register
 * at a time; they are rounded, row by row, during the following steps; and the data of later tiles is prefetched
 * meanwhile. Panels of A are read once per panel of B and bypass L1, where the panel of B stays. */
#include "kernels/gemm.h"

#include "kernels/amx/column.h"
#include "kernels/simd.h"
#include "kernels/simd_math.h"

#include <math.h>

/* Sums are in registers 0 to 3. They start from a partial tile, which is these registers as they are, or from zero. */
static inline __attribute__((always_inline)) void sums_begin(const float *from)
{
    if (from) {
        TILE_LOAD(0, from, TILE_ROW);
        TILE_LOAD(1, from + TILE_UNITS, TILE_ROW);
        TILE_LOAD(2, from + 2 * TILE_UNITS, TILE_ROW);
        TILE_LOAD(3, from + 3 * TILE_UNITS, TILE_ROW);
    } else {
        TILE_ZERO(0);
        TILE_ZERO(1);
        TILE_ZERO(2);
        TILE_ZERO(3);
    }
}

/* Store register 2 i + j to `to` + i * down + j * right. */
static inline __attribute__((always_inline)) void sums_end(float *to, int64_t down, int64_t right, int64_t stride)
{
    TILE_STORE(0, to, stride);
    TILE_STORE(1, to + right, stride);
    TILE_STORE(2, to + down, stride);
    TILE_STORE(3, to + down + right, stride);
}

/* ---- two by two -------------------------------------------------------------------------------------------------- */

/* Load a slice of both panels into registers 4 to 7. The tiles of B are `right` units apart. */
static inline __attribute__((always_inline)) void slices_load(const uint32_t *a, const uint32_t *b, int64_t right)
{
    TILE_LOAD(6, b, TILE_ROW);
    TILE_LOAD(7, b + right, TILE_ROW);
    TILE_LOAD_ONCE(4, a, TILE_ROW);
    TILE_LOAD_ONCE(5, a + TILE_UNITS, TILE_ROW);
}

static inline __attribute__((always_inline)) void slices_multiply(void)
{
    TILE_MULTIPLY(0, 4, 6);
    TILE_MULTIPLY(1, 4, 7);
    TILE_MULTIPLY(2, 5, 6);
    TILE_MULTIPLY(3, 5, 7);
}

/* Both tiles of a slice of B are `right` units apart, slices b_slice. */
static inline __attribute__((always_inline)) void multiply_wide(int64_t k, const void *a, const void *b, int64_t right,
                                                                int64_t b_slice, const void *from, void *to,
                                                                int64_t ldc)
{
    const uint32_t *a_at = a, *b_at = b;
    sums_begin(from);
    for (; k > 0; k -= 32, a_at += 2 * TILE_UNITS, b_at += b_slice) {
        slices_load(a_at, b_at, right);
        slices_multiply();
    }
    if (ldc) sums_end(to, 16 * ldc, 16, ldc * (int64_t)sizeof(float));
    else sums_end(to, 2 * TILE_UNITS, TILE_UNITS, TILE_ROW);
}

static void tile_wide_bf16(int64_t k, const void *a, const void *b, const void *from, void *to, int64_t ldc)
{
    multiply_wide(k, a, b, TILE_UNITS, 2 * TILE_UNITS, from, to, ldc);
}

static void tile_halves_bf16(int64_t k, const void *a, const void *b, int64_t b_stride, const void *from, void *to,
                             int64_t ldc)
{
    multiply_wide(k, a, b, b_stride / 2, TILE_UNITS, from, to, ldc);
}

/* A finished tile: where its sums are stored, and the rows they are rounded to, if any. */
typedef struct leaving {
    float *sums; /* NULL: no tile */
    int64_t down, right, stride;
    uint16_t *rows, *pre; /* pre: NULL: not wanted */
} leaving;

/* Store register t and restart it; the first product of the next tile follows. */
#define SUM_CHANGE(t, i, j, a, b)                                                                                      \
    do {                                                                                                               \
        if (last->sums) TILE_STORE(t, last->sums + i * last->down + j * last->right, last->stride);                    \
        if (from) TILE_LOAD(t, from + t * TILE_UNITS, TILE_ROW);                                                       \
        else TILE_ZERO(t);                                                                                             \
        TILE_MULTIPLY(t, a, b);                                                                                        \
    } while (0)

static inline __attribute__((always_inline)) void sums_change(const leaving *last, const float *from)
{
    SUM_CHANGE(0, 0, 0, 4, 6);
    SUM_CHANGE(1, 0, 1, 4, 7);
    SUM_CHANGE(2, 1, 0, 5, 6);
    SUM_CHANGE(3, 1, 1, 5, 7);
}

static inline __attribute__((always_inline)) void row_put(const ls_gemm_column *c, uint16_t *to, const ls_vf v[2])
{
    if (c->stream) ls_vf_stream2_bf16(to, v);
    else ls_vf_store2_bf16(to, v);
}

/* Round row `row` of a tile in register layout to bf16, with bias and activation, which is a constant. */
static inline __attribute__((always_inline)) void row_round(const ls_gemm_column *c, const leaving *tile, int row,
                                                            ls_activation activation)
{
    const float *at = tile->sums + row / 16 * 2 * TILE_UNITS + row % 16 * 16;
    for (int column = 0; column < TILE_SIDE; column += 2 * LS_VF_LANES) {
        int next = column + LS_VF_LANES;
        ls_vf v[2] = {ls_vf_load(at + column / 16 * TILE_UNITS + column % 16),
                      ls_vf_load(at + next / 16 * TILE_UNITS + next % 16)};
        if (c->bias) v[0] += ls_vf_load(c->bias + column), v[1] += ls_vf_load(c->bias + next);
        if (tile->pre) row_put(c, tile->pre + row * c->pre_stride + column, v);
        LS_UNROLL for (int u = 0; u < 2; u++)
        {
            if (activation == LS_ACT_GELU) v[u] = ls_vf_gelu(v[u]);
            if (activation == LS_ACT_RELU) v[u] = ls_vf_max(ls_vf_set(0), v[u]);
        }
        row_put(c, tile->rows + row * c->ldc + column, v);
    }
}

/* What becomes of a column: sums, or rows rounded to bf16 after an activation. A constant wherever it is passed. */
typedef struct ending {
    bool round;
    ls_activation activation;
} ending;

/* The first product of a register in a tile, or a later one. */
#define COLUMN_PRODUCT(t, i, j, x, y)                                                                                  \
    do {                                                                                                               \
        if (k) TILE_MULTIPLY(t, x, y);                                                                                 \
        else SUM_CHANGE(t, i, j, x, y);                                                                                \
    } while (0)

/* One tile of a column. `last` is the one before it, still in the registers; its rows are rounded evenly in the steps
 * of this one, since stores in a row that leave the caches hold up the loads of A. Loads are spread over the products
 * of a step: one waits until no product reads its register. */
static inline __attribute__((always_inline)) void column_tile(const ls_gemm_column *c, const uint32_t *a,
                                                              const uint32_t *b, const float *from, const leaving *last,
                                                              fetching *f, ending how)
{
    int64_t steps = c->k / 32, rows_per_step = steps > 1 ? (TILE_SIDE + steps - 2) / (steps - 1) : TILE_SIDE;
    int row = how.round && last->sums ? 0 : TILE_SIDE;
    for (int64_t k = 0; k < c->k; k += 32, a += 2 * TILE_UNITS, b += 2 * TILE_UNITS) {
        TILE_LOAD(6, b, TILE_ROW);
        TILE_LOAD_ONCE(4, a, TILE_ROW);
        COLUMN_PRODUCT(0, 0, 0, 4, 6);
        TILE_LOAD(7, b + TILE_UNITS, TILE_ROW);
        COLUMN_PRODUCT(1, 0, 1, 4, 7);
        TILE_LOAD_ONCE(5, a + TILE_UNITS, TILE_ROW);
        for (int64_t i = 0; k && i < rows_per_step && row < TILE_SIDE; i++, row++)
            row_round(c, last, row, how.activation);
        COLUMN_PRODUCT(2, 1, 0, 5, 6);
        fetch(f);
        tile_keep_pace();
        COLUMN_PRODUCT(3, 1, 1, 5, 7);
    }
    for (; row < TILE_SIDE; row++) row_round(c, last, row, how.activation);
}

static inline __attribute__((always_inline)) void column_of_tiles(const ls_gemm_column *c, ending how)
{
    _Alignas(64) float room[2][SUMS]; /* sums to be rounded: of the last tile, and of the one before */
    int64_t steps = c->k / 32;
    bool partial = !how.round && !c->ldc;
    fetching f = fetching_of(c->ahead, c->count * steps);
    leaving last = {.stride = TILE_ROW, .right = TILE_UNITS, .down = 2 * TILE_UNITS};
    if (!how.round && !partial) last.stride = c->ldc * (int64_t)sizeof(float), last.right = 16, last.down = 16 * c->ldc;
    for (int64_t i = 0; i < c->count; i++) {
        const float *from = c->from ? (const float *)c->from + i * SUMS : NULL;
        const float *next = from ? from + SUMS : partial ? (float *)c->to + (i + 1) * SUMS : NULL;
        f.sums = (const char *)next;
        f.sum_lines = next && i + 1 < c->count ? (SUMS / 16 + steps - 1) / steps : 0;
        column_tile(c, (const uint32_t *)((const uint16_t *)c->a + i * c->a_stride),
                    (const uint32_t *)((const uint16_t *)c->b + i * c->b_stride), from, &last, &f, how);
        if (how.round) {
            last.sums = room[i % 2];
            last.rows = (uint16_t *)c->to + i * TILE_SIDE * c->ldc;
            if (c->pre) last.pre = (uint16_t *)c->pre + i * TILE_SIDE * c->pre_stride;
        } else last.sums = (float *)c->to + i * (partial ? SUMS : c->b_stride ? TILE_SIDE : TILE_SIDE * c->ldc);
    }
    sums_end(last.sums, last.down, last.right, last.stride);
    for (int row = 0; how.round && row < TILE_SIDE; row++) row_round(c, &last, row, how.activation);
    if (c->stream) ls_stream_end();
}

static void column_wide(const ls_gemm_column *c)
{
    column_of_tiles(c, (ending){.round = false});
}

static void column_wide_bf16(const ls_gemm_column *c)
{
    if (c->activation == LS_ACT_GELU) column_of_tiles(c, (ending){.round = true, .activation = LS_ACT_GELU});
    else if (c->activation == LS_ACT_RELU) column_of_tiles(c, (ending){.round = true, .activation = LS_ACT_RELU});
    else column_of_tiles(c, (ending){.round = true});
}

/* A slice of A stays in L1 for all tiles, those of B pass once. */
static inline __attribute__((always_inline)) void halves_load(const uint32_t *a, const uint32_t *b, int64_t right)
{
    TILE_LOAD(4, a, TILE_ROW);
    TILE_LOAD(5, a + TILE_UNITS, TILE_ROW);
    TILE_LOAD_ONCE(6, b, TILE_ROW);
    TILE_LOAD_ONCE(7, b + right, TILE_ROW);
}

static void halves_wide(const ls_gemm_halves *t)
{
    int64_t steps = t->k / 32, all = t->count * steps, right = t->b_stride / 2;
    fetching f = fetching_of(t->ahead[0], all), also = fetching_of(t->ahead[1], all);
    leaving last = {.stride = TILE_ROW, .right = TILE_UNITS, .down = 2 * TILE_UNITS};
    if (t->row_major) last.stride = 2 * TILE_ROW, last.right = 16, last.down = 16 * TILE_SIDE;
    for (int64_t i = 0; i < t->count; i++) {
        const float *from = t->from ? (const float *)t->from + i * SUMS : NULL;
        const uint32_t *a = t->a, *b = t->b[i];
        f.sums = (const char *)((float *)t->to + (i + 1) * SUMS);
        f.sum_lines = i + 1 < t->count ? (SUMS / 16 + steps - 1) / steps : 0;
        for (int64_t step = 0; step < steps; step++, a += 2 * TILE_UNITS, b += TILE_UNITS) {
            halves_load(a, b, right);
            fetch(&f);
            fetch(&also);
            if (step) slices_multiply();
            else sums_change(&last, from);
        }
        last.sums = (float *)t->to + i * SUMS;
    }
    sums_end(last.sums, last.down, last.right, last.stride);
}

/* ---- four high --------------------------------------------------------------------------------------------------- */

static void tile_tall_bf16(int64_t k, const void *a, const void *b, const void *from, void *to, int64_t ldc)
{
    const uint32_t *a_at = a, *b_at = b;
    sums_begin(from);
    for (; k > 0; k -= 32, a_at += 4 * TILE_UNITS, b_at += TILE_UNITS) {
        TILE_LOAD(7, b_at, TILE_ROW);
        TILE_LOAD(4, a_at, TILE_ROW);
        TILE_MULTIPLY(0, 4, 7);
        TILE_LOAD(5, a_at + TILE_UNITS, TILE_ROW);
        TILE_MULTIPLY(1, 5, 7);
        TILE_LOAD(6, a_at + 2 * TILE_UNITS, TILE_ROW);
        TILE_MULTIPLY(2, 6, 7);
        TILE_LOAD(4, a_at + 3 * TILE_UNITS, TILE_ROW);
        TILE_MULTIPLY(3, 4, 7);
    }
    if (ldc) sums_end(to, 32 * ldc, 16 * ldc, ldc * (int64_t)sizeof(float));
    else sums_end(to, 2 * TILE_UNITS, TILE_UNITS, TILE_ROW);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* A core does 1.5 TFLOP/s, reads 170 GB/s from L2 but only 25 GB/s from L3, and its L2 holds 2 MB: a panel of B from L3
 * should be multiplied with hundreds of rows. */
static const ls_gemm_blocks deep = {
    .rows = 576,
    .block_bytes = 896 << 10,
    .depth_bytes = 2304,
    .panel_bytes = 40 << 10,
    .cut_bytes = 2350 << 10,
    .strip = 64,
    .tasks = 1,
    .shared_bytes = 64 << 20,
    .stream_bytes = 8 << 20,
    .in_place_stream_bytes = 8 << 20,
    .products_per_byte = 40,
};

static void in_place_wide_bf16(int64_t count, const ls_gemm_rows *a, const ls_gemm_panels *b,
                               const ls_gemm_targets *to);

#define ISA "amx"
#define IN_PLACE(shape) IN_PLACE_##shape
#define IN_PLACE_wide                                                                                                  \
    .in_place = in_place_wide_bf16, .in_place_columns = INT64_MAX, .copied_columns = INT64_MAX,                        \
    .in_place_rows = TILE_SIDE, .in_place_finishes = true,
#define IN_PLACE_tall
#define ROWS 32
#define STEPS 16
#define EXTRAS .begin = tile_begin, .end = tile_end, .blocks = &deep
#define EXTRAS_WIDE                                                                                                    \
    .halves = halves_wide, .column = column_wide, .column_out = column_wide_bf16, .out = LS_BF16,                      \
    .column_finishes = true, EXTRAS
#include "kernels/x86/gemm_pairs.inc"

/* ---- rows of A in place ------------------------------------------------------------------------------------------ */

/* How four tiles of sums lie: two by two, 32 rows with one panel of B; or side by side, 16 rows with two panels, so
 * that rows are loaded once for both. A constant wherever it is passed. */
typedef struct arrangement {
    int rows, columns;
    bool residual; /* is there one? */
} arrangement;

/* Column `column` of row `row` of 16 rows of sums: registers one after the other. */
static inline const float *sum_at(const float *sums, int row, int column)
{
    return sums + column / 16 * TILE_UNITS + row * 16 + column % 16;
}

/* 16 rows of sums that are complete, where they are stored, and the number of the first of them. */
typedef struct complete {
    const float *sums;
    const ls_gemm_targets *to;
    int64_t first;
} complete;

/* Store rows [row, end) of `columns` sums as bf16. Constants: columns, and `finish`: is there anything to do but round
 * them? */
static inline __attribute__((always_inline)) void put_rows(complete rows, int row, int end, int columns, bool finish)
{
    enum { PAIR = 2 * LS_VF_LANES, MOST = 2 * TILE_SIDE / PAIR };
    const ls_gemm_targets *to = rows.to;
    void *const *target = to->row + rows.first, *const *residual = to->residual ? to->residual + rows.first : NULL;
    const bool stream = to->stream;
    ls_vf one = ls_vf_set(1), least = ls_vf_set(to->relu ? 0 : -INFINITY), scale[2 * MOST], bias[2 * MOST];
    for (int v = 0; finish && v < columns / LS_VF_LANES; v++) {
        scale[v] = to->scale ? ls_vf_load(to->scale + v * LS_VF_LANES) : one;
        bias[v] = to->bias ? ls_vf_load(to->bias + v * LS_VF_LANES) : ls_vf_set(0);
    }
    for (int i = row; i < end; i++) {
        if (!target[i]) continue;
        LS_UNROLL for (int p = 0; p < columns / PAIR; p++)
        {
            int64_t at = to->offset + p * PAIR * (int64_t)sizeof(uint16_t);
            uint16_t *out = (uint16_t *)((char *)target[i] + at);
            ls_vf v[2] = {ls_vf_load(sum_at(rows.sums, i, p * PAIR)),
                          ls_vf_load(sum_at(rows.sums, i, p * PAIR + LS_VF_LANES))};
            ls_vf more[2];
            if (finish) {
                LS_UNROLL for (int u = 0; u < 2; u++) v[u] = ls_vf_fma(v[u], scale[2 * p + u], bias[2 * p + u]);
                if (residual) {
                    ls_vf_load2_bf16((const uint16_t *)((const char *)residual[i] + at), more);
                    LS_UNROLL for (int u = 0; u < 2; u++) v[u] += more[u];
                }
                LS_UNROLL for (int u = 0; u < 2; u++) v[u] = ls_vf_max(least, v[u]);
            }
            if (stream) ls_vf_stream2_bf16(out, v);
            else if (finish) ls_vf_store2_bf16(out, v);
            else ls_vf_flush2_bf16(out, v); /* AMX itself leaves no subnormal sums */
        }
    }
}

/* Finish and store rows [row, end). */
static inline __attribute__((always_inline)) void store_rows(complete rows, int row, int end, int columns)
{
    const ls_gemm_targets *to = rows.to;
    if (to->dtype == LS_DTYPE_NONE) return;
    if (to->columns == columns && to->dtype == LS_BF16) {
        if (to->bias || to->residual || to->relu) put_rows(rows, row, end, columns, true);
        else put_rows(rows, row, end, columns, false);
        return;
    }
    for (int i = row; i < end; i++) {
        if (!to->row[rows.first + i]) continue;
        for (int64_t c = 0; c < to->columns; c += 16) {
            int64_t width = to->columns - c < 16 ? to->columns - c : 16;
            ls_gemm_put(to, rows.first + i, c, width, sum_at(rows.sums, i, (int)c));
        }
    }
}

/* Gather the moments of all 16 rows. `in_rows` is the number among these of the first row that counts at all. */
static inline __attribute__((always_inline)) void gather_moments(complete rows, int64_t in_rows, int columns)
{
    for (int c = 0; rows.to->moments && in_rows < TILE_ROWS && c < columns; c += 16) {
        ls_gemm_moments *of_panel = &rows.to->moments[c / TILE_SIDE];
        if (in_rows >= 0) ls_gemm_moments_begin(of_panel, c % TILE_SIDE, 16, sum_at(rows.sums, (int)in_rows, c));
        ls_gemm_gather(of_panel, c % TILE_SIDE, 16, sum_at(rows.sums, 0, c), 16, rows.to->row + rows.first, TILE_ROWS);
    }
}

/* Take all of four tiles, whose first 16 rows are given. */
static inline __attribute__((always_inline)) void take_sums(complete rows, int64_t first_row, arrangement four)
{
    for (int i = 0; i < four.rows; i += TILE_ROWS) {
        gather_moments(rows, first_row - rows.first, four.columns);
        store_rows(rows, 0, TILE_ROWS, four.columns);
        rows.sums += 2 * TILE_UNITS, rows.first += TILE_ROWS;
    }
}

/* Four tiles of the product: number of their rows and of their columns, counted in fours. */
typedef struct place {
    int64_t rows, columns;
} place;

static inline ls_gemm_targets targets_at(const ls_gemm_targets *to, int64_t column, arrangement four)
{
    ls_gemm_targets target = ls_gemm_panel_targets(to, column, four.columns);
    if (to->moments) target.moments = to->moments + column / TILE_SIDE;
    return target;
}

/* The order of tiles. Panels first: results are written row by row, rows of A stay in L1 and panels come from L1 or
 * L2. Rows first, for deep products: panels would leave L2 too soon. `end` is that of both numbers. */
static inline place place_next(place at, place end, bool panels_first)
{
    if (panels_first && ++at.columns == end.columns) at.columns = 0, at.rows++;
    if (!panels_first && ++at.rows == end.rows) at.rows = 0, at.columns++;
    return at;
}

/* Prefetch the parts of rows where four tiles will be stored. */
static inline void fetch_targets(const ls_gemm_targets *to, place at, arrangement four)
{
    int64_t width = four.columns * (to->dtype == LS_F32 ? 4 : 2), offset = to->offset + at.columns * width;
    for (int64_t i = at.rows * four.rows; i < (at.rows + 1) * four.rows; i++)
        for (int64_t line = 0; line < four.columns / TILE_SIDE; line++)
            __builtin_prefetch((const void *)((uintptr_t)to->row[i] + (uintptr_t)(offset + line * 64)), 1, 3);
}

/* Residuals on their way to L2, some lines after every product: in the order of memory, which hardware then follows,
 * and evenly, since a core waits for few lines at a time. */
typedef struct residuals {
    void *const *row, *const *end;
    int64_t first, at, beyond; /* bytes of a row: the first, the next one, and that after the last */
    int64_t lines;             /* after a product; 0: no more rows */
} residuals;

static inline __attribute__((always_inline)) void fetch_residuals(residuals *r)
{
    for (int64_t i = 0; i < r->lines; i++) {
        __builtin_prefetch((const void *)((uintptr_t)*r->row + (uintptr_t)r->at), 0, 2); /* a row may be NULL */
        r->at += 64;
        if (r->at < r->beyond) continue;
        r->at = r->first;
        if (++r->row == r->end) r->lines = 0;
    }
}

/* Fetch the first rows; all others follow as many rows ahead of their sums. A row of tiles takes `products`. */
static inline residuals residuals_begin(const ls_gemm_targets *to, place end, int64_t products, arrangement four)
{
    int64_t bytes = to->columns * (to->dtype == LS_F32 ? 4 : 2), lines = four.rows * ((bytes + 63) / 64);
    residuals r = {.row = to->residual,
                   .end = to->residual + end.rows * four.rows,
                   .first = to->offset,
                   .at = to->offset,
                   .beyond = to->offset + bytes,
                   .lines = lines};
    fetch_residuals(&r);
    if (r.lines) r.lines = (lines + products - 1) / products;
    return r;
}

/* Load a tile that stays in L1 or bypasses it. */
#define LOAD(t, from, stride, stays)                                                                                   \
    do {                                                                                                               \
        if (stays) TILE_LOAD(t, from, stride);                                                                         \
        else TILE_LOAD_ONCE(t, from, stride);                                                                          \
    } while (0)

/* What the steps of a product in place have in common. */
typedef struct stepping {
    int64_t a_stride, b_stride; /* bytes from row to row; units from panel to panel */
    bool a_stays, b_stays;      /* in L1 */
    fetching ahead;
    residuals beside;
} stepping;

/* The first step of four tiles has those that leave, later ones spread their loads over their products. */
#define SUM_ADVANCE(t, i, j, a, b)                                                                                     \
    do {                                                                                                               \
        if (last) SUM_CHANGE(t, i, j, a, b);                                                                           \
        else TILE_MULTIPLY(t, a, b);                                                                                   \
        fetch_part(&s->ahead, t);                                                                                      \
        if (four.residual) fetch_residuals(&s->beside);                                                                \
    } while (0)

static inline __attribute__((always_inline)) void step_two_by_two(stepping *s, const char *rows, const uint32_t *b,
                                                                  const leaving *last, arrangement four)
{
    const float *from = NULL;
    LOAD(6, b, TILE_ROW, s->b_stays);
    TILE_LOAD(4, rows, s->a_stride);
    SUM_ADVANCE(0, 0, 0, 4, 6);
    LOAD(7, b + TILE_UNITS, TILE_ROW, s->b_stays);
    SUM_ADVANCE(1, 0, 1, 4, 7);
    TILE_LOAD(5, rows + 16 * s->a_stride, s->a_stride);
    SUM_ADVANCE(2, 1, 0, 5, 6);
    SUM_ADVANCE(3, 1, 1, 5, 7);
    tile_keep_pace();
}

static inline __attribute__((always_inline)) void step_side_by_side(stepping *s, const char *rows, const uint32_t *b,
                                                                    const leaving *last, arrangement four)
{
    const float *from = NULL;
    const uint32_t *right = b + s->b_stride;
    LOAD(4, rows, s->a_stride, s->a_stays);
    TILE_LOAD(5, b, TILE_ROW);
    SUM_ADVANCE(0, 0, 0, 4, 5);
    TILE_LOAD(6, b + TILE_UNITS, TILE_ROW);
    SUM_ADVANCE(1, 0, 1, 4, 6);
    TILE_LOAD(7, right, TILE_ROW);
    SUM_ADVANCE(2, 1, 0, 4, 7);
    TILE_LOAD(5, right + TILE_UNITS, TILE_ROW);
    SUM_ADVANCE(3, 1, 1, 4, 5);
}

/* Do so many panels stay in L1, beside as many rows? */
static inline bool panels_stay(int64_t slices, int64_t panels, int64_t rows)
{
    enum { STAYS_BYTES = 40 << 10 }; /* of L1 */
    return slices * (panels * TILE_SIDE + rows) * TILE_ROW <= STAYS_BYTES;
}

/* Storing a register that has just been multiplied waits for the multiplier. So the sums of four tiles are stored one
 * register at a time in the first step of the next four, and rounded while those are multiplied: evenly in their other
 * steps where they lie side by side and are deep enough, else after all of them. */
static inline __attribute__((always_inline)) void in_place_fours(int64_t count, const ls_gemm_rows *a,
                                                                 const ls_gemm_panels *b, const ls_gemm_targets *to,
                                                                 arrangement four)
{
    enum { SHALLOW = 32, EVENLY = 7 }; /* slices */
    _Alignas(64) float sums[2][4 * TILE_UNITS];
    const bool wide = four.columns > TILE_SIDE, panels_first = b->count > 1 && a->slices <= SHALLOW;
    const bool evenly = wide && a->slices >= EVENLY;
    const int rows_per_step = evenly ? (int)((TILE_ROWS + a->slices - 2) / (a->slices - 1)) : 0;
    place last = {0}, at = {0}, end = {count * TILE_SIDE / four.rows, b->count * TILE_SIDE / four.columns};
    int64_t first_row = 0, all = end.rows * end.columns;
    stepping s = {.a_stride = a->stride,
                  .b_stride = b->stride / 2,
                  .a_stays = end.columns > 1 || a->stride < a->slices * TILE_ROW, /* taps of several rows overlap */
                  .b_stays = panels_stay(a->slices, b->count, four.rows),
                  .ahead = fetching_of(a->ahead, all * a->slices)};
    if (four.residual) s.beside = residuals_begin(to, end, 4 * end.columns * a->slices, four);
    while (to->moments && !to->row[first_row]) first_row++;
    ls_gemm_targets target = targets_at(to, 0, four);
    for (int64_t n = 0; n < all; n++) {
        const char *rows = (const char *)a->first + at.rows * four.rows * s.a_stride;
        const uint32_t *b_at = (const uint32_t *)b->first + at.columns * four.columns / TILE_SIDE * s.b_stride;
        complete done = {sums[n % 2], &target, last.rows * four.rows};
        int stored = 0;
        leaving leaves = {.sums = sums[n % 2], .stride = TILE_ROW, .right = TILE_UNITS, .down = 2 * TILE_UNITS};
        if (to->scattered && !to->stream) fetch_targets(to, at, four);
        for (int64_t slice = 0; slice < a->slices; slice++, b_at += 2 * TILE_UNITS) {
            const char *upper = rows + a->offset[slice];
            if (wide && slice) step_side_by_side(&s, upper, b_at, NULL, four);
            else if (wide) step_side_by_side(&s, upper, b_at, &leaves, four);
            else if (slice) step_two_by_two(&s, upper, b_at, NULL, four);
            else step_two_by_two(&s, upper, b_at, &leaves, four);
            if (!evenly || !n || !slice || stored == TILE_ROWS) continue;
            int until = stored + rows_per_step < TILE_ROWS ? stored + rows_per_step : TILE_ROWS;
            store_rows(done, stored, until, four.columns);
            stored = until;
        }
        if (n && evenly) gather_moments(done, first_row - done.first, four.columns);
        else if (n) take_sums(done, first_row, four);
        if (at.columns != last.columns) target = targets_at(to, at.columns * four.columns, four);
        last = at;
        at = place_next(at, end, panels_first);
    }
    sums_end(sums[0], 2 * TILE_UNITS, TILE_UNITS, TILE_ROW);
    take_sums((complete){sums[0], &target, last.rows * four.rows}, first_row, four);
    if (to->stream) ls_stream_end();
}

static void in_place_wide_bf16(int64_t count, const ls_gemm_rows *a, const ls_gemm_panels *b, const ls_gemm_targets *to)
{
    bool side_by_side = b->count % 2 == 0 && panels_stay(a->slices, b->count, TILE_ROWS),
         residual = to->residual != NULL;
    if (side_by_side && residual) in_place_fours(count, a, b, to, (arrangement){TILE_ROWS, 2 * TILE_SIDE, true});
    else if (side_by_side) in_place_fours(count, a, b, to, (arrangement){TILE_ROWS, 2 * TILE_SIDE, false});
    else if (residual) in_place_fours(count, a, b, to, (arrangement){TILE_SIDE, TILE_SIDE, true});
    else in_place_fours(count, a, b, to, (arrangement){TILE_SIDE, TILE_SIDE, false});
}

const ls_gemm_table ls_gemm_amx = {
    .bf16 = {&wide_bf16, &tall_bf16},
    .finish_f32 = ls_gemm_finish_f32,
    .channelwise_f32 = ls_gemm_channelwise_f32,
    .large_f32 = &ls_gemm_amx_f32,
};
