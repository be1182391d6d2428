/* elementwise.c - elementwise kernels for AVX2. */
#define LS_TABLE ls_elementwise_avx2
#include "kernels/elementwise.inc"
