/* gemm_f32.c - f32 matrix products with AMX: every number is the sum of three of bf16, which have all its 24 bits, and
 * six products of these are the product of two numbers:
 *
 *     a b = a1 b1 + a1 b2 + a2 b1 + a2 b2 + a1 b3 + a3 b1 + (a2 b3 + a3 b2 + a3 b3: left out)
 *
 * What is left out is 2^-24 of a b at most, and 2^-27.5 as a rule. Products of bf16 are exact, and AMX adds 32 of them
 * before it adds to a sum of f32: sums of many are rounded less often than by multiplications and additions of f32, and
 * are closer to the truth. Tiles do sixteen times as many products as
 * vectors of f32; six are still faster than one.
 *
 *     slice of a panel, 32 k   [part][tile][row][unit]    6 KB; a unit is a part of the numbers at k and k + 16
 *
 * Numbers are multiplied by 2^23 while they are packed, and sums by 2^-46 afterwards, since AMX takes what is below
 * 2^-126 as zero: no part of any number is then, and a product only if it is below 2^-172. Numbers whose sums might
 * overflow (from 2^36 on, infinities, NaN) are packed as a NaN followed by their bits. A sum in which one takes part is
 * NaN then, and is computed again from the same panels, by multiplication and addition of f32. */
#include "kernels/gemm.h"

#include "kernels/amx/column.h"
#include "kernels/gemm_convert.h"
#include "kernels/simd.h"
#include "kernels/simd_math.h"

#ifdef __AVX512BW__
#include "kernels/x86/gemm_turn.h"
#endif

#define PARTS 3
#define PART_UNITS (2 * TILE_UNITS) /* of a slice */
#define SLICE_UNITS (PARTS * PART_UNITS)
#define SLICE 32   /* k */
#define MOST_K 192 /* so much of a panel of B, 36 KB, stays in L1 */

#define SCALE 0x1p23f
#define UNSCALE 0x1p-46f
#define MOST 0x1p36f /* 192 products of two, scaled, are less than 2^126 */

/* ---- packing ----------------------------------------------------------------------------------------------------- */

#define UPPER 0xffff0000u
#define HALF 0x8000u
#define A_NAN 0x7fc00000u

static inline uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The parts of numbers, each in the upper halves of its lanes. */
static inline __attribute__((always_inline)) void split(ls_vf x, ls_vu part[PARTS])
{
    ls_vu bits = (ls_vu)x;
    ls_vi special = (ls_vi)(bits << 1 >= bits_of(MOST) << 1);
    x *= SCALE;
    part[0] = ((ls_vu)x + HALF) & UPPER;
    x -= (ls_vf)part[0];
    part[1] = ((ls_vu)x + HALF) & UPPER;
    part[2] = (ls_vu)(x - (ls_vf)part[1]);
    part[0] = (ls_vu)ls_vf_select(special, (ls_vf)ls_vu_set(A_NAN), (ls_vf)part[0]);
    part[1] = (ls_vu)ls_vf_select(special, (ls_vf)(bits & UPPER), (ls_vf)part[1]);
    part[2] = (ls_vu)ls_vf_select(special, (ls_vf)(bits << 16), (ls_vf)part[2]);
}

/* Put 16 units of each part to rows `distance` units apart: numbers at x, and those at y 16 k later. */
static inline __attribute__((always_inline)) void put_units(uint32_t *to, int64_t distance, const float *x,
                                                            const float *y)
{
    LS_UNROLL for (int lane = 0; lane < 16; lane += LS_VF_LANES)
    {
        ls_vu first[PARTS], second[PARTS];
        split(ls_vf_load(x + lane), first);
        split(ls_vf_load(y + lane), second);
        LS_UNROLL for (int p = 0; p < PARTS; p++) ls_vu_store(to + p * distance + lane, first[p] >> 16 | second[p]);
    }
}

/* Transpose 16 rows of 16 units. */
static inline __attribute__((always_inline)) void put_turned(uint32_t *to, const uint32_t *from)
{
#ifdef __AVX512BW__
    __m512i row[16];
    LS_TURN_EACH(i, 16) row[i] = _mm512_loadu_si512(from + 16 * i);
    turn_16(row);
    LS_TURN_EACH(i, 16) _mm512_storeu_si512(to + 16 * i, row[i]);
#else
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++) to[16 * i + j] = from[16 * j + i];
#endif
}

