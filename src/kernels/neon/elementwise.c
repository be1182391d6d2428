/* elementwise.c - elementwise kernels for NEON. */
#define LS_TABLE ls_elementwise_neon
#include "kernels/elementwise.inc"
