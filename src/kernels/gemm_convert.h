/* gemm_convert.h - n numbers of any floating type to the type of panels, on every ISA with vectors. */
#ifndef LOCKSTEP_KERNELS_GEMM_CONVERT_H
#define LOCKSTEP_KERNELS_GEMM_CONVERT_H

#include "base/half.h"
#include "kernels/simd.h"

#include <lockstep/plugin.h>

#define LS_GEMM_BLOCK 256 /* elements that pass through all finishing steps while in L1 */

/* LS_GEMM_EACH(n, full, part): `full` for every whole vector at i, then `part` for the last `left` elements. */
#define LS_GEMM_EACH(n, full, part)                                                                                    \
    do {                                                                                                               \
        int64_t i = 0, left = (n) % LS_VF_LANES;                                                                       \
        _Pragma("GCC unroll 4") for (; i + left < (n); i += LS_VF_LANES) full;                                         \
        if (left) part;                                                                                                \
    } while (0)

/* n elements of any floating type to f32. */
__attribute__((unused)) static void ls_gemm_convert_f32(void *to, const void *from, ls_dtype dtype, int64_t n)
{
    float *out = to;
    const uint16_t *half = from;
    switch (dtype) {
    case LS_BF16:
        LS_GEMM_EACH(n, ls_vf_store(out + i, ls_vf_load_bf16(half + i)),
                     ls_vf_store_part(out + i, ls_vf_load_bf16_part(half + i, left), left));
        break;
    case LS_F16:
        LS_GEMM_EACH(n, ls_vf_store(out + i, ls_vf_load_f16(half + i)),
                     ls_vf_store_part(out + i, ls_vf_load_f16_part(half + i, left), left));
        break;
    case LS_F64:
        for (int64_t i = 0; i < n; i++) out[i] = (float)((const double *)from)[i];
        break;
    default: memcpy(to, from, (size_t)n * sizeof *out);
    }
}

/* n elements of f32 to any floating type. */
__attribute__((unused)) static void ls_gemm_store(void *to, ls_dtype dtype, const float *from, int64_t n)
{
    uint16_t *half = to;
    switch (dtype) {
    case LS_BF16:
        LS_GEMM_EACH(n, ls_vf_store_bf16(half + i, ls_vf_load(from + i)),
                     ls_vf_store_bf16_part(half + i, ls_vf_load_part(from + i, left), left));
        break;
    case LS_F16:
        LS_GEMM_EACH(n, ls_vf_store_f16(half + i, ls_vf_load(from + i)),
                     ls_vf_store_f16_part(half + i, ls_vf_load_part(from + i, left), left));
        break;
    case LS_F64:
        for (int64_t i = 0; i < n; i++) ((double *)to)[i] = from[i];
        break;
    default:
        LS_GEMM_EACH(n, ls_vf_store((float *)to + i, ls_vf_load(from + i)),
                     ls_vf_store_part((float *)to + i, ls_vf_load_part(from + i, left), left));
    }
}

/* n elements of any floating type to bf16. */
__attribute__((unused)) static void ls_gemm_convert_bf16(void *to, const void *from, ls_dtype dtype, int64_t n)
{
    if (dtype == LS_BF16) memcpy(to, from, (size_t)n * sizeof(ls_bf16));
    else if (dtype == LS_F32) ls_gemm_store(to, LS_BF16, from, n);
    else {
        float block[LS_GEMM_BLOCK];
        for (int64_t at = 0; at < n; at += LS_GEMM_BLOCK) {
            int64_t count = n - at < LS_GEMM_BLOCK ? n - at : LS_GEMM_BLOCK;
            ls_gemm_convert_f32(block, (const char *)from + (size_t)at * ls_dtype_size(dtype), dtype, count);
            ls_gemm_store((ls_bf16 *)to + at, LS_BF16, block, count);
        }
    }
}

#endif
