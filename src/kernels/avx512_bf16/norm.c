/* norm.c - normalisation with AVX-512 with bf16 conversions. */
#define LS_NORM_TABLE ls_norm_avx512_bf16
#include "kernels/norm.inc"
