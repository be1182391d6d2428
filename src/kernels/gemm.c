/* gemm.c - matrix products: dispatch, and the part of packing common to all kernels.
 *
 * Kernels fill panels from whole blocks of their own type. Here lines are cut into such blocks: padding at the edges
 * comes from a block of zeros, other types are converted through a small buffer in L1. */
#include "kernels/gemm.h"

#include "kernels/kernels.h"

#include <string.h>

#define CHUNK 128      /* elements of a line packed at a time */
#define STRIP 96       /* columns packed side by side: whole cache lines, but few panels, since they share sets; */
#define LONG_SLICE 192 /* but many if slices have as many bytes: memory is read fastest in the order of addresses */

static const double zeros[CHUNK];

static inline int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* A source and the panels it is packed into. */
typedef struct packing {
    const ls_gemm_kernel *kernel;
    const ls_gemm_side *side;
    const ls_gemm_lines *source;
    int64_t from_bytes, bytes, packed; /* of a number: in the source, in lines of the panels' type, in panels */
    bool same_type;
} packing;

/* Copy n bytes in few pieces of fixed size, which may overlap. */
static inline void copy_few(char *to, const char *from, int64_t n)
{
    if (n >= 16) {
        for (int64_t i = 0; i + 16 < n; i += 16) memcpy(to + i, from + i, 16);
        memcpy(to + n - 16, from + n - 16, 16);
    } else if (n >= 8) {
        memcpy(to, from, 8);
        memcpy(to + n - 8, from + n - 8, 8);
    } else if (n >= 4) {
        memcpy(to, from, 4);
        memcpy(to + n - 4, from + n - 4, 4);
    } else memcpy(to, from, 2); /* one 2-byte element */
}

/* Elements of a line starting at `at`, in the panels' type: in place, or the valid ones in `buffer`. */
static inline const void *line_part(const packing *p, int64_t index, int64_t at, int64_t valid, bool in_place,
                                    void *buffer)
{
    const char *line = p->source->line[index];
    if (!line) return zeros;
    line += (p->source->offset + at) * p->from_bytes;
    if (in_place) return line;
    if (p->same_type) copy_few(buffer, line, valid * p->bytes);
    else p->kernel->convert(buffer, line, p->source->dtype, valid);
    return buffer;
}

/* Prefetch the same elements of a line that will be packed soon. */
static inline void prefetch_part(const packing *p, int64_t index, int64_t at, int64_t count)
{
    const char *line = p->source->line[index];
    if (!line) return;
    line += (p->source->offset + at) * p->from_bytes;
    for (int64_t byte = 0; byte < count * p->from_bytes; byte += 64) __builtin_prefetch(line + byte);
}

/* Zero the buffers of `lines` parts of lines where a part of `count` elements exceeds the valid ones. */
static void clear_rest(const packing *p, char *buffer, int64_t lines, int64_t valid, int64_t count)
{
    if (valid == count) return;
    for (int64_t i = 0; i < lines; i++)
        memset(buffer + (i * CHUNK + valid) * p->bytes, 0, (size_t)((count - valid) * p->bytes));
}

static void pack_along(const packing *p, char *panels, int64_t panel_stride, int64_t rows, int64_t k)
{
    double memory[LS_GEMM_MAX_WIDTH * CHUNK];
    char *buffer = (char *)memory;
    const void *line[LS_GEMM_MAX_WIDTH];
    int64_t width = p->side->width, kr = p->kernel->kr, count;
    int64_t ahead = larger(2, LS_GEMM_AHEAD / (smaller(k, CHUNK) * p->from_bytes * width)) * width;
    for (int64_t row = 0; row < rows; row += width, panels += panel_stride * p->packed) {
        int64_t there = smaller(rows - row, width),
                soon = smaller(larger(rows + p->source->more - row - ahead, 0), width);
        for (int64_t i = there; i < width; i++) line[i] = zeros;
        for (int64_t at = 0; at < k; at += count) {
            count = k - at < kr ? kr : smaller((k - at) / kr * kr, CHUNK);
            int64_t valid = smaller(k - at, count);
            bool in_place = p->same_type && valid == count;
            for (int64_t i = 0; i < soon; i++) prefetch_part(p, row + ahead + i, at, valid);
            for (int64_t i = 0; i < there; i++)
                line[i] = line_part(p, row + i, at, valid, in_place, buffer + i * CHUNK * p->bytes);
            clear_rest(p, buffer, there, valid, count);
            p->side->along(panels + at * width * p->packed, line, count);
        }
    }
}

static void pack_across(const packing *p, char *panels, int64_t panel_stride, int64_t rows, int64_t k)
{
    double memory[LS_GEMM_MAX_KR * CHUNK];
    char *buffer = (char *)memory;
    const void *line[LS_GEMM_MAX_KR];
    int64_t width = p->side->width, kr = p->kernel->kr, step = larger(STRIP / width, 1), count;
    if (p->same_type && width * kr * p->bytes >= LONG_SLICE) step = (int64_t)sizeof zeros / (width * p->bytes);
    for (int64_t row = 0; row < rows; row += count * width, panels += count * panel_stride * p->packed) {
        count = rows - row < width ? 1 : smaller((rows - row) / width, step);
        int64_t numbers = count * width, valid = smaller(rows - row, numbers);
        int64_t ahead = larger(2, LS_GEMM_AHEAD / (valid * p->from_bytes * kr)) * kr;
        bool in_place = p->same_type && valid == numbers;
        clear_rest(p, buffer, kr, valid, numbers);
        for (int64_t at = 0; at < k; at += kr) {
            int64_t there = smaller(k - at, kr), soon = smaller(larger(k + p->source->more - at - ahead, 0), kr);
            for (int64_t j = 0; j < soon; j++) prefetch_part(p, at + ahead + j, row, valid);
            for (int64_t j = 0; j < there; j++)
                line[j] = line_part(p, at + j, row, valid, in_place, buffer + j * CHUNK * p->bytes);
            for (int64_t j = there; j < kr; j++) line[j] = zeros;
            p->side->across(panels + at * width * p->packed, panel_stride, line, count);
        }
    }
}

