/* norm.c - normalisation with AVX2. */
#define LS_NORM_TABLE ls_norm_avx2
#include "kernels/norm.inc"