/* Rows of a panel of A are lines along k. */
static void along_a(void *panel, const void *const *line, int64_t k)
{
    uint32_t *to = panel;
    for (int64_t at = 0; at < k; at += SLICE, to += SLICE_UNITS)
        for (int row = 0; row < TILE_SIDE; row++) {
            const float *from = (const float *)line[row] + at;
            put_units(to + row * 16, PART_UNITS, from, from + 16);
        }
}

/* Rows of tiles of B are pairs of lines across k. */
static void across_b(void *panels, int64_t panel_stride, const void *const *line, int64_t count)
{
    char *to = panels;
    for (int64_t at = 0; at < count * TILE_SIDE; at += TILE_SIDE, to += panel_stride * 2 * PARTS)
        for (int pair = 0; pair < 16; pair++)
            for (int right = 0; right < 2; right++)
                put_units((uint32_t *)to + right * TILE_UNITS + pair * 16, PART_UNITS,
                          (const float *)line[pair] + at + 16 * right,
                          (const float *)line[pair + 16] + at + 16 * right);
}

/* Units of 16 rows, one after the other for each part, and the parts `distance` units apart: turned. */
static inline __attribute__((always_inline)) void put_tiles(uint32_t *to, uint32_t (*units)[TILE_UNITS])
{
    for (int p = 0; p < PARTS; p++) put_turned(to + p * PART_UNITS, units[p]);
}

static void across_a(void *panels, int64_t panel_stride, const void *const *line, int64_t count)
{
    _Alignas(64) uint32_t units[PARTS][TILE_UNITS];
    char *to = panels;
    for (int64_t at = 0; at < count * TILE_SIDE; at += TILE_SIDE, to += panel_stride * 2 * PARTS)
        for (int lower = 0; lower < 2; lower++) {
            for (int pair = 0; pair < 16; pair++)
                put_units(units[0] + pair * 16, TILE_UNITS, (const float *)line[pair] + at + 16 * lower,
                          (const float *)line[pair + 16] + at + 16 * lower);
            put_tiles((uint32_t *)to + lower * TILE_UNITS, units);
        }
}

static void along_b(void *panel, const void *const *line, int64_t k)
{
    _Alignas(64) uint32_t units[PARTS][TILE_UNITS];
    uint32_t *to = panel;
    for (int64_t at = 0; at < k; at += SLICE, to += SLICE_UNITS)
        for (int right = 0; right < 2; right++) {
            for (int column = 0; column < 16; column++) {
                const float *from = (const float *)line[16 * right + column] + at;
                put_units(units[0] + column * 16, TILE_UNITS, from, from + 16);
            }
            put_tiles(to + right * TILE_UNITS, units);
        }
}

/* ---- sums that are computed again -------------------------------------------------------------------------------- */

/* Numbers from their parts. */
static inline ls_vf join(const ls_vu part[PARTS])
{
    ls_vi special = (ls_vi)(part[0] == A_NAN);
    ls_vf sum = (ls_vf)part[0] + (ls_vf)part[1] + (ls_vf)part[2];
    return ls_vf_select(special, (ls_vf)(part[1] | part[2] >> 16), sum * (1 / SCALE));
}

/* Numbers packed as 16 units: those at k, and those at k + 16. */
static inline void join_units(const uint32_t *units, float *x, float *y)
{
    for (int lane = 0; lane < 16; lane += LS_VF_LANES) {
        ls_vu first[PARTS], second[PARTS];
        for (int p = 0; p < PARTS; p++) {
            ls_vu both = ls_vu_load(units + p * PART_UNITS + lane);
            first[p] = both << 16;
            second[p] = both & UPPER;
        }
        ls_vf_store(x + lane, join(first));
        ls_vf_store(y + lane, join(second));
    }
}

enum { VECTORS = TILE_SIDE / LS_VF_LANES }; /* of a row of four tiles */

/* Vector v of a row of four tiles, as registers hold them. */
static inline __attribute__((always_inline)) ls_vf sums_at(const float *sums, int row, int v)
{
    int column = v * LS_VF_LANES;
    return ls_vf_load(sums + row / 16 * 2 * TILE_UNITS + column / 16 * TILE_UNITS + row % 16 * 16 + column % 16);
}

static inline __attribute__((always_inline)) ls_vi are_finite(ls_vf x)
{
    return x - x == ls_vf_set(0);
}

