/* gemm.c - bf16 matrix products with VDPBF16PS: 24 of 32 registers hold sums. */
#include "kernels/gemm.h"

typedef float sums_bf16 __attribute__((vector_size(64)));
#include "kernels/avx512_bf16/gemm_rows.h"

#define ISA "avx512-bf16"
#define ROWS 12
#define STEPS 4
#define SUM float
#define SUM_IS_F32 1
#define VECTOR sums_bf16
#include "kernels/x86/gemm_pairs.inc"

const ls_gemm_table ls_gemm_avx512_bf16 = {
    .bf16 = {&wide_bf16, &tall_bf16},
    .finish_f32 = ls_gemm_finish_f32,
    .channelwise_f32 = ls_gemm_channelwise_f32,
};
