/* combine.c - rows combined with NEON. */
#define COMBINE_TABLE ls_combine_neon
#include "kernels/combine.inc"
