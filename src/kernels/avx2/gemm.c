/* gemm.c - matrix products with AVX2 and FMA: 12 of 16 registers hold sums. */
#define ISA "avx2"
#define TABLE ls_gemm_avx2
#define ROWS 6
#define POINT_ROWS 6
#define POINT_CHANNELS 320
#include "kernels/x86/gemm_fma.inc"
