/* combine.c - rows combined with AVX-512 with bf16 conversion. */
#define COMBINE_TABLE ls_combine_avx512_bf16
#include "kernels/combine.inc"
