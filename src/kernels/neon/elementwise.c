/* elementwise.c - elementwise kernels for NEON. */
#define LS_TABLE ls_elementwise_neon
#define LS_LOOKUP_SLOPES
#include "kernels/elementwise.inc"
