/* elementwise.c - elementwise kernels for AVX-512. */
#define LS_TABLE ls_elementwise_avx512
#include "kernels/elementwise.inc"