/* Are all sums of some rows finite? */
static inline bool rows_are_finite(const float *sums, int row, int rows)
{
    uint32_t others = 0;
    for (int i = row; i < row + rows; i++)
        for (int v = 0; v < VECTORS; v++) others |= ls_vi_bits(~are_finite(sums_at(sums, i, v)));
    return !others;
}

/* Compute sums again: four rows at a time, where one of them is not finite. */
static __attribute__((noinline)) void mend(const float *sums, int64_t k, const uint32_t *a, const uint32_t *b,
                                           float (*again)[TILE_SIDE])
{
    enum { ROWS = 4 };
    float a_row[TILE_SIDE][SLICE], b_row[SLICE][TILE_SIDE];
    bool finite[TILE_SIDE];
    memset(again, 0, SUMS * sizeof(float));
    for (int i = 0; i < TILE_SIDE; i += ROWS) finite[i] = rows_are_finite(sums, i, ROWS);
    for (; k > 0; k -= SLICE, a += SLICE_UNITS, b += SLICE_UNITS) {
        for (int i = 0; i < TILE_SIDE; i++) join_units(a + i * 16, a_row[i], a_row[i] + 16);
        for (int unit = 0; unit < 16; unit++)
            for (int right = 0; right < 2; right++)
                join_units(b + right * TILE_UNITS + unit * 16, b_row[unit] + 16 * right, b_row[unit + 16] + 16 * right);
        for (int i = 0; i < TILE_SIDE; i += ROWS) {
            ls_vf sum[ROWS][VECTORS];
            if (finite[i]) continue;
            LS_UNROLL for (int r = 0; r < ROWS; r++) LS_UNROLL for (int v = 0; v < VECTORS; v++) sum[r][v] =
                ls_vf_load(again[i + r] + v * LS_VF_LANES);
            for (int s = 0; s < SLICE; s++)
                LS_UNROLL for (int r = 0; r < ROWS; r++) LS_UNROLL for (int v = 0; v < VECTORS; v++) sum[r][v] =
                    ls_vf_fma(ls_vf_set(a_row[i + r][s]), ls_vf_load(b_row[s] + v * LS_VF_LANES), sum[r][v]);
            LS_UNROLL for (int r = 0; r < ROWS; r++) LS_UNROLL for (int v = 0; v < VECTORS; v++)
                ls_vf_store(again[i + r] + v * LS_VF_LANES, sum[r][v]);
        }
    }
}

/* ---- columns of tiles -------------------------------------------------------------------------------------------- */

/* A finished tile on its way to memory. */
typedef struct leaving {
    float *sums; /* as registers hold them; NULL: no tile */
    const uint32_t *a, *b;
    const float *from; /* what it continues from, without gaps; NULL: nothing */
    float *to, *pre;   /* rows; pre: NULL: not wanted */
    bool mended;       /* what is not finite has been computed again */
} leaving;

/* What becomes of a column: sums, or results. A constant wherever it is passed. */
typedef struct ending {
    bool finish;
    ls_activation activation;
} ending;

static inline __attribute__((always_inline)) void put(const ls_gemm_column *c, float *to, ls_vf x)
{
    if (c->stream) ls_vf_stream(to, x);
    else ls_vf_store(to, x);
}

static inline __attribute__((always_inline)) void row_leave(const ls_gemm_column *c, int64_t stride, leaving *tile,
                                                            float (*again)[TILE_SIDE], int row, ending how)
{
    ls_vf sum[VECTORS], doubt = ls_vf_set(0);
    LS_UNROLL for (int v = 0; v < VECTORS; v++)
    {
        sum[v] = sums_at(tile->sums, row, v);
        doubt += sum[v] - sum[v];
    }
    const bool finite = __builtin_expect(!ls_vi_bits(doubt != doubt), 1);
    if (!finite && !tile->mended) {
        mend(tile->sums, c->k, tile->a, tile->b, again);
        tile->mended = true;
    }
    LS_UNROLL for (int v = 0; v < VECTORS; v++)
    {
        int column = v * LS_VF_LANES;
        ls_vf before = tile->from ? ls_vf_load(tile->from + row * TILE_SIDE + column) : ls_vf_set(0);
        ls_vf x = ls_vf_fma(sum[v], ls_vf_set(UNSCALE), before);
        if (!finite) x = ls_vf_select(are_finite(sum[v]), x, before + ls_vf_load(again[row] + column));
        if (how.finish && c->bias) x += ls_vf_load(c->bias + column);
        if (how.finish && tile->pre) put(c, tile->pre + row * c->pre_stride + column, x);
        if (how.activation == LS_ACT_GELU) x = ls_vf_gelu(x);
        if (how.activation == LS_ACT_RELU) x = ls_vf_max(ls_vf_set(0), x);
        if (how.finish) put(c, tile->to + row * stride + column, x);
        else ls_vf_store(tile->to + row * stride + column, x);
    }
}

