/* gemm_rows.h - VDPBF16PS: each lane's sum grows by both products of two pairs. Subnormals are treated as zero. */
#ifndef LOCKSTEP_KERNELS_AVX512_BF16_GEMM_ROWS_H
#define LOCKSTEP_KERNELS_AVX512_BF16_GEMM_ROWS_H

#include "kernels/x86/gemm_rows.h"

LS_GEMM_ROWS(bf16, sums_bf16, uint32_t, "vpbroadcastd", "vdpbf16ps")

#endif
