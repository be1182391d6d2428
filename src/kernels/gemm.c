/* gemm.c - matrix products: the choice of kernels, and the part of packing that is the same for all of them.
 *
 * Kernels fill panels from whole blocks of numbers of their own type. Here lines are cut into such blocks: what is
 * missing at the edges comes from a block of zeros, what has another type goes through a small buffer in L1. */
#include "kernels/gemm.h"

#include "kernels/kernels.h"

#include <string.h>

#define CHUNK 128 /* numbers of a line that are packed at a time */
#define STRIP                                                                                                          \
    96 /* columns that are packed side by side: whole cache lines, and few panels that fight for a cache set */

static const double zeros[CHUNK];

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* `count` numbers from `at` on of a line, in the panel's type: in place, or from `buffer`. Beyond `valid` they are zeros. */
static const void *line_part(const ls_gemm_kernel *kernel, const ls_gemm_lines *source, int64_t index, int64_t at,
                             int64_t valid, int64_t count, void *buffer)
{
    if (!source->line[index]) return zeros;
    const char *from =
        (const char *)source->line[index] + (source->offset + at) * (int64_t)ls_dtype_size(source->dtype);
    if (source->dtype == kernel->panel && valid == count) return from;
    size_t bytes = ls_dtype_size(kernel->panel);
    kernel->convert(buffer, from, source->dtype, valid);
    memset((char *)buffer + (size_t)valid * bytes, 0, (size_t)(count - valid) * bytes);
    return buffer;
}

static void pack_along(const ls_gemm_kernel *kernel, const ls_gemm_side *side, char *panels, int64_t panel_stride,
                       const ls_gemm_lines *source, int64_t rows, int64_t k)
{
    double buffer[LS_GEMM_MAX_WIDTH][CHUNK];
    const void *line[LS_GEMM_MAX_WIDTH];
    int64_t bytes = (int64_t)ls_dtype_size(kernel->panel);
    for (int64_t row = 0; row < rows; row += side->width, panels += panel_stride * bytes) {
        int64_t count;
        for (int64_t at = 0; at < k; at += count) {
            count = k - at < kernel->kr ? kernel->kr : smaller((k - at) / kernel->kr * kernel->kr, CHUNK);
            for (int i = 0; i < side->width; i++) {
                line[i] = row + i >= rows
                              ? zeros
                              : line_part(kernel, source, row + i, at, smaller(k - at, count), count, buffer[i]);
            }
            side->along(panels + at * side->width * bytes, line, count);
        }
    }
}

static void pack_across(const ls_gemm_kernel *kernel, const ls_gemm_side *side, char *panels, int64_t panel_stride,
                        const ls_gemm_lines *source, int64_t rows, int64_t k)
{
    double buffer[LS_GEMM_MAX_KR][CHUNK];
    const void *line[LS_GEMM_MAX_KR];
    int64_t bytes = (int64_t)ls_dtype_size(kernel->panel), step = side->width < STRIP ? STRIP / side->width : 1, count;
    for (int64_t row = 0; row < rows; row += count * side->width, panels += count * panel_stride * bytes) {
        count = rows - row < side->width ? 1 : smaller((rows - row) / side->width, step);
        int64_t numbers = count * side->width, valid = smaller(rows - row, numbers);
        for (int64_t at = 0; at < k; at += kernel->kr) {
            for (int j = 0; j < kernel->kr; j++)
                line[j] = at + j >= k ? zeros : line_part(kernel, source, at + j, row, valid, numbers, buffer[j]);
            side->across(panels + at * side->width * bytes, panel_stride, line, count);
        }
    }
}

void ls_gemm_pack(const ls_gemm_kernel *kernel, const ls_gemm_side *side, void *panels, int64_t panel_stride,
                  const ls_gemm_lines *source, int64_t rows, int64_t k)
{
    (source->across ? pack_across : pack_along)(kernel, side, panels, panel_stride, source, rows, k);
}

/* ---- choice ------------------------------------------------------------------------------------------------------ */

static ls_gemm_table tables[LS_ISA_COUNT];
static ls_family family = {.bytes = sizeof *tables,
                           .tables = tables,
                           .offers = {
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
                           }};

const ls_gemm_table *ls_gemm(void)
{
    return ls_family_table(&family);
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