/* The first product of a register in a tile restarts it; the sums of the tile before leave. */
#define SUM_CHANGE(t, a, b)                                                                                            \
    do {                                                                                                               \
        if (last->sums) TILE_STORE(t, last->sums + t * TILE_UNITS, TILE_ROW);                                          \
        TILE_ZERO(t);                                                                                                  \
        TILE_MULTIPLY(t, a, b);                                                                                        \
    } while (0)
#define SUM_BEGIN(t, a, b)                                                                                             \
    do {                                                                                                               \
        if (k) TILE_MULTIPLY(t, a, b);                                                                                 \
        else SUM_CHANGE(t, a, b);                                                                                      \
    } while (0)
#define A_LOAD(t, part, lower) TILE_LOAD_ONCE(t, a + ((part)-1) * PART_UNITS + (lower)*TILE_UNITS, TILE_ROW)
#define B_LOAD(t, part, right) TILE_LOAD(t, b + ((part)-1) * PART_UNITS + (right)*TILE_UNITS, TILE_ROW)

/* One tile of a column: registers 4 and 5 hold a part of A, upper and lower rows, 6 and 7 one of B. From one of the six
 * products to the next one side changes, each register as soon as nothing reads it any more: a load waits for that. */
static inline __attribute__((always_inline)) void column_tile(const ls_gemm_column *c, int64_t stride,
                                                              const uint32_t *a, const uint32_t *b, leaving *last,
                                                              float (*again)[TILE_SIDE], fetching *f, ending how)
{
    int64_t steps = c->k / SLICE, rows_per_step = steps > 1 ? (TILE_SIDE + steps - 2) / (steps - 1) : TILE_SIDE;
    int row = last->sums ? 0 : TILE_SIDE;
    for (int64_t k = 0; k < c->k; k += SLICE, a += SLICE_UNITS, b += SLICE_UNITS) {
        A_LOAD(4, 1, 0);
        B_LOAD(6, 3, 0);
        SUM_BEGIN(0, 4, 6);
        A_LOAD(5, 1, 1);
        SUM_BEGIN(2, 5, 6);
        B_LOAD(7, 3, 1);
        B_LOAD(6, 2, 0);
        SUM_BEGIN(1, 4, 7);
        SUM_BEGIN(3, 5, 7);
        B_LOAD(7, 2, 1);
        TILE_MULTIPLY(0, 4, 6);
        TILE_MULTIPLY(1, 4, 7);
        A_LOAD(4, 2, 0);
        fetch_part(f, 0);
        TILE_MULTIPLY(2, 5, 6);
        TILE_MULTIPLY(3, 5, 7);
        A_LOAD(5, 2, 1);
        for (int64_t i = 0; k && i < rows_per_step && row < TILE_SIDE; i++, row++)
            row_leave(c, stride, last, again, row, how);
        TILE_MULTIPLY(0, 4, 6);
        TILE_MULTIPLY(2, 5, 6);
        B_LOAD(6, 1, 0);
        fetch_part(f, 1);
        TILE_MULTIPLY(1, 4, 7);
        TILE_MULTIPLY(3, 5, 7);
        B_LOAD(7, 1, 1);
        TILE_MULTIPLY(0, 4, 6);
        TILE_MULTIPLY(1, 4, 7);
        A_LOAD(4, 3, 0);
        fetch_part(f, 2);
        TILE_MULTIPLY(2, 5, 6);
        TILE_MULTIPLY(3, 5, 7);
        A_LOAD(5, 3, 1);
        TILE_MULTIPLY(0, 4, 6);
        TILE_MULTIPLY(1, 4, 7);
        A_LOAD(4, 1, 0);
        fetch_part(f, 3);
        fetch_sums(f);
        TILE_MULTIPLY(2, 5, 6);
        TILE_MULTIPLY(3, 5, 7);
        A_LOAD(5, 1, 1);
        TILE_MULTIPLY(0, 4, 6);
        TILE_MULTIPLY(2, 5, 6);
        tile_keep_pace();
        TILE_MULTIPLY(1, 4, 7);
        TILE_MULTIPLY(3, 5, 7);
    }
    for (; row < TILE_SIDE; row++) row_leave(c, stride, last, again, row, how);
}

