/* gemm_in_place_check.h - checks of kernels whose rows of A are in place, in f32. */
#ifndef LOCKSTEP_TESTS_GEMM_IN_PLACE_CHECK_H
#define LOCKSTEP_TESTS_GEMM_IN_PLACE_CHECK_H

#include "base/cpus.h"
#include "kernels/gemm_check.h"

enum { IN_PLACE_TILES = 4, IN_PLACE_PANELS = 4, IN_PLACE_DEPTH = 300, IN_PLACE_MOST_ROWS = 64, IN_PLACE_GROUP = 3 };

/* C [IN_PLACE_TILES * in_place_rows, columns of some panels, the last one not whole] = A B, with A in place. Tiles of a
 * few have in_place_run rows. */
typedef struct in_place_product {
    const ls_gemm_kernel *kernel;
    bool few;
    int64_t count;                   /* of the panels */
    int64_t rows, columns, k, pitch; /* pitch: numbers from row to row of C, and of A */
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

static in_place_product in_place_new(const ls_gemm_kernel *kernel, bool few, int64_t panels, int64_t slices,
                                     bool border, int64_t rest)
{
    in_place_product p = {.kernel = kernel, .few = few, .count = panels, .k = slices * kernel->kr, .rest = rest};
    p.rows = IN_PLACE_TILES * (few ? kernel->in_place_run : kernel->in_place_rows);
    p.columns = panels * kernel->b.width - 3;
    p.pitch = ls_gemm_round_up(p.columns > p.k ? p.columns : p.k, 16);
    p.a = numbers_new(p.rows * p.pitch);
    p.b = numbers_new(p.k * p.columns);
    p.c = numbers_new(p.rows * p.pitch);
    p.residual = numbers_new(p.rows * p.pitch);
    p.panels = numbers_new(panels * kernel->b.width * p.k);
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

static double in_place_sum(const in_place_product *p, int64_t row, int64_t column)
{
    double sum = 0;
    for (int64_t i = 0; i < p->k; i++) sum += (double)p->a[row * p->pitch + i] * (double)p->b[i * p->columns + column];
    return sum;
}

static void in_place_run(const in_place_product *p, const ls_gemm_targets *to)
{
    int64_t offset[IN_PLACE_DEPTH];
    for (int64_t i = 0; i < p->k / p->kernel->kr; i++) offset[i] = i * p->kernel->kr * (int64_t)sizeof(float);
    ls_gemm_rows a = {.first = p->a,
                      .stride = p->pitch * (int64_t)sizeof(float),
                      .slices = p->k / p->kernel->kr,
                      .offset = offset,
                      .group = IN_PLACE_GROUP,
                      .rest = p->rest,
                      .ahead = {(const char *)p->a, 100}};
    ls_gemm_panels b = {.first = p->panels, .count = p->count, .stride = p->kernel->b.width * p->k};
    if (to->far) b.next = p->panels;
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

/* Few and many slices: panels and rows first; with and without rows that do not count; all ways to take sums; groups of
 * slices that end early; tiles of few rows; pairs of panels, and one more. */
static void check_in_place_here(const ls_gemm_kernel *kernel)
{
    for (int variant = 0; variant < 256 && kernel->in_place && kernel->panel == LS_F32; variant++) {
        bool few = variant & 1, stream = variant & 8, added = variant & 16, gathered = variant & 32;
        if (few && !kernel->in_place_few) continue;
        if ((added || gathered) && !kernel->in_place_finishes) continue;
        int64_t rest = variant & 64 ? 1 + variant / 2 % (kernel->kr - 1) : 0;
        int64_t slices = variant & 2 ? IN_PLACE_DEPTH / kernel->kr / IN_PLACE_GROUP * IN_PLACE_GROUP : IN_PLACE_GROUP;
        in_place_product p = in_place_new(kernel, few, IN_PLACE_PANELS - variant / 128, slices, variant & 4, rest);
        ls_gemm_moments moments[IN_PLACE_PANELS];
        ls_gemm_targets to = {.row = p.row,
                              .columns = p.columns,
                              .dtype = LS_F32,
                              .far = variant % 3 == 0,
                              .stream = stream,
                              .residual = added ? p.residual_row : NULL,
                              .moments = gathered ? moments : NULL};
        in_place_run(&p, &to);
        for (int64_t i = 0; i < p.rows; i++) {
            if (!p.row[i]) continue;
            for (int64_t c = 0; c < p.columns; c++) {
                double want = in_place_sum(&p, i, c) + (added ? (double)p.residual[i * p.pitch + c] : 0);
                CHECK_NEAR((double)p.c[i * p.pitch + c], want, 1e-4);
            }
        }
        if (gathered) check_moments(&p, moments);
        in_place_free(&p);
    }
}

/* With small and large caches, by which kernels choose tiles. */
static inline void check_in_place(const ls_gemm_kernel *kernel)
{
    for (int64_t l1 = 32 << 10; l1 <= 48 << 10; l1 += 16 << 10) {
        ls_cpus_pretend_l1(l1);
        check_in_place_here(kernel);
    }
    ls_cpus_pretend_l1(-1);
}

#endif
