/* norm.c - normalisation with NEON. */
#define LS_NORM_TABLE ls_norm_neon
#include "kernels/norm.inc"
