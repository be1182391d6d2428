/* norm.c - normalisation with NEON with BF16. */
#define LS_NORM_TABLE ls_norm_neon_bf16
#include "kernels/norm.inc"
