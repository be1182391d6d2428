/* elementwise.c - elementwise kernels for NEON. */
#define LS_TABLE ls_elementwise_neon
#define LS_LOOKUP
#include "kernels/elementwise.inc"
