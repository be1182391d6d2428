/* combine.c - rows combined with AVX-512. */
#define COMBINE_TABLE ls_combine_avx512
#include "kernels/combine.inc"
