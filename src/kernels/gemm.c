/* gemm.c - matrix products: the choice of kernels, and the part of packing that is the same for all of them.
 *
 * Kernels fill panels from whole blocks of numbers of their own type. Here lines are cut into such blocks: what is
 * missing at the edges comes from a block of zeros, what has another type goes through a small buffer in L1. */
#include "kernels/gemm.h"

#include "kernels/kernels.h"

#include <string.h>

#define CHUNK 128 /* numbers of a line that are packed at a time */
#define STRIP 96  /* columns packed side by side: whole cache lines, but few panels, for they share cache sets */

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
    int64_t from_bytes, bytes; /* of a number: in the source, in the panels */
    bool same_type;
} packing;

/* `count` numbers from `at` on of a line, in the panels' type: in place, or from `buffer`. Beyond `valid` they are zeros. */
static inline const void *line_part(const packing *p, int64_t index, int64_t at, int64_t valid, int64_t count,
                                    void *buffer)
{
    const char *line = p->source->line[index];
    if (!line) return zeros;
    line += (p->source->offset + at) * p->from_bytes;
    if (p->same_type && valid == count) return line;
    p->kernel->convert(buffer, line, p->source->dtype, valid);
    memset((char *)buffer + valid * p->bytes, 0, (size_t)((count - valid) * p->bytes));
    return buffer;
}

/* The same numbers of a line that will be packed soon, on their way to the cache. */
static inline void prefetch_part(const packing *p, int64_t index, int64_t at, int64_t count)
{
    const char *line = p->source->line[index];
    if (!line) return;
    line += (p->source->offset + at) * p->from_bytes;
    for (int64_t byte = 0; byte < count * p->from_bytes; byte += 64) __builtin_prefetch(line + byte);
}

static void pack_along(const packing *p, char *panels, int64_t panel_stride, int64_t rows, int64_t k)
{
    double buffer[LS_GEMM_MAX_WIDTH][CHUNK];
    const void *line[LS_GEMM_MAX_WIDTH];
    int64_t width = p->side->width, kr = p->kernel->kr, count;
    int64_t ahead = larger(2, LS_GEMM_AHEAD / (smaller(k, CHUNK) * p->from_bytes * width)) * width;
    for (int64_t row = 0; row < rows; row += width, panels += panel_stride * p->bytes) {
        for (int64_t at = 0; at < k; at += count) {
            count = k - at < kr ? kr : smaller((k - at) / kr * kr, CHUNK);
            int64_t valid = smaller(k - at, count), there = smaller(rows - row, width);
            int64_t soon = smaller(larger(rows + p->source->more - row - ahead, 0), width);
            for (int64_t i = 0; i < soon; i++) prefetch_part(p, row + ahead + i, at, valid);
            for (int64_t i = 0; i < there; i++) line[i] = line_part(p, row + i, at, valid, count, buffer[i]);
            for (int64_t i = there; i < width; i++) line[i] = zeros;
            p->side->along(panels + at * width * p->bytes, line, count);
        }
    }
}

static void pack_across(const packing *p, char *panels, int64_t panel_stride, int64_t rows, int64_t k)
{
    double buffer[LS_GEMM_MAX_KR][CHUNK];
    const void *line[LS_GEMM_MAX_KR];
    int64_t width = p->side->width, kr = p->kernel->kr, step = width < STRIP ? STRIP / width : 1, count;
    for (int64_t row = 0; row < rows; row += count * width, panels += count * panel_stride * p->bytes) {
        count = rows - row < width ? 1 : smaller((rows - row) / width, step);
        int64_t numbers = count * width, valid = smaller(rows - row, numbers);
        int64_t ahead = larger(2, LS_GEMM_AHEAD / (valid * p->from_bytes * kr)) * kr;
        for (int64_t at = 0; at < k; at += kr) {
            int64_t there = smaller(k - at, kr), soon = smaller(larger(k + p->source->more - at - ahead, 0), kr);
            for (int64_t j = 0; j < soon; j++) prefetch_part(p, at + ahead + j, row, valid);
            for (int64_t j = 0; j < there; j++) line[j] = line_part(p, at + j, row, valid, numbers, buffer[j]);
            for (int64_t j = there; j < kr; j++) line[j] = zeros;
            p->side->across(panels + at * width * p->bytes, panel_stride, line, count);
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
                 source->dtype == kernel->panel};
    (source->across ? pack_across : pack_along)(&p, panels, panel_stride, rows, k);
}

/* ---- choice ------------------------------------------------------------------------------------------------------ */

static ls_gemm_table tables[LS_ISA_COUNT];
static const ls_family_field fields[] = {LS_FAMILY_FIELD(ls_gemm_table, f32),
                                         LS_FAMILY_FIELD(ls_gemm_table, f64),
                                         LS_FAMILY_FIELD(ls_gemm_table, bf16),
                                         LS_FAMILY_FIELD(ls_gemm_table, f16),
                                         LS_FAMILY_FIELD(ls_gemm_table, finish_f32),
                                         LS_FAMILY_FIELD(ls_gemm_table, finish_f64),
                                         LS_FAMILY_FIELD(ls_gemm_table, channelwise_f32),
                                         LS_FAMILY_FIELD(ls_gemm_table, channelwise_f64)};
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
