/* elementwise.c - elementwise kernels for NEON with BF16 conversions. */
#define LS_TABLE ls_elementwise_neon_bf16
#define LS_LOOKUP_SLOPES
#include "kernels/elementwise.inc"
