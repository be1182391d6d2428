/* gemm_in_place_check.h - checks of kernels whose rows of A are in place, in f32. */
#ifndef LOCKSTEP_TESTS_GEMM_IN_PLACE_CHECK_H
#define LOCKSTEP_TESTS_GEMM_IN_PLACE_CHECK_H

#include "kernels/gemm_check.h"

enum { IN_PLACE_TILES = 4, IN_PLACE_PANELS = 3, IN_PLACE_DEPTH = 300, IN_PLACE_MOST_ROWS = 64, IN_PLACE_GROUP = 3 };

/* C [IN_PLACE_TILES * in_place_rows, columns of IN_PLACE_PANELS panels] = A B, with A in place. Tiles of a few have
 * in_place_run rows. */
typedef struct in_place_product {
    const ls_gemm_kernel *kernel;
    bool few;
    int64_t rows, columns, k, pitch; /* pitch: numbers from row to row of C, and of A */
    int64_t gap;                     /* numbers between groups of slices of A */
    int64_t rest;                    /* of the last slice of every group in B, then zeros; 0: all of it */
    float *a, *b, *c, *residual, *panels;
    void *row[IN_PLACE_TILES * IN_PLACE_MOST_ROWS], *residual_row[IN_PLACE_TILES * IN_PLACE_MOST_ROWS];
} in_place_product;

static float *numbers_new(int64_t n)
{
    float *numbers = aligned_alloc(64, (size_t)ls_gemm_round_up(n * (int64_t)sizeof *numbers, 64));
    for (int64_t i = 0; i < n; i++) numbers[i] = (float)random_number();
    return numbers;
}

/* `border`: some rows do not count. `whole`: the last panel is. */
static in_place_product in_place_new(const ls_gemm_kernel *kernel, bool few, bool border, bool whole, int64_t slices,
                                     int64_t gap, int64_t rest)
{
    in_place_product p = {.kernel = kernel, .few = few, .k = slices * kernel->kr, .gap = gap, .rest = rest};
    p.rows = IN_PLACE_TILES * (few ? kernel->in_place_run : kernel->in_place_rows);
    p.columns = IN_PLACE_PANELS * kernel->b.width - (whole ? 0 : 3);
    int64_t row = p.k + slices / IN_PLACE_GROUP * gap;
    p.pitch = ls_gemm_round_up(p.columns > row ? p.columns : row, 16);
    p.a = numbers_new(p.rows * p.pitch);
    p.b = numbers_new(p.k * p.columns);
    p.c = numbers_new(p.rows * p.pitch);
    p.residual = numbers_new(p.rows * p.pitch);
    p.panels = numbers_new(IN_PLACE_PANELS * kernel->b.width * p.k);
    for (int64_t i = 0; i < p.k && rest; i++)
        if (i / kernel->kr % IN_PLACE_GROUP == IN_PLACE_GROUP - 1 && i % kernel->kr >= rest)
            memset(p.b + i * p.columns, 0, (size_t)p.columns * sizeof *p.b);
    for (int64_t i = 0; i < p.rows; i++) {
        p.row[i] = border && i % 5 == 0 ? NULL : p.c + i * p.pitch;
        p.residual_row[i] = p.row[i] ? p.residual + i * p.pitch : NULL;
    }
    const void *line[IN_PLACE_DEPTH + LS_GEMM_MAX_KR];
    for (int64_t i = 0; i < p.k; i++) line[i] = p.b + i * p.columns;
    ls_gemm_lines lines = {.line = line, .dtype = LS_F32, .across = true};
    ls_gemm_pack(kernel, &kernel->b, p.panels, kernel->b.width * p.k, &lines, p.columns, p.k);
    return p;
}

static void in_place_free(in_place_product *p)
{
    float *all[] = {p->a, p->b, p->c, p->residual, p->panels};
    for (int i = 0; i < 5; i++) free(all[i]);
}

/* Where number i of a row of A is. */
static int64_t in_row(const in_place_product *p, int64_t i)
{
    return i + i / (p->kernel->kr * IN_PLACE_GROUP) * p->gap;
}

static double in_place_sum(const in_place_product *p, int64_t row, int64_t column)
{
    double sum = 0;
    for (int64_t i = 0; i < p->k; i++)
        sum += (double)p->a[row * p->pitch + in_row(p, i)] * (double)p->b[i * p->columns + column];
    return sum;
}

