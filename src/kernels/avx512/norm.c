/* norm.c - normalisation with AVX-512. */
#define LS_NORM_TABLE ls_norm_avx512
#include "kernels/norm.inc"
