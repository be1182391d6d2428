/* combine.c - rows combined with NEON with bf16 conversion. */
#define COMBINE_TABLE ls_combine_neon_bf16
#include "kernels/combine.inc"