static void in_place_run(const in_place_product *p, const ls_gemm_targets *to, bool has_next)
{
    int64_t offset[IN_PLACE_DEPTH];
    for (int64_t i = 0; i < p->k / p->kernel->kr; i++)
        offset[i] = in_row(p, i * p->kernel->kr) * (int64_t)sizeof(float);
    ls_gemm_rows a = {.first = p->a,
                      .stride = p->pitch * (int64_t)sizeof(float),
                      .slices = p->k / p->kernel->kr,
                      .offset = offset,
                      .group = IN_PLACE_GROUP,
                      .rest = p->rest,
                      .ahead = {(const char *)p->a, 100}};
    ls_gemm_panels b = {.first = p->panels, .count = IN_PLACE_PANELS, .stride = p->kernel->b.width * p->k};
    if (has_next) b.next = p->panels;
    (p->few ? p->kernel->in_place_few : p->kernel->in_place)(IN_PLACE_TILES, &a, &b, to);
}

static void check_moments(const in_place_product *p, const ls_gemm_moments *moments)
{
    for (int64_t c = 0; c < p->columns; c++) {
        const ls_gemm_moments *m = &moments[c / p->kernel->b.width];
        int64_t at = c % p->kernel->b.width, count = 0;
        double mean = 0, m2 = 0;
        for (int64_t i = 0; i < p->rows; i++)
            if (p->row[i]) mean += in_place_sum(p, i, c), count++;
        mean /= (double)count;
        for (int64_t i = 0; i < p->rows; i++)
            if (p->row[i]) m2 += (in_place_sum(p, i, c) - mean) * (in_place_sum(p, i, c) - mean);
        double shift = (double)m->sum[at] / (double)count;
        CHECK_NEAR((double)m->pivot[at] + shift, mean, 1e-4);
        CHECK_NEAR((double)m->squares[at] - shift * shift * (double)count, m2, 1e-4 * (1 + m2));
    }
}

/* A way to multiply. */
typedef struct in_place_variant {
    bool few, border, whole, gap, rest, stream, added, gathered;
    int64_t slices;
} in_place_variant;

static void check_in_place_variant(const ls_gemm_kernel *kernel, const in_place_variant *v, bool has_next)
{
    in_place_product p = in_place_new(kernel, v->few, v->border, v->whole, v->slices, v->gap ? kernel->kr : 0,
                                      v->rest ? 1 + v->slices % (kernel->kr - 1) : 0);
    ls_gemm_moments moments[IN_PLACE_PANELS];
    ls_gemm_targets to = {.row = p.row,
                          .columns = p.columns,
                          .dtype = LS_F32,
                          .stream = v->stream,
                          .residual = v->added ? p.residual_row : NULL,
                          .moments = v->gathered ? moments : NULL};
    const int64_t last = p.pitch - 1; /* number of a row, which no column reaches */
    float *behind = malloc((size_t)p.rows * sizeof *behind);
    for (int64_t i = 0; i < p.rows; i++) behind[i] = p.c[i * p.pitch + last];
    in_place_run(&p, &to, has_next);
    for (int64_t i = 0; i < p.rows; i++) {
        if (!p.row[i]) continue;
        for (int64_t c = 0; c < p.columns; c++) {
            double want = in_place_sum(&p, i, c) + (v->added ? (double)p.residual[i * p.pitch + c] : 0);
            CHECK_NEAR((double)p.c[i * p.pitch + c], want, 1e-4);
        }
        CHECK(last < p.columns || p.c[i * p.pitch + last] == behind[i]);
    }
    if (v->gathered) check_moments(&p, moments);
    free(behind);
    in_place_free(&p);
}

/* Few slices, more than a tile has rows, and so many that rows come first; slices one after the other and apart; with
 * and without rows that do not count; all ways to take sums; groups of slices that end early; tiles of few rows. */
static inline void check_in_place(const ls_gemm_kernel *kernel)
{
    if (!kernel->in_place || kernel->panel != LS_F32) return;
    const int64_t depth[] = {IN_PLACE_GROUP, 100 / kernel->kr / IN_PLACE_GROUP * IN_PLACE_GROUP,
                             IN_PLACE_DEPTH / kernel->kr / IN_PLACE_GROUP * IN_PLACE_GROUP};
    for (int bits = 0; bits < 256; bits++) {
        in_place_variant v = {.few = bits & 1,
                              .border = bits & 2,
                              .whole = bits & 4,
                              .gap = bits & 8,
                              .rest = bits & 16,
                              .stream = bits & 32,
                              .added = bits & 64,
                              .gathered = bits & 128};
        if (v.few && !kernel->in_place_few) continue;
        if ((v.added || v.gathered) && !kernel->in_place_finishes) continue;
        for (int d = 0; d < 3; d++) {
            v.slices = depth[d];
            check_in_place_variant(kernel, &v, bits % 3 == 0);
        }
    }
}

#endif