static inline __attribute__((always_inline)) void column_of_tiles(const ls_gemm_column *c, ending how)
{
    _Alignas(64) float room[2][SUMS]; /* sums of the last tile, and of the one before */
    float again[TILE_SIDE][TILE_SIDE];
    int64_t steps = c->k / SLICE, stride = c->ldc ? c->ldc : TILE_SIDE;
    fetching f = fetching_of(c->ahead, c->count * steps);
    leaving last = {.sums = NULL};
    for (int64_t i = 0; i < c->count; i++) {
        const float *from = c->from ? (const float *)c->from + i * SUMS : NULL;
        const uint32_t *a = (const uint32_t *)((const char *)c->a + i * c->a_stride * 2 * PARTS);
        const uint32_t *b = (const uint32_t *)((const char *)c->b + i * c->b_stride * 2 * PARTS);
        f.sums = (const char *)from;
        f.sum_lines = from ? (SUMS / 16 + steps - 1) / steps : 0;
        leaving next = {.sums = room[i % 2], .a = a, .b = b, .from = from};
        column_tile(c, stride, a, b, &last, again, &f, how);
        next.to = (float *)c->to + i * (!c->ldc ? SUMS : c->b_stride ? TILE_SIDE : TILE_SIDE * c->ldc);
        if (c->pre && how.finish) next.pre = (float *)c->pre + i * TILE_SIDE * c->pre_stride;
        last = next;
    }
    TILE_STORE(0, last.sums, TILE_ROW);
    TILE_STORE(1, last.sums + TILE_UNITS, TILE_ROW);
    TILE_STORE(2, last.sums + 2 * TILE_UNITS, TILE_ROW);
    TILE_STORE(3, last.sums + 3 * TILE_UNITS, TILE_ROW);
    for (int row = 0; row < TILE_SIDE; row++) row_leave(c, stride, &last, again, row, how);
    if (how.finish && c->stream) ls_stream_end();
}

static void column_sums(const ls_gemm_column *c)
{
    column_of_tiles(c, (ending){.finish = false, .activation = LS_ACT_NONE});
}

static void column_results(const ls_gemm_column *c)
{
    if (c->activation == LS_ACT_GELU) column_of_tiles(c, (ending){.finish = true, .activation = LS_ACT_GELU});
    else if (c->activation == LS_ACT_RELU) column_of_tiles(c, (ending){.finish = true, .activation = LS_ACT_RELU});
    else column_of_tiles(c, (ending){.finish = true, .activation = LS_ACT_NONE});
}

static void tile(int64_t k, const void *a, const void *b, const void *from, void *to, int64_t ldc)
{
    ls_gemm_column one = {.count = 1, .k = k, .a = a, .b = b, .from = from, .to = to, .ldc = ldc};
    column_sums(&one);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* Six products for each number that is read: a panel of B may come from L3 for every block of 100 rows. */
static const ls_gemm_blocks blocks = {
    .rows = 384,
    .block_bytes = 896 << 10,
    .depth_bytes = 4608,
    .panel_bytes = 40 << 10,
    .cut_bytes = 1536 << 10,
    .strip = 64,
    .tasks = 1,
    .shared_bytes = 64 << 20,
    .stream_bytes = 32 << 20,
};

const ls_gemm_kernel ls_gemm_amx_f32 = {
    .name = "amx f32",
    .panel = LS_F32,
    .packed = 2 * PARTS,
    .kr = SLICE,
    .most_k = MOST_K,
    .a = {TILE_SIDE, along_a, across_a},
    .b = {TILE_SIDE, along_b, across_b},
    .convert = ls_gemm_convert_f32,
    .tile = tile,
    .column = column_sums,
    .column_out = column_results,
    .out = LS_F32,
    .column_finishes = true,
    .blocks = &blocks,
    .begin = tile_begin,
    .end = tile_end,
};