void ls_gemm_pack(const ls_gemm_kernel *kernel, const ls_gemm_side *side, void *panels, int64_t panel_stride,
                  const ls_gemm_lines *source, int64_t rows, int64_t k)
{
    packing p = {kernel,
                 side,
                 source,
                 (int64_t)ls_dtype_size(source->dtype),
                 (int64_t)ls_dtype_size(kernel->panel),
                 ls_gemm_packed_bytes(kernel),
                 source->dtype == kernel->panel};
    (source->across ? pack_across : pack_along)(&p, panels, panel_stride, rows, k);
}

/* ---- columns of tiles -------------------------------------------------------------------------------------------- */

void ls_gemm_run_column(const ls_gemm_kernel *kernel, const ls_gemm_column *c)
{
    if (kernel->column) {
        kernel->column(c);
        return;
    }
    int64_t mr = kernel->a.width, nr = kernel->b.width;
    int64_t sums = kernel->panel == LS_F64 ? 8 : 4, bytes = ls_gemm_packed_bytes(kernel);
    int64_t a_step = c->a_stride * bytes, b_step = c->b_stride * bytes;
    int64_t to_step = (!c->ldc ? mr * nr : c->b_stride ? nr : mr * c->ldc) * sums;
    int64_t from_step = mr * nr * sums, lines = c->ahead.lines ? (c->ahead.lines + c->count - 1) / c->count : 0;
    const char *a = c->a, *b = c->b, *from = c->from, *ahead = c->ahead.at;
    char *to = c->to;
    for (int64_t i = 0; i < c->count; i++, a += a_step, b += b_step, to += to_step) {
        for (int64_t line = 0; line < lines; line++, ahead += 64) __builtin_prefetch(ahead, 0, 2);
        kernel->tile(c->k, a, b, from, to, c->ldc);
        if (from) from += from_step;
    }
}

void ls_gemm_run_halves(const ls_gemm_kernel *kernel, const ls_gemm_halves *t)
{
    if (kernel->halves) {
        kernel->halves(t);
        return;
    }
    int64_t sums = (int64_t)kernel->a.width * kernel->b.width * (kernel->panel == LS_F64 ? 8 : 4);
    for (int64_t i = 0; i < t->count; i++)
        kernel->tile_halves(t->k, t->a, t->b[i], t->b_stride, t->from ? (const char *)t->from + i * sums : NULL,
                            (char *)t->to + i * sums, t->row_major ? kernel->b.width : 0);
}

/* ---- dispatch ---------------------------------------------------------------------------------------------------- */

static ls_gemm_table tables[LS_ISA_COUNT];
static const ls_family_field fields[] = {LS_FAMILY_FIELD(ls_gemm_table, f32),
                                         LS_FAMILY_FIELD(ls_gemm_table, f64),
                                         LS_FAMILY_FIELD(ls_gemm_table, bf16),
                                         LS_FAMILY_FIELD(ls_gemm_table, f16),
                                         LS_FAMILY_FIELD(ls_gemm_table, finish_f32),
                                         LS_FAMILY_FIELD(ls_gemm_table, finish_f64),
                                         LS_FAMILY_FIELD(ls_gemm_table, moments_f32),
                                         LS_FAMILY_FIELD(ls_gemm_table, channelwise_f32),
                                         LS_FAMILY_FIELD(ls_gemm_table, channelwise_f64),
                                         LS_FAMILY_FIELD(ls_gemm_table, points_f32),
                                         LS_FAMILY_FIELD(ls_gemm_table, large_f32)};
ls_family ls_family_gemm = {
    .name = "gemm",
    .fields = fields,
    .field_count = (int)(sizeof fields / sizeof *fields),
    .bytes = sizeof *tables,
    .tables = tables,
    .offers =
        {
            [LS_ISA_REF] = &ls_gemm_ref,
#if defined(__aarch64__)
            [LS_ISA_NEON] = &ls_gemm_neon,
            [LS_ISA_NEON_BF16] = &ls_gemm_neon_bf16,
#elif defined(__x86_64__)
            [LS_ISA_AVX2] = &ls_gemm_avx2,
            [LS_ISA_AVX512] = &ls_gemm_avx512,
            [LS_ISA_AVX512_BF16] = &ls_gemm_avx512_bf16,
            [LS_ISA_AMX] = &ls_gemm_amx,
#endif
        },
};

const ls_gemm_table *ls_gemm(void)
{
    return ls_family_table(&ls_family_gemm);
}

const ls_gemm_kernel *const *ls_gemm_kernels(ls_dtype compute)
{
    const ls_gemm_table *table = ls_gemm();
    switch (compute) {
    case LS_F64: return table->f64;
    case LS_BF16: return table->bf16;
    case LS_F16: return table->f16;
    default: return table->f32;
    }
}
