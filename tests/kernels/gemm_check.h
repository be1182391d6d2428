/* gemm_check.h - checks the products of one kernel: packing from every type and orientation, tiles whole and in parts.
 * Truth is plain loops in double. */
#ifndef LOCKSTEP_TESTS_GEMM_CHECK_H
#define LOCKSTEP_TESTS_GEMM_CHECK_H

#include "base/half.h"
#include "check.h"
#include "kernels/gemm.h"

#include <stdlib.h>

static const ls_dtype float_types[] = {LS_F32, LS_F64, LS_BF16, LS_F16};
#define EACH_TYPE(dtype)                                                                                               \
    for (int dtype##_i = 0; dtype##_i < 4; dtype##_i++)                                                                \
        for (ls_dtype dtype = float_types[dtype##_i], *once_##dtype = &dtype; once_##dtype; once_##dtype = NULL)

static uint32_t random_state;

/* Small multiples of 1/8: exact in every type, so that only sums round. */
static double random_number(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return ((int)(random_state >> 24) - 128) / 64.0;
}

static void store(void *data, ls_dtype dtype, int64_t i, double x)
{
    switch (dtype) {
    case LS_F64: ((double *)data)[i] = x; break;
    case LS_BF16: ((ls_bf16 *)data)[i] = ls_bf16_from_f32((float)x); break;
    case LS_F16: ((ls_f16 *)data)[i] = ls_f16_from_f32((float)x); break;
    default: ((float *)data)[i] = (float)x;
    }
}

static double load(const void *data, ls_dtype dtype, int64_t i)
{
    switch (dtype) {
    case LS_F64: return ((const double *)data)[i];
    case LS_BF16: return ls_bf16_to_f32(((const ls_bf16 *)data)[i]);
    case LS_F16: return ls_f16_to_f32(((const ls_f16 *)data)[i]);
    default: return ((const float *)data)[i];
    }
}

/* An operand [rows, k] of random numbers, every fifth line missing, as lines of exactly their size. */
typedef struct operand {
    int64_t rows, k, lines, length;
    double *value; /* [rows, k] */
    void **line;
    ls_gemm_lines source;
} operand;

static operand operand_new(int64_t rows, int64_t k, ls_dtype dtype, bool across)
{
    operand o = {.rows = rows, .k = k, .lines = across ? k : rows, .length = across ? rows : k};
    int64_t offset = 3;
    o.value = calloc((size_t)(rows * k), sizeof *o.value);
    o.line = calloc((size_t)o.lines, sizeof *o.line);
    for (int64_t l = 0; l < o.lines; l++) {
        if (l % 5 == 4) continue;
        o.line[l] = calloc((size_t)(o.length + offset), ls_dtype_size(dtype));
        for (int64_t i = 0; i < o.length; i++) {
            double x = random_number();
            store(o.line[l], dtype, offset + i, x);
            o.value[across ? i * k + l : l * k + i] = x;
        }
    }
    o.source = (ls_gemm_lines){.line = (const void *const *)o.line, .offset = offset, .dtype = dtype, .across = across};
    return o;
}

static void operand_free(operand *o)
{
    for (int64_t l = 0; l < o->lines; l++) free(o->line[l]);
    free(o->line);
    free(o->value);
}

/* Where k of a product may be cut in two: 0 if nowhere. */
static int64_t middle_of(const ls_gemm_kernel *kernel, int64_t k)
{
    int64_t most = kernel->most_k;
    return most ? (k > most ? most : 0) : k / kernel->kr / 2 * kernel->kr;
}

/* A tile over all of k, in as many calls as the kernel wants. */
static void whole_tile(const ls_gemm_kernel *kernel, int64_t k, const char *a, const char *b, void *to, int64_t ldc)
{
    _Alignas(64) char partial[LS_GEMM_MAX_WIDTH * LS_GEMM_MAX_WIDTH * 8];
    int64_t bytes = ls_gemm_packed_bytes(kernel), step = kernel->most_k ? kernel->most_k : k;
    for (int64_t at = 0; at < k; at += step) {
        bool last = at + step >= k;
        kernel->tile(last ? k - at : step, a + at * kernel->a.width * bytes, b + at * kernel->b.width * bytes,
                     at ? partial : NULL, last ? to : partial, last ? ldc : 0);
    }
}

/* All tiles of C = A B with panels packed in two parts of k, multiplied in two runs. */
static void check_product(const ls_gemm_kernel *kernel, const operand *a, const operand *b)
{
    int64_t k = ls_gemm_round_up(a->k, kernel->kr), mr = kernel->a.width, nr = kernel->b.width;
    int64_t panels_a = (a->rows + mr - 1) / mr, panels_b = (b->rows + nr - 1) / nr, split = middle_of(kernel, k);
    size_t bytes = (size_t)ls_gemm_packed_bytes(kernel), sum_bytes = kernel->panel == LS_F64 ? 8 : 4;
    void *pa = aligned_alloc(64, ((size_t)(panels_a * mr * k) * bytes + 63) & ~(size_t)63);
    void *pb = aligned_alloc(64, ((size_t)(panels_b * nr * k) * bytes + 63) & ~(size_t)63);
    void *partial = aligned_alloc(64, LS_GEMM_MAX_WIDTH * LS_GEMM_MAX_WIDTH * 8);
    void *tile = calloc((size_t)(mr * (nr + 5)), sum_bytes);
    ls_gemm_pack(kernel, &kernel->a, pa, mr * k, &a->source, a->rows, a->k);
    ls_gemm_pack(kernel, &kernel->b, pb, nr * k, &b->source, b->rows, b->k);
    if (kernel->begin) kernel->begin();
    for (int64_t i = 0; i < panels_a; i++) {
        for (int64_t j = 0; j < panels_b; j++) {
            const char *ta = (char *)pa + (size_t)(i * mr * k) * bytes, *tb = (char *)pb + (size_t)(j * nr * k) * bytes;
            if (split) kernel->tile(split, ta, tb, NULL, partial, 0);
            kernel->tile(k - split, ta + (size_t)(split * mr) * bytes, tb + (size_t)(split * nr) * bytes,
                         split ? partial : NULL, tile, nr + 5);
            for (int64_t m = 0; m < mr; m++) {
                for (int64_t n = 0; n < nr; n++) {
                    double want = 0, size = 1;
                    bool inside = i * mr + m < a->rows && j * nr + n < b->rows;
                    for (int64_t p = 0; inside && p < a->k; p++) {
                        double term = a->value[(i * mr + m) * a->k + p] * b->value[(j * nr + n) * a->k + p];
                        want += term;
                        size += fabs(term);
                    }
                    double got = load(tile, sum_bytes == 8 ? LS_F64 : LS_F32, m * (nr + 5) + n);
                    CHECK_MSG(fabs(got - want) <= size * 1e-6, "%s: [%d,%d] of %dx%dx%d is %g, not %g", kernel->name,
                              (int)(i * mr + m), (int)(j * nr + n), (int)a->rows, (int)b->rows, (int)a->k, got, want);
                }
            }
        }
    }
    if (kernel->end) kernel->end();
    free(pa);
    free(pb);
    free(partial);
    free(tile);
}

/* Columns of tiles against the tiles they are made of, started with zero and from partial tiles. */
static void check_column(const ls_gemm_kernel *kernel, const operand *a, const operand *b)
{
    int64_t k = ls_gemm_round_up(a->k, kernel->kr), mr = kernel->a.width, nr = kernel->b.width;
    int64_t panels = (a->rows + mr - 1) / mr, split = middle_of(kernel, k);
    size_t bytes = (size_t)ls_gemm_packed_bytes(kernel), sum = kernel->panel == LS_F64 ? sizeof(double) : sizeof(float);
    size_t rows = (size_t)(panels * mr), sums = rows * (size_t)nr;
    char *pa = aligned_alloc(64, (rows * (size_t)k * bytes + 63) & ~(size_t)63);
    char *pb = aligned_alloc(64, ((size_t)(ls_gemm_round_up(b->rows, nr) * k) * bytes + 63) & ~(size_t)63);
    char *partial = aligned_alloc(64, (sums * sum + 63) & ~(size_t)63);
    char *want = calloc(sums, sum), *got = calloc(rows * (size_t)(nr + 3), sum);
    float *bias = calloc((size_t)nr, sizeof *bias);
    size_t results = (rows * (size_t)(nr + 32) * sizeof(float) + 63) & ~(size_t)63;
    void *out = aligned_alloc(64, results), *pre = aligned_alloc(64, results);
    ls_gemm_pack(kernel, &kernel->a, pa, mr * k, &a->source, a->rows, a->k);
    ls_gemm_pack(kernel, &kernel->b, pb, nr * k, &b->source, b->rows, b->k);
    for (int64_t j = 0; j < nr; j++) bias[j] = (float)random_number();
    if (kernel->begin) kernel->begin();
    for (int64_t i = 0; i < panels; i++)
        whole_tile(kernel, k, pa + (size_t)(i * mr * k) * bytes, pb, want + (size_t)(i * mr * nr) * sum, nr);
    for (int variant = 0; variant < 8; variant++) {
        bool whole = variant & 1 || !split, biased = variant & 2 && kernel->column_finishes, stream = variant & 4;
        size_t skip = whole ? 0 : (size_t)split * bytes;
        ls_gemm_column c = {.count = panels, .k = split, .a = pa, .a_stride = mr * k, .b = pb, .to = partial};
        if (whole && kernel->most_k && k > kernel->most_k) continue;
        if (split) ls_gemm_run_column(kernel, &c);
        c.k = whole ? k : k - split;
        c.a = pa + skip * (size_t)mr;
        c.b = pb + skip * (size_t)nr;
        c.from = whole ? NULL : partial;
        c.ahead = (ls_gemm_ahead){pb, variant};
        c.to = got, c.ldc = nr + 3;
        ls_gemm_run_column(kernel, &c);
        for (size_t i = 0; i < rows; i++)
            CHECK(memcmp(got + i * (size_t)(nr + 3) * sum, want + i * (size_t)nr * sum, (size_t)nr * sum) == 0);
        if (!kernel->column_out) continue;
        c.to = out, c.ldc = stream ? nr + 32 : nr + 3;
        c.bias = biased ? bias : NULL, c.stream = stream && (nr + 32) % 32 == 0;
        c.activation = biased ? LS_ACT_RELU : LS_ACT_NONE;
        c.pre = biased ? pre : NULL, c.pre_stride = c.ldc;
        kernel->column_out(&c);
        for (int64_t i = 0; i < (int64_t)sums; i++) {
            int64_t at = i / nr * c.ldc + i % nr;
            float x = ((float *)want)[i] + (biased ? bias[i % nr] : 0), y = biased && !(x > 0) ? 0 : x;
            CHECK(load(out, kernel->out, at) == (kernel->out == LS_F32 ? y : ls_bf16_to_f32(ls_bf16_from_f32(y))));
            if (biased)
                CHECK(load(pre, kernel->out, at) == (kernel->out == LS_F32 ? x : ls_bf16_to_f32(ls_bf16_from_f32(x))));
        }
    }
    if (kernel->end) kernel->end();
    free(pa);
    free(pb);
    free(partial);
    free(bias);
    free(want);
    free(got);
    free(out);
    free(pre);
}

/* Tiles side by side, of one panel of A, are those of columns one panel wide; also sums that continue. */
static void check_row_of_tiles(const ls_gemm_kernel *kernel, const operand *a, const operand *b)
{
    int64_t k = ls_gemm_round_up(a->k, kernel->kr), mr = kernel->a.width, nr = kernel->b.width;
    int64_t panels = (b->rows + nr - 1) / nr, split = middle_of(kernel, k), ld = panels * nr + 3;
    size_t bytes = (size_t)ls_gemm_packed_bytes(kernel), sum = kernel->panel == LS_F64 ? sizeof(double) : sizeof(float);
    size_t sums = (size_t)(mr * panels * nr) * sum;
    char *pa = aligned_alloc(64, ((size_t)(ls_gemm_round_up(a->rows, mr) * k) * bytes + 63) & ~(size_t)63);
    char *pb = aligned_alloc(64, ((size_t)(panels * nr * k) * bytes + 63) & ~(size_t)63);
    char *partial = aligned_alloc(64, (sums + 63) & ~(size_t)63), *want = calloc(1, sums);
    char *got = calloc((size_t)(mr * ld), sum);
    ls_gemm_pack(kernel, &kernel->a, pa, mr * k, &a->source, a->rows, a->k);
    ls_gemm_pack(kernel, &kernel->b, pb, nr * k, &b->source, b->rows, b->k);
    if (kernel->begin) kernel->begin();
    for (int64_t i = 0; i < panels; i++)
        whole_tile(kernel, k, pa, pb + (size_t)(i * nr * k) * bytes, want + (size_t)(i * nr) * sum, panels * nr);
    ls_gemm_column c = {.count = panels, .k = split, .a = pa, .b = pb, .b_stride = nr * k, .to = partial};
    if (split) ls_gemm_run_column(kernel, &c);
    c.k = k - split;
    c.a = pa + (size_t)(split * mr) * bytes;
    c.b = pb + (size_t)(split * nr) * bytes;
    c.from = split ? partial : NULL;
    c.to = got, c.ldc = ld;
    ls_gemm_run_column(kernel, &c);
    if (kernel->end) kernel->end();
    for (int64_t i = 0; i < mr; i++)
        CHECK(memcmp(got + (size_t)(i * ld) * sum, want + (size_t)(i * panels * nr) * sum,
                     (size_t)(panels * nr) * sum) == 0);
    free(pa);
    free(pb);
    free(partial);
    free(want);
    free(got);
}

/* Several tiles with half panels of B, in which k begins later from tile to tile, are those made one by one; the first
 * one is that of a whole panel. */
static void check_halves(const ls_gemm_kernel *kernel, const operand *a, const operand *b)
{
    enum { TILES = 3 };
    int64_t k = ls_gemm_round_up(a->k, kernel->kr), mr = kernel->a.width, nr = kernel->b.width;
    int64_t half = kernel->half_b.width, stride = (k + TILES * kernel->kr) * half;
    int64_t split = middle_of(kernel, k);
    size_t bytes = (size_t)ls_gemm_packed_bytes(kernel), sum = kernel->panel == LS_F64 ? sizeof(double) : sizeof(float);
    size_t tile = (size_t)(mr * nr) * sum, beyond = (size_t)(nr * stride) * bytes;
    char *pa = aligned_alloc(64, ((size_t)(ls_gemm_round_up(a->rows, mr) * k) * bytes + 63) & ~(size_t)63);
    char *pb = aligned_alloc(64, ((size_t)(ls_gemm_round_up(b->rows, nr) * k) * bytes + 63) & ~(size_t)63);
    char *halves =
        aligned_alloc(64, ((size_t)(b->rows / half + 2) * (size_t)stride * bytes + beyond + 63) & ~(size_t)63);
    char *partial = aligned_alloc(64, TILES * tile), *got = aligned_alloc(64, TILES * tile), *want = malloc(tile);
    const void *from[TILES];
    memset(halves, 0, (size_t)(b->rows / half + 2) * (size_t)stride * bytes + beyond);
    ls_gemm_pack(kernel, &kernel->a, pa, mr * k, &a->source, a->rows, a->k);
    ls_gemm_pack(kernel, &kernel->b, pb, nr * k, &b->source, b->rows, b->k);
    ls_gemm_pack(kernel, &kernel->half_b, halves, stride, &b->source, b->rows, b->k);
    if (kernel->begin) kernel->begin();
    for (int i = 0; i < TILES; i++) from[i] = halves + (size_t)(i * kernel->half_step * half) * bytes;
    ls_gemm_halves t = {.count = TILES, .k = split, .a = pa, .b = from, .b_stride = stride, .to = partial};
    t.ahead[0] = (ls_gemm_ahead){pb, 1};
    if (split) ls_gemm_run_halves(kernel, &t);
    for (int i = 0; i < TILES; i++) from[i] = (const char *)from[i] + (size_t)(split * half) * bytes;
    t.k = k - split, t.a = pa + (size_t)(split * mr) * bytes, t.from = split ? partial : NULL;
    t.to = got, t.row_major = true;
    ls_gemm_run_halves(kernel, &t);
    for (int i = 0; i < TILES; i++) {
        const char *at = halves + (size_t)(i * kernel->half_step * half) * bytes;
        kernel->tile_halves(k, pa, at, stride, NULL, want, nr);
        CHECK(memcmp(got + (size_t)i * tile, want, tile) == 0);
    }
    kernel->tile(k, pa, pb, NULL, want, nr);
    CHECK(memcmp(got, want, tile) == 0);
    if (kernel->end) kernel->end();
    free(pa);
    free(pb);
    free(halves);
    free(partial);
    free(got);
    free(want);
}

static void check_kernel(const ls_gemm_kernel *kernel)
{
    static const int64_t sizes[][3] = {{1, 1, 1},     {3, 5, 2},     {12, 8, 8},    {8, 12, 16},  {25, 37, 19},
                                       {9, 130, 300}, {101, 7, 129}, {33, 600, 35}, {70, 40, 410}};
    EACH_TYPE(source)
    {
        for (int turned = 0; turned < 4; turned++) {
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                operand a = operand_new(sizes[s][0], sizes[s][2], source, turned & 1);
                operand b = operand_new(sizes[s][1], sizes[s][2], source, turned & 2);
                check_product(kernel, &a, &b);
                if (kernel->column || kernel->column_out) check_column(kernel, &a, &b);
                check_row_of_tiles(kernel, &a, &b);
                if (kernel->tile_halves) check_halves(kernel, &a, &b);
                operand_free(&a);
                operand_free(&b);
            }
        }
    }
}

#endif
