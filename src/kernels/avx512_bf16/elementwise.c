/* elementwise.c - elementwise kernels for AVX-512 with bf16 conversions. */
#define LS_TABLE ls_elementwise_avx512_bf16
#include "kernels/elementwise.inc"
