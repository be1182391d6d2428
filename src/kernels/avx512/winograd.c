/* winograd.c - transforms of 3x3 convolutions with AVX-512. */
#define WINOGRAD_TABLE ls_winograd_avx512
#include "kernels/winograd.inc"
