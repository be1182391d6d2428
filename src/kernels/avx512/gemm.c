/* gemm.c - matrix products with AVX-512: 24 of 32 registers hold sums. */
#define ISA "avx512"
#define TABLE ls_gemm_avx512
#define ROWS 12
#include "kernels/x86/gemm_fma.inc"
