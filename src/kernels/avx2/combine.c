/* combine.c - rows combined with AVX2. */
#define COMBINE_TABLE ls_combine_avx2
#include "kernels/combine.inc"
