/* winograd.c - transforms of 3x3 convolutions with AVX2. */
#define WINOGRAD_TABLE ls_winograd_avx2
#include "kernels/winograd.inc"
